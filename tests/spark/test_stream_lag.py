"""How far streams are behind; case 18-stream-limits: there were no offsetsBehindLatest metrics."""

from __future__ import annotations

import json
import logging
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

import segstore
import segstore.spark
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.topic_offsets import StreamOffsets, to_topic_offsets
from segstore.types import TopicPartition
from tests.unit.log.test_committed_view import data

TWO = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@pytest.fixture(autouse=True)
def no_log_stays_open():
    yield
    OPEN_LOGS.close()


@pytest.fixture
def directory(tmp_path):
    """A topic with a topic id, of two partitions with 500 records each."""
    with segstore.open_dir(tmp_path / "data") as logs:
        logs.create_topic("orders", 2)
        for number in range(2):
            logs.log("orders", number).append([(b"k", b"v")] * 500)
    return tmp_path / "data"


def ids_of(directory):
    with segstore.open_dir(directory, read_only=True) as logs:
        return {one: logs.log(*one).topic_id for one in TWO}


OF_PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@4e30a698"


def event(*ends, name="mine", description=OF_PYTHON):
    sources = [SimpleNamespace(endOffset=end, description=description) for end in ends]
    return SimpleNamespace(
        progress=SimpleNamespace(name=name, id="0-1", batchId=7, sources=sources)
    )


def end_of(offsets, topic_ids):
    return json.dumps(
        to_topic_offsets(StreamOffsets(dict(zip(TWO, offsets, strict=True)), topic_ids))
    )


def test_the_lag_is_against_the_ends_as_they_are_now(directory):
    reports = []
    listener = segstore.spark.progress_listener(directory, reports.append)
    end = end_of((150, 500), ids_of(directory))
    listener.onQueryProgress(event(end))

    assert listener.lag == {"mine": {TWO[0]: 350, TWO[1]: 0}}
    assert reports[0].total == 350
    assert str(reports[0]) == "mine: a lag of 350 offsets after batch 7: orders-0 350"

    with segstore.open_dir(directory) as logs:
        logs.log("orders", 1).append([(b"k", b"later")] * 3)
    listener.onQueryProgress(event(end, name=None))
    assert listener.lag["0-1"] == {TWO[0]: 350, TWO[1]: 3}


def test_a_read_committed_stream_is_behind_committed_records(tmp_path):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(data(0, 0, 2) + data(11, 2, 3))
    committed = {"isolation.level": "read_committed"}
    for options, lag in (({}, 4), (committed, 1)):
        listener = segstore.spark.progress_listener(tmp_path, print, **options)
        listener.onQueryProgress(event('{"orders": {"0": 1}}'))
        assert listener.lag["mine"] == {TWO[0]: lag}


@pytest.mark.parametrize(
    "end",
    [
        "0",
        None,
        "no json",
        '{"orders": {"0": 5}}',  # Kafka's source, a topic of the same name: it has no topic id
        '{"orders": {"0": 5}, "orders topic_id=1gCkLTATTQSFhYMv-W7tfA": {}}',
        '{"payments": {"0": 5}}',
        '{"orders": {"7": 5}}',
        '{"logOffset": 3}',
        '{"..": {"0": 5}}',
    ],
)
def test_a_query_over_another_source_is_left_alone(directory, end, caplog):
    listener = segstore.spark.progress_listener(directory, pytest.fail)
    listener.onQueryProgress(event(end))
    assert listener.lag == {}
    assert not caplog.records
    listener.onQueryProgress(SimpleNamespace())  # whatever comes
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "description",
    [
        "KafkaV2[Subscribe[orders]]",
        "KafkaV2[SubscribePattern[.*]]",
        "KafkaV1[Assign[orders-0]]",
    ],
)
def test_a_query_over_kafka_is_left_alone_where_topics_have_no_ids(tmp_path, description, caplog):
    """A topic of the same name without `partition.metadata`: its offsets look like Kafka's."""
    segstore.open(tmp_path / "orders-0").close()
    listener = segstore.spark.progress_listener(tmp_path, pytest.fail)
    listener.onQueryProgress(event('{"orders": {"0": 5}}', description=description))
    assert listener.lag == {}
    assert not caplog.records


def test_an_error_in_a_report_stays_in_the_listener(directory, caplog):
    def report(_):
        raise RuntimeError

    listener = segstore.spark.progress_listener(directory, report)
    listener.onQueryProgress(event(end_of((1, 2), ids_of(directory))))
    assert "the stream goes on" in caplog.text

    caplog.clear()
    with caplog.at_level(logging.INFO):
        listener = segstore.spark.progress_listener(directory)
        listener.onQueryProgress(event(end_of((1, 2), ids_of(directory))))
    assert caplog.messages == [
        "mine: a lag of 997 offsets after batch 7: orders-0 499, orders-1 498"
    ]
    with pytest.raises(ConnectorOptionError):
        segstore.spark.progress_listener(directory, isolation="read_committed")


def test_spark_tells_the_listener(spark, directory, tmp_path):
    """A stream over logs, and one over another source."""
    reports = []
    listener = segstore.spark.progress_listener(directory, reports.append)
    spark.streams.addListener(listener)
    try:
        source = spark.readStream.format("segstore").option("path", str(directory))
        frame = source.options(subscribe="orders", startingOffsets="earliest").load()
        other = spark.readStream.format("rate").load()
        for name, one in (("mine", frame), ("other", other)):
            writer = one.writeStream.format("noop").queryName(name).trigger(availableNow=True)
            writer.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination(120)
        until = time.monotonic() + 30
        while not reports and time.monotonic() < until:
            time.sleep(0.1)  # events come by a thread of their own
    finally:
        spark.streams.removeListener(listener)
    assert listener.lag == {"mine": {TWO[0]: 0, TWO[1]: 0}}
    assert reports[-1].total == 0
