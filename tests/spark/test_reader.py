"""The reader in one process: what travels, what stays open, what changes between plan and read."""

from __future__ import annotations

import os
import pickle
import shutil
import warnings

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.errors import (
    CorruptRecordError,
    LogNotFoundError,
    NotALogError,
    UnknownTopicOrPartitionError,
)
from segstore.spark.conditions import ConnectorConditionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.open_logs import OPEN_LOGS, OpenLogs
from segstore.spark.options import parse_options
from segstore.spark.range_reader import RangeReader
from segstore.tables.offset_ranges import OffsetRange
from segstore.types import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def no_log_stays_open():
    yield
    OPEN_LOGS.close()


@pytest.fixture
def writer(tmp_path):
    """An open log ``orders-0`` of some records, and its writer."""
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        log.append([(b"k", str(n).encode()) for n in range(100)])
        yield log


def reader_of(path, **options):
    source = SegstoreDataSource({"path": str(path), "subscribe": "orders", **options})
    return source.reader(source.schema())


def offsets(reader, partitions=None):
    return [
        offset
        for partition in (reader.partitions() if partitions is None else partitions)
        for batch in reader.read(partition)
        for offset in batch.column("offset").to_pylist()
    ]


@pytest.mark.usefixtures("writer")
def test_a_reader_and_its_partitions_travel_without_a_log(tmp_path):
    """Spark pickles both; a handle in them would be an error."""
    reader = reader_of(tmp_path)
    travelled, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))

    assert len(pickle.dumps(reader)) < 2000
    assert offsets(travelled, partitions) == list(range(100))


def test_handles_do_not_travel(writer, tmp_path):
    """Not by an accident either: a closure that holds one is refused where it is pickled."""
    with segstore.open_dir(tmp_path / "more") as manager:
        for handle in (writer, writer.scan(), writer.segments()[0], manager, writer.read(0, 100)):
            with pytest.raises(TypeError):
                pickle.dumps(handle)


@pytest.mark.usefixtures("writer")
def test_a_relative_path_is_that_of_who_plans(tmp_path, monkeypatch):
    """An executor runs somewhere else."""
    monkeypatch.chdir(tmp_path)
    reader = reader_of(".")
    partitions = reader.partitions()
    monkeypatch.chdir("/")

    assert offsets(reader, partitions) == list(range(100))


def test_a_query_sees_what_was_there_when_it_was_planned(writer, tmp_path):
    """Bounds are fixed once; what a writer appends meanwhile belongs to the next query."""
    reader = reader_of(tmp_path)
    partitions = reader.partitions()
    writer.append([(b"k", b"later")] * 50)

    assert offsets(reader, partitions) == list(range(100))
    assert offsets(reader_of(tmp_path)) == list(range(150))


def test_records_that_vanish_between_plan_and_read_are_data_loss(writer, tmp_path):
    strict, lenient = reader_of(tmp_path), reader_of(tmp_path, failOnDataLoss="false")
    partitions = strict.partitions()
    writer.delete_records(40)

    with pytest.raises(ConnectorConditionError, match=r"COULD_NOT_READ.*\[0, 100\).*\[40, 100\)"):
        offsets(strict, partitions)
    assert offsets(lenient, partitions) == list(range(40, 100))


def test_batches_have_a_size_that_spark_likes(tmp_path):
    """10,000 to 50,000 rows or 1 to 8 MB, whichever comes first."""
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        log.append([(b"k", b"v")] * 100_000)
        log.append([(b"k", bytes(100_000))] * 100)
    reader = reader_of(tmp_path)
    batches = [batch for p in reader.partitions() for batch in reader.read(p)]

    assert sum(batch.num_rows for batch in batches) == 100_100
    assert max(batch.num_rows for batch in batches) <= 50_000
    assert max(batch.nbytes for batch in batches) <= 8 * 1024 * 1024
    assert len(batches) < 20
    assert {batch.schema for batch in batches} == {batches[0].schema}
    assert batches[0].schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_a_damaged_batch_is_an_error_also_when_data_loss_is_allowed(tmp_path):
    """[DUR-79] Lost records are named by offsets that are gone; these are there, and wrong."""
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        for n in range(5):
            log.append([(b"k", str(n).encode() * 50)])
    file = tmp_path / "orders-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)

    with pytest.raises(CorruptRecordError):
        offsets(reader_of(tmp_path, failOnDataLoss="false"))
    with pytest.warns(UserWarning, match=r"orders-0: left out .*offset"):
        assert offsets(reader_of(tmp_path, onDamage="skip")) == [1, 2, 3, 4]
    options = {"path": str(tmp_path), "subscribe": "orders", "ondamage": "skip"}
    counted = RangeReader(parse_options(options), ())
    with pytest.warns(UserWarning, match="left out"):
        rows = [batch.num_rows for batch in counted.read_range(OffsetRange("orders", 0, 0, 5))]
    assert sum(rows) == 4


@pytest.mark.usefixtures("writer")
def test_a_directory_that_only_looks_like_a_partition_is_left_out(tmp_path):
    (tmp_path / "orders-2024").mkdir()
    (tmp_path / "backup-0").mkdir()

    assert offsets(reader_of(tmp_path)) == list(range(100))
    source = SegstoreDataSource({"path": str(tmp_path), "subscribePattern": "."})
    assert len(source.reader(source.schema()).partitions()) == 1


@pytest.mark.usefixtures("writer")
def test_a_wrong_path_is_told_in_load(tmp_path):
    with pytest.raises(LogNotFoundError, match="nowhere"):
        reader_of(tmp_path / "nowhere")
    with pytest.raises(NotALogError, match="one above"):
        reader_of(tmp_path / "orders-0")


