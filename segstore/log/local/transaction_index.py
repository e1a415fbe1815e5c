"""Aborted transactions of a segment, ``.txnindex`` (Kafka ``TransactionIndex``, ``AbortedTxn``).

`TransactionIndexes` has those of a log: their lines, their sync, and the search.

FILE FORMAT [format.md 13.6]: entries of 34 bytes, big-endian, in the order of their last offsets:
version, producer id, first offset, last offset, last stable offset. There is no checksum. A file
without entries need not exist. One thread at a time changes an index.

Source: [TXX-1..TXX-8, LOC-9]; Kafka ``LocalLog.collectAbortedTransactions``.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Barrier, DataFile
from segstore.errors import (
    CorruptIndexError,
    IllegalArgumentError,
    LogNotFoundError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.log.files.partition_directory import file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Directory
    from segstore.log.local.segments import Segments

VERSION: Final = 0
READ_VERSIONS: Final = range(1)
LOADED_VERSIONS: Final = range(-(2**15), 2**8)
"""Kafka 4.3.1 looks at the first byte alone, and refuses it above 0 [TXX-3, T-25]."""

_ENTRY: Final = struct.Struct(">hqqqq")
TRANSACTION_INDEX_ENTRY_BYTES: Final = _ENTRY.size
_PIECE_BYTES: Final = 30_000 * _ENTRY.size
"""Of an index that are read at once."""


class AbortedTransaction(NamedTuple):
    """One entry (Kafka ``AbortedTxn``)."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the ABORT marker."""
    last_stable_offset: int
    """Behind this abort: where the earliest transaction began that was still open, or the end."""

    def format(self) -> bytes:
        """Return the 34 bytes of the entry."""
        return _ENTRY.pack(VERSION, *self)


class TransactionIndexSearchResult(NamedTuple):
    """Aborted transactions in reach of a fetch (Kafka ``TxnIndexSearchResult``)."""

    aborted: list[AbortedTransaction]
    is_complete: bool
    """Whether later segments hold none for the same range."""


