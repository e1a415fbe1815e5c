"""Kafka's UnifiedLogTest: deleting old segments by log start, size and time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segstore.errors import IllegalArgumentError, OffsetOutOfRangeError
from segstore.log.retention_plan import HoldingReason, RetentionLimit
from tests.kits.log_kit import bases, batch, offsets
from tests.kits.unified_log_kit import Producer, follow, producers_of, remember, sequenced

pytestmark = pytest.mark.usefixtures("clock", "scheduler")

SIZE = len(batch([(b"test", b"test")]))
"""Of a batch of one record."""


@pytest.fixture(params=["safe", "kafka"])
def replica(new_log, request):
    """Open a log whose high watermark, clock and unlinking are the test's; 5 records a segment."""

    def open_replica(**settings: object):
        return new_log(
            **{
                "recovery": request.param,
                "replicated": True,
                "internal_segment_bytes": 5 * SIZE,
                "retention_ms": None,
                **settings,
            }
        )

    return open_replica


def write(log, count: int, timestamp: int, epoch: int = 0) -> None:
    """Append *count* batches of one record."""
    for _ in range(count):
        log.append_as_leader(batch([(b"test", b"test")], timestamp=timestamp), epoch)


def files(log, ending: str) -> list[str]:
    return sorted(path.name for path in Path(log.path).glob(f"*{ending}"))


@pytest.mark.parametrize(
    ("age", "limit", "left"),
    [
        pytest.param(
            None, 10_000, 1, id="UnifiedLogTest.shouldDeleteTimeBasedSegmentsReadyToBeDeleted"
        ),
        pytest.param(
            0,
            10_000_000,
            3,
            id="UnifiedLogTest.shouldNotDeleteTimeBasedSegmentsWhenNoneReadyToBeDeleted",
        ),
        pytest.param(1000, 1000, 3, id="older than the limit, not as old"),
        pytest.param(1001, 1000, 1, id="one older"),
        pytest.param(0, 0, 3, id="no time, and as old as now"),
        pytest.param(1, 0, 1, id="no time, and one older"),
        pytest.param(10**9, None, 3, id="no limit"),
    ],
)
def test_by_time(replica, clock, age, limit, left):
    """[CFG-8m, RET-1, RET-7, RET-2]"""
    log = replica(retention_ms=limit)
    write(log, 15, 10 if age is None else clock.now - age)
    follow(log)
    log.delete_old_segments()
    assert len(bases(log)) == left
    assert log.log_end_offset == 15


def test_a_future_timestamp_blocks_what_follows(replica, clock):
    """[RET-2, RET-7] the walk ends at the first segment that stays."""
    log = replica(retention_ms=1000)
    write(log, 5, clock.now - 5000)
    write(log, 5, clock.now + 5000)
    write(log, 5, clock.now - 5000)
    follow(log)
    assert len(log.delete_old_segments()) == 1
    assert bases(log) == [5, 10]


def test_without_timestamps_the_time_of_the_file_counts(replica, clock):
    """[RET-7]"""
    log = replica(retention_ms=1000)
    write(log, 15, -1)
    follow(log)
    old, young = (clock.now - 5000) / 1000, clock.now / 1000
    for base, time in ((0, old), (5, young), (10, old)):
        os.utime(Path(log.path) / f"{base:020}.log", (time, time))
    assert len(log.delete_old_segments()) == 1
    assert bases(log) == [5, 10]


# ---- by size -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        pytest.param(10 * SIZE, [5, 10], id="T-16: surplus of one segment"),
        pytest.param(
            15 * SIZE,
            [0, 5, 10],
            id="UnifiedLogTest.shouldNotDeleteSizeBasedSegmentsWhenUnderRetentionSize",
        ),
        pytest.param(10 * SIZE + 1, [0, 5, 10], id="one byte less than a segment"),
        pytest.param(-1, [0, 5, 10], id="no limit"),
        pytest.param(0, [15], id="T-16: all, behind a roll"),
    ],
)
def test_by_size(replica, clock, limit, left):
    """[CFG-7m, RET-1, RET-4, RET-6, T-16] at least the limit is kept."""
    log = replica(retention_bytes=limit)
    write(log, 15, clock.now)
    follow(log)
    log.delete_old_segments()
    assert bases(log) == left
    assert (log.log_start_offset, log.log_end_offset) == (left[0], 15)


