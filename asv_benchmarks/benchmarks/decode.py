"""Reading records.

Arrow columns, tuples and values against what the Python clients make of the same batches.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from segstore import _core
from segstore.records.columns import decode_to_batches
from segstore.records.compression import codec_table

from .common import PROFILE, TimedAlone, speed_ratio
from .datasets import ONE_FETCH, batches, batches_of_one_record, fetches, records_in_log

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = ("offset", "timestamp", "key", "value")


class DecodeBatches(TimedAlone):
    """Decoding of uncompressed batches in memory, CRC checked.

    Speed over that of a Python client. The same fetch of 1 MB again and again: what a read has just
    copied lies in the cache, for all of them.
    """

    params = ([100, 1000], [16_384, 1_000_000])
    param_names = ("value_bytes", "batch_bytes")
    unit = "ratio"

    def setup(self, value_bytes: int, batch_bytes: int) -> None:
        self.batches, self.fetches = self._input(value_bytes, batch_bytes)
        self.codecs = codec_table()
        count = self._tuples()
        assert count == self._arrow() == self._decode_with(AiokafkaBatch, count)  # no wrong answer
        self.repeats = max(1, records_in_log(value_bytes) // count)

    def _input(self, value_bytes: int, batch_bytes: int) -> tuple[list[bytes], list[bytes]]:
        return _first_fetch(batches(value_bytes, batch_bytes))

    def time_arrow(self, *_: object) -> None:
        self._arrow()

    def time_tuples(self, *_: object) -> None:
        self._tuples()

    def time_values(self, *_: object) -> None:
        self._values()

    def track_arrow_against_aiokafka_tuples(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._repeated(self._arrow), self._peer(AiokafkaBatch))

    def track_tuples_against_aiokafka_tuples(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._repeated(self._tuples), self._peer(AiokafkaBatch))

    def track_tuples_against_kafka_python_tuples(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(
            self._repeated(self._tuples),
            lambda: self._decode_with(KafkaPythonBatch, PROFILE.slow_peer_records),
        )

    def track_values_against_aiokafka_tuples(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._repeated(self._values), self._peer(AiokafkaBatch))

    def _repeated(self, action: Callable[[], float]) -> Callable[[], float]:
        return lambda: sum(action() for _ in range(self.repeats))

    def _peer(self, batch_class: type) -> Callable[[], float]:
        everything = sum(map(len, self.batches))
        return self._repeated(lambda: self._decode_with(batch_class, everything))

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


class DecodeBatchesFromMemory(DecodeBatches):
    """As above, of bytes that no cache holds: they are waited for, by whoever is fast enough."""

    def _input(self, value_bytes: int, batch_bytes: int) -> tuple[list[bytes], list[bytes]]:
        every = batches(value_bytes, batch_bytes)
        return list(every), fetches(every)


class DecodeBatchesOfOneRecord(DecodeBatches):
    """As `DecodeBatches`, where each batch has one record: what a batch costs beyond its records.

    Ours are decoded from the fetch, all of them; a Python client takes one batch a call.
    """

    params = ([100, 1000], ["one record"])
    param_names = ("value_bytes", "batch")

    def _input(self, value_bytes: int, batch_bytes: int) -> tuple[list[bytes], list[bytes]]:
        of_a_fetch = ONE_FETCH // (value_bytes + 20)
        return _first_fetch(batches_of_one_record(value_bytes, of_a_fetch))

    def _tuples(self) -> float:
        return sum(len(_core.decode_tuples(fetch, self.codecs)) for fetch in self.fetches)

    def _values(self) -> float:
        return sum(len(_core.decode_values(fetch, self.codecs)) for fetch in self.fetches)


def _first_fetch(each: tuple[bytes, ...]) -> tuple[list[bytes], list[bytes]]:
    """The batches of the first fetch, and that fetch."""
    first = fetches(each)[:1]
    within = sum(end <= len(first[0]) for end in accumulate(map(len, each)))
    return list(each[:within]), first
