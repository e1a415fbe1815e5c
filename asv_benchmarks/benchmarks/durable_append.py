"""Appends that return when they are on stable storage: one thread, and many that share syncs."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of
from .datasets import batches_of_one_record, key_values
from .kafka_peer import kafka_log

VALUE_BYTES = 1000
BY_ONE_THREAD = "pwrite and fdatasync by one thread"
INTO_WRITTEN_SPACE = "the same into a preallocated file"


class DurableAppend(_Comparison):
    """One record of 1 KB a call, with ``durability="sync"``, by some threads [DUR-15].

    Against one thread's loop of pwrite and fdatasync of as many bytes, at the end of a file and in
    one that was filled with zeros and synced before, where a sync has neither size nor extents to
    write: what a log could reach that writes its space in advance. And against as many threads that
    call Kafka's ``appendAsLeader`` and ``flush``. The wall clock says how many are durable in a
    second: whoever waits for a disk uses no processor.
    """

    params = ([1, 16, 64], [BY_ONE_THREAD, INTO_WRITTEN_SPACE, "kafka"])
    param_names = ("threads", "peer")

    def setup(self, threads: int, peer: str) -> None:
        self.make_scratch()
        self.threads = threads
        self.raw_appends = max(1, PROFILE.lookups // 5)
        self.appends = self.raw_appends if threads == 1 else PROFILE.lookups
        self.values = [value for _, value in key_values(VALUE_BYTES, PROFILE.lookups)]
        self.against_kafka, self.preallocates = peer == "kafka", peer == INTO_WRITTEN_SPACE
        if self.against_kafka:
            pool = self.path / "pool"
            pool.write_bytes(b"".join(batches_of_one_record(VALUE_BYTES, 200)))
            assert kafka_log().measure("pool", pool)[2] == 200

    def ours(self) -> Cost:
        return cost_of(self._append, before=self._open, after=self._close)

    def theirs(self) -> Cost:
        if self.against_kafka:
            each = self.appends // self.threads
            return kafka_log().cost("append_and_flush", self.threads, each, self.path / "kafka-0")
        return cost_of(self._pwrite, before=self._open_file, after=self._remove_file)

    def _open(self) -> None:
        self.log = segstore.open(self.path / "ours-0", durability="sync", segment_ms=None)

    def _append(self) -> float:
        each = self.appends // self.threads

        def write(thread: int) -> None:
            append = self.log.append
            for value in self.values[thread * each : (thread + 1) * each]:
                append([(None, value)])

        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(write, range(self.threads)))
        return each * self.threads

    def _close(self) -> None:
        assert self.log.durable_offset == self.appends // self.threads * self.threads
        self.log.close()
        shutil.rmtree(self.path / "ours-0")

    def _open_file(self) -> None:
        self.descriptor = os.open(self.path / "raw", os.O_RDWR | os.O_CREAT)
        if self.preallocates:
            os.pwrite(self.descriptor, bytes(self.raw_appends * VALUE_BYTES), 0)
            os.fsync(self.descriptor)

    def _pwrite(self) -> float:
        position = 0
        for value in self.values[: self.raw_appends]:
            position += os.pwrite(self.descriptor, value, position)
            os.fdatasync(self.descriptor)
        return self.raw_appends

    def _remove_file(self) -> None:
        os.close(self.descriptor)
        (self.path / "raw").unlink()
