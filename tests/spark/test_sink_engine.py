"""Streaming writes through the real Spark: restarts, batches that run again, what a query is."""

from __future__ import annotations

import json
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException

import segstore
from segstore.spark.stream_reader import HAS_READ_LIMITS
from tests.kits.sink_kit import hidden_files, make_topic, records_of

BATCH = 700
BATCHES = [0, 1, 2] if HAS_READ_LIMITS else [0]
"""Of a run: before Spark 4.2 it is one batch, whatever the limit is."""

pytestmark = pytest.mark.filterwarnings("ignore:option maxOffsetsPerTrigger:UserWarning")


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
        return [one["batchId"] for one in query.recentProgress if one["numInputRows"]]

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
    last = BATCHES[-1]
    assert run() == BATCHES
    assert_copied(tmp_path / "sink", 2000)
    metadata = json.loads((tmp_path / "checkpoint" / "metadata").read_text().splitlines()[-1])
    assert state_of(tmp_path / "sink") == (metadata["id"], last, "done")

    commits = tmp_path / "checkpoint" / "commits"
    (commits / str(last)).unlink()  # as if the driver had died there
    (commits / f".{last}.crc").unlink(missing_ok=True)
    source[1](2000, 500)
    again = run()
    if not HAS_READ_LIMITS:  # a batch that runs again is a run
        again += run()
    assert again == [last, last + 1]
    assert_copied(tmp_path / "sink", 2500)
    assert state_of(tmp_path / "sink") == (metadata["id"], last + 1, "done")
    assert hidden_files(tmp_path / "sink", "staged") == []


def test_a_name_of_ones_own_is_that_of_one_checkpoint(run, tmp_path):
    """The numbers of another query's micro-batches say nothing about this one's."""
    run(txnAppId="copier")
    with pytest.raises(StreamingQueryException, match="choose another txnAppId"):
        run("another-checkpoint", txnAppId="copier")

    assert_copied(tmp_path / "sink", 2000)
    assert state_of(tmp_path / "sink") == ("copier", BATCHES[-1], "done")


def test_a_query_that_goes_on_keeps_its_limit_behind_the_first_batch(spark, source, tmp_path):
    """It follows the log; Spark before 4.2 does not tell a source where a batch begins."""
    path, add = source
    frame = spark.readStream.format("segstore").options(path=str(path), subscribe="numbers")
    query = (
        frame.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(BATCH))
        .load()
        .select("key", "value")
        .writeStream.format("segstore")
        .options(path=str(tmp_path / "sink"), checkpointLocation=str(tmp_path / "checkpoint"))
        .options(topic="copy", numPartitions="3")
        .trigger(processingTime="0 seconds")
        .start()
    )
    query.processAllAvailable()
    add(2000, 1500)
    query.processAllAvailable()
    query.stop()

    assert_copied(tmp_path / "sink", 3500)
    rows = [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]
    assert sum(rows) == 3500
    assert max(rows[0 if HAS_READ_LIMITS else 1 :]) <= BATCH
