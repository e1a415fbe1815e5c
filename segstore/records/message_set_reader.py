"""Reading by offset and max chunk, as Kafka's design pages describe it.

"S is intended to be larger than any single message, but in the event of an abnormally large
message, the read can be retried multiple times, each time doubling the buffer size, until the
message is read successfully. A maximum message and buffer size can be specified to make the server
reject messages larger than some size, and to give a bound to the client on the maximum it needs to
ever read to get a complete message."

Source: Kafka's documentation, "Implementation: Log, Reads".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from segstore.arguments import function, integer_within
from segstore.errors import CorruptRecordError, LimitExceededError
from segstore.number_limits import MAX_INT
from segstore.records.message_set_receive import FETCH_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore.records.fetch_data_info import FetchDataInfo

__all__ = ["MAX_CHUNK_BYTES", "MessageSetReader"]

MAX_CHUNK_BYTES: Final = 1024 * 1024
"""Default of a first attempt: Kafka's ``max.partition.fetch.bytes``."""
LOG_OVERHEAD: Final = struct.Struct(">qi")
"""Base offset of a batch, bytes that follow [format.md 3]."""


class MessageSetReader:
    """Reads chunks; each holds at least one whole batch, whatever its size.

    Parameters
    ----------
    fetch : callable
        Called with an offset and a number of bytes; returns the data from that offset on, cut at
        that size. Pass `Log.read`, or a function that returns the records of a peer's
        `MessageSet`.
    max_chunk_bytes : int
        Size in bytes of the first attempt at each offset.
    max_buffer_bytes : int
        Largest size in bytes; no larger batch can be read.

    Raises
    ------
    IllegalArgumentError
        A size is below 1, or the chunk is larger than the buffer.
    """

    __slots__ = ("_fetch", "_max_buffer_bytes", "_max_chunk_bytes")

    def __init__(
        self,
        fetch: Callable[[int, int], FetchDataInfo],
        *,
        max_chunk_bytes: int = MAX_CHUNK_BYTES,
        max_buffer_bytes: int = FETCH_MAX_BYTES,
    ) -> None:
        function("fetch", fetch)
        self._fetch = fetch
        self._max_buffer_bytes = integer_within("max_buffer_bytes", max_buffer_bytes, 1, MAX_INT)
        self._max_chunk_bytes = integer_within(
            "max_chunk_bytes", max_chunk_bytes, 1, self._max_buffer_bytes
        )

    def read(self, offset: int) -> FetchDataInfo:
        """Return the chunk that begins with the batch of *offset*; iterate it for records.

        The chunk is empty at the log end. Else it holds a whole batch, and the last batch may be
        cut.

        Raises
        ------
        LimitExceededError
            The batch is larger than the largest buffer; the error has both sizes.
        """
        size = self._max_chunk_bytes
        while True:
            chunk = self._fetch(offset, size)
            if chunk.size_bytes == 0 or len(chunk.headers) > 0:
                return chunk
            announced = _announced_bytes(chunk.records)
            if size == self._max_buffer_bytes or announced > self._max_buffer_bytes:
                raise self._too_large(offset, max(announced, size + 1))
            size = min(2 * size, self._max_buffer_bytes)

    def chunks(self, offset: int) -> Iterator[FetchDataInfo]:
        """Yield chunks from *offset* on, until the log end.

        Raises
        ------
        CorruptRecordError
            A chunk ends below the requested offset: a peer must not cause an endless loop.
        """
        while (chunk := self.read(offset)).size_bytes > 0:
            last_offset = int(chunk.headers["last_offset"][-1])
            if last_offset < offset:
                raise CorruptRecordError(
                    f"a chunk from offset {offset} on ends with offset {last_offset}",
                    found=str(last_offset),
                    expected=f"{offset} or more",
                )
            yield chunk
            offset = last_offset + 1

    def _too_large(self, offset: int, announced: int) -> LimitExceededError:
        return LimitExceededError(
            f"the batch at offset {offset} does not fit a buffer of {self._max_buffer_bytes} bytes",
            found=f"{announced} bytes or more",
            expected=f"at most {self._max_buffer_bytes}",
        )


def _announced_bytes(records: memoryview) -> int:
    """Return how large the first batch says it is, 0 when it is cut before it does."""
    if len(records) < LOG_OVERHEAD.size:
        return 0
    return int(LOG_OVERHEAD.size + LOG_OVERHEAD.unpack_from(records)[1])
