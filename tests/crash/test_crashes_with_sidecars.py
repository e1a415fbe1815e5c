"""No power cut leaves a checksum sidecar that condemns good bytes [DUR-60].

Of the crashed directory, where nothing was repaired yet, every segment but the last is compared
with its sidecar; so is it at every look at an opened log (`crash_check.look`), also behind a crash
within its recovery.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING

import pytest

from segstore._core import Barrier, DataFile, Directory, FileBarrier, SegmentContext
from segstore.errors import LogNotFoundError
from segstore.log.check.checksum_sidecar_check import all_headers, check_sidecar
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER, LOG_STATE
from segstore.log.local.checksum_sidecars import ChecksumSidecars
from segstore.log.local.segment import Segment
from segstore.records.compression import codec_table
from tests.crash.crash_check import Crash, check_crash, look
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, ScriptRunner, Settings, run_random_script, run_script
from tests.crash.test_crash_scripts import ALPHABET, FATES, PRELUDE, crashes_behind

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import SimulatedDisk
    from tests.crash.crash_script import Run

SETTINGS = Settings(checksum_sidecar=True)
BEGIN = [Operation("background")]  # the prelude's sealed segments have theirs
PARTS = 5
EPOCH_AT = 12


def read_sidecars(disk: SimulatedDisk) -> int:
    """Compare each with its segment as `segstore verify` does; return how many fit."""
    try:
        directory = Directory(PATH, disk)
    except LogNotFoundError:  # a crash before it was made
        return 0
    context = SegmentContext(directory, codec_table(), writable=False)
    fitting = 0
    for base_offset in directory.segment_listing().base_offsets("log")[:-1]:
        headers = partial(all_headers, Segment(context, base_offset))
        found = check_sidecar(directory, base_offset, headers, is_believed=True)
        assert found is None or found.fits, found
        fitting += found is not None
    return fitting


def check(run: Run, crash: Crash, *, thoroughly: bool) -> int:
    """Look at the crash as a reader and as a writer; return how many sidecars the reader has."""
    try:
        fitting = read_sidecars(crash.image(run.disk))
        check_crash(run, crash, thoroughly=thoroughly)
    except Exception as error:
        operations = " ".join(str(step.operation) for step in run.steps)
        msg = f"{operations}\n{run.settings}\n{crash}: {error!r}"
        raise AssertionError(msg) from error
    return fitting


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", ALPHABET, ids=str)
def test_every_operation_behind_sealed_segments_and_a_refill(
    first: Operation, few_or_many: Callable[[int, int], int]
):
    """[DUR-60, DUR-112] What was cut is written again, to the same bases and sizes or others."""
    begin = run_script(BEGIN, SETTINGS, prelude=PRELUDE)
    refill = [Operation("append", 3), Operation("append", 2), Operation("roll")]
    run = run_script([*BEGIN, first, *refill, *BEGIN], SETTINGS, prelude=PRELUDE)
    fitting = 0
    for crash in crashes_behind(run, begin.disk.effects, few_or_many(1, 6)):
        fitting += check(run, crash, thoroughly=crash.effects % few_or_many(5, 2) == 0)
    assert fitting > 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_scripts_with_sidecars(part: int, few_or_many: Callable[[int, int], int]):
    """[DUR-1, DUR-2, DUR-5, DUR-60]"""
    scripts, fitting = few_or_many(40, 600), 0
    for seed in range(part * scripts, (part + 1) * scripts):
        run = run_random_script(seed, 14, checksum_sidecar=True)
        choice = random.Random(seed)
        for number in range(4):
            at = choice.randint(run.disk.effects // 2, run.disk.effects)
            crash = Crash(at, choice.choice(FATES), choice.getrandbits(32))
            fitting += check(run, crash, thoroughly=number == 0)
    assert fitting > 0


def test_a_sidecar_that_stays_when_its_segment_is_cut_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
):
    """[DUR-110] The check itself, and that the removal is needed."""
    monkeypatch.setattr(ChecksumSidecars, "forget_from", lambda *_: None)
    script = [*BEGIN, Operation("truncate_to", 1), Operation("append", 3), Operation("roll")]
    run = run_script(script, SETTINGS, prelude=PRELUDE)
    image = Crash(run.disk.effects, "kept").image(run.disk)
    with pytest.raises(
        AssertionError, match=r"had \d+ when it was sealed|changed after it was sealed"
    ):
        read_sidecars(image)
    with pytest.raises(AssertionError, match=r"sealed"):
        look(image, SETTINGS)


def test_a_removal_that_is_not_durable_would_be_noticed():
    """[DUR-16, DUR-110] Without the sync before the cut a sidecar may come back, of other bytes."""
    run = run_script([*BEGIN, Operation("truncate_to", 1)], SETTINGS, prelude=PRELUDE)
    events = {number: run.disk.event(number) for number in range(1, run.disk.effects + 1)}
    removed = next(
        number
        for number, event in events.items()
        if event.call == "unlink" and event.name.endswith(".segsum")
    )
    syncs = (number for number in events if events[number].call == "sync_directory")
    ignored = tuple(number for number in syncs if number > removed)
    wrong = []
    for effects in range(removed, run.disk.effects + 1):
        for seed in range(20):
            image = Crash(effects, "seed", seed, ignored).image(run.disk)
            try:
                read_sidecars(image)
            except AssertionError as error:
                wrong.append(str(error))
    assert any("was sealed" in one for one in wrong)


def test_the_scripts_have_sidecars():
    """Of the prelude's segments, but for the active one."""
    run = run_script(BEGIN, SETTINGS, prelude=PRELUDE)
    image = Crash(run.disk.effects, "lost").image(run.disk)
    assert read_sidecars(image) >= 1
    assert look(image, SETTINGS).found.log_end > 0


