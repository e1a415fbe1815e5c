"""``segstore scrub``: read the sealed segments from the disk itself, slowly; nothing is written."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from segstore.cli.output import Progress, UsageError, count_of, human_bytes, write_line
from segstore.cli.partition_paths import all_partitions
from segstore.errors import LogTruncatedError
from segstore.log.check.stable_read import MAX_ATTEMPTS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from segstore.log.check.log_verifier import VerifyReport

MEBIBYTE = 1024 * 1024


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Read all segments but the active one from the disk itself, past what the system has in "
        "memory, not faster than allowed, and check every batch and index entry, and each byte "
        "where a segment has a checksum sidecar (.segsum): to find out that "
        "a disk loses bits while another copy is there. A log may be in use. Nothing is written. "
        "Exit code 1 when something is wrong."
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a partition's directory, or a log directory"
    )
    parser.add_argument(
        "--rate", type=int, default=64, metavar="MIB", help="MiB a second, 0: no limit (64)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Scrub the partitions one after the other; 1 when any has a problem."""
    if arguments.rate < 0:
        msg = f"--rate: MiB a second, 0 for no limit, not {arguments.rate}"
        raise UsageError(msg)
    rate = arguments.rate * MEBIBYTE or None
    found = False
    with Progress(quiet=arguments.quiet) as progress:
        for given in arguments.paths:
            for path in all_partitions(given):
                report = scrub_partition(path, rate, partial(_report, progress, path))
                values = {"path": path, **report.to_dict()}
                write_line(json.dumps(values) if arguments.json else scrub_text(path, report))
                found = found or not report.ok
    return 1 if found else 0


def scrub_partition(
    path: str, rate: int | None, progress: Callable[[str, int, int], None]
) -> VerifyReport:
    """Open the partition and scrub it; again where its writer cut it meanwhile."""
    from segstore.log.open_log import open as open_log

    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(LogTruncatedError), open_log(path, read_only=True) as log:
            return log.scrub(bytes_per_second=rate, progress=progress)
    with open_log(path, read_only=True) as log:
        return log.scrub(bytes_per_second=rate, progress=progress)


def _report(progress: Progress, path: str, _what: str, done: int, total: int) -> None:
    progress(path, done, total)


def scrub_text(path: str, report: VerifyReport) -> str:
    """Return what a person reads about one partition."""
    verdict = "clean" if report.ok else count_of(len(report.problems), "finding")
    rate = report.size_bytes / max(report.seconds, 1e-6)
    summary = (
        f"{path}: {verdict}; {count_of(len(report.segments), 'sealed segment')}, "
        f"{count_of(report.batches, 'batch', 'batches')}, {count_of(report.records, 'record')}, "
        f"{human_bytes(report.size_bytes)}, {human_bytes(int(rate))} a second"
    )
    if report.sidecars:
        summary += f"; {count_of(report.sidecars, 'segment')} compared with checksum sidecars"
    lines = [summary, *(f"  {problem}" for problem in report.problems)]
    if not report.ok:
        lines.append(f"  segstore verify {path} says what each means and what to do")
    lines += [f"  note: {note}" for note in report.notes]
    return "\n".join(lines)
