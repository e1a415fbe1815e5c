"""One pass of the log cleaner against Kafka's ``Cleaner``: the same log, as much memory."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import segstore
from segstore.log.cleaning.cleaner import Cleaner

from .common import PROFILE, SEED, Cost, _Comparison, cost_of
from .datasets import FIRST_TIMESTAMP, key_values
from .kafka_peer import kafka_log

IS_SMOKE = PROFILE.rounds == 1
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

if TYPE_CHECKING:
    from pathlib import Path


def column(data: np.ndarray) -> pa.Array:
    """Return a row of bytes as one value of a binary column."""
    count, width = data.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def fill(log: segstore.UnifiedLog, value_bytes: int, unique_percent: int) -> None:
    """Append records of `RECORD_BYTES`, whose keys come from that part of as many keys by chance.

    At 100 % each record has its own key. The active segment is empty afterwards.
    """
    chooser = np.random.default_rng(SEED)
    count = RECORD_BYTES // (value_bytes + 18)
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

    The log has batches of 16 KB in segments of 128 MiB. A round works on a copy that was synced.
    """

    params = ([100, 1000], [10, 50, 100])
    param_names = ("value_bytes", "unique_percent")
    warm_up_rounds = 2

    def setup(self, value_bytes: int, unique_percent: int) -> None:
        self.make_scratch()
        self.made = self.path / "made-0"
        self.cleaner = Cleaner(offset_map_bytes=MAP_BYTES, io_buffer_bytes=IO_BUFFER_BYTES)
        with segstore.open(self.made, **SETTINGS) as log:
            fill(log, value_bytes, unique_percent)
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
        return directory


class CleanMapMemory:
    """Bytes of the map for each key that it has room for; Kafka's ``SkimpyOffsetMap`` has 24."""

    unit = "bytes"

    def setup(self) -> None:
        self.map = Cleaner(offset_map_bytes=MAP_BYTES).offset_map

    def track_bytes_per_key(self) -> float:
        return MAP_BYTES / self.map.slots
