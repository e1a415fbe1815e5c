"""A real broker's log directory: Spark's writes into it, the broker opens it and serves it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

import segstore
import segstore.spark
from segstore.errors import LogLockedError
from segstore.types import Codec
from tests.interop.kafka_broker import KafkaBroker
from tests.interop.test_kafka_reads_ours import as_kafka_prints
from tests.interop.test_kafka_reads_sink import ROWS, SEGMENT_BYTES, rows
from tests.kits.sink_kit import Stream, batch_of, hidden_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from segstore import Record

PARTITIONS = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> KafkaBroker:
    """A broker that made the topics, and is down."""
    made = KafkaBroker(tmp_path_factory.mktemp("broker"), log_segment_bytes=SEGMENT_BYTES)
    with made:
        for codec in Codec:
            made.create_topic(codec.name, PARTITIONS)
        made.produce(Codec.LZ4.name, 1, "from a producer")
        early = Stream(made.log_directory, topic=Codec.NONE.name, lockTimeoutMs="0")
        messages = early.stage(batch_of(value=["while the broker runs"]))
        with pytest.raises(LogLockedError):
            early.commit(messages, 0)
    early.abort(messages, 0)
    return made


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A local Spark."""
    before = dict(os.environ)
    session = segstore.spark.session("broker", **{"spark.sql.session.timeZone": "UTC"})
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


def write(spark: SparkSession, logs: Path, topic: str) -> None:
    """Two batch writes with a name, and the second again."""
    for version, first in ((0, 0), (1, 2 * ROWS), (1, 2 * ROWS)):
        table = pa.Table.from_batches([rows(first), rows(first + ROWS)])
        (
            spark.createDataFrame(table)
            .write.format("segstore")
            .mode("append")
            .options(path=logs, topic=topic, txnAppId=topic, txnVersion=version)
            .options(**{"compression.type": topic.lower(), "segment.bytes": SEGMENT_BYTES})
            .save()
        )


def our_records(logs: Path, topic: str) -> dict[int, list[Record]]:
    with segstore.open_dir(logs, read_only=True) as manager:
        return {number: list(manager.log(topic, number)) for number in range(PARTITIONS)}


@pytest.mark.long
def test_a_broker_serves_what_spark_wrote_into_its_directory(spark, broker):
    """Five codecs, headers, nulls, four partitions, several segments; then the broker goes on."""
    logs = broker.log_directory
    for codec in Codec:
        write(spark, logs, codec.name)
    ours = {codec: our_records(logs, codec.name) for codec in Codec}
    assert hidden_files(logs, "staged") == []
    assert {len(record.headers) for record in ours[Codec.NONE][1]} == {0, 2}
    assert None in {record.key for record in ours[Codec.NONE][1]}
    assert None in {record.value for record in ours[Codec.NONE][1]}

    with broker:
        for codec in Codec:
            served = broker.consume(codec.name)
            printed = {
                number: [as_kafka_prints(record) for record in records]
                for number, records in ours[codec].items()
            }
            assert served == printed
            assert sum(map(len, served.values())) == 4 * ROWS + (codec is Codec.LZ4)
        broker.produce(Codec.ZSTD.name, 2, "behind Spark's")

    for codec in Codec:
        assert len([*(logs / f"{codec.name}-1").glob("*.log")]) > (codec is Codec.NONE)
    after = our_records(logs, Codec.ZSTD.name)
    assert [record.value for record in after[2]][-1] == b"behind Spark's"
    assert len(after[2]) == len(ours[Codec.ZSTD][2]) + 1
    with segstore.open_dir(logs, read_only=True) as manager:
        assert all(manager.log(c.name, p).verify().ok for c in Codec for p in range(PARTITIONS))
