"""``segstore verify``: check every batch, index entry and checkpoint; nothing is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from segstore.cli.output import Progress, count_of, human_bytes, write_line
from segstore.cli.partition_paths import all_partitions

if TYPE_CHECKING:
    import argparse

    from segstore.cli.check_result import PartitionCheck


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Check every batch (bounds, CRC, order), both indexes of each segment against "
        "its batches and, byte by byte, against its checksum sidecar (.segsum) where it has one, "
        "and the small files beside them; name what opens for writing took out of "
        "the log and kept in quarantine files. Nothing is written. Exit code 1 when something is "
        "wrong with the log."
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a partition's directory, or a log directory"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Check the partitions one after the other; 1 when any has a finding."""
    from segstore.cli.partition_check import check_partition

    found = False
    with Progress(quiet=arguments.quiet) as progress:
        for given in arguments.paths:
            for path in all_partitions(given):
                check = check_partition(path, progress)
                if arguments.json:
                    write_line(json.dumps(check.to_dict()))
                else:
                    write_line(check_text(check))
                found = found or bool(check.findings)
    return 1 if found else 0


def check_text(check: PartitionCheck) -> str:
    """Return what a person reads about one partition."""
    verdict = count_of(len(check.findings), "finding") if check.findings else "clean"
    if any(file.batches for file in check.quarantined):
        if not check.findings:
            verdict = "no finding in the log itself"
        verdict += ", but records were taken out of it"
    summary = (
        f"{check.path}: {verdict}; offsets {check.log_start_offset} to {check.log_end_offset}, "
        f"{count_of(check.segments, 'segment')}, {count_of(check.batches, 'batch', 'batches')}, "
        f"{count_of(check.records, 'record')}, {human_bytes(check.size_bytes)}"
    )
    if check.sidecars:
        summary += f"; {count_of(check.sidecars, 'segment')} compared with checksum sidecars"
    lines = [summary, *(f"  {finding}" for finding in check.findings)]
    lines += [f"  quarantine: {file}" for file in check.quarantined]
    lines += [f"  note: {note}" for note in check.notes]
    return "\n".join(lines)
