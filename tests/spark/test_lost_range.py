"""Records that are deleted while a task reads them: the connector's condition, or what is left."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("pyspark.sql.datasource")

import segstore
from segstore.spark import range_reader
from segstore.spark.conditions import ConnectorConditionError
from segstore.spark.log_source import source_of
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.range_reader import RangeReader
from segstore.spark.record_count import count_range
from segstore.spark.schema import columns_of, connector_schema
from segstore.tables.offset_ranges import OffsetRange
from segstore.types import TopicPartition

RECORDS = 40
RECORDS_IN_A_SEGMENT = 10
WHOLE = OffsetRange("t", 0, 0, RECORDS)


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """A log of four segments, each handed on by itself."""
    monkeypatch.setattr(range_reader, "BYTES_IN_A_BATCH", 1)
    monkeypatch.setattr("segstore.log.chunk_reader.CHUNK_BYTES", 1)
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.create_topic("t", 2)
        log = manager.log("t", 0)
        for number in range(RECORDS):
            log.append([(None, b"%d" % number)])
            if (number + 1) % RECORDS_IN_A_SEGMENT == 0:
                log.roll()
    yield tmp_path
    OPEN_LOGS.close()


def delete_before(logs, offset, partition=0):
    with segstore.open_dir(logs, durability="none", file_delete_delay_ms=0) as manager:
        log = manager.log("t", partition)
        log.delete_records(offset)
        log.delete_old_segments()


def values_of(batches):
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


def reader_of(logs, *columns, **options):
    schema = connector_schema(include_headers=False)
    chosen = columns_of(type(schema)([schema[name] for name in columns]))
    return RangeReader(options_of_call(str(logs), options), chosen)


@pytest.mark.parametrize("columns", [("value",), ("value", "offset")])
def test_a_query_that_must_not_lose_data_says_what_is_gone(logs, columns):
    batches = reader_of(logs, *columns).read_range(WHOLE)
    assert values_of([next(batches)]) == [0]
    delete_before(logs, 25)

    with pytest.raises(ConnectorConditionError, match=r"t-0: the log holds \[25, 40\)") as caught:
        list(batches)
    assert caught.value.condition == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
    assert isinstance(caught.value.__cause__, (FileNotFoundError, LookupError))


@pytest.mark.parametrize("columns", [("value",), ("value", "offset")])
def test_another_query_goes_on_where_the_log_begins(logs, columns):
    batches = reader_of(logs, *columns, failOnDataLoss=False).read_range(WHOLE)
    begin = next(batches)
    delete_before(logs, 25)

    with pytest.warns(UserWarning, match=r"t-0 holds offsets \[25, 40\): \[\d+, 40"):
        rest = values_of(batches)
    assert begin.schema.names == list(columns)
    assert values_of([begin]) == [0]
    assert rest == sorted(set(rest))
    assert rest[-15:] == [*range(25, 40)]


def test_batches_of_many_records_are_given_once(logs, monkeypatch):
    """The read goes on behind the last record of the last batch, and ends where its range does."""
    with segstore.open_dir(logs, durability="none") as manager:
        for _ in range(8):
            manager.log("t", 1).append([(None, b"%d" % number) for number in range(10)])
            manager.log("t", 1).roll()
    monkeypatch.setattr(range_reader, "MOST_ROWS", 4)
    options = {"failOnDataLoss": False}
    offsets = OffsetRange("t", 1, 0, 78)
    batches = reader_of(logs, "value", "offset", **options).read_range(offsets)
    first = [offset for _ in range(3) for offset in next(batches).column("offset").to_pylist()]
    delete_before(logs, 65, partition=1)

    with pytest.warns(UserWarning, match=r"t-1 holds offsets \[65, 80\): \[\d0, 78\)"):
        rest = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert first == [*range(10)]
    assert rest[-13:] == [*range(65, 78)]
    assert rest[:-13] == [*range(10, len(rest) - 3)]


def test_a_plan_of_bytes_goes_without_what_was_deleted_since(logs):
    source = source_of(options_of_call(str(logs), {}))
    planned = source.open(TopicPartition("t", 0))
    delete_before(logs, 25)

    cuts = planned.cuts(0, RECORDS, 1)
    assert cuts == sorted(set(cuts))
    assert min(cuts) >= 25
    assert planned.cuts(0, 20, 1) == []


def test_a_query_whose_whole_rest_is_gone_ends(logs):
    offsets = OffsetRange("t", 0, 0, 20)
    batches = reader_of(logs, "value", failOnDataLoss=False).read_range(offsets)
    next(batches)
    delete_before(logs, RECORDS)

    with pytest.warns(UserWarning, match="left out"):
        assert max(values_of(batches), default=0) < 20


def test_a_partition_that_is_gone(logs):
    tasks = [reader_of(logs, "value", failOnDataLoss=fail) for fail in (True, False)]
    shutil.rmtree(logs / "t-0")

    with pytest.raises(
        ConnectorConditionError, match=r"Partitions t-0 have been deleted"
    ) as caught:
        list(tasks[0].read_range(WHOLE))
    assert caught.value.condition == "KAFKA_DATA_LOSS.PARTITIONS_DELETED"
    with pytest.warns(UserWarning, match=r"t-0 was deleted: offsets \[0, 40\) are left out"):
        assert list(tasks[1].read_range(WHOLE)) == []


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_a_directory_that_is_not_here_is_no_deleted_partition(logs, left, fail):
    """A volume that is not mounted where a task runs: the task fails, and is tried elsewhere."""
    reader = reader_of(logs, "value", failOnDataLoss=fail)
    options = options_of_call(str(logs), {"failOnDataLoss": fail})
    shutil.rmtree(logs)
    if left == "an empty folder":
        logs.mkdir()

    with pytest.raises(FileNotFoundError):
        list(reader.read_range(WHOLE))
    with pytest.raises(FileNotFoundError):
        count_range(options, WHOLE)


def test_what_was_deleted_before_a_task_began_is_told_too(logs):
    reader = reader_of(logs, "value", failOnDataLoss=False)
    delete_before(logs, 25)

    with pytest.warns(UserWarning, match=r"t-0 holds offsets \[25, 40\): \[0, 40\) were"):
        assert values_of(reader.read_range(WHOLE)) == [*range(25, 40)]


@pytest.mark.parametrize("fail", [True, False])
def test_a_log_that_is_cut_meanwhile(logs, fail):
    batches = reader_of(logs, "value", failOnDataLoss=fail).read_range(WHOLE)
    next(batches)
    with segstore.open_dir(logs, durability="none") as manager:
        manager.log("t", 0).truncate_to(15)

    if fail:
        with pytest.raises(ConnectorConditionError, match=r"the log holds \[0, 15\)"):
            list(batches)
    else:
        with pytest.warns(UserWarning, match=r"holds offsets \[0, 15\): "):
            assert values_of(batches)[-1] == 14


def test_a_file_that_is_missing_although_nothing_was_deleted_is_the_error_it_was(logs):
    """The log still begins at 0: no retention, and no word of it."""
    batches = reader_of(logs, "value", failOnDataLoss=False).read_range(WHOLE)
    next(batches)
    (logs / "t-0" / f"{20:020}.log").unlink()

    with pytest.raises(segstore.SegstoreError, match=f"{20:020}|offset"):
        list(batches)


def test_a_count_goes_on_too(logs, monkeypatch):
    options = options_of_call(str(logs), {"failOnDataLoss": False})
    with_loss = iter([True])
    scan = segstore.Log.scan

    def deleted_meanwhile(self, *args, **named):
        if next(with_loss, False):
            delete_before(logs, 25)
        return scan(self, *args, **named)

    monkeypatch.setattr(segstore.Log, "scan", deleted_meanwhile)
    with pytest.warns(UserWarning, match="left out"):
        assert count_range(options, WHOLE) == 15
