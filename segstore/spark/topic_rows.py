"""The rows of ``kind=topics``: what a topic was given, how large it is, what is due."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.retention_plan import RetentionLimit
from segstore.manager.log_manager import open_dir
from segstore.manager.topic_description import SettingSource
from segstore.spark.metadata_rows import timestamps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore.config.config_key import ConfigValue
    from segstore.log.unified_log import Log
    from segstore.types import TopicPartition

_NOT_GIVEN = {SettingSource.DEFAULT, SettingSource.NOT_SET}


class PlannedTopic(NamedTuple):
    """A topic as the driver found it; it travels pickled.

    Attributes
    ----------
    name : str
        Its name.
    topic_id : str or None
        Its id; None where no file says it.
    partitions : tuple of TopicPartition
        Those that hold a log.
    policies : tuple of str or None
        Its ``cleanup.policy``; None where nothing sets it.
    settings : dict of str to str
        What it was given, in Kafka's keys.
    """

    name: str
    topic_id: str | None
    partitions: tuple[TopicPartition, ...]
    policies: tuple[str, ...] | None
    settings: dict[str, str]


def planned_topics(path: str, partitions: Iterable[TopicPartition]) -> list[PlannedTopic]:
    """Return the topics of *partitions*, which lie in the log directory *path*.

    Raises
    ------
    SegstoreError
        The settings of topics cannot be read.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    with closing(open_dir(path, read_only=True)) as logs:
        described = [logs.describe_topic(topic) for topic in by_topic]
    planned = []
    for topic in described:
        values = {one.name: one.value for one in topic.settings}
        policies = values["cleanup.policy"]
        given = {
            one.name: text_of(one.value) for one in topic.settings if one.source not in _NOT_GIVEN
        }
        planned.append(
            PlannedTopic(
                topic.name,
                None if topic.topic_id is None else topic_id_text(topic.topic_id),
                tuple(by_topic[topic.name]),
                policies if isinstance(policies, tuple) else None,
                given,
            )
        )
    return planned


def text_of(value: ConfigValue) -> str:
    """Return a value as Kafka writes it in a file of settings."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def topic_rows(topic: PlannedTopic, logs: Iterable[Log]) -> dict[str, Any]:
    """Return the columns of ``kind=topics``, one row; *logs* are those of its partitions."""
    import pyarrow as pa

    now_ms = time.time_ns() // 1_000_000
    size, ratios, deletions = 0, [0.0], []
    is_compacted = "compact" in (topic.policies or ())
    for log in logs:
        size += sum(segment.size_bytes for segment in log.segments())
        deletions.append(_next_deletion_ms(log, now_ms))
        if is_compacted:
            ratios.append(log._dirty_part(now_ms).ratio)  # noqa: SLF001 - as its manager asks
    known = [one for one in deletions if one is not None]
    settings = pa.map_(pa.string(), pa.string())
    return {
        "topicId": [topic.topic_id],
        "partitionCount": [len(topic.partitions)],
        "cleanupPolicy": [None if topic.policies is None else ",".join(topic.policies)],
        "settings": pa.array([list(topic.settings.items())], settings),
        "size": [size],
        "dirtyRatio": [max(ratios) if is_compacted else None],
        "nextDeletion": timestamps([min(known, default=-1)]),
    }


def _next_deletion_ms(log: Log, now_ms: int) -> int | None:
    """Return when retention can delete the oldest segment; None where no time is known for that."""
    plan, retention_ms = log.plan_retention(), log.config.retention_ms
    if plan.deleted and plan.deleted[0].limit is not RetentionLimit.RETENTION_MS:
        return now_ms  # by its size, or because its records were deleted: whenever it runs
    oldest = plan.deleted[0] if plan.deleted else plan.holding
    if oldest is None or oldest.largest_timestamp is None or not oldest.size_bytes:
        return None
    if retention_ms is None or retention_ms < 0 or "delete" not in log.config.cleanup_policies:
        return None
    return oldest.largest_timestamp + retention_ms + 1  # strictly older [RTN-12]
