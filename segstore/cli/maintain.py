"""``segstore maintain``: let a log directory look after itself while no program has it open."""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from segstore.cli.output import (
    Progress,
    count_of,
    human_bytes,
    human_time,
    say,
    write_line,
)
from segstore.cli.partition_paths import (
    add_log_dir_argument,
    add_metadata_log_argument,
    add_remote_argument,
    add_wait_argument,
    log_dirs,
    opened_together,
)
from segstore.cli.policy_text import keys_and_values
from segstore.errors import SegstoreError
from segstore.log.retention_plan import RetentionLimit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segstore.manager.log_manager import LogManager
    from segstore.manager.maintenance_report import MaintenanceReport, SegmentDeletion

LONGEST_SLEEP_SECONDS: Final = 60.0
_LIMITS: Final = {
    RetentionLimit.LOG_START_OFFSET: "its records were deleted",
    RetentionLimit.RETENTION_BYTES: "retention.bytes",
    RetentionLimit.RETENTION_MS: "retention.ms",
}


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Delete what the retention settings of topics no longer keep, compact topics with "
        "cleanup.policy=compact, write checkpoints, sync and remove files on time, until Ctrl-C or "
        "SIGTERM. With --remote, sealed segments of tiered topics are copied there. Each "
        "deleted segment, each pass of compaction, and what is copied of a partition, is a line on "
        "stdout. A topic without retention.ms or retention.bytes keeps all records. The command "
        "locks the directory: a program that has it open calls LogManager.maintain instead."
    )
    parser.add_argument("path", metavar="DIR", help="a log directory")
    add_log_dir_argument(parser)
    add_metadata_log_argument(parser)
    add_remote_argument(parser, "copy sealed segments there, and delete what expired there")
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting in Kafka's keys, as in a broker's server.properties: a default of topics"
        " that were not given it, such as retention.ms=-1, or of this work, such as"
        " log.retention.check.interval.ms=60000 or log.cleaner.threads=2; repeat it for more",
    )
    add_wait_argument(parser)
    parser.add_argument("--once", action="store_true", help="do what is due now, and end")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Do passes until Ctrl-C or SIGTERM; with ``--once`` 1 when something has failed."""
    directories = log_dirs(arguments)
    config = keys_and_values(arguments.config)
    with (
        _sigterm_as_ctrl_c(),
        opened_together(
            directories,
            arguments,
            config=config,
            lock_timeout=arguments.wait,
            remote=arguments.remote,
        ) as logs,
    ):
        with suppress(SegstoreError):  # settings that cannot be read: the pass says so
            _say_what_deletes(logs)
        while True:
            with Progress(quiet=arguments.quiet) as progress:
                report = logs.maintain(
                    progress=lambda one, done, total: progress(f"{one} to remote", done, total)
                )
            _show(report)
            if arguments.once:
                break
            time.sleep(min(max(report.due_in_ms / 1000, 0.01), LONGEST_SLEEP_SECONDS))
        size = sum(one.segment.size_bytes for one in report.deleted)
        text = f"{count_of(len(report.deleted), 'segment')} deleted, {human_bytes(size)}"
        if report.cleaned:
            stats = [one.stats for one in report.cleaned]
            saved = sum(one.bytes_read - one.bytes_written for one in stats)
            count = len({one.topic_partition for one in report.cleaned})
            text += f"; {count_of(count, 'partition')} compacted, {human_bytes(saved)} less"
        if report.copied:
            size = sum(one.size_bytes for one in report.copied)
            text += f"; {human_bytes(size)} copied to remote storage"
        write_line(text)
    return 1 if report.failed else 0


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Let the signal that ends services do what Ctrl-C does: the directory is closed [DUR-24]."""
    if threading.current_thread() is not threading.main_thread():  # it can set no handler
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _say_what_deletes(logs: LogManager) -> None:
    """Say that nothing deletes, or that Kafka's default does, which a broker's file may replace."""
    from segstore.manager.topic_description import SettingSource

    settings = {
        topic: {one.name: one for one in logs.describe_topic(topic).settings}
        for topic in logs.topics()
    }
    limits = ("retention.ms", "retention.bytes")
    is_compacted = any("compact" in str(one["cleanup.policy"].value) for one in settings.values())
    has_limit = any(one[key].value not in {None, -1} for one in settings.values() for key in limits)
    if not (has_limit or is_compacted):
        say("segstore: no topic here has retention.ms or retention.bytes, so nothing is deleted")
    by_default = [
        name
        for name, topic in settings.items()
        if topic["retention.ms"].source is SettingSource.DEFAULT
    ]
    if by_default:
        say(
            "segstore: the metadata log has no retention.ms of these topics, so Kafka's default of"
            f" 7 days deletes: {', '.join(by_default)}. Nothing here reads the broker's"
            " server.properties: give its limit with --config retention.ms=MS, -1 is none"
        )


def _show(report: MaintenanceReport) -> None:
    for deletion in report.deleted:
        write_line(deletion_text(deletion))
    for done in (*report.cleaned, *report.copied, *report.expired):
        write_line(str(done))
    for failed in report.failed:
        say(f"segstore: {failed}")
    sys.stdout.flush()


def deletion_text(deletion: SegmentDeletion) -> str:
    """Return the line of one deleted segment."""
    segment = deletion.segment
    limit = _LIMITS[segment.limit]
    if segment.is_local and segment.limit is not RetentionLimit.LOG_START_OFFSET:
        limit = f"local.{limit}"
    latest = f"latest record {human_time(segment.largest_timestamp)}"
    if not segment.has_timestamp:
        latest = f"no record has a time, file {human_time(segment.largest_timestamp)}"
    return (
        f"{deletion.topic_partition}: deleted offsets {segment.base_offset} to"
        f" {segment.next_offset - 1}, {human_bytes(segment.size_bytes)}, by {limit}; {latest}"
    )
