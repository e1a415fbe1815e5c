"""The first aborted transaction behind a clean stop: its entry follows those that are there.

Behind the first change nothing has to be written, or synced, before the marker of an abort.
"""

from __future__ import annotations

import errno
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, encode_end_transaction_marker
from segstore.errors import DiskFullError
from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Settings, run_script
from tests.crash.seen_images import SeenImages
from tests.crash.test_crash_scripts import ALPHABET, PRELUDE, crashes_behind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.crash_script import Run

ABORT = Operation("abort", 2)
STOPPED = [
    Operation("transactional", 1),
    Operation("abort", 1),
    Operation("transactional", 2),
    Operation("close"),
]
SETTINGS = [Settings(), Settings(segment_bytes=100_000), Settings("sync", segment_bytes=100_000)]
LARGE = SETTINGS[1]


def check_from_the_stop_on(run: Run, seeds: int) -> None:
    begin = next(step.begin for step in run.steps if step.operation.kind == "close")
    for number, crash in enumerate(crashes_behind(run, begin, seeds)):
        check_crash(run, crash, thoroughly=number % 5 == 0)


@pytest.mark.parametrize("other", ALPHABET, ids=str)
def test_every_two_operations_with_an_abort(
    other: Operation, few_or_many: Callable[[int, int], int], one_in: Callable[[int], int]
):
    """[DUR-1, DUR-5, DUR-8, DUR-112] Who reads committed data finds no aborted record."""
    for settings in SETTINGS[ALPHABET.index(other) % one_in(5) :: one_in(5)]:
        seen = SeenImages()
        for two in ([ABORT, other], [other, ABORT]):
            run = run_script([*STOPPED, *two], settings, prelude=PRELUDE, seen=seen)
            check_from_the_stop_on(run, few_or_many(1, 4))


def test_stops_and_aborts_in_turn(few_or_many: Callable[[int, int], int]):
    """[DUR-8, DUR-24] What the first stop has left is not what the second one leaves."""
    script = [*STOPPED, ABORT, Operation("close"), Operation("transactional", 1)]
    script += [Operation("abort", 1), Operation("roll"), Operation("background"), *STOPPED]
    for settings in SETTINGS:
        run = run_script(script, settings, prelude=PRELUDE)
        check_from_the_stop_on(run, few_or_many(1, 4))


def test_nothing_is_synced_under_the_append_lock():
    """[DUR-22, DUR-29, DUR-69] Without a durability that asks for it, behind any of the two.

    The first change after a clean stop is another one: it removes the clean marker [DUR-24].
    """
    first = Operation("transactional", 1)
    run = run_script(
        [*STOPPED, first, ABORT, Operation("transactional", 1), Operation("abort", 1)], LARGE
    )
    calls = [
        run.disk.event(number).call
        for step in run.steps
        if step.operation.kind == "abort"
        for number in range(step.begin + 1, step.end + 1)
    ]
    assert "write_at" in calls
    assert not [call for call in calls if call.startswith("sync") or call == "rename"]


def test_a_marker_that_finds_no_room_leaves_no_trace():
    """[DUR-30, DUR-32] The line of its abort had room already."""
    run = run_script(STOPPED, LARGE)
    disk = Crash(run.disk.effects, "kept").image(run.disk)
    index = f"{0:020d}.txnindex"
    with closing(LARGE.open(disk)) as log:
        before = log.log_end_offset, log.last_stable_offset
        abort = marker_of_2(log.log_end_offset)
        for number in (1, 2):  # the line, then the batch
            disk.fail("write_at", number, errno.ENOSPC)
            with pytest.raises(DiskFullError):
                log.append_as_follower(abort, 0)
            assert (log.log_end_offset, log.last_stable_offset) == before
            assert Directory(PATH, disk).info(index).size == 34
        log.append_as_follower(abort, 0)
        assert log.last_stable_offset == log.log_end_offset
    assert Directory(PATH, disk).info(index).size == 68


def marker_of_2(offset: int) -> bytes:
    return encode_end_transaction_marker(offset, 0, 0, 2, 0, commit=False, coordinator_epoch=0)
