"""A streaming write whose driver, executors and workers are killed: each record once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from queue import Empty, Queue

import pytest

pytest.importorskip("pyspark")

import pyspark

import segstore
from segstore.spark.stream_reader import HAS_READ_LIMITS
from tests.kits.short_java import ENVIRONMENT
from tests.kits.sink_kit import hidden_files, records_of

RECORDS = 24_000
ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 300
MASTERS = ["local[2,8]", "local-cluster[2,1,700]"]
"""By turns: workers below the driver, and executors that are processes of their own."""
VICTIMS = {
    b"pyspark.": "workers",  # Python processes that run tasks, or plan and commit
    b"CoarseGrainedExecutorBackend": "executors",
}


class Driver:
    """The query's process and all below it, in a session of their own."""

    def __init__(self, folder: Path, master: str, codec: str, most: int) -> None:
        paths = [str(folder / name) for name in ("source", "sink", "checkpoint")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.copying_query", master, *paths, codec, str(most)],
            cwd=ROOT,
            env={
                **os.environ,
                **ENVIRONMENT,
                "PYTHONPATH": str(ROOT),
                "SPARK_HOME": str(folder / "spark"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.lines.put(line.strip())
        self.lines.put("end")

    def next_line(self, seconds: float) -> str:
        """What it says next; "" = nothing for so long."""
        try:
            return self.lines.get(timeout=seconds)
        except Empty:
            return ""

    def session(self) -> dict[int, bytes]:
        """All processes that it started, with their command lines."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # gone meanwhile
                pid = int(folder.name)
                if os.getsid(pid) == self._process.pid:
                    found[pid] = (folder / "cmdline").read_bytes()
        return found

    def victims(self, sort: bytes) -> list[int]:
        """Processes of a sort, by their command lines."""
        return [pid for pid, command in self.session().items() if sort in command]

    def kill_one(self, chance: random.Random) -> list[str]:
        """Kill a worker or an executor, if there is one; returns which it was, in a list."""
        for sort in chance.sample([*VICTIMS], len(VICTIMS)):
            victims = self.victims(sort)
            if victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(victims), signal.SIGKILL)
                    return [VICTIMS[sort]]
        return []

    def kill(self) -> None:
        """Kill everything: driver, Java, workers, which have groups of their own."""
        for pid in (self._process.pid, *self.session()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()


@pytest.fixture
def folder(tmp_path):
    with segstore.open_dir(tmp_path / "source", durability="none") as manager:
        manager.create_topic("numbers", 2)
        long_ago = 1_400_000_000_000  # half of the records: their producer counts as expired
        manager.append(
            "numbers",
            [
                (long_ago + n if n % 2 else None, b"k%d" % (n % 7), b"%d" % n)
                for n in range(RECORDS)
            ],
        )
    home = tmp_path / "spark"  # executors of a local-cluster work in a folder of that
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return tmp_path


def assert_prefix_once_and_in_order(path: Path) -> int:
    """Each number at most once, those of a key in order and without a gap; returns how many."""
    if not (path / "copy-0").exists():
        return 0
    count = 0
    seen: Counter[int] = Counter()
    for records in records_of(path, "copy").values():
        for key in {record.key for record in records}:
            numbers = [int(record.value) for record in records if record.key == key]
            assert numbers == list(range(int(key[1:]), numbers[-1] + 1, 7))
        seen.update(int(record.value) for record in records)
        count += len(records)
    assert not seen or max(seen.values()) == 1
    return count


KILLS = 50
"""How many drivers: each begins with a Java, which takes most of a test's time."""


@pytest.mark.long
@pytest.mark.skipif(not HAS_READ_LIMITS, reason="before Spark 4.2 a run is one batch: no middle")
def test_drivers_executors_and_workers_that_are_killed_lose_and_repeat_nothing(folder):
    """One query, killed again and again at random moments."""
    chance = random.Random(KILLS)
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    killed, counts = Counter(), []
    for number in range(KILLS):
        most = max(20, RECORDS // (KILLS * 12))
        driver = Driver(folder, MASTERS[number % 2], codecs[number % 5], most)
        try:
            line = driver.next_line(START_SECONDS)
            assert line.startswith("batch"), line
            for _ in range(chance.randrange(3)):
                time.sleep(chance.uniform(0.1, 1.5))
                killed.update(driver.kill_one(chance))
            time.sleep(chance.uniform(0, 2.5))
        finally:
            driver.kill()
        counts.append(assert_prefix_once_and_in_order(folder / "sink"))
    assert counts == sorted(counts)
    assert counts[-1] < RECORDS

    driver = Driver(folder, MASTERS[0], "none", RECORDS)
    try:
        while (line := driver.next_line(START_SECONDS)).startswith("batch"):
            pass
        assert line == "all"
    finally:
        driver.kill()
    assert assert_prefix_once_and_in_order(folder / "sink") == RECORDS
    assert hidden_files(folder / "sink", "staged") == []
    print(f"{KILLS} drivers and {dict(killed)} killed; records after each: {counts}")
