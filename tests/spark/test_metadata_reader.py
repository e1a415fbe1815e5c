"""``option("kind", …)``: tables of batches, segments, producers, transactions, epochs, topics."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.local.transaction_index import TransactionIndex
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.metadata_schema import KINDS, metadata_schema
from segstore.spark.open_logs import OPEN_LOGS
from segstore.types import TopicPartition

DAY = 24 * 3600 * 1000
HAS_A_ROW = {"segments", "topics"}
"""Kinds that show a log without records."""
FOR_EVER = segstore.ProducerStateManagerConfig(producer_id_expiration_ms=2**62)


@pytest.fixture(autouse=True)
def no_log_stays_open():
    yield
    OPEN_LOGS.close()


def rows(path, kind, schema=None, **options):
    """Rows of the table, as dicts, read as Spark's processes do: everything travels pickled."""
    given = {"path": str(path), "subscribePattern": ".*", "kind": kind, **options}
    source = SegstoreDataSource(given)
    reader = pickle.loads(pickle.dumps(source.reader(schema or source.schema())))
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    return [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]


def logs_of(directory):
    for path in sorted(directory.glob("*-[0-9]*")):
        if any(path.glob("*.log")) and not path.name.startswith("__"):
            with segstore.open(path, read_only=True) as log:
                yield log


@pytest.mark.golden_kinds(
    "plain", "transactions", "compacted", "message sets", "zstd", "idempotent producers"
)
def test_batches_are_those_of_the_log(golden_data):
    """The oracle is the object of each batch."""
    data = golden_data
    found = rows(data, "batches")
    expected = [
        (log.topic_partition.topic, log.topic_partition.partition, batch)
        for log in logs_of(data)
        for batch in log.scan().batches()
    ]

    assert len(found) == len(expected) > 0
    for row, (topic, partition, batch) in zip(found, expected, strict=True):
        assert (row["topic"], row["partition"]) == (topic, partition)
        for name, value in (
            ("position", batch.position),
            ("size", batch.size_bytes),
            ("lastOffset", batch.last_offset),
            ("magic", batch.magic),
            ("compresscodec", batch.codec.name.lower()),
            ("producerId", batch.producer_id),
            ("producerEpoch", batch.producer_epoch),
            ("baseSequence", batch.base_sequence),
            ("partitionLeaderEpoch", batch.partition_leader_epoch),
            ("isControl", batch.is_control),
            ("isTransactional", batch.is_transactional),
        ):
            assert row[name] == value, name
        if row["maxTimestamp"] is not None:
            assert round(row["maxTimestamp"].timestamp() * 1000) == batch.max_timestamp
    starts = {log.topic_partition: log.log_start_offset for log in logs_of(data)}
    begins_inside = any(
        batch.base_offset < starts[TopicPartition(topic, partition)]
        for topic, partition, batch in expected
    )
    # A batch counts its records below the start of the log, too.
    if all(row["magic"] == 2 for row in found) and not begins_inside:
        assert sum(row["count"] for row in found if not row["isControl"]) == sum(
            log.scan().count() for log in logs_of(data)
        )


def test_ranges_and_splits_show_each_batch_once(packed):
    """A batch that reaches into the range from below is in it, once."""
    data = packed / "plain-many-segments" / "data"
    everything = rows(data, "batches")
    topic = everything[0]["topic"]

    assert rows(data, "batches", maxRecordsPerPartition="7") == everything
    assert rows(data, "batches", minPartitions="9") == everything
    batch = next(row for row in everything if row["lastOffset"] > row["baseOffset"])
    inside = batch["baseOffset"] + 1
    given = {
        "path": str(data),
        "kind": "batches",
        "assign": json.dumps({topic: [batch["partition"]]}),
        "startingOffsets": json.dumps({topic: {batch["partition"]: inside}}),
    }
    source = SegstoreDataSource(given)
    reader = source.reader(source.schema())
    found = [
        row for one in reader.partitions() for part in reader.read(one) for row in part.to_pylist()
    ]
    assert found == [
        row
        for row in everything
        if row["partition"] == batch["partition"] and row["lastOffset"] >= inside
    ]


