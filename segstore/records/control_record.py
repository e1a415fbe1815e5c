"""What a control record says: markers of transactions, and records of KRaft."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from segstore.errors import InvalidRecordError

__all__ = ["ControlRecord", "ControlRecordType", "parse_control_record"]

KEY_BYTES: Final = 4
MARKER_BYTES: Final = 6


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


class ControlRecord(NamedTuple):
    """A parsed control record."""

    type: ControlRecordType
    type_id: int
    """The number in the key, also where the type is unknown."""
    version: int
    """Of the key."""
    coordinator_epoch: int | None
    """Of the transaction coordinator, for ABORT and COMMIT."""


def parse_control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Parse key and value of a control record; newer versions are read as version 0.

    Raises
    ------
    InvalidRecordError
        For a key of fewer than 4 bytes, an end-of-transaction value of fewer than 6, or a negative
        version.

    Source: [DUR-96, format.md 6.1, 6.2]; Kafka ``ControlRecordType.parse``,
    ``EndTransactionMarker.deserialize``.
    """
    if key is None or len(key) < KEY_BYTES:
        raise InvalidRecordError(
            "the key of a control record is too short",
            found="null" if key is None else f"{len(key)} bytes",
            expected=f"at least {KEY_BYTES} bytes",
        )
    version = _version(key, "key")
    type_id = int.from_bytes(key[2:4], signed=True)
    known = type_id in ControlRecordType.__members__.values() and type_id >= 0
    kind = ControlRecordType(type_id) if known else ControlRecordType.UNKNOWN
    coordinator_epoch = None
    if kind in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
        if value is None or len(value) < MARKER_BYTES:
            raise InvalidRecordError(
                "the value of an end-of-transaction marker is too short",
                found="null" if value is None else f"{len(value)} bytes",
                expected=f"at least {MARKER_BYTES} bytes",
            )
        _version(value, "value")
        coordinator_epoch = int.from_bytes(value[2:6], signed=True)
    return ControlRecord(kind, type_id, version, coordinator_epoch)


def _version(data: bytes, what: str) -> int:
    version = int.from_bytes(data[:2], signed=True)
    if version < 0:
        raise InvalidRecordError(
            f"the {what} of a control record has a negative version",
            found=str(version),
            expected="0 or more",
        )
    return version
