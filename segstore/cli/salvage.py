"""``segstore salvage``: copy what can be proven of a damaged log into a new one."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from segstore.cli.output import Progress, say, write_line
from segstore.cli.partition_paths import add_as_argument, all_partitions
from segstore.errors import SegstoreError

if TYPE_CHECKING:
    import argparse


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Copy every batch that can be proven, also after damage, into a new log, and report "
        "which bytes and offsets are lost. The damaged log is only read. Each new log is "
        "complete or absent. Exit code 1 when something is lost."
    )
    parser.add_argument("path", metavar="PATH", help="a partition's directory, or a log directory")
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="the new partition's directory, or the log directory for the new partitions",
    )
    add_as_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Salvage one partition, or all of a log directory one after the other."""
    paths = all_partitions(arguments.path, arguments.as_)
    is_one = paths == [arguments.path]
    code = 0
    with Progress(quiet=arguments.quiet) as progress:
        for path in paths:
            name = os.path.basename(path)  # noqa: PTH119 - the path as it was given
            target = arguments.target if is_one else f"{arguments.target}/{name}"
            try:
                code = max(code, _salvage(path, target, progress, arguments))
            except (SegstoreError, OSError) as error:
                if is_one:
                    raise
                say(f"segstore: {error}")  # the partitions beside it are salvaged all the same
                code = 1
    return code


def _salvage(path: str, target: str, progress: Progress, arguments: argparse.Namespace) -> int:
    import segstore

    report = segstore.salvage(path, target, progress=progress, as_=arguments.as_)
    if arguments.json:
        write_line(json.dumps({"path": path, **report.to_dict()}))
    else:
        write_line("\n  ".join([f"{path} -> {target}:", *str(report).splitlines()]))
    return 0 if report.complete and not report.may_lack_end else 1
