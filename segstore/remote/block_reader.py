"""Files of a listing by blocks: those that are read are fetched, and the next ones meanwhile.

A log is opened in a folder where its segments stand with their sizes and without bytes; the core
asks here for what it reads (`FetchedFiles`). A reader of block after block gets the next ones
ahead: half as many as it has read so, to a limit, also over the end of a segment. So a look-up
fetches one block, and a short range little more than its own bytes.

A block that a read waits for is kept in the spool. One that was fetched ahead is kept when that is
so for the second time, by any process: most scans read each block once, and the file would cost
more than the request's own work. It would also drive out of the spool what look-ups need.

Blocks of a folder of this machine are neither kept in the spool nor fetched ahead: a second copy on
its disk, and threads that wait for it, cost more than to undo a chunk again.

THREADS  any number may read. One lock guards what is known of blocks; it is held over no request
and over no file.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import (
    ClosedError,
    LogNotFoundError,
    LogTruncatedError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX
from segstore.remote.block_memory import BlockMemory
from segstore.remote.fetch_threads import FetchThreads
from segstore.remote.urls import is_url
from segstore.tables.read_ahead import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore.remote.block_memory import Block
    from segstore.remote.remote_file import FileReader, ListedReader, RemoteFile
    from segstore.remote.spool import Spool

AHEAD_BYTES: Final = 32 * 1024 * 1024
"""That are fetched before they are asked for, at most, for all that read on in this process."""
REQUEST_BYTES: Final = 8 * 1024 * 1024
"""Of one request ahead."""
MEMORY: Final = BlockMemory(AHEAD_BYTES + REQUEST_BYTES)
"""For the logs of this process. Memory that the process had before costs less than new memory, so
there is not more than reading ahead needs."""
NEAR_MEMORY: Final = BlockMemory(16 * 1024 * 1024)
"""The same, for folders of this machine."""
THREADS: Final = FetchThreads(4)
ONE_THREAD: Final = FetchThreads(1)
"""For stores that cannot be asked by several threads."""
_OTHERS: Final = "no segment follows"
_STREAMS: Final = 8
"""So many places are known, those of the last reads."""


class BlockFile:
    """One file; what `FetchedFiles` asks for its bytes.

    Parameters
    ----------
    reader : BlockReader
        That it is of.
    file : RemoteFile
        With ``block_bytes`` above 0.
    first : int
        Number of its first block among those of all files.
    """

    __slots__ = ("_comes_by_blocks", "_reader", "count", "file", "first")

    def __init__(self, reader: BlockReader, file: RemoteFile, first: int) -> None:
        self._reader = reader
        self._comes_by_blocks = False  # as a read has found
        self.file = file
        self.first = first
        self.count = -(-(file.size_bytes + file.block_phase) // file.block_bytes)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return where a block begins and ends in the file; blocks are numbered over all files."""
        start = (number - self.first) * self.file.block_bytes - self.file.block_phase
        return max(start, 0), min(start + self.file.block_bytes, self.file.size_bytes)

    def bytes_of(self, first: int, last: int | None = None) -> int:
        """Return how many bytes blocks have."""
        return self.bounds(first if last is None else last)[1] - self.bounds(first)[0]

    def read_into(self, target: memoryview, position: int) -> int:
        """Fill *target* with the bytes from *position* on; return how many there were.

        Errors are those of `BlockReader.block`.
        """
        end = min(position + len(target), self.file.size_bytes)
        if position >= end:
            return 0
        if not self._comes_by_blocks:
            if self._reader.read_into(self.file, position, target[: end - position]):
                return end - position
            self._comes_by_blocks = True
        first, last = self._number_of(position), self._number_of(end - 1)
        self._reader.note_read(first, last)
        for number in range(first, last + 1):
            start, behind = self.bounds(number)
            block = memoryview(self._reader.block(self, number, last))
            low, high = max(position, start), min(end, behind)
            target[low - position : high - position] = block[low - start : high - start]
        return end - position

    def _number_of(self, position: int) -> int:
        return self.first + (position + self.file.block_phase) // self.file.block_bytes


