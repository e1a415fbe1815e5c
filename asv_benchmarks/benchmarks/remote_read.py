"""Reads of a tiered topic from a folder, against Kafka's ``RemoteLogManager.read`` of the same one.

Run it on a machine that does nothing else::

    asv run --python=same --quick --bench 'RemoteRead'

Ours is the whole way of a user: ``log.read`` of a topic of ``open_dir(remote=...)``, with the
metadata topic, the index cache and the storage of a folder. Kafka's is the one call that a broker's
reader thread makes, with metadata in memory. Both read the same offsets of the same files, from the
page cache, with their indexes cached.

``pread`` is the limit: the same bytes of the same files into one buffer, and nothing else.

Goal: a third of Kafka's time at most. With 1 MiB ``pread`` alone takes that.
docs/decisions/remote-storage.md has the figures.
"""

from __future__ import annotations

import os
import random
from itertools import pairwise
from typing import TYPE_CHECKING

import segstore
from segstore._core import scan_headers

from .common import PROFILE, SEED, Cost, _Comparison, cost_of
from .datasets import replicated
from .kafka_peer import KafkaLog

if TYPE_CHECKING:
    from pathlib import Path

SEGMENTS = 16
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0", "segment.ms": str(2**62)}


class RemoteRead(_Comparison):
    """Reads of so many bytes, one after the other through the topic or at random offsets."""

    params = ([1024 * 1024, 64 * 1024], ["onward", "random"], ["kafka", "pread"])
    param_names = ("fetch_bytes", "order", "peer")
    warm_up_rounds = 8

    def setup(self, fetch_bytes: int, order: str, peer: str) -> None:
        self.make_scratch()
        self.fetch_bytes, self.peer = fetch_bytes, peer
        self.files: dict[int, int] = {}
        self.logs = segstore.open_dir(self.path / "data", remote=str(self.path / "tier"))
        folder = self.write_topic()
        self.offsets = self.offsets_onward()
        if order == "random":
            chooser, end = random.Random(SEED), self.log.local_log_start_offset
            self.offsets = [chooser.randrange(end) for _ in self.offsets]
        if peer == "pread":
            self.places = [self.place_of(folder, offset) for offset in self.offsets]
            self.buffer = bytearray(fetch_bytes)
            return
        (folder / "offsets").write_text("".join(f"{offset}\n" for offset in self.offsets))
        kafka_log = self.path / "bench-0"
        with segstore.open(kafka_log, durability="none") as log:  # for its leader epochs
            log.append_as_follower(replicated(100, 16_384)[0], 0)
        self.kafka = KafkaLog("KafkaRemoteReads", kafka_log, self.path, folder)

    def write_topic(self) -> Path:
        """Append, copy and expire; return the folder where the segments are."""
        pool = replicated(100, 16_384)
        self.logs.create_topic("bench", 1, config=TIERED)
        self.log = self.logs.log("bench", 0)
        for i, batch in enumerate(pool):
            if i and i % max(1, len(pool) // SEGMENTS) == 0:
                self.log.roll()
            self.log.append_as_follower(batch, 0)
        self.log.roll()
        report = self.logs.maintain()
        assert not report.failed
        end = self.log.local_log_start_offset
        assert end == self.log.log_end_offset
        (folder,) = (self.path / "tier" / "kafka-tiered-storage").iterdir()
        files = sorted(folder.glob("*.log"))
        starts = [int(file.name.partition("-")[0]) for file in files]
        lines = [
            f"{start} {after - 1} {file.stat().st_size} 1 {file.stem.partition('-')[2]}\n"
            for file, (start, after) in zip(files, pairwise([*starts, end]), strict=True)
        ]
        (folder / "segments").write_text("".join(lines))
        return folder

    def offsets_onward(self) -> list[int]:
        """What a consumer asks for; small topics again and again."""
        offsets, offset, end = [], 0, self.log.local_log_start_offset
        while offset < end:
            offsets.append(offset)
            records = memoryview(self.log.read(offset, self.fetch_bytes).records)
            offset = scan_headers(records)[0].last_offset + 1
        return offsets * max(1, PROFILE.lookups // 20 // len(offsets))

    def ours(self) -> Cost:
        return cost_of(self._read)

    def theirs(self) -> Cost:
        return cost_of(self._pread) if self.peer == "pread" else self.kafka.cost(self.fetch_bytes)

    def place_of(self, folder: Path, offset: int) -> tuple[int, int]:
        """Return the open file that has an offset, and the position of its batch."""
        found = self.log.read(offset, self.fetch_bytes).fetch_offset_metadata
        base = found.segment_base_offset
        if base not in self.files:
            (file,) = folder.glob(f"{base:020}-*.log")
            self.files[base] = os.open(file, os.O_RDONLY)
        return self.files[base], found.relative_position_in_segment

    def _pread(self) -> float:
        for file, position in self.places:
            assert os.preadv(file, [self.buffer], position)
        return len(self.places)

    def _read(self) -> float:
        read, fetch_bytes = self.log.read, self.fetch_bytes
        for offset in self.offsets:
            assert read(offset, fetch_bytes).size_bytes
        return len(self.offsets)

    def teardown(self, *parameters: object) -> None:
        if self.peer == "kafka":
            self.kafka.close()
        for file in self.files.values():
            os.close(file)
        self.logs.close()
        super().teardown(*parameters)
