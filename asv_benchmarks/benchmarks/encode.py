"""Building batches: from tuples against a Python client, from Arrow columns against raw pwrite."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

from segstore import _core
from segstore.records.compression import codec_table

from .common import LogBesideFile, TimedAlone, speed_ratio
from .datasets import FIRST_TIMESTAMP, key_values, records_in_log

ONE_BATCH = 1_000_000


class EncodeTuples(TimedAlone):
    """A list of (key, value) that makes one batch, CRC included; nothing is written."""

    params = ([100, 1000], [16_384, ONE_BATCH])
    param_names = ("value_bytes", "batch_bytes")
    unit = "ratio"

    def setup(self, value_bytes: int, batch_bytes: int) -> None:
        self.records = key_values(value_bytes, batch_bytes // (value_bytes + 20))
        self.times = max(1, records_in_log(value_bytes) // len(self.records) // 4)
        self.codecs = codec_table()
        self.options = _core.BatchOptions(base_offset=0)
        assert bytes(self._encode()) == bytes(self._encode_with_aiokafka())

    def time_encode(self, *_: object) -> None:
        self._encode_repeatedly()

    def track_speed_against_aiokafka(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(
            self._encode_repeatedly, lambda: self._repeat(self._encode_with_aiokafka)
        )

    def _repeat(self, encode: object) -> float:
        for _ in range(self.times):
            encode()
        return self.times * len(self.records)

    def _encode_repeatedly(self) -> float:
        return self._repeat(self._encode)

    def _encode(self) -> _core.EncodedBatches:
        return _core.encode_records(
            self.records, self.options, self.codecs, FIRST_TIMESTAMP, 2 * ONE_BATCH
        )

    def _encode_with_aiokafka(self) -> bytearray:
        builder = AiokafkaBuilder(2, 0, 0, -1, -1, -1, 2 * ONE_BATCH)
        for offset, (key, value) in enumerate(self.records):
            builder.append(offset, FIRST_TIMESTAMP, key, value, [])
        return builder.build()


def table_of(records: list[tuple[bytes, bytes]]) -> pa.Table:
    """Columns key, value and timestamp."""
    times = range(FIRST_TIMESTAMP, FIRST_TIMESTAMP + len(records))
    return pa.table(
        {
            "key": pa.array([key for key, _ in records], pa.binary()),
            "value": pa.array([value for _, value in records], pa.binary()),
            "timestamp": pa.array(times, pa.timestamp("ms")),
        }
    )


class AppendArrow(TimedAlone, LogBesideFile):
    """``log.append`` of tables of 1 MB each: encoding, CRC and write.

    Fraction of the speed of raw pwrite of the same bytes, as many at a time.
    """

    params = ([100, 1000], [16_384, ONE_BATCH])
    param_names = ("value_bytes", "batch_bytes")
    unit = "ratio"

    def setup(self, value_bytes: int, batch_bytes: int) -> None:
        self.open_both(max_message_bytes=batch_bytes)
        records = key_values(value_bytes, records_in_log(value_bytes))
        rows = ONE_BATCH // (value_bytes + 20)
        self.tables = [table_of(records[i : i + rows]) for i in range(0, len(records), rows)]
        self.rows = len(records)
        ends = [self.log.append(table).last_offset + 1 for table in self.tables]
        assert ends[-1] == self.rows
        self.batches = [
            b"".join(bytes(batch.data) for batch in self.log.scan(start, end).batches())
            for start, end in pairwise([0, *ends])
        ]
        self.log.truncate_fully_and_start_at(0)

    def time_append_and_clear(self, *_: object) -> None:
        self._append_and_clear()

    def track_speed_against_raw_pwrite(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._append_and_clear, self.pwrite_batches)

    def _append(self) -> None:
        for table in self.tables:
            self.log.append(table)
        assert self.log.log_end_offset == self.rows

    def _append_and_clear(self) -> float:
        self._append()
        self.log.truncate_fully_and_start_at(0)
        return sum(map(len, self.batches))
