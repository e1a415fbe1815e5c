"""What a control record says: markers of transactions, and records of KRaft."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from segstore.errors import IllegalArgumentError, InvalidRecordError

__all__ = [
    "ControlKey",
    "ControlRecord",
    "ControlRecordType",
    "EndTransactionMarker",
    "parse_control_key",
    "parse_control_record",
    "parse_end_transaction_marker",
]

KEY_BYTES: Final = 4
MARKER_BYTES: Final = 6
VERSION_BYTES: Final = 2


class ControlRecordType(IntEnum):
    """Types by their number in the key; what is not known is UNKNOWN, and is ignored."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlKey(NamedTuple):
    """The key of a control record."""

    type: ControlRecordType
    type_id: int
    """The number as stored, also where the type is unknown."""
    version: int


class EndTransactionMarker(NamedTuple):
    """The end of a transaction (Kafka ``EndTransactionMarker``)."""

    type: ControlRecordType
    """ABORT or COMMIT."""
    coordinator_epoch: int


class ControlRecord(NamedTuple):
    """A parsed control record."""

    type: ControlRecordType
    type_id: int
    """The number in the key, also where the type is unknown."""
    version: int
    """Of the key."""
    coordinator_epoch: int | None
    """Of the transaction coordinator, for ABORT and COMMIT."""


MARKERS: Final = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


def parse_control_key(key: bytes | None) -> ControlKey:
    """Parse the key of a control record; newer versions are read as version 0.

    Raises
    ------
    InvalidRecordError
        For no key, one of fewer than 4 bytes, or a negative version.

    Source: [DUR-96, format.md 6.1]; Kafka ``ControlRecordType.parse``.
    """
    if key is None or len(key) < KEY_BYTES:
        raise InvalidRecordError(
            "the key of a control record is too short",
            found="null" if key is None else f"{len(key)} bytes",
            expected=f"at least {KEY_BYTES} bytes",
        )
    version = _version(key, "key")
    type_id = int.from_bytes(key[2:4], signed=True)
    is_known = 0 <= type_id <= max(ControlRecordType)
    kind = ControlRecordType(type_id) if is_known else ControlRecordType.UNKNOWN
    return ControlKey(kind, type_id, version)


def parse_end_transaction_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """Parse a marker; newer versions are read as version 0.

    Raises
    ------
    IllegalArgumentError
        The key is that of another control record.
    InvalidRecordError
        For a key that is none, a value of fewer than 6 bytes, or a negative version.

    Source: [DUR-96, format.md 6.2]; Kafka ``EndTransactionMarker.deserialize``.
    """
    kind = parse_control_key(key).type
    if kind not in MARKERS:  # before the value is looked at, as in Kafka
        raise IllegalArgumentError(
            f"control record type {kind.name} does not end a transaction",
            found=kind.name,
            expected="ABORT or COMMIT",
        )
    if value is not None and len(value) >= VERSION_BYTES:
        _version(value, "value")
    if value is None or len(value) < MARKER_BYTES:
        raise InvalidRecordError(
            "the value of an end-of-transaction marker is too short",
            found="null" if value is None else f"{len(value)} bytes",
            expected=f"at least {MARKER_BYTES} bytes",
        )
    return EndTransactionMarker(kind, int.from_bytes(value[2:6], signed=True))


def parse_control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Parse the key of a control record, and the value of a marker.

    Raises
    ------
    InvalidRecordError
        For a key of fewer than 4 bytes, an end-of-transaction value of fewer than 6, or a negative
        version.

    Source: [DUR-96, format.md 6.1, 6.2]. What the records of KRaft say: ``kraft_record``.
    """
    parsed = parse_control_key(key)
    if parsed.type not in MARKERS:
        return ControlRecord(*parsed, None)
    return ControlRecord(*parsed, parse_end_transaction_marker(key, value).coordinator_epoch)


def _version(data: bytes, what: str) -> int:
    version = int.from_bytes(data[:2], signed=True)
    if version < 0:
        raise InvalidRecordError(
            f"the {what} of a control record has a negative version",
            found=str(version),
            expected="0 or more",
        )
    return version
