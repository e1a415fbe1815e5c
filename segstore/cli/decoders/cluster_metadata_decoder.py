"""Payloads of ``__cluster_metadata`` as JSON [18.2]."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from segstore._core import FramedMessages, MessageError
from segstore.cli.decoders.json_text import json_text
from segstore.records.messages.message_schema import parse_schemas
from segstore.records.messages.metadata_messages import METADATA_MESSAGES

if TYPE_CHECKING:
    from segstore._core import RawRecord


class ClusterMetadataDecoder:
    """What Kafka's ``ClusterMetadataLogMessageParser`` prints of ``__cluster_metadata``."""

    def __init__(self) -> None:
        self._messages = FramedMessages(parse_schemas(METADATA_MESSAGES).values())

    def decode(self, record: RawRecord) -> tuple[str | None, str | None]:
        """Return no key and the text of the payload."""
        try:
            message = self._messages.read(record.value)
        except MessageError as error:
            return None, f"Error at {record.offset}, skipping. {error}"
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", message.schema.name).upper()
        tree = {"type": name, "version": message.version, "data": message.fields}
        return None, json_text(tree)