@pytest.mark.parametrize("path", ["nowhere", "./nowhere", "file:nowhere"])
def test_a_wrong_relative_path_is_told_in_full_once(path, tmp_path, monkeypatch):
    """It was told as ``nowhere/nowhere``; and relative to what, the user could only guess."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(LogNotFoundError) as caught:
        reader_of(path)
    assert caught.value.file == str(tmp_path / "nowhere")


# ---- what the connector does without a word ------------------------------------------------------


def planned(path, **options):
    """Ranges, and what was warned of."""
    source = SegstoreDataSource({"path": str(path), **options})
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        partitions = source.reader(source.schema()).partitions()
    ranges = [(one.from_offset, one.until_offset) for p in partitions for one in p.ranges]
    return ranges, [str(warning.message) for warning in warned]


@pytest.mark.usefixtures("writer")
def test_assigned_partitions_that_do_not_exist_are_an_error(tmp_path):
    """The connector reads what exists and says nothing; so it is, with a warning, if asked for."""
    with pytest.raises(UnknownTopicOrPartitionError, match="orders-7, orders-9") as refused:
        planned(tmp_path, assign='{"orders":[0,7,9]}')
    assert refused.value.file == str(tmp_path)

    compatible = {"connectorCompatible": "true"}
    ranges, warned = planned(tmp_path, assign='{"orders":[0,7,9]}', **compatible)
    assert ranges == [(0, 100)]
    assert len(warned) == 1
    assert warned[0].endswith("not read: orders-7, orders-9")
    assert str(tmp_path) in warned[0]

    assert planned(tmp_path, assign='{"orders":[7]}', **compatible)[0] == []
    assert planned(tmp_path, assign='{"orders":[0]}') == ([(0, 100)], [])


@pytest.mark.usefixtures("writer")
def test_max_records_per_partition_cuts_also_between_earliest_and_latest(tmp_path):
    """The connector does so only where both bounds are numbers, or ``minPartitions`` asks."""
    everything = {"subscribe": "orders", "maxRecordsPerPartition": "40"}
    numbers = {
        "startingOffsets": '{"orders":{"0":0}}',
        "endingOffsets": '{"orders":{"0":100}}',
    }
    compatible = {"connectorCompatible": "true"}
    cut = [(0, 33), (33, 66), (66, 100)]

    assert planned(tmp_path, **everything) == (cut, [])
    assert planned(tmp_path, **everything, **compatible) == ([(0, 100)], [])
    for more in ({"minPartitions": "2"}, numbers):
        assert planned(tmp_path, **everything, **more, **compatible) == (cut, [])
    assert planned(tmp_path, **everything | {"maxRecordsPerPartition": "100"}) == ([(0, 100)], [])


# ---- logs that stay open -------------------------------------------------------------------------


def leased(logs, path, partition=ORDERS):
    """The log that is lent next, given back at once."""
    with logs.lease(str(path), partition) as log:
        return log


def test_a_log_stays_open_and_follows_its_writer(writer, tmp_path):
    logs = OpenLogs()
    first = leased(logs, tmp_path)
    again = leased(logs, tmp_path)
    writer.append([(b"k", b"v")] * 10)
    writer.roll()
    writer.append([(b"k", b"v")] * 10)
    grown = leased(logs, tmp_path)

    assert again is first
    assert grown is first
    assert grown.log_end_offset == 120
    logs.close()
    assert first.closed


def test_another_log_under_the_same_path_is_opened_anew(tmp_path):
    """Inode and size tell that the directory was replaced."""
    logs = OpenLogs()
    for count in (100, 30):
        with segstore.open(tmp_path / "orders-0", durability="none") as log:
            log.append([(b"k", b"v")] * count)
        assert leased(logs, tmp_path).log_end_offset == count
        shutil.rmtree(tmp_path / "orders-0")
    logs.close()


def test_a_log_that_was_cut_and_grew_again_is_opened_anew(writer, tmp_path):
    """To refresh the old handle is an error, which is no query's business; it is closed."""
    logs = OpenLogs()
    writer.append([(b"k", b"v")])
    first = leased(logs, tmp_path)
    writer.truncate_to(50)
    for _ in range(80):
        writer.append([(b"k", b"a longer value")])
    anew = leased(logs, tmp_path)

    assert first.closed
    assert anew.log_end_offset == writer.log_end_offset
    logs.close()


def test_only_so_many_logs_stay_open(tmp_path):
    logs = OpenLogs(limit=2)
    opened = []
    for number in range(4):
        with segstore.open(tmp_path / f"orders-{number}", durability="none") as log:
            log.append([(b"k", b"v")])
        opened.append(leased(logs, tmp_path, TopicPartition("orders", number)))

    assert [log.closed for log in opened] == [True, True, False, False]
    logs.close()


@pytest.mark.usefixtures("writer")
def test_a_log_in_use_is_nobody_elses(tmp_path):
    logs = OpenLogs(limit=0)
    with logs.lease(str(tmp_path), ORDERS) as first:
        with logs.lease(str(tmp_path), ORDERS) as second:
            assert second is not first
        assert second.closed
        logs.close()
        assert not first.closed
    assert first.closed


@pytest.mark.usefixtures("writer")
def test_a_forked_worker_begins_with_no_open_log(tmp_path):
    """Spark forks its workers; a handle of the parent must not be used there [DUR-68]."""
    parents = leased(OPEN_LOGS, tmp_path)
    child = os.fork()
    if child == 0:
        try:
            own = leased(OPEN_LOGS, tmp_path)
            os._exit(7 if own is not parents and own.log_end_offset == 100 else 1)
        finally:
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert leased(OPEN_LOGS, tmp_path) is parents
