"""Kafka's own record classes as a process that answers batch by batch: thousands a second."""

from __future__ import annotations

import struct
import subprocess
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.interop.kafka_classes import JAVA_SOURCES, java_command
from tests.kits.short_java import OPTIONS

if TYPE_CHECKING:
    from types import TracebackType

_SIZE = struct.Struct(">i")
_BATCH = struct.Struct(">bbbbqqqqhiiii")
_ROW = struct.Struct(">qqi")


class KafkaRecord(NamedTuple):
    """A record as Kafka's ``DefaultRecord`` gives it."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaBatch(NamedTuple):
    """A batch as Kafka's ``DefaultRecordBatch`` gives it."""

    magic: int
    codec: int
    timestamp_type: int
    is_transactional: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    partition_leader_epoch: int
    records_count: int


class Answer(NamedTuple):
    """What Kafka read of a batch, and the batch that it builds of the same records."""

    batch: KafkaBatch
    records: list[KafkaRecord]
    built_by_kafka: bytes


class RoundTrip:
    """The process; one batch in, one answer out."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command(*OPTIONS.split(), str(JAVA_SOURCES / "RoundTrip.java")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=30)

    def ask(self, batch: bytes) -> Answer:
        """Have Kafka read and build one batch."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(_SIZE.pack(len(batch)) + batch)
        self._process.stdin.flush()
        (size,) = _SIZE.unpack(self._process.stdout.read(_SIZE.size))
        answer = _Reader(self._process.stdout.read(size))
        failed = answer.take(struct.Struct(">b"))[0]
        assert not failed, answer.rest().decode()
        found = KafkaBatch(*answer.take(_BATCH))
        records = [answer.record() for _ in range(found.records_count)]
        built = answer.data()
        assert built is not None
        return Answer(found, records, built)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        start = self._position
        self._position += layout.size
        return layout.unpack_from(self._data, start)

    def data(self) -> bytes | None:
        (size,) = self.take(_SIZE)
        if size < 0:
            return None
        start = self._position
        self._position += size
        return self._data[start : self._position]

    def record(self) -> KafkaRecord:
        offset, timestamp, sequence = self.take(_ROW)
        key, value = self.data(), self.data()
        (count,) = self.take(_SIZE)
        headers = tuple(((self.data() or b"").decode(), self.data()) for _ in range(count))
        return KafkaRecord(offset, timestamp, sequence, key, value, headers)

    def rest(self) -> bytes:
        return self._data[self._position :]
