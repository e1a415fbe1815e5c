"""A topic that was deleted and made again is another one, however alike its directory looks.

A stream that went on from its checkpoint on a new topic of at least the old length passed over the
first records of it in silence. The same was looked for wherever an offset outlives the look at the
directory that it came from: checkpoints of streams, planned batches that are planned again, running
streams, tasks of batches and counts, offsets at a URL, logs that a worker keeps open, redo logs of
the sink, and files of an export.
"""

from __future__ import annotations

import itertools
import json
import shutil
import uuid
from contextlib import closing

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore._core import Directory
from segstore.errors import IllegalStateError, InconsistentTopicIdError
from segstore.log.files.checkpoints import PARTITION_METADATA, read_topic_id
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.spark.conditions import ConnectorConditionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.open_logs import OPEN_LOGS, OpenLogs
from segstore.spark.parquet_export import ExportTask, export_parquet
from segstore.spark.record_count import count_range
from segstore.spark.schema import ROWS_WITHOUT_COLUMNS_SINCE, spark_version
from segstore.spark.stream_reader import (
    HAS_READ_LIMITS,
    SegstoreStreamReader,
    UnlimitedStreamReader,
)
from segstore.spark.topic_offsets import StreamOffsets, from_topic_offsets, to_topic_offsets
from segstore.tables.partition_import import PartitionImport, import_partition
from segstore.types import Codec, TopicPartition
from tests.kits.commit_kit import SMALL, all_values, assert_once_and_in_order, fail_at_append
from tests.kits.sink_kit import Stream, make_topic, numbered
from tests.spark.micro_batches import Checkpoint, run

DELETED = "KAFKA_DATA_LOSS.PARTITIONS_DELETED"
READERS = [UnlimitedStreamReader]
if HAS_READ_LIMITS:
    READERS.append(SegstoreStreamReader)


@pytest.fixture
def data(tmp_path):
    yield tmp_path / "data"
    OPEN_LOGS.close()


def fill(data, count, word, topic="t"):
    """Append to both partitions; makes the topic where it is not there."""
    with segstore.open_dir(data, durability="none") as logs:
        if topic not in logs.topics():
            logs.create_topic(topic, partitions=2)
        for number in (0, 1):
            records = [(None, f"{word}-{number}-{index}".encode()) for index in range(count)]
            logs.append(topic, records, partition=number)
    return id_of(data, topic)


def remake(data, count, word, topic="t"):
    for number in (0, 1):
        shutil.rmtree(data / f"{topic}-{number}")
    return fill(data, count, word, topic)


def id_of(data, topic="t"):
    with closing(Directory(str(data / f"{topic}-0"))) as directory:
        found = read_topic_id(directory)
    return None if found is None else topic_id_text(found)


def run_stream(reader_class, data, checkpoint, trigger="availableNow", **more):
    """One run of a query over its checkpoint; returns the values that it got."""
    options = {"path": str(data), "subscribe": "t", "startingOffsets": "earliest", **more}
    source = SegstoreDataSource(options)
    reader = reader_class(source.options, source.schema())
    return [
        value.decode()
        for batch in run(reader, trigger, checkpoint)
        for rows in batch.record_batches
        for value in rows.column("value").to_pylist()
    ]


def values(word, *counts):
    return sorted(f"{word}-{part}-{i}" for part, count in enumerate(counts) for i in range(count))


# ---- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [4, 10, 15], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("reader_class", READERS)
def test_a_restarted_stream_that_must_not_lose_data_names_both_topics(data, reader_class, count):
    checkpoint = Checkpoint()
    old = fill(data, 10, "old")
    assert sorted(run_stream(reader_class, data, checkpoint)) == values("old", 10, 10)
    new = remake(data, count, "new")

    with pytest.raises(ConnectorConditionError, match="deleted and made again") as caught:
        run_stream(reader_class, data, checkpoint)
    assert caught.value.condition == DELETED
    assert f"topic id {old} was read before" in str(caught.value)
    assert f"topic id {new} now" in str(caught.value)
    with pytest.raises(ConnectorConditionError, match=old):  # until somebody decides
        run_stream(reader_class, data, checkpoint)


