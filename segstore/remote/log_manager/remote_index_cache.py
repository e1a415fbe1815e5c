"""Indexes of remote segments, kept as files of a log directory and mapped into memory.

``remote-log-index-cache/<start offset>_<segment id>`` with ``.index``, ``.timeindex`` and
``.txnindex``: the three that a read needs. All of them go when memory or disk gets tight, and are
fetched again.

THREADS  One lock guards what is cached, and is held for renames, never for a fetch. A segment's
indexes are fetched by one thread; others that want the same wait for it.

Source: [TIER-80..TIER-88], Kafka ``RemoteIndexCache``.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import suppress
from threading import Condition
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from segstore._core import Barrier, DataFile, Directory, OffsetIndex, TimeIndex
from segstore.errors import (
    CorruptIndexError,
    IllegalArgumentError,
    IllegalStateError,
    LogNotFoundError,
    RemoteResourceNotFoundError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.local.transaction_index import LOADED_VERSIONS, READ_VERSIONS, TransactionIndex
from segstore.number_limits import MAX_LONG
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.remote.storage.segment_files import INDEXES, object_name
from segstore.remote.tiered.object_key import parse_kafka_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata
    from segstore.remote.storage.remote_storage_manager import RemoteStorageManager

DIRECTORY_NAME: Final = "remote-log-index-cache"
DEFAULT_MAX_SIZE_BYTES: Final = 1024 * 1024 * 1024
DEFAULT_TTL_MS: Final = 15 * 60 * 1000
DELETE_DELAY_MS: Final = 10_000
"""From the removal of an entry to that of its files [TIER-84]."""

_SUFFIXES: Final = {
    kind: f".{INDEXES[kind]}"
    for kind in (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)
}
_DELETED: Final = ".deleted"
_TMP: Final = ".tmp"
_log = logging.getLogger(__name__)
_IndexT = TypeVar("_IndexT", OffsetIndex, TimeIndex, TransactionIndex)


class RemoteIndexEntry:
    """The indexes of one remote segment (Kafka ``RemoteIndexCache.Entry``).

    An entry that the cache has let go still answers until its files are deleted [TIER-84].

    Attributes
    ----------
    offset_index : OffsetIndex
        Offset to position.
    time_index : TimeIndex
        Timestamp to offset.
    transaction_index : TransactionIndex
        Aborted transactions; empty where the segment has none.
    has_transactions : bool
        Whether the transaction index had a byte when it was opened.
    size_bytes : int
        Of the three files together, when they were opened [TIER-81].
    is_marked_for_cleanup : bool
        The cache has let it go.
    is_cleaned_up : bool
        The deletion of its files has begun: it refuses look-ups.
    """

    def __init__(
        self,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
        transaction_index: TransactionIndex,
        transaction_index_bytes: int,
    ) -> None:
        self.offset_index = offset_index
        self.time_index = time_index
        self.transaction_index = transaction_index
        self.has_transactions = transaction_index_bytes > 0
        self.size_bytes = offset_index.length + time_index.length + transaction_index_bytes
        self.is_marked_for_cleanup = False
        self.is_cleaned_up = False

    def position_of_offset(self, offset: int) -> int:
        """Return where a scan for *offset* may begin: a byte of the segment [TIER-88].

        Raises
        ------
        IllegalStateError
            The files of the entry are deleted.
        """
        self._require_files()
        return self.offset_index.lookup(offset).position

    def position_of_timestamp(self, timestamp: int, starting_offset: int) -> int:
        """Return where a scan for records of that time, from an offset on, may begin [TIER-88]."""
        self._require_files()
        found = self.time_index.lookup(timestamp)
        return self.offset_index.lookup(max(starting_offset, found.offset)).position

    def _require_files(self) -> None:
        if self.is_cleaned_up:
            raise IllegalStateError(
                f"the files of {self.offset_index.name} are deleted",
                file=self.offset_index.path,
                found="an entry that was let go",
                expected="the entry of the cache, asked for again",
            )

    def mark_for_cleanup(self) -> None:
        """Rename the files to ``.deleted``, over those of an earlier entry [TIER-84]."""
        self.is_marked_for_cleanup = True
        for index in (self.offset_index, self.time_index, self.transaction_index):
            try:
                index.rename_to(index.name + _DELETED)
            except LogNotFoundError:  # somebody else has deleted it
                _log.debug("%s is gone already", index.path)

    def clean_up(self) -> None:
        """Unmap and delete the files; twice is harmless [TIER-84]."""
        self.is_cleaned_up = True
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.delete_if_exists()

    def close(self) -> None:
        """Unmap; the files stay [TIER-85]."""
        for index in (self.offset_index, self.time_index):
            index.close_handler()


class _Cached(NamedTuple):
    entry: RemoteIndexEntry
    used_ms: int
    """When it was asked for last."""


class _Doomed(NamedTuple):
    entry: RemoteIndexEntry
    due_ms: int


class RemoteIndexCache:
    """Fetches the indexes of remote segments, and keeps them until others need the room.

    It has no thread: who owns it calls `clean_up` now and then, or nothing expires and the files of
    what was let go stay until the next start.

    Parameters
    ----------
    log_directory : Directory
        A folder ``remote-log-index-cache`` is made in it.
    storage : RemoteStorageManager
        Where the indexes are fetched from.
    max_size_bytes : int
        Of all files together, 0 or more (``remote.log.index.file.cache.total.size.bytes``). Above
        it the entries that were not used for longest go [TIER-81].
    ttl_ms : int
        An entry that was not used for so long goes (``remote.log.index.file.cache.ttl.ms``); 0 or
        less: it stays [CFG-81].
    clock_ms : callable
        Milliseconds of a clock.
    kafka_profile : bool
        Whether a name or a file in the folder that is none of the cache's fails the start, and an
        index is believed whose entries do not ascend, or a transaction index that is missing.
        Otherwise such files are passed over, and fetched again.

    Raises
    ------
    CorruptIndexError, IllegalArgumentError
        With *kafka_profile*, as said above [TIER-86].
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        log_directory: Directory,
        storage: RemoteStorageManager,
        *,
        clock_ms: Callable[[], int],
        max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
        ttl_ms: int = DEFAULT_TTL_MS,
        kafka_profile: bool = False,
    ) -> None:
        self._storage = storage
        self._clock_ms = clock_ms
        self._ttl_ms = ttl_ms
        self._max_size_bytes = max_size_bytes
        self._kafka_profile = kafka_profile
        self._directory = Directory(
            f"{log_directory.path}/{DIRECTORY_NAME}", log_directory.environment, create=True
        )
        self._changed = Condition()
        self._cached: OrderedDict[UUID, _Cached] = OrderedDict()
        """The one used longest ago first."""
        self._size_bytes = 0
        self._fetching: set[UUID] = set()
        self._doomed: list[_Doomed] = []
        self._is_closed = False
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    # ---- what there is ---------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Of the folder."""
        return self._directory.path

    @property
    def size_bytes(self) -> int:
        """Of all cached entries; at most what is allowed."""
        return self._size_bytes

    @property
    def segment_ids(self) -> list[UUID]:
        """Whose indexes are cached, the one used longest ago first."""
        with self._changed:
            return list(self._cached)

    @property
    def pending_deletions(self) -> int:
        """How many entries were let go whose files are still there."""
        return len(self._doomed)

    # ---- look-ups --------------------------------------------------------------------------------

    def lookup_offset(self, metadata: RemoteLogSegmentMetadata, offset: int) -> int:
        """Return where a scan of the segment for *offset* may begin [TIER-88].

        Raises
        ------
        CorruptIndexError, UnsupportedFormatError, RemoteStorageError, IllegalStateError
            As `index_entry`.
        """
        return self.index_entry(metadata).position_of_offset(offset)

    def lookup_timestamp(
        self, metadata: RemoteLogSegmentMetadata, timestamp: int, starting_offset: int
    ) -> int:
        """Return where a scan for records of that time, from an offset on, may begin [TIER-88].

        Raises
        ------
        CorruptIndexError, UnsupportedFormatError, RemoteStorageError, IllegalStateError
            As `index_entry`.
        """
        return self.index_entry(metadata).position_of_timestamp(timestamp, starting_offset)

    def index_entry(self, metadata: RemoteLogSegmentMetadata) -> RemoteIndexEntry:
        """Return the indexes of a segment, fetched where they are not cached [TIER-82, TIER-83].

        Raises
        ------
        CorruptIndexError, UnsupportedFormatError
            Remote storage has a damaged index, or one of another version; nothing is cached.
        RemoteStorageError
            It has none, or cannot be read.
        IllegalStateError
            The cache is closed.
        """
        key = metadata.segment_id.id
        with self._changed:
            while True:
                if self._is_closed:
                    raise IllegalStateError(
                        f"{self.path}: the index cache is closed", found="closed", expected="open"
                    )
                entry = self._use(key)
                if entry is not None:
                    return entry
                if key not in self._fetching:
                    break
                self._changed.wait()
            self._fetching.add(key)
        try:
            entry = self._load(metadata.start_offset, key, metadata)
            with self._changed:
                self._put(key, entry)
        finally:
            with self._changed:
                self._fetching.discard(key)
                self._changed.notify_all()
        return entry

    def find(self, segment_id: UUID) -> RemoteIndexEntry | None:
        """Return the indexes of a segment that are cached, and note the use; nothing is fetched."""
        with self._changed:
            return None if self._is_closed else self._use(segment_id)

    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> TransactionIndex:
        """Return the aborted transactions of a segment, by which committed reads go [TIER-69].

        Reads of another kind get by without them, so that an entry of the cache may have none
        because the object was missing [TIER-82]. Where the metadata do not say that there are none,
        the index is fetched again here: aborted records would pass for committed ones. Kafka
        believes that there are none.

        Raises
        ------
        RemoteStorageError, CorruptIndexError
            Remote storage has no such index, or an empty one; the indexes of the segment leave the
            cache. Or as `index_entry`.
        UnsupportedFormatError, IllegalStateError
            As `index_entry`.
        """
        while True:
            entry = self.index_entry(metadata)
            if entry.has_transactions or metadata.is_transaction_index_empty or self._kafka_profile:
                return entry.transaction_index
            self.remove(metadata.segment_id.id)
            if not self._storage.fetch_index(metadata, IndexType.TRANSACTION):
                raise CorruptIndexError(
                    "the transaction index of a remote segment is empty, against its metadata:"
                    " a committed read does not know which records were aborted",
                    file=object_name(metadata, INDEXES[IndexType.TRANSACTION]),
                    found="0 bytes",
                    expected="an entry for each aborted transaction",
                )

    def _use(self, key: UUID) -> RemoteIndexEntry | None:
        """Return what is cached, and note the use; an entry that has expired goes."""
        found = self._cached.get(key)
        if found is None:
            return None
        now_ms = self._clock_ms()
        if self._has_expired(found, now_ms):
            self._let_go(key)
            return None
        self._cached[key] = _Cached(found.entry, now_ms)
        self._cached.move_to_end(key)
        return found.entry

    # ---- change ----------------------------------------------------------------------------------

    def remove(self, segment_id: UUID) -> None:
        """Let the indexes of one segment go, if they are cached [TIER-84]."""
        with self._changed:
            while segment_id in self._fetching:
                self._changed.wait()
            if segment_id in self._cached:
                self._let_go(segment_id)

    def remove_all(self, segment_ids: Iterable[UUID]) -> None:
        """Let the indexes of several segments go."""
        for segment_id in segment_ids:
            self.remove(segment_id)

    def resize(self, max_size_bytes: int) -> None:
        """Change how many bytes there may be; entries go until that holds [TIER-87]."""
        with self._changed:
            self._max_size_bytes = max_size_bytes
            self._evict()

    def clean_up(self) -> None:
        """Let go what has expired, and delete the files of what was let go 10 s ago [TIER-84]."""
        self.expire()
        self.delete_due(self._clock_ms())

    def expire(self) -> None:
        """Let go the entries that were not used for the time to live [TIER-81]."""
        now_ms = self._clock_ms()
        with self._changed:
            if self._is_closed:
                return
            for key, cached in list(self._cached.items()):
                if not self._has_expired(cached, now_ms):
                    break  # the others were used later
                self._let_go(key)

    def delete_due(self, now_ms: int) -> int:
        """Delete the files of entries that were let go 10 s before *now_ms*; return how many.

        A file that cannot be deleted is left to the next start.
        """
        with self._changed:
            due = [one for one in self._doomed if one.due_ms <= now_ms]
            self._doomed = [one for one in self._doomed if one.due_ms > now_ms]
        for one in due:
            try:
                one.entry.clean_up()
            except SegstoreError:
                _log.warning("%s: indexes could not be deleted", self.path, exc_info=True)
        return len(due)

    def close(self) -> None:
        """Wait for fetches that run, and unmap; idempotent. The files stay for the next start.

        Source: [TIER-85].
        """
        with self._changed:
            self._is_closed = True
            while self._fetching:
                self._changed.wait()
            for cached in self._cached.values():
                cached.entry.close()
            for doomed in self._doomed:
                doomed.entry.close()
            self._doomed.clear()
            self._directory.close()

    def _has_expired(self, cached: _Cached, now_ms: int) -> bool:
        return 0 < self._ttl_ms <= now_ms - cached.used_ms

    def _put(self, key: UUID, entry: RemoteIndexEntry) -> None:
        self._cached[key] = _Cached(entry, self._clock_ms())
        self._size_bytes += entry.size_bytes
        if entry.size_bytes > self._max_size_bytes:  # it makes no room for others to go
            self._let_go(key)
        else:
            self._evict()

    def _evict(self) -> None:
        for key, cached in list(self._cached.items()):
            if self._size_bytes <= self._max_size_bytes:
                return
            if cached.entry.size_bytes:
                self._let_go(key)

    def _let_go(self, key: UUID) -> None:
        entry = self._cached.pop(key).entry
        self._size_bytes -= entry.size_bytes
        self._doomed.append(_Doomed(entry, self._clock_ms() + DELETE_DELAY_MS))
        try:
            entry.mark_for_cleanup()
        except SegstoreError:
            _log.warning("%s: indexes could not be renamed", self.path, exc_info=True)

    # ---- files -----------------------------------------------------------------------------------

    def _start(self) -> None:
        """Delete left-overs, and take what is whole [TIER-86]."""
        names = self._directory.names()
        for name in names:
            if name.endswith((_DELETED, _TMP)):
                self._directory.unlink(name, missing_ok=True)
        known: dict[str, set[str]] = {}
        for name in names:
            if not name.endswith((_DELETED, _TMP)):
                stem, dot, suffix = name.partition(".")
                known.setdefault(stem, set()).add(dot + suffix)
        for stem, suffixes in known.items():
            named = _parse_stem(stem)
            if named is None:
                if self._kafka_profile:
                    raise IllegalArgumentError(
                        f"{stem} is no name of the index cache",
                        file=self.path,
                        found=stem,
                        expected="a start offset and the id of a segment",
                    )
                continue
            self._take(named[0], named[1], stem, suffixes)

    def _take(self, start_offset: int, key: UUID, stem: str, suffixes: set[str]) -> None:
        """Take the files of one segment, or delete them where one of the three is missing."""
        if suffixes.issuperset(_SUFFIXES.values()):
            try:
                self._put(key, self._load(start_offset, key, None))
            except (CorruptIndexError, UnsupportedFormatError):
                if self._kafka_profile:
                    raise
                _log.warning("%s/%s.*: damaged, and fetched again", self.path, stem, exc_info=True)
            else:
                return
        for suffix in _SUFFIXES.values():
            self._directory.unlink(stem + suffix, missing_ok=True)

    def _load(
        self, start_offset: int, key: UUID, metadata: RemoteLogSegmentMetadata | None
    ) -> RemoteIndexEntry:
        """Open the three files; with *metadata*, fetch what is missing or damaged."""
        stem = f"{start_offset}_{topic_id_text(key)}"

        def load(kind: IndexType, open_file: Callable[[str, int], _IndexT]) -> _IndexT:
            name = stem + _SUFFIXES[kind]
            if metadata is None:
                return open_file(name, start_offset)
            if self._directory.exists(name):
                try:
                    return open_file(name, start_offset)
                except (CorruptIndexError, UnsupportedFormatError):
                    _log.warning("%s/%s is damaged, and fetched again", self.path, name)
            self._fetch(name, kind, metadata)
            return open_file(name, start_offset)

        offset_index = load(IndexType.OFFSET, self._open_offset_index)
        try:
            time_index = load(IndexType.TIMESTAMP, self._open_time_index)
            try:
                transaction_index = load(IndexType.TRANSACTION, self._open_transaction_index)
                size = self._directory.info(transaction_index.name).size
            except BaseException:
                time_index.close_handler()
                raise
        except BaseException:
            offset_index.close_handler()
            raise
        return RemoteIndexEntry(offset_index, time_index, transaction_index, size)

    def _fetch(self, name: str, kind: IndexType, metadata: RemoteLogSegmentMetadata) -> None:
        """Fetch an index into a file, which has its name once it is whole [TIER-82]."""
        data: bytes | memoryview = b""
        if kind is not IndexType.TRANSACTION:
            data = self._storage.fetch_index(metadata, kind)
        elif not metadata.is_transaction_index_empty:
            with suppress(RemoteResourceNotFoundError):
                data = self._storage.fetch_index(metadata, kind)
        with DataFile(self._directory, name + _TMP, create=True) as file:
            file.truncate(0)
            file.write(0, data)
            if kind is IndexType.TRANSACTION and data:  # half of one would hide aborted records
                file.sync(Barrier.TRANSACTION_INDEX)
        self._directory.rename(name + _TMP, name)

    def _open_offset_index(self, name: str, start_offset: int) -> OffsetIndex:
        index = OffsetIndex(self._directory, name, start_offset, kafka_profile=self._kafka_profile)
        return self._checked(index)

    def _open_time_index(self, name: str, start_offset: int) -> TimeIndex:
        index = TimeIndex(self._directory, name, start_offset, kafka_profile=self._kafka_profile)
        return self._checked(index)

    def _checked(self, index: _MappedT) -> _MappedT:
        try:
            index.sanity_check()
            self._check_rest(index)
        except BaseException:
            index.close_handler()
            raise
        return index

    def _check_rest(self, index: OffsetIndex | TimeIndex) -> None:
        """See that nothing but zeros follows the entries that ascend; Kafka believes them all."""
        used = index.size_in_bytes
        rest = self._directory.read_range(index.name, used, index.length - used)
        if rest.count(0) != len(rest):
            raise CorruptIndexError(
                "the entries of the index do not ascend",
                file=index.path,
                position=used,
                found=rest[:12].hex(),
                expected="a key above the last one, or the end of the file",
            )

    def _open_transaction_index(self, name: str, start_offset: int) -> TransactionIndex:
        index = TransactionIndex(self._directory, start_offset, name=name)
        index.sanity_check(LOADED_VERSIONS if self._kafka_profile else READ_VERSIONS)
        return index


_MappedT = TypeVar("_MappedT", OffsetIndex, TimeIndex)


def _parse_stem(stem: str) -> tuple[int, UUID] | None:
    """Return start offset and segment id of ``<start offset>_<segment id>``."""
    offset, _, segment_id = stem.partition("_")
    key = parse_kafka_id(segment_id)
    if (
        key is None
        or not (offset.isascii() and offset.isdecimal())
        or len(offset) > len(str(MAX_LONG))
    ):
        return None
    return int(offset), key
