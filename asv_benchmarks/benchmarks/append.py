"""Appending: prebuilt batches against raw pwrite, tuples against the Python clients' encoders."""

from __future__ import annotations

import os

from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

import segstore

from .common import PROFILE, LogBesideFile, ScratchDirectory, speed_ratio
from .datasets import FIRST_TIMESTAMP, batches, key_values, records_in_log


class LeaderAppendOfPrebuiltBatches(LogBesideFile):
    """Leader append with full validation (CRC, every record walked), one batch a call.

    Fraction of raw pwrite's speed.
    """

    params = ([100, 1000], [16_384, 131_072, 1_000_000])
    param_names = ("value_bytes", "batch_bytes")
    unit = "ratio"

    def setup(self, value_bytes: int, batch_bytes: int) -> None:
        self.open_both()
        self.batches = batches(value_bytes, batch_bytes)
        self.size = sum(map(len, self.batches))

    def track_speed_against_raw_pwrite(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._append, self.pwrite_batches)

    def _append(self) -> float:
        start = self.log.log_end_offset
        for batch in self.batches:
            self.log.append_as_leader(batch)
        assert self.log.log_end_offset > start
        self.log.truncate_fully_and_start_at(0)
        return self.size


class AppendOfTuples(ScratchDirectory):
    """``log.append`` of a list of (key, value) against encoding alone by the Python clients.

    Ours includes the encoding, the validation and the write.
    """

    params = ([100, 1000],)
    param_names = ("value_bytes",)
    unit = "ratio"

    def setup(self, value_bytes: int) -> None:
        self.make_scratch()
        self.records = key_values(value_bytes, records_in_log(value_bytes) // 4)
        self.log = segstore.open(self.path / "bench-0", durability="none", segment_ms=None)

    def track_speed_against_aiokafka_encoding(self, value_bytes: int) -> float:
        return speed_ratio(
            self._append, lambda: self._encode_with(AiokafkaBuilder, len(self.records))
        )

    def track_speed_against_kafka_python_encoding(self, value_bytes: int) -> float:
        return speed_ratio(
            self._append, lambda: self._encode_with(KafkaPythonBuilder, PROFILE.slow_peer_records)
        )

    def _append(self) -> float:
        self.log.append(self.records, timestamp=FIRST_TIMESTAMP)
        return len(self.records)

    def _encode_with(self, builder_class: type, count: int) -> float:
        builder = None
        for key, value in self.records[:count]:
            if builder is None:
                builder, offset = _new_builder(builder_class), 0
            if builder.append(offset, FIRST_TIMESTAMP, key, value, []) is None:
                builder.build()
                builder, offset = _new_builder(builder_class), 0
                builder.append(offset, FIRST_TIMESTAMP, key, value, [])
            offset += 1
        builder.build()
        return min(count, len(self.records))

    def teardown(self, *parameters: object) -> None:
        self.log.close()
        super().teardown(*parameters)


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


class AppendOfOneRecord(LogBesideFile):
    """One record a call, no sync, against a plain file: length and value by one os.write."""

    params = ([100, 1000],)
    param_names = ("value_bytes",)
    unit = "ratio"

    def setup(self, value_bytes: int) -> None:
        self.open_both()
        self.records = key_values(value_bytes, PROFILE.lookups)

    def track_speed_against_plain_file(self, value_bytes: int) -> float:
        return speed_ratio(self._append, self._write)

    def _append(self) -> float:
        for record in self.records:
            self.log.append([record])
        return len(self.records)

    def _write(self) -> float:
        for _, value in self.records:
            os.write(self.descriptor, len(value).to_bytes(4) + value)
        return len(self.records)