@pytest.mark.parametrize("count", [4, 10, 15], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("reader_class", READERS)
def test_another_stream_reads_all_of_the_new_topic(data, reader_class, count):
    checkpoint = Checkpoint()
    old = fill(data, 10, "old")
    run_stream(reader_class, data, checkpoint)
    new = remake(data, count, "new")

    with pytest.warns(UserWarning, match=f"{old} was read before.*{new} now"):
        found = run_stream(reader_class, data, checkpoint, failOnDataLoss="false")
    assert sorted(found) == values("new", count, count)
    fill(data, 1, "more")
    found = run_stream(reader_class, data, checkpoint)
    assert sorted(found) == values("more", 1, 1)


@pytest.mark.parametrize("loses", [False, True], ids=["must not lose", "may lose"])
@pytest.mark.parametrize("left", [".log", ""], ids=["a part is there", "only the directory is"])
@pytest.mark.parametrize("reader_class", READERS)
def test_a_topic_that_is_removed_in_that_moment(data, reader_class, left, loses, monkeypatch):
    """A removal takes a moment: what is half there is looked at again, and is no damage."""
    checkpoint = Checkpoint()
    old = fill(data, 10, "old")
    run_stream(reader_class, data, checkpoint)
    OPEN_LOGS.close()
    for path in [*data.glob("t-0/*"), *data.glob("t-1/*")]:
        if path.name.endswith(left):
            path.unlink()
    looks = []
    monkeypatch.setattr(
        "segstore.spark.stream_plan.sleep",
        lambda seconds: looks.append(seconds) or remake(data, 15, "new"),
    )

    if loses:
        with pytest.warns(UserWarning, match=f"{old} was read before"):
            found = run_stream(reader_class, data, checkpoint, failOnDataLoss="false")
        assert sorted(found) == values("new", 15, 15)
    else:
        with pytest.raises(ConnectorConditionError, match="deleted") as caught:
            run_stream(reader_class, data, checkpoint)
        assert caught.value.condition == DELETED
    assert len(looks) == 1


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="Spark tells where a batch begins since 4.2")
@pytest.mark.parametrize("limit", [{"maxOffsetsPerTrigger": "6"}, {"minOffsetsPerTrigger": "999"}])
def test_limits_count_from_the_first_record_of_the_new_topic(data, limit):
    """A minimum holds nothing back: what was deleted is told at once."""
    options = {"path": str(data), "subscribe": "t", "startingOffsets": "earliest", **limit}
    fill(data, 10, "old")
    checkpoint = Checkpoint()
    run_stream(SegstoreStreamReader, data, checkpoint)
    source = SegstoreDataSource({**options, "failOnDataLoss": "false"})
    reader = SegstoreStreamReader(source.options, source.schema())
    start = checkpoint.offsets[max(checkpoint.offsets)]
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    remake(data, 15, "new")

    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end["t"] == ({"0": 3, "1": 3} if "maxOffsetsPerTrigger" in limit else {"0": 15, "1": 15})
    with pytest.warns(UserWarning, match="made again"):
        planned = reader.partitions(start, end)
    assert {one.ranges[0].from_offset for one in planned} == {0}


