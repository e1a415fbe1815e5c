"""Where bytes are sent to: a socket, a pipe, a file, or an object that writes.

A step takes as much as the destination takes at once; who sends goes on until a step takes nothing.

Source: Kafka ``TransferableChannel``, ``TransferableRecords``.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from segstore.arguments import integer_within
from segstore.errors import ArgumentTypeError, IllegalArgumentError, SendError, TransferTimeoutError
from segstore.number_limits import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

PIECE_BYTES: Final = 65_536
"""Of what goes through memory, because no descriptor takes it."""
KINDS: Final = "a socket, a file or pipe, a descriptor, or an object with write()"


class ByteSource(Protocol):
    """Bytes in a file: what a segment offers of its ``.log``."""

    def write_to(self, destination: int, position: int, size: int) -> tuple[int, bool]:
        """Send bytes to a descriptor: how many it took, whether it takes no more for now."""

    def read_into(self, buffer: Buffer, position: int) -> None:
        """Fill *buffer* with the bytes from *position* on."""


class TransferableChannel(ABC):
    """A destination, and how bytes get there (Kafka ``TransferableChannel``)."""

    __slots__ = ()

    @staticmethod
    def of(destination: Any) -> TransferableChannel:
        """Return the channel to *destination*, which may be one already.

        Parameters
        ----------
        destination : socket, file, int or object with ``write``
            A socket, a pipe or file of Python's ``io``, and a descriptor take bytes from the
            system's hands. To anything else - a TLS socket, ``BytesIO``, a compressed file - they
            go through memory, by its ``write`` or ``send``. What a buffered file holds back is
            flushed first.

        Raises
        ------
        ArgumentTypeError
            It is none of these.
        IllegalArgumentError
            It is closed.
        """
        if type(destination) is int:
            return _DescriptorChannel(destination, None)
        if _is_a("socket", "socket", destination):
            return _channel_to_socket(destination)
        if isinstance(destination, TransferableChannel):
            return destination
        reads = isinstance(destination, io.BufferedReader | io.FileIO)
        if reads and not _not_closed(destination.writable):
            raise ArgumentTypeError(
                "the file was not opened for writing", found="a file to read", expected=KINDS
            )
        if isinstance(destination, io.BufferedWriter | io.BufferedRandom | io.FileIO):
            _not_closed(destination.flush)
        elif hasattr(destination, "write") and not isinstance(destination, io.TextIOBase):
            return _WriterChannel(destination.write)
        if not hasattr(destination, "fileno") or isinstance(destination, io.TextIOBase):
            kind = type(destination).__name__
            raise ArgumentTypeError(
                f"nothing can be sent to an object of type {kind}", found=kind, expected=KINDS
            )
        return _DescriptorChannel(_not_closed(destination.fileno), None)

    @abstractmethod
    def write(self, data: memoryview) -> int:
        """Hand over bytes in memory: at least one, or 0 when none is taken for now."""

    @abstractmethod
    def transfer_from(self, source: ByteSource, position: int, count: int) -> int:
        """Hand over *count* bytes of a file: at least one, or 0 when none is taken for now."""


class TransferableRecords(ABC):
    """Records that can be sent as they are (Kafka ``TransferableRecords``)."""

    __slots__ = ()

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Bytes of the records."""

    @abstractmethod
    def transfer_to(self, channel: TransferableChannel, position: int, count: int) -> int:
        """Send up to *count* bytes from *position* on in one step; 0 = none is taken for now."""

    def write_to(self, destination: Any, position: int = 0, length: int | None = None) -> int:
        """Send the bytes as they are; returns how many the destination took.

        Parameters
        ----------
        destination : socket, file, int or object with ``write``
            A blocking one takes everything. A non-blocking one takes what it has room for: go on
            later, with *position* moved on. A socket's timeout bounds the wait for room.
        position : int
            Of the first byte to send, in the records.
        length : int or None
            Bytes at most; None = up to the end.

        Raises
        ------
        SendError
            The destination takes nothing any more: its peer has gone.
        TransferTimeoutError
            A socket with a timeout had no room for so long.
        LogTruncatedError
            The records are in the log no more: what was sent of them is worth nothing [DUR-77].

        Source: Kafka ``FileRecords.writeTo``, ``MemoryRecords.writeTo``.
        """
        size = self.size_bytes
        start = integer_within("position", position, 0, size)
        left = size - start
        count = left if length is None else min(integer_within("length", length, 0, MAX_INT), left)
        channel = TransferableChannel.of(destination)
        sent = 0
        while sent < count:
            taken = self.transfer_to(channel, start + sent, count - sent)
            if taken == 0:
                break
            sent += taken
        return sent


