"""Kafka's LogCleanerManagerTest: the choice of a log, its states, the cleaner's checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory
from segstore.errors import IllegalStateError, LogCleaningError
from segstore.log.compaction import Compaction
from segstore.log.files.profile import Profile
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.manager.log_cleaner_manager import ABORTED, IN_PROGRESS, LogCleanerManager, paused
from segstore.manager.log_to_clean import LogToClean
from segstore.types import TopicPartition
from tests.kits.transactions_kit import ABORT, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog
    from tests.kits.log_kit import Clock

    NewLog = Callable[..., UnifiedLog]

HOUR = 3_600_000
CHECKPOINT = "cleaner-offset-checkpoint"
TOPIC = TopicPartition("topic", 0)


@pytest.fixture
def make(new_log: NewLog, tmp_path: Path, clock: Clock) -> Iterator[Callable[..., UnifiedLog]]:
    """Make logs of Kafka's profile that go by the clock of the test."""
    del clock

    def make_log(name: str = "topic-0", log_dir: str = "d1", **settings: object) -> UnifiedLog:
        (tmp_path / log_dir).mkdir(exist_ok=True)
        given = {"cleanup_policy": "compact", "internal_segment_bytes": 1024, **settings}
        return new_log(tmp_path / log_dir / name, recovery="kafka", **given)

    return make_log


class Managed:
    """A manager of a cleaner, over one log directory or two."""

    def __init__(self, path: Path, *logs: UnifiedLog) -> None:
        self.logs = {log.topic_partition: log for log in logs}
        self.dirs = [str(path / name) for name in ("d1", "d2")]
        for name in self.dirs:
            (path / name).mkdir(exist_ok=True)
        directories = {name: Directory(name) for name in self.dirs}
        self.manager = LogCleanerManager(
            directories, self.logs, Profile.KAFKA, LogDirFailureChannel()
        )

    def checkpoint(self, log: UnifiedLog, offset: int, number: int = 0) -> None:
        self.manager.update_checkpoints(self.dirs[number], update=(log.topic_partition, offset))

    def begin(self, state: str) -> None:
        """Bring the first log into a state."""
        if state == "paused":
            self.manager.abort_and_pause_cleaning(TOPIC)
        elif state != "none":
            self.manager._begin(TOPIC)
            if state == "aborted":
                self.manager._put_use(TOPIC, -1, (None,))  # that of another thread


def append(log: UnifiedLog, count: int, in_a_segment: int = 10**9, at: int | None = None) -> None:
    """Append so many records, each a batch, and let them be committed."""
    for number in range(count):
        if number and number % in_a_segment == 0:
            log.roll()
        log.append([(at, b"%d" % number, b"value")] if at else [(b"%d" % number, b"value")])
    log.update_high_watermark(log.log_end_offset)


def fill_segments(log: UnifiedLog, count: int, at: int) -> None:
    """Append until the log has so many segments."""
    while len(log.segments()) < count:
        log.append([(at, b"key", b"value")])
    log.update_high_watermark(log.log_end_offset)


def active(log: UnifiedLog) -> int:
    return log.segments()[-1].base_offset


# ---- the choice ----------------------------------------------------------------------------------


def test_grab_filthiest_compacted_log_throws_exception(make, tmp_path, clock, monkeypatch):
    """[CLN-4, CLN-40] LogCleanerManagerTest.testGrabFilthiestCompactedLogThrowsException."""
    log = make()
    append(log, 20, in_a_segment=5)
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 1)
    cause = IllegalStateError("Error!")

    def fail(*_: object) -> int:
        raise cause

    monkeypatch.setattr(Compaction, "max_compaction_delay", fail)
    with pytest.raises(LogCleaningError) as raised:
        managed.manager.grab_filthiest_compacted_log(clock.now)

    assert raised.value.log is log
    assert raised.value.__cause__ is cause


def test_a_log_is_cleaned_above_its_dirty_ratio(make, tmp_path, clock):
    """[CFG-15m, CLN-39] Strictly above it."""
    log = make(min_cleanable_dirty_ratio=0.0)
    append(log, 25, in_a_segment=5)
    sizes = [one.size_bytes for one in log.segments()[:-1]]
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 10)
    ratio = sum(sizes[2:]) / sum(sizes)

    def is_cleaned(least: float) -> bool:
        log.update_config(log.config.with_changes(min_cleanable_dirty_ratio=least))
        return managed.manager.grab_filthiest_compacted_log(clock.now) is not None

    assert 0.4 < ratio < 0.6
    assert not is_cleaned(ratio)
    assert not is_cleaned(ratio + 1e-9)
    assert is_cleaned(ratio - 1e-9)