def test_segments_are_those_of_the_log(packed):
    data = packed / "plain-many-segments" / "data"
    found = rows(data, "segments")
    segments = [(log, one) for log in logs_of(data) for one in log.segments()]

    assert len(found) == len(segments) > 4
    for row, (log, segment) in zip(found, segments, strict=True):
        assert row["baseOffset"] == segment.base_offset
        assert row["file"] == segment.path
        assert row["size"] == (data / Path(log.path).name / segment.name).stat().st_size
        assert row["isActive"] == (row["nextOffset"] == log.log_end_offset)
    assert [row["nextOffset"] for row in found if not row["isActive"]] == [
        row["baseOffset"] for row in found if row["baseOffset"]
    ]


@pytest.mark.golden_kinds("idempotent producers", "transactions", "killed in transactions")
def test_producers_are_those_that_a_writer_knows(golden_data, copy_of):
    """The oracle is the producer state of the log, as Kafka keeps it."""
    data = copy_of(golden_data)
    with_producers = 0
    for path in sorted(data.glob("[!_]*-[0-9]*")):
        if path.name.endswith("-delete"):
            continue
        with segstore.open(path, producer_config=FOR_EVER) as log:
            expected = sorted(log.active_producers())
            topic, partition = log.topic_partition
        found = rows(data, "producers")
        mine = [row for row in found if (row["topic"], row["partition"]) == (topic, partition)]
        with_producers += bool(expected)
        assert [
            (
                row["producerId"],
                row["producerEpoch"],
                row["lastSequence"],
                round(row["lastTimestamp"].timestamp() * 1000),
                row["coordinatorEpoch"],
                -1
                if row["currentTransactionStartOffset"] is None
                else row["currentTransactionStartOffset"],
            )
            for row in mine
        ] == [tuple(one) for one in expected]
    assert with_producers


@pytest.mark.golden_kinds("transactions", "killed in transactions")
def test_transactions_are_those_of_the_log(golden_data):
    """Aborted: the broker's own index. Open: the last stable offset. Committed: what is read."""
    data = golden_data
    found = rows(data, "transactions")
    states = set()
    for log in logs_of(data):
        mine = [row for row in found if (row["topic"], row["partition"]) == log.topic_partition]
        states |= {row["state"] for row in mine}
        directory = segstore._core.Directory(log.path)
        indexed = [
            (entry.producer_id, entry.first_offset, entry.last_offset)
            for segment in log.segments()
            for entry in list(TransactionIndex(directory, segment.base_offset))
        ]
        directory.close()
        assert sorted(
            (row["producerId"], row["firstOffset"], row["lastOffset"])
            for row in mine
            if row["state"] == "CompleteAbort"
        ) == sorted(indexed)
        ongoing = [row["firstOffset"] for row in mine if row["state"] == "Ongoing"]
        assert min(ongoing, default=log.log_end_offset) == log.last_stable_offset
        committed = [row for row in mine if row["state"] == "CompleteCommit"]
        seen = {record.offset for record in log.scan(isolation="read_committed")}
        assert all(
            row["firstOffset"] in seen
            for row in committed
            if row["firstOffset"] < log.last_stable_offset
        )
    assert {"CompleteAbort", "CompleteCommit"} <= states


@pytest.mark.golden_kinds("several epochs")
def test_epochs_are_those_of_the_checkpoint(golden_data):
    data = golden_data
    found = rows(data, "epochs")
    lines = {
        path.parent.name: path.read_text().split("\n")[2:-1]
        for path in data.glob("[!_]*/leader-epoch-checkpoint")
    }

    assert {
        (f"{row['topic']}-{row['partition']}", f"{row['leaderEpoch']} {row['startOffset']}")
        for row in found
    } == {(name, line) for name, entries in lines.items() for line in entries}
    assert len(found) > len(lines)
    ends = {(row["topic"], row["partition"]): row["endOffset"] for row in found}
    for log in logs_of(data):
        if lines.get(str(log.topic_partition)):  # a log without records may have no epoch
            assert ends[log.topic_partition] == log.log_end_offset


