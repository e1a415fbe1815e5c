"""The exceptions of segstore: one class for each status of the C core, and more from Python.

Each class also inherits the fitting built-in exception: code that does not know segstore can use
``except OSError`` or ``except ValueError``. Kafka's ``XException`` is ``XError`` here. ``str`` of
an error says where the problem is, what was found and what was expected.
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
    "DiskFullError", "EncryptionKeyError",
    "ForkedHandleError", "FsyncFailedError", "IllegalArgumentError", "IllegalStateError",
    "InconsistentTopicIdError", "IndexOffsetOverflowError", "InternalError",
    "InvalidConfigurationError", "InvalidEpochError",
    "InvalidOffsetError", "InvalidProducerEpochError", "InvalidRecordError",
    "InvalidTimestampError", "InvalidTopicError", "InvalidTxnStateError", "LimitExceededError",
    "LogCleaningAbortedError", "LogCleaningError", "LogDirectoryOfflineError",
    "LogLockedError", "LogNotFoundError", "LogPermissionError", "LogReadOnlyError",
    "LogSegmentOffsetOverflowError", "LogTruncatedError", "NotALogError", "OffsetOutOfRangeError",
    "OffsetsOutOfOrderError", "OutOfOrderSequenceError", "ReadIOError", "ReceiveError",
    "RecordBatchTooLargeError", "RecordLimitExceededError", "RecordTooLargeError",
    "RecordTypeError", "RemoteResourceNotFoundError", "RemoteStorageError", "ResourceError",
    "RetriableRemoteStorageError",
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
        Path or name of the file or directory.
    position : int or None
        Byte in the file or buffer where the problem is.
    found, expected : str or None
        What is there, and what should be.
    os_error : int or None
        errno of the system call that failed.
    appended : mapping of int to LogAppendInfo
        For ``LogManager.append``: the records that partitions got before the error, and keep. Where
        the error came within a partition, its part has no sizes and no times.
    next_readable_offset : int or None
        For a read or scan that met damage: the offset of the next whole batch. None: no whole batch
        follows, or the error is not about damage.
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
        """Add the file to an error about a buffer, which begins at byte *position* of that file.

        An error with a file does not change. Returns the error, to be raised.
        """
        if self.file is None:
            self.file = file
            if self.position is not None:
                self.position += position
        return self

    def rename(self, path: str, name: str) -> Self:
        """Call what lies at *path* by another *name*, wherever the error says it; returns it."""
        for attribute, text in vars(self).items():
            if isinstance(text, str):
                setattr(self, attribute, text.replace(path, name))
        self.args = (self.message,)
        return self

    @property
    def says_way_on(self) -> bool:
        """Whether the error already says where a reader can go on."""
        return bool(self._way_on)

    def go_on(self, offset: int | None, way_on: str) -> Self:
        """Add the *offset* after the damage where a reader can go on; returns the error."""
        self.next_readable_offset, self._way_on = offset, f"; {way_on}"
        return self

    def __str__(self) -> str:
        return self._located(self.file) + self._way_on

    def text_within(self, path: str) -> str:
        """Return the text of the error without *path*, for a sentence that already names it.

        A file below *path* has its name relative to *path*.
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
        Index in its batch, and reason, of each refused record: the first thousand. Empty when the
        whole batch was refused (Kafka ``RecordValidationException``). For an append of records, not
        of batches, the index is among all records.
    batch_index : int or None
        Index of the batch that was refused for its records.
    """

    record_errors: Sequence[tuple[int, str]] = ()
    batch_index: int | None = None

    def count_from(self, first: int) -> None:
        """Change indexes to those of the caller's list: the refused batch begins with *first*."""
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
    """A producer snapshot is damaged (Kafka ``CorruptSnapshotException``).

    The log is readable without it. Source: [DUR-22, PSM-54].
    """


class CorruptLogError(SegstoreError, ValueError):
    """Data that was acknowledged is damaged or missing [DUR-51, DUR-54].

    Attributes
    ----------
    missing : tuple of (int, int) or None
        For a log that is refused because records are missing: the first missing offset, and one
        more than the last.
    """

    missing: tuple[int, int] | None = None

    def lacks(self, first_offset: int, next_offset: int) -> Self:
        """Add the range of missing records; returns the error, to be raised."""
        self.missing = first_offset, next_offset
        return self


