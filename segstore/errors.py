"""The exceptions of segstore: one class per status of the C core, and those of the Python floors.

Each class also inherits the fitting built-in, so ``except OSError`` or ``except ValueError`` works
for who does not know segstore. Kafka's ``XException`` is ``XError`` here. ``str`` of each says
where it was, what was found and what was expected, as far as there is something to say.
"""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

__all__ = [
    "AlreadyExistsError", "ArgumentTypeError", "CloseError", "ClosedError",
    "CodecError", "CodecMissingError", "CorruptCheckpointError", "CorruptIndexError",
    "CorruptLogError", "CorruptRecordError", "CorruptSnapshotError", "DirectoryReplacedError",
    "DiskFullError",
    "ForkedHandleError", "FsyncFailedError", "IllegalArgumentError", "IllegalStateError",
    "InconsistentTopicIdError", "IndexOffsetOverflowError", "InternalError", "InvalidEpochError",
    "InvalidOffsetError", "InvalidProducerEpochError", "InvalidRecordError",
    "InvalidTimestampError", "InvalidTopicError", "InvalidTxnStateError", "LimitExceededError",
    "LogLockedError", "LogNotFoundError", "LogPermissionError", "LogReadOnlyError",
    "LogSegmentOffsetOverflowError", "LogTruncatedError", "NotALogError", "OffsetOutOfRangeError",
    "OffsetsOutOfOrderError", "OutOfOrderSequenceError", "ReadIOError", "ReceiveError",
    "RecordBatchTooLargeError", "RecordLimitExceededError", "RecordTooLargeError",
    "RecordTypeError", "ResourceError",
    "SegstoreError", "SendError", "TransactionCoordinatorFencedError", "TransferTimeoutError",
    "UnexpectedAppendOffsetError", "UnknownServerError", "UnknownTopicOrPartitionError",
    "UnsupportedFormatError", "WriteError",
]  # fmt: skip


class SegstoreError(Exception):
    """Base of all errors of segstore.

    Attributes
    ----------
    message : str
        One sentence that says what happened.
    file : str or None
        Path or name of the file or directory concerned.
    position : int or None
        Byte in the file or buffer where the problem is.
    found, expected : str or None
        What stood there, and what should have.
    os_error : int or None
        errno of the system call that failed.
    appended : mapping of int to LogAppendInfo
        Of an error of ``LogManager.append``: what partitions had got before it, and keep.
    next_readable_offset : int or None
        Of an error of a read or scan that met damage: where the next whole batch begins. None: no
        whole batch follows, or the error is about something else.
    """

    appended: Mapping[int, Any] = MappingProxyType({})  # types stands above errors
    next_readable_offset: int | None = None
    _way_on = ""

    def __init__(  # noqa: PLR0913 - one keyword per thing that a user wants to read off an error
        self,
        message: str = "",
        *,
        file: str | None = None,
        position: int | None = None,
        found: str | None = None,
        expected: str | None = None,
        os_error: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.position = position
        self.found = found
        self.expected = expected
        self.os_error = os_error

    def locate(self, file: str, position: int = 0) -> Self:
        """Name the file of an error about a buffer, which begins at byte *position* of it.

        An error that names a file already stays as it is. Returns itself, to be raised.
        """
        if self.file is None:
            self.file = file
            if self.position is not None:
                self.position += position
        return self

    @property
    def says_way_on(self) -> bool:
        """Whether the error says already how a reader goes on."""
        return bool(self._way_on)

    def go_on(self, offset: int | None, way_on: str) -> Self:
        """Say how a reader goes on behind the damage, at *offset*; returns itself, to be raised."""
        self.next_readable_offset, self._way_on = offset, f"; {way_on}"
        return self

    def __str__(self) -> str:
        return self._located(self.file) + self._way_on

    def text_within(self, path: str) -> str:
        """Return what ``str`` does, for a sentence that names *path*: it is not named again.

        A file below *path* is named from there on.
        """
        file = self.file
        if file is not None:
            file = None if file == path else file.removeprefix(f"{path}{os.sep}")
        return self._located(file)

    def _located(self, file: str | None) -> str:
        where = [] if file is None else [file]
        if self.position is not None:
            where.append(f"position {self.position}")
        text = f"{', '.join(where)}: {self.message}" if where else self.message
        values = (("found", self.found), ("expected", self.expected))
        untold = [f"{name} {value}" for name, value in values if not _says(self.message, value)]
        return f"{text} ({', '.join(untold)})" if untold else text

    def __reduce__(self) -> tuple[Any, ...]:
        # the attributes travel as state: subclasses of OSError rebuild themselves from args only
        return (type(self), (self.message,), self.__dict__.copy())


def _says(message: str, value: str | None) -> bool:
    """Whether a sentence has *value* in it as it stands, and not within a longer word or number."""
    return not value or re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message) is not None


