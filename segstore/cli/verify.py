"""``segstore verify``: check every batch, index entry and checkpoint; nothing is written."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from segstore.cli.bucket_paths import add_bucket_arguments, bucket_at
from segstore.cli.output import Progress, count_of, human_bytes, write_line
from segstore.cli.partition_paths import add_as_argument, all_partitions, read_as
from segstore.cli.transaction_text import hanging_notes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segstore.cli.bucket_paths import BucketPath
    from segstore.errors import SegstoreError
    from segstore.log.check.verify_report import VerifyReport
    from segstore.remote.tiered.partition_verify import BucketVerifyReport


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Check every batch (bounds, CRC, order), both indexes of each segment, and the "
        "small files. Compare each segment byte by byte with its checksum sidecar (.segsum), if it "
        "has one. List the quarantine files, which keep bytes that opens took out of the log. "
        "Nothing is written. Of a log directory, topics.json is checked too. Exit code 1 when "
        "something is wrong with the log. docs/operations.md explains each code and what to do. Of "
        "a tiered bucket every complete segment is fetched and checked, and left-out ones are "
        "listed."
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a partition's directory, or a log directory; or the folder or URL of a tiered bucket",
    )
    add_as_argument(parser)
    add_bucket_arguments(parser, reads_logs=False)
    parser.add_argument("--json", action="store_true", help="one JSON object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Check the partitions one after the other; 1 when any has a finding."""
    from segstore.log.check.partition_check import check_partition

    found, as_ = False, read_as(arguments.as_)
    with Progress(quiet=arguments.quiet) as progress:
        for given in arguments.paths:
            bucket = bucket_at(given, arguments)
            if bucket is not None:
                for in_bucket in _verified(bucket, progress):
                    row = in_bucket.to_dict()
                    write_line(json.dumps(row) if arguments.json else str(in_bucket))
                    found = found or not in_bucket.ok
                continue
            error = _error_of_topics(given)
            if error is not None:
                row = {"path": error.file, "error": str(error)}
                write_line(json.dumps(row) if arguments.json else str(error))
                found = True
            for path in all_partitions(given, arguments.as_):
                report = check_partition(path, progress, as_=as_)
                report.notes += hanging_notes(path, arguments.as_)
                write_line(json.dumps(report.to_dict()) if arguments.json else check_text(report))
                found = found or not report.ok
    return 1 if found else 0


def _verified(bucket: BucketPath, progress: Progress) -> Iterator[BucketVerifyReport]:
    """Check the partitions of a bucket; what cannot be listed is a report of that."""
    from segstore.errors import SegstoreError
    from segstore.remote.tiered.partition_verify import BucketVerifyReport

    for partition in bucket.partitions():
        try:
            yield bucket.bucket.verify(*partition, progress)
        except SegstoreError as error:
            yield BucketVerifyReport(path=bucket.url_of(partition), problems=[str(error)])


def _error_of_topics(path: str) -> SegstoreError | None:
    """Return why ``topics.json`` of a log directory cannot be used; None without a fault."""
    from segstore._core import Directory
    from segstore.errors import SegstoreError
    from segstore.log.files.topics_file import UNREADABLE_TOPICS, read_topics_file

    try:
        with closing(Directory(path)) as directory:
            read_topics_file(directory)
    except UNREADABLE_TOPICS as error:
        return error
    except SegstoreError:  # the directory itself: the look for partitions reports it
        return None
    return None


def check_text(report: VerifyReport, more: str = "") -> str:
    """Return what a person reads about one partition; *more* ends the first line."""
    from segstore.log.findings.finding_text import finding_text

    verdict = "clean" if report.ok else count_of(len(report.findings), "finding")
    if any(file.batches for file in report.quarantined):
        if report.ok:
            verdict = "no finding in the log itself"
        verdict += ", but records were taken out of it"
    summary = (
        f"{report.path}: {verdict}; offsets {report.log_start_offset} to {report.log_end_offset}, "
        f"{count_of(len(report.segments), 'segment')}, "
        f"{count_of(report.batches, 'batch', 'batches')}, "
        f"{count_of(report.records, 'record')}, {human_bytes(report.size_bytes)}"
    )
    if report.sidecars:
        summary += f"; {count_of(report.sidecars, 'segment')} compared with checksum sidecars"
    if more:
        summary += f"; {more}"
    lines = [f"  {finding_text(finding, report.path)}" for finding in report.findings]
    lines += [f"  quarantine: {file}" for file in report.quarantined]
    lines += [f"  note: {note}" for note in report.notes]
    return "\n".join([summary, *lines])
