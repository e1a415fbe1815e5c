"""Fetches of stored bytes at random offsets: against raw pread, and slices against Kafka's."""

from __future__ import annotations

import os
import random

import segstore

from .common import PROFILE, SEED, Cost, _Comparison, cost_of
from .datasets import replicated
from .kafka_peer import kafka_log

SEGMENTS = 1_000 if PROFILE.rounds > 1 else 20


class FetchOfBytes(_Comparison):
    """``log.read`` of so many bytes from the page cache, CRCs not looked at [DUR-79].

    Against pread of as many bytes at random positions of the same file: into a new ``bytes`` each
    time, as Python gives it, and into one buffer again and again.
    """

    params = ([1024 * 1024, 64 * 1024], ["os.pread", "os.preadv into one buffer"])
    param_names = ("fetch_bytes", "peer")

    def setup(self, fetch_bytes: int, peer: str) -> None:
        self.make_scratch()
        self.fetch_bytes = fetch_bytes
        self.log = segstore.open(self.path / "bench-0", durability="none", segment_ms=None)
        for batch in replicated(100, 16_384):
            self.log.append_as_follower(batch, 0)
        self.descriptor = os.open(self.log.segments()[0].path, os.O_RDONLY)
        self.count = PROFILE.lookups // (20 if fetch_bytes > 100_000 else 4)
        self.size = os.fstat(self.descriptor).st_size
        self.buffer = bytearray(fetch_bytes) if "buffer" in peer else None

    def ours(self) -> Cost:
        return cost_of(self._fetch)

    def theirs(self) -> Cost:
        return cost_of(self._pread)

    def _fetch(self) -> float:
        chooser, read, got = random.Random(SEED), self.log.read, 0
        end = int(self.log.log_end_offset * max(0.0, 1 - self.fetch_bytes / self.size)) or 1
        for _ in range(self.count):
            got += len(read(chooser.randrange(end), self.fetch_bytes).records)
        return got

    def _pread(self) -> float:
        chooser, buffer, got = random.Random(SEED), self.buffer, 0
        end = max(1, self.size - self.fetch_bytes)
        for _ in range(self.count):
            position = chooser.randrange(end)
            if buffer is None:
                got += len(os.pread(self.descriptor, self.fetch_bytes, position))
            else:
                got += os.preadv(self.descriptor, [buffer], position)
        return got

    def teardown(self, *parameters: object) -> None:
        self.log.close()
        os.close(self.descriptor)
        super().teardown(*parameters)


class _ManySegments(_Comparison):
    """A log of many segments that Kafka's process and this one have open.

    What to look for is drawn beforehand: Python takes a microsecond for it, Java some nanoseconds.
    """

    def make_log(self) -> None:
        self.make_scratch()
        self.log = segstore.open(self.path / "bench-0", durability="none", segment_ms=None)
        pool = replicated(100, 16_384)
        per_segment = max(1, len(pool) // SEGMENTS)
        for i, batch in enumerate(pool):
            if i % per_segment == 0 and 0 < i < per_segment * SEGMENTS:
                self.log.roll()
            self.log.append_as_follower(batch, 0)
        self.log.close()
        self.log = segstore.open(self.path / "bench-0", durability="none", segment_ms=None)

    def keep_in_kafka(self) -> None:
        assert kafka_log().measure("keep", self.path / "bench-0")[2] == len(self.log.segments())

    def teardown(self, *parameters: object) -> None:
        self.log.close()
        super().teardown(*parameters)


class Slice(_ManySegments):
    """``log.slice`` at a random offset: where the records are, nothing read of them yet.

    Against Kafka's ``UnifiedLog.read``, which gives the same.
    """

    warm_up_rounds = 4

    def setup(self) -> None:
        self.set_up_ours()
        self.keep_in_kafka()

    def set_up_ours(self) -> None:
        self.make_log()
        chooser, end = random.Random(SEED), self.log.log_end_offset
        self.offsets = [chooser.randrange(end) for _ in range(PROFILE.lookups)]

    def ours(self) -> Cost:
        return cost_of(self._slice)

    def theirs(self) -> Cost:
        return kafka_log().cost("read", PROFILE.lookups, 1024 * 1024)

    def _slice(self) -> float:
        find = self.log.slice
        for offset in self.offsets:
            find(offset, 1024 * 1024)
        return len(self.offsets)
