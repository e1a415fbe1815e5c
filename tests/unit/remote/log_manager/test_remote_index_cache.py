"""Indexes of remote segments: what the cache believes, what it lets go, and what it leaves."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory
from segstore.errors import (
    CorruptIndexError,
    IllegalArgumentError,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    UnsupportedFormatError,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.remote.log_manager.remote_index_cache import (
    DELETE_DELAY_MS,
    DIRECTORY_NAME,
    RemoteIndexCache,
)
from segstore.remote.storage.remote_storage_manager import IndexType
from tests.kits.remote_storage import MemoryRemoteStorage, segment_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata

START = 100
OFFSETS = struct.pack(">iiii", 10, 500, 20, 900)
TIMES = struct.pack(">qiqi", 1000, 10, 2000, 20)


@pytest.fixture
def storage() -> MemoryRemoteStorage:
    return MemoryRemoteStorage()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / DIRECTORY_NAME


@pytest.fixture
def clock() -> list[int]:
    """The time in ms, which a test changes."""
    return [0]


@pytest.fixture
def opened(
    tmp_path: Path, storage: MemoryRemoteStorage, clock: list[int]
) -> Iterator[Callable[..., RemoteIndexCache]]:
    """Open a cache, as often as a test wants one."""
    above, caches = Directory(str(tmp_path)), []

    def make(**settings: object) -> RemoteIndexCache:
        caches.append(RemoteIndexCache(above, storage, clock_ms=lambda: clock[0], **settings))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()
    above.close()


@pytest.fixture
def segment(storage: MemoryRemoteStorage) -> RemoteLogSegmentMetadata:
    """One that is in the storage, with two entries an index and no aborted transaction."""
    return add_segment(storage)


def add_segment(
    storage: MemoryRemoteStorage, *, offsets: bytes = OFFSETS, times: bytes = TIMES
) -> RemoteLogSegmentMetadata:
    metadata = segment_metadata(START, START + 30, epochs=((0, START),))
    indexes = {IndexType.OFFSET: offsets, IndexType.TIMESTAMP: times}
    storage.objects[metadata.segment_id.id] = indexes
    return metadata


def stem_of(metadata: RemoteLogSegmentMetadata) -> str:
    return f"{START}_{topic_id_text(metadata.segment_id.id)}"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_an_index_whose_entries_do_not_ascend_is_refused(opened, storage):
    """[TIER-82] [DUR-53] Kafka's check looks at the last entry alone, and would look up wrongly."""
    bad = struct.pack(">iiiiii", 10, 500, 5, 600, 20, 900)
    for wrong in (
        add_segment(storage, offsets=bad),
        add_segment(storage, times=struct.pack(">qiqiqi", 2000, 10, 1000, 15, 3000, 20)),
    ):
        with pytest.raises(CorruptIndexError, match="do not ascend"):
            opened().index_entry(wrong)
    metadata = add_segment(storage, offsets=bad)
    assert len(opened(kafka_profile=True).index_entry(metadata).offset_index) == 3


def test_zeros_behind_the_entries_are_no_entries(opened, storage):
    """[TIER-82] [DUR-80] A broker that was killed may have copied an index before it was cut."""
    metadata = add_segment(storage, offsets=OFFSETS + bytes(64), times=TIMES + bytes(24))

    cache = opened()

    assert cache.lookup_offset(metadata, START + 25) == 900
    assert cache.lookup_timestamp(metadata, 1500, START) == 500


def test_a_segment_said_to_have_no_transaction_index_is_not_asked_for_one(opened, storage):
    """[TIER-25] [TIER-82] The flag of 4.x saves a request; without it a missing one is empty."""
    silent = add_segment(storage)
    told = segment_metadata(
        START, START + 30, epochs=((0, START),), is_transaction_index_empty=True
    )
    storage.objects[told.segment_id.id] = storage.objects[silent.segment_id.id]
    cache = opened()

    assert cache.index_entry(told).transaction_index.is_empty
    assert storage.asked[IndexType.TRANSACTION] == 0
    assert cache.index_entry(silent).transaction_index.is_empty
    assert storage.asked[IndexType.TRANSACTION] == 1


@pytest.mark.parametrize("kind", [IndexType.OFFSET, IndexType.TIMESTAMP])
def test_an_index_that_is_missing_is_an_error(opened, storage, segment, folder, kind):
    """[TIER-82] Only that of the transactions may be."""
    del storage.objects[segment.segment_id.id][kind]
    cache = opened()

    with pytest.raises(RemoteResourceNotFoundError):
        cache.lookup_offset(segment, START)

    assert cache.segment_ids == []
    assert not [name for name in names(folder) if name.endswith(".tmp")]


