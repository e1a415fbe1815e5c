"""Opening a log: many segments after a clean close, and recovery of one that was not closed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import segstore

from .common import (
    CLEAN_SHUTDOWN_MARKER,
    PROFILE,
    RECOVERY_POINT_CHECKPOINT,
    Cost,
    ScratchDirectory,
    _Comparison,
    cost_of,
)
from .datasets import batches, replicated
from .kafka_peer import kafka_log

if TYPE_CHECKING:
    from pathlib import Path

IS_SMOKE = PROFILE.rounds == 1
SEGMENT_BYTES = 64 * 1024 * 1024
RECOVERED_BYTES = min(17 * PROFILE.log_bytes, 1024 * 1024 * 1024)
SETTINGS: dict[str, Any] = {"durability": "none", "segment_ms": None}


def scaled(segments: int) -> int:
    """Fewer in the smoke profile."""
    return 30 if IS_SMOKE else segments


def make_log(path: Path, segments: int) -> None:
    """A log of that many segments, three batches of 4 KB in each, closed."""
    pool = batches(100, 4_096)
    with segstore.open(path, **SETTINGS) as log:
        for i in range(segments):
            if i:
                log.roll()
            for k in range(3):
                log.append_as_leader(pool[(3 * i + k) % len(pool)])


class CleanOpen(_Comparison):
    """``segstore.open`` of a log that was closed.

    Against readdir and stat of every .log, and against ``UnifiedLog.create``.
    """

    params = ([1_000, 10_000], ["readdir and stat", "kafka"])
    param_names = ("segments", "peer")
    warm_up_rounds = 2

    def setup(self, segments: int, peer: str) -> None:
        self.make_scratch()
        self.segments, self.against_kafka = scaled(segments), peer == "kafka"
        self.directory = self.path / "bench-0"
        make_log(self.directory, self.segments)
        if self.against_kafka:
            shutil.copytree(self.directory, self.path / "kafka-0")

    def ours(self) -> Cost:
        return cost_of(self._open, after=self._close)

    def theirs(self) -> Cost:
        if self.against_kafka:
            directory = self.path / "kafka-0"
            return kafka_log().cost("open", directory, "clean", 2**62, SEGMENT_BYTES)
        return cost_of(self._readdir_and_stat)

    def _open(self) -> float:
        self.log = segstore.open(self.directory, **SETTINGS)
        return self.segments

    def _close(self) -> None:
        assert self.log.report.clean
        assert len(self.log.segments()) == self.segments
        self.log.close()

    def _readdir_and_stat(self) -> float:
        found = 0
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    found += entry.stat().st_size > 0
        assert found == self.segments
        return found


class CleanOpenMemory(ScratchDirectory):
    """Memory that an open log of many segments takes, beyond one of a single segment."""

    params = ([10_000],)
    param_names = ("segments",)
    unit = "bytes"

    def setup(self, segments: int) -> None:
        self.make_scratch()
        make_log(self.path / "one-0", 1)
        make_log(self.path / "many-0", scaled(segments))

    def track_resident_bytes(self, segments: int) -> float:
        return max(0, self._resident_bytes("many-0") - self._resident_bytes("one-0"))

    def _resident_bytes(self, name: str) -> int:
        program = (
            "import segstore, sys\n"
            "log = segstore.open(sys.argv[1], durability='none')\n"
            "status = open('/proc/self/status').read()\n"
            "print(status.split('VmRSS:')[1].split()[0])\n"
            "log.close()\n"
        )
        answer = subprocess.run(
            [sys.executable, "-c", program, str(self.path / name)],
            check=True,
            capture_output=True,
            text=True,
        )
        return 1024 * int(answer.stdout)


class OpenAndClose(_Comparison):
    """Opening and closing a log of 1,000 segments that nobody touches, against Kafka's."""

    warm_up_rounds = 2

    def setup(self) -> None:
        self.make_scratch()
        self.segments = scaled(1_000)
        make_log(self.path / "bench-0", self.segments)
        shutil.copytree(self.path / "bench-0", self.path / "kafka-0")

    def ours(self) -> Cost:
        return cost_of(self._open_and_close)

    def theirs(self) -> Cost:
        directory = self.path / "kafka-0"
        return kafka_log().cost("open_and_close", directory, "clean", 2**62, SEGMENT_BYTES)

    def _open_and_close(self) -> float:
        with segstore.open(self.path / "bench-0", **SETTINGS) as log:
            assert log.report.clean
        return self.segments


class UncleanOpen(_Comparison):
    """The whole open of 1 GiB whose recovery point is 0, in segments of 64 MiB, against Kafka's.

    ``safe`` also syncs it, and writes it again before the first change [DUR-36], which is none of
    the open's.
    """

    params = ([16_384, 1_000_000], ["kafka", "safe"])
    param_names = ("batch_bytes", "recovery")
    warm_up_rounds = 2

    def setup(self, batch_bytes: int, recovery: str) -> None:
        self.make_scratch()
        self.recovery = recovery
        self.directory = self.path / "bench-0"
        settings = {**SETTINGS, "segment_bytes": SEGMENT_BYTES}
        written = 0
        with segstore.open(self.directory, **settings) as log:
            while written < RECOVERED_BYTES:
                for batch in replicated(100, batch_bytes):
                    written += log.append_as_leader(bytes(8) + batch[8:]).size_bytes
            self.end = log.log_end_offset
            self.segments = len(log.segments())
        (self.directory / CLEAN_SHUTDOWN_MARKER).unlink()
        shutil.copytree(self.directory, self.path / "kafka-0")

    def ours(self) -> Cost:
        return cost_of(self._open, before=self._forget, after=self._close)

    def theirs(self) -> Cost:
        for file in (self.path / "kafka-0").glob("*.snapshot"):
            file.unlink()
        return kafka_log().cost("open", self.path / "kafka-0", "unclean", 0, SEGMENT_BYTES)

    def _forget(self) -> None:
        (self.directory / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
        for file in self.directory.glob("*.snapshot"):
            file.unlink()

    def _open(self) -> float:
        self.log = segstore.open(
            self.directory, segment_bytes=SEGMENT_BYTES, recovery=self.recovery, **SETTINGS
        )
        return self.segments

    def _close(self) -> None:
        assert not self.log.report.clean
        assert self.log.log_end_offset == self.end
        self.log.close_quietly()
