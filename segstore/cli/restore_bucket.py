"""``segstore restore-bucket``: write partitions of a tiered bucket as a broker's directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.cli.bucket_paths import add_bucket_arguments
from segstore.cli.output import Progress, UsageError, count_of, human_bytes, say, write_line
from segstore.cli.partition_paths import partition_number

if TYPE_CHECKING:
    import argparse

    from segstore.remote.bucket_restore import RestoreReport


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Write partitions of a bucket, which brokers with Aiven's tiered storage plug-in filled, "
        "as directories that a broker opens: segments and indexes byte for byte, producers, leader "
        "epochs and checkpoints. A partition appears when all of it is written, durable and "
        "checked. After an interruption, the same command goes on. A partition that is there "
        "already is checked when this command wrote it, else it is not changed: exit code 1. "
        "No broker may use the log directory meanwhile."
    )
    parser.add_argument(
        "source", metavar="BUCKET", help="folder or URL, as s3://bucket/prefix, with the topics"
    )
    parser.add_argument("target", metavar="DIR", help="the log directory")
    parser.add_argument(
        "-t", "--topic", action="append", help="only this topic; can be repeated (default: all)"
    )
    parser.add_argument(
        "-p",
        "--partition",
        type=partition_number,
        action="append",
        help="only this partition of each topic; can be repeated (default: all)",
    )
    parser.add_argument(
        "--topic-id",
        action="append",
        default=[],
        metavar="TOPIC=ID",
        help="the id that the topic has in the cluster of the broker, as kafka-topics --describe "
        "prints it: for another cluster, where all batches get the leader epoch 0; without, the "
        "partitions keep the id and the epochs of the bucket",
    )
    add_bucket_arguments(parser, reads_logs=False)
    parser.add_argument(
        "--below-log-start",
        action="store_true",
        help="restore deleted records too, as far as the bucket still has them",
    )
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Restore one partition after the other; 1 when any could not be restored."""
    from segstore.remote.bucket import open_tiered_store
    from segstore.remote.bucket_restore import restore_partitions

    failed = 0
    try:
        with Progress(quiet=arguments.quiet) as progress:
            for report in restore_partitions(
                open_tiered_store(
                    arguments.source,
                    arguments.keys,
                    arguments.key_prefix,
                    arguments.remote_log_metadata,
                    {},
                ),
                arguments.target,
                topics=arguments.topic,
                partitions=arguments.partition,
                below_log_start=arguments.below_log_start,
                topic_ids=dict(map(_topic_and_id, arguments.topic_id)),
                progress=progress,
            ):
                failed += report.error is not None
                _show(report)
    except ImportError as error:
        raise UsageError(str(error)) from error
    except KeyboardInterrupt:
        say("segstore: interrupted: the same command goes on; restored partitions can be used")
        raise
    if failed:
        say(f"segstore: {count_of(failed, 'partition')} could not be restored")
    return 1 if failed else 0


def _show(report: RestoreReport) -> None:
    if report.error is not None:
        say(f"segstore: {report.path}: {type(report.error).__name__}: {report.error}")
        return
    what = "restored" if report.written_bytes else "was restored before, and is the same"
    write_line(
        f"{report.path}: {what}; offsets {report.log_start_offset} to {report.log_end_offset}, "
        f"{count_of(report.segments, 'segment')}, {human_bytes(report.written_bytes)} written"
    )
    if report.topic_note is not None:
        say(f"segstore: {report.path}: {report.topic_note}")
    for one in report.left_out:
        say(f"segstore: {report.path}: left out: {one.text}")
    if report.stable_end_offset < report.log_end_offset:
        say(
            f"segstore: {report.path}: a transaction is open from offset "
            f"{report.stable_end_offset} on, and the bucket does not say how it ended: committed "
            "reads end there. `segstore abort-transaction` ends it"
        )


def _topic_and_id(text: str) -> tuple[str, str]:
    topic, equals, topic_id = text.partition("=")
    if not equals:
        raise UsageError(f"--topic-id {text} is not TOPIC=ID")
    return topic, topic_id
