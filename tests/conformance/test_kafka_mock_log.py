"""Kafka's MockLogTest: the contract of a log of the quorum, kept by the log in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidRecordError,
    OffsetOutOfRangeError,
    UnexpectedAppendOffsetError,
)
from segstore.raft.metadata_log import METADATA_TOPIC_ID
from segstore.raft.offset_and_epoch import OffsetAndEpoch, ValidityKind, ValidOffsetAndEpoch
from segstore.raft.records_snapshot import RecordsSnapshotReader
from segstore.records.control_batch import build_kraft_batch
from segstore.records.kraft_record import LeaderChange, LeaderChangeVoter
from segstore.types import Isolation
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
    from collections.abc import Iterator
    from pathlib import Path

    from segstore.raft.metadata_log import MetadataLog

ALL = Isolation.LOG_END


@pytest.fixture(params=["safe", "kafka"])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MetadataLog]:
    """An empty log, in both profiles."""
    log = open_raft(tmp_path, request.param)
    yield log
    log.close_quietly()


def valid(kind: str, offset: int, epoch: int) -> ValidOffsetAndEpoch:
    return ValidOffsetAndEpoch(ValidityKind[kind], OffsetAndEpoch(offset, epoch))


def end_of(log: MetadataLog, epoch: int) -> tuple[int, int]:
    """Where *epoch* ends, and which one that is."""
    return tuple(log.end_offset_for_epoch(epoch))  # type: ignore[return-value]


def read_range(log: MetadataLog, offset: int) -> tuple[int, int]:
    """First and last offset of what a read of everything gives."""
    headers = log.read(offset, ALL).headers
    return int(headers["base_offset"][0]), int(headers["last_offset"][-1])


def test_topic_id(log: MetadataLog):
    """MockLogTest.testTopicId."""
    assert log.topic_id == METADATA_TOPIC_ID


def test_truncate_below_high_watermark(log: MetadataLog):
    """[RAFT-14, RAFT-17] MockLogTest.testTruncateBelowHighWatermark."""
    append(log, 5, 1)
    commit(log, 5)

    with pytest.raises(IllegalArgumentError):
        log.truncate_to(4)
    assert log.high_watermark.message_offset == 5


def test_update_high_watermark(log: MetadataLog):
    """[RAFT-9] MockLogTest.testUpdateHighWatermark."""
    append(log, 5, 1)

    assert log.update_high_watermark(5) == 5
    assert log.high_watermark.message_offset == 5


def test_the_high_watermark_is_bounded_by_the_log(log: MetadataLog):
    """[RAFT-9] MockLogTest.testDecrementHighWatermark: the log in files refuses nothing."""
    append_singly(log, 5, 1)
    commit(log, 4)

    assert log.update_high_watermark(3) == 3
    assert log.update_high_watermark(7) == 5
    assert log.update_high_watermark(-1) == 0


def test_assign_epoch_start_offset(log: MetadataLog):
    """[RAFT-10] MockLogTest.testAssignEpochStartOffset."""
    log.initialize_leader_epoch(2)

    assert log.last_fetched_epoch() == 2


def test_append_as_leader(log: MetadataLog):
    """[RAFT-4, RAFT-12] MockLogTest.testAppendAsLeader."""
    append(log, 1, 2)
    assert end_of(log, 2) == (1, 2)
    append(log, 2, 2)
    assert end_of(log, 2) == (3, 2)

    assert log.last_fetched_epoch() == 2
    assert [record.offset for record in log.read(0, ALL)] == [0, 1, 2]


def test_unexpected_append_offset(log: MetadataLog):
    """[RAFT-4, RAFT-5] MockLogTest.testUnexpectedAppendOffset."""
    log.append_as_leader(raft_batch(0, epoch=3), 3)

    for call in (log.append_as_leader, log.append_as_follower):
        with pytest.raises(UnexpectedAppendOffsetError):
            call(raft_batch(0, epoch=3), 3)


def test_append_control_record(log: MetadataLog):
    """[RAFT-4, RAFT-12] MockLogTest.testAppendControlRecord; its batch has to have the epoch."""
    change = LeaderChange(0, [LeaderChangeVoter(0)], [LeaderChangeVoter(0)])
    with pytest.raises(InvalidRecordError):
        log.append_as_leader(build_kraft_batch(0, 1, 2, change), 3)
    batch = build_kraft_batch(0, 1, 3, change)
    log.append_as_leader(batch, 3)

    assert offsets_of(log) == (0, 1, 0, 3)
    assert bytes(log.read(0, ALL).records) == batch
    assert end_of(log, 3) == (1, 3)


def test_append_as_follower(log: MetadataLog):
    """[RAFT-5, RAFT-12] MockLogTest.testAppendAsFollower."""
    begin_at_snapshot(log, 5, 0)
    log.append_as_follower(raft_batch(5, epoch=3), 3)

    assert offsets_of(log) == (5, 6, 5, 3)
    assert end_of(log, 0) == (5, 0)
    assert end_of(log, 3) == (6, 3)


def test_a_follower_leaves_out_batches_of_a_later_epoch(log: MetadataLog):
    """[RAFT-5, RAFT-6]"""
    both = raft_batch(0, 2, 3) + raft_batch(2, 2, 4)
    info = log.append_as_follower(both, 3)

    assert (info.base_offset, info.last_offset, log.end_offset.message_offset) == (0, 1, 2)
    with pytest.raises(CorruptRecordError):
        log.append_as_follower(raft_batch(2, 2, 4), 3)
    with pytest.raises(IllegalArgumentError):
        log.append_as_follower(raft_batch(2, 2, -1), 3)
    assert log.end_offset.message_offset == 2


def test_read_records(log: MetadataLog):
    """[RAFT-7] MockLogTest.testReadRecords."""
    append(log, 2, 2)

    assert [record.value for record in log.read(0, ALL)] == [b"00000000", b"00000001"]
    assert log.read(0).size_bytes == 0  # nothing is committed


def test_read_up_to_log_end(log: MetadataLog):
    """[RAFT-7] MockLogTest.testReadUpToLogEnd."""
    for count in (20, 10, 30):
        append(log, count, 1)

    starts = {offset: read_range(log, offset) for offset in (0, 10, 20, 25, 30, 33)}
    assert starts == {
        0: (0, 59),
        10: (0, 59),
        20: (20, 59),
        25: (20, 59),
        30: (30, 59),
        33: (30, 59),
    }
    assert log.read(60, ALL).size_bytes == 0
    with pytest.raises(OffsetOutOfRangeError):
        log.read(61, ALL)
    log.truncate_to(20)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(21, ALL)


def test_metadata_validation(log: MetadataLog):
    """[RAFT-8, RAFT-9] MockLogTest.testMetadataValidation: positions stand for its opaque ids."""
    for _ in range(3):
        append(log, 5, 1)
    second = log.read(5, ALL).fetch_offset_metadata
    assert log.update_high_watermark(second) == 5
    end = log.read(15, ALL).fetch_offset_metadata
    append(log, 5, 1)

    assert log.read(15, ALL).fetch_offset_metadata == end
    assert log.read(16, ALL).fetch_offset_metadata == end


def test_empty_append_not_allowed(log: MetadataLog):
    """[RAFT-4, RAFT-5] MockLogTest.testEmptyAppendNotAllowed."""
    for call in (log.append_as_leader, log.append_as_follower):
        with pytest.raises(IllegalArgumentError):
            call(b"", 1)


def test_read_out_of_range_offset(log: MetadataLog):
    """[RAFT-7] MockLogTest.testReadOutOfRangeOffset."""
    begin_at_snapshot(log, 5, 0)
    append(log, 1, 3)

    for offset in (4, 7):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, ALL)


def test_monotonic_epoch_start_offset(log: MetadataLog):
    """[RAFT-10, RAFT-12] MockLogTest.testMonotonicEpochStartOffset."""
    append(log, 5, 1)
    log.initialize_leader_epoch(2)
    assert end_of(log, 2) == (5, 2)

    log.initialize_leader_epoch(3)
    assert [end_of(log, epoch) for epoch in (1, 2, 3)] == [(5, 1), (5, 1), (5, 3)]


def test_create_snapshot(tmp_path: Path):
    """[RAFT-25, RAFT-27, RAFT-28] MockLogTest.testCreateSnapshot: an empty one reads back empty.

    In the safe profile the least snapshot has a header and a footer, and reads back as it is.
    """
    snapshot_id = OffsetAndEpoch(10, 0)
    with open_raft(tmp_path / "kafka", "kafka") as log:
        append(log, 10)
        commit(log)
        with log.create_new_snapshot(snapshot_id) as raw:  # type: ignore[union-attr]
            raw.freeze()
        found = log.read_snapshot(snapshot_id)
        assert found is not None
        assert (found.snapshot_id, found.size_bytes, found.read()) == (snapshot_id, 0, b"")
    with open_raft(tmp_path / "safe") as log:
        append(log, 10)
        commit(log)
        snapshot(log, *snapshot_id, records=0)
        found = log.read_snapshot(snapshot_id)
        assert found is not None
        assert [one.records for one in RecordsSnapshotReader(found)] == [(), ()]


def test_create_snapshot_later_than_high_watermark(log: MetadataLog):
    """[RAFT-25] MockLogTest.testCreateSnapshotLaterThanHighWatermark."""
    append(log, 10, 1)
    commit(log)

    with pytest.raises(IllegalArgumentError):
        log.create_new_snapshot(OffsetAndEpoch(11, 1))


def test_create_snapshot_inside_a_batch(log: MetadataLog):
    """[RAFT-25]"""
    append(log, 10, 1)
    append(log, 10, 1)
    commit(log, 10)

    with pytest.raises(IllegalArgumentError):
        log.create_new_snapshot(OffsetAndEpoch(5, 1))
    snapshot(log, 10, 1)


def test_a_snapshot_of_an_epoch_without_records(tmp_path: Path):
    """[RAFT-23, RAFT-25, DUR-145] Kafka takes it, and begins there with its next open.

    Found by the crash exploration: an open forgets the epoch, and the log looks older.
    """
    for recovery, end in (("kafka", 0), ("safe", 2)):
        folder = tmp_path / recovery
        with open_raft(folder, recovery) as log:  # type: ignore[arg-type]
            append(log, 2, 1)
            log.initialize_leader_epoch(2)
            commit(log)
            if recovery == "safe":
                for offset in (0, 2):
                    with pytest.raises(IllegalArgumentError):
                        log.create_new_snapshot(OffsetAndEpoch(offset, 2))
            else:
                snapshot(log, 0, 2)
        with open_raft(folder, recovery) as log:  # type: ignore[arg-type]
            assert log.end_offset.message_offset == end


def test_create_snapshot_before_log_start_offset(log: MetadataLog):
    """[RAFT-25, RAFT-35] MockLogTest.testCreateSnapshotBeforeLogStartOffset.

    And of the one that exists: MockLogTest.testCreateExistingSnapshot.
    """
    append_singly(log, 10, 1)
    commit(log)
    snapshot_id = snapshot(log, 10, 1)

    assert log.delete_before_snapshot(snapshot_id) in {True, False}
    assert log.start_offset == 10
    assert log.create_new_snapshot(OffsetAndEpoch(9, 1)) is None
    assert log.create_new_snapshot(snapshot_id) is None


def test_create_snapshot_much_earlier_epoch(log: MetadataLog):
    """[RAFT-25] MockLogTest.testCreateSnapshotMuchEarlierEpoch."""
    append_singly(log, 10, 2)
    commit(log)
    log.delete_before_snapshot(snapshot(log, 10, 2))

    with pytest.raises(IllegalArgumentError):
        log.create_new_snapshot(OffsetAndEpoch(10, 1))


@pytest.mark.parametrize("offset", [1, 5])
def test_create_snapshot_with_missing_epoch(log: MetadataLog, offset: int):
    """[RAFT-25] MockLogTest.testCreateSnapshotWithMissingEpoch."""
    append_singly(log, 5, 1)
    append_singly(log, 5, 3)
    commit(log)

    with pytest.raises(IllegalArgumentError):
        log.create_new_snapshot(OffsetAndEpoch(offset, 2))


def test_read_missing_snapshot(log: MetadataLog):
    """[RAFT-28] MockLogTest.testReadMissingSnapshot."""
    assert log.read_snapshot(OffsetAndEpoch(10, 0)) is None


def test_update_log_start_offset(log: MetadataLog):
    """[RAFT-35] MockLogTest.testUpdateLogStartOffset."""
    append_singly(log, 10)
    commit(log)
    log.delete_before_snapshot(snapshot(log, 10, 0))
    assert offsets_of(log) == (10, 10, 10, 0)

    append_singly(log, 10, 1)
    commit(log, 20)
    assert not log.delete_before_snapshot(OffsetAndEpoch(20, 0))
    assert offsets_of(log) == (10, 20, 20, 1)


def test_no_log_start_above_the_high_watermark(log: MetadataLog):
    """[RAFT-35]"""
    append_singly(log, 10, 1)
    commit(log, 4)
    snapshot_id = snapshot(log, 8, 1, unchecked=True)

    with pytest.raises(OffsetOutOfRangeError):
        log.delete_before_snapshot(snapshot_id)
    assert log.start_offset == 0


def test_truncate_fully_to_latest_snapshot(log: MetadataLog):
    """[RAFT-23] MockLogTest.testTruncateFullyToLatestSnapshot."""
    append(log, 10)
    begin_at_snapshot(log, 20, 0)
    assert offsets_of(log) == (20, 20, 20, 0)
    append(log, 10)
    begin_at_snapshot(log, 30, 1)
    assert offsets_of(log) == (30, 30, 30, 1)


def test_doesnt_truncate_fully(log: MetadataLog):
    """[RAFT-23] MockLogTest.testDoesntTruncateFully."""
    append(log, 10, 1)
    snapshot(log, 10, 0, unchecked=True)
    assert not log.truncate_to_latest_snapshot()
    append(log, 10, 1)
    snapshot(log, 10, 1, unchecked=True)
    assert not log.truncate_to_latest_snapshot()


def test_truncate_will_remove_older_snapshot(log: MetadataLog):
    """[RAFT-23] MockLogTest.testTruncateWillRemoveOlderSnapshot."""
    append_singly(log, 10, 1)
    commit(log)
    older = snapshot(log, 10, 1)
    append_singly(log, 10, 1)
    begin_at_snapshot(log, 20, 2)

    assert log.read_snapshot(older) is None


def test_update_log_start_offset_will_remove_older_snapshot(log: MetadataLog):
    """[RAFT-35, RAFT-37] MockLogTest.testUpdateLogStartOffsetWillRemoveOlderSnapshot."""
    append_singly(log, 10, 1)
    append_singly(log, 10, 2)
    commit(log)
    older = snapshot(log, 10, 1)

    assert log.delete_before_snapshot(snapshot(log, 20, 2))
    assert log.read_snapshot(older) is None


def test_last_fetched_epoch_without_any(log: MetadataLog):
    """[RAFT-11]"""
    assert log.last_fetched_epoch() == 0
    snapshot(log, 10, 0, unchecked=True)

    with pytest.raises(IllegalStateError):
        log.last_fetched_epoch()


@pytest.mark.parametrize("asked", [(1, 2), (2, 1)])
def test_validate_beyond_the_log(log: MetadataLog, asked: tuple[int, int]):
    """[RAFT-13] MockLogTest.testValidateEpochGreaterThanLastKnownEpoch.

    MockLogTest.testValidateOffsetGreatThanEndOffset.
    """
    append(log, 1, 1)

    assert log.validate_offset_and_epoch(*asked) == valid("DIVERGING", 1, 1)


def test_validate_at_the_oldest_snapshot(log: MetadataLog):
    """[RAFT-13] MockLogTest.testValidateOffsetLessThanOldestSnapshotOffset.

    MockLogTest.testValidateOffsetEqualToOldestSnapshotOffset.
    """
    begin_at_snapshot(log, 2, 1)

    assert log.validate_offset_and_epoch(1, 1) == valid("SNAPSHOT", 2, 1)
    assert log.validate_offset_and_epoch(2, 1) == valid("VALID", 2, 1)


def test_validate_offset_less_than_leo(log: MetadataLog):
    """[RAFT-13] MockLogTest.testValidateOffsetLessThanLEO."""
    append(log, 10, 1)
    append(log, 10, 2)

    assert log.validate_offset_and_epoch(11, 1) == valid("DIVERGING", 10, 1)


def test_truncate_to_what_another_log_has(log: MetadataLog):
    """[RAFT-15]"""
    append_singly(log, 5, 1)
    append_singly(log, 5, 3)

    assert log.truncate_to_end_offset(OffsetAndEpoch(9, 3)) == 9
    assert log.truncate_to_end_offset(OffsetAndEpoch(9, 2)) == 5
    assert log.truncate_to_end_offset(OffsetAndEpoch(3, 1)) == 3
    assert log.truncate_to_end_offset(OffsetAndEpoch(7, 0)) == 3
    assert log.truncate_to_end_offset(OffsetAndEpoch(2, 0)) == 2


def test_what_is_flushed_is_durable(log: MetadataLog):
    """[RAFT-16]"""
    append_singly(log, 3, 1)

    assert log.flush() == 3
    assert log.flush(force_active_segment=True) == 3


def test_a_bootstrap_snapshot_is_known(tmp_path: Path):
    """[RAFT-46] ``kafka-storage format`` writes it; it is recovered as any other."""
    with open_raft(tmp_path) as log:
        bootstrap = snapshot(log, 0, 0, unchecked=True)
    with open_raft(tmp_path) as log:
        assert log.snapshot_ids == (bootstrap,)
        assert log.validate_offset_and_epoch(0, 0) == valid("VALID", 0, 0)


def test_names_of_snapshots(tmp_path: Path):
    """[RAFT-20…RAFT-22, RAFT-30] Epochs first; what is unfinished or deleted goes at the open."""
    with open_raft(tmp_path) as log:
        snapshot(log, 3, 2, unchecked=True)
        snapshot(log, 9, 1, unchecked=True)
        assert log.snapshot_ids == (OffsetAndEpoch(9, 1), OffsetAndEpoch(3, 2))
        assert log.latest_snapshot().snapshot_id == OffsetAndEpoch(3, 2)  # type: ignore[union-attr]
        raw = log.create_new_snapshot_unchecked(OffsetAndEpoch(10, 2))
        assert raw is not None
        assert raw.path.endswith(".checkpoint.part")
        raw.append(b"half")
        log.close_quietly()
    folder = tmp_path / "__cluster_metadata-0"
    (folder / "00000000000000000001-0000000001.checkpoint.deleted").write_bytes(b"")
    (folder / "other.checkpoint").write_bytes(b"")
    with open_raft(tmp_path) as log:
        assert log.snapshot_ids[-1] == OffsetAndEpoch(3, 2)
    assert sorted(one.name for one in folder.iterdir() if ".checkpoint" in one.name) == [
        "00000000000000000003-0000000002.checkpoint",
        "00000000000000000009-0000000001.checkpoint.deleted",  # the log begins at the later one now
        "other.checkpoint",
    ]
