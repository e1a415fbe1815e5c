"""What the control records of KRaft say: leader changes, snapshot borders, versions and voters.

The values are Kafka's generated structures, flexible and of version 0 [format.md 2.3, 6.3]: numbers
are big-endian, arrays and strings begin with their size plus one as a varint, and each structure
ends with tagged fields, which are skipped. Whatever version a value says it has, Kafka up to 4.4.0
reads and writes version 0.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from segstore._core import read_uvarint, write_uvarint
from segstore.errors import (
    IllegalArgumentError,
    InvalidRecordError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.records.control_record import ControlRecordType, parse_control_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "Endpoint",
    "KRaftValue",
    "KRaftVersion",
    "KRaftVoter",
    "KRaftVoters",
    "LeaderChange",
    "LeaderChangeVoter",
    "SnapshotFooter",
    "SnapshotHeader",
    "encode_kraft_value",
    "parse_kraft_record",
]

NO_TAGS: Final = b"\0"
NO_DIRECTORY_ID: Final = UUID(int=0)


class LeaderChangeVoter(NamedTuple):
    """A voter of a leader change."""

    voter_id: int
    directory_id: UUID = NO_DIRECTORY_ID
    """Version 0 has no place for it."""


class LeaderChange(NamedTuple):
    """A new leader, the voters, and those who elected it (Kafka ``LeaderChangeMessage``)."""

    leader_id: int
    voters: Sequence[LeaderChangeVoter] = ()
    granting_voters: Sequence[LeaderChangeVoter] = ()
    version: int = 0


class SnapshotHeader(NamedTuple):
    """The first record of a snapshot (Kafka ``SnapshotHeaderRecord``)."""

    last_contained_log_timestamp: int
    version: int = 0


class SnapshotFooter(NamedTuple):
    """The last record of a snapshot (Kafka ``SnapshotFooterRecord``)."""

    version: int = 0


class KRaftVersion(NamedTuple):
    """The version of the protocol (Kafka ``KRaftVersionRecord``)."""

    kraft_version: int
    version: int = 0


class Endpoint(NamedTuple):
    """Where a voter listens."""

    name: str
    host: str
    port: int


class KRaftVoter(NamedTuple):
    """A voter, where it listens, and the protocol versions that it speaks."""

    voter_id: int
    directory_id: UUID
    endpoints: Sequence[Endpoint]
    min_supported_version: int
    max_supported_version: int


class KRaftVoters(NamedTuple):
    """All voters (Kafka ``VotersRecord``)."""

    voters: Sequence[KRaftVoter]
    version: int = 0


KRaftValue = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters


class _Reader:
    """Fields one after the other; bounds are checked before anything is taken [DUR-85]."""

    def __init__(self, data: Buffer) -> None:
        self._rest = memoryview(data)

    def _bytes(self, size: int) -> memoryview:
        if size > len(self._rest):
            raise InvalidRecordError(
                "the value of a control record ends inside a field",
                found=f"{len(self._rest)} bytes",
                expected=f"{size} bytes",
            )
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def numbers(self, layout: str) -> tuple[int, ...]:
        numbers: tuple[int, ...] = struct.unpack(layout, self._bytes(struct.calcsize(layout)))
        return numbers

    def number(self, layout: str) -> int:
        return self.numbers(layout)[0]

    def uvarint(self) -> int:
        try:
            value, consumed = read_uvarint(self._rest)
        except SegstoreError as error:
            raise InvalidRecordError(
                f"in a control record, {error.message}",
                found=error.found,
                expected=error.expected,
            ) from error
        self._rest = self._rest[consumed:]
        return value

    def count(self) -> int:
        """Size of an array; each element takes a byte at least [DUR-87]."""
        count = self.uvarint() - 1
        if not 0 <= count <= len(self._rest):
            raise InvalidRecordError(
                "an array of a control record is null or too long",
                found=f"{count} elements",
                expected=f"0 to {len(self._rest)}",
            )
        return count

    def string(self) -> str:
        size = self.uvarint() - 1
        if size < 0:
            raise InvalidRecordError(
                "a string of a control record is null", found="null", expected="text"
            )
        return bytes(self._bytes(size)).decode("utf-8", "replace")

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self._bytes(16)))

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self._bytes(self.uvarint())

    def version(self) -> int:
        version = self.number(">h")
        if version < 0:
            raise InvalidRecordError(
                "a control record has a negative version", found=str(version), expected="0 or more"
            )
        return version


def _read_leader_change(reader: _Reader) -> LeaderChange:
    version = reader.version()
    leader_id = reader.number(">i")
    sides: list[list[LeaderChangeVoter]] = []
    for _ in range(2):
        voters = []
        for _ in range(reader.count()):
            voters.append(LeaderChangeVoter(reader.number(">i")))
            reader.skip_tags()
        sides.append(voters)
    return LeaderChange(leader_id, sides[0], sides[1], version)


def _read_snapshot_header(reader: _Reader) -> SnapshotHeader:
    version = reader.version()
    return SnapshotHeader(reader.number(">q"), version)


def _read_snapshot_footer(reader: _Reader) -> SnapshotFooter:
    return SnapshotFooter(reader.version())


def _read_kraft_version(reader: _Reader) -> KRaftVersion:
    version = reader.version()
    return KRaftVersion(reader.number(">h"), version)


def _read_endpoint(reader: _Reader) -> Endpoint:
    endpoint = Endpoint(reader.string(), reader.string(), reader.number(">H"))
    reader.skip_tags()
    return endpoint


def _read_voter(reader: _Reader) -> KRaftVoter:
    voter_id, directory_id = reader.number(">i"), reader.uuid()
    endpoints = [_read_endpoint(reader) for _ in range(reader.count())]
    lowest, highest = reader.numbers(">hh")
    reader.skip_tags()  # of the versions
    reader.skip_tags()
    return KRaftVoter(voter_id, directory_id, endpoints, lowest, highest)


def _read_voters(reader: _Reader) -> KRaftVoters:
    version = reader.version()
    return KRaftVoters([_read_voter(reader) for _ in range(reader.count())], version)


_READERS: Final = {
    ControlRecordType.LEADER_CHANGE: _read_leader_change,
    ControlRecordType.SNAPSHOT_HEADER: _read_snapshot_header,
    ControlRecordType.SNAPSHOT_FOOTER: _read_snapshot_footer,
    ControlRecordType.KRAFT_VERSION: _read_kraft_version,
    ControlRecordType.KRAFT_VOTERS: _read_voters,
}


def parse_kraft_record(key: bytes | None, value: bytes | None) -> KRaftValue:
    """Parse a control record of KRaft.

    Raises
    ------
    IllegalArgumentError
        The key is that of a transaction marker, or of no known type.
    InvalidRecordError
        Key or value are too short for what they say they are, or have a negative version.

    Source: [format.md 6.3, DUR-96]; Kafka ``ControlRecordUtils``.
    """
    kind = parse_control_key(key).type
    read = _READERS.get(kind)
    if read is None:
        raise IllegalArgumentError(
            f"control record type {kind.name} is none of KRaft",
            found=kind.name,
            expected=", ".join(each.name for each in _READERS),
        )
    if value is None:
        raise InvalidRecordError(
            f"a control record {kind.name} without a value", found="null", expected="a value"
        )
    reader = _Reader(value)
    parsed: Any = read(reader)
    reader.skip_tags()
    result: KRaftValue = parsed
    return result


def _string(text: str) -> bytes:
    data = text.encode()
    return write_uvarint(len(data) + 1) + data


def _array(elements: Sequence[bytes]) -> bytes:
    return write_uvarint(len(elements) + 1) + b"".join(elements)


def _leader_change_voters(voters: Sequence[LeaderChangeVoter]) -> bytes:
    if any(voter.directory_id != NO_DIRECTORY_ID for voter in voters):
        raise UnsupportedFormatError(
            "a leader change of version 0, which is what Kafka writes, has no directory ids",
            found="a directory id",
            expected="none",
        )
    return _array([struct.pack(">i", voter.voter_id) + NO_TAGS for voter in voters])


def _voter(voter: KRaftVoter) -> bytes:
    endpoints = [
        _string(each.name) + _string(each.host) + struct.pack(">H", each.port) + NO_TAGS
        for each in voter.endpoints
    ]
    versions = struct.pack(">hh", voter.min_supported_version, voter.max_supported_version)
    return b"".join(
        (
            struct.pack(">i", voter.voter_id),
            voter.directory_id.bytes,
            _array(endpoints),
            versions + NO_TAGS + NO_TAGS,
        )
    )


def encode_kraft_value(value: KRaftValue) -> tuple[ControlRecordType, bytes]:
    """Return type and bytes of a value, written as version 0 as Kafka does.

    Raises
    ------
    UnsupportedFormatError
        Version 0 has no place for directory ids in a leader change.
    """
    match value:
        case LeaderChange():
            kind, content = ControlRecordType.LEADER_CHANGE, struct.pack(">i", value.leader_id)
            content += _leader_change_voters(value.voters)
            content += _leader_change_voters(value.granting_voters)
        case SnapshotHeader():
            kind = ControlRecordType.SNAPSHOT_HEADER
            content = struct.pack(">q", value.last_contained_log_timestamp)
        case SnapshotFooter():
            kind, content = ControlRecordType.SNAPSHOT_FOOTER, b""
        case KRaftVersion():
            kind = ControlRecordType.KRAFT_VERSION
            content = struct.pack(">h", value.kraft_version)
        case KRaftVoters():
            kind = ControlRecordType.KRAFT_VOTERS
            content = _array([_voter(voter) for voter in value.voters])
    return kind, struct.pack(">h", value.version) + content + NO_TAGS
