"""Topics that Kafka treats apart from those of its users."""

from __future__ import annotations

from typing import Final

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Kafka's own topics, which a consumer of everything does not get (Kafka ``Topic.isInternal``)."""

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of the KRaft quorum; it may lie beside the topics but is none that a broker serves."""

METADATA_LOG: Final = f"{CLUSTER_METADATA_TOPIC}-0"
"""The directory of that log."""

REMOTE_LOG_METADATA_TOPIC: Final = "__remote_log_metadata"
"""Where a broker notes what of its logs is in remote storage."""
