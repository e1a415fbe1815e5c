"""Receives fetch results; the framing is that of `message_set_send`.

A peer may send anything: a length is compared with the limit before memory is allocated, and
memory is allocated as bytes arrive [DUR-92].

Source: Kafka's documentation, "Implementation: Log, Reads"; Kafka 0.7 ``BoundedByteBufferReceive``,
``MultiFetchResponse``.
"""

from __future__ import annotations

import errno
import io
import os
import struct
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.arguments import integer_within
from segstore.errors import (
    ArgumentTypeError,
    CorruptRecordError,
    IllegalStateError,
    LimitExceededError,
    ReceiveError,
    TransferTimeoutError,
)
from segstore.number_limits import MAX_INT
from segstore.records.error_mapping import error_for
from segstore.records.fetch_data_info import FetchDataInfo
from segstore.records.message_set_send import ERROR_CODE_BYTES, HEADER, LENGTH_BYTES
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from segstore._core import Record
    from segstore.errors import SegstoreError

__all__ = ["FETCH_MAX_BYTES", "MessageSet", "MessageSetReceive", "MultiMessageSetReceive"]

FETCH_MAX_BYTES: Final = 50 * 1024 * 1024
"""Default limit of a fetch result: Kafka's ``fetch.max.bytes``."""
PIECE_BYTES: Final = 262_144
LENGTH: Final = struct.Struct(">i")
OFFSET: Final = struct.Struct(">q")


class MessageSet(NamedTuple):
    """The messages that a peer sent, or its error."""

    error_code: int
    records: FetchDataInfo
    """All the bytes; the last batch may be cut. Nothing in them is checked until it is read."""

    @property
    def error(self) -> SegstoreError | None:
        """The exception for the error code; None without an error."""
        return error_for(self.error_code)

    def messages(self) -> Iterator[Record]:
        """Yield the records of all whole batches; raise the peer's error, if there is one."""
        if (error := self.error) is not None:
            raise error
        return iter(self.records)


class MessageSetReceive:
    """One fetch result of a peer, complete or in part (Kafka 0.7 ``Receive``).

    Parameters
    ----------
    max_bytes : int
        Largest total length in bytes that a peer may announce.
    """

    __slots__ = ("_max_bytes", "_received", "_total_bytes")

    def __init__(self, max_bytes: int = FETCH_MAX_BYTES) -> None:
        self._max_bytes = integer_within("max_bytes", max_bytes, ERROR_CODE_BYTES, MAX_INT)
        self._received = bytearray()
        self._total_bytes = LENGTH_BYTES

    @property
    def received_bytes(self) -> int:
        """Bytes received; 0 when the peer closed before it began."""
        return len(self._received)

    @property
    def complete(self) -> bool:
        """Whether all bytes have been received."""
        return len(self._received) == self._total_bytes > LENGTH_BYTES

    def read_from(self, source: Any) -> int:
        """Read the available bytes of the result from *source*; returns how many were read.

        A blocking source returns the whole result. With a non-blocking one, call again until
        `complete`.

        Parameters
        ----------
        source : socket, file, int or object with ``read``

        Raises
        ------
        ReceiveError
            The source ended, or the connection broke, before the result was complete.
        TransferTimeoutError
            Nothing arrived within the socket's timeout; you may call again.
        LimitExceededError
            The announced length is above *max_bytes*.
        CorruptRecordError
            The announced length is too small for an error code.

        Source: Kafka 0.7 ``Receive.readFrom``.
        """
        read = _reader_of(source)
        before = len(self._received)
        while not self.complete:
            piece = read(min(self._total_bytes - len(self._received), PIECE_BYTES))
            if piece is None:
                break
            if not piece:
                raise ReceiveError(
                    "a fetch result is cut short",
                    position=len(self._received),
                    found=f"{len(self._received)} bytes",
                    expected=f"{self._total_bytes} bytes",
                )
            self._received += piece
            if len(self._received) == LENGTH_BYTES:
                self._total_bytes += self._announced()
        return len(self._received) - before

    def _announced(self) -> int:
        length = _length_at(self._received, 0)
        if length > self._max_bytes:
            raise LimitExceededError(
                f"a fetch result of {length} bytes is announced, the limit is {self._max_bytes}",
                position=0,
                found=str(length),
                expected=f"at most {self._max_bytes}",
            )
        return length

    def message_set(self, start_offset: int | None = None) -> MessageSet:
        """Return the received messages or error.

        Parameters
        ----------
        start_offset : int or None
            The requested offset; records of the first batch below it are left out.

        Raises
        ------
        IllegalStateError
            The result is not `complete`.
        """
        return _parse_set(self._content(), start_offset)

    def _content(self) -> memoryview:
        if not self.complete:
            raise IllegalStateError(
                "the fetch result is not complete",
                found=f"{len(self._received)} bytes",
                expected=f"{self._total_bytes} bytes or more",
            )
        return memoryview(self._received).toreadonly()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._received)} of {self._total_bytes} bytes)"


