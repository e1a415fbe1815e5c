"""Spark beside a broker: two processes that all benchmarks of Spark share, and what rounds cost."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from .common import PROFILE, Cost, _Comparison, note_measured
from .kafka_peer import JAVA_SOURCES, ROOT, from_tests, kafka_class_path, maven_class_path
from .process_cpu import cpu_seconds

PARTITIONS = 4
"""Of every topic."""
SEGMENT_BYTES = 128 * 1024 * 1024
IS_SMOKE = PROFILE.rounds == 1
JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1") if IS_SMOKE else ()
"""What is not measured starts fast."""
BROKER_MEMORY = ("-Xmx400m",) if IS_SMOKE else ("-Xms1g", "-Xmx1g")
ROWS_IN_A_PARTITION = {100: 1_000_000, 1000: 300_000}
SMOKE_ROWS = 2_000
NEWEST_CONNECTOR = "4.2.0"
"""Where there is none of PySpark's own version yet."""


def connector_class_path() -> str:
    """Where the connector's jars are; asv skips the benchmark where they cannot be had."""
    import pyspark

    pom = JAVA_SOURCES / "connector" / "pom.xml"
    try:
        own = {"spark.version": pyspark.__version__}
        return maven_class_path(pom, f"connector-{pyspark.__version__}", **own)
    except NotImplementedError:
        return maven_class_path(pom, f"connector-{NEWEST_CONNECTOR}")


class SparkProcess:
    """``spark_rounds.py`` with local[2], and a broker; topics are filled when asked for."""

    def __init__(self) -> None:
        kafka_class_path()
        jars = connector_class_path().removesuffix("*")
        broker_class = from_tests("interop.kafka_broker").KafkaBroker
        self.path = Path(tempfile.mkdtemp(prefix="segstore-bench-"))
        self._open = ExitStack()
        self._open.callback(shutil.rmtree, self.path, ignore_errors=True)
        java = (*BROKER_MEMORY, *JAVA)
        self._broker = self._open.enter_context(
            broker_class(self.path / "broker", java, log_segment_bytes=SEGMENT_BYTES)
        )
        settings = {
            "work": str(self.path),
            "server": self._broker.address,
            "logs": str(self._broker.log_directory),
            "partitions": PARTITIONS,
            "java": " ".join(JAVA),
            "jars": ",".join(map(str, sorted(Path(jars).glob("*.jar")))),
        }
        folders = [str(ROOT / "asv_benchmarks"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        self._filled: set[str] = set()
        self._copied: set[str] = set()
        output = self._open.enter_context((self.path / "spark.out").open("wb"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_rounds", json.dumps(settings)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )

    def rows(self, name: str, **arguments: object) -> int:
        """Do a round; the number of rows that it went over."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            said = (self.path / "spark.out").read_text(errors="replace")
            raise RuntimeError(f"Spark ended in the round {name} {arguments}: {said[-4000:]}")
        return int(answer)

    def cost(self, expected_rows: int, name: str, **arguments: object) -> Cost:
        """Cost per row of a round: CPU of driver, Java, workers and broker, and wall."""
        processes = (self._process.pid, self._broker.pid)
        cpu, wall = cpu_seconds(*processes), time.perf_counter()
        rows = self.rows(name, **arguments)
        wall = time.perf_counter() - wall
        cpu = cpu_seconds(*processes) - cpu
        note_measured(cpu)
        assert rows == expected_rows, f"{name} {arguments}: {rows} rows, {expected_rows} expected"
        return Cost(cpu / rows, wall / rows)

    def make_topic(self, name: str) -> None:
        """Make an empty topic of the broker's."""
        self._broker.create_topic(name, PARTITIONS)

    def topic(self, value_bytes: int, rows: int | None = None, *, copies: bool = True) -> Topic:
        """A filled topic with values of so many bytes, and so many rows in a partition."""
        wanted = SMOKE_ROWS if IS_SMOKE else rows or ROWS_IN_A_PARTITION[value_bytes]
        topic = Topic(value_bytes, wanted)
        if topic.name not in self._filled:
            self._filled.add(topic.name)
            self.make_topic(topic.name)
            assert self.rows("fill", **topic.arguments) == topic.all_rows
        if copies and topic.name not in self._copied:
            self._copied.add(topic.name)
            assert self.rows("copy", topic=topic.name) == topic.all_rows
        return topic

    def close(self) -> None:
        """Its input ends, and so does Spark; then the broker."""
        self._process.communicate()
        self._open.close()


class Topic:
    """What a topic is called and how much is in each of its partitions."""

    def __init__(self, value_bytes: int, rows: int) -> None:
        self.name = f"values-of-{value_bytes}-{rows}"
        self.rows = rows
        self.all_rows = rows * PARTITIONS
        self.arguments = {"topic": self.name, "value_bytes": value_bytes, "rows": rows}


@cache
def spark_process() -> SparkProcess:
    """One for all benchmarks of this process."""
    started = SparkProcess()
    atexit.register(started.close)
    return started


class _SparkComparison(_Comparison):
    """One round of Spark with this library against one without it; no round begins cold."""

    warm_up_rounds = 3
    timeout = 3600

    def start(self, value_bytes: int, rows: int | None = None, *, copies: bool = True) -> None:
        """Have Spark, the broker and a topic, with its copies in Parquet and Arrow."""
        self.make_scratch()
        self.spark = spark_process()
        self.topic = self.spark.topic(value_bytes, rows, copies=copies)