def _behind_record(reason: str) -> str:
    """Leave out which record a reason is about."""
    _, colon, rest = reason.partition(": ")
    return colon + rest


class CorruptRecordError(SegstoreError, ValueError):
    """A batch is damaged: its length, magic or CRC is wrong (Kafka ``CorruptRecordException``)."""


class InvalidRecordError(SegstoreError, ValueError):
    """A batch or record has a wrong structure (Kafka ``InvalidRecordException``).

    Attributes
    ----------
    record_errors : sequence of (int, str)
        Index in its batch and reason of each record that an append was refused for: the first
        thousand; empty when the batch as a whole was refused (Kafka ``RecordValidationException``).
        Of an append of records and not of batches: the index among all of them.
    batch_index : int or None
        Which of the batches was refused for its records.
    """

    record_errors: Sequence[tuple[int, str]] = ()
    batch_index: int | None = None

    def count_from(self, first: int) -> None:
        """Count records from the caller's first: the refused batch begins with his *first*-th."""
        self.record_errors = [
            (first + index, f"record {first + index}{_behind_record(reason)}")
            for index, reason in self.record_errors
        ]
        if self.record_errors:
            self.message = self.record_errors[0][1]
            self.args = (self.message,)


class OffsetsOutOfOrderError(InvalidRecordError):
    """Kept offsets do not ascend (Kafka ``OffsetsOutOfOrderException``)."""


class InvalidTimestampError(InvalidRecordError):
    """A record's timestamp is out of the topic's range (Kafka ``InvalidTimestampException``)."""


class CorruptIndexError(SegstoreError, ValueError):
    """An index file is damaged (Kafka ``CorruptIndexException``)."""


class CorruptCheckpointError(SegstoreError, ValueError):
    """A checkpoint or another small text file beside a log cannot be read [DUR-21, DUR-97]."""


class CorruptSnapshotError(SegstoreError, ValueError):
    """A producer snapshot is damaged (Kafka ``CorruptSnapshotException``); it can be done without.

    Source: [DUR-22, PSM-54].
    """


class CorruptLogError(SegstoreError, ValueError):
    """Data that was acknowledged is damaged or missing [DUR-51, DUR-54].

    Attributes
    ----------
    missing : tuple of (int, int) or None
        Of a log that is refused because records are missing: the first one of them, and the offset
        behind the last.
    """

    missing: tuple[int, int] | None = None

    def lacks(self, first_offset: int, next_offset: int) -> Self:
        """Say which records are missing; returns itself, to be raised."""
        self.missing = first_offset, next_offset
        return self


class UnsupportedFormatError(SegstoreError, ValueError):
    """Bytes of a format that this version does not read [DUR-95]."""


class LimitExceededError(SegstoreError, ValueError):
    """A configured limit was exceeded before memory was taken for it [DUR-92]."""


class RecordLimitExceededError(LimitExceededError, InvalidRecordError):
    """What was to be appended is larger than allowed once it is decompressed [APP-36, DUR-92].

    (Kafka ``InvalidRecordException``.)
    """

    def like(self, error: LimitExceededError) -> Self:
        """Take over what *error* found, and where; returns itself, to be raised."""
        self.__dict__.update(error.__dict__)
        return self


class CodecError(SegstoreError, ValueError):
    """Compressed data cannot be decoded."""

    decoded: bytes = b""
    """What came out before the break; a codec leaves it for the core, which takes it away."""


class CodecMissingError(SegstoreError, ImportError):
    """No library for a compression codec is installed; the message names the package to install."""


class IllegalArgumentError(SegstoreError, ValueError):
    """An argument is out of range (Kafka's use of ``IllegalArgumentException``)."""


class ArgumentTypeError(IllegalArgumentError, TypeError):
    """An argument is not of the type that is wanted."""


class RecordTypeError(SegstoreError, TypeError):
    """Something that is not a record, batch or Arrow data was given to append."""


class IllegalStateError(SegstoreError, RuntimeError):
    """The object is in the wrong state (Kafka's use of ``IllegalStateException``)."""


class InvalidOffsetError(SegstoreError, ValueError):
    """An index entry's offset does not increase (Kafka ``InvalidOffsetException``)."""


class IndexOffsetOverflowError(SegstoreError, OverflowError):
    """An offset does not fit an index (Kafka ``IndexOffsetOverflowException``)."""


class LogSegmentOffsetOverflowError(SegstoreError, OverflowError):
    """An offset does not fit its segment (Kafka ``LogSegmentOffsetOverflowException``)."""


class OffsetOutOfRangeError(SegstoreError, LookupError):
    """The offset is below the log start or above its end (Kafka ``OffsetOutOfRangeException``)."""


