"""``segstore ls``: what is in a log directory, a broker's or ours; nothing is written."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from segstore.cli.bucket_paths import add_bucket_arguments, bucket_at
from segstore.cli.output import human_bytes, human_time, print_table, say, say_warnings, write_line
from segstore.cli.partition_paths import (
    add_as_argument,
    add_log_dir_argument,
    add_metadata_log_argument,
    add_remote_argument,
    all_partitions,
    holds_log,
    is_partition,
    log_dirs,
    open_both_parts,
    unlisted_directories,
)
from segstore.cli.policy_text import UNKNOWN, policy_of_topic, stray_text, strays_of
from segstore.cli.shown_times import shown_times
from segstore.cli.transaction_text import transaction_fields, transaction_text
from segstore.errors import SegstoreError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from segstore.cli.bucket_paths import BucketPath
    from segstore.log.unified_log import Log
    from segstore.manager.log_manager import LogManager
    from segstore.types import TopicPartition

    _Listed: TypeAlias = tuple[str, Callable[[], "PartitionSummary"]]
    """The path of a partition, and what opens and summarises it."""

COLUMNS = (
    *("TOPIC", "PARTITION", "START", "END", "OFFSETS", "FIRST", "LAST", "BYTES", "SEGMENTS"),
    *("STABLE", "HELD-BY", "POLICY"),
)


@dataclass(slots=True)
class PartitionSummary:
    """One line of the list."""

    topic: str
    partition: int
    log_start_offset: int
    local_log_start_offset: int
    """Records below it are in remote storage alone."""
    log_end_offset: int
    first_timestamp: int | None
    """Of the first record, in ms."""
    last_timestamp: int | None
    """The largest one, in ms."""
    size_bytes: int
    segments: int
    path: str
    damage: str | None
    """Why the log ends before its records do, or which of them are missing; END is marked then."""
    last_stable_offset: int | None
    """None where it cannot be read."""
    open_transactions: list[dict[str, Any]]
    """Ascending by their first offsets; The fields of `OpenTransaction`, and whether it hangs."""
    policy: str
    """What deletes records of the topic, by its own settings."""
    stray: str | None = None
    """Why the partition is stray to its broker; None where it is not."""


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "List the partitions of a log directory: offsets, time span, bytes. OFFSETS "
        "counts offsets; compaction and transactions leave some of them without a record. A ! "
        "after END marks a log with damage or missing records; stderr has the details. Not all "
        "records are read: `segstore verify` does that. STABLE is the last "
        "stable offset, where committed reads end. HELD-BY is the producer id of the open "
        "transaction that holds it there; stderr lists the transactions that hang. "
        "POLICY is what deletes records: the topic's limits of time and size, compact, or keep; a "
        "bucket does not know it. With --remote, START is that of the whole log; in parentheses, "
        "that of its local part."
    )
    parser.add_argument(
        "path",
        metavar="DIR",
        help="a log directory, or one partition's; or the folder or URL of a tiered bucket",
    )
    add_log_dir_argument(parser)
    add_as_argument(parser)
    add_bucket_arguments(parser)
    add_metadata_log_argument(parser)
    add_remote_argument(parser, "where both parts of a log begin")
    parser.add_argument("-t", "--topic", help="only this topic")
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")


def run(arguments: argparse.Namespace) -> int:
    """List the partitions; 1 when one of them cannot be opened, or is damaged."""
    bucket = bucket_at(arguments.path, arguments)
    listed = _of_directory(arguments) if bucket is None else _of_bucket(bucket, arguments)
    summaries = []
    code = 0
    for path, look in listed:
        try:
            summary = look()
            summaries.append(summary)
            _say_what_is_wrong(summary)
            if summary.damage is not None:
                code = 1
        except SegstoreError as error:
            say(f"segstore: {path}: {type(error).__name__}: {error}")
            code = 1
    if arguments.json:
        for summary in summaries:
            write_line(json.dumps(asdict(summary)))
    else:
        print_table(COLUMNS, map(_row, summaries))
    return code


def _of_directory(arguments: argparse.Namespace) -> Iterator[_Listed]:
    """Yield the partitions of log directories; at the end, say what else is in them."""
    import segstore

    directories = log_dirs(arguments)
    is_one = is_partition(arguments.path) or holds_log(arguments.path)
    above = [str(Path(arguments.path).absolute().parent)] if is_one else directories
    policies = _Policies(above, arguments.metadata_log)

    def look(path: str) -> PartitionSummary:
        opened = (
            segstore.open(path, read_only=True, as_=arguments.as_)
            if arguments.remote is None
            else open_both_parts(path, arguments.remote)
        )
        with opened as log:
            summary = summarise(log, path, policies.of(log), policies.why_stray(log))
        say_warnings(log)
        return summary

    for path in all_partitions(arguments.path, arguments.as_, arguments.others):
        topic = (arguments.as_ or Path(path).absolute().name).rpartition("-")[0]
        if arguments.topic in {None, topic}:
            yield path, partial(look, path)
    for one in directories:
        left_out = [] if is_partition(one) else unlisted_directories(one)
        if left_out:
            say(
                f"segstore: {one}: skipped, these are no partition names:"
                f" {', '.join(left_out)}; `segstore cat {one}/{left_out[0]} --as TOPIC-N`"
                " reads such a directory"
            )


def _of_bucket(bucket: BucketPath, arguments: argparse.Namespace) -> Iterator[_Listed]:
    """Yield the partitions of a bucket, and say which segments are left out."""

    def look(partition: TopicPartition) -> PartitionSummary:
        path = bucket.url_of(partition)
        for _, reason in bucket.bucket.left_out(*partition):
            say(f"segstore: {path}: left out: {reason}")
        with bucket.open(partition) as log:
            summary = summarise(log, path, UNKNOWN, is_of_bucket=True)
        say_warnings(log)
        return summary

    for partition in bucket.partitions(arguments.topic):
        yield bucket.url_of(partition), partial(look, partition)


def _say_what_is_wrong(summary: PartitionSummary) -> None:
    path = summary.path
    if summary.stray is not None:
        say(
            f"segstore: {path}: {stray_text(f'{summary.topic}-{summary.partition}', summary.stray)}"
        )
    for one in summary.open_transactions:
        if one["is_hanging"]:
            say(f"segstore: {path}: {transaction_text(one, path)}")
    if summary.damage is not None:
        say(f"segstore: {path}: {summary.damage}")


class _Policies:
    """What deletes records of a topic, and which partitions are stray; in its log directories."""

    def __init__(self, log_dirs: list[str], metadata_log: str | None) -> None:
        import segstore

        self._logs: LogManager | None = None
        self._strays: Mapping[TopicPartition, str] = {}
        self._policies: dict[str, str] = {}
        unlisted = () if metadata_log is not None else (SegstoreError,)
        with suppress(*unlisted):  # its partitions can be read all the same
            self._logs = segstore.open_dir(log_dirs, read_only=True, metadata_log=metadata_log)
            self._strays = strays_of(self._logs)

    def of(self, log: Log) -> str:
        """Return the words for a log."""
        if self._logs is None:
            return UNKNOWN
        topic = log.topic_partition.topic
        if topic not in self._policies:
            self._policies[topic] = policy_of_topic(self._logs, topic)
        return self._policies[topic]

    def why_stray(self, log: Log) -> str | None:
        """Return why a log is stray to its broker; None where it is not."""
        return self._strays.get(log.topic_partition)


def summarise(
    log: Log, path: str, policy: str, stray: str | None = None, *, is_of_bucket: bool = False
) -> PartitionSummary:
    """Look up what a line of the list says; reads a batch or two."""
    topic, partition = log.topic_partition
    segments = log.segments()
    times = shown_times(log)
    stable, transactions, damage = None, [], _damage(log) or times.damage
    try:
        stable = log.last_stable_offset
        transactions = [
            transaction_fields(one, is_of_bucket=is_of_bucket) for one in log.open_transactions()
        ]
    except SegstoreError as error:  # the rest is shown
        damage = damage or str(error)
    return PartitionSummary(
        topic=topic,
        partition=partition,
        log_start_offset=log.log_start_offset,
        local_log_start_offset=log.local_log_start_offset,
        log_end_offset=log.log_end_offset,
        first_timestamp=times.first_timestamp,
        last_timestamp=times.last_timestamp,
        size_bytes=sum(segment.size_bytes for segment in segments),
        segments=len(segments),
        path=path,
        damage=damage,
        last_stable_offset=stable,
        open_transactions=transactions,
        policy=policy,
        stray=stray,
    )


def _damage(log: Log) -> str | None:
    """Return why the log does not give all records up to its end, None when it does."""
    return log.report.damage or "; ".join(map(str, log.missing_records())) or None


def _start_text(summary: PartitionSummary) -> str:
    """Return where the log begins, and where its local part does if that is elsewhere."""
    start, local = summary.log_start_offset, summary.local_log_start_offset
    return str(start) if start == local else f"{start} ({local} here)"


def _row(summary: PartitionSummary) -> tuple[str, ...]:
    return (
        summary.topic,
        str(summary.partition),
        _start_text(summary),
        f"{summary.log_end_offset}{'' if summary.damage is None else '!'}",
        str(summary.log_end_offset - summary.log_start_offset),
        human_time(summary.first_timestamp),
        human_time(summary.last_timestamp),
        human_bytes(summary.size_bytes),
        str(summary.segments),
        "-" if summary.last_stable_offset is None else str(summary.last_stable_offset),
        str(next((one["producer_id"] for one in summary.open_transactions), "-")),
        summary.policy,
    )
