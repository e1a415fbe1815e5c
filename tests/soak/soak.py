"""The soak: log directories that live for long, with all that happens to them at once.

``make soak``, or ``python -m tests.soak.soak --seconds 3600``. Two directories of nine topics each,
and of up to four that come and go; every policy, transactions, retries and codecs. A process writes
each directory and changes its topics. One of the two is killed again and again. The other one lives
all the time, and so does a process that reads both: memory, descriptors and threads of these, and
the bytes on the disk, have to stay as they are. After each kill, and at the end, `Oracle` checks
the directory, and so does `segstore verify`. The first fault ends the run, and the files stay.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.kits.temporary_files import keep_temporary_files_in_memory
from tests.soak.soak_oracle import Oracle, fleeting_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DURABILITIES = ("none", "messages=100", "seconds=0.5", "sync")
RECORDS_PER_SECOND = 1_500
"""Of each writer."""
KILL_SECONDS = 12.0
"""So long a writer lives at the mean."""
FLEETING_SECONDS = 30.0
ALLOWED = {
    "memory_bytes": (1.1, 8 << 20),
    "descriptors": (1.3, 300),
    "descriptors_of_deleted_files": (0, 40),
}
"""By which factor and by how much more the last quarter may have than the second one.

Of the files as many are open as there are segments: in two minutes these become more. Of deleted
files a writer has none open at some moments, and a reader 4: `typical` takes these. With a leak of
segments the writer had 63 in 150 s, and the reader 45.
"""
LEAST_SAMPLES = 60
"""In a shorter time processes have not grown to what they need."""
MIB = 1 << 20
MOST_DISK_BYTES = 512 * MIB
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STEADY, KILLED, READER, ORACLE = "steady writer", "killed writer", "reader", "oracle"


class SoakError(AssertionError):
    """What the soak has found."""


class Sample(NamedTuple):
    """What a process holds."""

    memory_bytes: int
    descriptors: int
    descriptors_of_deleted_files: int
    threads: int
    mappings: int

    @classmethod
    def of(cls, process_id: int) -> Sample:
        place = Path(f"/proc/{process_id}")
        files = []
        for link in (place / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                files.append(link.readlink().name)
        return cls(
            int((place / "statm").read_text().split()[1]) * PAGE_BYTES,
            len(files),
            sum(one.endswith(" (deleted)") for one in files),
            len([*(place / "task").iterdir()]),
            (place / "maps").read_bytes().count(b"\n"),
        )


class Process:
    """A process of the soak, whose notes are taken as they come."""

    def __init__(
        self, take: Callable[[list[Any]], None], module: str, *arguments: object, first: str = ""
    ) -> None:
        self.name = module
        self.counts: Counter[str] = Counter()
        self.state = ""
        self.ready_at = float("inf")
        self._take = take
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.soak.{module}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the soak
        )
        self.id = self._process.pid
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._end_of_input = self._process.stdin
        self.pipe = self._process.stdout
        self._process.stdin.write(f"{first}\n".encode())

    def read(self) -> bool:
        """Take the notes that are there; False at their end."""
        data = os.read(self.pipe.fileno(), 1 << 18)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            note = json.loads(line)
            if note[0] == "counts":
                self.counts = Counter(note[1])
            elif note[0] == "fault":
                raise SoakError(note[1])
            elif note[0] in {"ready", "closed"}:
                self.state = note[0]
                self.ready_at = min(self.ready_at, time.monotonic())
            else:
                self._take(note)
        return bool(data)

    def kill(self) -> None:
        """End it now, and take what it has noted until then."""
        self._process.kill()
        self._take_the_rest()

    def stop(self) -> None:
        """Let it close what it has open."""
        self._end_of_input.close()
        self._take_the_rest()
        if self.state != "closed":
            raise SoakError(f"{self.name} has ended with status {self._process.returncode}")

    def _take_the_rest(self) -> None:
        try:
            while self.read():
                pass
            self._process.wait()
        finally:
            self.end()

    def end(self) -> None:
        """End it, if it is there; its notes are lost."""
        self._process.kill()
        self._process.wait()
        self._end_of_input.close()
        self.pipe.close()


class Directory:
    """A log directory, its writer, and the oracle that hears of what the writer does."""

    def __init__(self, path: Path, chooser: random.Random, rate: float, *, is_killed: bool) -> None:
        self.path = path
        self.name = KILLED if is_killed else STEADY
        self.oracle = Oracle(path)
        self.totals: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter()
        self.kills = 0
        self._is_killed = is_killed
        self._chooser = chooser
        self._rate = rate
        path.mkdir()
        self.writer = self._started()

    def _started(self) -> Process:
        durability = DURABILITIES[self.kills % 4] if self._is_killed else "seconds=0.5"
        self._fleeting: dict[str, float] = {}
        self._life_seconds = self._chooser.uniform(0, 2 * KILL_SECONDS)
        self._began = time.monotonic()
        return Process(
            self._take,
            "soak_writer",
            self.path,
            self._chooser.getrandbits(32),
            self._rate,
            durability,
            first=json.dumps(self.oracle.last_sent),
        )

    def _take(self, note: list[Any]) -> None:
        if note[0] == "warning":
            self.warnings[note[1]] += 1
            if "failed" in note[1]:
                raise SoakError(note[1])
        else:
            self.oracle.take(note)

    @property
    def is_to_be_killed(self) -> bool:
        """Whether it has lived long enough: each fourth since it began to open and recover."""
        began = self._began if self.kills % 4 == 3 else self.writer.ready_at
        return self._is_killed and time.monotonic() > began + self._life_seconds

    def kill(self) -> None:
        """Kill the writer, check what it leaves, and start another one."""
        self.writer.kill()
        self.kills += 1
        self.totals += self.writer.counts
        self.oracle.check(is_closed=False)
        self.writer = self._started()

    def stop(self) -> None:
        """Close it, and check all of it once more."""
        self.writer.stop()
        self.oracle.check(is_closed=True)

    def check_fleeting(self) -> None:
        """What is to be there for a moment is not there for long, when the writer is at work."""
        if self.writer.state != "ready":
            return
        now = time.monotonic()
        there = fleeting_names(self.path)
        self._fleeting = {name: self._fleeting.get(name, now) for name in there}
        old = [name for name, since in self._fleeting.items() if since < now - FLEETING_SECONDS]
        if old:
            raise SoakError(f"{self.path}: {old} are there for {FLEETING_SECONDS:g} s")


class Soak:
    """One run of it."""

    def __init__(self, folder: Path, seconds: float, seed: int, rate: float) -> None:
        self.seconds = seconds
        self.fault = ""
        self.samples: dict[str, list[Sample]] = {}
        self.disk_bytes: list[int] = []
        self._began = time.monotonic()
        chooser = random.Random(seed)
        self.directories = [
            Directory(folder / name, chooser, rate, is_killed=name == "killed")
            for name in ("steady", "killed")
        ]
        paths = [one.path for one in self.directories]
        pause_seconds = 3_000 / rate
        self.reader = Process(
            self._warn, "soak_reader", chooser.getrandbits(32), pause_seconds, *paths
        )

    def _warn(self, note: list[Any]) -> None:
        raise SoakError(f"the reader warns: {note}")

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    def run(self, show: Callable[[Soak], None]) -> None:
        """Go on until the time is over, Ctrl-C, or a fault; then check all."""
        try:
            try:
                while self.elapsed_seconds < self.seconds:
                    self._take_notes(until=time.monotonic() + 1)
                    self._look()
                    show(self)
            except KeyboardInterrupt:
                pass
            self.reader.stop()
            for one in self.directories:
                one.stop()
            self._check_flat()
        except Exception as error:  # noqa: BLE001 - it is in the report
            self.fault = str(error) if isinstance(error, SoakError) else traceback.format_exc()
        finally:
            self.seconds = self.elapsed_seconds
            for process in self._processes().values():
                process.end()

    def _processes(self) -> dict[str, Process]:
        return {one.name: one.writer for one in self.directories} | {READER: self.reader}

    def _take_notes(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            by_pipe = {one.pipe: one for one in self._processes().values()}
            for pipe in select.select([*by_pipe], [], [], left)[0]:
                if not by_pipe[pipe].read():
                    raise SoakError(f"{by_pipe[pipe].name} has ended by itself")

    def _look(self) -> None:
        """Take the samples of this second; kill who is due."""
        for one in self.directories:
            if one.is_to_be_killed:
                one.kill()
            one.check_fleeting()
        for name, process_id in [
            *((name, one.id) for name, one in self._processes().items()),
            (ORACLE, os.getpid()),
        ]:
            self.samples.setdefault(name, []).append(Sample.of(process_id))
        size = sum(disk_bytes(one.path) for one in self.directories)
        self.disk_bytes.append(size)
        if size > MOST_DISK_BYTES:
            raise SoakError(f"{size:,} bytes on the disk")

    def _check_flat(self) -> None:
        if len(self.disk_bytes) < LEAST_SAMPLES:
            return
        for name, samples in self.samples.items():
            if name != KILLED:  # none of these lives for long
                require_flat(name, samples)
        second, last = (statistics.median(quarter(self.disk_bytes, one)) for one in (1, 3))
        if last > second * 1.3 + 8 * MIB:
            raise SoakError(f"the bytes on the disk have grown from {second:,} to {last:,}")


def require_flat(name: str, samples: list[Sample]) -> None:
    """Compare the second quarter of the time with the last one: nothing may have grown."""
    for what, before, after in zip(
        Sample._fields, typical(samples, 1), typical(samples, 3), strict=True
    ):
        factor, spare = ALLOWED.get(what, (1, 30))
        if after > before * factor + spare:
            raise SoakError(f"{what} of the {name} have grown from {before:,} to {after:,}")


def disk_bytes(path: Path) -> int:
    """Return what the files take; some may go meanwhile."""
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                found += Path(folder, name).stat().st_blocks * 512
    return found


def quarter(values: list[Any], number: int) -> list[Any]:
    """Return one of four parts, the first of which is 0."""
    count = max(1, len(values) // 4)
    return values[number * count : (number + 1) * count] or values[-1:]


def typical(samples: list[Sample], number: int) -> Sample:
    """Return the medians of one of four parts; of deleted files the least that were open.

    A reader has up to 130 of them open until it looks at all logs again.
    """
    part = quarter(samples, number)
    median = Sample(*(int(statistics.median(one)) for one in zip(*part, strict=True)))
    least = min(one.descriptors_of_deleted_files for one in part)
    return median._replace(descriptors_of_deleted_files=least)


# ---- the report ----------------------------------------------------------------------------------


def figures(soak: Soak) -> list[tuple[str, str]]:
    """Return what was done: names and numbers."""
    totals: Counter[str] = Counter()
    for one in soak.directories:
        totals += one.totals + one.writer.counts
        totals["records appended"] += one.oracle.appended
        totals["kills"] += one.kills
        totals["checks of a whole directory"] += one.oracle.checks
        totals["warnings"] += one.warnings.total()
    totals += Counter({f"reader: {name}": count for name, count in soak.reader.counts.items()})
    cpu_seconds = sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    rows = [("seconds", f"{soak.seconds:.0f}"), ("CPU seconds", f"{cpu_seconds:.0f}")]
    return rows + [(name, f"{count:,}") for name, count in sorted(totals.items())]


def held(soak: Soak) -> list[tuple[str, ...]]:
    """Return what was held at the start, in the middle and at the end: medians of quarters."""
    rows: list[tuple[str, ...]] = []
    for name, samples in soak.samples.items():
        parts = [typical(samples, number) for number in range(4)]
        for what, *values in zip(Sample._fields, *parts, strict=True):
            rows.append((f"{name}: {what}", *(f"{one:,}" for one in values)))
    disk = [int(statistics.median(quarter(soak.disk_bytes, number))) for number in range(4)]
    return [*rows, ("bytes on the disk", *(f"{one:,}" for one in disk))]


def report(soak: Soak) -> str:
    """Return the report as text."""
    columns = ("each quarter: median, or least deleted files", "first", "second", "third", "last")
    lines = [f"{name:<44}{value:>13}" for name, value in figures(soak)]
    if soak.disk_bytes:
        lines += [
            "",
            *("{:<44}{:>13}{:>13}{:>13}{:>13}".format(*row) for row in (columns, *held(soak))),
        ]
    for one in soak.directories:
        lines += [f"{count} warnings: {text}" for text, count in one.warnings.most_common(5)]
    return "\n".join([*lines, f"FAULT: {soak.fault}" if soak.fault else "no fault"])


@contextmanager
def progress(seconds: float) -> Iterator[Callable[[Soak], None]]:
    """Show how far it is, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("soak", total=seconds)

        def show(soak: Soak) -> None:
            appended = sum(one.oracle.appended for one in soak.directories)
            kills = sum(one.kills for one in soak.directories)
            text = f"{appended:,} records, {kills} kills, {soak.disk_bytes[-1] // MIB} MiB"
            bar.update(task, completed=soak.elapsed_seconds, description=text)

        yield show


def run(folder: Path, seconds: float, seed: int, rate: float) -> Soak:
    """Run the soak in an empty folder."""
    soak = Soak(folder, seconds, seed, rate)
    with progress(seconds) as show:
        soak.run(show)
    return soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long (default: an hour)")
    parser.add_argument("--seed", type=int, help="of all choices (default: another one each time)")
    parser.add_argument(
        "--rate", type=float, default=RECORDS_PER_SECOND, help="records a second of each writer"
    )
    arguments = parser.parse_args()
    keep_temporary_files_in_memory()
    folder = Path(tempfile.mkdtemp(prefix="segstore-soak-"))
    seed = random.SystemRandom().getrandbits(32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, files in {folder}", flush=True)
    soak = run(folder, arguments.seconds, seed, arguments.rate)
    print(report(soak))
    if soak.fault:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
