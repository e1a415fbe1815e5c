"""Whole batches of a range of a log that has a part in remote storage, from both parts.

What is no more here comes from remote storage; the rest is read here. Where the one ends and the
other begins is asked at each step: retention moves it up while a reader is under way.

Source: [TIER-2, TIER-65, DUR-77, DUR-78].
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, cast

from segstore.errors import SegstoreError
from segstore.log.chunk_reader import CHUNK_BYTES
from segstore.log.remote_reads import RemoteBytes, without_data
from segstore.number_limits import MIN_LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from segstore.log.chunk_reader import Chunk, Chunks
    from segstore.log.remote_reads import RemoteReads


class TieredChunks:
    """Reads offsets ``[start_offset, end_offset)``; may be iterated any number of times.

    Parameters
    ----------
    local : Chunks
        Reads the range here.
    remote : RemoteReads
        Reads it there.
    check_not_truncated : callable
        Called with an offset: raises when the log was cut below it since the range was taken.
    start_timestamp : int
        As of `ChunkReader`.

    Attributes
    ----------
    has_index : bool
        True.
    skipped : tuple
        Empty: nothing is left out.
    """

    has_index = True
    skipped = ()

    __slots__ = (
        "_check_not_truncated",
        "_chunk_bytes",
        "_end_offset",
        "_local",
        "_remote",
        "_start_offset",
        "_start_timestamp",
    )

    def __init__(  # noqa: PLR0913 - the parts of a range
        self,
        local: Chunks,
        remote: RemoteReads,
        check_not_truncated: Callable[[int], None],
        *,
        start_offset: int,
        end_offset: int,
        start_timestamp: int = MIN_LONG,
    ) -> None:
        self._local = local
        self._remote = remote
        self._check_not_truncated = check_not_truncated
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._start_timestamp = start_timestamp
        self._chunk_bytes = CHUNK_BYTES

    def __iter__(self) -> Iterator[Chunk]:
        """Yield whole batches of the range."""
        return self._chunks(headers_only=False)

    def headers_only(self) -> Iterator[Chunk]:
        """Yield the headers of the same batches; those of remote ones come with all their bytes."""
        return self._chunks(headers_only=True)

    def part(
        self, start_offset: int, end_offset: int, chunk_bytes: int, start_timestamp: int
    ) -> Self:
        """Return a reader of a part of the range."""
        part = copy(self)
        part.narrow(start_offset, end_offset, chunk_bytes, start_timestamp)
        return part

    def narrow(
        self, start_offset: int, end_offset: int, chunk_bytes: int, start_timestamp: int
    ) -> None:
        """Read from now on only a part of the range."""
        self._local = self._local.part(start_offset, end_offset, chunk_bytes, start_timestamp)
        self._start_offset, self._end_offset = start_offset, min(end_offset, self._end_offset)
        self._chunk_bytes = min(chunk_bytes, self._chunk_bytes)
        self._start_timestamp = max(start_timestamp, self._start_timestamp)

    def cuts(self, max_bytes: int) -> Iterator[int]:
        """Yield base offsets that split the range; what is in remote storage is one part."""
        start = max(self._start_offset, self._remote.local_start)
        if self._start_offset < start < self._end_offset:
            yield start
        yield from self._local_from(start).cuts(max_bytes)

    def explain(self, error: SegstoreError, chunk: Chunk) -> None:
        """Name the file of an error about the bytes of *chunk*, or the object in the storage."""
        if isinstance(cast("object", chunk.segment), RemoteBytes):
            error.locate(chunk.segment.path, chunk.position)
        else:
            self._local.explain(error, chunk)

    def _chunks(self, *, headers_only: bool) -> Iterator[Chunk]:
        offset, end = self._start_offset, self._end_offset
        if self._start_timestamp > MIN_LONG and offset < end and self._remote.hold(offset):
            offset = min(self._remote.first_of_time(self._start_timestamp, offset), end)
        while offset < end:
            local_start = self._remote.local_start
            if offset < local_start:
                chunk = self._remote.chunk(offset, self._chunk_bytes, end)
                offset = local_start if chunk is None else chunk.last_offset + 1
                self._check_not_truncated(min(offset, end))
                if chunk is not None:
                    yield without_data(chunk) if headers_only else chunk
                continue
            here = self._local_from(offset)
            try:
                for chunk in here.headers_only() if headers_only else here:
                    yield chunk
                    offset = chunk.last_offset + 1
            except SegstoreError:
                if not self._remote.took_over(offset):
                    raise
            else:
                return  # the rest of the range has no batch
        yield from self._local_from(end)  # says why the range ends before what was asked for

    def _local_from(self, offset: int) -> Chunks:
        end = self._end_offset
        return self._local.part(min(offset, end), end, self._chunk_bytes, self._start_timestamp)
