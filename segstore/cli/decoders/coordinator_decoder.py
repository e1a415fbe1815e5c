"""Records of a coordinator's topic: groups, transactions, share groups [format.md 18.2].

A key begins with the number of its kind, a value with its version: Kafka's
``CoordinatorRecordSerde``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore._core import MessageError, MessageReader
from segstore.cli.decoders.json_text import json_text
from segstore.errors import InvalidRecordError
from segstore.records.messages.coordinator_messages import (
    PROTOCOL_MESSAGES,
    SHARE_MESSAGES,
    TRANSACTION_MESSAGES,
)
from segstore.records.messages.group_messages import GROUP_MESSAGES
from segstore.records.messages.message_schema import parse_schemas

if TYPE_CHECKING:
    from segstore._core import MessageSchema, RawRecord

DELETED = "<DELETE>"
CONSUMER_PROTOCOL = "consumer"


class CoordinatorDecoder:
    """Key and payload as Kafka's ``CoordinatorRecordMessageParser`` prints them.

    Parameters
    ----------
    table : str
        The messages of the topic; the name of a key ends in ``Key``, of a value in ``Value``.
    inner : MemberMessages or None
        Decodes the messages inside a value; None = a value has none.
    """

    def __init__(self, table: str, inner: MemberMessages | None = None) -> None:
        schemas = parse_schemas(table).values()
        self._keys = {schema.key: schema for schema in schemas if schema.name.endswith("Key")}
        self._values = {schema.key: schema for schema in schemas if schema.name.endswith("Value")}
        self._inner = inner

    def decode(self, record: RawRecord) -> tuple[str | None, str | None]:
        """Return the texts of key and payload.

        Raises
        ------
        InvalidRecordError
            The record has no key: it is none of this topic.
        """
        if record.key is None:
            raise InvalidRecordError(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)"
            )
        try:
            reader = MessageReader(record.key)
            kind = _version(reader, "key")
            schema = self._keys.get(kind)
            if schema is None:
                text = f"Unknown record type {kind} at offset {record.offset}, skipping."
                return text, None
            data = _message(reader, schema, kind, "key")
            value = DELETED if record.value is None else self._value(kind, record.value)
            return json_text({"type": str(kind), "data": data}), value
        except MessageError as error:
            return f"Error at offset {record.offset}, skipping. {error}", None

    def _value(self, kind: int, data: bytes) -> str:
        schema = self._values[kind]
        reader = MessageReader(data)
        version = _version(reader, "value")
        if version not in schema.versions:
            raise MessageError(f"Found an unknown record version {version} for {kind} type")
        tree = _message(reader, schema, version, "value")
        if self._inner is not None:
            self._inner.decode(kind, tree)
        return json_text({"version": str(version), "data": tree})


class MemberMessages:
    """The members' own messages inside the metadata of classic consumer groups."""

    GROUP_METADATA = 2

    def __init__(self) -> None:
        self._protocol = parse_schemas(PROTOCOL_MESSAGES)

    def decode(self, kind: int, tree: dict[str, Any]) -> None:
        """Replace the bytes of subscriptions and assignments in *tree* by what they say."""
        if kind == self.GROUP_METADATA and tree["protocolType"] == CONSUMER_PROTOCOL:
            for member in tree["members"]:
                self._replace(member, "subscription", "ConsumerProtocolSubscription")
                self._replace(member, "assignment", "ConsumerProtocolAssignment")

    def _replace(self, member: dict[str, Any], field: str, name: str) -> None:
        """Decode bytes in place; what cannot be decoded stays bytes."""
        reader = MessageReader(member[field])
        try:
            member[field] = reader.message(self._protocol[name], reader.int16())
        except MessageError:
            return


def offsets_decoder() -> CoordinatorDecoder:
    """Return the decoder of ``__consumer_offsets``; it decodes the members of groups too."""
    return CoordinatorDecoder(GROUP_MESSAGES, MemberMessages())


def transaction_log_decoder() -> CoordinatorDecoder:
    """Return the decoder of ``__transaction_state``."""
    return CoordinatorDecoder(TRANSACTION_MESSAGES)


def share_group_state_decoder() -> CoordinatorDecoder:
    """Return the decoder of ``__share_group_state``."""
    return CoordinatorDecoder(SHARE_MESSAGES)


def _version(reader: MessageReader, where: str) -> int:
    try:
        return reader.int16()
    except MessageError as error:
        raise MessageError(f"Could not read version from {where}'s buffer.") from error


def _message(
    reader: MessageReader, schema: MessageSchema, version: int, where: str
) -> dict[str, Any]:
    try:
        return reader.message(schema, version)
    except MessageError as error:
        raise MessageError(
            f"Could not read record with version {version} from {where}'s buffer due to: {error}."
        ) from error
