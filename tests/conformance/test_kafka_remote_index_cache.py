"""Kafka's RemoteIndexCacheTest.

Kafka deletes files on a thread named ``remote-log-index-cleaner``. Here `clean_up` does it, which
the owner calls; a test moves the clock.
"""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from segstore._core import Directory
from segstore.errors import CorruptIndexError, IllegalStateError, SegstoreError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.local.transaction_index import AbortedTransaction
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

START = 2**31 + 101_337
END = START + 30
TRIPLE = (".index", ".timeindex", ".txnindex")
FETCHED = (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)
ENTRY_BYTES = 3 * 8 + 3 * 12 + 34
"""Of the indexes of one segment."""


class Setting:
    """A cache, its storage, and the clock of both."""

    def __init__(self, folder: Path) -> None:
        self.above = Directory(str(folder))
        self.folder = folder / DIRECTORY_NAME
        self.storage = MemoryRemoteStorage()
        self.now_ms = 0
        self.cache = self.opened()

    def opened(self, max_size_bytes: int = 1024 * 1024) -> RemoteIndexCache:
        return RemoteIndexCache(
            self.above, self.storage, max_size_bytes=max_size_bytes, clock_ms=lambda: self.now_ms
        )

    def segment(self, *, has_aborted: bool = True) -> RemoteLogSegmentMetadata:
        """Put a segment with three entries an index into the storage."""
        metadata = segment_metadata(START, END, epochs=((0, START),))
        objects = {
            IndexType.OFFSET: b"".join(struct.pack(">ii", 10 * n, 100 * n) for n in (1, 2, 3)),
            IndexType.TIMESTAMP: b"".join(struct.pack(">qi", 50 + n, 10 * n) for n in (1, 2, 3)),
        }
        if has_aborted:
            aborted = AbortedTransaction(1, START + 1, START + 9, START + 10)
            objects[IndexType.TRANSACTION] = aborted.format()
        self.storage.objects[metadata.segment_id.id] = objects
        return metadata

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}

    def counts(self) -> list[int]:
        return [self.storage.asked[kind] for kind in FETCHED]

    def pass_delay(self) -> None:
        self.now_ms += DELETE_DELAY_MS
        self.cache.clean_up()


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    made.cache.close()
    made.above.close()


def names_of(metadata: RemoteLogSegmentMetadata, ending: str = "") -> set[str]:
    stem = f"{metadata.start_offset}_{topic_id_text(metadata.segment_id.id)}"
    return {stem + suffix + ending for suffix in TRIPLE}


def test_index_file_name_and_location_on_disk(setting: Setting):
    """[TIER-80] RemoteIndexCacheTest.testIndexFileNameAndLocationOnDisk."""
    metadata = setting.segment()

    entry = setting.cache.index_entry(metadata)

    assert setting.names() == names_of(metadata)
    indexes = (entry.offset_index, entry.time_index, entry.transaction_index)
    assert {index.name for index in indexes} == names_of(metadata)
    assert str(START) in entry.offset_index.name
    assert setting.cache.path == str(setting.folder)


def test_fetch_index_from_remote_storage(setting: Setting):
    """[TIER-82] [TIER-88] RemoteIndexCacheTest.testFetchIndexFromRemoteStorage."""
    metadata = setting.segment()

    assert setting.cache.lookup_offset(metadata, START + 20) == 200
    assert setting.counts() == [1, 1, 1]
    assert setting.cache.lookup_offset(metadata, START + 30) == 300
    assert setting.cache.lookup_timestamp(metadata, 52, START) == 200
    assert setting.cache.lookup_timestamp(metadata, 51, START + 25) == 200
    assert setting.counts() == [1, 1, 1]


def test_fetch_index_for_missing_transaction_index(setting: Setting):
    """[TIER-82] RemoteIndexCacheTest.testFetchIndexForMissingTransactionIndex."""
    entry = setting.cache.index_entry(setting.segment(has_aborted=False))

    assert entry.transaction_index.is_empty
    assert (setting.folder / entry.transaction_index.name).stat().st_size == 0


def test_position_for_non_existing_index_from_remote_storage(setting: Setting):
    """[TIER-88] RemoteIndexCacheTest.testPositionForNonExistingIndexFromRemoteStorage."""
    metadata = setting.segment()

    assert setting.cache.lookup_offset(metadata, END + 1) == 300
    assert setting.cache.lookup_offset(metadata, START + 1) == 0


