"""``segstore tail``: the last records of a partition, and those that follow."""

from __future__ import annotations

import shlex
import sys
import time
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING

from segstore.cli.cat import add_isolation_argument, record_count
from segstore.cli.output import say, say_warnings, write
from segstore.cli.partition_paths import (
    add_as_argument,
    add_partition_arguments,
    selected_partitions,
)
from segstore.cli.record_format import add_format_arguments, formatter_of
from segstore.cli.transaction_text import say_committed_end
from segstore.errors import LogTruncatedError, OffsetOutOfRangeError
from segstore.log.damage_errors import DAMAGE
from segstore.types import Isolation

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Literal

    from segstore._core import Record
    from segstore.errors import SegstoreError
    from segstore.log.unified_log import Log

POLL_SECONDS = 0.05
DEFAULT_RECORDS = 10


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Print the last records of a partition; with -f also those that another "
        "process appends from now on. Nothing is written and no lock is taken."
    )
    add_partition_arguments(parser)
    add_as_argument(parser)
    parser.add_argument("-F", "-f", dest="follow", action="store_true", help="follow until Ctrl-C")
    parser.add_argument(
        "-n",
        dest="last",
        type=record_count,
        default=DEFAULT_RECORDS,
        metavar="N",
        help="begin with the last N records (default %(default)s)",
    )
    parser.add_argument(
        "-c", dest="count", type=record_count, metavar="N", help="stop after N records"
    )
    add_isolation_argument(parser)
    add_format_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the last records of each partition, then follow all of them."""
    import segstore

    to_text = formatter_of(arguments)
    left: int | None = arguments.count
    isolation = Isolation(arguments.isolation)
    with ExitStack() as stack:
        logs = [
            stack.enter_context(segstore.open(path, read_only=True, as_=arguments.as_))
            for path in selected_partitions(arguments.path, arguments.topic, arguments.partition)
        ]
        next_offsets = []
        for log in logs:
            end = log.scan(isolation=isolation).end_offset
            records, damage = last_records(log, end, arguments.last, isolation)
            for record in records[:left]:
                write(to_text(record))
            if damage is not None:
                raise damage
            left = None if left is None else left - len(records[:left])
            next_offsets.append(end)
            _say_end(log, arguments)
            if left == 0:
                break
        while arguments.follow and left != 0:
            sys.stdout.flush()  # whoever reads a pipe sees a record as soon as it is there
            idle = True
            for number, log in enumerate(logs):
                for record in new_records(log, next_offsets, number, isolation):
                    write(to_text(record))
                    idle = False
                    left = None if left is None else left - 1
                    if left == 0:
                        return 0
            if idle:
                time.sleep(POLL_SECONDS)
    shown = logs[: len(next_offsets)]
    return 1 if any(log.report.damage is not None for log in shown) else 0


def _say_end(log: Log, arguments: argparse.Namespace) -> None:
    say_warnings(log)
    if log.report.damage is not None:
        way_on = f"`segstore cat --skip-damaged {shlex.quote(log.path)}` reads on after it"
        say(f"segstore: {log.path}: {log.report.damage}; {way_on}")
    if arguments.isolation == "read_committed" and not arguments.follow:
        say_committed_end(log, log.log_end_offset)


def new_records(
    log: Log, next_offsets: list[int], number: int, isolation: Isolation
) -> Iterator[Record]:
    """Yield what came to *log* since the last call; move its entry of *next_offsets* on.

    Records that are deleted before they were printed, or cut off by a truncation, are named on
    stderr: the reader goes on with what there is.
    """
    try:
        for record in log.tail(next_offsets[number], timeout=0, isolation=isolation):
            next_offsets[number] = record.offset + 1
            yield record
    except (OffsetOutOfRangeError, LogTruncatedError) as error:
        going_on = min(max(next_offsets[number], log.log_start_offset), log.log_end_offset)
        say(f"segstore: {log.topic_partition}: {error}; going on at offset {going_on}")
        next_offsets[number] = going_on


def last_records(
    log: Log, end_offset: int, count: int, isolation: Isolation
) -> tuple[list[Record], SegstoreError | None]:
    """Return the last *count* records below *end_offset*, and what is wrong with the log there.

    They are the last that can be read, where damage is met.
    """
    try:
        return _last(log, end_offset, count, isolation, "raise"), None
    except DAMAGE as error:
        return _last(log, end_offset, count, isolation, "skip"), error


def _last(
    log: Log, end_offset: int, count: int, isolation: Isolation, on_damage: Literal["raise", "skip"]
) -> list[Record]:
    """Look further back until there are enough: compaction leaves offsets without a record."""
    span = count
    while count > 0:
        start = max(log.log_start_offset, end_offset - span)
        scan = log.scan(start, end_offset, isolation=isolation, on_damage=on_damage)
        found = deque(scan, maxlen=count)
        if len(found) == count or start == log.log_start_offset:
            return list(found)
        span *= 4
    return []
