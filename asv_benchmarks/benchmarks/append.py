"""Appending: prebuilt batches against raw pwrite, tuples against the Python clients' encoders."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of
from .datasets import FIRST_TIMESTAMP, batches, key_values, records_in_log, replicated
from .kafka_peer import kafka_log

if TYPE_CHECKING:
    from pathlib import Path

_LENGTH = struct.Struct("<I")


class AppendOfPrebuiltBatches(_Comparison):
    """One batch a call: as a leader (CRC, every record walked) or a follower (CRC).

    Against raw pwrite, and against Kafka's ``appendAsLeader`` and ``appendAsFollower``; every round
    fills a new file with the same pool of batches.
    """

    params = (
        ["leader", "follower"],
        [100, 1000],
        [16_384, 131_072, 1_000_000],
        ["pwrite", "kafka"],
    )
    param_names = ("origin", "value_bytes", "batch_bytes", "peer")
    warm_up_rounds = 4

    def setup(self, origin: str, value_bytes: int, batch_bytes: int, peer: str) -> None:
        self.make_scratch()
        self.batches = (batches if origin == "leader" else replicated)(value_bytes, batch_bytes)
        self.size = sum(map(len, self.batches))
        self.leads, self.origin, self.against_kafka = origin == "leader", origin, peer == "kafka"
        if self.against_kafka:
            pool = self.path / "pool"
            pool.write_bytes(b"".join(self.batches))
            assert kafka_log().measure("pool", pool)[2] == len(self.batches)

    def ours(self) -> Cost:
        return cost_of(self._append, before=self._open, after=self._remove)

    def theirs(self) -> Cost:
        if self.against_kafka:
            return kafka_log().cost("append", self.origin, self.path / "kafka-0")
        return cost_of(self._pwrite, before=self._open_file, after=self._remove_file)

    def _open(self) -> None:
        self.log = segstore.open(self.path / "ours-0", durability="none", segment_ms=None)

    def _append(self) -> float:
        log = self.log
        if self.leads:
            for batch in self.batches:
                log.append_as_leader(batch)
        else:
            for batch in self.batches:
                log.append_as_follower(batch, 0)
        return self.size

    def _remove(self) -> None:
        assert self.log.segments()[-1].size_bytes == self.size
        self.log.close_quietly()
        shutil.rmtree(self.path / "ours-0")

    def _open_file(self) -> None:
        self.descriptor = os.open(self.path / "raw", os.O_RDWR | os.O_CREAT)

    def _pwrite(self) -> float:
        position = 0
        for batch in self.batches:
            position += os.pwrite(self.descriptor, batch, position)
        return position

    def _remove_file(self) -> None:
        os.close(self.descriptor)
        (self.path / "raw").unlink()


class AppendOfTuples(_Comparison):
    """``log.append`` of a list of (key, value): encoding, validation and one write.

    Against a Python client's encoding and ``os.write`` of the same records, into a new file of the
    same file system in each round: both sides pay for pages of the page cache. Beside encoding
    alone, that cost decided the ratio (1,000 bytes: 1.4 on tmpfs, 0.3 on ext4); `EncodeTuples`
    compares encoding alone, in memory.
    """

    params = ([100, 1000], ["aiokafka", "kafka-python"])
    param_names = ("value_bytes", "peer")
    warm_up_rounds = 2

    def setup(self, value_bytes: int, peer: str) -> None:
        self.make_scratch()
        self.records = key_values(value_bytes, records_in_log(value_bytes) // 4)
        self.builder_class = {"aiokafka": AiokafkaBuilder, "kafka-python": KafkaPythonBuilder}[peer]
        slow = peer == "kafka-python"
        self.count = min(PROFILE.slow_peer_records if slow else 2**62, len(self.records))

    def ours(self) -> Cost:
        return cost_of(self._append, before=self._open, after=self._remove)

    def theirs(self) -> Cost:
        return cost_of(self._encode_and_write, before=self._open_file, after=self._remove_file)

    def _open(self) -> None:
        self.log = segstore.open(self.path / "ours-0", durability="none", segment_ms=None)

    def _append(self) -> float:
        return self.log.append(self.records, timestamp=FIRST_TIMESTAMP).last_offset + 1

    def _remove(self) -> None:
        assert self.log.log_end_offset == len(self.records)
        self.log.close_quietly()
        shutil.rmtree(self.path / "ours-0")

    def _open_file(self) -> None:
        self.descriptor = os.open(self.path / "raw", os.O_RDWR | os.O_CREAT)

    def _encode_and_write(self) -> float:
        builder, offset = _new_builder(self.builder_class), 0
        for key, value in self.records[: self.count]:
            if builder.append(offset, FIRST_TIMESTAMP, key, value, []) is None:
                os.write(self.descriptor, builder.build())
                builder, offset = _new_builder(self.builder_class), 0
                builder.append(offset, FIRST_TIMESTAMP, key, value, [])
            offset += 1
        os.write(self.descriptor, builder.build())
        return self.count

    def _remove_file(self) -> None:
        os.close(self.descriptor)
        (self.path / "raw").unlink()


def _new_builder(builder_class: type) -> object:
    return builder_class(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1_000_000,
    )


class PlainFile:
    """What a program writes that wants no library: length and value, and where each begins."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.positions: list[int] = []
        self.end = 0

    def append(self, value: bytes) -> None:
        os.write(self.descriptor, _LENGTH.pack(len(value)) + value)
        self.positions.append(self.end)
        self.end += _LENGTH.size + len(value)


class AppendOfOneRecord(_Comparison):
    """One record a call, no sync, against a plain file: length and value by one os.write."""

    params = ([100, 1000],)
    param_names = ("value_bytes",)

    def setup(self, value_bytes: int) -> None:
        self.make_scratch()
        self.values = [value for _, value in key_values(value_bytes, PROFILE.lookups)]
        self.log = segstore.open(self.path / "bench-0", durability="none", segment_ms=None)
        self.file = PlainFile(self.path / "plain")

    def ours(self) -> Cost:
        return cost_of(self._append)

    def theirs(self) -> Cost:
        return cost_of(self._write)

    def _append(self) -> float:
        append = self.log.append
        for value in self.values:
            append([(None, value)])
        return len(self.values)

    def _write(self) -> float:
        append = self.file.append
        for value in self.values:
            append(value)
        return len(self.values)

    def teardown(self, *parameters: object) -> None:
        self.log.close()
        os.close(self.file.descriptor)
        super().teardown(*parameters)