class UnsupportedFormatError(SegstoreError, ValueError):
    """Bytes of a format that this version does not read [DUR-95]."""


class LimitExceededError(SegstoreError, ValueError):
    """Data exceeds a configured limit; found before memory was allocated for it [DUR-92]."""


class RecordLimitExceededError(LimitExceededError, InvalidRecordError):
    """Records to append or to clean exceed a limit when decompressed [APP-36, CLN-105, DUR-92].

    Kafka ``InvalidRecordException``.
    """

    def like(self, error: LimitExceededError) -> Self:
        """Copy the text, place and values of *error*; returns this error, to be raised."""
        self.__dict__.update(error.__dict__)
        return self


class EncryptionKeyError(SegstoreError, ValueError):
    """The private key that a segment of a tiered bucket needs is missing, or is another one."""


class CodecError(SegstoreError, ValueError):
    """Compressed data cannot be decoded."""

    decoded: bytes = b""
    """The bytes decoded before the error; the core reads and removes them."""


class CodecMissingError(SegstoreError, ImportError):
    """No library for a compression codec is installed; the message names the package to install."""


class IllegalArgumentError(SegstoreError, ValueError):
    """An argument is out of range (Kafka's use of ``IllegalArgumentException``)."""


class ArgumentTypeError(IllegalArgumentError, TypeError):
    """An argument has the wrong type."""


class InvalidConfigurationError(IllegalArgumentError):
    """A setting is unknown, or contradicts another (Kafka ``InvalidConfigurationException``)."""


class RecordTypeError(SegstoreError, TypeError):
    """An object given to append is not a record, batch or Arrow data."""


class IllegalStateError(SegstoreError, RuntimeError):
    """The object is in the wrong state (Kafka's use of ``IllegalStateException``)."""


class InvalidOffsetError(SegstoreError, ValueError):
    """An index entry's offset does not increase (Kafka ``InvalidOffsetException``)."""


class IndexOffsetOverflowError(SegstoreError, OverflowError):
    """An offset does not fit an index (Kafka ``IndexOffsetOverflowException``)."""


class LogSegmentOffsetOverflowError(SegstoreError, OverflowError):
    """An offset does not fit its segment (Kafka ``LogSegmentOffsetOverflowException``)."""


class OffsetOutOfRangeError(SegstoreError, IndexError):
    """The offset is below the log start or above its end (Kafka ``OffsetOutOfRangeException``)."""


class LogTruncatedError(SegstoreError, LookupError):
    """The log was truncated below what a reader has read [DUR-77]."""


class RecordTooLargeError(SegstoreError, ValueError):
    """A batch is larger than max.message.bytes (Kafka ``RecordTooLargeException``)."""


class RecordBatchTooLargeError(SegstoreError, ValueError):
    """An append is larger than segment.bytes (Kafka ``RecordBatchTooLargeException``)."""


class UnexpectedAppendOffsetError(SegstoreError, ValueError):
    """Kept offsets lie below the log end offset (Kafka ``UnexpectedAppendOffsetException``).

    Attributes
    ----------
    first_offset, last_offset : int
        First and last offset of the batches to append.
    """

    first_offset: int = -1
    last_offset: int = -1


class InvalidEpochError(SegstoreError, ValueError):
    """The leader epoch is older than the newest one of the log [DUR-64]."""


class OutOfOrderSequenceError(SegstoreError, ValueError):
    """A producer's batches have a gap (Kafka ``OutOfOrderSequenceException``) [PSM-13]."""


class InvalidProducerEpochError(SegstoreError, ValueError):
    """A newer epoch of this producer is known (Kafka ``InvalidProducerEpochException``)."""


class InvalidTxnStateError(SegstoreError, ValueError):
    """The batch does not fit the state of the transaction (Kafka ``InvalidTxnStateException``)."""


class TransactionCoordinatorFencedError(SegstoreError, ValueError):
    """A newer coordinator epoch is known (Kafka ``TransactionCoordinatorFencedException``)."""


class InvalidTopicError(SegstoreError, ValueError):
    """A topic or partition name is not legal [DUR-98] (Kafka ``InvalidTopicException``)."""