def test_dirty_offset_reset_if_larger_than_end_offset(make, tmp_path, clock):
    """[CLN-31] LogCleanerManagerTest.testDirtyOffsetResetIfLargerThanEndOffset."""
    log = make()
    append(log, 20, in_a_segment=5)
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 200)
    found = managed.manager.grab_filthiest_compacted_log(clock.now)

    assert found is not None
    assert found.first_dirty_offset == 0


def test_dirty_offset_reset_if_smaller_than_start_offset(make, tmp_path, clock):
    """[CLN-31] LogCleanerManagerTest.testDirtyOffsetResetIfSmallerThanStartOffset."""
    log = make(min_cleanable_dirty_ratio=0.0)
    append(log, 20, in_a_segment=5)
    log.maybe_increment_log_start_offset(10)
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 0)
    found = managed.manager.grab_filthiest_compacted_log(clock.now)

    assert found is not None
    assert found.first_dirty_offset == 10


def test_log_start_offset_larger_than_active_segment_base_offset(make, tmp_path, clock):
    """[CLN-31] LogCleanerManagerTest.testLogStartOffsetLargerThanActiveSegmentBaseOffset."""
    log = make(cleanup_policy="compact,delete")
    append(log, 9)
    log.maybe_increment_log_start_offset(2)
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 0)

    assert len(log.segments()) == 1
    assert managed.manager.grab_filthiest_compacted_log(clock.now) is None
    assert managed.manager.uncleanable_partitions() == {}


def test_dirty_offset_larger_than_active_segment_base_offset(make, tmp_path, clock):
    """[CLN-32] LogCleanerManagerTest.testDirtyOffsetLargerThanActiveSegmentBaseOffset."""
    log = make()
    append(log, 6)
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 3)

    assert len(log.segments()) == 1
    assert managed.manager.grab_filthiest_compacted_log(clock.now) is None
    assert managed.manager.uncleanable_partitions() == {}


def test_checkpoint_updated_for_invalid_offset_no_cleaning(make, tmp_path, clock):
    """[CLN-31] LogCleanerManagerTest.testCheckpointUpdatedForInvalidOffsetNoCleaning."""
    log = make(cleanup_policy="compact,delete")
    append(log, 20)
    log.maybe_increment_log_start_offset(20)
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 15)

    assert managed.manager.grab_filthiest_compacted_log(clock.now) is None
    assert managed.manager.all_cleaner_checkpoints() == {TOPIC: 20}


def test_checkpoint_updated_for_invalid_offset_not_selected(make, tmp_path, clock):
    """[CLN-31, CLN-40] LogCleanerManagerTest.testCheckpointUpdatedForInvalidOffsetNotSelected."""
    first, second = make(), make("topic-1")
    append(first, 20, in_a_segment=5)
    first.maybe_increment_log_start_offset(15)
    append(second, 25, in_a_segment=5)
    managed = Managed(tmp_path, first, second)
    managed.checkpoint(first, 10)
    managed.checkpoint(second, 5)
    found = managed.manager.grab_filthiest_compacted_log(clock.now)

    assert found is not None
    assert found.log is second
    assert managed.manager.all_cleaner_checkpoints()[TOPIC] == 15


def test_log_to_clean(make):
    """[CLN-34, CLN-36] LogCleanerTest.testLogToClean: the active segment counts nowhere."""
    log = make(internal_segment_bytes=100)
    append(log, 6, in_a_segment=1)
    sealed = sum(one.size_bytes for one in log.segments()[:-1])
    limit, clean, cleanable = log._compaction().calculate_cleanable_bytes(active(log), active(log))
    found = LogToClean(log, active(log), limit, clean, cleanable, 0, 0)

    assert len(log.segments()) == 6
    assert found.total_bytes == sealed > 0
    assert found.cleanable_ratio == 0


