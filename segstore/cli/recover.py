"""``segstore recover``: open for writing, which repairs what a crash left, and tell about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from segstore.cli.output import Progress, write_line
from segstore.cli.partition_paths import all_partitions

if TYPE_CHECKING:
    import argparse

    from segstore.log.recovery_report import RecoveryReport


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Open a partition for writing, as a program does after a crash: check what was "
        "not yet safe, cut a torn tail (a copy is kept), rebuild indexes, close cleanly. Exit code "
        "1 when bytes were cut or set aside, or would be."
    )
    parser.add_argument("path", metavar="PATH", help="a partition's directory, or a log directory")
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing, say what would be done"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Recover, or only check, the partitions one after the other."""
    with Progress(quiet=arguments.quiet) as progress:
        work = _foretell if arguments.dry_run else _recover
        codes = [
            work(path, progress, as_json=arguments.json) for path in all_partitions(arguments.path)
        ]
    return max(codes)


def _recover(path: str, progress: Progress, *, as_json: bool) -> int:
    import segstore

    with segstore.open(path, progress=progress) as log:
        report = log.report
    if as_json:
        write_line(json.dumps({"path": path, **report.to_dict()}))
    else:
        write_line("\n  ".join([f"{path}:", *str(report).splitlines()]))
    return 1 if changed_records(report) else 0


def changed_records(report: RecoveryReport) -> bool:
    """Whether bytes of records were cut or set aside: more than a rebuilt index."""
    return report.truncated_bytes > 0 or bool(report.set_aside)


def _foretell(path: str, progress: Progress, *, as_json: bool) -> int:
    """Say what an open for writing would meet, by checking everything."""
    from segstore.cli.partition_check import check_partition
    from segstore.cli.verify import check_text

    check = check_partition(path, progress)
    if as_json:
        write_line(json.dumps(check.to_dict()))
    else:
        write_line(check_text(check))
        if check.findings:
            write_line("nothing was written; without --dry-run what can be repaired is repaired")
        else:
            write_line("there is nothing to repair")
    return 1 if check.findings else 0
