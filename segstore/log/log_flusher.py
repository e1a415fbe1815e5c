"""The flusher of a log: `Flusher` of the safe profile, or `KafkaFlusher` of Kafka's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from segstore.log.files.profile import Profile
from segstore.log.flusher import Flusher
from segstore.log.kafka_profile.kafka_flusher import KafkaFlusher

if TYPE_CHECKING:
    from segstore._core import AppendLock
    from segstore.log.durability import Durability
    from segstore.log.failure_mark import FailureMark
    from segstore.log.files.background import Scheduler
    from segstore.log.local.local_log import LocalLog
    from segstore.log.recovery.loaded_log import LoadedLog
    from segstore.types import TopicPartition

LogFlusher: TypeAlias = Flusher | KafkaFlusher


def new_flusher(  # noqa: PLR0913 - what both flushers work with
    profile: Profile,
    local_log: LocalLog,
    append_lock: AppendLock,
    durability: Durability,
    background: Scheduler,
    topic_partition: TopicPartition,
    loaded: LoadedLog,
    failure_mark: FailureMark,
) -> LogFlusher:
    """Return the flusher of the profile that the log was opened with."""
    point = loaded.recovery_point
    if profile is Profile.KAFKA:
        return KafkaFlusher(local_log, append_lock, durability, background, point, failure_mark)
    return Flusher(
        local_log,
        append_lock,
        durability,
        background,
        topic_partition,
        point,
        failure_mark,
        log_start_offset=loaded.log_start_offset,
    )