# ---- deletion ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "count"), [("delete", 0), ("compact,delete", 1)])
def test_logs_with_segments_to_delete(make, tmp_path, policy, count):
    """[CLN-7]

    LogCleanerManagerTest.testLogsWithSegmentsToDeleteShouldNotConsiderCleanupPolicyDeleteLogs,
    LogCleanerManagerTest.testLogsWithSegmentsToDeleteShouldConsiderCleanupPolicyCompactDeleteLogs.
    """
    managed = Managed(tmp_path, make(cleanup_policy=policy))

    assert len(managed.manager.deletable_logs()) == count


def test_logs_under_cleanup_ineligible_for_compaction(make, tmp_path, clock):
    """[CLN-20, CLN-22] LogCleanerManagerTest.testLogsUnderCleanupIneligibleForCompaction."""
    log = make(cleanup_policy="delete")
    append(log, 2, in_a_segment=1)
    managed = Managed(tmp_path, log)
    manager = managed.manager
    held = manager.pause_cleaning_for_non_compacted_partitions()
    assert [one for one, _ in held] == [TOPIC]

    config = log.config
    log.update_config(config.with_changes(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
    assert manager.grab_filthiest_compacted_log(clock.now) is None
    manager.resume_cleaning(one for one, _ in held)
    found = manager.grab_filthiest_compacted_log(clock.now)
    assert found is not None
    assert found.topic_partition == TOPIC

    log.update_config(config)
    assert manager.pause_cleaning_for_non_compacted_partitions() == []
    manager.done_deleting([TOPIC])
    assert len(manager.pause_cleaning_for_non_compacted_partitions()) == 1


@pytest.mark.parametrize("deletes", [False, True], ids=["truncation", "topic deletion"])
def test_concurrent_log_cleanup(make, tmp_path, *, deletes: bool):
    """[CLN-16…CLN-18, CLN-22] LogCleanerManagerTest.testConcurrentLogCleanupAndLogTruncation.

    And LogCleanerManagerTest.testConcurrentLogCleanupAndTopicDeletion.
    """
    manager = Managed(tmp_path, make(cleanup_policy="delete")).manager
    held = [one for one, _ in manager.pause_cleaning_for_non_compacted_partitions()]
    if deletes:
        manager.abort_cleaning(TOPIC)
    else:
        manager.abort_and_pause_cleaning(TOPIC)
        manager.resume_cleaning([TOPIC])
    assert manager.cleaning_state(TOPIC) == paused(1)
    manager.resume_cleaning(held)

    assert manager.cleaning_states() == {}


# ---- checkpoints ---------------------------------------------------------------------------------


def test_handle_log_dir_failure_should_remove_dir_and_data(make, tmp_path):
    """[CLN-29] LogCleanerManagerTest.testHandleLogDirFailureShouldRemoveDirAndData."""
    first, second = make(), make("topic-1", "d2")
    managed = Managed(tmp_path, first, second)
    managed.checkpoint(first, 999)
    managed.checkpoint(second, 999, number=1)
    assert managed.manager.all_cleaner_checkpoints() == {
        TOPIC: 999,
        second.topic_partition: 999,
    }
    managed.manager.handle_log_dir_failure(managed.dirs[0])

    assert managed.manager.all_cleaner_checkpoints() == {second.topic_partition: 999}


def test_maybe_truncate_checkpoint_should_truncate_data(make, tmp_path):
    """[CLN-27] LogCleanerManagerTest.testMaybeTruncateCheckpointShouldTruncateData."""
    log = make()
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 999)
    managed.manager.maybe_truncate_checkpoint(managed.dirs[0], TOPIC, 1000)
    assert managed.manager.all_cleaner_checkpoints() == {TOPIC: 999}
    managed.manager.maybe_truncate_checkpoint(managed.dirs[0], TOPIC, 1)

    assert managed.manager.all_cleaner_checkpoints() == {TOPIC: 1}


def test_alter_checkpoint_dir_should_remove_data_in_src_dir_and_add_in_new_dir(make, tmp_path):
    """[CLN-28]

    LogCleanerManagerTest.testAlterCheckpointDirShouldRemoveDataInSrcDirAndAddInNewDir.
    """
    log = make()
    managed = Managed(tmp_path, log)
    managed.checkpoint(log, 999)
    managed.manager.alter_checkpoint_dir(TOPIC, *managed.dirs)
    assert managed.manager.all_cleaner_checkpoints() == {TOPIC: 999}
    managed.manager.handle_log_dir_failure(managed.dirs[1])

    assert managed.manager.all_cleaner_checkpoints() == {}


# ---- the range -----------------------------------------------------------------------------------


def test_cleanable_offsets_for_none(make, clock):
    """[CLN-32] LogCleanerManagerTest.testCleanableOffsetsForNone: the last stable offset bounds."""
    log = make()
    while len(log.segments()) < 8:
        log.append([(clock.now, b"key", b"value")])
    log.update_high_watermark(50)

    assert log._compaction().cleanable_offsets(0, clock.now)[:2] == (0, 50)


def test_cleanable_offsets_active_segment(make, clock):
    """[CLN-32] LogCleanerManagerTest.testCleanableOffsetsActiveSegment."""
    log = make()
    fill_segments(log, 8, clock.now)

    assert log._compaction().cleanable_offsets(0, clock.now)[:2] == (0, active(log))


def test_cleanable_offsets_for_time(make, clock):
    """[CLN-32] LogCleanerManagerTest.testCleanableOffsetsForTime."""
    log = make(min_compaction_lag_ms=HOUR)
    fill_segments(log, 4, clock.now)
    active_at_first = active(log)
    clock.sleep(HOUR + 1)
    fill_segments(log, 8, clock.now)

    assert log._compaction().cleanable_offsets(0, clock.now)[:2] == (0, active_at_first)


def test_cleanable_offsets_for_short_time(make, clock):
    """[CLN-32] LogCleanerManagerTest.testCleanableOffsetsForShortTime."""
    log = make(min_compaction_lag_ms=HOUR)
    fill_segments(log, 8, clock.now)
    clock.sleep(HOUR + 1)

    assert log._compaction().cleanable_offsets(0, clock.now)[:2] == (0, active(log))


def test_undecided_transactional_data_not_cleanable(make, clock):
    """[CLN-32, CLN-33] LogCleanerManagerTest.testUndecidedTransactionalDataNotCleanable."""
    log = make(min_compaction_lag_ms=HOUR)
    producer = Producer(log, 15)
    producer.write(2)
    producer.write(1)
    log.roll()
    log.update_high_watermark(3)
    clock.sleep(HOUR + 1)
    assert log._compaction().cleanable_offsets(0, clock.now)[:2] == (0, 0)

    producer.end(ABORT, timestamp=clock.now)
    log.roll()
    log.update_high_watermark(4)
    assert log._compaction().cleanable_offsets(0, clock.now)[:2] == (0, 3)
    clock.sleep(HOUR + 1)
    assert log._compaction().cleanable_offsets(0, clock.now)[:2] == (0, 4)


# ---- the end of a pass ---------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["none", "paused"])
def test_done_without_a_pass(make, tmp_path, state):
    """[CLN-20, CLN-21] LogCleanerManagerTest.testDoneCleaning, testDoneDeleting."""
    managed = Managed(tmp_path, make())
    managed.begin(state)
    with pytest.raises(IllegalStateError):
        managed.manager.done_cleaning(TOPIC, managed.dirs[0], 1)
    with pytest.raises(IllegalStateError):
        managed.manager.done_deleting([TOPIC])


def test_done_cleaning(make, tmp_path):
    """[CLN-20] LogCleanerManagerTest.testDoneCleaning."""
    managed = Managed(tmp_path, make())
    managed.begin("in progress")
    assert managed.manager.cleaning_state(TOPIC) == IN_PROGRESS
    managed.manager.done_cleaning(TOPIC, managed.dirs[0], 1)
    assert managed.manager.cleaning_states() == {}
    assert managed.manager.all_cleaner_checkpoints() == {TOPIC: 1}
    managed.begin("aborted")
    assert managed.manager.cleaning_state(TOPIC) == ABORTED
    managed.manager.done_cleaning(TOPIC, managed.dirs[0], 2)

    assert managed.manager.cleaning_state(TOPIC) == paused(1)
    assert managed.manager.all_cleaner_checkpoints() == {TOPIC: 1}


def test_done_deleting(make, tmp_path):
    """[CLN-21] LogCleanerManagerTest.testDoneDeleting."""
    managed = Managed(tmp_path, make())
    managed.begin("in progress")
    managed.manager.done_deleting([TOPIC])
    assert managed.manager.cleaning_states() == {}
    managed.begin("aborted")
    managed.manager.done_deleting([TOPIC])

    assert managed.manager.cleaning_state(TOPIC) == paused(1)
