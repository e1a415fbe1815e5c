"""Values with a frame in front, of ``__cluster_metadata`` and ``__remote_log_metadata`` [6.4].

Frame version, kind and version as varints, then the message (Kafka ``AbstractApiMessageSerde``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from segstore.records.messages.message_reader import MessageError, MessageReader, underflow
from segstore.records.messages.message_schema import parse_schemas

if TYPE_CHECKING:
    from segstore.records.messages.message_schema import Schema

FRAME_VERSION = 1
MAX_SHORT = 32767


class UnknownMessageError(MessageError):
    """The table has no message of this kind."""

    def __init__(self, kind: int) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        return (
            "org.apache.kafka.common.errors.UnsupportedVersionException: "
            f"Unknown metadata id {self.kind}"
        )


class UnknownVersionError(MessageError):
    """The table has the message, and not in this version."""

    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self.schema, self.version = schema, version

    def __str__(self) -> str:
        return f"{self.schema.name} has no version {self.version}"


class FramedMessage(NamedTuple):
    """A message, its version and its fields."""

    schema: Schema
    version: int
    fields: dict[str, Any]


class FramedMessages:
    """Reads framed messages of one table."""

    def __init__(self, table: str) -> None:
        self._schemas = {schema.key: schema for schema in parse_schemas(table).values()}

    def read(self, data: bytes | None, *, known_versions: bool = False) -> FramedMessage:
        """Read one message, to the last byte.

        Parameters
        ----------
        data : bytes or None
            The value of a record.
        known_versions : bool
            Refuse a version that the table does not have; Kafka reads it by the fields that it
            knows.

        Raises
        ------
        UnknownMessageError
            The table has no message of that kind.
        UnknownVersionError
            It has one, and not in this version.
        MessageError
            Another reason, with Kafka's text.
        """
        if data is None:
            raise underflow()
        reader = MessageReader(data)
        frame = _short(reader, "frame version")
        if frame == 0:
            raise MessageError(
                "Could not deserialize metadata record with frame version 0. Note that upgrades "
                "from the preview release of KRaft in 2.8 to newer versions are not supported."
            )
        if frame != FRAME_VERSION:
            raise MessageError(
                f"Could not deserialize metadata record due to unknown frame version {frame}"
                "(only frame version 1 is supported)"
            )
        kind = _short(reader, "type")
        version = _short(reader, "version")
        schema = self._schemas.get(kind)
        if schema is None:
            raise UnknownMessageError(kind)
        if known_versions and version not in schema.versions:
            raise UnknownVersionError(schema, version)
        try:
            fields = reader.message(schema, version)
        except MessageError as error:
            raise MessageError(f"Failed to deserialize record with type {kind}") from error
        if reader.remaining > 0:
            raise MessageError(f"Found {reader.remaining} byte(s) of garbage after {kind}")
        return FramedMessage(schema, version, fields)


def _short(reader: MessageReader, what: str) -> int:
    try:
        value = reader.unsigned_varint()
    except MessageError as error:
        raise MessageError(f"Error while reading {what}") from error
    if 0 <= value <= MAX_SHORT:  # as all are
        return value
    if value > 0:
        raise MessageError(f"Value for {what} was too large.")
    return (value + MAX_SHORT + 1) % (2 * MAX_SHORT + 2) - MAX_SHORT - 1
