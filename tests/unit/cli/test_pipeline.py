"""``segstore pipeline``: its source, what it compares with, all of it with its driver killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.cli.pipeline import (
    DAY_MS,
    LEAST_FILES,
    by_day,
    distance_of,
    last_event,
    totals_of,
    write_files,
)
from segstore.cli.pipeline_queries import WATERMARK_DAYS
from tests.kits.cli_process import run_segstore

if TYPE_CHECKING:
    from pathlib import Path

START = 1_356_998_400_000
"""2013-01-01, in ms."""
EVENTS = [
    (START + number * 3_600_000, b"AA" if number % 3 else b"UA", b'{"distance":%d}' % number)
    for number in range(100)
]


def test_files_hold_every_event_in_their_order(tmp_path: Path):
    """Spark's file source goes by the time of change; the last file ends the last day."""
    pq = pytest.importorskip("pyarrow.parquet")
    assert write_files(tmp_path / "source", EVENTS) == LEAST_FILES
    files = sorted((tmp_path / "source").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]

    assert files == sorted(files)
    assert len({file.stat().st_mtime_ns for file in files}) == len(files) == LEAST_FILES + 1
    assert [(row["key"], row["value"]) for row in rows[:-1]] == [one[1:] for one in EVENTS]
    assert rows[-1]["timestamp"] > rows[-2]["timestamp"]
    assert last_event(EVENTS)[0] - EVENTS[-1][0] > WATERMARK_DAYS * DAY_MS


def test_totals_are_by_key_and_day():
    totals = totals_of(EVENTS)

    assert totals[START, "UA"] == (8, sum(range(0, 24, 3)))
    assert totals[START + DAY_MS, "AA"] == (16, sum(n for n in range(24, 48) if n % 3))
    assert sum(records for records, _ in totals.values()) == 100
    assert {day % DAY_MS for day, _ in totals} == {0}


@pytest.mark.parametrize(
    ("value", "distance"),
    [(b'{"distance":7}', 7), (b'{"distance":null}', 0), (b"{}", 0), (b"[1]", 0), (b"\xff", 0)],
)
def test_what_is_no_flight_has_no_miles(value: bytes, distance: int):
    assert distance_of(value) == distance


def test_a_total_that_is_there_twice_is_none():
    row = {"day": 0, "name": "AA", "records": 1, "miles": 2}

    assert by_day([row]) == {(0, "AA"): (1, 2)}
    assert by_day([row, row]) is None
    assert by_day([row, {**row, "records": 3}]) is None


@pytest.mark.slow
def test_the_whole_pipeline_on_the_brokers_records(tmp_path: Path):
    """Exit code 0: nothing lost or doubled, and every total as computed from the source."""
    pytest.importorskip("pyspark")
    work = tmp_path / "work"

    done = run_segstore("pipeline", "--source", "broker", "--dir", work)

    text = done.stdout.decode()
    assert done.returncode == 0, text + done.stderr.decode()
    assert "SIGKILL" in text
    assert "answers   3 of 3" in text
    assert "NOT EQUAL" not in text
    assert run_segstore("verify", work / "log").returncode == 0
    assert run_segstore("verify", work / "totals").returncode == 0
