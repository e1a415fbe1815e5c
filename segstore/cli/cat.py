"""``segstore cat``: print the records of a partition, with kcat's habits."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from segstore.cli.offset_range import add_offset_argument, combined, out_of_range
from segstore.cli.output import say, say_warnings, write
from segstore.cli.partition_paths import add_partition_arguments, selected_partitions
from segstore.cli.record_format import add_format_arguments, formatter_of
from segstore.cli.transaction_text import say_committed_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Record
    from segstore.cli.offset_range import OffsetRange
    from segstore.log.unified_log import Log
    from segstore.types import IsolationName

OUTPUT_RECORDS = 1000


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Print the records of a partition up to its end as of now. Nothing is written "
        "to it and no lock is taken: it may be a broker's or another process's. Exit code 1 when "
        "the log ends at damage and records may follow."
    )
    add_partition_arguments(parser)
    add_offset_argument(parser)
    parser.add_argument(
        "-c", dest="count", type=record_count, metavar="N", help="stop after N records"
    )
    parser.add_argument(
        "-e", dest="say_end", action="store_true", help="say where the end was, as kcat does"
    )
    parser.add_argument("-q", dest="quiet", action="store_true", help="say nothing on stderr")
    parser.add_argument(
        "--no-check-crcs", action="store_true", help="trust the bytes: read without checking CRCs"
    )
    add_isolation_argument(parser)
    add_format_arguments(parser, "-f")


def run(arguments: argparse.Namespace) -> int:
    """Print the records of the selected partitions, one after the other."""
    import segstore

    to_text = formatter_of(arguments)
    span = combined(arguments.offsets)
    left: int | None = arguments.count
    logs = printed_nothing_of = code = 0
    for path in selected_partitions(arguments.path, arguments.topic, arguments.partition):
        if left == 0:
            break
        with segstore.open(path, read_only=True) as log:
            logs += 1
            say_warnings(log, quiet=arguments.quiet)
            problem = out_of_range(span, log)
            if problem is not None and not arguments.quiet:
                say(f"segstore: {problem}")
            printed_nothing_of += problem is not None and span.resolve(log)[0] == log.log_end_offset
            printed = 0
            chunk = []
            try:
                shown = records(
                    log,
                    span,
                    check_crcs=not arguments.no_check_crcs,
                    isolation=arguments.isolation,
                )
                for record in shown:
                    if printed == left:
                        break
                    chunk.append(to_text(record))
                    printed += 1
                    if len(chunk) == OUTPUT_RECORDS:
                        write(b"".join(chunk))
                        chunk.clear()
            finally:
                write(b"".join(chunk))  # what is good comes out, also before damage
            if left is not None:
                left -= printed
            if left != 0 and hides_records(log, span):
                code = 1
            if left != 0 and not arguments.quiet:
                _say_end(log, arguments, span)
    return 1 if 0 < logs == printed_nothing_of else code


def _say_end(log: Log, arguments: argparse.Namespace, span: OffsetRange) -> None:
    is_committed = arguments.isolation == "read_committed"
    if is_committed:
        say_committed_end(log, span.resolve(log)[1])
    if arguments.say_end:
        topic, partition = log.topic_partition
        end = log.last_stable_offset if is_committed else log.log_end_offset
        say(f"% Reached end of topic {topic} [{partition}] at offset {end}")


def hides_records(log: Log, span: OffsetRange) -> bool:
    """Say on stderr that *log* ends at damage, when *span* reaches that far; returns whether."""
    damage = log.report.damage
    if damage is None or span.resolve(log)[1] < log.log_end_offset:
        return False
    say(f"segstore: {log.path}: {damage}")
    return True


def records(
    log: Log,
    span: OffsetRange,
    *,
    check_crcs: bool,
    isolation: IsolationName = "read_uncommitted",
) -> Iterator[Record]:
    """Iterate over the records of *log* within *span*."""
    start, end = span.resolve(log)
    return iter(log.scan(start, end, check_crcs=check_crcs, isolation=isolation))


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
