"""From options to offset ranges: which partitions, from where, to where.

Everything is resolved once, when the query is planned, so that a query sees one state of the
directory however long it runs and however often its tasks are repeated.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from segstore.errors import InvalidTopicError
from segstore.log.files.partition_directory import check_topic
from segstore.log.files.topic_names import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS
from segstore.spark.conditions import (
    ConnectorOptionError,
    condition_error,
    option_error,
    unknown_partitions_error,
    unknown_topic_error,
)
from segstore.spark.damaged_end import check_damaged_end
from segstore.spark.ranges import EARLIEST, LATEST, pack, split, wants_splitting
from segstore.tables.offset_ranges import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from segstore.spark.options import ConnectorOptions, OffsetLimit
    from segstore.spark.visible_log import LogBounds, PlannedLog
    from segstore.types import TopicPartition

EARLIEST_PENDING_UPLOAD: Final = -6
"""A special timestamp that the connector's client is too old to ask for."""


def plan_ranges(
    options: ConnectorOptions,
    existing: Iterable[TopicPartition],
    open_log: Callable[[TopicPartition], PlannedLog],
    warn: Callable[[str], None],
    narrow: Callable[[OffsetRange, PlannedLog], OffsetRange | None] | None = None,
) -> list[OffsetRange]:
    """Return the ranges to read, sorted.

    Parameters
    ----------
    options : ConnectorOptions
        What was asked.
    existing : iterable of TopicPartition
        What the directory holds.
    open_log : callable
        Gives the log of an existing partition.
    warn : callable
        Told what the connector leaves unsaid: partitions that do not exist, and logs that are
        damaged at their end where ``failOnDataLoss`` is false.
    narrow : callable or None
        Gives the part of a range that is wanted, None = nothing of it; asked before ranges are cut.

    Raises
    ------
    UnknownTopicOrPartitionError
        A topic or partition that was named does not exist.
    ConnectorConditionError
        Offsets for other partitions than those that are read, a start above its end, or, with
        ``failOnDataLoss``, offsets that the log does not hold.
    CorruptLogError
        With ``failOnDataLoss``: a range goes to the end of a log that is damaged there.
    """
    assigned = choose_partitions(options, existing, warn)
    logs = {partition: open_log(partition) for partition in assigned}
    starts = resolve_limit(
        options.start,
        "start",
        logs,
        EARLIEST,
        latest_when_no_match=options.latest_when_no_offset_matches,
    )
    ends = resolve_limit(options.end, "end", logs, LATEST, latest_when_no_match=True)
    unresolved = [OffsetRange(*key, starts[key], ends[key], logs[key].topic_id) for key in assigned]
    ranges = [_resolve(offsets, logs[offsets.topic_partition]) for offsets in unresolved]
    if narrow is not None:
        wanted = (narrow(offsets, logs[offsets.topic_partition]) for offsets in ranges)
        ranges = [offsets for offsets in wanted if offsets is not None]
    for offsets in ranges:
        log = logs[offsets.topic_partition]
        check_damaged_end(options, offsets.topic_partition, offsets.until_offset, log, warn)
    sizes = unresolved if options.connector_compatible else ranges
    if options.max_bytes_per_partition is not None:
        sizes = ranges = cut_by_bytes(ranges, logs, options.max_bytes_per_partition)
    if wants_splitting(sizes, options.min_partitions, options.max_records_per_partition):
        ranges = split(ranges, options.min_partitions, options.max_records_per_partition)
    if options.fail_on_data_loss:
        for offsets in ranges:
            check_no_data_loss(offsets, logs[offsets.topic_partition])
    elif options.is_remote:  # a task knows the segments of its range, and not how the log ends
        ranges = [_within(offsets, logs[offsets.topic_partition]) for offsets in ranges]
    return ranges


