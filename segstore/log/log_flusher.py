"""The flusher of a log: `Flusher` of the safe profile, or `KafkaFlusher` of Kafka's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from segstore.log.files.profile import Profile
from segstore.log.flusher import Flusher
from segstore.log.kafka_profile.kafka_flusher import KafkaFlusher

if TYPE_CHECKING:
    from segstore.log.durability import Durability
    from segstore.log.failure_mark import FailureMark
    from segstore.log.log_parts import LogParts

LogFlusher: TypeAlias = Flusher | KafkaFlusher


def new_flusher(parts: LogParts, durability: Durability, failure_mark: FailureMark) -> LogFlusher:
    """Return the flusher of the profile that the log was opened with."""
    point = parts.loaded.recovery_point
    if parts.options.profile is Profile.KAFKA:
        return KafkaFlusher(
            parts.local_log, parts.append_lock, durability, parts.background, point, failure_mark
        )
    return Flusher(
        parts.local_log,
        parts.append_lock,
        durability,
        parts.background,
        parts.checkpoint_store.topic_partition,
        point,
        failure_mark,
        log_start_offset=parts.loaded.log_start_offset,
    )
