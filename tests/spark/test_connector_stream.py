"""Streams go batch by batch as through Spark's own Kafka connector: offsets, rows, errors."""

from __future__ import annotations

import json
import re

import pytest

from tests.spark.connector_batch import digest, rows_of, sorted_rows

pytest.importorskip("pyspark")

from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.stream_reader import (
    HAS_READ_LIMITS,
    SegstoreStreamReader,
    UnlimitedStreamReader,
)
from tests.spark.micro_batches import Checkpoint, run


@pytest.fixture(autouse=True)
def no_log_stays_open():
    yield
    OPEN_LOGS.close()


pytestmark = [
    pytest.mark.filterwarnings("ignore:option:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* option ignored:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Some data may have been lost:UserWarning"),
]


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="Spark tells where a batch begins since 4.2")
def test_a_stream_goes_as_with_the_connector(recorded_stream, case_directory, summary):
    """Every recorded stream, in this process: each batch's offsets and rows, and the errors."""
    for recorded, batches, error in outcomes(
        recorded_stream, SegstoreStreamReader, case_directory, summary
    ):
        assert [comparable(batch) for batch in batches] == [
            recorded_batch(batch) for batch in recorded["batches"]
        ]
        if recorded.get("error") is None:
            assert error is None
            assert [offsets_of(batch) for batch in batches] == recorded_offsets(recorded)
        else:
            assert error is not None
            assert_same_error(recorded, error)
    if recorded_stream.compatible_only is not None:
        summary.leave_out(f"{recorded_stream.id}, without it: {recorded_stream.compatible_only}")
    summary.add("streams")


def test_a_stream_that_is_not_told_its_batches_has_the_same_records(
    recorded_stream, case_directory, summary
):
    """Spark 4.0 and 4.1: a run takes at once what the connector took batch by batch."""
    if recorded_stream.is_about_first_batch:
        pytest.skip("a run's first batch has no limit where Spark does not tell where it begins")
    for recorded, batches, error in outcomes(
        recorded_stream, UnlimitedStreamReader, case_directory, summary
    ):
        counts = [batch["count"] for batch in recorded["batches"]]
        assert sum(counts) == sum(comparable(batch)["count"] for batch in batches)
        if len(counts) == len(batches) == 1:
            assert comparable(batches[0])["sha256"] == recorded["batches"][0]["sha256"]
        if recorded.get("error") is None:
            assert error is None
            ends = [without_topic_ids(batch.end) for batch in batches if not only_takes_ids(batch)]
            assert ends[-1:] == [end for _, end in recorded_offsets(recorded)][-1:]
        else:
            assert error is not None
            assert_same_error(recorded, error)
    summary.add("streams in one batch a run")


def outcomes(stream, reader_class, case_directory, summary):
    """Yield what was recorded of each run, and what the reader does: batches, error."""
    data = case_directory(stream.case) / "data"
    if stream.left_out is not None:
        summary.leave_out(f"{stream.id}: {stream.left_out}")
        pytest.skip(stream.left_out)
    checkpoint = Checkpoint()
    for recorded in stream.runs:
        checkpoint.put(recorded.get("checkpoint_in", {}))
        checkpoint.remove(recorded.get("removed_before", []))
        options = stream.options_for(data, recorded)
        yield recorded, *outcome(recorded, options, reader_class, checkpoint)


def outcome(recorded, options, reader_class, checkpoint):
    (trigger,) = recorded["trigger"]
    batches = []
    try:
        source = SegstoreDataSource(options)
        reader = reader_class(source.options, source.schema())
        for batch in run(reader, trigger, checkpoint):
            batches.append(batch)  # noqa: PERF402 - what came before an error counts
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return batches, error
    return batches, None


def comparable(batch):
    rows = rows_of(batch.record_batches)
    names = batch.record_batches[0].schema.names if batch.record_batches else []
    return {
        "batch_id": batch.batch_id,
        "spark_partitions": batch.spark_partitions,
        "count": len(rows),
        "sha256": digest(sorted_rows(names, rows)),
    }


def only_takes_ids(batch):
    """Whether it is the batch without rows that gives ids to a checkpoint of the connector."""
    return batch.start == without_topic_ids(batch.end) != batch.end


def recorded_batch(batch):
    return {name: batch[name] for name in ("batch_id", "spark_partitions", "count", "sha256")}


def offsets_of(batch):
    return batch.batch_id, without_topic_ids(batch.end)


def without_topic_ids(topics):
    """What the connector reads of a checkpoint: nothing of a member without partitions."""
    return {topic: partitions for topic, partitions in topics.items() if partitions}


def recorded_offsets(recorded):
    """Batch id and end of the triggers that ran a batch: those with nothing new repeat an end."""
    ran = {batch["batch_id"] for batch in recorded["batches"]}
    return [
        (progress["batch_id"], progress["source"]["endOffset"])
        for progress in recorded["progress"]
        if progress["batch_id"] in ran
    ]


def unordered(message: str) -> str:
    """Which of several partitions is named first depends on the order of a Scala map."""
    return re.sub(r"topic-partition [\w.-]+", "topic-partition", message).rstrip(".")


def assert_same_error(recorded, error) -> None:
    chain = recorded["error"]["chain"]
    if "error_in_batch" in recorded:
        chain = recorded["error_in_batch"]["chain"]
    (expected,) = [cause for cause in chain if cause.get("condition", "").startswith("KAFKA_")][
        :1
    ] or chain[-1:]
    if "condition" in expected:
        assert error.condition == expected["condition"]
        ours = {name: error.parameters.get(name) for name in expected["parameters"]}
        if ours.get("topicPartition") == expected["parameters"].get("topicPartition"):
            # of several partitions the connector's tasks race for the one that is named
            ours.pop("groupId", None)
            assert ours.items() <= expected["parameters"].items()
    else:
        words = expected["message"].partition("\n")[0]
        assert unordered(words) in unordered(str(error))


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="Spark tells where a batch begins since 4.2")
@pytest.mark.parametrize("compatible", ["false", "true"])
def test_a_rest_below_the_minimum_is_read_unless_the_connectors_way_is_asked_for(
    tmp_path, compatible
):
    """``Trigger.AvailableNow`` with both limits: 10 records, batches of 4, and at least 3 in one.

    The connector's ``delayBatch`` compares the rest with the minimum and does not know that the run
    ends; the next run begins without a wait. Looked for, too: a minimum alone, which is never a
    rest, and the trigger ``processingTime``, where the rest waits for more (recorded).
    """
    import segstore

    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append([(None, b"v")] * 10)
    options = {"path": str(tmp_path), "subscribe": "t", "startingOffsets": "earliest"}
    limits = {"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "4"}
    source = SegstoreDataSource({**options, **limits, "connectorCompatible": compatible})
    checkpoint = Checkpoint()
    ends = []
    for _ in range(2):
        reader = SegstoreStreamReader(source.options, source.schema())
        ends.append([batch.end["t"]["0"] for batch in run(reader, "availableNow", checkpoint)])

    assert ends == ([[4, 8, 10], []] if compatible == "false" else [[4, 8], [10]])


def test_every_offset_goes_into_a_checkpoint_as_the_connector_writes_it():
    """Sorted by topic and by number of the partition, not by its text."""
    from segstore.spark.topic_offsets import StreamOffsets, from_topic_offsets, to_topic_offsets
    from segstore.types import TopicPartition

    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}

    topics = to_topic_offsets(StreamOffsets(offsets, {}))

    assert json.dumps(topics) == '{"a": {"0": 3}, "b": {"9": 2, "10": 1}}'
    assert from_topic_offsets(topics).by_partition == offsets
