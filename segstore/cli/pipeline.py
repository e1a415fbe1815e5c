"""``segstore pipeline``: real data through logs on Spark, its driver killed, totals compared."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from segstore.cli.demo import add_arguments, choose_source, run_in_folder
from segstore.cli.output import human_time
from segstore.cli.pipeline_queries import (
    EVENT_PARTITIONS,
    EVENTS,
    NUMBER,
    TOTALS,
    WATERMARK_DAYS,
    event_log,
    source_folder,
    totals_found,
    totals_log,
)
from segstore.cli.quiet_stderr import show_end
from segstore.errors import IllegalStateError, SegstoreError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from segstore.cli.demo_report import DemoReport
    from segstore.cli.demo_source import Event

DAY_MS: Final = 86_400_000
LEAST_FILES, MOST_FILES, EVENTS_OF_A_FILE = 4, 12, 28_000
POLL_SECONDS: Final = 0.05
KILL_WITHIN_SECONDS: Final = 2.0
LONGEST_RUN_SECONDS: Final = 900
LAST_KEY: Final = b""
"""Of one more event, later than all by more than the watermark: it ends the last day."""

Totals = dict[tuple[int, str], tuple[int, int]]
"""Records and miles by day, in ms, and key."""


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "A streaming query writes the 336,776 flights of 2013 from New York into a log. Two more "
        "add them up by carrier and day of event time, into a log and into Parquet. SIGKILL ends "
        "Spark's driver in the middle, and it starts again. Exit code 0 only if no event is lost "
        "or doubled and all totals are those computed from the source file."
    )
    add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the pipeline in a folder of its own."""
    return run_in_folder(arguments, run_pipeline, least_records=LEAST_FILES)