@pytest.mark.parametrize(
    ("limit", "percent"), [(10 * SIZE, 100), (20 * SIZE, 75), (16 * SIZE, 93), (-1, 0), (0, 0)]
)
def test_how_much_of_the_limit_is_used(replica, clock, limit, percent):
    """[RET-11, DIFF-29] a number of whole percents, after each run."""
    log = replica(retention_bytes=limit)
    write(log, 15, clock.now)
    follow(log)
    assert log.retention_size_in_percent == 0
    log.delete_old_segments()
    assert log.retention_size_in_percent == percent


# ---- the policies --------------------------------------------------------------------------------


def test_a_policy_without_delete(replica, clock):
    """[RET-1] UnifiedLogTest.shouldNotDeleteSegmentsWhenPolicyDoesNotIncludeDelete."""
    log = replica(retention_ms=10_000, cleanup_policy="compact")
    write(log, 15, 10)
    old = (clock.now - 20_000) / 1000
    os.utime(Path(log.path) / f"{0:020}.log", (old, old))
    follow(log)
    assert len(log.delete_old_segments()) == 0
    assert bases(log) == [0, 5, 10]


def test_a_policy_of_both(replica):
    """[RET-1]
    UnifiedLogTest.shouldDeleteSegmentsReadyToBeDeletedWhenCleanupPolicyIsCompactAndDelete.
    """
    log = replica(retention_ms=10_000, cleanup_policy="compact,delete")
    write(log, 15, 10)
    follow(log)
    log.delete_old_segments()
    assert len(bases(log)) == 1


@pytest.mark.parametrize("policy", ["compact", "", "delete", "compact,delete"])
def test_below_the_log_start_every_policy_deletes(replica, clock, policy):
    """[RET-1, RET-5, DIFF-14]
    UnifiedLogTest.shouldDeleteStartOffsetBreachedSegmentsWhenPolicyDoesNotIncludeDelete.
    """
    log = replica(cleanup_policy=policy)
    write(log, 15, clock.now)
    follow(log)
    log.maybe_increment_log_start_offset(4)
    assert len(log.delete_old_segments()) == 0
    log.maybe_increment_log_start_offset(5)
    assert len(log.delete_old_segments()) == 1
    assert bases(log) == [5, 10]


@pytest.mark.parametrize("policy", ["compact", "", "delete", "compact,delete"])
def test_delete_records_and_policies(replica, clock, policy):
    """[LST-2, LST-4, LST-5]"""
    log = replica(cleanup_policy=policy)
    write(log, 15, clock.now)
    log.update_high_watermark(12)
    if policy == "compact":
        with pytest.raises(IllegalArgumentError):
            log.delete_records(5)
        return
    for outside in (13, -2):
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_records(outside)
    assert log.delete_records(7) == 7
    assert log.delete_records(3) == 7
    assert log.delete_records(-1) == 12
    assert offsets(log.scan()) == [12, 13, 14]


# ---- all together --------------------------------------------------------------------------------


def test_delete_old_segments(replica, clock):
    """[RET-1, RET-2, RET-4, DEL-1] UnifiedLogTest.testDeleteOldSegments."""
    log = replica(retention_ms=999)
    write(log, 100, clock.now - 1000)
    log.assign_epoch_start_offset(0, 40)
    log.assign_epoch_start_offset(1, 90)
    assert len(log.delete_old_segments()) == 0
    assert (len(bases(log)), log.log_start_offset) == (20, 0)
    for high_watermark in range(25, 31):
        log.update_high_watermark(high_watermark)
        log.delete_old_segments()
        assert log.log_start_offset <= high_watermark
        assert bases(log)[0] == high_watermark // 5 * 5  # T-16
        assert all(base > high_watermark for base in bases(log)[1:])
    follow(log)
    log.delete_old_segments()
    assert len(bases(log)) == 1
    assert log._epochs.entries == ((1, 100),)
    write(log, 100, clock.now - 1000, epoch=1)
    log.delete()
    assert not Path(log.path).exists()
    assert log._epochs.entries == ()