class MultiMessageSetReceive(MessageSetReceive):
    """The results of several fetches that a peer sends together.

    Parameters as those of `MessageSetReceive`.
    """

    __slots__ = ()

    def message_sets(self) -> tuple[MessageSet, ...]:
        """Return the received results, in the order of the requests.

        Raises
        ------
        SegstoreError
            The peer sent an error for all of them.
        CorruptRecordError
            The lengths of the sets do not fit the received bytes.
        """
        content = self._content()
        error = error_for(HEADER.unpack_from(content)[1])
        if error is not None:
            raise error
        sets = []
        position = HEADER.size
        while position < len(content):
            left = len(content) - position - LENGTH_BYTES
            if left < 0:
                raise _bad_length(position, f"{LENGTH_BYTES + left} bytes", f"{LENGTH_BYTES} bytes")
            length = _length_at(content, position)
            if length > left:
                raise _bad_length(position, str(length), f"{left} or less")
            end = position + LENGTH_BYTES + length
            sets.append(_parse_set(content[position:end], None))
            position = end
        return tuple(sets)


def _parse_set(content: memoryview, start_offset: int | None) -> MessageSet:
    _, error_code = HEADER.unpack_from(content)
    messages = content[HEADER.size :]
    known = len(messages) >= OFFSET.size
    base_offset = OFFSET.unpack_from(messages)[0] if known else -1
    return MessageSet(
        error_code,
        FetchDataInfo(messages, LogOffsetMetadata(base_offset), start_offset=start_offset),
    )


def _length_at(content: Buffer, position: int) -> int:
    (length,) = LENGTH.unpack_from(content, position)
    if length < ERROR_CODE_BYTES:
        raise _bad_length(position, str(length), f"{ERROR_CODE_BYTES} or more")
    return int(length)


def _bad_length(position: int, found: str, expected: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"a fetch result has a total length of {found}, {expected} was expected",
        position=position,
        found=found,
        expected=expected,
    )


def _reader_of(source: Any) -> Callable[[int], bytes | None]:
    """Return what reads up to so many bytes: none at the end, None when there are none for now."""
    if type(source) is int:
        return _patient(lambda size: os.read(source, size))
    socket = sys.modules.get("socket")  # who has one has loaded it
    if socket is not None and isinstance(source, socket.socket):
        return _patient(source.recv)
    read = getattr(source, "read", None)
    if read is None or isinstance(source, io.TextIOBase):
        kind = type(source).__name__
        raise ArgumentTypeError(
            f"nothing can be received from an object of type {kind}",
            found=kind,
            expected="a socket, a file or pipe, a descriptor, or an object with read()",
        )
    return read  # type: ignore[no-any-return]


def _patient(read: Callable[[int], bytes]) -> Callable[[int], bytes | None]:
    """Read from the system: nothing for now is no error, a connection that broke is ours."""

    def attempt(size: int) -> bytes | None:
        try:
            return read(size)
        except BlockingIOError:
            return None
        except TimeoutError as error:
            raise TransferTimeoutError(
                "no bytes arrived before the timeout", os_error=errno.ETIMEDOUT
            ) from error
        except OSError as error:
            if type(error).__name__ == "SSLWantReadError":
                return None
            raise ReceiveError(f"cannot receive: {error.strerror}", os_error=error.errno) from error

    return attempt