@pytest.mark.parametrize("reader_class", READERS)
def test_a_running_stream_notices(data, reader_class):
    """Between two of its batches, and after it has opened the old logs."""
    fill(data, 10, "old")
    options = {"path": str(data), "subscribe": "t", "startingOffsets": "earliest"}
    source = SegstoreDataSource(options)
    reader = reader_class(source.options, source.schema())
    checkpoint = Checkpoint()
    assert len(list(run(reader, "once", checkpoint))) == 1
    remake(data, 10, "new")

    with pytest.raises(ConnectorConditionError, match="deleted and made again"):
        list(run(reader, "once", checkpoint))


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("first", [True, False], ids=["first batch", "later batch"])
@pytest.mark.parametrize("reader_class", READERS)
def test_a_batch_that_was_planned_on_the_old_topic(data, reader_class, first, fail):
    """It was not committed, so Spark plans it again with the ends in the checkpoint."""
    checkpoint = Checkpoint()
    old = fill(data, 10, "old")
    run_stream(reader_class, data, checkpoint)
    if not first:
        fill(data, 10, "old")
        run_stream(reader_class, data, checkpoint)
    checkpoint.remove([f"commits/{max(checkpoint.commits)}"])
    new = remake(data, 30, "new")
    names_both = f"{old} was read before.*{new} now"

    if fail == "true":
        with pytest.raises(ConnectorConditionError, match=names_both) as caught:
            run_stream(reader_class, data, checkpoint)
        assert caught.value.condition == DELETED
    else:
        with pytest.warns(UserWarning, match=names_both):
            found = run_stream(reader_class, data, checkpoint, failOnDataLoss="false")
        assert sorted(found) == values("new", 30, 30)


@pytest.mark.parametrize("reader_class", READERS)
def test_one_partition_that_was_made_again_alone(data, reader_class):
    checkpoint = Checkpoint()
    fill(data, 10, "old")
    run_stream(reader_class, data, checkpoint)
    fill(data.parent / "other", 12, "new")
    shutil.rmtree(data / "t-1")
    shutil.copytree(data.parent / "other" / "t-1", data / "t-1")

    with pytest.raises(ConnectorConditionError, match=r"Set\(t-1\)"):
        run_stream(reader_class, data, checkpoint)
    with pytest.warns(UserWarning, match=r"Set\(t-1\)"):
        found = run_stream(reader_class, data, checkpoint, failOnDataLoss="false")
    assert sorted(found) == values("new", 0, 12)


@pytest.mark.parametrize("reader_class", READERS)
def test_a_topic_that_lost_its_id_is_another_one(data, reader_class):
    """``segstore.open`` makes a log without one; no deletion of records takes the file away."""
    checkpoint = Checkpoint()
    old = fill(data, 10, "old")
    run_stream(reader_class, data, checkpoint)
    for number in (0, 1):
        shutil.rmtree(data / f"t-{number}")
        with segstore.open(data / f"t-{number}", durability="none") as log:
            log.append([(None, b"new")] * 15)

    with pytest.raises(ConnectorConditionError, match=f"{old} was read before.*no topic id now"):
        run_stream(reader_class, data, checkpoint)


@pytest.mark.parametrize("reader_class", READERS)
def test_a_checkpoint_without_ids_takes_the_id_that_it_finds(data, reader_class):
    """One of the connector, or of an older version: nothing to compare, and no batch for it.

    Before Spark 4.2 a reader is not told what the checkpoint has: one batch without rows.
    """
    checkpoint = Checkpoint()
    new = fill(data, 10, "old")
    run_stream(reader_class, data, checkpoint)
    last = max(checkpoint.offsets)
    assert checkpoint.offsets[last].pop(f"t topic_id={new}") == {}

    assert run_stream(reader_class, data, checkpoint) == []
    assert max(checkpoint.offsets) == last + (reader_class is UnlimitedStreamReader)
    fill(data, 1, "more")
    assert sorted(run_stream(reader_class, data, checkpoint)) == values("more", 1, 1)
    assert checkpoint.offsets[max(checkpoint.offsets)] == {
        "t": {"0": 11, "1": 11},
        f"t topic_id={new}": {},
    }


