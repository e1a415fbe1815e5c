"""Kafka's ControlRecordUtilsTest and EndTransactionMarkerTest."""

from __future__ import annotations

import pytest

from segstore.errors import IllegalArgumentError, InvalidRecordError
from segstore.records.control_record import parse_end_transaction_marker
from segstore.records.kraft_record import (
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    encode_kraft_value,
    parse_kraft_record,
)

ABORT_KEY = b"\0\0\0\0"
COMMIT_KEY = b"\0\0\0\1"
UNKNOWN_KEY = b"\0\0\xff\xff"


@pytest.mark.parametrize(
    "value",
    [
        LeaderChange(1, [], []),
        SnapshotHeader(10),
        SnapshotFooter(),
        KRaftVersion(1),
        KRaftVoters([]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_written_in_version_0(value):
    """[format.md 6.3] ControlRecordUtilsTest.testCurrentVersions: their own first field says it."""
    kind, data = encode_kraft_value(value)

    assert data[:2] == b"\0\0"
    assert parse_kraft_record(b"\0\0" + int(kind).to_bytes(2), data) == value


def test_a_marker_is_no_value_of_kraft():
    """[format.md 6.3] ControlRecordUtilsTest.testInvalidControlRecordType."""
    _, data = encode_kraft_value(KRaftVoters(()))

    with pytest.raises(IllegalArgumentError, match="COMMIT"):
        parse_kraft_record(COMMIT_KEY, data)


def test_the_type_of_a_marker_is_looked_at_first():
    """[format.md 6.2] EndTransactionMarkerTest.testCannotDeserializeUnknownControlType."""
    with pytest.raises(IllegalArgumentError):
        parse_end_transaction_marker(UNKNOWN_KEY, b"")


def test_a_negative_version_is_invalid():
    """[format.md 6.2] EndTransactionMarkerTest.testIllegalNegativeVersion."""
    with pytest.raises(InvalidRecordError):
        parse_end_transaction_marker(ABORT_KEY, b"\xff\xff")


def test_a_newer_version_is_read_as_version_0():
    """[format.md 6.2] EndTransactionMarkerTest.testDeserializeNewerVersion."""
    value = b"\0\5" + (79).to_bytes(4) + b"\0\0"

    assert parse_end_transaction_marker(COMMIT_KEY, value).coordinator_epoch == 79
