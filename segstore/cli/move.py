"""``segstore move``: move partitions to another log directory, as to a new disk."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from segstore.cli.output import Progress, UsageError, write_line
from segstore.log.files.partition_directory import parse_directory_name

if TYPE_CHECKING:
    import argparse


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Move partitions with their records and settings to another log directory. Each partition "
        "is in one of the two at any time, also after a kill: the next open of both for writing "
        "ends the move. The command locks both directories: a program that has them open calls "
        "LogManager.move_partition instead."
    )
    parser.add_argument(
        "paths", metavar="PARTITION", nargs="+", help="a partition's directory, as /disk1/orders-0"
    )
    parser.add_argument("target", metavar="DIR", help="the log directory they go to")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Move one partition after the other; the first error ends it."""
    import segstore

    with Progress(quiet=arguments.quiet) as progress:
        for path in arguments.paths:
            if not os.path.isdir(path):  # noqa: PTH112 - as it was typed
                raise UsageError(f"{path} is no directory")
            above, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - it resolves no links
            topic, partition = parse_directory_name(name)
            with segstore.open_dir([above, arguments.target]) as logs:
                moved = logs.move_partition(
                    topic, partition, arguments.target, progress=partial(progress, path)
                )
            write_line(f"{path} -> {moved}")
    return 0
