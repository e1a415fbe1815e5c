"""Kafka's own classes (4.3.1, by Maven coordinates) as a process.

Compiled at the call by Java's source launcher.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kits.short_java import OPTIONS

JAVA_SOURCES = Path(__file__).parent / "java"


def kafka_libraries() -> Path:
    """Folder of Kafka's jars, fetched once into the user's cache.

    Skips the test where there is no Java or Maven.
    """
    return maven_libraries(JAVA_SOURCES / "pom.xml", "kafka")


def maven_libraries(pom: Path, name: str, **properties: str) -> Path:
    """Folder of the jars that *pom* names, fetched once into the user's cache.

    Skips the test where there is no Java or Maven; *properties* are those of the pom.
    """
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"Kafka's classes need {program}: install a JDK 17 or newer and Maven")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "segstore"
    folder = cache / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(pom),
                "dependency:copy-dependencies",
                f"-DoutputDirectory={folder}",
                *(f"-D{key}={value}" for key, value in properties.items()),
            ],
            check=True,
            capture_output=True,
            timeout=600,
        )
        (folder / "complete").touch()
    return folder


def read_with_kafka(directory: Path) -> list[str]:
    """Every record and index of the partition as ReadWithKafka.java prints it, a line each."""
    return (
        _java(str(JAVA_SOURCES / "ReadWithKafka.java"), str(directory)).stdout.decode().splitlines()
    )


def dump_with_kafka(directory: Path, *arguments: str) -> bytes:
    """What kafka-dump-log prints on stdout, run in *directory*."""
    return _java("org.apache.kafka.tools.DumpLogSegments", *arguments, cwd=directory).stdout


def java_command(*arguments: str) -> list[str]:
    """Return the command that runs a class of Kafka, or a source file that uses them."""
    return [
        "java",
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-cp",
        f"{kafka_libraries()}/*",
        *arguments,
    ]


def open_with_kafka_raft_log(log_directory: Path, *snapshots: int) -> bytes:
    """What ``KafkaRaftLog`` says of the metadata log there, and of these snapshots, as JSON."""
    source = str(JAVA_SOURCES / "OpenRaftLog.java")
    return _java(source, str(log_directory), *map(str, snapshots)).stdout


def _java(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    command = java_command(*OPTIONS.split(), *arguments)
    result = subprocess.run(command, cwd=cwd, capture_output=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    return result
