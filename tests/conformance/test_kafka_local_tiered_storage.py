"""Kafka's LocalTieredStorageTest: one segment with its indexes, stored, fetched and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import RemoteResourceNotFoundError
from segstore.remote.storage.open_storage import open_remote_storage
from segstore.remote.storage.remote_storage_manager import IndexType
from tests.kits.remote_storage_kit import metadata_of, sealed_segments, segment_data

if TYPE_CHECKING:
    from segstore.remote.storage.tiered_storage import TieredStorage

FILES = 6


@pytest.fixture
def storage(tmp_path: Path) -> TieredStorage:
    return open_remote_storage(tmp_path / "remote")


def names(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "remote").rglob("*") if path.is_file()]


def test_fetch_log_segment(storage, tmp_path):
    """[TIER-12] LocalTieredStorageTest.fetchLogSegment: from position 0 on, what was stored."""
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        log.append([(None, bytes([0, 1, 2]))])
        log.roll()
        ((metadata, data),) = sealed_segments(log)
        storage.copy_log_segment_data(metadata, data)
    fetched = storage.fetch_log_segment(metadata, 0, metadata.segment_size_bytes)
    assert bytes(fetched) == Path(data.log_segment).read_bytes()
    assert bytes([0, 1, 2]) in bytes(fetched)


@pytest.mark.parametrize(
    ("index", "field"),
    [
        (IndexType.TIMESTAMP, "time_index"),
        (IndexType.TRANSACTION, "transaction_index"),
        (IndexType.PRODUCER_SNAPSHOT, "producer_snapshot_index"),
    ],
)
def test_fetch_index(storage, tmp_path, index, field):
    """[TIER-12] LocalTieredStorageTest.fetchTimeIndex.

    LocalTieredStorageTest.fetchTransactionIndex, LocalTieredStorageTest.fetchProducerSnapshot.
    """
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    storage.copy_log_segment_data(metadata, data)
    stored = Path(getattr(data, field)).read_bytes()
    assert bytes(storage.fetch_index(metadata, index)) == stored


def test_fetch_leader_epoch_checkpoint(storage, tmp_path):
    """[TIER-12] LocalTieredStorageTest.fetchLeaderEpochCheckpoint: the bytes that were given."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    storage.copy_log_segment_data(metadata, data)
    assert bytes(storage.fetch_index(metadata, IndexType.LEADER_EPOCH)) == data.leader_epoch_index


def test_delete_log_segment(storage, tmp_path):
    """[TIER-98] LocalTieredStorageTest.deleteLogSegment: all six files go."""
    metadata, data = metadata_of(0, 9, 20_000), segment_data(tmp_path / "log")
    storage.copy_log_segment_data(metadata, data)
    assert len(names(tmp_path)) == FILES
    storage.delete_log_segment_data(metadata)
    assert names(tmp_path) == []


@pytest.mark.parametrize("segments", [1, 2])
def test_traverse_multiple_offloaded_records(storage, tmp_path, segments):
    """[TIER-95] Records of one or two segments.

    LocalTieredStorageTest.traverseMultipleOffloadedRecordsInOneSegment,
    LocalTieredStorageTest.traverseMultipleOffloadedRecordsInTwoSegments.

    Kafka's helper walks the folders; here the folder is opened as a bucket.
    """
    values = [b"a", b"b"]
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        for value in values:
            log.append([(None, value)])
            if segments == len(values) or value == values[-1]:
                log.roll()
        copies = list(sealed_segments(log))
        for metadata, data in copies:
            storage.copy_log_segment_data(metadata, data)
    assert len(copies) == segments
    with (
        segstore.open_bucket(
            tmp_path / "remote", spool_directory=str(tmp_path / "spool")
        ) as bucket,
        bucket.open("orders", 0) as log,
    ):
        assert [record.value for record in log.scan()] == values
        assert len(list(log.segments())) == segments


def test_fetch_throws_if_data_does_not_exist(storage):
    """[TIER-12] LocalTieredStorageTest.fetchThrowsIfDataDoesNotExist: of an unknown id."""
    metadata = metadata_of(0, 9, 20_000)
    with pytest.raises(RemoteResourceNotFoundError):
        storage.fetch_log_segment(metadata, 0, metadata.segment_size_bytes)
    for index in IndexType:
        with pytest.raises(RemoteResourceNotFoundError):
            storage.fetch_index(metadata, index)
