"""Maintenance on a cluster whose tasks, executors and drivers are killed beside an appender."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
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

import segstore
from segstore.spark.partition_jobs import verify_partition
from tests.kits.cluster_kit import standalone_cluster
from tests.kits.log_kit import TIME
from tests.kits.short_java import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 600
DRIVERS, COMPACTED, LIMITED = 5, 21, 19
"""Each driver has topics that no driver had before; together they have 200 partitions."""
KILLS = 30
BATCHES, RECORDS, KEYS = 24, 100, 500
SETTINGS = {"internal.segment.bytes": "20000", "segment.ms": str(2**62)}
NOW = TIME + 3_600_000
VICTIMS = {b"pyspark.daemon": "tasks", b"CoarseGrainedExecutorBackend": "executors"}


def batches():
    """What each log is given; a key is deleted now and then."""
    chance = random.Random(KEYS)
    for number in range(BATCHES):
        yield [
            (
                TIME + number * RECORDS + place,
                b"key %d" % chance.randrange(KEYS),
                None if chance.random() < 0.1 else chance.randbytes(60),
            )
            for place in range(RECORDS)
        ]


@pytest.fixture
def data(tmp_path):
    """A directory with 200 partitions, and one for the appender."""
    path, given = tmp_path / "data", [*batches()]
    with segstore.open_dir(path, durability="none") as logs:
        logs.create_topic("live", config={"retention.bytes": str(2**40)})
        for driver in range(DRIVERS):
            compacted = {**SETTINGS, "cleanup.policy": "compact"}
            limited = {**SETTINGS, "retention.bytes": "100000"}
            logs.create_topic(f"users{driver}", COMPACTED, config=compacted)
            logs.create_topic(f"clicks{driver}", LIMITED, config=limited)
        for topic, number in logs.partitions():
            for batch in given if topic != "live" else ():
                logs.append(topic, batch, partition=number)
    return path


def records_of(path):
    with segstore.open(path, read_only=True) as log:
        return [(one.offset, one.timestamp, one.key, one.value) for one in log]


def last_values(records):
    values = {key: value for _, _, key, value in records}
    return {key: value for key, value in values.items() if value is not None}


class Appender:
    """Appends numbers to a log of the directory until it is told to end."""

    def __init__(self, path: Path) -> None:
        self._log = segstore.open(path, durability="messages=100")
        self.count = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(0.01):
            self._log.append([(TIME + number, None, b"%d" % number)])
            number += 1

    def close(self) -> None:
        """Close the log, whose end is `count`."""
        self._is_over.set()
        self._thread.join()
        self.count = self._log.log_end_offset
        self._log.close()


class Driver:
    """A driver that maintains, in a session of its own."""

    def __init__(self, master: str, data: Path, pattern: str, *, speculation: bool) -> None:
        arguments = [master, str(data), str(NOW), pattern, str(speculation).lower()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.maintaining_program", *arguments],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line.strip())
        self.lines.put("end")

    def next_line(self, seconds: float) -> str:
        """What it says next; "" = nothing for so long."""
        try:
            return self.lines.get(timeout=seconds)
        except Empty:
            return ""

    def kill(self) -> None:
        """Kill the driver, its Java, and what these have started."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.getsid(int(folder.name)) == self.process.pid:
                    os.kill(int(folder.name), signal.SIGKILL)
        self.process.wait()
        self._reader.join()


def kill_one(folder: Path, chance: random.Random) -> list[str]:
    """Kill a process of the cluster's executors; returns of which sort it was, in a list."""
    found: dict[str, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command, place = (process / "cmdline").read_bytes(), (process / "cwd").readlink()
            for sort, name in VICTIMS.items():
                if sort in command and str(place).startswith(f"{folder}/work-"):
                    found.setdefault(name, []).append(int(process.name))
    if len(found) < len(VICTIMS):  # no task is at work yet
        return []
    sort = "executors" if chance.random() < 0.25 else "tasks"
    with contextlib.suppress(ProcessLookupError):
        os.kill(chance.choice(found[sort]), signal.SIGKILL)
        return [sort]
    return []


def check(answers):
    """What the last two drivers said: the second one found nothing to do."""
    for answer in answers:
        results = {one["key"]: one["result"] for one in answer["items"]}
        assert answer["ok"], answer
        assert len(results) == 1 + DRIVERS * (COMPACTED + LIMITED)
        assert [key for key, one in results.items() if one["is_locked"]] == ["live-0"]
    assert not any(one["passes"] or one["segments_deleted"] for one in results.values())


@pytest.mark.long
def test_kills_of_tasks_executors_and_drivers_leave_what_a_local_pass_leaves(tmp_path, data):
    """[DUR-20, DUR-126, CLN-114] 200 partitions, 30 kills, an appender in the same directory."""
    copy = shutil.copytree(data, tmp_path / "copy")
    with segstore.open_dir(copy) as logs:
        logs.maintain(NOW)
    given = last_values(records_of(data / "users0-0"))
    killed: Counter[str] = Counter()
    done, chance = [], random.Random(KILLS)
    appender = Appender(data / "live-0")
    with contextlib.closing(appender), standalone_cluster(tmp_path) as url:
        for number in range(DRIVERS):
            pattern = f"^(live|(users|clicks)[0-{number}])$"
            driver = Driver(url, data, pattern, speculation=number % 2 == 1)
            try:
                assert driver.next_line(START_SECONDS).startswith("done"), "no driver came up"
                wanted = (KILLS - DRIVERS) * (number + 1) // DRIVERS
                while killed.total() - killed["drivers"] < wanted and driver.process.poll() is None:
                    time.sleep(chance.uniform(0.1, 1))
                    killed.update(kill_one(tmp_path, chance))
                while (line := driver.next_line(1)).startswith("done 0 "):
                    pass
                time.sleep(chance.uniform(0, 1))
                done.append([line, *driver.lines.queue][-1][:20])
            finally:
                driver.kill()
                killed["drivers"] += 1
            for partition in chance.sample(range(COMPACTED), 3):
                assert last_values(records_of(data / f"users{number}-{partition}")) == given

        answers = []
        for _ in range(2):
            driver = Driver(url, data, ".*", speculation=False)
            try:
                while (line := driver.next_line(START_SECONDS)).startswith("done"):
                    pass
                answers.append(json.loads(line))
            finally:
                driver.kill()
    count = appender.count

    assert killed.total() >= KILLS
    check(answers)
    for path in sorted(data.glob("[cu]*-[0-9]*")):
        assert records_of(path) == records_of(copy / path.name)
        assert verify_partition(str(path))["ok"]
        assert not [one for one in path.iterdir() if one.suffix in {".cleaned", ".swap"}]
    assert [int(value) for *_, value in records_of(data / "live-0")] == [*range(count)]
    print(f"killed: {dict(killed)}; when drivers were killed: {done}; appended: {count}")
