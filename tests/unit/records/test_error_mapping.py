"""Kafka's error codes against a client's own table, and both ways against ours."""

from __future__ import annotations

import pytest

from segstore import ErrorCode, errors
from segstore.errors import SegstoreError, UnknownServerError
from segstore.records.error_mapping import code_for, error_for

OTHER_NAMES = {
    "UNKNOWN_SERVER_ERROR": "UNKNOWN",
    "NONE": "NO_ERROR",
    "MESSAGE_TOO_LARGE": "MESSAGE_SIZE_TOO_LARGE",
    "INVALID_TOPIC_EXCEPTION": "INVALID_TOPIC",
}
"""Where the client keeps an older name than the broker."""


@pytest.mark.parametrize("code", ErrorCode)
def test_numbers_are_kafkas(code):
    kafka_errors = pytest.importorskip("kafka.errors", reason="the development group has it")
    known = kafka_errors.for_code(int(code))
    assert known.message in {code.name, OTHER_NAMES.get(code.name)}


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_there_and_back(code):
    """A peer raises the class that was raised here, or the one that its code stands for."""
    error = error_for(code)
    assert isinstance(error, SegstoreError)
    assert code.name in error.message
    again = code_for(error)
    assert again is code or type(error_for(again)) is type(error)


def test_no_error_is_none():
    assert error_for(0) is None


@pytest.mark.parametrize("code", [-32768, -2, 5, 500, 32767])
def test_a_code_that_is_not_known_is_named(code):
    """Kafka Errors.forCode: UNKNOWN_SERVER_ERROR."""
    error = error_for(code)
    assert type(error) is UnknownServerError
    assert error.found == str(code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.CorruptLogError("x"), ErrorCode.CORRUPT_MESSAGE),
        (errors.LogTruncatedError("x"), ErrorCode.OFFSET_OUT_OF_RANGE),
        (errors.LogNotFoundError("x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (errors.ArgumentTypeError("x"), ErrorCode.INVALID_REQUEST),
        (errors.OffsetsOutOfOrderError("x"), ErrorCode.INVALID_RECORD),
        (errors.DiskFullError("x"), ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.ClosedError("x"), ErrorCode.KAFKA_STORAGE_ERROR),
        (OSError("x"), ErrorCode.KAFKA_STORAGE_ERROR),
        (KeyError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (errors.InternalError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_nearest_class_decides(error, code):
    assert code_for(error) is code