def test_cache_entry_expiry(setting: Setting):
    """[TIER-81] RemoteIndexCacheTest.testCacheEntryExpiry: a bound of two; who goes is free."""
    setting.cache.resize(2 * ENTRY_BYTES)
    first, second, third = (setting.segment() for _ in range(3))

    for number, metadata in enumerate((first, second, third), 1):
        setting.cache.index_entry(metadata)
        assert setting.counts() == [number] * 3

    kept = set(setting.cache.segment_ids)
    assert len(kept) == 2
    assert kept & {first.segment_id.id, second.segment_id.id}
    gone = next(one for one in (first, second, third) if one.segment_id.id not in kept)
    setting.cache.index_entry(gone)
    assert setting.counts() == [4] * 3
    assert setting.cache.size_bytes <= 2 * ENTRY_BYTES


def test_close_is_idempotent(setting: Setting):
    """[TIER-85] RemoteIndexCacheTest.testCloseIsIdempotent."""
    entry = setting.cache.index_entry(setting.segment())

    setting.cache.close()
    assert entry.offset_index.closed
    setting.cache.close()


def test_cache_entry_is_deleted_on_removal(setting: Setting):
    """[TIER-84] RemoteIndexCacheTest.testCacheEntryIsDeletedOnRemoval."""
    metadata = setting.segment()
    entry = setting.cache.index_entry(metadata)

    setting.cache.remove(metadata.segment_id.id)
    assert (entry.is_marked_for_cleanup, entry.is_cleaned_up) == (True, False)
    assert setting.names() == names_of(metadata, ".deleted")
    assert entry.position_of_offset(START + 20) == 200  # whoever holds it

    setting.pass_delay()
    assert entry.is_cleaned_up
    assert setting.names() == set()
    with pytest.raises(IllegalStateError):
        entry.position_of_offset(START + 20)


def test_cleaner_thread_shutdown(setting: Setting, monkeypatch: pytest.MonkeyPatch):
    """[TIER-84] RemoteIndexCacheTest.testCleanerThreadShutdown: one failure keeps no other entry.

    There is no thread here.
    """
    metadata, other = setting.segment(), setting.segment()
    broken = setting.cache.index_entry(metadata)
    setting.cache.index_entry(other)

    def fail() -> None:
        raise SegstoreError("injected")

    monkeypatch.setattr(broken, "clean_up", fail)
    setting.cache.remove_all([metadata.segment_id.id, other.segment_id.id])
    setting.pass_delay()

    assert setting.cache.pending_deletions == 0
    assert setting.names() == names_of(metadata, ".deleted")


def test_close(setting: Setting):
    """[TIER-85] RemoteIndexCacheTest.testClose: three indexes closed, no file deleted."""
    metadata, doomed = setting.segment(), setting.segment()
    entry = setting.cache.index_entry(metadata)
    setting.cache.index_entry(doomed)
    setting.cache.remove(doomed.segment_id.id)

    setting.cache.close()
    setting.pass_delay()

    assert (entry.offset_index.closed, entry.time_index.closed) == (True, True)
    assert setting.names() == names_of(metadata) | names_of(doomed, ".deleted")
    with pytest.raises(IllegalStateError):
        setting.cache.index_entry(metadata)


def test_concurrent_read_write_access_for_cache(setting: Setting):
    """[TIER-83] RemoteIndexCacheTest.testConcurrentReadWriteAccessForCache."""
    fast, slow = setting.segment(), setting.segment()
    setting.cache.index_entry(fast)
    fetches, may_go_on = Event(), Event()

    def wait(_: str) -> None:
        fetches.set()
        assert may_go_on.wait(10)

    setting.storage.before = wait
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(setting.cache.lookup_offset, slow, START + 20)
        assert fetches.wait(10)
        second = pool.submit(setting.cache.lookup_offset, slow, START + 20)
        assert setting.cache.lookup_offset(fast, START + 20) == 200
        assert not first.done()
        may_go_on.set()
        assert first.result(10) == second.result(10) == 200
    assert setting.counts() == [2, 2, 2]


def test_remove_item(setting: Setting):
    """[TIER-84] RemoteIndexCacheTest.testRemoveItem."""
    metadata = setting.segment()
    entry = setting.cache.index_entry(metadata)

    setting.cache.remove(metadata.segment_id.id)

    assert setting.cache.segment_ids == []
    assert entry.is_marked_for_cleanup


def test_remove_non_existent_item(setting: Setting):
    """[TIER-84] RemoteIndexCacheTest.testRemoveNonExistentItem."""
    metadata = setting.segment()
    entry = setting.cache.index_entry(metadata)

    setting.cache.remove(uuid4())

    assert setting.cache.segment_ids == [metadata.segment_id.id]
    assert not entry.is_marked_for_cleanup