@pytest.mark.parametrize("ignores", [False, True], ids=["synced", "not synced"])
def test_what_an_open_removes_does_not_come_back(*, ignores: bool):
    """[DUR-55, DUR-60, DUR-110] A broker wrote; ``.segstore`` fits again behind the open.

    Until the open ends nothing else brings the removal to the disk.
    """
    runner = ScriptRunner(SETTINGS._replace(in_log_directory=True))
    for number in range(PRELUDE):
        runner.do(Operation("append", 1 + number % 3))
    runner.do(Operation("background"))
    runner.do(Operation("close"))
    directory = Directory(PATH, runner.disk)
    runner.abandon()
    directory.unlink(LOG_STATE)
    SETTINGS.open(runner.disk).close()  # nothing that is known was written before
    with SETTINGS.open(runner.disk) as log:
        assert log.write_checksum_sidecars().written > 0
    name, above = f"{0:020d}.log", Directory(os.path.dirname(PATH), runner.disk)  # noqa: PTH120
    with DataFile(directory, name) as file:
        file.write(EPOCH_AT, b"\x7f")  # as if it was compacted
        file.sync(Barrier.APPENDED_RECORDS)
    directory.unlink(CLEAN_SHUTDOWN_MARKER)
    directory.sync(Barrier.CLEAN_MARKER_GONE)
    above.create_file(CLEAN_SHUTDOWN_MARKER, b"", FileBarrier.CLEAN_MARKER)

    begin = runner.disk.effects
    log = SETTINGS.open(runner.disk)
    log.close_quietly()
    end = runner.disk.effects
    events = {number: runner.disk.event(number) for number in range(begin + 1, end + 1)}
    removed = min(n for n, event in events.items() if event.name.endswith(".segsum"))
    sync = min(n for n, event in events.items() if event.call == "sync_directory" and n > removed)
    ignored, wrong = (sync,) if ignores else (), []
    for effects in range(sync, end + 1):
        for seed in range(20):
            try:
                read_sidecars(Crash(effects, "seed", seed, ignored).image(runner.disk))
            except AssertionError as error:
                wrong.append(str(error))

    assert any("changed after it was sealed" in one for one in wrong) == ignores
    assert ignores or not wrong