def test_deletion_does_not_change_offsets(replica, clock):
    """[RET-4] UnifiedLogTest.testThatGarbageCollectingSegmentsDoesntChangeOffset."""
    for count in (0, 1, 25):
        log = replica(retention_ms=0, internal_segment_bytes=SIZE + 30)
        write(log, count, clock.now - 10)
        end = log.log_end_offset
        follow(log)
        log.delete_old_segments()
        assert (log.log_end_offset, len(bases(log))) == (end, 1)
        assert len(log.delete_old_segments()) == 0
        info = log.append_as_leader(batch([(b"test", b"test")], timestamp=clock.now), 0)
        assert info.base_offset == end
        log.delete()


def test_retention_is_idempotent(replica, clock):
    """[RET-1, RET-9] UnifiedLogTest.testRetentionIdempotency: one pass makes way for another."""
    log = replica(retention_ms=900)
    for timestamp in (100, 0, 100):
        write(log, 1, clock.now + timestamp)
        log.roll()
    # as Kafka's test: three segments, of which the last is active
    log.truncate_to(3)
    clock.sleep(901)
    follow(log)
    log.maybe_increment_log_start_offset(1)
    first = len(log.delete_old_segments())
    assert first == 2
    assert len(log.delete_old_segments()) == 0


def test_deletion_follows_the_high_watermark(replica, clock):
    """[RET-2, LST-5] UnifiedLogTest.testSegmentDeletionWithHighWatermarkInitialization."""
    log = replica(retention_ms=999, internal_segment_bytes=512)
    write(log, 100, clock.now - 1000)
    assert log.update_high_watermark(25) == 25
    assert len(log.delete_old_segments()) > 0
    assert 0 < log.log_start_offset <= 25


def test_epochs_go_with_their_segments(replica, clock):
    """[RET-4, EPC-8] UnifiedLogTest.shouldTruncateLeaderEpochsWhenDeletingSegments."""
    log = replica(retention_bytes=10 * SIZE)
    write(log, 15, clock.now)
    for epoch, start in ((0, 0), (1, 5), (2, 10)):
        log._epochs.assign(epoch, start)
    follow(log)
    log.delete_old_segments()
    assert log._epochs.entries == ((1, 5), (2, 10))


def test_deletable_segments_are_walked_in_order(replica, clock):
    """[RET-2] UnifiedLogTest.testDeletableSegmentsIteration."""
    log = replica()
    for _ in range(9):
        write(log, 1, clock.now)
        log.roll()
    follow(log)
    asked = []

    def goes(segment, following) -> bool:
        asked.append((segment.base_offset, following.base_offset if following else None))
        return True

    chosen = log._retention_planner.nothing_chosen()
    chosen.take_while(RetentionLimit.RETENTION_MS, goes)
    assert asked == [*((n, n + 1) for n in range(9)), (9, None)]
    assert [one.base_offset for one in chosen.segments] == [*range(9)]


def test_the_predicate_is_not_asked_above_the_high_watermark(replica, clock):
    """[RET-2]"""
    log = replica()
    write(log, 15, clock.now)
    log.update_high_watermark(9)
    asked = []
    chosen = log._retention_planner.nothing_chosen()
    chosen.take_while(
        RetentionLimit.RETENTION_MS, lambda one, _: asked.append(one.base_offset) or True
    )
    assert asked == [0]
    assert [one.base_offset for one in chosen.segments] == [0]


def test_a_plan_names_what_goes_and_what_keeps_the_rest(replica, clock):
    """[RTN-2, RTN-6, RTN-7] The same as the run deletes; nothing changes."""
    log = replica(retention_bytes=-1, retention_ms=1000)
    write(log, 15, clock.now)
    follow(log)
    assert log.plan_retention().deleted == ()
    first = log.plan_retention().holding
    assert (first.base_offset, first.reason) == (0, HoldingReason.WITHIN_LIMITS)

    clock.sleep(2000)
    log.update_high_watermark(9)
    plan = log.plan_retention()
    assert [one[:2] for one in plan.deleted] == [(0, 5)]
    assert plan.deleted[0].limit is RetentionLimit.RETENTION_MS
    assert plan.deleted[0].has_timestamp
    assert (plan.holding.base_offset, plan.holding.reason) == (5, HoldingReason.HIGH_WATERMARK)
    assert bases(log) == [0, 5, 10]
    assert log.delete_old_segments() == [*plan.deleted]
    assert bases(log) == [5, 10]


