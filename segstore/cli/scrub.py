"""``segstore scrub``: check everything, from the disk itself, slowly; nothing is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from segstore.cli.output import Progress, UsageError, human_bytes, write_line
from segstore.cli.partition_paths import add_as_argument, all_partitions, read_as
from segstore.cli.verify import check_text

if TYPE_CHECKING:
    import argparse

MEBIBYTE = 1024 * 1024


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Check what verify checks, but read the .log files from the disk itself, not from the "
        "page cache, at most at --rate. So you find a disk that loses bits while another copy "
        "exists. The log may be in use. Nothing is written. Exit code 1 when something is wrong."
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a partition's directory, or a log directory"
    )
    add_as_argument(parser)
    parser.add_argument(
        "--rate", type=int, default=64, metavar="MIB", help="MiB/s, 0 = no limit (default 64)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Scrub the partitions one after the other; 1 when any has a finding."""
    from segstore.log.check.partition_check import check_partition
    from segstore.log.check.uncached_scan import UncachedScan

    if arguments.rate < 0:
        msg = f"--rate: MiB a second, 0 for no limit, not {arguments.rate}"
        raise UsageError(msg)
    rate = arguments.rate * MEBIBYTE or None
    found, as_ = False, read_as(arguments.as_)
    with Progress(quiet=arguments.quiet) as progress:
        for given in arguments.paths:
            for path in all_partitions(given, arguments.as_):
                report = check_partition(path, progress, scan_segment=UncachedScan(rate), as_=as_)
                if arguments.json:
                    write_line(json.dumps(report.to_dict()))
                else:
                    speed = human_bytes(int(report.size_bytes / max(report.seconds, 1e-6)))
                    write_line(check_text(report, f"{speed} a second"))
                found = found or not report.ok
    return 1 if found else 0
