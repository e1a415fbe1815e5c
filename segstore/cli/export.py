"""``segstore export``: write the records of a partition, or of a topic, to Parquet files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from segstore.cli.bucket_paths import add_bucket_arguments, bucket_at
from segstore.cli.held_interrupts import held_interrupts
from segstore.cli.output import (
    Progress,
    UsageError,
    count_of,
    human_bytes,
    say,
    say_warnings,
    write_line,
)
from segstore.cli.partition_paths import (
    add_as_argument,
    add_partition_arguments,
    add_remote_argument,
    readable_logs,
)
from segstore.errors import (
    AlreadyExistsError,
    DiskFullError,
    IllegalArgumentError,
    InconsistentTopicIdError,
    SegstoreError,
    WriteError,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segstore.tables.partition_export import ExportReport

PARQUET: Final = ".parquet"
_OF_THE_TARGET: Final = (
    AlreadyExistsError,
    DiskFullError,
    IllegalArgumentError,
    InconsistentTopicIdError,
    WriteError,
)
"""Errors that the next partition gives as well."""


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Write the records of a partition to a Parquet file, or those of a topic to a folder, one "
        "file for each partition. Each row is a record with topic, partition, offset, timestamp, "
        "key, value and headers. `segstore import` restores the logs from the files, with "
        "transaction markers, producers and gaps. A file appears when it is whole: an interrupted "
        "export leaves none. Run again with the same folder, the command writes what is missing "
        "there. The log may be in use; nothing is written to it."
    )
    add_partition_arguments(parser)
    parser.add_argument(
        "target",
        metavar="OUT",
        help="the file, as orders-0.parquet, or the folder: an existing one, or with -t",
    )
    add_as_argument(parser)
    add_remote_argument(parser, "read both parts of a log")
    add_bucket_arguments(
        parser,
        gaps_of_others="; of .log files alone: export them although the end of the last one is"
        " damaged, or offsets between two of them are missing; with read_committed, also leave out"
        " transactions whose end marker may be missing",
    )
    parser.add_argument(
        "--isolation",
        choices=("log_end", "read_committed"),
        default="log_end",
        help="log_end (default): everything, to be restored; read_committed: only records of "
        "committed transactions, without markers and producers",
    )
    parser.add_argument(
        "--compression",
        default="zstd",
        metavar="NAME",
        help="of the file: zstd (default), snappy, gzip, lz4, brotli, none",
    )
    parser.add_argument(
        "--file-bytes",
        type=int,
        metavar="N",
        help="with -t: another file after N bytes of stored batches (default: one a partition)",
    )
    parser.add_argument(
        "--verify", action="store_true", help="read each file back and compare it with the log"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file OUT")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Export one partition, or a topic."""
    check_pyarrow()
    target = arguments.target
    is_file = not (os.path.isdir(target) or target.endswith(os.sep))  # noqa: PTH112 - as typed
    is_of_topic = arguments.topic is not None and not (is_file and target.endswith(PARQUET))
    try:
        written = 0
        for report in (_export_topic if is_of_topic else _export_partition)(arguments):
            write_line(
                f"{report.path}: {count_of(report.records, 'record')}, offsets"
                f" {report.from_offset} to {report.until_offset}, {human_bytes(report.size_bytes)}"
            )
            written += 1
    except KeyboardInterrupt:
        kept = "the same command writes what is missing" if is_of_topic else "no file was written"
        say(f"segstore: interrupted: {kept}")
        raise
    if not written and not arguments.quiet:
        say(f"segstore: {target} holds all records already")
    return 0


def _export_partition(arguments: argparse.Namespace) -> Iterator[ExportReport]:
    import segstore

    logs = readable_logs([arguments.path], arguments)
    if len(logs) != 1:
        raise UsageError(
            f"{arguments.target} is one file, and the topic has {len(logs)} partitions: name a "
            "folder, or a partition with -p"
        )
    with Progress(quiet=arguments.quiet) as progress, logs[0].open() as log:
        say_warnings(log)  # a part is no backup of the whole
        yield segstore.export_parquet(
            log,
            arguments.target,
            isolation=arguments.isolation,
            compression=arguments.compression,
            verify=arguments.verify,
            overwrite=arguments.overwrite,
            allow_gaps=arguments.allow_gaps,
            progress=progress,
        )


def _export_topic(arguments: argparse.Namespace) -> Iterator[ExportReport]:
    """Export the partitions of a topic; one of a bucket that cannot be read keeps no other."""
    import segstore

    numbers: list[int | None] = [arguments.partition]
    named = None if arguments.remote is not None else bucket_at(arguments.path, arguments)
    if named is not None:  # or say that there is none
        chosen = named.selected(arguments.topic, arguments.partition)
        numbers = [one.partition for one in chosen]
    failed: dict[int | None, SegstoreError] = {}
    with (
        Progress(quiet=arguments.quiet) as progress,
        segstore.open_dir(arguments.path, read_only=True, remote=arguments.remote)
        if named is None
        else named.bucket as logs,
    ):
        for number in numbers:
            try:
                yield from logs.export_parquet(
                    arguments.topic,
                    arguments.target,
                    partitions=None if number is None else [number],
                    isolation=arguments.isolation,
                    compression=arguments.compression,
                    verify=arguments.verify,
                    bytes_of_a_file=arguments.file_bytes,
                    progress=progress,
                )
            except _OF_THE_TARGET:
                raise
            except SegstoreError as error:
                failed[number] = error
    if not failed:
        return
    *others, last = failed.values()
    for other in others:
        say(f"segstore: {other}")
    if None in failed:
        say(
            "segstore: the export is not complete: with -p, the same command exports one partition,"
            " of those that can be read"
        )
    elif len(numbers) > 1:
        lacked = ", ".join(map(str, failed))
        say(f"segstore: the export is not complete: of {len(numbers)} partitions it lacks {lacked}")
    raise last


def check_pyarrow() -> None:
    """Refuse to begin without what reads and writes Parquet."""
    from segstore.tables.parquet_files import require_pyarrow

    try:
        with held_interrupts():
            require_pyarrow()
    except ImportError as error:
        raise UsageError(str(error)) from error
