"""``segstore move``: move partitions to another log directory, as to a new disk."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from segstore.cli.output import Progress, UsageError, write_line
from segstore.cli.partition_paths import add_log_dir_argument, add_wait_argument
from segstore.log.files.partition_directory import parse_directory_name

if TYPE_CHECKING:
    import argparse


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Move partitions with their records and settings to another log directory. Each partition "
        "is in one of the two at any time, also after a kill: the next open of both for writing "
        "ends the move. The command locks the directories: a program that has them open calls "
        "LogManager.move_partition instead. It needs only the two directories of a move. To move "
        "to a new directory, or after a crash, name with --log-dir all others that the topics lie "
        "in. Else the new one may be a disk that is not mounted, and an unfinished change of a "
        "topic is not finished in all of them."
    )
    parser.add_argument(
        "paths", metavar="PARTITION", nargs="+", help="a partition's directory, as /disk1/orders-0"
    )
    parser.add_argument("target", metavar="DIR", help="the log directory they go to")
    add_log_dir_argument(parser)
    add_wait_argument(parser)
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Move one partition after the other; the first error ends it."""
    import segstore

    target = os.path.realpath(arguments.target)
    directories: dict[str, str] = {}  # by what they are without links: each is opened once
    moves = []
    for path in arguments.paths:
        _require_directory(path)
        above, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - it resolves no links
        if os.path.realpath(above) == target:
            raise UsageError(f"{path} lies in {arguments.target} already")
        directories[os.path.realpath(above)] = above
        moves.append((path, parse_directory_name(name)))
    for other in arguments.others:
        _require_directory(other)
        directories[os.path.realpath(other)] = other
    directories[target] = arguments.target
    with (
        Progress(quiet=arguments.quiet) as progress,
        segstore.open_dir([*directories.values()], lock_timeout=arguments.wait) as logs,
    ):
        for error in logs.offline_directories().values():
            raise error  # nothing is moved beside a directory that cannot be opened
        for path, (topic, partition) in moves:
            moved = logs.move_partition(
                topic, partition, arguments.target, progress=partial(progress, path)
            )
            write_line(f"{path} -> {moved}")
    return 0


def _require_directory(path: str) -> None:
    if not os.path.isdir(path):  # noqa: PTH112 - as it was typed
        raise UsageError(f"{path} is no directory")
