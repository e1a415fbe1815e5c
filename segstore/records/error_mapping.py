"""Kafka's error codes and the exceptions they stand for.

The codes are those of every fetch result: the first five have been the same since there were any.

Source: Kafka ``Errors``; once ``ErrorMapping``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from segstore import errors
from segstore.errors import SegstoreError, UnknownServerError

__all__ = ["ErrorCode", "code_for", "error_for"]


class ErrorCode(IntEnum):
    """Kafka's error codes by name, as a fetch result has them (Kafka ``Errors``)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    MESSAGE_TOO_LARGE = 10
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    INVALID_TIMESTAMP = 32
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    TRANSACTION_COORDINATOR_FENCED = 52
    KAFKA_STORAGE_ERROR = 56
    FENCED_LEADER_EPOCH = 74
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87
    INCONSISTENT_TOPIC_ID = 103


_CLASSES: Final[dict[ErrorCode, type[SegstoreError]]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: UnknownServerError,
    ErrorCode.OFFSET_OUT_OF_RANGE: errors.OffsetOutOfRangeError,
    ErrorCode.CORRUPT_MESSAGE: errors.CorruptRecordError,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: errors.UnknownTopicOrPartitionError,
    ErrorCode.INVALID_FETCH_SIZE: errors.IllegalArgumentError,
    ErrorCode.MESSAGE_TOO_LARGE: errors.RecordTooLargeError,
    ErrorCode.INVALID_TOPIC_EXCEPTION: errors.InvalidTopicError,
    ErrorCode.RECORD_LIST_TOO_LARGE: errors.RecordBatchTooLargeError,
    ErrorCode.INVALID_TIMESTAMP: errors.InvalidTimestampError,
    ErrorCode.INVALID_REQUEST: errors.IllegalArgumentError,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: errors.UnsupportedFormatError,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: errors.OutOfOrderSequenceError,
    ErrorCode.INVALID_PRODUCER_EPOCH: errors.InvalidProducerEpochError,
    ErrorCode.INVALID_TXN_STATE: errors.InvalidTxnStateError,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: errors.TransactionCoordinatorFencedError,
    ErrorCode.KAFKA_STORAGE_ERROR: errors.ReadIOError,
    ErrorCode.FENCED_LEADER_EPOCH: errors.InvalidEpochError,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: errors.CodecMissingError,
    ErrorCode.INVALID_RECORD: errors.InvalidRecordError,
    ErrorCode.INCONSISTENT_TOPIC_ID: errors.InconsistentTopicIdError,
}

# Later entries win: of two codes with one class it is the general one.
_CODES: Final[dict[type, ErrorCode]] = {
    **{error_class: code for code, error_class in _CLASSES.items()},
    errors.CorruptLogError: ErrorCode.CORRUPT_MESSAGE,
    errors.CodecError: ErrorCode.CORRUPT_MESSAGE,
    errors.LogTruncatedError: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.LogNotFoundError: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.LimitExceededError: ErrorCode.MESSAGE_TOO_LARGE,
    errors.RecordLimitExceededError: ErrorCode.INVALID_RECORD,
    errors.ClosedError: ErrorCode.KAFKA_STORAGE_ERROR,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
}


def code_for(error: BaseException) -> ErrorCode:
    """Return the error code for *error*, by its class or the nearest base class.

    Source: Kafka ``Errors.forException``.
    """
    for each in type(error).__mro__:
        if each in _CODES:
            return _CODES[each]
    return ErrorCode.UNKNOWN_SERVER_ERROR


def error_for(code: int) -> SegstoreError | None:
    """Return the exception that a peer's code stands for, None for no error.

    A code that is not known is an `UnknownServerError` that names it.

    Source: Kafka ``Errors.forCode``, ``Errors.exception``.
    """
    if code == ErrorCode.NONE:
        return None
    try:
        known = ErrorCode(code)
    except ValueError:
        return UnknownServerError(f"the peer reports the error {code}", found=str(code))
    return _CLASSES[known](f"the peer reports {known.name} ({code})", found=str(code))
