"""``segstore cat``: print the records of a partition, with kcat's habits."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from segstore.cli.bucket_paths import add_bucket_arguments
from segstore.cli.offset_range import add_offset_argument, combined, out_of_range
from segstore.cli.output import say, say_warnings, write
from segstore.cli.partition_paths import (
    add_as_argument,
    add_partition_arguments,
    add_remote_argument,
    readable_logs,
)
from segstore.cli.record_format import add_format_arguments, formatter_of
from segstore.cli.transaction_text import say_committed_end

if TYPE_CHECKING:
    from segstore.cli.offset_range import OffsetRange
    from segstore.log.lone_segment import LoneSegment
    from segstore.log.scan import LogScan
    from segstore.log.unified_log import Log

OUTPUT_RECORDS = 1000
MOST_RANGES = 20
"""So many ranges that were left out are named."""


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Print the records of a partition up to its end as of now. Nothing is written "
        "and no lock is taken: a broker or another process may use the log. PATH may be a .log "
        "file with any name, a pattern in quotes, or a tar archive; several are read as one log. "
        "Exit code 1 when the log ends at damage and records may follow, or when records were left "
        "out."
    )
    add_partition_arguments(parser, takes_files=True)
    add_as_argument(parser)
    add_remote_argument(parser, "read both parts of a log")
    add_bucket_arguments(parser)
    add_offset_argument(parser)
    parser.add_argument(
        "-c", dest="count", type=record_count, metavar="N", help="stop after N records"
    )
    parser.add_argument(
        "-e",
        dest="say_end",
        action="store_true",
        help="report the end of the partition, as kcat does",
    )
    parser.add_argument("-q", dest="quiet", action="store_true", help="no messages on stderr")
    parser.add_argument("--no-check-crcs", action="store_true", help="read without checking CRCs")
    parser.add_argument(
        "--skip-damaged",
        action="store_true",
        help="read on after damage; stderr lists the offsets that were left out",
    )
    add_isolation_argument(parser)
    add_format_arguments(parser, "-f")


def run(arguments: argparse.Namespace) -> int:
    """Print the records of the selected partitions, one after the other."""
    to_text = formatter_of(arguments)
    span = combined(arguments.offsets)
    left: int | None = arguments.count
    logs = printed_nothing_of = code = 0
    for readable in readable_logs(arguments.paths, arguments):
        if left == 0:
            break
        with readable.open() as log:
            logs += 1
            say_warnings(log, quiet=arguments.quiet)
            goes_on = arguments.skip_damaged and log.report.damage is not None
            problem = None if goes_on else out_of_range(span, log)
            if problem is not None and not arguments.quiet:
                say(f"segstore: {problem}")
            printed_nothing_of += problem is not None and span.resolve(log)[0] == log.log_end_offset
            printed, behind = 0, None
            chunk = []
            shown = scan_of(log, span, arguments)
            try:
                for record in shown:
                    chunk.append(to_text(record))
                    printed += 1
                    if printed == left:
                        behind = record.offset + 1
                        break
                    if len(chunk) == OUTPUT_RECORDS:
                        write(b"".join(chunk))
                        chunk.clear()
            finally:
                write(b"".join(chunk))  # what is good comes out, also before damage
            if left is not None:
                left -= printed
            code = max(code, say_what_is_hidden(log, span, shown, behind))
            if left != 0 and not arguments.quiet:
                _say_end(log, arguments, span, is_of_bucket=readable.is_of_bucket)
    return 1 if 0 < logs == printed_nothing_of else code


def _say_end(
    log: Log | LoneSegment,
    arguments: argparse.Namespace,
    span: OffsetRange,
    *,
    is_of_bucket: bool,
) -> None:
    import segstore

    is_committed = arguments.isolation == "read_committed"
    if isinstance(log, segstore.Log):
        if is_committed:
            say_committed_end(log, span.resolve(log)[1], is_of_bucket=is_of_bucket)
    else:
        _say_what_files_lack(log, span, is_committed=is_committed)
    if arguments.say_end:
        topic, partition = log.topic_partition
        end = log.last_stable_offset if is_committed else log.log_end_offset
        say(f"% Reached end of topic {topic} [{partition}] at offset {end}")


def _say_what_files_lack(segment: LoneSegment, span: OffsetRange, *, is_committed: bool) -> None:
    """Say which offsets are between two files alone, and where their transactions end."""
    start, end = span.resolve(segment)
    for first, following in segment.holes:
        if first < end and following > start:
            say(
                f"segstore: {segment.path}: no file has a record of offsets {first} to"
                f" {following - 1}: a segment is missing, or compaction has removed them"
            )
    if is_committed and segment.last_stable_offset < end:
        say(
            f"segstore: {segment.path}: committed records end at offset"
            f" {segment.last_stable_offset}: a transaction begins there, and the files have no end"
            " marker of it"
        )


def say_what_is_hidden(
    log: Log | LoneSegment, span: OffsetRange, shown: LogScan, behind: int | None = None
) -> int:
    """Say on stderr what *shown* has left out, or that *log* ends at damage; return the code.

    *behind* is the offset where the printing ended, None where it went to the end of *shown*.
    """
    skipped, damage = shown.skipped, log.report.damage
    if behind is not None:  # a scan looks ahead
        skipped = tuple(one for one in skipped if one.first_offset < behind)
        damage = None
    for lost in skipped[:MOST_RANGES]:
        say(f"segstore: {log.path}: left out: {lost}")
    if skipped[MOST_RANGES:]:
        say(f"segstore: {log.path}: left out: {len(skipped) - MOST_RANGES} more ranges")
    if skipped:
        return 1
    if damage is None or (span.end_timestamp is not None and shown.end_offset < log.log_end_offset):
        return 0
    way_on = "" if shown.end_offset > log.log_end_offset else "; --skip-damaged reads on after it"
    say(f"segstore: {log.path}: {damage}{way_on}")
    return 1


def scan_of(log: Log | LoneSegment, span: OffsetRange, arguments: argparse.Namespace) -> LogScan:
    """Return the records of *log* within *span*."""
    start, end = span.resolve(log, skips=arguments.skip_damaged)
    is_to_end = span.end_timestamp is None or end == log.log_end_offset
    return log.scan(
        start,
        None if is_to_end else max(start, end),
        check_crcs=not arguments.no_check_crcs,
        isolation=arguments.isolation,
        on_damage="skip" if arguments.skip_damaged else "raise",
    )


def add_isolation_argument(parser: argparse.ArgumentParser) -> None:
    """Add what decides about the records of transactions."""
    parser.add_argument(
        "--isolation",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed: up to the last stable offset, without aborted transactions",
    )


def record_count(text: str) -> int:
    """Read a count of records, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no count")
    return int(text)
