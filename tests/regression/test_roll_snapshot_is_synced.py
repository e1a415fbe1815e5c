"""The producer snapshot of a roll was still unsynced when something relied on it.

The background thread syncs it. A close that came before dropped that task, found the snapshot taken
and called the log clean; deleting records took away the older snapshot, and what it told.
"""

from __future__ import annotations

import errno
from contextlib import closing

import pytest

from segstore.errors import FsyncFailedError
from tests.crash.crash_check import Crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Run, Settings, run_script

LARGE = Settings(segment_bytes=100_000)
SEEDS = 30
FIRST = [
    Operation("idempotent", 3),
    Operation("roll"),
    Operation("background", 0),
    Operation("append", 1),
]
ROLL = Operation("roll")
DELETE = Operation("delete_records", 2)


def marker_is_durable(run: Run) -> int:
    """Number of the effect with which the clean marker of the script's close survives."""
    events = [run.disk.event(number) for number in range(1, run.disk.effects + 1)]
    created = max(
        number
        for number, event in enumerate(events)
        if event.call == "sync_file" and event.name.endswith(".kafka_cleanshutdown")
    )
    assert events[created + 1].call == "sync_directory"
    return created + 2


def producers_behind(run: Run, effects: int) -> set[tuple[bool, tuple[int, ...], bool]]:
    """Return what opens behind a crash say: clean or not, producers, warned or not."""
    found = set()
    for seed in range(SEEDS):
        with closing(LARGE.open(Crash(effects, "seed", seed).image(run.disk))) as log:
            ids = tuple(sorted(one.producer_id for one in log.active_producers()))
            found.add((log.report.clean, ids, bool(log.report.warnings)))
    return found


CLOSED = {
    "roll, close": [Operation("idempotent", 3), ROLL],
    "roll, append, close": [Operation("idempotent", 3), ROLL, Operation("append", 1)],
    "deleted before": [*FIRST, ROLL, DELETE],
    "rolled by another process": [
        Operation("idempotent", 3),
        ROLL,
        Operation("flush"),
        Operation("kill"),
    ],
}


@pytest.mark.parametrize("operations", CLOSED.values(), ids=CLOSED)
def test_a_clean_log_has_its_producers(operations: list[Operation]):
    """[DUR-22, DUR-24] The marker is not durable before what it vouches for."""
    run = run_script([*operations, Operation("close")], LARGE)

    assert producers_behind(run, marker_is_durable(run)) == {(True, (3,), False)}


DELETED = {
    "the newest": [*FIRST, ROLL],
    "its name too": [*FIRST, Operation("flush"), ROLL, Operation("background", 0)],
    "two": [*FIRST, ROLL, Operation("append", 1), ROLL],
}


@pytest.mark.parametrize("operations", DELETED.values(), ids=DELETED)
def test_deleted_records_do_not_take_their_producers_along(operations: list[Operation]):
    """[DUR-22, DUR-29] At no moment of the deletion, nor behind it."""
    run = run_script([*operations, Operation("flush"), DELETE], LARGE)

    for effects in range(run.steps[-1].begin, run.steps[-1].end + 1):
        assert {ids for _, ids, _ in producers_behind(run, effects)} == {(3,)}


def test_a_snapshot_whose_sync_failed_is_not_called_clean():
    """[DUR-35] Nor is it synced once more: that would prove nothing."""
    run = run_script([], LARGE)
    log = LARGE.open(run.disk)
    log.append([(None, b"x")])
    log.roll()
    run.disk.fail("sync_file", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.delete_records(1)
    run.disk.fail("sync_file", 0, 0)

    assert log.log_start_offset == 0
    with pytest.raises(Exception, match="takes no changes"):
        log.close()
