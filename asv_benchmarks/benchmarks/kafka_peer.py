"""Kafka's own classes as peers: where their jars are, and ``UnifiedLog`` as a process of rounds."""

from __future__ import annotations

import atexit
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from .common import Cost

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
JAVA_SOURCES = ROOT / "asv_benchmarks" / "java"


def kafka_class_path() -> str:
    """Where Kafka's jars are; asv skips the benchmark where there is no Java."""
    return maven_class_path(ROOT / "tests" / "interop" / "java" / "pom.xml", "kafka")


def from_tests(name: str) -> ModuleType:
    """A module of the tests, which are no part of the path."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return import_module(f"tests.{name}")


def maven_class_path(pom: Path, name: str, **properties: str) -> str:
    """Where the jars of *pom* are; asv skips the benchmark where they cannot be had."""
    import pytest

    kafka_classes = from_tests("interop.kafka_classes")
    try:
        return f"{kafka_classes.maven_libraries(pom, name, **properties)}/*"
    except (pytest.skip.Exception, subprocess.CalledProcessError) as reason:
        raise NotImplementedError(str(reason)) from None


class KafkaLog:
    """``KafkaLogRounds.java``, or another: one command in, the cost of one round out."""

    def __init__(self, program: str = "KafkaLogRounds", *arguments: object) -> None:
        source = JAVA_SOURCES / f"{program}.java"
        self._process = subprocess.Popen(
            ["java", "-Xmx2g", "-cp", kafka_class_path(), str(source), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self) -> None:
        """Its input ends, and so does the process."""
        self._process.communicate()

    def measure(self, *words: object) -> tuple[float, float, int]:
        """CPU seconds, wall seconds and units of the round that *words* ask for."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        cpu, wall, units = self._process.stdout.readline().split()
        return float(cpu), float(wall), int(units)

    def cost(self, *words: object) -> Cost:
        """Cost per unit of the round that *words* ask for."""
        cpu, wall, units = self.measure(*words)
        return Cost(cpu / units, wall / units)


@cache
def kafka_log() -> KafkaLog:
    """One process for all benchmarks of this one."""
    started = KafkaLog()
    atexit.register(started.close)
    return started