class LogTruncatedError(SegstoreError, LookupError):
    """The log became shorter than the place where a reader stands [DUR-77]."""


class RecordTooLargeError(SegstoreError, ValueError):
    """A batch is larger than max.message.bytes (Kafka ``RecordTooLargeException``)."""


class RecordBatchTooLargeError(SegstoreError, ValueError):
    """An append is larger than segment.bytes (Kafka ``RecordBatchTooLargeException``)."""


class UnexpectedAppendOffsetError(SegstoreError, ValueError):
    """Kept offsets lie below the log end offset (Kafka ``UnexpectedAppendOffsetException``).

    Attributes
    ----------
    first_offset, last_offset : int
        Of what was to be appended.
    """

    first_offset: int = -1
    last_offset: int = -1


class InvalidEpochError(SegstoreError, ValueError):
    """The leader epoch is older than the newest of the log [DUR-64]."""


class OutOfOrderSequenceError(SegstoreError, ValueError):
    """A producer's batches come with a gap (Kafka ``OutOfOrderSequenceException``) [PSM-13]."""


class InvalidProducerEpochError(SegstoreError, ValueError):
    """A newer producer of the same id is known (Kafka ``InvalidProducerEpochException``)."""


class InvalidTxnStateError(SegstoreError, ValueError):
    """No batch of that kind fits the transaction (Kafka ``InvalidTxnStateException``)."""


class TransactionCoordinatorFencedError(SegstoreError, ValueError):
    """A newer coordinator is known (Kafka ``TransactionCoordinatorFencedException``)."""


class InvalidTopicError(SegstoreError, ValueError):
    """A topic or partition name is not legal [DUR-98] (Kafka ``InvalidTopicException``)."""


class UnknownTopicOrPartitionError(SegstoreError, LookupError):
    """No such topic or partition here (Kafka ``UnknownTopicOrPartitionException``)."""


class InconsistentTopicIdError(SegstoreError, ValueError):
    """A partition directory is of another topic (Kafka ``InconsistentTopicIdException``)."""


class ClosedError(SegstoreError, ValueError):
    """The object is closed."""


class ForkedHandleError(SegstoreError, RuntimeError):
    """A handle was used in a forked child; open the log there instead [DUR-68]."""


class LogReadOnlyError(SegstoreError, OSError):
    """The log takes no changes.

    Opened read-only, or after a failed sync [DUR-38]. ``__cause__`` is the first error.
    """


class LogLockedError(SegstoreError, BlockingIOError):
    """Another writer holds the log, in this process or another [DUR-65, DUR-67]."""


class LogNotFoundError(SegstoreError, FileNotFoundError):
    """A file or directory does not exist."""


class DirectoryReplacedError(LogNotFoundError):
    """Another directory is at the path of one that was opened.

    An idle directory holds no descriptor. Its next use found that it was moved or removed, and that
    another one has its name: nothing was read or written there.
    """


class AlreadyExistsError(SegstoreError, FileExistsError):
    """A file exists that should not [DUR-11]."""


class NotALogError(SegstoreError, NotADirectoryError):
    """The path is not a partition directory or log directory."""


class LogPermissionError(SegstoreError, PermissionError):
    """Permission denied, or a read-only file system; a read-only open may work [DUR-40]."""


class DiskFullError(SegstoreError, OSError):
    """No space; the operation was rolled back and the log stays writable [DUR-30, DUR-32]."""


class ResourceError(SegstoreError, OSError):
    """Out of memory or descriptors; nothing changed [DUR-31].

    Also of an open to read, beside a writer that deletes faster than it can be followed, or that
    has emptied the log and is held up before it makes the new segment.
    """


class ReadIOError(SegstoreError, OSError):
    """A read failed; never taken for damage or for the end of the log [DUR-33]."""


class WriteError(SegstoreError, OSError):
    """A write failed and was rolled back [DUR-32]."""


class FsyncFailedError(SegstoreError, OSError):
    """A sync failed; the log is read-only from here on and the sync is not retried [DUR-35]."""


class CloseError(SegstoreError, OSError):
    """A close failed; the descriptor is gone, the clean marker is not written [DUR-34]."""


class SendError(SegstoreError, ConnectionError):
    """What records were sent to takes no more: its peer has gone; ``os_error`` says how."""


class ReceiveError(SegstoreError, ConnectionError):
    """What was being received ended in its middle."""


class TransferTimeoutError(SegstoreError, TimeoutError):
    """A socket with a timeout had no room, or no bytes, for so long; the rest may follow."""


class UnknownServerError(SegstoreError, RuntimeError):
    """A peer reports an error that has no other class (Kafka ``UnknownServerException``)."""


class InternalError(SegstoreError, RuntimeError):
    """An invariant of segstore is broken: please report it [DUR-44]."""
