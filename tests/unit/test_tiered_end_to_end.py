"""A log, the manager of its remote part, a folder as the storage and a topic of its metadata.

Source: [TIER-2, TIER-31..TIER-60, TIER-65..TIER-73, DUR-140..DUR-144].
"""

from __future__ import annotations

import random
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import pytest

import segstore
from segstore import Isolation, SpecialTimestamp
from segstore._core import Directory
from segstore.errors import OffsetOutOfRangeError, RemoteStorageError
from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
from segstore.remote.log_manager.remote_log_manager import RemoteLogManager
from segstore.remote.log_manager.remote_log_manager_config import RemoteLogManagerConfig
from segstore.remote.log_manager.remote_log_reader import RemoteStorageReader
from segstore.remote.metadata.topic_based_remote_log_metadata_manager import (
    TopicBasedRemoteLogMetadataManager,
)
from segstore.remote.storage.open_storage import open_remote_storage
from tests.kits.log_kit import TIME, batch, offsets
from tests.kits.remote_kit import TIERED
from tests.kits.remote_metadata_kit import MemoryTopic
from tests.kits.unified_log_kit import Producer, write_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC_ID = UUID(int=7)
ISOLATIONS = [Isolation.LOG_END, Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED]


class Tiered(NamedTuple):
    """What belongs together."""

    log: segstore.UnifiedLog
    manager: RemoteLogManager
    reader: RemoteStorageReader
    path: Path


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def tiered(tmp_path):
    """Open the log in *tmp_path*, with what is in remote storage there."""
    topic = MemoryTopic(2)
    (tmp_path / "logs").mkdir()

    @contextmanager
    def open_tiered(**settings: object) -> Iterator[Tiered]:
        storage = open_remote_storage(tmp_path / "remote")
        metadata = TopicBasedRemoteLogMetadataManager(topic)
        with (
            closing(Directory(str(tmp_path / "logs"))) as directory,
            closing(RemoteIndexCache(directory, storage, clock_ms=now_ms)) as cache,
        ):
            reader = RemoteStorageReader(storage, metadata, cache, lambda _: TOPIC_ID)
            with segstore.open(
                tmp_path / "logs" / "orders-0",
                **{
                    "topic_id": TOPIC_ID,
                    "remote_log_reader": reader,
                    "internal_segment_bytes": 1000,
                    "retention_ms": None,
                    "local_retention_bytes": 0,
                    "file_delete_delay_ms": 0,
                    **TIERED,
                    **settings,
                },
            ) as log:
                manager = RemoteLogManager(
                    storage,
                    metadata,
                    cache,
                    broker_id=1,
                    clock_ms=now_ms,
                    config=RemoteLogManagerConfig(),
                )
                manager.on_leadership_change([log], [])
                yield Tiered(log, manager, reader, tmp_path)
                manager.close()

    return open_tiered


def seen(log, isolation: Isolation) -> dict[str, object]:
    scan = log.scan(isolation=isolation)
    return {
        "records": [(one.offset, one.timestamp, one.value) for one in scan],
        "arrow": scan.to_arrow().column("offset").to_pylist(),
        "count": scan.count(by_headers=True),
        "batches": [(one.base_offset, one.last_offset) for one in scan.batches()],
    }


def write(log) -> None:
    """Append transactions of two producers, and what is of neither, into many segments."""
    if log.latest_epoch is None:
        log.assign_epoch_start_offset(0, 0)
    draw = random.Random(5)
    producers = [Producer(log, pid) for pid in (1, 2)]
    under_way: set[Producer] = set()
    for number in range(120):
        producer = draw.choice(producers)
        match draw.choice(["plain", "data", "data", "end"]):
            case "plain":
                log.append_as_leader(batch([(TIME + number, b"key", b"%d" % number)]), 0)
            case "data":
                producer.write_in_transaction(draw.randint(1, 3), timestamp=TIME + number)
                under_way.add(producer)
            case _ if producer in under_way:
                producer.end(commit=draw.random() < 0.5, timestamp=TIME + number)
                under_way.remove(producer)
    for producer in sorted(under_way, key=lambda one: one.pid):
        producer.abort()
    log.roll()


