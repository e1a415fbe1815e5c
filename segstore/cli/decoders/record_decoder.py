"""Which decoder the options of a dump ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from segstore.cli.decoders.cluster_metadata_decoder import ClusterMetadataDecoder
from segstore.cli.decoders.coordinator_decoder import (
    offsets_decoder,
    share_group_state_decoder,
    transaction_log_decoder,
)
from segstore.cli.decoders.remote_log_decoder import RemoteLogMetadataDecoder
from segstore.records.utf8_java import decode_utf8

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import RawRecord


class RecordDecoder(Protocol):
    """Key and payload of a record as text, None where nothing is printed."""

    def decode(self, record: RawRecord) -> tuple[str | None, str | None]:
        """Return the texts of key and payload."""


class StringDecoder:
    """Key and value as UTF-8, Kafka's ``StringDecoder``."""

    def decode(self, record: RawRecord) -> tuple[str | None, str | None]:
        """Return the texts of key and payload."""
        key = None if record.key is None else decode_utf8(record.key)
        return key, None if record.value is None else decode_utf8(record.value)


DECODERS: Final[dict[str, Callable[[], RecordDecoder]]] = {
    "offsets_decoder": offsets_decoder,
    "transaction_log_decoder": transaction_log_decoder,
    "cluster_metadata_decoder": ClusterMetadataDecoder,
    "remote_log_metadata_decoder": RemoteLogMetadataDecoder,
    "share_group_state_decoder": share_group_state_decoder,
}
"""By the names of the options; of several that are given, the first here decodes [18.1]."""
