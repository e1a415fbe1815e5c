"""The producer snapshot of a roll is synced behind it; a torn one is skipped [DUR-22, DUR-29]."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Run, Settings, run_script

SNAPSHOT = ".snapshot"
BEGIN = [Operation("transactional", 1), Operation("idempotent", 3), Operation("transactional", 2)]
SCRIPTS = {
    "no sync": [*BEGIN, Operation("roll"), Operation("abort", 1), Operation("append", 1)],
    "flushed beside it": [*BEGIN, Operation("roll"), Operation("abort", 1), Operation("flush")],
    "synced behind it": [
        *BEGIN,
        Operation("roll"),
        Operation("background", 0),
        Operation("abort", 1),
        Operation("roll"),
        Operation("commit", 2),
        Operation("background", 0),
    ],
    "killed": [*BEGIN, Operation("roll"), Operation("kill"), Operation("abort", 1)],
}
LARGE = Settings(segment_bytes=100_000)


@pytest.mark.parametrize("operations", SCRIPTS.values(), ids=SCRIPTS)
def test_producers_are_those_of_the_records(operations: list[Operation]):
    """[PSM-56, DUR-8] Whatever became of the snapshot, and in whatever state it is found."""
    run = run_script(operations, LARGE)

    for effects in range(run.disk.effects + 1):
        check_crash(run, Crash(effects, "lost"))
        for seed in range(12):
            check_crash(run, Crash(effects, "seed", seed))


def test_a_crash_may_leave_a_torn_snapshot_that_is_skipped():
    """[DUR-22] It has its name already: the CRC tells, and an older one counts."""
    run = run_script(SCRIPTS["flushed beside it"], LARGE)
    skipped = 0
    for seed in range(40):
        image = Crash(run.disk.effects, "seed", seed).image(run.disk)
        with closing(LARGE.open(image)) as log:
            skipped += any("the snapshot was deleted" in warning for warning in log.report.warnings)
            assert sorted(one.producer_id for one in log.active_producers()) == [1, 2, 3]
            assert log.last_stable_offset < log.log_end_offset

    assert skipped > 0


def snapshot_syncs(run: Run, kind: str) -> list[str]:
    """Names of the snapshots that were synced in operations of that kind."""
    events = [
        run.disk.event(number)
        for step in run.steps
        if step.operation.kind == kind
        for number in range(step.begin + 1, step.end + 1)
    ]
    return [one.name for one in events if one.call.startswith("sync") and SNAPSHOT in one.name]


def test_no_snapshot_is_synced_under_the_append_lock():
    """[DUR-29] The roll leaves it to the background thread, as Kafka since KAFKA-15046."""
    run = run_script(SCRIPTS["synced behind it"], LARGE)

    assert snapshot_syncs(run, "roll") == []
    synced = [name.rpartition("/")[2] for name in snapshot_syncs(run, "background")]
    assert synced == [f"{5:020d}{SNAPSHOT}", f"{6:020d}{SNAPSHOT}"]