def test_append_copy_delete_read_expire(tiered):
    """[TIER-2, TIER-31, TIER-65, TIER-69, DUR-140] all that is here goes, and all is read."""
    with tiered() as (log, manager, _, _):
        write(log)
        whole = {isolation: seen(log, isolation) for isolation in ISOLATIONS}
        end = log.log_end_offset
        assert len(log.segments()) > 5
        assert len(log.delete_old_segments()) == 0  # nothing is copied yet
        assert manager.copy(log) is None
        assert log.highest_offset_in_remote_storage == end - 1
        assert len(log.delete_old_segments()) > 5
        assert (log.log_start_offset, log.local_log_start_offset) == (0, end)
        for isolation in ISOLATIONS:
            assert seen(log, isolation) == whole[isolation]
        assert log.verify().ok
        write_plain(log, 2)
        assert offsets(log)[-2:] == [end, end + 1]

        # all that is older than these is expired
        log.update_config(log.config.with_changes(retention_bytes=log.segments()[-1].size_bytes))
        assert manager.expire(log) is None
        start = log.log_start_offset
        assert start > 0
        expected = [*whole[Isolation.LOG_END]["arrow"], end, end + 1]
        assert offsets(log) == [one for one in expected if one >= start]
        with pytest.raises(OffsetOutOfRangeError):
            log.scan(0)


def test_an_open_after_a_stop(tiered):
    """[TIER-5, DUR-26] what is in remote storage is the log's still, and read again."""
    with tiered() as (log, manager, _, _):
        write(log)
        whole = {isolation: seen(log, isolation) for isolation in ISOLATIONS}
        assert manager.copy(log) is None
        log.delete_old_segments()
    with tiered() as (log, manager, reader, path):
        assert log.log_start_offset == 0
        assert log.local_log_start_offset == log.log_end_offset
        for isolation in ISOLATIONS:
            assert seen(log, isolation) == whole[isolation]
        assert manager.copy(log) is None
        assert log.highest_offset_in_remote_storage == log.log_end_offset - 1
        with segstore.open(
            path / "logs" / "orders-0", read_only=True, remote_log_reader=reader, **TIERED
        ) as reading:
            for isolation in ISOLATIONS:
                assert seen(reading, isolation) == whole[isolation]


def test_times_in_both_tiers(tiered):
    """[TIER-71..TIER-73]"""
    with tiered() as (log, manager, _, _):
        log.assign_epoch_start_offset(0, 0)
        for number in range(40):
            log.append_as_leader(batch([(TIME + number, None, b"value" * 20)]), 0)
        found = [log.offset_for_timestamp(TIME + number) for number in range(41)]
        assert found == [*range(40), None]
        log.roll()
        assert manager.copy(log) is None
        log.update_config(log.config.with_changes(local_retention_bytes=1500))
        log.delete_old_segments()
        assert 0 < log.local_log_start_offset < 40
        assert [log.offset_for_timestamp(TIME + number) for number in range(41)] == found
        assert offsets(log.scan(start_timestamp=TIME + 7)) == list(range(7, 40))
        special = [
            log.fetch_offset_by_timestamp(one).offset
            for one in (
                SpecialTimestamp.EARLIEST,
                SpecialTimestamp.EARLIEST_LOCAL,
                SpecialTimestamp.LATEST_TIERED,
                SpecialTimestamp.EARLIEST_PENDING_UPLOAD,
            )
        ]
        assert special == [0, log.local_log_start_offset, 39, 40]


def test_each_read_of_one_batch(tiered):
    """[TIER-66..TIER-68] whatever offset and size are asked for."""
    with tiered() as (log, manager, _, _):
        write(log)
        asked = range(log.log_end_offset)
        before = [[one.offset for one in log.read(at, 1, min_one_message=True)] for at in asked]
        assert manager.copy(log) is None
        log.delete_old_segments()
        after = [[one.offset for one in log.read(at, 1, min_one_message=True)] for at in asked]
        assert after == before


def test_a_lost_object_ends_that_read_only(tiered):
    """[DUR-144] the error has its name, and the records here are read."""
    with tiered() as (log, manager, _, path):
        write(log)
        assert manager.copy(log) is None
        log.delete_old_segments()
        info = write_plain(log)
        (first,) = list((path / "remote").rglob("00000000000000000000-*.log"))
        first.unlink()
        with pytest.raises(RemoteStorageError) as caught:
            list(log)
        assert first.name in str(caught.value)
        assert offsets(log.scan(info.base_offset)) == [info.base_offset]
        assert offsets(log.scan(log.log_start_offset + 60))


def test_a_bucket_reads_what_was_copied(tiered):
    """[TIER-95] the folder is in the layout that `open_bucket` knows."""
    with tiered() as (log, manager, _, path):
        write(log)
        expected = offsets(log)
        assert manager.copy(log) is None
    with (
        closing(segstore.open_bucket(path / "remote")) as bucket,
        bucket.open("orders", 0) as copied,
    ):
        assert offsets(copied.scan()) == expected
