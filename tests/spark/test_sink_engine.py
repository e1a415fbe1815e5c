"""Streaming writes through the real Spark: restarts, batches that run again, what a query is."""

from __future__ import annotations

import json
from collections import Counter

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource")

import segstore
from tests.spark.sink_kit import hidden_files, make_topic, records_of

BATCH = 700


@pytest.fixture
def source(tmp_path):
    """A log of 2000 numbers in two partitions; a function adds more."""
    path = tmp_path / "source"
    make_topic(path, "numbers", 2)

    def add(first, count):
        with segstore.open_dir(path, durability="none") as manager:
            for number in range(first, first + count):
                manager.append("numbers", [(b"k%d" % (number % 7), b"%d" % number)])

    add(0, 2000)
    return path, add


@pytest.fixture
def run(spark, tmp_path, source):
    """Run the query until it has taken all there is; returns the ids of its micro-batches."""

    def run(checkpoint="checkpoint", **options):
        frame = spark.readStream.format("segstore").options(
            path=str(source[0]),
            subscribe="numbers",
            startingOffsets="earliest",
            maxOffsetsPerTrigger=str(BATCH),
        )
        query = (
            frame.load()
            .select("key", "value")
            .writeStream.format("segstore")
            .options(path=str(tmp_path / "sink"), checkpointLocation=str(tmp_path / checkpoint))
            .options(topic="copy", numPartitions="3", **options)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress["batchId"] for progress in query.recentProgress]

    return run


def assert_copied(path, count):
    """Each number once, and those of a key in their order."""
    found = records_of(path, "copy")
    numbers = [int(record.value) for records in found.values() for record in records]
    assert Counter(numbers) == Counter(range(count))
    for records in found.values():
        for key in {record.key for record in records}:
            of_key = [int(record.value) for record in records if record.key == key]
            assert of_key == sorted(of_key)


def state_of(path):
    (name,) = hidden_files(path, "commit")
    content = json.loads((path / name).read_text())
    return content["id"], content["version"], content["state"]


def test_a_query_that_is_restarted_goes_on(run, source, tmp_path):
    """Its name is the id in its checkpoint; a batch that runs again is dropped."""
    assert run() == [0, 1, 2]
    assert_copied(tmp_path / "sink", 2000)
    metadata = json.loads((tmp_path / "checkpoint" / "metadata").read_text().splitlines()[-1])
    assert state_of(tmp_path / "sink") == (metadata["id"], 2, "done")

    (tmp_path / "checkpoint" / "commits" / "2").unlink()  # as if the driver had died there
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    source[1](2000, 500)
    assert run() == [2, 3]
    assert_copied(tmp_path / "sink", 2500)
    assert state_of(tmp_path / "sink") == (metadata["id"], 3, "done")
    assert hidden_files(tmp_path / "sink", "staged") == []


def test_a_name_of_ones_own_outlives_the_checkpoint(run, tmp_path):
    run(txnAppId="copier")
    assert run("another-checkpoint", txnAppId="copier") == [0, 1, 2]

    assert_copied(tmp_path / "sink", 2000)
    assert state_of(tmp_path / "sink") == ("copier", 2, "done")