def tasks_of(
    options: ConnectorOptions, ranges: Sequence[OffsetRange]
) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges that each Spark partition reads, one after the other."""
    return pack(
        ranges,
        options.partitions_per_task,
        options.min_partitions,
        options.max_records_per_partition,
    )


def _within(offsets: OffsetRange, log: PlannedLog) -> OffsetRange:
    """Return the part of *offsets* that the log holds; it may be empty."""
    start = min(max(offsets.from_offset, log.start_offset), log.end_offset)
    return replace(
        offsets,
        from_offset=start,
        until_offset=max(start, min(offsets.until_offset, log.end_offset)),
    )


def choose_partitions(
    options: ConnectorOptions, existing: Iterable[TopicPartition], warn: Callable[[str], None]
) -> list[TopicPartition]:
    """Return the partitions that are meant, sorted.

    What is named must exist. Internal topics are read where they are named, a pattern does not find
    them. A connector reads none of them, and of what ``assign`` names what exists.
    """
    choice, path = options.choice, options.shown_path
    if choice.everything:
        return sorted(existing)
    is_compatible = options.connector_compatible
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in sorted(existing):
        if partition.topic != CLUSTER_METADATA_TOPIC or not is_compatible:
            by_topic.setdefault(partition.topic, []).append(partition)

    hidden = INTERNAL_TOPICS if is_compatible else frozenset()
    if choice.pattern is not None:
        hidden = INTERNAL_TOPICS | {CLUSTER_METADATA_TOPIC}
        named = [topic for topic in by_topic if choice.pattern.search(topic)]
    elif choice.assigned is not None:
        named = sorted({partition.topic for partition in choice.assigned})
    else:
        named = sorted(choice.topics)
    for topic in named:
        _check_exists(topic, by_topic, path)
    missing = sorted((choice.assigned or frozenset()).difference(*by_topic.values()))
    if missing:
        if not is_compatible:
            raise unknown_partitions_error(missing, path)
        names = ", ".join(map(str, missing))
        warn(f"option assign: no such partitions in {path}, not read: {names}")
    return [
        partition
        for topic in named
        if topic not in hidden
        for partition in by_topic[topic]
        if choice.assigned is None or partition in choice.assigned
    ]


def _check_exists(topic: str, by_topic: Mapping[str, object], path: str) -> None:
    if topic in by_topic:
        return
    try:
        check_topic(topic)
    except InvalidTopicError as error:
        raise InvalidTopicError(
            f"The request attempted to perform an operation on an invalid topic: {error.message}",
            found=error.found,
            expected=error.expected,
        ) from None
    raise unknown_topic_error(topic, path)


# ---- limits --------------------------------------------------------------------------------------


def resolve_limit(
    limit: OffsetLimit,
    position: str,
    logs: Mapping[TopicPartition, PlannedLog],
    keyword: int,
    *,
    latest_when_no_match: bool,
) -> dict[TopicPartition, int]:
    """One offset for each partition; -2 and -1 stay where they were asked for by name."""
    if limit.offsets is not None:
        check_same_partitions(
            "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", limit.offsets, logs, position
        )
        return dict(limit.offsets)
    if limit.timestamps is not None:
        check_same_partitions(
            "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED", limit.timestamps, logs, position
        )
        timestamps: Mapping[TopicPartition, int] = limit.timestamps
    elif limit.timestamp is not None:
        timestamps = dict.fromkeys(logs, limit.timestamp)
    else:
        return dict.fromkeys(logs, keyword)
    return {
        partition: _offset_for_timestamp(
            log, partition, timestamps[partition], latest_when_no_match=latest_when_no_match
        )
        for partition, log in logs.items()
    }


def check_same_partitions(
    condition: str,
    specified: Iterable[TopicPartition],
    assigned: Iterable[TopicPartition],
    position: str,
) -> None:
    """Raise *condition* unless just the partitions that are read were given a value."""
    if set(specified) != set(assigned):
        raise condition_error(
            condition,
            position=position,
            specifiedPartitions=as_set(specified),
            assignedPartitions=as_set(assigned),
        )


def as_set(partitions: Iterable[TopicPartition]) -> str:
    """Write *partitions* as Scala shows a set."""
    return f"Set({', '.join(map(str, sorted(partitions)))})"


def _offset_for_timestamp(
    log: PlannedLog, partition: TopicPartition, timestamp: int, *, latest_when_no_match: bool
) -> int:
    """Offset of the first record at or after *timestamp*; -1 to -5 as in ListOffsets [TS-1]."""
    if timestamp == EARLIEST_PENDING_UPLOAD:
        raise ConnectorOptionError(
            f"The version of API is not supported: timestamp {timestamp} for {partition}",
            found=str(timestamp),
            expected="milliseconds since 1970, or -1 latest, -2 earliest, -3 largest timestamp",
        )
    # the log is asked anew: what a writer has appended since the plan took its end is not in it
    offset = log.fetch_offset_by_timestamp(timestamp).offset
    if timestamp < 0 <= offset:
        return min(offset, log.end_offset)
    if 0 <= offset < log.end_offset:
        return offset
    if latest_when_no_match:
        return log.end_offset
    raise ConnectorOptionError(
        f"No offset matched from request of topic-partition {partition} and timestamp {timestamp}.",
        found="no record at or after it",
        expected="an earlier timestamp, or startingOffsetsByTimestampStrategy=latest",
    )


def cut_by_bytes(
    ranges: Iterable[OffsetRange], logs: Mapping[TopicPartition, PlannedLog], max_bytes: int
) -> list[OffsetRange]:
    """Cut *ranges* between batches, so that none has more than *max_bytes* bytes of them.

    One that is a single batch may have more. Offsets that the log does not hold stay with the part
    that is next to them.
    """
    parts: list[OffsetRange] = []
    for offsets in ranges:
        log = logs[offsets.topic_partition]
        start = max(offsets.from_offset, log.start_offset)
        end = min(offsets.until_offset, log.end_offset)
        cuts = log.cuts(start, end, max_bytes) if start < end else []
        bounds = [offsets.from_offset, *cuts, offsets.until_offset]
        parts += [
            replace(offsets, from_offset=low, until_offset=high) for low, high in pairwise(bounds)
        ]
    return parts


# ---- ranges --------------------------------------------------------------------------------------


def _resolve(offsets: OffsetRange, log: PlannedLog) -> OffsetRange:
    """Replace -2 and -1 by the log's own bounds."""
    for option, name, value, word in (
        ("startingOffsets", "earliest", offsets.from_offset, EARLIEST),
        ("endingOffsets", "latest", offsets.until_offset, LATEST),
    ):
        if value < 0 and value != word:
            raise option_error(
                option,
                f"{value} for {offsets.topic_partition}",
                f"an offset, or {word} for {name}",
                f"assertion failed: {name} offset {value} does not equal {word}",
            )
    resolved = replace(
        offsets,
        from_offset=log.start_offset if offsets.from_offset == EARLIEST else offsets.from_offset,
        until_offset=log.end_offset if offsets.until_offset == LATEST else offsets.until_offset,
    )
    if resolved.from_offset > resolved.until_offset:
        raise condition_error(
            "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
            startOffset=resolved.from_offset,
            endOffset=resolved.until_offset,
            topic=resolved.topic,
            partition=resolved.partition,
        )
    return resolved


