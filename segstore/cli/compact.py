"""``segstore compact``: keep the last record of each key, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from segstore.cli.output import Progress, UsageError, human_bytes, human_time, say, write_line
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
from segstore.errors import SegstoreError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segstore.log.unified_log import Log, UnifiedLog


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Keep the last record of each key in partitions whose cleanup.policy has compact, once. "
        "The active segment and records younger than min.compaction.lag.ms stay as they are. "
        "Ctrl-C leaves valid logs. Stop the writer first; --dry-run also works beside it. Exit "
        "code 1 when a log cannot be opened or is damaged."
    )
    parser.add_argument("path", metavar="DIR", help="a partition's directory, or a log directory")
    add_log_dir_argument(parser)
    add_metadata_log_argument(parser)
    parser.add_argument("-t", "--topic", help="only this topic")
    parser.add_argument("-p", "--partition", type=partition_number, help="only this partition")
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing, show about what would go"
    )
    add_wait_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Compact the partitions that the arguments name, one after the other."""
    if arguments.partition is not None and arguments.topic is None:
        raise UsageError("-p goes with -t")
    if is_partition(arguments.path) and arguments.topic is not None:
        raise UsageError("-t goes with a log directory")
    code = count = 0
    with Progress(quiet=arguments.quiet) as progress:
        for count, (path, log) in enumerate(_logs(arguments), 1):  # noqa: B007 - asked below
            if isinstance(log, SegstoreError):
                say(f"segstore: {path}: {type(log).__name__}: {log}")
                code = 1
                continue
            try:
                _compact(path, log, progress, arguments)
            except SegstoreError as error:  # the others are done all the same
                say(f"segstore: {path}: {type(error).__name__}: {error}")
                code = 1
    is_named = is_partition(arguments.path) or arguments.topic is not None
    if not (count or is_named or arguments.json):
        write_line("nothing to compact: no cleanup.policy here has compact")
    return code


def _logs(arguments: argparse.Namespace) -> Iterator[tuple[str, Log | SegstoreError]]:
    """Yield path and log; of a log directory those with the policy alone."""
    from segstore.log.files.partition_directory import parse_directory_name

    directories, topic, number = log_dirs(arguments), arguments.topic, arguments.partition
    if is_partition(arguments.path):  # the settings of its topic say whether records may go
        full = Path(arguments.path).resolve()
        directories, (topic, number) = [str(full.parent)], parse_directory_name(full.name)
    with opened_together(
        directories, arguments, read_only=arguments.dry_run, lock_timeout=arguments.wait
    ) as logs:
        chosen = [
            one
            for one in logs.partitions()
            if topic in {None, one.topic} and number in {None, one.partition}
        ]
        if not chosen and topic is not None:
            raise UnknownTopicOrPartitionError(
                f"there is no such partition of topic {topic!r} here", file=directories[0]
            )
        for partition in chosen:
            path = path_in(directories, partition)
            try:
                settings = logs.describe_topic(partition.topic).settings
                log = logs.log(*partition)
            except SegstoreError as error:
                yield path, error
                continue
            if "compact" in log.config.cleanup_policies:
                yield path, log
            elif topic is not None:
                policies = {one.name: one.value for one in settings}["cleanup.policy"]
                found = "not set" if policies is None else log.config.cleanup_policy
                say(
                    f"segstore: {path}: cleanup.policy is {found}: `segstore topics alter` gives"
                    " the topic cleanup.policy=compact"
                )


def _compact(path: str, log: Log, progress: Progress, arguments: argparse.Namespace) -> None:
    fields: dict[str, Any] = {"path": path}
    if arguments.dry_run:
        plan = log.plan_compaction()
        fields |= plan._asdict()
        text = (
            f"about {human_bytes(plan.bytes_before - plan.bytes_after)} of"
            f" {human_bytes(plan.bytes_before)} would go:"
            f" {plan.records_before - plan.records_after:,} of {plan.records_before:,} records;"
            f" the last one of each key stays; {100 * plan.dirty_ratio:.1f} % dirty, from offset"
            f" {plan.first_dirty_offset} on"
        )
        if plan.held_back_from is not None and plan.held_back_until is not None:
            text += (
                f"; min.compaction.lag.ms holds back what begins at offset {plan.held_back_from},"
                f" until {human_time(plan.held_back_until)}"
            )
        if plan.overdue_since is not None:
            text += f"; due by max.compaction.lag.ms since {human_time(plan.overdue_since)}"
    else:
        writer = cast("UnifiedLog", log)
        passes = writer.compact(progress=lambda _, done, total: progress(path, done, total))
        fields["passes"] = [one._asdict() for one in passes]
        text = "; ".join(map(str, passes)) or "nothing to compact"
    write_line(json.dumps(fields) if arguments.json else f"{path}: {text}")