class UnknownTopicOrPartitionError(SegstoreError, LookupError):
    """The topic or partition does not exist (Kafka ``UnknownTopicOrPartitionException``)."""


class InconsistentTopicIdError(SegstoreError, ValueError):
    """The partition has another topic id (Kafka ``InconsistentTopicIdException``)."""


class ClosedError(SegstoreError, ValueError):
    """The object is closed."""


class ForkedHandleError(SegstoreError, RuntimeError):
    """A forked child used a handle of its parent; open the log in the child [DUR-68]."""


class LogCleaningAbortedError(SegstoreError, RuntimeError):
    """A pass of the cleaner ended early; the log is valid, and another pass may begin [CLN-19]."""


class LogCleaningError(SegstoreError, RuntimeError):
    """A pass of the cleaner failed, or the look whether one is due [CLN-4].

    ``__cause__`` is what failed.

    Attributes
    ----------
    log : UnifiedLog
        The log, inside of the process.
    """

    log: Any = None


class LogReadOnlyError(SegstoreError, OSError):
    """The log takes no changes: it was opened read-only, or an fsync failed [DUR-38].

    ``__cause__`` is the first error.
    """


class LogDirectoryOfflineError(SegstoreError, OSError):
    """A log directory that is needed cannot be used, or may have what was asked for [MGR-64].

    The other directories work. Look after the disk and open the directories again.
    """


class LogLockedError(SegstoreError, BlockingIOError):
    """Another writer has the log open, in this process or another [DUR-65, DUR-67]."""


class LogNotFoundError(SegstoreError, FileNotFoundError):
    """A file or directory does not exist."""


class DirectoryReplacedError(LogNotFoundError):
    """Another directory is at the path of the opened one; nothing was read or written there.

    An idle log keeps no file descriptor of its directory. Its next use found the directory moved or
    removed, and a new one at its path.
    """


class AlreadyExistsError(SegstoreError, FileExistsError):
    """A file exists that must not exist [DUR-11]."""


class NotALogError(SegstoreError, NotADirectoryError):
    """The path is not a partition directory or log directory."""


class LogPermissionError(SegstoreError, PermissionError):
    """Permission denied, or a read-only file system; an open with read_only may work [DUR-40]."""


class DiskFullError(SegstoreError, OSError):
    """No space; the operation was undone and the log stays writable [DUR-30, DUR-32]."""


class ResourceError(SegstoreError, OSError):
    """No memory or no file descriptors; nothing changed [DUR-31].

    An open for reading also raises it if a writer deletes segments faster than the open follows. So
    it does if the writer has emptied the log and waits before it creates the new segment.
    """


class ReadIOError(SegstoreError, OSError):
    """A read failed; it is never treated as damage or as the end of the log [DUR-33]."""


class RemoteStorageError(SegstoreError, OSError):
    """Remote storage, or who keeps its metadata, failed (Kafka ``RemoteStorageException``)."""


class RetriableRemoteStorageError(RemoteStorageError):
    """The same call may succeed later [TIER-16]."""


class RemoteResourceNotFoundError(RemoteStorageError):
    """Remote storage does not have what it was asked for [TIER-12]."""


class WriteError(SegstoreError, OSError):
    """A write failed and was undone [DUR-32]."""


class FsyncFailedError(SegstoreError, OSError):
    """An fsync failed. The log is read-only from now on; the fsync is not retried [DUR-35]."""


class CloseError(SegstoreError, OSError):
    """A close failed. The descriptor is closed; no clean shutdown marker is written [DUR-34]."""


class SendError(SegstoreError, ConnectionError):
    """The peer that records are sent to is gone; ``os_error`` has the reason."""


class ReceiveError(SegstoreError, ConnectionError):
    """The data from a peer ended before it was complete."""


class TransferTimeoutError(SegstoreError, TimeoutError):
    """A socket sent or received nothing within its timeout; you may try again."""


class UnknownServerError(SegstoreError, RuntimeError):
    """A peer reports an error without a class here (Kafka ``UnknownServerException``)."""


class InternalError(SegstoreError, RuntimeError):
    """An invariant of segstore is broken: please report it [DUR-44]."""
