"""The settings of a metadata log, by a broker's keys (Kafka ``MetadataLogConfig``)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from segstore.config.broker_config import BrokerConfig
from segstore.config.log_config import LogConfig
from segstore.errors import InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MetadataLogConfig"]

_log = logging.getLogger(__name__)
NO_LIMIT = -1


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
        """Return the settings for a broker's properties; other keys are left out.

        Raises
        ------
        IllegalArgumentError
            A value has another type than its key, or is out of range.
        InvalidConfigurationError
            ``retention.ms`` or ``retention.bytes``: records of the log go with snapshots alone.
        """
        for key in ("retention.ms", "retention.bytes"):
            if int(properties.get(key, NO_LIMIT)) != NO_LIMIT:
                raise InvalidConfigurationError(
                    f"a metadata log has no {key}: its records go with snapshots, by"
                    f" metadata.max.{key}",
                    found=f"{key}={properties[key]}",
                    expected="-1",
                )
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