# ---- files ---------------------------------------------------------------------------------------


def test_files_are_unlinked_later(replica, clock, scheduler):
    """[LOC-20, RET-4, CON-7] UnifiedLogTest.testAsyncDelete."""
    log = replica(retention_ms=999, file_delete_delay_ms=1000)
    write(log, 100, clock.now - 1000)
    scheduler.sleep(0)
    old = [segment.base_offset for segment in log.segments()]
    follow(log)
    log.delete_old_segments()
    assert len(bases(log)) == 1
    gone = [base for base in old if base not in bases(log)]
    assert len(gone) in {19, 20}
    for kind in ("log", "index"):
        for base in gone:
            assert not (Path(log.path) / f"{base:020}.{kind}").exists()
        assert (Path(log.path) / f"{0:020}.{kind}.deleted").exists() or kind == "index"
    assert len(files(log, ".log.deleted")) == len(gone)
    scheduler.sleep(999)
    assert len(files(log, ".log.deleted")) == len(gone)
    scheduler.sleep(2)
    assert files(log, ".deleted") == []


def test_a_reader_finishes_on_what_is_deleted(replica, clock, scheduler):
    """[CON-7, CON-12]"""
    log = replica(retention_bytes=0)
    write(log, 5, clock.now)
    found = log.slice(0, 10_000)
    follow(log)
    log.delete_old_segments()
    scheduler.sleep(100_000)
    assert offsets(found.read()) == [0, 1, 2, 3, 4]


def test_producers_outlive_their_segments(replica):
    """[RET-4, PSM-47] UnifiedLogTest.testProducerIdExpirationOnSegmentDeletion."""
    size = len(sequenced(1, 0, 0))
    log = replica(internal_segment_bytes=size, retention_bytes=2 * size)
    first, second = Producer(log, 1), Producer(log, 2)
    first.write()
    second.write()
    second.write()
    assert (len(bases(log)), producers_of(log)) == (3, {1: 0, 2: 1})
    follow(log)
    log.delete_old_segments()
    assert (len(bases(log)), producers_of(log)) == (2, {1: 0, 2: 1})


def test_snapshots_go_with_their_segments(replica, clock, scheduler):
    """[RTN-24, PSM-57, T-17] UnifiedLogTest.testLogStartOffsetMovementDeletesSnapshots."""
    log = replica(internal_segment_bytes=SIZE, file_delete_delay_ms=0)
    write(log, 3, clock.now)
    assert files(log, ".snapshot") == [f"{offset:020}.snapshot" for offset in (1, 2)]
    follow(log)
    log.maybe_increment_log_start_offset(2)
    log.delete_old_segments()
    scheduler.sleep(1)
    assert bases(log) == [2]
    assert files(log, ".snapshot") == [f"{2:020}.snapshot"]


def test_delete_snapshots_on_increment_log_start_offset(replica, scheduler):
    """[LST-2, PSM-47, PSM-57, T-17] UnifiedLogTest.testDeleteSnapshotsOnIncrementLogStartOffset."""
    log = replica(internal_segment_bytes=2048, file_delete_delay_ms=1000)
    remember(log)
    for pid in (1, 2):
        Producer(log, pid).write()
        log.roll()
    assert (log.producer_id_count, len(files(log, ".snapshot"))) == (2, 2)
    follow(log)
    log.maybe_increment_log_start_offset(2)
    log.delete_old_segments()
    scheduler.sleep(2000)
    assert producers_of(log) == {1: 0, 2: 0}
    assert len(files(log, ".snapshot")) == 1


def test_a_clock_that_was_set_deletes_nothing(new_log, clock):
    """[DUR-28, RET-7, RET-10] and Kafka's profile believes it."""
    left = {}
    for profile in ("safe", "kafka"):
        log = new_log(
            recovery=profile, replicated=False, internal_segment_bytes=5 * SIZE, retention_ms=10_000
        )
        write(log, 15, clock.now)
        assert len(log.delete_old_segments()) == 0
        clock.sleep(10 * 3600 * 1000)  # while no time passed
        log.delete_old_segments()
        left[profile] = len(bases(log))
        log.delete()
    assert left == {"safe": 3, "kafka": 1}
