"""The exception class of each status of the C core (``csrc/base/status.h``).

``_cython/status.pxi`` looks the class of a failed call up here, by the name of its status; nothing
else turns a status into an exception.
"""

from __future__ import annotations

from typing import Final

from segstore.errors import (
    AlreadyExistsError,
    ClosedError,
    CloseError,
    CodecError,
    CodecMissingError,
    CorruptIndexError,
    CorruptLogError,
    CorruptRecordError,
    DirectoryReplacedError,
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    IllegalStateError,
    IndexOffsetOverflowError,
    InternalError,
    InvalidOffsetError,
    InvalidRecordError,
    LimitExceededError,
    LogLockedError,
    LogNotFoundError,
    LogPermissionError,
    LogSegmentOffsetOverflowError,
    LogTruncatedError,
    NotALogError,
    ReadIOError,
    ResourceError,
    SegstoreError,
    SendError,
    UnsupportedFormatError,
    WriteError,
)

STATUS_ERRORS: Final[dict[str, type[SegstoreError]]] = {
    "CORRUPT_RECORD": CorruptRecordError,
    "INVALID_RECORD": InvalidRecordError,
    "CORRUPT_INDEX": CorruptIndexError,
    "CORRUPT_LOG": CorruptLogError,
    "UNSUPPORTED_FORMAT": UnsupportedFormatError,
    "LIMIT_EXCEEDED": LimitExceededError,
    "CODEC": CodecError,
    "CODEC_MISSING": CodecMissingError,
    "ILLEGAL_ARGUMENT": IllegalArgumentError,
    "ILLEGAL_STATE": IllegalStateError,
    "INVALID_OFFSET": InvalidOffsetError,
    "INDEX_OFFSET_OVERFLOW": IndexOffsetOverflowError,
    "SEGMENT_OFFSET_OVERFLOW": LogSegmentOffsetOverflowError,
    "CLOSED": ClosedError,
    "NOT_FOUND": LogNotFoundError,
    "DIRECTORY_REPLACED": DirectoryReplacedError,
    "ALREADY_EXISTS": AlreadyExistsError,
    "NOT_A_LOG": NotALogError,
    "PERMISSION": LogPermissionError,
    "LOCKED": LogLockedError,
    "DISK_FULL": DiskFullError,
    "RESOURCE": ResourceError,
    "READ_IO": ReadIOError,
    "WRITE_IO": WriteError,
    "FSYNC_FAILED": FsyncFailedError,
    "CLOSE_FAILED": CloseError,
    "SEND_FAILED": SendError,
    "LOG_TRUNCATED": LogTruncatedError,
    "CALLBACK": InternalError,
    "INTERNAL": InternalError,
}
"""Status name of ``csrc/base/status.h`` (without ``SGS_``) to exception class."""
