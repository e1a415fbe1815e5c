"""Kafka's KafkaMetadataLogTest, of ``KafkaRaftLog``; in both profiles where they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidConfigurationError,
    RecordTooLargeError,
    UnexpectedAppendOffsetError,
)
from segstore.log.log_environment import LogEnvironment
from segstore.raft.metadata_log import METADATA_TOPIC_ID, open_metadata_log
from segstore.raft.offset_and_epoch import OffsetAndEpoch, ValidityKind, ValidOffsetAndEpoch
from tests.kits.mock_time import MockTime
from tests.kits.raft_kit import (
    append,
    append_singly,
    begin_at_snapshot,
    commit,
    offsets_of,
    open_raft,
    raft_batch,
    snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore.raft.metadata_log import MetadataLog

DELAY_MS = 60_000


@pytest.fixture(params=["safe", "kafka"])
def recovery(request: pytest.FixtureRequest) -> str:
    """Of both profiles."""
    profile: str = request.param
    return profile


@pytest.fixture
def time() -> MockTime:
    return MockTime(1_700_000_000_000)


@pytest.fixture
def new_log(tmp_path: Path, recovery: str, time: MockTime) -> Iterator[Callable[..., MetadataLog]]:
    """Open the log; all are closed in the end."""
    logs = []

    def open_log(**settings: int) -> MetadataLog:
        environment = LogEnvironment(environment=time.environment, background=time.scheduler)
        log = open_raft(tmp_path, recovery, log_environment=environment, **settings)  # type: ignore[arg-type]
        logs.append(log)
        return log

    yield open_log
    for log in logs:
        log.close_quietly()


@pytest.fixture
def log(new_log: Callable[..., MetadataLog]) -> MetadataLog:
    return new_log()


def valid(kind: str, offset: int, epoch: int) -> ValidOffsetAndEpoch:
    return ValidOffsetAndEpoch(ValidityKind[kind], OffsetAndEpoch(offset, epoch))


def names(tmp_path: Path) -> list[str]:
    """Names of the files of snapshots."""
    folder = tmp_path / "__cluster_metadata-0"
    return sorted(one.name for one in folder.iterdir() if ".checkpoint" in one.name)


def test_config(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """[RAFT-1, RAFT-2, RAFT-41] KafkaMetadataLogTest.testConfig, by the keys of Kafka 4.3.1."""
    path = tmp_path / "__cluster_metadata-0"
    with pytest.raises(IllegalArgumentError):
        open_metadata_log(path, {"metadata.log.segment.bytes": "10240"})
    with pytest.raises(InvalidConfigurationError):
        open_metadata_log(path, {"retention.ms": "10240"})
    assert not path.exists()

    settings = {"internal.metadata.log.segment.bytes": "10240", "metadata.log.segment.ms": "10240"}
    with open_metadata_log(path, settings) as log:
        config = log.log.config
    assert (config.roll_bytes, config.segment_ms) == (10240, 10240)
    assert (config.retention_ms, config.retention_bytes) == (-1, -1)
    assert (config.max_message_bytes, config.file_delete_delay_ms) == (8 * 1024 * 1024, DELAY_MS)
    assert "for tests only" in caplog.text


def test_unexpected_append_offset(log: MetadataLog):
    """[RAFT-4, RAFT-5] KafkaMetadataLogTest.testUnexpectedAppendOffset."""
    log.append_as_leader(raft_batch(0, epoch=3), 3)

    for call in (log.append_as_leader, log.append_as_follower):
        with pytest.raises(UnexpectedAppendOffsetError):
            call(raft_batch(0, epoch=3), 3)
    assert log.end_offset.message_offset == 1


def test_create_snapshot(tmp_path: Path):
    """[RAFT-25, RAFT-27] KafkaMetadataLogTest.testCreateSnapshot: its content is not looked at.

    In the safe profile a snapshot without header and footer is refused [DUR-145].
    """
    snapshot_id = OffsetAndEpoch(10, 1)
    with open_raft(tmp_path / "kafka", "kafka") as log:
        append(log, 10, 1)
        commit(log)
        with log.create_new_snapshot(snapshot_id) as raw:  # type: ignore[union-attr]
            raw.freeze()
        found = log.read_snapshot(snapshot_id)
        assert found is not None
        assert found.size_bytes == 0
    with open_raft(tmp_path / "safe") as log:
        append(log, 10, 1)
        commit(log)
        with log.create_new_snapshot(snapshot_id) as raw, pytest.raises(CorruptLogError):  # type: ignore[union-attr]
            raw.freeze()
        assert log.read_snapshot(snapshot_id) is None
        assert names(tmp_path / "safe") == []


def test_high_watermark_offset_metadata(log: MetadataLog):
    """[RAFT-8, RAFT-9] KafkaMetadataLogTest.testHighWatermarkOffsetMetadata."""
    append(log, 10, 1)
    assert log.update_high_watermark(10) == 10

    found = log.high_watermark
    assert (found.message_offset, found.segment_base_offset) == (10, 0)
    assert found.relative_position_in_segment > 0


@pytest.mark.parametrize("exists", [False, True])
def test_create_snapshot_diverging_epoch(log: MetadataLog, *, exists: bool):
    """[RAFT-25] KafkaMetadataLogTest.testCreateSnapshotDivergingEpoch.

    With another snapshot there, KafkaMetadataLogTest.testCreateSnapshotOlderEpoch.
    """
    append(log, 10, 2)
    commit(log)
    if exists:
        snapshot(log, 10, 2)

    with pytest.raises(IllegalArgumentError):
        log.create_new_snapshot(OffsetAndEpoch(10, 1))


def test_create_existing_snapshot(log: MetadataLog):
    """[RAFT-25, RAFT-26] KafkaMetadataLogTest.testCreateExistingSnapshot."""
    append_singly(log, 10, 1)
    commit(log)
    snapshot_id = snapshot(log, 9, 1)

    assert log.create_new_snapshot(snapshot_id) is None
    assert log.create_new_snapshot_unchecked(snapshot_id) is None


def test_topic_id(log: MetadataLog):
    """KafkaMetadataLogTest.testTopicId."""
    assert log.topic_id == METADATA_TOPIC_ID


def test_read_missing_snapshot(log: MetadataLog):
    """[RAFT-28] KafkaMetadataLogTest.testReadMissingSnapshot."""
    assert log.read_snapshot(OffsetAndEpoch(10, 0)) is None


def test_delete_non_existent_snapshot(log: MetadataLog):
    """[RAFT-35] KafkaMetadataLogTest.testDeleteNonExistentSnapshot."""
    append(log, 10)
    commit(log)

    assert not log.delete_before_snapshot(OffsetAndEpoch(2, 0))
    assert offsets_of(log) == (0, 10, 10, 0)


def test_truncate_fully_to_latest_snapshot(log: MetadataLog):
    """[RAFT-11, RAFT-23] KafkaMetadataLogTest.testTruncateFullyToLatestSnapshot."""
    append(log, 10)
    begin_at_snapshot(log, 20, 0)
    assert offsets_of(log) == (20, 20, 20, 0)

    append(log, 10)
    begin_at_snapshot(log, 30, 1)
    assert offsets_of(log) == (30, 30, 30, 1)


def test_truncate_will_remove_older_snapshot(log: MetadataLog, time: MockTime, tmp_path: Path):
    """[RAFT-23, RAFT-29, RAFT-37] KafkaMetadataLogTest.testTruncateWillRemoveOlderSnapshot."""
    append_singly(log, 1)
    append_singly(log, 19, 1)
    for offset, epoch in ((1, 0), (2, 1), (10, 1), (30, 1)):
        snapshot(log, offset, epoch, unchecked=True)

    assert log.truncate_to_latest_snapshot()
    assert log.earliest_snapshot_id() == log.latest_snapshot_id() == OffsetAndEpoch(30, 1)
    assert sum(name.endswith(".deleted") for name in names(tmp_path)) == 3
    time.sleep(DELAY_MS)
    assert names(tmp_path) == ["00000000000000000030-0000000001.checkpoint"]


def test_snapshot_deletion_with_invalid_snapshot_state(
    new_log: Callable[..., MetadataLog], tmp_path: Path
):
    """[RAFT-30…RAFT-32] KafkaMetadataLogTest.testSnapshotDeletionWithInvalidSnapshotState."""
    log = new_log()
    begin_at_snapshot(log, 100, 1)
    log.close()
    (name,) = names(tmp_path)
    file = tmp_path / "__cluster_metadata-0" / name
    file.rename(f"{file}.deleted")

    with pytest.raises(IllegalStateError):
        new_log()
    assert names(tmp_path) == [f"{name}.deleted"]


def test_cleanup_older_snapshots(
    new_log: Callable[..., MetadataLog], time: MockTime, tmp_path: Path
):
    """[RAFT-3, RAFT-30] KafkaMetadataLogTest.testCleanupOlderSnapshots."""
    log = new_log()
    append_singly(log, 1)
    append_singly(log, 19, 1)
    for offset, epoch in ((1, 0), (2, 1), (10, 1), (30, 1)):
        snapshot(log, offset, epoch, unchecked=True)
    log.close()

    log = new_log()
    assert log.latest_snapshot_id() == OffsetAndEpoch(30, 1)
    assert offsets_of(log) == (30, 30, 30, 1)
    time.sleep(DELAY_MS)
    assert names(tmp_path) == ["00000000000000000030-0000000001.checkpoint"]


def test_create_replicated_log_truncates_fully(new_log: Callable[..., MetadataLog]):
    """[RAFT-3, RAFT-23] KafkaMetadataLogTest.testCreateReplicatedLogTruncatesFully."""
    log = new_log()
    append(log, 10, 1)
    snapshot(log, 11, 2, unchecked=True)
    log.close()

    assert offsets_of(new_log()) == (11, 11, 11, 2)


def test_max_batch_size(new_log: Callable[..., MetadataLog]):
    """[RAFT-4] KafkaMetadataLogTest.testMaxBatchSize."""
    log = new_log(internal_metadata_max_batch_size_in_bytes=16384)

    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(raft_batch(0, 230, 5, 64), 5)
    assert log.append_as_leader(raft_batch(0, 220, 5, 64), 5).base_offset == 0


def test_truncate_below_high_watermark(log: MetadataLog):
    """[RAFT-14, RAFT-17] KafkaMetadataLogTest.testTruncateBelowHighWatermark."""
    append_singly(log, 10, 5)
    commit(log)

    with pytest.raises(IllegalArgumentError):
        log.truncate_to(5)
    assert log.high_watermark.message_offset == 10


def test_validate_epoch_greater_than_last_known_epoch(log: MetadataLog):
    """[RAFT-13] KafkaMetadataLogTest.testValidateEpochGreaterThanLastKnownEpoch."""
    append(log, 1, 1)

    assert log.validate_offset_and_epoch(1, 2) == valid("DIVERGING", 1, 1)


def test_validate_epoch_less_than_oldest_snapshot_epoch(log: MetadataLog):
    """[RAFT-13] KafkaMetadataLogTest.testValidateEpochLessThanOldestSnapshotEpoch."""
    append(log, 10, 1)
    commit(log)
    snapshot(log, 10, 1)

    assert log.validate_offset_and_epoch(10, 0) == valid("SNAPSHOT", 10, 1)


def test_validate_offset_equal_to_oldest_snapshot_offset(log: MetadataLog):
    """[RAFT-13] KafkaMetadataLogTest.testValidateOffsetEqualToOldestSnapshotOffset."""
    append(log, 2, 1)
    commit(log)
    snapshot(log, 2, 1)

    assert log.start_offset == 0
    assert log.validate_offset_and_epoch(2, 1) == valid("VALID", 2, 1)


def test_validate_unknown_epoch_less_than_last_known_greater_than_oldest_snapshot(
    log: MetadataLog,
):
    """[RAFT-12, RAFT-13]

    KafkaMetadataLogTest.testValidateUnknownEpochLessThanLastKnownGreaterThanOldestSnapshot.
    """
    begin_at_snapshot(log, 10, 1)
    for epoch in (1, 2, 4):
        append(log, 5, epoch)

    assert log.validate_offset_and_epoch(100, 3) == valid("DIVERGING", 20, 2)


def test_validate_epoch_less_than_first_epoch_in_log(log: MetadataLog):
    """[RAFT-12, RAFT-13] KafkaMetadataLogTest.testValidateEpochLessThanFirstEpochInLog."""
    begin_at_snapshot(log, 10, 1)
    append(log, 5, 3)

    assert log.validate_offset_and_epoch(100, 2) == valid("DIVERGING", 10, 1)


def test_validate_offset_less_than_leo(log: MetadataLog):
    """[RAFT-13] KafkaMetadataLogTest.testValidateOffsetLessThanLEO."""
    append(log, 10, 1)
    append(log, 10, 2)

    assert log.validate_offset_and_epoch(11, 1) == valid("DIVERGING", 10, 1)


def test_validate_valid_epoch_and_offset(log: MetadataLog):
    """[RAFT-13] KafkaMetadataLogTest.testValidateValidEpochAndOffset."""
    append(log, 5, 1)

    assert log.validate_offset_and_epoch(4, 1) == valid("VALID", 4, 1)
    assert log.validate_offset_and_epoch(0, 77) == valid("VALID", 0, 0)


def test_advance_log_start_offset_after_cleaning(new_log: Callable[..., MetadataLog]):
    """[RAFT-35, RAFT-38, RAFT-39] KafkaMetadataLogTest.testAdvanceLogStartOffsetAfterCleaning."""
    log = new_log(
        internal_metadata_log_segment_bytes=4096,
        metadata_max_retention_bytes=256,
        metadata_max_retention_ms=60_000,
    )
    for _ in range(101):
        append(log, 47, 1)
    assert not log.maybe_clean()
    commit(log, 47 * 85)
    assert not log.maybe_clean()

    for number in (20, 40):
        snapshot(log, 47 * number, 1, records=100)
    assert log.maybe_clean()
    assert log.start_offset == 47 * 40


def test_soft_retention_limit(new_log: Callable[..., MetadataLog]):
    """[RAFT-38, RAFT-39] KafkaMetadataLogTest.testSoftRetentionLimit."""
    log = new_log(internal_metadata_log_segment_bytes=10240, metadata_max_retention_bytes=10240)
    append_singly(log, 2001, 1)
    commit(log, 2000)
    for offset in (1000, 2000):
        snapshot(log, offset, 1, records=500)

    assert log.maybe_clean()
    assert log.snapshot_ids == (OffsetAndEpoch(2000, 1),)


def test_segments_less_than_latest_snapshot(new_log: Callable[..., MetadataLog], time: MockTime):
    """[RAFT-36, RAFT-40] KafkaMetadataLogTest.testSegmentsLessThanLatestSnapshot."""
    log = new_log(internal_metadata_log_segment_bytes=10240, metadata_max_retention_bytes=10240)
    for _ in range(300):
        append(log, 10, 1)
    commit(log)
    bases = [segment.base_offset for segment in log.log.segments()]
    for base in bases[1:3]:
        snapshot(log, base, 1)
    time.sleep(2 * 7 * 24 * 3600 * 1000)

    assert log.maybe_clean()
    assert len(log.snapshot_ids) == 1
    assert 0 < log.start_offset <= log.snapshot_ids[0].offset