def test_topics_show_settings_sizes_and_what_is_due(tmp_path):
    """[RTN-12, CLN-36] The oracles are the manager, and the plans of the logs."""
    now = time.time_ns() // 1_000_000
    week = {"cleanup.policy": "compact,delete", "retention.ms": str(7 * DAY)}
    small = {"internal.segment.bytes": "1000"}
    with segstore.open_dir(tmp_path, durability="none") as logs:
        logs.create_topic("both", 2, config={**week, **small})
        logs.create_topic("kept", config=small)
        logs.create_topic("old", config={"retention.ms": str(DAY)})
        logs.create_topic("large", config={"retention.bytes": "2000", **small})
        for number in range(40):
            logs.append("kept", [(now, b"%d" % (number % 3), bytes(100))])
            logs.append("large", [(now, None, bytes(100))])
            logs.append("both", [(now + number, b"%d" % (number % 3), bytes(100))], partition=1)
            if number == 25:
                logs.log("both", 1).compact()
        logs.append("old", [(now - 3 * DAY, None, b"v")])
        ids = {topic: logs.describe_topic(topic).topic_id for topic in logs.topics()}
        sizes = dict.fromkeys(ids, 0)
        for topic, number in logs.partitions():
            sizes[topic] += sum(one.size_bytes for one in logs.log(topic, number).segments())
        first = logs.log("both", 1).segments()[0].largest_record_timestamp()
        ratio = logs.log("both", 1).plan_compaction().dirty_ratio
    before = time.time_ns() // 1_000_000
    found = {row["topic"]: row for row in rows(tmp_path, "topics")}
    due = {
        topic: row["nextDeletion"] and round(row["nextDeletion"].timestamp() * 1000)
        for topic, row in found.items()
    }

    assert {topic: row["topicId"] for topic, row in found.items()} == {
        topic: topic_id_text(topic_id) for topic, topic_id in ids.items()
    }
    assert {topic: row["size"] for topic, row in found.items()} == sizes
    assert {topic: row["partitionCount"] for topic, row in found.items()} == {
        "both": 2,
        "kept": 1,
        "large": 1,
        "old": 1,
    }
    assert dict(found["both"]["settings"]) == {**week, **small}
    assert found["both"]["cleanupPolicy"] == "compact,delete"
    assert 0 < ratio < 1
    assert {topic: row["dirtyRatio"] for topic, row in found.items()} == {
        "both": ratio,
        "kept": None,
        "large": None,
        "old": None,
    }
    assert (due["both"], due["old"]) == (first + 7 * DAY + 1, now - 2 * DAY + 1)
    assert due["kept"] is None
    assert due["large"] >= before
    with pytest.raises(ConnectorOptionError, match="on a local disk"):
        rows("s3://bucket/logs", "topics", metadata_schema("topics"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_directory_has_no_rows(tmp_path, kind):
    with segstore.open(tmp_path / "empty-0", durability="none"):
        pass

    found = rows(tmp_path, kind)
    assert [row["size"] for row in found] == [0] if kind in HAS_A_ROW else found == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "batch"}, "records, batches"),
        ({"kind": "segments", "startingTimestamp": "5"}, "shows whole logs"),
        ({"kind": "epochs", "kafka.isolation.level": "read_committed"}, "shows whole logs"),
    ],
)
def test_what_a_table_does_not_have_is_told(packed, options, words):
    with pytest.raises(ConnectorOptionError, match=words):
        rows(packed / "compacted" / "data", **options)


def test_a_stream_of_metadata_is_refused(packed):
    source = SegstoreDataSource(
        {"path": str(packed / "compacted" / "data"), "subscribePattern": ".", "kind": "epochs"}
    )

    with pytest.raises(ConnectorOptionError, match=r"use spark\.read"):
        source.streamReader(source.schema()).initialOffset()


def test_spark_takes_every_table(spark, packed):
    """Its own check of the first batch's schema is exact."""
    reader = spark.read.format("segstore").option("subscribePattern", ".*")
    reader = reader.option("path", str(packed / "transactions-tv2" / "data"))
    for kind, columns in KINDS.items():
        frame = reader.option("kind", kind).load()

        assert frame.columns == list(columns)
        assert frame.count() > 0
