"""Sends fetch results, in the framing of Kafka's design pages.

::

    MessageSetSend (fetch result)         MultiMessageSetSend (multiFetch result)
    total length     : 4 bytes            total length     : 4 bytes
    error code       : 2 bytes            error code       : 2 bytes
    message 1        : x bytes            messageSetSend 1
    ...                                   ...
    message n        : x bytes            messageSetSend n

Numbers are big-endian and signed; a total length counts what follows it, the error code included.
The messages are batches as they are in the log. The framing has no place for a list of aborted
transactions: a committed reader reads batches instead.

Source: Kafka's documentation, "Implementation: Log, Reads"; Kafka 0.7 ``MessageSetSend``.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from segstore.arguments import integer_within
from segstore.errors import ArgumentTypeError, IllegalArgumentError
from segstore.number_limits import MAX_INT, MAX_SHORT
from segstore.records.error_mapping import ErrorCode, code_for
from segstore.records.transferable_channel import (
    TransferableChannel,
    TransferableRecords,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self


__all__ = ["MessageSetSend", "MultiMessageSetSend"]

HEADER: Final = struct.Struct(">ih")
"""Total length, error code."""
LENGTH_BYTES: Final = 4
ERROR_CODE_BYTES: Final = 2


class _Part(Protocol):
    """Bytes that follow the header."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the part."""

    def transfer_to(self, channel: TransferableChannel, position: int, count: int) -> int:
        """Send up to *count* bytes from *position* on in one step; 0 = none is taken for now."""


class _Send:
    """A header, the parts that follow it, and how many bytes have gone out (Kafka 0.7 ``Send``)."""

    __slots__ = ("_header", "_parts", "_sent", "size_bytes")

    def __init__(self, parts: tuple[_Part, ...], error_code: int) -> None:
        content_bytes = sum(part.size_bytes for part in parts)
        total_length = ERROR_CODE_BYTES + content_bytes
        if total_length > MAX_INT:
            raise IllegalArgumentError(
                f"{content_bytes} bytes do not fit a length of 32 bits",
                found=str(content_bytes),
                expected=f"at most {MAX_INT - ERROR_CODE_BYTES}",
            )
        self._header = HEADER.pack(total_length, error_code)
        self._parts = parts
        self._sent = 0
        self.size_bytes: Final[int] = HEADER.size + content_bytes

    @property
    def complete(self) -> bool:
        """Whether everything has gone out."""
        return self._sent == self.size_bytes

    def write_to(self, destination: Any) -> int:
        """Send what the destination takes; returns how many bytes it took.

        A blocking one takes everything. Call it again for one that does not wait, until `complete`.

        Parameters
        ----------
        destination : socket, file, int or object with ``write``
            As in ``FileRecords.write_to``.

        Raises
        ------
        SendError, TransferTimeoutError, LogTruncatedError
            As there. The peer waits for the rest that was announced: close the connection.

        Source: Kafka 0.7 ``Send.writeTo``.
        """
        channel = TransferableChannel.of(destination)
        before = self._sent
        while not self.complete:
            taken = self.transfer_to(channel, self._sent, self.size_bytes - self._sent)
            if taken == 0:
                break
            self._sent += taken
        return self._sent - before

    def transfer_to(self, channel: TransferableChannel, position: int, count: int) -> int:
        """Send up to *count* bytes from *position* on in one step; 0 = none is taken for now.

        How much `write_to` has sent does not matter, and does not change.
        """
        if position < HEADER.size:
            return channel.write(memoryview(self._header)[position : position + count])
        position -= HEADER.size
        for part in self._parts:
            if position < part.size_bytes:
                return part.transfer_to(channel, position, min(count, part.size_bytes - position))
            position -= part.size_bytes
        return 0

    def __bytes__(self) -> bytes:
        """Return all of it, sent already or not."""
        sink = io.BytesIO()
        channel = TransferableChannel.of(sink)
        while sink.tell() < self.size_bytes:
            self.transfer_to(channel, sink.tell(), self.size_bytes - sink.tell())
        return sink.getvalue()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sent} of {self.size_bytes} bytes sent)"


def _wrong_type(name: str, value: object, expected: str) -> ArgumentTypeError:
    kind = type(value).__name__
    return ArgumentTypeError(
        f"{name} must be {expected}, not {kind}", found=kind, expected=expected
    )


class MessageSetSend(_Send):
    """The result of one fetch, or its error.

    Parameters
    ----------
    messages : FileRecords, FetchDataInfo, MemoryRecords or None
        Records found by the fetch. `FileRecords` are sent without a copy.
    error_code : int
        See `ErrorCode`; a result with an error has no messages.

    Attributes
    ----------
    size_bytes : int
        Size of the whole result, header included (Kafka ``sendSize``).
    """

    __slots__ = ()

    def __init__(
        self, messages: TransferableRecords | None = None, error_code: int = ErrorCode.NONE
    ) -> None:
        if messages is not None and not isinstance(messages, TransferableRecords):
            raise _wrong_type("messages", messages, "FileRecords, FetchDataInfo or MemoryRecords")
        code = integer_within("error_code", error_code, -MAX_SHORT - 1, MAX_SHORT)
        if messages is not None and code != ErrorCode.NONE:
            raise IllegalArgumentError(
                "an error has no messages", found=f"error code {code}", expected="0, or no messages"
            )
        super().__init__(() if messages is None else (messages,), code)

    @classmethod
    def of_error(cls, error: BaseException) -> Self:
        """Return the result with the error code of *error* and no messages."""
        if not isinstance(error, BaseException):
            raise _wrong_type("error", error, "an exception")
        return cls(error_code=code_for(error))


class MultiMessageSetSend(_Send):
    """The results of several fetches, in sequence.

    Parameters
    ----------
    sets : iterable of MessageSetSend
        In the order of the requests; each has its own error code.

    Attributes
    ----------
    size_bytes : int
        Size of all results, headers included.
    """

    __slots__ = ()

    def __init__(self, sets: Iterable[MessageSetSend]) -> None:
        if not hasattr(sets, "__iter__"):
            raise _wrong_type("sets", sets, "MessageSetSends")
        parts = tuple(sets)
        for each in parts:
            if not isinstance(each, MessageSetSend):
                raise _wrong_type("each of sets", each, "a MessageSetSend")
        super().__init__(parts, ErrorCode.NONE)