class TransactionIndex:
    """The transaction index of one segment.

    No descriptor is held between calls: few segments have such a file, and it is written once an
    abort. What is appended is on stable storage after `flush`.

    Parameters
    ----------
    directory : Directory
        The partition's.
    base_offset : int
        Of the segment: absolute, 0 or more.
    name : str or None
        Of the file; None: that of a segment's, by its base offset.
    cut_torn_entry : bool
        Whether an append goes over part of an entry, which a crash left at the end; else it lies
        crooked behind it, as in Kafka.

    Attributes
    ----------
    name : str
        The file's, in its directory.
    base_offset : int
        Of the segment.
    """

    def __init__(
        self,
        directory: Directory,
        base_offset: int,
        *,
        name: str | None = None,
        cut_torn_entry: bool = True,
    ) -> None:
        self._directory = directory
        self.base_offset = base_offset
        self.name = file_name(base_offset, "txnindex") if name is None else name
        self._cut_torn_entry = cut_torn_entry
        self._last_offset: int | None = None
        self._is_named = True
        self._is_open = directory.exists(self.name)

    @property
    def path(self) -> str:
        """Directory and name."""
        return f"{self._directory.path}/{self.name}"

    # ---- change ----------------------------------------------------------------------------------

    def append(self, entry: AbortedTransaction) -> None:
        """Append *entry*; the file is made by the first one.

        Raises
        ------
        IllegalArgumentError
            Its last offset is not above that of the entry before, as far as this object knows it:
            of a file that was there before, the last entry is not read.

        Source: [TXX-2].
        """
        last_offset = self._last_offset
        if last_offset is not None and entry.last_offset <= last_offset:
            raise IllegalArgumentError(
                "last offsets of aborted transactions must increase",
                file=self.path,
                found=str(entry.last_offset),
                expected=f"above {last_offset}",
            )
        with DataFile(self._directory, self.name, create=True) as file:
            file.write(self._end_of(file), entry.format())  # over what there is of another one
        self._last_offset = entry.last_offset  # Kafka: before the write, which refuses a retry
        self._is_there()

    def reserve(self) -> None:
        """Take the space of one more entry, which no reader sees: all of it but its last byte.

        Entries begin and blocks end at even bytes, so that the last byte is never alone in one.

        Raises
        ------
        DiskFullError
            There is none. What is there stays as it was.
        """
        with DataFile(self._directory, self.name, create=True) as file:
            end = self._end_of(file)
            try:
                file.write(end, bytes(_ENTRY.size - 1))
            except BaseException:
                file.truncate(end)
                raise
        self._is_there()

    def give_back(self) -> None:
        """Cut what `reserve` took and no `append` has filled."""
        with DataFile(self._directory, self.name) as file:
            file.truncate(self._end_of(file))

    def _end_of(self, file: DataFile) -> int:
        """Where the next entry begins."""
        size = file.size
        return size - size % _ENTRY.size if self._cut_torn_entry else size

    def _is_there(self) -> None:
        if not self._is_open:
            self._is_open, self._is_named = True, False

    def truncate_to(self, offset: int) -> bool:
        """Drop the entries whose marker is at or above *offset*; returns whether any went [TXX-5].

        Raises
        ------
        UnsupportedFormatError
            An entry before them has another version.
        """
        last_offset = None
        for number, entry in enumerate(self._entries()):
            if entry.last_offset >= offset:
                self._truncate(number * _ENTRY.size)
                self._last_offset = last_offset
                return True
            last_offset = entry.last_offset
        return False

    def reset(self) -> None:
        """Drop every entry; the file stays [TXX-6]."""
        if self._is_open:
            self._truncate(0)
        self._last_offset = None

    def _truncate(self, size: int) -> None:
        with DataFile(self._directory, self.name) as file:
            file.truncate(size)

    def flush(self) -> None:
        """Bring entries, and the name of a new file, to stable storage [TXX-6]."""
        if not self._is_open:
            return
        with DataFile(self._directory, self.name) as file:
            file.sync(Barrier.TRANSACTION_INDEX, ends_writing=True)
        if not self._is_named:
            self._directory.sync(Barrier.TRANSACTION_INDEX_NAME)
            self._is_named = True

    def close(self) -> None:
        """Forget that there is a file: until the next append nothing is seen of it [TXX-8]."""
        self._is_open = False

    def delete_if_exists(self) -> bool:
        """Close, and remove the file; returns whether there was one."""
        self.close()
        existed = self._directory.exists(self.name)
        self._directory.unlink(self.name, missing_ok=True)
        return existed

    def rename_to(self, name: str) -> None:
        """Give the index another name, and its file if there is one [TXX-6]; nothing is synced."""
        if self._directory.exists(self.name):
            self._directory.rename(self.name, name)
        self.name = name

    def update_parent_directory(self, directory: Directory) -> None:
        """Look for the file in *directory* from now on: the partition's was renamed [REN-1]."""
        self._directory = directory

    # ---- read ------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[AbortedTransaction]:
        """Yield every entry in file order [TXX-3].

        Raises
        ------
        UnsupportedFormatError
            An entry has another version.
        """
        return self._entries()

    def collect_aborted_transactions(
        self,
        fetch_offset: int,
        upper_bound_offset: int,
        *,
        check: bool = False,
        in_order: bool = False,
    ) -> TransactionIndexSearchResult:
        """Return the entries that overlap ``[fetch_offset, upper_bound_offset)`` [TXX-4].

        Parameters
        ----------
        fetch_offset, upper_bound_offset : int
            Absolute.
        check : bool
            Believe no entry that cannot be this segment's; Kafka does.
        in_order : bool
            The markers must ascend, so that entries below *fetch_offset* need not be looked at.

        Raises
        ------
        CorruptIndexError, UnsupportedFormatError
            As `sanity_check`, for the entries that were looked at; the first one with *check*.
        """
        aborted = []
        start = self._first_at(fetch_offset) if in_order else 0
        entries = self._checked_entries(start=start) if check else self._entries(start=start)
        before = -1
        for number, entry in enumerate(entries, start // _ENTRY.size):
            if in_order and entry.last_offset <= before:  # zeros to the end of a large file
                raise CorruptIndexError(
                    f"a last offset of {entry.last_offset} after one of {before}",
                    file=self.path,
                    position=number * _ENTRY.size,
                    found=str(entry.last_offset),
                    expected=f"above {before}",
                )
            before = entry.last_offset
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
                aborted.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return TransactionIndexSearchResult(aborted, is_complete=True)
        return TransactionIndexSearchResult(aborted, is_complete=False)

    def _first_at(self, marker: int) -> int:
        """Return the byte of the first entry whose marker is there or above, by halves."""
        low, high = 0, self._directory.info(self.name).size // _ENTRY.size if self._is_open else 0
        while low < high:
            middle = (low + high) // 2
            data = self._directory.read_range(self.name, middle * _ENTRY.size, _ENTRY.size)
            if len(data) == _ENTRY.size and _ENTRY.unpack(data)[3] < marker:
                low = middle + 1
            else:
                high = middle
        return low * _ENTRY.size

    @property
    def is_empty(self) -> bool:
        """Whether there is no whole entry [TXX-7]."""
        return next(self._entries(), None) is None

    def sanity_check(self, versions: range = READ_VERSIONS) -> None:
        """Check what can be checked without the log.

        Parameters
        ----------
        versions : range
            Those that an entry may have.

        Raises
        ------
        CorruptIndexError
            A marker below the segment's base offset.
        UnsupportedFormatError
            An entry has another version.
        """
        for _ in self._checked_entries(versions):
            pass

    def _checked_entries(
        self, versions: range = READ_VERSIONS, start: int = 0
    ) -> Iterator[AbortedTransaction]:
        for number, entry in enumerate(self._entries(versions, start), start // _ENTRY.size):
            if entry.last_offset < self.base_offset:
                raise CorruptIndexError(
                    f"a last offset of {entry.last_offset} in a segment from {self.base_offset}",
                    file=self.path,
                    position=number * _ENTRY.size,
                    found=str(entry.last_offset),
                    expected=f"at least {self.base_offset}",
                )
            yield entry

    def _entries(
        self, versions: range = READ_VERSIONS, start: int = 0
    ) -> Iterator[AbortedTransaction]:
        """Yield whole entries from a byte on; part of one at the end is not seen [TXX-3]."""
        is_end = not self._is_open
        while not is_end:
            data = self._directory.read_range(self.name, start, _PIECE_BYTES)
            is_end = len(data) < _PIECE_BYTES
            for position in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
                version, *fields = _ENTRY.unpack_from(data, position)
                if version not in versions:
                    raise UnsupportedFormatError(
                        f"an aborted transaction of version {version}",
                        file=self.path,
                        position=start + position,
                        found=str(version),
                        expected=str(VERSION),
                    )
                yield AbortedTransaction(*fields)
            start += len(data)


def truncate_transaction_index(directory: Directory, base_offset: int, offset: int) -> bool:
    """Drop aborted transactions whose marker is at or above *offset*; says whether any went.

    The change is on stable storage then. A file with entries of another version before them stays
    as it is: no reader believes any of it.
    """
    index = TransactionIndex(directory, base_offset)
    try:
        went = index.truncate_to(offset)
    except UnsupportedFormatError:
        return False
    if went:
        index.flush()
    return went


class TransactionIndexes:
    """The transaction indexes of one log; changes are made under its append lock.

    Parameters
    ----------
    directory : Directory
        The partition's.

    Attributes
    ----------
    unsynced : dict
        By base offset, how many lines were written to the index of a segment since its last sync.
    """

    __slots__ = ("_directory", "unsynced")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.unsynced: dict[int, int] = {}

    # ---- change ----------------------------------------------------------------------------------

    def reserve(self, base_offset: int) -> None:
        """Take the space of one line in the index of that segment.

        Raises
        ------
        DiskFullError
            There is none. What is there stays as it was.
        """
        TransactionIndex(self._directory, base_offset).reserve()

    def give_back(self, base_offset: int) -> None:
        """Undo `reserve`, where that is possible: no reader sees what stays."""
        with suppress(SegstoreError):
            TransactionIndex(self._directory, base_offset).give_back()

    def append(self, base_offset: int, aborted: AbortedTransaction) -> None:
        """Add a line to the index of that segment [SEG-12]."""
        TransactionIndex(self._directory, base_offset).append(aborted)
        unsynced = self.unsynced
        unsynced[base_offset] = unsynced.get(base_offset, 0) + 1

    def sync(self, base_offset: int) -> None:
        """Bring what `append` wrote to stable storage, with the segment's records."""
        unsynced = self.unsynced
        lines = unsynced.get(base_offset)
        if lines is not None:
            TransactionIndex(self._directory, base_offset).flush()
            if unsynced.get(base_offset) == lines:  # else another one came meanwhile
                unsynced.pop(base_offset, None)

    def truncate(self, base_offset: int, offset: int) -> None:
        """Drop the lines of that segment whose marker is at or above *offset*, durably."""
        truncate_transaction_index(self._directory, base_offset, offset)

    # ---- read ------------------------------------------------------------------------------------

    def collect(
        self,
        segments: Segments,
        log_start_offset: int,
        base_offset: int,
        upper_bound_offset: int,
        *,
        in_order: bool,
    ) -> list[AbortedTransaction]:
        """Return the lines in the indexes of *segments*; the rest as `LocalLog` says it."""
        first = segments.floor_segment(base_offset)
        if first is None:
            return []
        aborted: list[AbortedTransaction] = []
        for segment in (first, *segments.higher_segments(first.base_offset)):
            index = TransactionIndex(self._directory, segment.base_offset)
            try:
                found = index.collect_aborted_transactions(
                    log_start_offset, upper_bound_offset, check=True, in_order=in_order
                )
            except LogNotFoundError:
                continue  # deleted since it was opened
            aborted += found.aborted
            if found.is_complete:
                break
        return aborted
