"""Kafka's RemoteLogManagerTest: what is copied, what belongs to a log, and what expires."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from segstore.config.log_config import LogConfig
from segstore.errors import RemoteStorageError
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.profile import Profile
from segstore.remote.log_manager.candidate_segments import candidate_segments
from segstore.remote.log_manager.copy_task import CopyTask, CustomMetadataSizeLimitExceededError
from segstore.remote.log_manager.expiration_task import ExpirationTask
from segstore.remote.log_manager.lineage import (
    filter_epochs,
    find_highest_remote_offset,
    find_log_start_offset,
    is_within_lineage,
)
from segstore.remote.log_manager.remote_log_stats import RemoteLogFigures
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from segstore.types import EpochEntry
from tests.kits.remote_log_kit import (
    NOW_MS,
    PARTITION,
    Copying,
    MemoryRemoteLogMetadata,
    MemoryRemoteStorage,
    new_parts,
    states_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
SIZE = 1024


def epochs(*entries: tuple[int, int]) -> tuple[EpochEntry, ...]:
    return tuple(EpochEntry(*one) for one in entries)


def segment(
    start: int,
    end: int,
    *entries: tuple[int, int],
    state: RemoteLogSegmentState = FINISHED,
    timestamp: int = NOW_MS,
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, uuid.uuid4()),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=timestamp,
        broker_id=1,
        event_timestamp_ms=NOW_MS,
        segment_size_bytes=SIZE,
        state=state,
        segment_leader_epochs=epochs(*(entries or ((0, start),))),
    )


def put(metadata: MemoryRemoteLogMetadata, *segments: RemoteLogSegmentMetadata) -> None:
    """Publish segments as far as their states are."""
    for one in segments:
        metadata.add_remote_log_segment_metadata(replace(one, state=STARTED))
        for state in (FINISHED, DELETING):
            if state <= one.state:
                publish(metadata, one, state)


def publish(
    metadata: MemoryRemoteLogMetadata,
    one: RemoteLogSegmentMetadata,
    state: RemoteLogSegmentState,
) -> None:
    metadata.update_remote_log_segment_metadata(
        RemoteLogSegmentMetadataUpdate(
            segment_id=one.segment_id,
            event_timestamp_ms=NOW_MS,
            custom_metadata=None,
            state=state,
            broker_id=1,
        )
    )


class FakeLog(SimpleNamespace):
    """What an expiration asks of a log."""

    def __init__(self, entries: tuple[EpochEntry, ...], end: int, **settings: Any) -> None:
        only_local = settings.pop("only_local", 0)
        super().__init__(
            leader_epochs=entries,
            log_start_offset=entries[0].start_offset if entries else 0,
            local_log_start_offset=end,
            log_end_offset=end,
            highest_offset_in_remote_storage=end - 1,
            only_local_log_segments_size=only_local,
            config=LogConfig(**{"retention_ms": None, **settings}),
            profile=Profile.KAFKA,
            closed=False,
        )

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return LeaderEpochFileCache(None, self.leader_epochs).end_offset_for(
            epoch, self.log_end_offset
        )

    def segments(self) -> tuple[Any, ...]:
        return (SimpleNamespace(base_offset=self.log_end_offset, size_bytes=0),)

    def _settled_generation(self) -> int:
        return 0

    def _note_remote_log_start(self, offset: int, _: int) -> None:
        self.log_start_offset = max(offset, self.log_start_offset)


class Expiration:
    """An expiration task with what it works on."""

    def __init__(self) -> None:
        self.storage, self.metadata = MemoryRemoteStorage(), MemoryRemoteLogMetadata()
        self.parts = new_parts(self.storage, self.metadata, lambda: NOW_MS)
        self.figures = RemoteLogFigures()
        self.task = ExpirationTask(self.parts, PARTITION, self.figures)
        self.deleted: list[int] = []
        self.storage.intercept = self.note

    def note(self, call: str, action: Callable[[], Any], about: Any) -> Any:
        if call == "delete":
            self.deleted.append(about.start_offset)
        return action()


@pytest.fixture
def expiration() -> Expiration:
    return Expiration()


# ---- leader epochs -------------------------------------------------------------------------------


def test_get_leader_epoch_checkpoint():
    """[TIER-35, TIER-36] RemoteLogManagerTest.testGetLeaderEpochCheckpoint."""
    cache = LeaderEpochFileCache(None, epochs((0, 0), (1, 100), (2, 200)))

    assert cache.epoch_entries_in_range(0, 300) == epochs((0, 0), (1, 100), (2, 200))
    assert cache.epoch_entries_in_range(100, 200) == epochs((1, 100))


@pytest.mark.parametrize(
    ("entries", "finished_to", "expected"),
    [
        pytest.param(((0, 0), (1, 500)), None, (-1, -1), id="OnEmptyRemoteStorage"),
        pytest.param(((0, 0), (1, 500)), 200, (200, 0), id="FindHighestRemoteOffset"),
        pytest.param(((0, 0), (1, 150), (2, 300)), 200, (149, 0), id="UncleanLeaderElection"),
    ],
)
def test_find_highest_remote_offset(
    entries: tuple[tuple[int, int], ...], finished_to: int | None, expected: tuple[int, int]
):
    """[TIER-40]

    RemoteLogManagerTest.testFindHighestRemoteOffset,
    RemoteLogManagerTest.testFindHighestRemoteOffsetOnEmptyRemoteStorage,
    RemoteLogManagerTest.testFindHighestRemoteOffsetWithUncleanLeaderElection.
    """
    metadata = MemoryRemoteLogMetadata()
    if finished_to is not None:
        put(metadata, segment(0, finished_to))
    log: Any = FakeLog(epochs(*entries), 600)

    assert find_highest_remote_offset(log, metadata, PARTITION) == expected


def test_find_log_start_offset_fallback_to_local_log_start_offset_when_remote_is_empty():
    """[TIER-32]

    RemoteLogManagerTest.testFindLogStartOffsetFallbackToLocalLogStartOffsetWhenRemoteIsEmpty.
    """
    log: Any = FakeLog(epochs((1, 250), (2, 550)), 600)
    log.local_log_start_offset = 250

    assert find_log_start_offset(log, MemoryRemoteLogMetadata(), PARTITION) == 250


def test_log_start_offset_updated_on_startup():
    """[TIER-32] The first remote segment is found in epoch 2.

    RemoteLogManagerTest.testLogStartOffsetUpdatedOnStartup.
    """
    metadata = MemoryRemoteLogMetadata()
    put(metadata, segment(600, 700, (2, 600)))
    log: Any = FakeLog(epochs((1, 250), (2, 550)), 800)

    assert find_log_start_offset(log, metadata, PARTITION) == 600


def test_build_filtered_leader_epoch_map():
    """[TIER-50] RemoteLogManagerTest.testBuildFilteredLeaderEpochMap."""
    entries = epochs((0, 0), (1, 0), (2, 0), (3, 30), (4, 40), (5, 60), (6, 60), (7, 70), (8, 70))

    assert filter_epochs(entries) == epochs((2, 0), (3, 30), (4, 40), (6, 60), (8, 70))


WHOLE = ((0, 0), (1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (7, 70))


@pytest.mark.parametrize(
    ("start", "end", "entries", "expected"),
    [
        (15, 35, ((1, 15), (2, 20), (3, 30)), True),
        (15, 19, ((1, 15),), True),
        (0, 5, ((0, 0),), True),
        (70, 75, ((7, 70),), True),
        (15, 29, ((1, 15), (2, 20)), True),
        (55, 85, ((5, 55), (6, 60), (7, 70)), False),
        (15, 45, ((1, 15), (2, 20), (4, 40)), False),
        (15, 95, WHOLE, False),
        (15, 90, WHOLE, False),
        (5, 25, ((1, 5), (2, 20)), False),
        (15, 35, ((1, 15), (2, 20)), False),
    ],
)
def test_remote_segment_within_leader_epochs(
    start: int, end: int, entries: tuple[tuple[int, int], ...], *, expected: bool
):
    """[TIER-51] RemoteLogManagerTest.testRemoteSegmentWithinLeaderEpochs."""
    assert is_within_lineage(segment(start, end, *entries), 90, epochs(*WHOLE)) is expected


@pytest.mark.parametrize(
    ("start", "end", "entries", "expected"),
    [
        (14, 150, ((5, 14), (7, 15), (9, 100)), True),
        (2, 7, ((2, 5), (3, 6)), False),
        (15, 250, ((7, 15), (9, 100), (10, 200)), False),
        (75, 100, ((8, 75),), False),
        (15, 150, ((7, 15), (9, 101)), False),
        (99, 150, ((9, 99),), False),
    ],
)
def test_remote_segment_within_leader_epochs_for_overlapping_segments(
    start: int, end: int, entries: tuple[tuple[int, int], ...], *, expected: bool
):
    """[TIER-51] RemoteLogManagerTest.testRemoteSegmentWithinLeaderEpochsForOverlappingSegments."""
    lineage = epochs((7, 51), (9, 100))

    assert is_within_lineage(segment(start, end, *entries), 210, lineage) is expected


# ---- candidates ----------------------------------------------------------------------------------


def local(*bases: int) -> Any:
    return [SimpleNamespace(base_offset=one, size_bytes=1) for one in bases]


def bases_of(found: list[Any]) -> list[tuple[int, int]]:
    return [(one.segment.base_offset, one.next_base_offset) for one in found]


def test_candidate_log_segments_skips_active_segment():
    """[TIER-33] RemoteLogManagerTest.testCandidateLogSegmentsSkipsActiveSegment."""
    found = candidate_segments(local(5, 10, 15), 5, 20, LogConfig(), NOW_MS)

    assert bases_of(found) == [(5, 10), (10, 15)]


def test_candidate_log_segments_skips_segments_after_last_stable_offset():
    """[TIER-33] RemoteLogManagerTest.testCandidateLogSegmentsSkipsSegmentsAfterLastStableOffset."""
    found = candidate_segments(local(5, 10, 15, 20), 5, 15, LogConfig(), NOW_MS)

    assert bases_of(found) == [(5, 10), (10, 15)]


# ---- expiration ----------------------------------------------------------------------------------

MANY = ((0, 0), (1, 20), (3, 50), (4, 100))


def fifty(metadata: MemoryRemoteLogMetadata, old: int = 0) -> None:
    """50 segments of 100 records; the first *old* are two ms older than the others."""
    for number in range(50):
        start = number * 100
        entries = MANY if number == 0 else ((4, start),)
        timestamp = NOW_MS - 2 if number < old else NOW_MS
        put(metadata, segment(start, start + 99, *entries, timestamp=timestamp))


@pytest.mark.parametrize("count", [0, 1, 23, 50])
def test_delete_log_segment_due_to_retention_size_breach(expiration: Expiration, count: int):
    """[TIER-52, TIER-54, TIER-56]

    RemoteLogManagerTest.testDeleteLogSegmentDueToRetentionSizeBreach.
    """
    fifty(expiration.metadata)
    limit = (50 - count) * SIZE + 512
    log: Any = FakeLog(epochs(*MANY), 5000, retention_bytes=limit, only_local=512)

    assert expiration.task.run(log) is None

    assert expiration.deleted == [number * 100 for number in range(count)]
    assert log.log_start_offset == count * 100


@pytest.mark.parametrize("count", [0, 1, 23, 50])
def test_delete_log_segment_due_to_retention_time_breach(expiration: Expiration, count: int):
    """[TIER-53] RemoteLogManagerTest.testDeleteLogSegmentDueToRetentionTimeBreach."""
    fifty(expiration.metadata, old=count)
    log: Any = FakeLog(epochs(*MANY), 5000, retention_ms=1)

    assert expiration.task.run(log) is None

    assert expiration.deleted == [number * 100 for number in range(count)]
    assert log.log_start_offset == count * 100


@pytest.mark.parametrize("settings", [{"retention_bytes": 0}, {"retention_ms": 0}])
def test_deletion_on_overlapping_retention_breached_segments(
    expiration: Expiration, settings: dict[str, int]
):
    """[TIER-56] The log starts after the longer one.

    RemoteLogManagerTest.testDeletionOnOverlappingRetentionBreachedSegments.
    """
    put(expiration.metadata, *(segment(0, end, timestamp=NOW_MS - 1) for end in (99, 104)))
    log: Any = FakeLog(epochs((0, 0)), 200, **settings)

    assert expiration.task.run(log) is None

    assert expiration.deleted == [0, 0]
    assert log.log_start_offset == 105


def test_remote_delete_lags_on_retention_breached_segments(expiration: Expiration):
    """[TIER-52] And the count of metadata while they are there.

    RemoteLogManagerTest.testRemoteDeleteLagsOnRetentionBreachedSegments.
    """
    put(expiration.metadata, segment(0, 99), segment(100, 199))
    lags: list[tuple[int, int]] = []

    def note(call: str, action: Callable[[], Any], _: Any) -> Any:
        if call == "delete":
            figures = expiration.figures
            lags.append((figures.delete_lag_bytes, figures.delete_lag_segments))
        return action()

    expiration.storage.intercept = note
    log: Any = FakeLog(epochs((0, 0)), 200, retention_bytes=0)

    assert expiration.task.run(log) is None

    assert lags == [(2 * SIZE, 2), (SIZE, 1)]
    figures = expiration.figures
    assert (figures.delete_lag_bytes, figures.delete_lag_segments) == (0, 0)
    assert (figures.metadata_count, figures.remote_log_size_bytes) == (2, 2 * SIZE)
    assert log.log_start_offset == 200
    expiration.task.run(log)
    assert (figures.metadata_count, figures.remote_log_size_bytes) == (0, 0)


def test_remote_log_size_retention_should_filter_out_copy_segment_start_state(
    expiration: Expiration,
):
    """[TIER-52, TIER-54] Of copies that were begun the size does not count.

    RemoteLogManagerTest.testRemoteLogSizeRetentionShouldFilterOutCopySegmentStartState.
    """
    begun, deleting = segment(0, 99, state=STARTED), segment(0, 99, state=DELETING)
    later = segment(200, 299, state=STARTED)
    whole = [segment(start, start + 99) for start in range(0, 1300, 100) if start not in {0, 200}]
    put(expiration.metadata, begun, deleting, later, *whole)
    log: Any = FakeLog(epochs((0, 0)), 2000, retention_bytes=10 * SIZE)

    assert expiration.task.run(log) is None

    assert expiration.deleted == [0, 0]


def test_failed_delete_expired_segments(expiration: Expiration):
    """[TIER-56, TIER-57] The log start stays where it went; the next run deletes.

    RemoteLogManagerTest.testFailedDeleteExpiredSegments.
    """
    put(expiration.metadata, segment(0, 99))
    fails = [True]

    def fail(call: str, action: Callable[[], Any], _: Any) -> Any:
        if call == "delete" and fails.pop():
            raise RemoteStorageError("not now", found="an error", expected="none")
        return action()

    expiration.storage.intercept = fail
    log: Any = FakeLog(epochs((0, 0)), 200, retention_bytes=0)

    assert isinstance(expiration.task.run(log), RemoteStorageError)
    counters = expiration.parts.counters
    assert (log.log_start_offset, counters.delete_requests, counters.failed_deletes) == (100, 1, 1)

    fails.append(False)
    assert expiration.task.run(log) is None
    assert states_of(expiration.metadata, PARTITION) == []


def test_deletion_skipped_for_segments_being_copied(expiration: Expiration):
    """[TIER-52] RemoteLogManagerTest.testDeletionSkippedForSegmentsBeingCopied."""
    copying = segment(0, 149, state=STARTED)
    put(expiration.metadata, copying)
    expiration.parts.being_copied.add(copying.segment_id)
    log: Any = FakeLog(epochs((0, 0)), 200, retention_bytes=0)

    expiration.task.run(log)
    assert expiration.deleted == []

    expiration.parts.being_copied.clear()
    publish(expiration.metadata, copying, FINISHED)
    expiration.task.run(log)
    assert expiration.deleted == [0]


# ---- a log that is copied ------------------------------------------------------------------------


@pytest.fixture(params=["safe", "kafka"])
def copying(tmp_path: Path, request: pytest.FixtureRequest):
    made: list[Copying] = []

    def make(**config: int) -> Copying:
        made.append(Copying(tmp_path, request.param, **config))
        return made[0]

    yield make
    for one in made:
        one.log.close()


def test_copy_log_segment_to_remote_for_stale_topic(copying: Callable[..., Copying]):
    """[TIER-33, TIER-38] All is sealed, and the active segment is empty.

    RemoteLogManagerTest.testCopyLogSegmentToRemoteForStaleTopic.
    """
    it = copying()
    it.log.roll()

    assert it.manager.copy(it.log) is None

    assert it.states() == [(0, 9, FINISHED), (10, 19, FINISHED), (20, 29, FINISHED)]
    assert it.log.highest_offset_in_remote_storage == 29


def test_custom_metadata_size_exceeds_limit(copying: Callable[..., Copying]):
    """[TIER-39] The copy is deleted, with these bytes; the safe profile goes on later.

    RemoteLogManagerTest.testCustomMetadataSizeExceedsLimit.
    """
    it = copying()
    deleted: list[Any] = []

    def answer(call: str, action: Callable[[], Any], about: Any) -> Any:
        action()
        if call == "delete":
            deleted.append(about.custom_metadata)
        return bytes(256) if call == "copy" else None

    it.storage.intercept = answer
    error = it.manager.copy(it.log)

    assert isinstance(error, CustomMetadataSizeLimitExceededError)
    assert deleted == [bytes(256)]
    assert it.states() == []
    assert it.manager.counters.failed_copies == 1
    it.storage.intercept = lambda _, action, __: action()
    it.now_ms += 60_000
    it.manager.copy(it.log)
    assert len(it.states()) == (2 if it.log.profile is Profile.SAFE else 0)


def test_the_storage_sees_its_custom_metadata_on_every_later_call(copying: Callable[..., Copying]):
    """[TIER-14] The bytes that the copy gave are in the metadata of reads and of the deletion."""
    it = copying()
    seen: list[tuple[str, bytes | None]] = []

    def answer(call: str, action: Callable[[], Any], about: Any) -> Any:
        if call == "copy":
            action()
            return b"place 7"
        seen.append((call, about.custom_metadata))
        return action()

    it.storage.intercept = answer
    it.manager.copy(it.log)
    it.manager.stop_partitions([PARTITION], delete_remote_log=True)

    assert "delete" in {call for call, _ in seen}
    assert {custom for _, custom in seen} == {b"place 7"}


def test_metrics_update_on_copy_log_segments_failure(copying: Callable[..., Copying]):
    """[TIER-41] An error that no plugin should raise ends the run, and is counted.

    RemoteLogManagerTest.testMetricsUpdateOnCopyLogSegmentsFailure.
    """
    it = copying()

    def fail(call: str, _: Callable[[], Any], __: Any) -> Any:
        raise ValueError(call)

    it.storage.intercept = fail

    assert isinstance(it.manager.copy(it.log), ValueError)
    counters = it.manager.counters
    assert (counters.copy_requests, counters.failed_copies) == (1, 1)
    assert it.log.highest_offset_in_remote_storage == -1


def test_remote_log_manager_remote_metrics(copying: Callable[..., Copying]):
    """[TIER-43] What is sealed and not copied lags; and becoming a follower ends that.

    RemoteLogManagerTest.testRemoteLogManagerRemoteMetrics,
    RemoteLogManagerTest.testTierLagResetsToZeroOnBecomingFollower.
    """
    it = copying()
    sealed = sum(one.size_bytes for one in it.log.segments()[:-1])

    def fail(call: str, action: Callable[[], Any], _: Any) -> Any:
        if call == "copy":
            raise RemoteStorageError("no", found="an error", expected="none")
        return action()

    it.storage.intercept = fail
    it.manager.copy(it.log)
    figures = it.manager.figures()[it.log.topic_partition]
    assert (figures.copy_lag_bytes, figures.copy_lag_segments) == (sealed, 2)

    it.manager.on_leadership_change([], [it.log])
    figures = it.manager.figures()[it.log.topic_partition]
    assert (figures.copy_lag_bytes, figures.copy_lag_segments) == (0, 0)


def test_task_updates_after_log_dir_changed(tmp_path: Path):
    """[TIER-32] The partition is in another directory: what was copied is looked up again.

    RemoteLogManagerTest.testRemoteLogTaskUpdateRemoteLogSegmentMetadataAfterLogDirChanged.
    """
    it = Copying(tmp_path)
    it.manager.copy(it.log)
    it.log.close()
    moved = it.open(tmp_path / "b" / "topic-0")
    assert moved.highest_offset_in_remote_storage == -1

    it.manager.copy(moved)

    assert moved.highest_offset_in_remote_storage == 19
    assert len(it.states()) == 2
    moved.close()


def test_stop_partitions_with_deletion(copying: Callable[..., Copying]):
    """[TIER-90, TIER-91] One delete and two updates a segment.

    RemoteLogManagerTest.testStopPartitionsWithDeletion.
    """
    it = copying()
    it.manager.copy(it.log)
    calls: list[str] = []

    def note(call: str, action: Callable[[], Any], _: Any) -> Any:
        calls.append(call)
        return action()

    it.storage.intercept = it.metadata.intercept = note

    assert it.manager.stop_partitions([PARTITION], delete_remote_log=True) == {}

    assert (calls.count("delete"), calls.count("update")) == (2, 4)
    assert it.storage.segments == {}
    assert it.metadata.stopped == [PARTITION]


def test_idempotent_close(copying: Callable[..., Copying]):
    """[TIER-92] RemoteLogManagerTest.testIdempotentClose."""
    it = copying()

    it.manager.close()
    it.manager.close()

    assert (it.storage.close_count, it.metadata.close_count) == (1, 1)


def test_copy_quota(copying: Callable[..., Copying]):
    """[TIER-34] A second segment waits until the first one's bytes are old.

    RemoteLogManagerTest.testCopyQuota.
    """
    it = copying(copy_max_bytes_per_second=1, copy_quota_window_num=2)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        it.now_ms += 1000

    task = it.manager._logs[it.log.topic_partition].copy_task
    assert isinstance(task, CopyTask)
    task._cancelled.wait = sleep  # type: ignore[assignment,method-assign]

    assert it.manager.copy(it.log) is None

    assert slept
    assert len(it.states()) == 2


def test_rlm_shutdown_during_quota_exceeded_scenario(copying: Callable[..., Copying]):
    """[TIER-45, TIER-92] A wait for the limit ends with the manager.

    RemoteLogManagerTest.testRLMShutdownDuringQuotaExceededScenario.
    """
    it = copying(copy_max_bytes_per_second=1, copy_quota_window_num=2)
    is_begun = threading.Event()

    def note(_: str, action: Callable[[], Any], __: Any) -> Any:
        is_begun.set()
        return action()

    it.storage.intercept = note
    thread = threading.Thread(target=it.manager.copy, args=(it.log,))
    thread.start()
    is_begun.wait(timeout=10)

    it.manager.close()
    thread.join(timeout=10)

    assert not thread.is_alive()