def test_offsets_of_a_user_are_no_old_topic(data):
    """``startingOffsets`` has no id: whoever writes it means the topic that is there."""
    fill(data, 10, "old")
    remake(data, 15, "new")
    starts = json.dumps({"t": {"0": 10, "1": 15}})

    found = run_stream(READERS[-1], data, Checkpoint(), startingOffsets=starts)
    assert sorted(found) == [f"new-0-{index}" for index in range(10, 15)]


# ---- the checkpoint's JSON -----------------------------------------------------------------------


def read_by_the_connector(topics):
    """What ``JsonUtils.partitionOffsets`` of Spark's connector makes of *topics*.

    It reads a ``Map[String, Map[Int, Long]]``, and one offset for each inner entry.
    """
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def test_the_connector_reads_a_checkpoint_with_ids_as_its_own():
    one, two = uuid.UUID(int=1), uuid.UUID(int=2**128 - 2)
    a, b = [TopicPartition("a", n) for n in range(3)], TopicPartition("b", 0)
    offsets = {a[0]: 1, a[1]: 2, a[2]: 3, b: 4}
    for topic_ids in (
        {},
        {a[0]: one, a[1]: one, a[2]: one, b: two},
        {a[0]: one, a[1]: two, a[2]: one},
        {a[1]: one},
    ):
        kept = StreamOffsets(offsets, topic_ids)
        topics = json.loads(json.dumps(to_topic_offsets(kept)))

        assert read_by_the_connector(topics) == {(*key,): offset for key, offset in offsets.items()}
        assert from_topic_offsets(topics) == kept
    assert list(to_topic_offsets(StreamOffsets(offsets, {b: two})))[:2] == ["a", "b"]


# ---- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [["value"], ["offset", "value"], []], ids=str)
def test_a_batch_that_was_planned_before(data, columns):
    """Between planning and tasks, by ``format("segstore")``, with columns and without."""
    from pyspark.sql.types import StructType

    if not columns and spark_version() < ROWS_WITHOUT_COLUMNS_SINCE:
        pytest.skip("this Spark counts no row without a column")
    old = fill(data, 10, "old")
    for fail in ("true", "false"):
        options = {"path": str(data), "subscribe": "t", "failOnDataLoss": fail}
        source = SegstoreDataSource(options)
        schema = StructType([field for field in source.schema() if field.name in columns])
        reader = source.reader(schema)
        planned = reader.partitions()
        new = remake(data, 10, "new")
        words = f"{old} was read before.*{new} now"

        if fail == "true":
            with pytest.raises(ConnectorConditionError, match=words) as caught:
                list(reader.read(planned[0]))
            assert caught.value.condition == DELETED
        else:
            with pytest.warns(UserWarning, match=words):
                assert list(reader.read(planned[0])) == []
        old = new


def test_a_count_that_was_planned_before(data):
    fill(data, 10, "old")
    options = options_of_call(str(data), {"minPartitions": 6})
    ranges = ranges_of(options)
    assert len(ranges) > 2  # the parts of a range keep its id
    remake(data, 10, "new")

    for offsets in ranges:
        with pytest.raises(ConnectorConditionError, match="made again"):
            count_range(options, offsets)


def test_an_open_log_is_compared_by_its_id(data):
    """A worker's open log whose directory, names and sizes are those of the new topic's log.

    Inode numbers of what was deleted are used again by many file systems.
    """
    fill(data, 0, "old")
    logs = OpenLogs()
    key = TopicPartition("t", 0)
    with logs.lease(str(data), key) as log:
        old = log.topic_id
    new = fill(data.parent / "other", 0, "new")
    path = data / "t-0" / PARTITION_METADATA
    path.write_bytes((data.parent / "other" / "t-0" / PARTITION_METADATA).read_bytes())

    with logs.lease(str(data), key) as log:
        assert topic_id_text(log.topic_id) == new
        assert log.topic_id != old
    logs.close()