def test_a_failed_fetch_is_tried_again_by_the_next_look_up(opened, storage, segment):
    """[TIER-82] [DUR-144] The error is that of one look-up."""
    cache = opened()

    def fail(what: str) -> None:
        raise RemoteStorageError(f"no {what} today")

    storage.before = fail
    with pytest.raises(RemoteStorageError, match="no offset today"):
        cache.lookup_offset(segment, START)
    storage.before = None
    assert cache.lookup_offset(segment, START + 10) == 500


def test_what_is_not_used_for_the_time_to_live_goes(opened, storage, clock, folder):
    """[TIER-81] [CFG-81] Counted from the last use, whatever is used beside it."""
    idle, used = add_segment(storage), add_segment(storage)
    cache = opened(ttl_ms=1000)
    cache.index_entry(idle)
    cache.index_entry(used)

    clock[0] = 900
    cache.index_entry(used)
    cache.clean_up()
    assert len(cache.segment_ids) == 2
    clock[0] = 1000
    cache.clean_up()
    assert cache.segment_ids == [used.segment_id.id]
    assert cache.pending_deletions == 1
    clock[0] += DELETE_DELAY_MS - 1
    cache.clean_up()
    assert {name for name in names(folder) if name.startswith(stem_of(idle))}
    clock[0] += 1
    cache.clean_up()
    assert not {name for name in names(folder) if name.startswith(stem_of(idle))}


def test_an_expired_entry_is_fetched_again(opened, storage, segment, clock):
    """[TIER-81] A look-up needs no `clean_up` before it."""
    cache = opened(ttl_ms=1000)
    cache.index_entry(segment)
    clock[0] = 1000

    cache.index_entry(segment)

    assert storage.asked[IndexType.OFFSET] == 2


def test_the_entry_used_longest_ago_makes_room(opened, storage):
    """[TIER-81] Each has 40 bytes."""
    first, second, third = (add_segment(storage) for _ in range(3))
    cache = opened(max_size_bytes=80)
    for metadata in (first, second, first, third):
        cache.index_entry(metadata)

    assert cache.segment_ids == [first.segment_id.id, third.segment_id.id]
    assert cache.size_bytes == 80


def test_indexes_above_the_bound_alone_answer_once(opened, segment):
    """[TIER-81] [TIER-84] They are deleted after ten seconds, so that the look-up has them."""
    cache = opened(max_size_bytes=39)

    assert cache.lookup_offset(segment, START + 20) == 900
    assert (cache.segment_ids, cache.size_bytes, cache.pending_deletions) == ([], 0, 1)


def test_a_start_takes_what_is_whole(opened, storage, segment):
    """[TIER-86] Nothing is fetched."""
    opened().index_entry(segment)
    storage.objects.clear()

    cache = opened()

    assert cache.segment_ids == [segment.segment_id.id]
    assert cache.lookup_offset(segment, START + 20) == 900


def test_a_start_deletes_left_overs(opened, segment, folder):
    """[TIER-86] Files of an interrupted fetch or deletion, and those of an incomplete entry."""
    opened().close()
    stem = stem_of(segment)
    for name in ("x.index.tmp", f"{stem}.index.deleted", f"{stem}.index", f"{stem}.timeindex"):
        (folder / name).write_bytes(b"")

    opened()

    assert names(folder) == set()


def test_a_start_passes_over_what_is_damaged_or_another_s(opened, segment, folder):
    """[TIER-86] [DUR-144] Kafka's start fails at either, and so does the conformance profile's."""
    opened().index_entry(segment)
    (folder / f"{stem_of(segment)}.index").write_bytes(b"abc")
    with pytest.raises(CorruptIndexError):
        opened(kafka_profile=True)
    (folder / "notes.txt").write_text("mine")
    (folder / f"x1_{stem_of(segment)[4:]}.index").write_text("mine")

    cache = opened()

    assert cache.segment_ids == []
    assert names(folder) == {"notes.txt", f"x1_{stem_of(segment)[4:]}.index"}
    assert cache.lookup_offset(segment, START + 20) == 900
    cache.close()
    with pytest.raises(IllegalArgumentError):
        opened(kafka_profile=True)


def test_a_transaction_index_of_another_version_is_refused(opened, storage, segment):
    """[TIER-82] [TXX-3] Both bytes count, as in 4.4.0."""
    entry = struct.pack(">hqqqq", 9, 1, START, START + 5, START + 6)
    storage.objects[segment.segment_id.id][IndexType.TRANSACTION] = entry

    with pytest.raises(UnsupportedFormatError):
        opened().index_entry(segment)
