"""Storages that brokers wrote, read as a log reads them: every answer of the broker from there.

The metadata are the broker's records of `__remote_log_metadata`, the leader epochs those of its
local log; the broker answered fetches below its local log start from the storage.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, iterate_records, scan_headers
from segstore.errors import OffsetOutOfRangeError
from segstore.log.local.transaction_index import TransactionIndex
from segstore.records.compression import codec_table
from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
from segstore.remote.log_manager.remote_log_reader import RemoteStorageReader
from segstore.remote.metadata.remote_log_metadata_serde import parse_event
from segstore.remote.metadata.remote_partition_metadata_store import RemotePartitionMetadataStore
from segstore.remote.metadata.segment_metadata import TopicIdPartition
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.remote.tiered.object_key import parse_kafka_id
from segstore.types import EpochEntry
from tests.interop.test_golden_buckets import rows_of
from tests.interop.test_golden_tiered import partitions_of
from tests.kits.remote_storage import LOG, MemoryRemoteMetadata, MemoryRemoteStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = {
    "log": LOG,
    "index": IndexType.OFFSET,
    "timeindex": IndexType.TIMESTAMP,
    "txnindex": IndexType.TRANSACTION,
}


class TieredLog:
    """What a log of the broker has: its storage, its metadata, and its local files."""

    def __init__(self, case, topic_partition, folder, spool):
        self.case, self.name = case, str(topic_partition)
        self.topic_partition = topic_partition
        self.data = case.directory / case.remote.replace("remote", "data", 1)
        self.storage = MemoryRemoteStorage()
        for path in (case.storage / folder).iterdir():
            key = parse_kafka_id(path.name.partition(".")[0][21:])
            kind = KINDS.get(path.name.partition(".")[2])
            if kind is not None:
                self.storage.objects.setdefault(key, {})[kind] = path.read_bytes()
        topic_id = parse_kafka_id(folder[-22:])
        self.metadata = MemoryRemoteMetadata()
        self.metadata.cache = self.replayed(TopicIdPartition(topic_id, topic_partition))
        spool.mkdir(exist_ok=True)
        self.directory = Directory(str(spool))
        self.cache = RemoteIndexCache(self.directory, self.storage, clock_ms=lambda: 0)
        self.reader = RemoteStorageReader(
            self.storage, self.metadata, self.cache, lambda _: topic_id
        )
        lines = (self.data / self.name / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        self.epochs = [EpochEntry(*map(int, line.split())) for line in lines]
        local = sorted(self.data.joinpath(self.name).glob("*.log"))
        self.local_start = int(local[0].stem)
        said = case.said["broker"][self.name]
        self.log_start = said["log_start_offset"]

    def replayed(self, partition):
        """The events of the partition, in the order in which the broker wrote them."""
        store = RemotePartitionMetadataStore()
        store.assign(partition)
        for path in sorted((self.case.directory / "records").glob("__remote_log_metadata-*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                event = parse_event(base64.b64decode(json.loads(line)["value"]))
                of = getattr(event, "topic_id_partition", None)
                if (of or event.segment_id.topic_id_partition) == partition:
                    store.apply(event)
        store.mark_initialized(partition)
        return store.cache(partition)

    def local_aborted(self, start, end):
        directory = Directory(str(self.data / self.name))
        try:
            for path in sorted(self.data.joinpath(self.name).glob("*.txnindex")):
                index = TransactionIndex(directory, int(path.stem))
                found = index.collect_aborted_transactions(start, end)
                yield from found.aborted
                if found.is_complete:
                    return
        finally:
            directory.close()

    def read(self, offset, max_bytes, *, is_committed=False):
        return self.reader.read(
            self.topic_partition,
            offset,
            max_bytes,
            min_one_message=True,
            leader_epochs=self.epochs,
            is_committed=is_committed,
            local_aborted_transactions=self.local_aborted,
        )

    def close(self):
        self.cache.close()
        self.directory.close()


@pytest.fixture
def tiered_logs(tiered_case, tmp_path) -> Iterator[list[TieredLog]]:
    """The partitions of a storage."""
    logs = [
        TieredLog(tiered_case, one, folder, tmp_path / folder)
        for one, folder in partitions_of(tiered_case).items()
    ]
    yield logs
    for log in logs:
        log.close()


def test_every_record_below_the_local_log_start_is_read(tiered_logs, golden_summary):
    """[TIER-65] [TIER-66] [TIER-67] One read after the other, from where the last one ended."""
    for log in tiered_logs:
        if not log.case.is_last:
            pytest.skip("the broker's records are those of the last storage of the case")
        found, offset = [], log.log_start
        while offset < log.local_start:
            records = log.read(offset, 5000).records
            batch = list(iterate_records(records, codec_table()))
            found += [(one.offset, one.timestamp) for one in batch if one.offset >= offset]
            offset = _end_of(records)
        said = rows_of(log.case.directory / "records" / f"{log.name}.jsonl")
        expected = [row[:2] for row in said if row[0] < offset]
        assert found == expected
        golden_summary.add("records read from tiers", len(found), len(expected))


def test_fetches_give_the_broker_s_bytes_and_aborted_transactions(tiered_logs, golden_summary):
    """[TIER-67] [TIER-69] records/fetches.json, those that start below the local log start."""
    count = 0
    for log in tiered_logs:
        for fetch in log.case.answers("fetches", log.name) if log.case.is_last else ():
            offset, is_committed = fetch["fetch_offset"], fetch["isolation"] == "read_committed"
            if fetch["error"] != "NONE" or not log.log_start <= offset < log.local_start:
                continue
            found = log.read(offset, fetch["max_bytes"], is_committed=is_committed)
            assert hashlib.sha256(found.records).hexdigest() == fetch["records_sha256"]
            if is_committed:
                listed = [[one.producer_id, one.first_offset] for one in found.aborted_transactions]
                assert sorted(listed) == sorted(fetch["aborted_transactions"])  # of a hash set
            else:
                assert found.aborted_transactions is None
            place = found.offset_metadata
            assert place.message_offset == fetch["first_batch_base_offset"]
            count += 1
    golden_summary.add("fetches from tiers", count, count)


def test_look_ups_by_time_give_the_broker_s_answers(tiered_logs, golden_summary):
    """[TIER-71] records/offsets_for_times.json, those whose answer is below the local start."""
    count = 0
    for log in tiered_logs:
        for answer in log.case.answers("offsets_for_times", log.name) if log.case.is_last else ():
            target = answer["target"]
            if isinstance(target, int) and 0 <= answer["offset"] < log.local_start:
                found = log.reader.find_offset_by_timestamp(
                    log.topic_partition, target, log.log_start, log.epochs
                )
                said = (answer["timestamp"], answer["offset"], answer["leaderEpoch"])
                assert tuple(found) == said
                count += 1
    golden_summary.add("look-ups by time in tiers", count, count)


def test_offsets_that_no_finished_segment_has_are_out_of_range(tiered_logs):
    """[TIER-65] [TIER-23] Behind the last one, also where a copy has begun."""
    for log in tiered_logs:
        finished = [
            one.end_offset
            for one in log.metadata.list_remote_log_segments(None)
            if one.state.name == "COPY_SEGMENT_FINISHED"
        ]
        with pytest.raises(OffsetOutOfRangeError):
            log.read(max(finished, default=-1) + 1, 1000)


def _end_of(records):
    """The first offset behind the whole batches."""
    table, result = scan_headers(records)
    assert len(table)
    assert result.next_offset > 0
    return result.next_offset
