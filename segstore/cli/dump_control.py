"""Control records as ``kafka-dump-log`` prints them: markers, and KRaft's own as JSON [18.2]."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Final

from segstore._core import MessageError, MessageReader
from segstore.cli.decoders.json_text import json_text
from segstore.errors import InvalidRecordError
from segstore.records.messages.message_schema import ZERO_UUID, parse_schemas
from segstore.records.messages.metadata_messages import CONTROL_MESSAGES

if TYPE_CHECKING:
    from segstore._core import MessageSchema

KEY_BYTES: Final = 4
MARKER: Final = struct.Struct(">hi")

MARKERS: Final = {0: "ABORT", 1: "COMMIT"}
MESSAGES: Final = {
    2: ("LeaderChangeMessage", "LeaderChange:"),
    3: ("SnapshotHeaderRecord", "SnapshotHeader"),
    4: ("SnapshotFooterRecord", "SnapshotFooter"),
    5: ("KRaftVersionRecord", "KRaftVersion"),
    6: ("VotersRecord", "KRaftVoters"),
}
"""Control record type to the message and the word in front of it."""


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Return what follows a control record's metadata, with the blank before it.

    Raises
    ------
    InvalidRecordError
        Key or value are too short for what they say they are.
    """
    if key is None or len(key) < KEY_BYTES:
        raise InvalidRecordError(
            "a control record's key has a version and a type of two bytes each"
        )
    version, kind = struct.unpack_from(">hh", key)
    if version < 0:
        raise InvalidRecordError(f"invalid version {version} in the key of a control record")
    if kind in MARKERS:
        return f" endTxnMarker: {MARKERS[kind]} coordinatorEpoch: {_coordinator_epoch(value)}"
    if kind in MESSAGES:
        name, word = MESSAGES[kind]
        return f" {word} {_message_text(name, value or b'')}"
    return f" controlType: UNKNOWN({kind})"


def _coordinator_epoch(value: bytes | None) -> int:
    if value is None or len(value) < MARKER.size:
        raise InvalidRecordError(
            f"a transaction marker has {MARKER.size} bytes",
            found="null" if value is None else f"{len(value)} bytes",
            expected=f"{MARKER.size} bytes",
        )
    version, epoch = MARKER.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(f"invalid version {version} of a transaction marker")
    return int(epoch)


@cache
def _schemas() -> dict[str, MessageSchema]:
    return parse_schemas(CONTROL_MESSAGES)


def _message_text(name: str, value: bytes) -> str:
    """Read as version 0 and print as the version that the message names, as Kafka does [6.3]."""
    try:
        tree = MessageReader(value).message(_schemas()[name], 0)
    except MessageError as error:
        raise InvalidRecordError(
            f"the {name} of a control record does not fit its {len(value)} bytes: {error}"
        ) from error
    if name == "LeaderChangeMessage" and tree["version"] > 0:
        for voter in [*tree["voters"], *tree["grantingVoters"]]:
            voter["voterDirectoryId"] = ZERO_UUID
    return json_text(tree)