class _DescriptorChannel(TransferableChannel):
    """A descriptor; *timeout* as of a socket: None = it waits by itself, if it does."""

    __slots__ = ("_descriptor", "_timeout")

    def __init__(self, descriptor: int, timeout: float | None) -> None:
        if not 0 <= descriptor <= MAX_INT:
            raise IllegalArgumentError(
                "the destination is closed", found=str(descriptor), expected="a descriptor"
            )
        self._descriptor = descriptor
        self._timeout = timeout

    def write(self, data: memoryview) -> int:
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                if not self._wait():
                    return 0
            except OSError as error:
                raise SendError(f"cannot send: {error.strerror}", os_error=error.errno) from error

    def transfer_from(self, source: ByteSource, position: int, count: int) -> int:
        while count > 0:
            sent, would_block = source.write_to(self._descriptor, position, count)
            if sent > 0 or (would_block and not self._wait()):
                return sent
        return 0

    def _wait(self) -> bool:
        """Wait for room as long as the socket's timeout says; False when it does not wait."""
        if not self._timeout:
            return False
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        if not poll.poll(self._timeout * 1000):
            raise TransferTimeoutError(
                f"the destination had no room for {self._timeout} seconds",
                os_error=errno.ETIMEDOUT,
            )
        return True


class _WriterChannel(TransferableChannel):
    """An object that takes bytes by a method; its own exceptions go through.

    But for the plain ``TimeoutError`` of a socket or a file, which is told as that of a descriptor.
    """

    __slots__ = ("_write",)

    def __init__(self, write: Callable[[memoryview], int | None]) -> None:
        self._write = write

    def write(self, data: memoryview) -> int:
        try:
            taken = self._write(data)
        except OSError as error:
            if type(error) is TimeoutError:
                raise TransferTimeoutError(
                    f"the destination had no room in time: {error}", os_error=errno.ETIMEDOUT
                ) from error
            if isinstance(error, BlockingIOError) or _is_a("ssl", "SSLWantWriteError", error):
                return getattr(error, "characters_written", 0)
            raise
        if taken is None:  # of io's raw files it means that there is no room
            owner = getattr(self._write, "__self__", None)
            return 0 if isinstance(owner, io.RawIOBase) else data.nbytes
        return taken

    def transfer_from(self, source: ByteSource, position: int, count: int) -> int:
        piece = bytearray(min(count, PIECE_BYTES))
        source.read_into(piece, position)
        return self.write(memoryview(piece))


def _channel_to_socket(destination: Any) -> TransferableChannel:
    if _is_a("ssl", "SSLSocket", destination):  # what goes past it would not be encrypted
        return _WriterChannel(destination.send)
    return _DescriptorChannel(destination.fileno(), destination.gettimeout())


def _is_a(module: str, name: str, value: object) -> bool:
    """Whether *value* is of a class of a module, which is not loaded for that."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _not_closed(method: Callable[[], Any]) -> Any:
    try:
        return method()
    except ValueError as error:
        raise IllegalArgumentError(
            f"the destination is closed: {error}", found="a closed file", expected="an open one"
        ) from error
