"""A .log file as Kafka's file scanner sees it: batch by batch, good or bad, for looking inside.

``FileLogInputStream`` [format.md 9.1] stops at an incomplete batch without a word and hands out
batches whose CRC is wrong; a reader of records must never do that, a dump must. Memory stays at one
window or one batch, however large the file is [DUR-61, DUR-102].
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple, Self

from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    LimitExceededError,
    LogNotFoundError,
    LogPermissionError,
    ReadIOError,
    UnsupportedFormatError,
)
from segstore.types import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    Codec,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

WINDOW_BYTES = 1024 * 1024
BLOCK_BYTES = 4096  # a disk reads them as a whole, or not at all
MAX_FILE_BYTES = 2**31 - 1

LOG_OVERHEAD = 12
PREFIX_BYTES = 17
SMALLEST_LENGTH = 14
FIRST_MAGIC_OF_BATCHES = 2
CRC_START = 21
LEGACY_CRC_START = 16
LEGACY_HEADER_BYTES = 26
LEGACY_TIMED_HEADER_BYTES = 34
LEGACY_ATTRIBUTES = 0x0F
SMALLEST_BYTES = (LEGACY_HEADER_BYTES, LEGACY_TIMED_HEADER_BYTES, BATCH_HEADER_BYTES)
"""By magic."""

_PREFIX = struct.Struct(">qiib")
_LEGACY_HEADER = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_HEADER = struct.Struct(">qiibIhiqqqhii")


class FileBatch(NamedTuple):
    """Header and bytes of one batch [format.md 4], or of one message of magic 0 or 1 [7.1].

    A message has one offset and one timestamp; where it is a wrapper, they are those of the last
    and the newest message in it. Fields that it does not have are -1 or 0.
    """

    position: int
    data: bytes
    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record, also where compaction removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, prefix included."""
        return LOG_OVERHEAD + self.length

    @property
    def is_valid(self) -> bool:
        """Whether the CRC is right [format.md 9.2]."""
        from zlib import crc32

        from segstore._core import crc32c

        if self.is_legacy:
            return crc32(memoryview(self.data)[LEGACY_CRC_START:]) == self.crc
        return crc32c(memoryview(self.data)[CRC_START:]) == self.crc

    @property
    def is_legacy(self) -> bool:
        """Whether this is a message of magic 0 or 1."""
        return self.magic < FIRST_MAGIC_OF_BATCHES

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2^31-1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_FILE_BYTES

    @property
    def is_control(self) -> bool:
        """Whether this is a transaction marker or a control batch of KRaft."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def timestamp_type(self) -> str:
        """Kafka's name of the timestamp type."""
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & LOG_APPEND_TIME_FLAG else "CreateTime"

    @property
    def codec(self) -> Codec:
        """Codec of the records; UnsupportedFormatError for ids 5 to 7 [DUR-95]."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError as error:
            raise UnsupportedFormatError(
                f"batch with an unknown compression type {self.attributes & CODEC_MASK}",
                position=self.position,
                found=str(self.attributes & CODEC_MASK),
                expected="0 to 4",
            ) from error


class BatchFile:
    """A .log (or KRaft .checkpoint) file, read with positional reads; never written.

    Parameters
    ----------
    path : str
        As the user gave it; error messages repeat it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._start = 0
        self._owns_descriptor = True
        self._descriptor = open_for_reading(path)
        self.size_bytes = os.fstat(self._descriptor).st_size
        if self.size_bytes > MAX_FILE_BYTES:
            self.close()
            raise LimitExceededError(
                "the file is larger than a log can be",
                file=path,
                found=f"{self.size_bytes} bytes",
                expected=f"at most {MAX_FILE_BYTES}",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; twice is harmless, and a slice has none of its own."""
        if self._descriptor >= 0 and self._owns_descriptor:
            os.close(self._descriptor)
        self._descriptor = -1

    def slice(self, position: int, max_bytes: int) -> BatchFile:
        """Return the part ``[position, position + max_bytes)``, cut where this one ends.

        It reads as long as the file is open; positions of its batches are those in the file.

        Raises
        ------
        IllegalArgumentError
            A negative position or size; a position behind the end.

        Source: [format.md 9.4]; Kafka ``FileRecords.slice``.
        """
        if position < 0 or max_bytes < 0 or position > self.size_bytes:
            raise IllegalArgumentError(
                "a slice begins after the end of the file, or below 0",
                file=self.path,
                found=f"position {position}, {max_bytes} bytes",
                expected=f"a position from 0 to {self.size_bytes}, and a size from 0 on",
            )
        part = object.__new__(BatchFile)
        part.path = self.path
        part._start = self._start + position
        part._owns_descriptor = False
        part._descriptor = self._descriptor
        part.size_bytes = min(max_bytes, self.size_bytes - position)
        return part

    def batches(self, position: int = 0, max_bytes: int = MAX_FILE_BYTES) -> Iterator[FileBatch]:
        """Yield the batches of the slice ``[position, position + max_bytes)``, whole ones only.

        Raises
        ------
        CorruptRecordError
            A length field that cannot be; the file shrank below its size.
        UnsupportedFormatError
            A magic below 0.
        IllegalArgumentError
            No such slice.
        """
        part = self.slice(position, max_bytes)
        position = part._start  # noqa: SLF001 - of the same class
        end = position + part.size_bytes
        window = b""
        window_start = position
        while (
            position < end - PREFIX_BYTES
        ):  # Kafka wants a byte more than the prefix [format.md 9.1]
            at = position - window_start
            if len(window) - at < BATCH_HEADER_BYTES:
                window, window_start, at = (
                    self._read(position, PREFIX_BYTES, min(WINDOW_BYTES, end - position)),
                    position,
                    0,
                )
            _, length, _, magic = _PREFIX.unpack_from(window, at)
            if length < SMALLEST_LENGTH:
                raise CorruptRecordError(
                    f"Found record size {length} smaller than minimum record overhead "
                    f"({SMALLEST_LENGTH})",
                    file=self.path,
                    position=position,
                    found=str(length),
                    expected=f"at least {SMALLEST_LENGTH}",
                )
            size = LOG_OVERHEAD + length
            if position > end - size:
                return
            self._check_size(position, magic, size)
            if len(window) - at < size:
                window = self._read(position, size, min(max(WINDOW_BYTES, size), end - position))
                window_start, at = position, 0
            data = window[at : at + size]
            if magic < FIRST_MAGIC_OF_BATCHES:
                yield _legacy_batch(position, data)
            else:
                yield FileBatch(position, data, *_HEADER.unpack_from(data))
            position += size

    def _check_size(self, position: int, magic: int, size: int) -> None:
        if magic < 0:
            raise UnsupportedFormatError(
                f"a message of magic {magic}",
                file=self.path,
                position=position,
                found=f"magic {magic}",
                expected="magic 0, 1 or 2",
            )
        smallest = (LEGACY_HEADER_BYTES, LEGACY_TIMED_HEADER_BYTES, BATCH_HEADER_BYTES)[
            min(magic, 2)
        ]
        if size < smallest:
            raise CorruptRecordError(
                f"Record batch is corrupted (the size {size} is smaller than the minimum "
                f"allowed overhead {smallest})",
                file=self.path,
                position=position,
                found=str(size),
                expected=f"at least {smallest}",
            )

    def _read(self, position: int, least: int, size: int) -> bytes:
        """Return *size* bytes, or what the disk gives out of them, if that is *least* bytes."""
        data = _read_piece(self._descriptor, position, size, self.path, least)
        if len(data) < least:
            raise CorruptRecordError(
                "the file became shorter while it was read",
                file=self.path,
                position=position,
                found=f"{len(data)} bytes",
                expected=f"{least} bytes",
            )
        return data


def _legacy_batch(position: int, data: bytes) -> FileBatch:
    offset, length, crc, magic, attributes = _LEGACY_HEADER.unpack_from(data)
    timestamp = -1 if magic == 0 else _TIMESTAMP.unpack_from(data, _LEGACY_HEADER.size)[0]
    return FileBatch(
        position,
        data,
        base_offset=offset,
        length=length,
        partition_leader_epoch=-1,
        magic=magic,
        crc=crc,
        attributes=attributes & LEGACY_ATTRIBUTES,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=-1,
    )


def pieces_of(path: str, size: int) -> Iterator[bytes]:
    """Yield a regular file in pieces of *size* bytes.

    Raises
    ------
    LogNotFoundError, LogPermissionError, UnsupportedFormatError
        As `open_for_reading`.
    ReadIOError
        The disk cannot read it.
    """
    descriptor = open_for_reading(path)
    try:
        position = 0
        while data := _read_piece(descriptor, position, size, path):
            yield data
            position += len(data)
    finally:
        os.close(descriptor)


def _read_piece(
    descriptor: int, position: int, size: int, path: str, least: int | None = None
) -> bytes:
    """Read *size* bytes; fewer at the end, and before bytes that the disk cannot read [DUR-33].

    A read of many bytes fails for one of them, so it is repeated block by block. If that gives
    fewer than *least* bytes (None = *size*), a ReadIOError names the file *path* and the position.
    """
    pieces: list[bytes] = []
    done, by_blocks = 0, False
    while done < size:
        at = position + done
        wanted = min(size - done, BLOCK_BYTES - at % BLOCK_BYTES) if by_blocks else size - done
        try:
            piece = os.pread(descriptor, wanted, at)
        except OSError as error:
            if not by_blocks:
                by_blocks = True
                continue
            if done >= (size if least is None else least):
                break
            raise ReadIOError(
                "the disk cannot read this", file=path, position=at, os_error=error.errno
            ) from error
        if not piece:
            break
        pieces.append(piece)
        done += len(piece)
    return b"".join(pieces)


def open_for_reading(path: str) -> int:
    """Open a regular file read-only and return its descriptor [DUR-99].

    Raises
    ------
    LogNotFoundError, LogPermissionError, ReadIOError
        There is no such file, or it may not be read, or cannot.
    UnsupportedFormatError
        It is a directory, a pipe or a device.
    """
    import stat

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise LogNotFoundError("there is no such file", file=path) from error
    except PermissionError as error:
        raise LogPermissionError(
            "permission to read it is denied", file=path, os_error=error.errno
        ) from error
    except OSError as error:
        raise ReadIOError("the file cannot be opened", file=path, os_error=error.errno) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnsupportedFormatError("this is no regular file", file=path)
    return descriptor