def test_a_range_at_a_url(data, tmp_path):
    pytest.importorskip("fsspec")
    from tests.kits.remote_directories import upload

    data.mkdir()
    old = fill(data, 10, "old")
    url = upload(data)
    options = {"path": url, "subscribe": "t", "spoolDirectory": str(tmp_path / "spool")}
    checkpoint = Checkpoint()
    stream = {"startingOffsets": "earliest", "spoolDirectory": options["spoolDirectory"]}
    assert len(run_stream(READERS[-1], url, checkpoint, **stream)) == 20
    source = SegstoreDataSource(options)
    reader = source.reader(source.schema())
    planned = reader.partitions()
    new = remake(data, 15, "new")
    upload(data, url)
    words = f"{old} was read before.*{new} now"

    with pytest.raises(ConnectorConditionError, match=words):
        list(reader.read(planned[0]))
    with pytest.raises(ConnectorConditionError, match=words):
        run_stream(READERS[-1], url, checkpoint, **stream)


# ---- what is written -----------------------------------------------------------------------------


def interrupted(data, monkeypatch):
    """A commit of a micro-batch that stopped after its third batch."""
    make_topic(data)
    stream = Stream(data, topic="t", **SMALL)
    messages = stream.stage(numbered(0, 20))
    fail_at_append(monkeypatch, 4)
    with pytest.raises(OSError, match="as asked"):
        stream.commit(messages, 0)
    monkeypatch.undo()
    return stream


def test_an_interrupted_commit_is_not_finished_in_another_topic(data, monkeypatch):
    """As where the topic is deleted: a part of the write went with the old topic."""
    stream = interrupted(data, monkeypatch)
    old = id_of(data)
    for number in range(3):
        shutil.rmtree(data / f"t-{number}")
    make_topic(data)

    with pytest.raises(IllegalStateError, match=r"cannot be finished.*made again") as caught:
        stream.run(1, numbered(20, 10))
    assert old in str(caught.value)
    assert id_of(data) in str(caught.value)
    assert all_values(data) == []


def test_a_repeated_commit_goes_whole_into_the_new_topic(data, monkeypatch):
    """The same micro-batch, staged again: nothing of it is in the new topic."""
    stream = interrupted(data, monkeypatch)
    for number in range(3):
        shutil.rmtree(data / f"t-{number}")
    make_topic(data)

    stream.run(0, numbered(0, 20))
    assert_once_and_in_order(data, 20)


def test_an_export_does_not_go_on_with_another_topic(data, tmp_path):
    """Its folder would hold the first records of one and the last records of the other."""
    old = fill(data, 10, "old")
    files = tmp_path / "files"
    files.mkdir()
    options = options_of_call(str(data), {})
    for offsets in ranges_of(options):
        ExportTask(options, str(files), "zstd")(offsets)
    planned = ranges_of(options)
    new = remake(data, 15, "new")

    with pytest.raises(InconsistentTopicIdError, match=f"{old}.*{new}"):
        export_parquet(None, data, files)
    with pytest.raises(InconsistentTopicIdError, match="made again"):
        ExportTask(options, str(files), "zstd")(planned[0])


def test_files_of_two_topics_are_not_imported_as_one(data, tmp_path):
    from segstore.tables.parquet_files import exported_files

    files = tmp_path / "files"
    files.mkdir()
    for word, count, bounds in (("old", 10, {"0": 0, "1": 0}), ("new", 15, {"0": 10, "1": 10})):
        if word == "new":
            remake(data, count, word)
        else:
            fill(data, count, word)
        starts = {"startingOffsets": json.dumps({"t": bounds})}
        options = options_of_call(str(data), {"subscribe": "t", **starts})
        for offsets in ranges_of(options):
            ExportTask(options, str(files), "zstd")(offsets)
    by_partition = itertools.groupby(exported_files(str(files)), key=lambda one: one.partition)
    work = [PartitionImport((*own,), str(tmp_path / "t-0"), Codec.NONE) for _, own in by_partition]

    with pytest.raises(InconsistentTopicIdError, match="two topics"):
        import_partition(work[0])