class _Stream:
    """A place up to which a reader has come, and from which it may go on."""

    __slots__ = ("ahead", "ahead_bytes", "at", "first", "read_bytes")

    def __init__(self, first: int, at: int) -> None:
        self.first, self.at = first, at
        """The last read's first and last block."""
        self.ahead = at + 1
        """The first block that was not asked for ahead."""
        self.ahead_bytes = 0
        """From behind *at* up to there."""
        self.read_bytes = 0


class _Run(NamedTuple):
    """Blocks *first* to *last* of one file, and what is told when they are there.

    A reader that asks for one of them before a thread has begun with the run fetches the run
    itself. After a Ctrl-C, or as the process ends, no thread may ever begin it.
    """

    file: BlockFile
    first: int
    last: int
    is_ahead: bool
    coming: Future[dict[int, Block] | None]


class BlockReader:
    """The files of one log.

    Parameters
    ----------
    reader : ListedReader
        Of their listing.
    spool : Spool
        Keeps what was fetched.
    files : iterable of RemoteFile
        Those with ``block_bytes`` above 0, in the order in which they are read on.

    Attributes
    ----------
    files : dict of str to BlockFile
        By name.
    gone : SegstoreError or None
        Why something that was listed cannot be read any more. Who reads the log is told so by a
        ReadIOError: a local log that lacks a file has another process that deletes from it.
    """

    def __init__(self, reader: ListedReader, spool: Spool, files: Iterable[RemoteFile]) -> None:
        self._reader = reader
        is_near = not is_url(reader.url)
        self._spool = None if is_near else spool
        self._ahead_bytes = 0 if is_near else AHEAD_BYTES
        self._memory = NEAR_MEMORY if is_near else MEMORY
        self._owner = self._memory.new_owner()
        self._threads = ONE_THREAD if reader.requests_at_once == 1 else THREADS
        self.files: dict[str, BlockFile] = {}
        first = 0
        for file in files:
            made = BlockFile(self, file, first)
            self.files[file.name] = made
            first += made.count
        self._in_order = list(self.files.values())
        self._firsts = [file.first for file in self._in_order]
        self._count = first
        self._lock = threading.Lock()
        self._coming: dict[int, _Run] = {}
        self._streams: list[_Stream] = []
        self._is_closed = False
        self.gone: SegstoreError | None = None

    def read_into(self, file: RemoteFile, position: int, target: memoryview) -> bool:
        """Fill *target* from a file of this machine; False: the bytes come by blocks.

        Errors are those of `block`.
        """
        with self._lock:
            self._require_open()
        with self._naming_what_is_gone(self.files[file.name]):
            return self._reader.read_into(file, position, target)

    def note_read(self, first: int, last: int) -> None:
        """Note that blocks are read, and fetch ahead of a reader that goes on."""
        if not self._ahead_bytes:
            return
        with self._lock:
            self._require_open()
            with suppress(RuntimeError):  # no thread can be started, as when the process ends
                for run in self._runs_ahead(first, last):
                    self._threads.submit(self, partial(self._fetch_ahead, run))

    def block(self, file: BlockFile, number: int, last: int) -> Block:
        """Return a block of *file*; those up to *last* are asked for next, and come with it.

        Raises
        ------
        ReadIOError
            The store fails, or has not any more what was listed.
        LogPermissionError, CorruptLogError, EncryptionKeyError, ImportError
            As `FileReader.read_range`.
        ClosedError
            The log was closed.
        """
        while True:
            run, blocks, is_asked = None, None, False
            with self._lock:
                self._require_open()
                block = self._memory.get(self._owner, number)
                if block is None:
                    run = self._coming.get(number)
                    if run is None or run.coming.done():  # done, and left by a Ctrl-C
                        run, is_asked = self._begin(file, number, last, is_ahead=False), True
            if block is not None:
                return block
            if run is not None:
                # a block behind *last* may fail: that is no error of this read
                with nullcontext() if is_asked else suppress(Exception):
                    blocks = self._fetch(run)
                if blocks is None:
                    with suppress(CancelledError):
                        blocks = wait_for(run.coming)
                if blocks is not None:  # else who fetched it has failed: he has the error
                    return blocks[number]

    def close(self) -> None:
        """Give up what was to come; no thread is left behind. Twice is harmless."""
        with self._lock:
            self._is_closed = True
            for run in self._coming.values():
                run.coming.cancel()
        self._threads.leave(self)
        self._memory.forget(self._owner)

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the log is closed", file=self._reader.url)

    # ---- what comes next: under the lock ---------------------------------------------------------

    def _begin(self, file: BlockFile, first: int, last: int, *, is_ahead: bool) -> _Run:
        """Note that blocks come, from *first* on as far as none of them is here or coming."""
        behind, size = first + 1, file.bytes_of(first)
        while behind <= last and not self._is_here(behind):
            size += file.bytes_of(behind)
            if size > REQUEST_BYTES:
                break
            behind += 1
        run = _Run(file, first, behind - 1, is_ahead, Future())
        self._coming |= dict.fromkeys(range(first, behind), run)
        return run

    def _runs_ahead(self, first: int, last: int) -> Iterator[_Run]:
        """Note that blocks are read, and yield what is to be fetched ahead for who reads so."""
        stream = self._stream_to(first, last)
        if stream is None:
            return
        going = sum(bool(one.ahead_bytes) for one in self._streams if one is not stream)
        going += stream.ahead < self._count or stream.ahead_bytes > 0
        share = self._ahead_bytes // self._memory.sharing(self._owner, going)
        wanted = min(stream.read_bytes // 2, max(share, min(self._ahead_bytes, REQUEST_BYTES)))
        if 2 * stream.ahead_bytes > wanted:
            return
        while stream.ahead < self._count:
            file = self._file_of(stream.ahead)
            behind = file.first + file.count
            last = stream.ahead
            size = file.bytes_of(last)
            if stream.ahead_bytes + size > wanted:
                return
            while last + 1 < behind:
                more = size + file.bytes_of(last + 1)
                if more > REQUEST_BYTES or stream.ahead_bytes + more > wanted:
                    break
                last, size = last + 1, more
            if not self._is_here(stream.ahead):
                run = self._begin(file, stream.ahead, last, is_ahead=True)
                last, size = run.last, file.bytes_of(run.first, run.last)
                yield run
            else:
                last, size = stream.ahead, file.bytes_of(stream.ahead)
            stream.ahead, stream.ahead_bytes = last + 1, stream.ahead_bytes + size

    def _stream_to(self, first: int, last: int) -> _Stream | None:
        """Return the stream that has come to *last*; None: one that stands there, or begins."""
        for stream in self._streams:
            if stream.at == last:
                return None
            if first - 1 <= stream.at < last:
                size = sum(
                    self._file_of(number).bytes_of(number)
                    for number in range(stream.at + 1, last + 1)
                )
                self._memory.pass_by(self._owner, range(stream.first, first))
                stream.first, stream.at = first, last
                stream.read_bytes += size
                stream.ahead_bytes = max(stream.ahead_bytes - size, 0)
                stream.ahead = max(stream.ahead, last + 1)
                return stream
        self._streams = [*self._streams[1 - _STREAMS :], _Stream(first, last)]
        return None

    def _is_here(self, number: int) -> bool:
        """Whether a block is in memory, or comes."""
        return self._memory.holds(self._owner, number) or number in self._coming

    def _file_of(self, number: int) -> BlockFile:
        return self._in_order[bisect_right(self._firsts, number) - 1]

    # ---- fetching --------------------------------------------------------------------------------

    def _fetch_ahead(self, run: _Run) -> None:
        with suppress(Exception):  # who gets there asks for it himself, and has the error
            self._fetch(run)

    def _fetch(self, run: _Run) -> dict[int, Block] | None:
        """Fetch the blocks of *run*; None: another thread does, or the log was closed."""
        blocks: dict[int, Block] | None = None
        is_own = False
        try:
            with self._lock:
                # noted before it begins: a Ctrl-C in between must not leave it without an end
                is_own = not (run.coming.running() or run.coming.done())
                if is_own:
                    run.coming.set_running_or_notify_cancel()
            if is_own:
                blocks = self._blocks_of(run)
        finally:
            if is_own:
                try:
                    self._end(run, blocks)
                finally:
                    try:  # noqa: SIM105 - a Ctrl-C may come at each call
                        run.coming.set_result(blocks)
                    except InvalidStateError:  # cancelled, or ended by another, before it began
                        pass
        return blocks

    def _end(self, run: _Run, blocks: dict[int, Block] | None) -> None:
        with self._lock:
            for number in range(run.first, run.last + 1):
                if self._coming.get(number) is run:
                    del self._coming[number]
            if blocks is not None and not self._is_closed:
                self._memory.keep(self._owner, blocks)

    def _blocks_of(self, run: _Run) -> dict[int, Block]:
        """Return blocks from the spool, and those that it lacks by a request for neighbours."""
        found: dict[int, Block] = {}
        numbers = range(run.first, run.last + 1)
        for number in numbers:
            size = run.file.bytes_of(number)
            block = None
            if self._spool is not None:
                block = self._spool.read_block(*self._name_of(run.file, number), size)
            if block is not None:
                found[number] = block
        missing = [number for number in numbers if number not in found]
        spool = self._spool if missing and self._is_kept(run) else None
        for _, group in groupby(enumerate(missing), key=lambda one: one[1] - one[0]):
            neighbours = [number for _, number in group]
            start, _ = run.file.bounds(neighbours[0])
            _, end = run.file.bounds(neighbours[-1])
            data = memoryview(self._read_range(run.file, start, end))
            for number in neighbours:
                first, behind = run.file.bounds(number)
                found[number] = data[first - start : behind - start]
                if spool is not None:
                    spool.keep_block(*self._name_of(run.file, number), found[number])
        return found

    def _is_kept(self, run: _Run) -> bool:
        """Whether the spool gets the blocks that are fetched for *run*."""
        if self._spool is None or not run.is_ahead:
            return True
        reader, file, first = self._name_of(run.file, run.first)
        return self._spool.note_fetched(reader, file, first, first + run.last - run.first)

    def _read_range(self, file: BlockFile, start: int, end: int) -> bytes | memoryview:
        with self._naming_what_is_gone(file):
            return self._reader.read_range(file.file, start, end)

    @contextmanager
    def _naming_what_is_gone(self, file: BlockFile) -> Iterator[None]:
        try:
            yield
        except (LogNotFoundError, LogTruncatedError) as error:
            self.gone = error
            raise ReadIOError(
                f"what was listed is not there any more: {error.message}; open the log again",
                file=error.file,
                found=error.found,
                expected=error.expected,
            ).go_on(*self._way_on(file)) from error
        except SegstoreError as error:  # its position is one of the store, not of the segment
            error.go_on(*self._way_on(file))
            raise

    def _way_on(self, file: BlockFile) -> tuple[int | None, str]:
        """Return where a reader can go on behind a chunk that cannot be had, and how to say it."""
        behind = self._in_order[bisect_right(self._firsts, file.first) :]
        for following in behind:
            name, _, suffix = following.file.name.partition(".")
            if suffix == LOG_FILE_SUFFIX and following.file.name != file.file.name:
                return int(name), f"the next segment begins at offset {int(name)}"
        return None, _OTHERS

    def _name_of(self, file: BlockFile, number: int) -> tuple[FileReader, RemoteFile, int]:
        return self._reader, file.file, number - file.first