def is_data_lost(offsets: OffsetRange, log: LogBounds) -> bool:
    """Whether *offsets* reach over the bounds of the log."""
    is_within = log.start_offset <= offsets.from_offset and offsets.until_offset <= log.end_offset
    return offsets.size > 0 and not is_within


def what_is_left_out(offsets: OffsetRange, log: LogBounds) -> str:
    """Return the warning for a read that goes on without what the log does not hold."""
    return (
        f"{offsets.topic_partition} holds offsets [{log.start_offset}, {log.end_offset}): "
        f"[{offsets.from_offset}, {offsets.until_offset}) were wanted, and what is not there is "
        "left out"
    )


def check_no_data_loss(offsets: OffsetRange, log: LogBounds) -> None:
    """Raise the connector's data-loss condition when the log does not hold all *offsets*.

    Gaps inside the log (compaction, transaction markers) are no loss.
    """
    if not is_data_lost(offsets, log):
        return
    log_start, log_end = log.start_offset, log.end_offset
    raise condition_error(
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
        startOffset=offsets.from_offset
        if offsets.from_offset < log_start
        else max(offsets.from_offset, log_end),
        endOffset=offsets.until_offset,
        topicPartition=offsets.topic_partition,
        logStartOffset=log_start,
        logEndOffset=log_end,
    )
