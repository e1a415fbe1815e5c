"""Kafka's exceptions in the vectors, and ours that stand for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from segstore import errors

if TYPE_CHECKING:
    from collections.abc import Callable

OURS: dict[str, tuple[type[Exception], ...]] = {
    "CorruptIndexException": (errors.CorruptIndexError,),
    "CorruptRecordException": (errors.CorruptRecordError,),
    "IndexOffsetOverflowException": (errors.IndexOffsetOverflowError,),
    "InvalidOffsetException": (errors.InvalidOffsetError,),
    "InvalidRecordException": (errors.InvalidRecordError,),
    "IllegalArgumentException": (
        errors.CorruptCheckpointError,  # a topic id that is no base64
        errors.IllegalArgumentError,
        errors.UnsupportedFormatError,
    ),
    "ArithmeticException": (errors.IllegalArgumentError,),  # memory for no thread
    "ConfigException": (errors.IllegalArgumentError,),
    "InvalidConfigurationException": (errors.InvalidConfigurationError,),
    "IllegalStateException": (errors.IllegalStateError,),
    "KafkaStorageException": (errors.CorruptCheckpointError, errors.LogDirectoryOfflineError),
    "Halted": (errors.LogReadOnlyError,),  # [MGR-5] the process goes on
    "LogCleaningAbortedException": (errors.LogCleaningAbortedError,),
    "LogDirNotFoundException": (errors.IllegalArgumentError,),
    "MetadataParseException": (errors.CorruptLogError, errors.UnsupportedFormatError),
    "NumberFormatException": (errors.CorruptCheckpointError, errors.IllegalArgumentError),
    "InconsistentTopicIdException": (errors.InconsistentTopicIdError,),
    "CorruptSnapshotException": (errors.CorruptSnapshotError,),
    "InvalidProducerEpochException": (errors.InvalidProducerEpochError,),
    "InvalidTxnStateException": (errors.InvalidTxnStateError,),
    "OutOfOrderSequenceException": (errors.OutOfOrderSequenceError,),
    "TransactionCoordinatorFencedException": (errors.TransactionCoordinatorFencedError,),
    "OffsetsOutOfOrderException": (errors.OffsetsOutOfOrderError,),
    "RecordBatchTooLargeException": (errors.RecordBatchTooLargeError,),
    "UnexpectedAppendOffsetException": (errors.UnexpectedAppendOffsetError,),
    "RecordTooLargeException": (errors.RecordTooLargeError,),
    "OffsetOutOfRangeException": (errors.OffsetOutOfRangeError,),
    "RemoteResourceNotFoundException": (errors.RemoteResourceNotFoundError,),
    "RecordValidationException": (errors.InvalidRecordError, errors.InvalidTimestampError),
    "KafkaException": (
        errors.AlreadyExistsError,
        errors.IllegalStateError,
        errors.CodecError,
        errors.IllegalArgumentError,
        errors.RemoteStorageError,
        errors.UnsupportedFormatError,
    ),
    "UnsupportedVersionException": (errors.UnsupportedFormatError,),
}

CARELESS = {
    "BufferOverflowException",
    "BufferUnderflowException",
    "IndexOutOfBoundsException",
    "NegativeArraySizeException",
    "NoSuchElementException",
    "NullPointerException",
    "OutOfMemoryError",
    "SnappyError",
    "StringIndexOutOfBoundsException",
    "UnsupportedOperationException",
}
"""Any clean refusal is right where Kafka fails with these."""

CARELESS_TEXTS = ("newLimit > capacity", "newPosition > limit", "Varint is too long", "Varlong is")
"""Java's own errors behind an honest class: limits of buffers, and numbers that end too late."""

CARELESS_CAUSES = ("BufferUnderflowException",)


def is_careless(error: dict[str, Any]) -> bool:
    """Whether Kafka did not mean to fail in just this way."""
    texts = f"{error.get('message')} {error.get('cause')}"
    return error["class"] in CARELESS or any(
        text in texts for text in (*CARELESS_TEXTS, *CARELESS_CAUSES)
    )


def expected_classes(error: dict[str, Any]) -> tuple[type[Exception], ...]:
    """Return the classes of ours that are right for an error of Kafka's."""
    if is_careless(error):
        return (errors.SegstoreError,)
    return OURS[error["class"]]


def check_refusal(error: dict[str, Any], call: Callable[[], object]) -> None:
    """Call, and expect a refusal of the right class."""
    with pytest.raises(expected_classes(error)):
        call()
