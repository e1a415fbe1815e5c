"""``segstore retain``: delete what retention does not keep, and say what keeps the rest."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from segstore.cli.output import UsageError, count_of, human_bytes, human_time, say, write_line
from segstore.cli.partition_paths import (
    add_log_dir_argument,
    add_metadata_log_argument,
    add_wait_argument,
    is_partition,
    log_dirs,
    opened_together,
    partition_number,
    path_in,
)
from segstore.cli.policy_text import KEPT, given_properties, policy_of
from segstore.errors import SegstoreError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse

    from segstore.config.log_config import LogConfig
    from segstore.log.retention_plan import DeletedSegment, HoldingSegment, RetentionPlan
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.log_manager import LogManager
    from segstore.types import TopicPartition


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Delete the oldest segments that retention.ms and retention.bytes of their topics do not "
        "keep, once. Each line says which limit deletes a segment, and which segment keeps the "
        "rest. Topics without a limit lose nothing. Stop the writer first; --dry-run also works "
        "beside it. Exit code 1 when one of the logs cannot be opened, damage keeps a segment, or "
        "the settings of a topic are unknown: such a topic loses nothing."
    )
    parser.add_argument("path", metavar="DIR", help="a log directory")
    add_log_dir_argument(parser)
    add_metadata_log_argument(parser)
    parser.add_argument("-t", "--topic", help="only this topic")
    parser.add_argument("-p", "--partition", type=partition_number, help="only this partition")
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a limit for this run, such as retention.bytes=1073741824; the topic does not keep it",
    )
    parser.add_argument("--dry-run", action="store_true", help="delete nothing, show what would go")
    add_wait_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")


def run(arguments: argparse.Namespace) -> int:
    """Run retention once for the partitions that the arguments name."""
    from segstore.log.retention_plan import HoldingReason

    properties = given_properties(arguments.config)
    if properties and arguments.topic is None:
        raise UsageError(
            "--config goes with -t: a limit for all topics at once may delete too much"
        )
    if arguments.partition is not None and arguments.topic is None:
        raise UsageError("-p goes with -t")
    if is_partition(arguments.path):
        raise UsageError(
            f"{arguments.path} is the directory of one partition: name the one above it, with -t"
            " and -p"
        )
    code, directories = 0, log_dirs(arguments)
    with opened_together(
        directories, arguments, read_only=arguments.dry_run, lock_timeout=arguments.wait
    ) as logs:
        for partition in _chosen(logs, arguments):
            path = path_in(directories, partition)
            try:
                logs.describe_topic(partition.topic)
            except SegstoreError as error:  # a limit of --config may not go with them
                say(f"segstore: {path}: nothing goes, the topic's settings are unknown: {error}")
                code = 1
                continue
            try:
                log = logs.log(*partition)
                config = log.config.with_properties(properties)
                plan = _retain(log, config, is_dry_run=arguments.dry_run)
            except SegstoreError as error:  # the others are done all the same
                say(f"segstore: {path}: {type(error).__name__}: {error}")
                code = 1
                continue
            if plan.holding is not None and plan.holding.reason is HoldingReason.DAMAGED:
                code = 1
            if arguments.json:
                write_line(json.dumps(_fields(path, partition, plan)))
            else:
                _print(path, plan, config, is_dry_run=arguments.dry_run)
    return code


def _chosen(logs: LogManager, arguments: argparse.Namespace) -> list[TopicPartition]:
    chosen = [
        one
        for one in logs.partitions()
        if arguments.topic in {None, one.topic} and arguments.partition in {None, one.partition}
    ]
    if not chosen and arguments.topic is not None:
        number = "" if arguments.partition is None else f" partition {arguments.partition} of"
        raise UnknownTopicOrPartitionError(
            f"there is no{number} topic {arguments.topic!r} here", file=arguments.path
        )
    return chosen


def _retain(log: UnifiedLog, config: LogConfig, *, is_dry_run: bool) -> RetentionPlan:
    """Return what goes, or has gone, and what keeps the rest then."""
    if is_dry_run:
        return log.plan_retention(config)
    log.update_config(config)
    deleted = log.delete_old_segments()
    return log.plan_retention()._replace(deleted=tuple(deleted))


def _print(path: str, plan: RetentionPlan, config: LogConfig, *, is_dry_run: bool) -> None:
    count, size = len(plan.deleted), sum(one.size_bytes for one in plan.deleted)
    first = "nothing goes"
    if count:
        done = "would be deleted" if is_dry_run else "deleted"
        first = f"{count_of(count, 'segment')}, {human_bytes(size)}, {done}"
    policy = policy_of(config)
    write_line(f"{path}: {first}; {'no limit is set' if policy == KEPT else f'policy {policy}'}")
    for one in plan.deleted:
        write_line(f"  {_deleted(one)}")
    if plan.holding is not None and policy != KEPT:
        write_line(f"  the rest stays: {_holding(plan.holding, config)}")


def _deleted(one: DeletedSegment) -> str:
    limit = f"{'local.' if one.is_local else ''}{one.limit.value.replace('_', '.')}"
    return (
        f"offsets {one.base_offset} to {one.next_offset - 1}, {human_bytes(one.size_bytes)}, by"
        f" {limit}; {_time(one)}"
    )


def _time(one: DeletedSegment | HoldingSegment) -> str:
    if one.largest_timestamp is None:
        return "the time of its latest record is not known"
    what = "latest record" if one.has_timestamp else "no record has a time, its file"
    return f"{what} {human_time(one.largest_timestamp)}"


def _holding(one: HoldingSegment, config: LogConfig) -> str:
    from segstore.log.retention_plan import HoldingReason

    if not one.size_bytes:
        return f"segment {one.base_offset}, which has no record"
    texts = {
        HoldingReason.HIGH_WATERMARK: "it has records that are not replicated, or not durable",
        HoldingReason.WITHIN_LIMITS: "it is within the limits",
        HoldingReason.NOT_COPIED: "remote storage does not have it yet",
        HoldingReason.DAMAGED: "damage may hide its latest record, run `segstore verify`",
        HoldingReason.ACTIVE: "it is the active segment",
        HoldingReason.CLOCK: "the clock was set, so nothing is deleted by time in this run",
    }
    reason = texts[one.reason]
    is_of_the_future = (one.largest_timestamp or 0) > time.time() * 1000
    if one.reason is HoldingReason.WITHIN_LIMITS and "delete" not in config.cleanup_policy:
        reason = f"cleanup.policy={config.cleanup_policy} deletes no segment"
    elif is_of_the_future and config.retention_ms is not None:
        reason = "that time is in the future, and keeps this segment and all after it"
    size = human_bytes(one.size_bytes)
    return f"segment {one.base_offset}, {size}, {_time(one)}: {reason}"


def _fields(path: str, partition: TopicPartition, plan: RetentionPlan) -> dict[str, Any]:
    holding = plan.holding
    return {
        "path": path,
        "topic": partition.topic,
        "partition": partition.partition,
        "deleted": [{**one._asdict(), "limit": one.limit.value} for one in plan.deleted],
        "holding": None
        if holding is None
        else {**holding._asdict(), "reason": holding.reason.value},
    }