def test_remove_multiple_items(setting: Setting):
    """[TIER-84] RemoteIndexCacheTest.testRemoveMultipleItems."""
    segments = [setting.segment() for _ in range(10)]
    entries = [setting.cache.index_entry(one) for one in segments]

    setting.cache.remove_all(one.segment_id.id for one in segments)

    assert setting.cache.segment_ids == []
    assert all(entry.is_marked_for_cleanup for entry in entries)


def test_clear_cache_and_index_files_when_resize_cache(setting: Setting):
    """[TIER-87] RemoteIndexCacheTest.testClearCacheAndIndexFilesWhenResizeCache."""
    setting.cache.index_entry(setting.segment())

    setting.cache.resize(1)
    assert (setting.cache.segment_ids, setting.cache.size_bytes) == ([], 0)
    setting.pass_delay()
    assert setting.names() == set()


def test_correctness_for_cache_and_index_files_when_resize_cache(setting: Setting):
    """[TIER-87] RemoteIndexCacheTest.testCorrectnessForCacheAndIndexFilesWhenResizeCache."""
    setting.cache.index_entry(setting.segment())
    setting.cache.resize(1)
    assert setting.cache.segment_ids == []

    setting.cache.resize(2 * ENTRY_BYTES)
    segments = [setting.segment() for _ in range(3)]
    for one in segments:
        setting.cache.index_entry(one)
    last_two = [one.segment_id.id for one in segments[1:]]
    assert setting.cache.segment_ids == last_two

    setting.cache.resize(ENTRY_BYTES)
    assert setting.cache.segment_ids == last_two[1:]
    setting.cache.resize(ENTRY_BYTES)
    setting.cache.resize(4 * ENTRY_BYTES)
    assert setting.cache.segment_ids == last_two[1:]
    setting.pass_delay()
    assert setting.names() == names_of(segments[-1])


@pytest.mark.parametrize("suffix", TRIPLE)
def test_corrupt_cache_index_file_exists_but_not_in_cache(setting: Setting, suffix: str):
    """[TIER-82] RemoteIndexCacheTest.testCorruptCacheIndexFileExistsButNotInCache."""
    metadata = setting.segment()
    stem = f"{START}_{topic_id_text(metadata.segment_id.id)}"
    garbage = {".txnindex": struct.pack(">hqqqq", 0, 1, 0, START - 1, START)}
    damaged = setting.folder / f"{stem}{suffix}"
    damaged.write_bytes(garbage.get(suffix, b"no index"[:7]))

    entry = setting.cache.index_entry(metadata)

    assert setting.counts() == [1, 1, 1]
    assert [len(entry.offset_index), len(entry.time_index)] == [3, 3]
    assert [one.producer_id for one in entry.transaction_index] == [1]


def test_concurrent_remove_read_for_cache(setting: Setting):
    """[TIER-83] [TIER-84] RemoteIndexCacheTest.testConcurrentRemoveReadForCache."""
    metadata = setting.segment()
    key = metadata.segment_id.id

    def repeat(action: Callable[[], object]) -> None:
        for _ in range(100):
            action()

    with ThreadPoolExecutor(2) as pool:
        reads = pool.submit(repeat, lambda: setting.cache.lookup_offset(metadata, START + 20))
        removals = pool.submit(repeat, lambda: setting.cache.remove(key))
        reads.result(60)
        removals.result(60)

    here = {name for name in setting.names() if not name.endswith(".deleted")}
    assert here == (names_of(metadata) if key in setting.cache.segment_ids else set())


@pytest.mark.parametrize("kind", FETCHED)
def test_rsm_return_corrupted_index_file(setting: Setting, kind: IndexType):
    """[TIER-82] RemoteIndexCacheTest.testRSMReturnCorruptedIndexFile."""
    metadata = setting.segment()
    objects = setting.storage.objects[metadata.segment_id.id]
    wrong = struct.pack(">hqqqq", 0, 1, 0, START - 1, START)
    objects[kind] = wrong if kind is IndexType.TRANSACTION else b"no index"[:7]

    with pytest.raises(CorruptIndexError):
        setting.cache.index_entry(metadata)

    assert setting.cache.segment_ids == []


def test_concurrent_cache_deleted_file_exists(setting: Setting):
    """[TIER-84] RemoteIndexCacheTest.testConcurrentCacheDeletedFileExists."""
    metadata = setting.segment()
    setting.cache.index_entry(metadata)
    for name in names_of(metadata, ".deleted"):
        (setting.folder / name).write_bytes(b"of another time")

    setting.cache.remove(metadata.segment_id.id)
    assert setting.names() == names_of(metadata, ".deleted")
    setting.pass_delay()
    assert setting.names() == set()
