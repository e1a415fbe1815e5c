"""Reading records.

Arrow columns, tuples and values against what the Python clients make of the same batches.
"""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from segstore import _core
from segstore.records.columns import decode_to_batches
from segstore.records.compression import codec_table

from .common import PROFILE, speed_ratio
from .datasets import batches, fetches, records_in_log

COLUMNS = ("offset", "timestamp", "key", "value")


class DecodeBatches:
    """Decoding of uncompressed batches in memory, CRC checked.

    Speed over that of a Python client.
    """

    params = ([100, 1000], [16_384, 1_000_000])
    param_names = ("value_bytes", "batch_bytes")
    unit = "ratio"

    def setup(self, value_bytes: int, batch_bytes: int) -> None:
        self.batches = batches(value_bytes, batch_bytes)
        self.fetches = fetches(self.batches)
        self.count = records_in_log(value_bytes)
        self.codecs = codec_table()
        assert self._tuples() == self.count  # never time a wrong answer

    def track_arrow_against_aiokafka_tuples(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._arrow, lambda: self._decode_with(AiokafkaBatch, self.count))

    def track_tuples_against_aiokafka_tuples(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._tuples, lambda: self._decode_with(AiokafkaBatch, self.count))

    def track_tuples_against_kafka_python_tuples(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(
            self._tuples, lambda: self._decode_with(KafkaPythonBatch, PROFILE.slow_peer_records)
        )

    def track_values_against_aiokafka_tuples(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._values, lambda: self._decode_with(AiokafkaBatch, self.count))

    def _arrow(self) -> float:
        decoder = _core.ColumnDecoder(self.codecs, COLUMNS)
        return sum(table.rows_count for table in decode_to_batches(self.fetches, decoder))

    def _tuples(self) -> float:
        return sum(len(_core.decode_tuples(batch, self.codecs)) for batch in self.batches)

    def _values(self) -> float:
        return sum(len(_core.decode_values(batch, self.codecs)) for batch in self.batches)

    def _decode_with(self, batch_class: type, count: int) -> float:
        decoded = 0
        for data in self.batches:
            batch = batch_class(data)
            assert batch.validate_crc()
            decoded += len(
                [(record.offset, record.timestamp, record.key, record.value) for record in batch]
            )
            if decoded >= count:
                break
        return decoded
