"""Control records as ``kafka-dump-log`` prints them: markers, and KRaft's own as JSON [18.2]."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from segstore.cli.java_text import decode_utf8
from segstore.errors import InvalidRecordError

KEY_BYTES = 4
LOW_BITS = 0x7F

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(
    7
)


def control_text(key: bytes | None, value: bytes | None) -> str:  # noqa: PLR0911 - one a type
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
    reader = _Reader(value or b"")
    match kind:
        case 0 | 1:
            structure_version, coordinator_epoch = reader.take(">hi")
            if structure_version < 0:
                raise InvalidRecordError(
                    f"invalid version {structure_version} of a transaction marker"
                )
            name = ("ABORT", "COMMIT")[kind]
            return f" endTxnMarker: {name} coordinatorEpoch: {coordinator_epoch}"
        case 2:
            return f" LeaderChange: {_json(_leader_change(reader))}"
        case 3:
            fields = {"version": reader.int16(), "lastContainedLogTimestamp": reader.take(">q")[0]}
            return f" SnapshotHeader {_json(fields)}"
        case 4:
            return f" SnapshotFooter {_json({'version': reader.int16()})}"
        case 5:
            fields = {"version": reader.int16(), "kRaftVersion": reader.int16()}
            return f" KRaftVersion {_json(fields)}"
        case 6:
            return f" KRaftVoters {_json(_voters(reader))}"
        case _:
            return f" controlType: UNKNOWN({kind})"


class _Reader:
    """Fields of Kafka's generated structures, one after the other; bounds are checked first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _advance(self, size: int) -> int:
        start = self._position
        if size > len(self._data) - start:
            raise InvalidRecordError(
                f"control record ends at byte {len(self._data)}, in a field of {size} bytes",
                found=f"{len(self._data) - start} bytes",
                expected=f"{size} bytes",
            )
        self._position += size
        return start

    def take(self, layout: str) -> tuple[Any, ...]:
        """Unpack big-endian numbers."""
        return struct.unpack_from(layout, self._data, self._advance(struct.calcsize(layout)))

    def int16(self) -> int:
        value: int = self.take(">h")[0]
        return value

    def int32(self) -> int:
        value: int = self.take(">i")[0]
        return value

    def uvarint(self) -> int:
        """Unsigned varint of at most 5 bytes [DUR-88]."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self._data[self._advance(1)]
            value |= (byte & LOW_BITS) << shift
            if byte <= LOW_BITS:
                return value
        raise InvalidRecordError("a varint of a control record is longer than 5 bytes")

    def string(self) -> str:
        """Compact string."""
        size = self.uvarint() - 1
        if size < 0:
            raise InvalidRecordError("a string of a control record is null")
        start = self._advance(size)
        return decode_utf8(self._data[start : start + size])

    def uuid(self) -> str:
        """16 bytes, printed as Kafka's ``Uuid`` does."""
        start = self._advance(16)
        return base64.urlsafe_b64encode(self._data[start : start + 16]).rstrip(b"=").decode()

    def count(self) -> int:
        """Length of a compact array; each element takes a byte at least [DUR-87]."""
        count = self.uvarint() - 1
        if not 0 <= count <= len(self._data) - self._position:
            raise InvalidRecordError(f"an array of a control record has {count} elements")
        return count

    def skip_tags(self) -> None:
        """Tagged fields of later versions."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self._advance(self.uvarint())


def _leader_change(reader: _Reader) -> dict[str, Any]:
    fields: dict[str, Any] = {"version": reader.int16(), "leaderId": reader.int32()}
    for name in ("voters", "grantingVoters"):
        fields[name] = []
        for _ in range(reader.count()):
            voter: dict[str, Any] = {"voterId": reader.int32()}
            if fields["version"] >= 1:
                voter["voterDirectoryId"] = reader.uuid()
            reader.skip_tags()
            fields[name].append(voter)
    return fields


def _voters(reader: _Reader) -> dict[str, Any]:
    fields: dict[str, Any] = {"version": reader.int16(), "voters": []}
    for _ in range(reader.count()):
        voter: dict[str, Any] = {
            "voterId": reader.int32(),
            "voterDirectoryId": reader.uuid(),
            "endpoints": [],
        }
        for _ in range(reader.count()):
            name, host = reader.string(), reader.string()
            voter["endpoints"].append({"name": name, "host": host, "port": reader.take(">H")[0]})
            reader.skip_tags()
        low, high = reader.take(">hh")
        reader.skip_tags()
        voter["kRaftVersionFeature"] = {"minSupportedVersion": low, "maxSupportedVersion": high}
        reader.skip_tags()
        fields["voters"].append(voter)
    return fields


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