def run_pipeline(work: Path, source: str, limit: int | None, report: DemoReport) -> None:
    """Run all steps of the pipeline."""
    Pipeline(work, source, limit, report).run()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps, one after the other, each told in a line."""

    work: Path
    source: str
    limit: int | None
    report: DemoReport

    def run(self) -> None:
        """Run all steps."""
        from segstore.cli.demo_writer import load

        source, path = choose_source(self.source, self.work, self.report.tell)
        data = load(source, path, self.limit)
        events = data.events
        self.report.tell(
            f"{len(events)} records by {data.key_name}, {human_time(events[0][0])} to "
            f"{human_time(events[-1][0])}"
        )
        count = write_files(source_folder(self.work), events)
        self.report.tell(f"in {count} files, and one more event to end the last day")
        self.report.tell("three queries start: files -> log -> totals of each day -> Parquet")
        there = self.kill_in_the_middle(len(events))
        self.report.tell(
            f"SIGKILL to the driver and all it had started: {there} records were in the log"
        )
        self.report.tell("the queries start again, from their checkpoints")
        self.finish()
        self.compare(events)

    def start_driver(self, log: Path) -> subprocess.Popen[bytes]:
        """Start the process that runs Spark, in a group of its own."""
        command = [sys.executable, "-m", "segstore.cli.pipeline_queries", str(self.work)]
        with log.open("wb") as output:
            return subprocess.Popen(  # noqa: S603 - our own module
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill_in_the_middle(self, events: int) -> int:
        """Kill the driver when a third of the events is in the log; returns how many were."""
        log = self.work / "first.log"
        driver = self.start_driver(log)
        try:
            deadline = time.monotonic() + LONGEST_RUN_SECONDS
            while self.records_in_log() < events // 3:
                if driver.poll() is not None or time.monotonic() > deadline:
                    show_end(log)
                    raise IllegalStateError(f"Spark's driver ended with code {driver.poll()}")
                time.sleep(POLL_SECONDS)
            time.sleep(random.uniform(0, KILL_WITHIN_SECONDS))  # noqa: S311 - anywhere in a batch
        finally:
            kill_group(driver)
        return self.records_in_log()

    def finish(self) -> None:
        """Start the driver again, and wait until it has done everything."""
        log = self.work / "second.log"
        started = perf_counter()
        driver = self.start_driver(log)
        try:
            code = driver.wait(LONGEST_RUN_SECONDS)
        finally:
            kill_group(driver)
        if code != 0:
            show_end(log)
            raise IllegalStateError(f"Spark's driver ended with code {code}")
        self.report.tell(f"finished in {perf_counter() - started:.1f} s")

    def records_in_log(self) -> int:
        """Count the events that are in the log; 0 before there is one."""
        import segstore

        try:
            with segstore.open_dir(event_log(self.work), read_only=True) as logs:
                return sum(logs.log_end_offsets(EVENTS).values())
        except (SegstoreError, OSError):  # it is just being made
            return 0

    def compare(self, events: list[Event]) -> None:
        """Compare log, totals and Parquet with what the source says."""
        import segstore

        partitions: list[list[Event]] = [[] for _ in range(EVENT_PARTITIONS)]
        for event in [*events, last_event(events)]:
            partitions[segstore.partition_for_key(event[1], EVENT_PARTITIONS)].append(event)
        with segstore.open_dir(event_log(self.work), read_only=True) as logs:
            found = [
                [(one.timestamp, one.key, one.value) for one in logs.log(EVENTS, number)]
                for number in range(EVENT_PARTITIONS)
            ]
        self.report.check("no event is lost, doubled or out of order", found == partitions)
        expected = totals_of(events)
        written: list[dict[str, Any]] = []
        with segstore.open_dir(totals_log(self.work), read_only=True) as logs:
            for number in logs.topics()[TOTALS]:
                scan = logs.log(TOTALS, number).scan(isolation="read_committed")
                written += [json.loads(record.value or b"") for record in scan]
        self.report.check(
            "the log of totals equals the sums of the source", by_day(written) == expected
        )
        kept = json.loads(totals_found(self.work).read_text())
        self.report.check("the Parquet files do, too", by_day(kept) == expected)
        records = sum(one[0] for one in expected.values())
        checks = self.report.checks
        self.report.write_table(
            {
                "records": f"{len(events)}, {records} in the totals",
                "totals": f"{len(expected)} of a key and a day, {len(written)} written",
                "answers": f"{sum(checks.values())} of {len(checks)} as computed",
                "time": f"{self.report.seconds:.1f} s",
            }
        )


def last_event(events: list[Event]) -> Event:
    """Return the event that ends the last day."""
    return events[-1][0] + (WATERMARK_DAYS + 2) * DAY_MS, LAST_KEY, b"{}"


def write_files(folder: Path, events: list[Event]) -> int:
    """Write *events* to Parquet files, whose times of change are in their order; how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    count = min(MOST_FILES, max(LEAST_FILES, len(events) // EVENTS_OF_A_FILE))
    size = -(-len(events) // count)
    chunks = [events[start : start + size] for start in range(0, len(events), size)]
    begin = int(time.time()) - len(chunks) - 1
    for number, chunk in enumerate([*chunks, [last_event(events)]]):
        timestamps, keys, values = zip(*chunk, strict=True)
        table = pa.table(
            {
                "key": pa.array(keys, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "timestamp": pa.array(timestamps, pa.timestamp("ms", tz="UTC")),
                NUMBER: pa.array(range(number * size, number * size + len(chunk)), pa.int64()),
            }
        )
        file = folder / f"{number:03d}.parquet"
        pq.write_table(table, file)
        os.utime(file, (begin + number, begin + number))
    return len(chunks)


def totals_of(events: list[Event]) -> Totals:
    """Add up *events* without Spark."""
    records: Counter[tuple[int, str]] = Counter()
    miles: Counter[tuple[int, str]] = Counter()
    for timestamp, key, value in events:
        group = timestamp - timestamp % DAY_MS, key.decode("utf-8", "replace")
        records[group] += 1
        miles[group] += distance_of(value)
    return {group: (count, miles[group]) for group, count in records.items()}


def distance_of(value: bytes) -> int:
    """Return the field ``distance`` of a flight, 0 of what is none."""
    try:
        fields = json.loads(value)
    except ValueError:
        return 0
    distance = fields.get("distance") if isinstance(fields, dict) else None
    return distance if isinstance(distance, int) else 0


def by_day(rows: list[dict[str, Any]]) -> Totals | None:
    """Return rows of totals by day and key; None when one is there twice."""
    totals = {(row["day"], row["name"]): (row["records"], row["miles"]) for row in rows}
    return totals if len(totals) == len(rows) else None


def kill_group(driver: subprocess.Popen[bytes]) -> None:
    """Kill the driver, its Java and their Python workers, all at one moment."""
    with suppress(ProcessLookupError):  # it ended, and all of them with it
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
