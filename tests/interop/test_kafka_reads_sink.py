"""What tasks and commits of Spark's writes make is opened and read by Kafka's own classes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.log.files.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from segstore.spark.commit_log import producer_id_of
from segstore.types import Codec
from tests.interop.kafka_classes import read_with_kafka
from tests.interop.kafka_loader import KafkaLoader
from tests.interop.test_kafka_loads_ours import checkpointed
from tests.interop.test_kafka_reads_ours import as_kafka_prints
from tests.kits.sink_kit import QUERY, Stream, batch_of, make_topic

ROWS = 4_000
SEGMENT_BYTES = 1_048_576


def rows(first):
    """Null and empty keys and values, headers, times; a kilobyte each that does not compress."""
    numbers = range(first, first + ROWS)
    yesterday = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    headers = [[], None, [{"key": "h", "value": b"1"}, {"key": "é", "value": None}]]
    return batch_of(
        key=[None if n % 5 == 0 else f"k{n % 100}" for n in numbers],
        value=[None if n % 7 == 0 else f"{n}-" + "x" * (n * 37 % 2000) for n in numbers],
        headers=[headers[n % 3] for n in numbers],
        timestamp=[None if n % 4 == 0 else yesterday + timedelta(seconds=n) for n in numbers],
        partition=[None if n % 2 else n // 2 % 4 for n in numbers],
    )


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A topic of four partitions for each codec, written in three micro-batches."""
    path = tmp_path_factory.mktemp("logs")
    for codec in Codec:
        make_topic(path, codec.name, 4)
        name = codec.name.lower()
        settings = {"compression.type": name, "segment.bytes": str(SEGMENT_BYTES)}
        stream = Stream(path, topic=codec.name, txnAppId=f"{QUERY}-{name}", **settings)
        for batch_id in range(3):
            stream.run(batch_id, rows(batch_id * 2 * ROWS), rows((batch_id * 2 + 1) * ROWS))
    return path


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_kafka_opens_what_spark_wrote(logs, codec):
    """Kafka's ``UnifiedLog``: a clean open that finds all records, segments and the producer."""
    total = 0
    with KafkaLoader() as kafka:
        for number in range(4):
            directory = logs / f"{codec.name}-{number}"
            found = kafka.load(
                directory,
                clean=True,
                log_start_offset=checkpointed(directory, LOG_START_OFFSET_CHECKPOINT),
                recovery_point=checkpointed(directory, RECOVERY_POINT_CHECKPOINT),
                config={"segment.bytes": str(SEGMENT_BYTES)},
            )
            end = found["log_end_offset"]
            total += end
            (producer,) = found["producers"]
            assert producer["producer_id"] == producer_id_of(f"{QUERY}-{codec.name.lower()}")
            assert producer["batches"][-1][1] == end - 1
            assert len(found["segments"]) > (codec is Codec.NONE)

    assert total == 6 * ROWS


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_kafka_reads_what_spark_wrote(logs, codec):
    """Kafka's ``FileRecords``: every batch valid, every record equal."""
    directory = logs / f"{codec.name}-1"
    lines = [json.loads(line) for line in read_with_kafka(directory)]
    with segstore.open(directory, read_only=True) as log:
        assert log.verify().ok
        records = list(log)

    assert [line for line in lines if "offset" in line] == [as_kafka_prints(r) for r in records]
    assert {len(record.headers) for record in records} == {0, 2}
    assert None in {record.key for record in records}
    assert None in {record.value for record in records}
