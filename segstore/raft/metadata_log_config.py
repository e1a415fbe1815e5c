"""The settings of a metadata log, by a broker's keys (Kafka ``MetadataLogConfig``)."""

from __future__ import annotations

import logging
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.config.broker_config import BrokerConfig
from segstore.config.broker_keys import BROKER_KEYS
from segstore.config.log_config import LogConfig
from segstore.errors import IllegalArgumentError, InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MetadataLogConfig"]

_log = logging.getLogger(__name__)
NO_LIMIT = -1
_PREFIXES: Final = ("metadata.log.", "metadata.max.", "internal.metadata.")
_OTHERS: Final = ("metadata.log.dir", "metadata.max.idle.interval.ms")
"""Keys of a broker that begin so, and are about no log."""


class MetadataLogConfig(NamedTuple):
    """What a metadata log goes by [RAFT-1, RAFT-2]."""

    segment_bytes: int
    segment_ms: int
    retention_bytes: int
    """Of log and snapshots together; below 0 = no limit."""
    retention_ms: int
    """Of a snapshot; below 0 = no limit."""
    max_batch_bytes: int
    delete_delay_ms: int
    """Between the deletion of a snapshot and that of its file; of segments it is a minute."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MetadataLogConfig:
        """Return the settings for a broker's properties; keys of other parts are left out.

        Raises
        ------
        IllegalArgumentError
            A value has another type than its key, or is out of range; or a key begins as those of
            the metadata log do, and is none of Kafka's.
        InvalidConfigurationError
            ``retention.ms`` or ``retention.bytes``: records of the log go with snapshots alone.
        """
        for key in ("retention.ms", "retention.bytes"):
            if str(properties.get(key, NO_LIMIT)).strip() != str(NO_LIMIT):
                raise InvalidConfigurationError(
                    f"a metadata log has no {key}: its records go with snapshots, by"
                    f" metadata.max.{key}",
                    found=f"{key}={properties[key]}",
                    expected=str(NO_LIMIT),
                )
        _refuse_mistyped(properties)
        values = BrokerConfig.from_properties(properties).values
        public, internal = (
            values["metadata.log.segment.bytes"],
            values["internal.metadata.log.segment.bytes"],
        )
        if internal is not None and internal < public:
            _log.error(
                "internal.metadata.log.segment.bytes=%d replaces metadata.log.segment.bytes=%d:"
                " for tests only",
                internal,
                public,
            )
        return cls(
            public if internal is None else internal,
            values["metadata.log.segment.ms"],
            values["metadata.max.retention.bytes"],
            values["metadata.max.retention.ms"],
            values["internal.metadata.max.batch.size.in.bytes"],
            values["internal.metadata.delete.delay.millis"],
        )

    def log_config(self) -> LogConfig:
        """Return the settings of the log beneath: nothing is deleted by time or size [RAFT-41]."""
        return LogConfig(
            internal_segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            max_message_bytes=self.max_batch_bytes,
            retention_ms=NO_LIMIT,
            retention_bytes=NO_LIMIT,
        )


def _refuse_mistyped(properties: Mapping[str, str]) -> None:
    known = [key for key in (*BROKER_KEYS, *_OTHERS) if key.startswith(_PREFIXES)]
    for key in properties:
        if key.startswith(_PREFIXES) and key not in known:
            raise IllegalArgumentError(
                f"{key} is no setting of a metadata log",
                found=key,
                expected=", ".join(get_close_matches(key, known, n=1) or sorted(known)),
            )
