"""One pass of the log cleaner against Kafka's ``Cleaner``, and appends beside a cleaner."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import segstore
from segstore.errors import LogCleaningAbortedError
from segstore.log.cleaning.cleaner import Cleaner
from segstore.manager.throttler import Throttler

from .common import PROFILE, SEED, Cost, _Comparison, cost_of, note_measured, touch_memory
from .datasets import FIRST_TIMESTAMP, key_values
from .kafka_peer import kafka_log

IS_SMOKE = PROFILE.rounds == 1
APPENDS = 500 if IS_SMOKE else 200_000
MEMORY = Path("/dev/shm")
RECORD_BYTES = 1_000_000 if IS_SMOKE else 512 * 1024 * 1024
MAP_BYTES = 1_000_000 if IS_SMOKE else 256 * 1024 * 1024
SEGMENT_BYTES = 128 * 1024 * 1024
IO_BUFFER_BYTES = 256 * 1024
KEY_BYTES = 8
ROWS_OF_A_TABLE = 65_536
SETTINGS: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_bytes": SEGMENT_BYTES,
    "segment_ms": None,
    "max_message_bytes": 16_384,
    "durability": "none",
}


def column(data: np.ndarray) -> pa.Array:
    """Return a row of bytes as one value of a binary column."""
    count, width = data.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def fill(
    log: segstore.UnifiedLog, value_bytes: int, unique_percent: int, record_bytes: int
) -> None:
    """Append that many bytes of records, with keys by chance from that part of as many keys.

    At 100 % each record has its own key. The active segment is empty afterwards.
    """
    chooser = np.random.default_rng(SEED)
    count = record_bytes // (value_bytes + 18)
    values = np.array(
        [np.frombuffer(value, np.uint8) for _, value in key_values(value_bytes, 4_096)]
    )
    numbers = np.arange(count)
    keys = (
        numbers
        if unique_percent == 100
        else chooser.integers(0, count * unique_percent // 100, count)
    )
    for start in range(0, count, ROWS_OF_A_TABLE):
        some = numbers[start : start + ROWS_OF_A_TABLE]
        table = {
            "key": column(keys[some].astype(">i8").view(np.uint8).reshape(-1, KEY_BYTES)),
            "value": column(values[some * 31 % len(values)]),
            "timestamp": pa.array(FIRST_TIMESTAMP + some // 4, pa.timestamp("ms")),
        }
        log.append(pa.table(table))
    log.roll()


class Clean(_Comparison):
    """CPU time of a pass over all of the log, map and copy, with the syncs of both.

    The log has batches of 16 KB in segments of 128 MiB. A round works on a copy that was synced,
    with memory for what it writes.
    """

    params = ([100, 1000], [10, 50, 100])
    param_names = ("value_bytes", "unique_percent")
    warm_up_rounds = 2

    def setup(self, value_bytes: int, unique_percent: int) -> None:
        self.make_scratch()
        self.made = self.path / "made-0"
        self.cleaner = Cleaner(offset_map_bytes=MAP_BYTES, io_buffer_bytes=IO_BUFFER_BYTES)
        with segstore.open(self.made, **SETTINGS) as log:
            fill(log, value_bytes, unique_percent, RECORD_BYTES)
            self.end = log.log_end_offset
            self.size_bytes = sum(segment.size_bytes for segment in log.segments())

    def ours(self) -> Cost:
        with segstore.open(self._copy("ours-0"), **SETTINGS) as log:

            def clean() -> float:
                stats = log.clean(self.cleaner, 0)
                assert stats.end_offset == self.end
                return self.size_bytes

            return cost_of(clean)

    def theirs(self) -> Cost:
        directory = self._copy("theirs-0")
        return kafka_log().cost("clean", directory, MAP_BYTES, IO_BUFFER_BYTES, SEGMENT_BYTES)

    def _copy(self, name: str) -> Path:
        directory = self.path / name
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self.made, directory)
        os.sync()
        touch_memory(2 * self.size_bytes)
        return directory


class CleanMapMemory:
    """Bytes of the map for each key that it has room for; Kafka's ``SkimpyOffsetMap`` has 24."""

    unit = "bytes"

    def setup(self) -> None:
        self.map = Cleaner(offset_map_bytes=MAP_BYTES).offset_map

    def track_bytes_per_key(self) -> float:
        return MAP_BYTES / self.map.slots


class AppendBesideCleaner(_Comparison):
    """Appends of 1 KB without sync, in memory, beside passes over another log, against them alone.

    With Kafka's limit they keep 0.9 of their rate. CPU time is that of the thread that appends.
    """

    params = ([50_000_000, float("inf")],)
    param_names = ("cleaner_bytes_per_second",)

    def setup(self, cleaner_bytes_per_second: float) -> None:
        in_memory = MEMORY if MEMORY.is_dir() else None
        self.path = Path(tempfile.mkdtemp(prefix="segstore-bench-", dir=in_memory))
        self.limit = cleaner_bytes_per_second
        with segstore.open(self.path / "cleaned-0", **SETTINGS) as log:
            fill(log, 1_000, 50, PROFILE.log_bytes)
        self.records = key_values(1_000, APPENDS)

    def ours(self) -> Cost:
        is_over = threading.Event()
        throttler = Throttler(self.limit, time.monotonic_ns, is_over.wait)

        def check_done() -> None:
            if is_over.is_set():
                raise LogCleaningAbortedError("the appends are over")

        def clean_again_and_again() -> None:
            with contextlib.suppress(LogCleaningAbortedError):
                while True:
                    log.clean(cleaner, 0)

        cleaner = Cleaner(
            offset_map_bytes=MAP_BYTES, throttle=throttler.maybe_throttle, check_done=check_done
        )
        with segstore.open(self.path / "cleaned-0", **SETTINGS) as log:
            thread = threading.Thread(target=clean_again_and_again)
            thread.start()
            try:
                return self.theirs()
            finally:
                is_over.set()
                thread.join()

    def theirs(self) -> Cost:
        shutil.rmtree(self.path / "appended-0", ignore_errors=True)
        with segstore.open(self.path / "appended-0", durability="none", segment_ms=None) as log:
            append = log.append
            wall, cpu = time.perf_counter(), time.thread_time()
            for record in self.records:
                append([record])
            cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
            assert log.log_end_offset == APPENDS
        note_measured(cpu)
        return Cost(cpu / APPENDS, wall / APPENDS)
