"""``path`` names ``.log`` files, a pattern or an archive; case 22-tiered-segment-file."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tarfile
import warnings
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

import segstore
import segstore.spark
from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.record_count import count_range
from tests.unit.log.test_committed_view import data, marker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Three segments of 100 records, closed."""
    with segstore.open(tmp_path / "data" / "orders-3", durability="none") as log:
        for _ in range(3):
            log.append([(b"k", b"%d" % n) for n in range(100)])
            log.roll()
    return tmp_path / "data" / "orders-3"


@pytest.fixture
def ways(orders: Path, tmp_path: Path) -> list[str]:
    """The same log, as a pattern, an archive, and objects of a tiered bucket."""
    archive = tmp_path / "backup.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(orders, orders.name)
    bucket = tmp_path / "bucket" / "orders-3"
    bucket.mkdir(parents=True)
    for number, name in ((0, "c"), (100, "a"), (200, "b")):
        shutil.copy(orders / f"{number:020}.log", bucket / f"{number:020}-{name}.rsm")
    return [f"{orders}/*.log", str(archive), f"{bucket}/*"]


def rows(path, **options):
    """Topic, partition and offset of each row, and what was warned of."""
    source = SegstoreDataSource({"path": str(path), **options})
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        reader = source.reader(source.schema())
        partitions = reader.partitions()
    reader, partitions = pickle.loads(pickle.dumps((reader, partitions)))
    found = [
        (row["topic"], row["partition"], row["offset"])
        for one in partitions
        for batch in reader.read(one)
        for row in batch.to_pylist()
    ]
    return found, [str(one.message) for one in warned]


def test_files_are_read_as_their_partition(ways, orders):
    whole, _ = rows(orders.parent, subscribe="orders")
    assert len(whole) == 300
    for path in ways:
        assert rows(path) == (whole, [])
        assert rows(path, subscribe="orders", minPartitions="7", partitionsPerTask="2")[0] == whole
        assert rows(path, maxBytesPerPartition="2k")[0] == whole
        limits = {"startingOffsets": json.dumps({"orders": {"3": 95}})}
        assert (
            rows(path, **limits, endingOffsets=json.dumps({"orders": {"3": 205}}))[0]
            == (whole[95:205])
        )
        assert rows(path, startingTimestamp="0", endingTimestamp=str(2**50))[0] == whole
        options = options_of_call(path, {"partitionsPerTask": 4})
        assert sum(count_range(options, one) for one in ranges_of(options)) == 300
    assert rows(f"file:{ways[1]}")[0] == whole


def test_one_file_under_any_name(orders, tmp_path):
    """Its topic is not known, unless the directory has the name of a partition."""
    shutil.copy(orders / f"{100:020}.log", tmp_path / "rsm-YW9hc2Rm")
    found, _ = rows(tmp_path / "rsm-YW9hc2Rm")
    assert found == [("", -1, offset) for offset in range(100, 200)]
    assert rows(orders / f"{100:020}.log")[0][0] == ("orders", 3, 100)


def test_files_under_another_name(orders, tmp_path):
    """As `as_` of `segstore.open_segment`; files of several folders are refused without it."""
    (tmp_path / "old").mkdir()
    shutil.move(orders / f"{0:020}.log", tmp_path / "old" / "rsm-YW9hc2Rm.log")
    both = {"path": str(tmp_path / "*" / "*" / "*.log")}
    (tmp_path / "moved").mkdir()
    shutil.move(tmp_path / "old", tmp_path / "moved" / "old")
    with pytest.raises(IllegalArgumentError, match="Spark's option asPartition"):
        rows(both["path"])
    renamed = {"asPartition": "payments-7"}
    found, _ = rows(both["path"], **renamed, subscribe="payments", maxRecordsPerPartition="50")
    assert found == [("payments", 7, offset) for offset in range(300)]
    limits = {"startingTimestamp": "0", "maxBytesPerPartition": "2k"}
    assert rows(both["path"], **renamed, **limits)[0] == found
    options = options_of_call(both["path"], renamed)
    assert sum(count_range(options, one) for one in ranges_of(options)) == 300


def test_committed_records_of_files(tmp_path):
    (tmp_path / "a.log").write_bytes(data(11, 0, 2) + marker(11, 2, "abort") + data(11, 3, 1))
    (tmp_path / "b.log").write_bytes(marker(11, 4, "commit") + data(11, 5, 1))
    for isolation, offsets in (("read_committed", [3]), ("read_uncommitted", [0, 1, 3, 5])):
        found, _ = rows(tmp_path / "*.log", **{"isolation.level": isolation})
        assert [offset for _, _, offset in found] == offsets


def test_what_files_lack_is_told(orders):
    (orders / f"{100:020}.log").unlink()
    found, warned = rows(orders / "*.log")
    assert len(found) == 200
    assert ["offsets 100 to 199" in text for text in warned] == [True]

    last = orders / f"{200:020}.log"
    os.truncate(last, last.stat().st_size - 5)
    with pytest.raises(CorruptLogError, match="ends inside a batch"):
        rows(orders / "*.log")
    found, warned = rows(orders / "*.log", failOnDataLoss="false")
    assert len(found) == 100
    assert len(warned) == 1
    with last.open("r+b") as file:
        file.write(b"?" * 100)
    with pytest.raises(SegstoreError):
        rows(orders / "*.log")


def test_a_file_that_is_gone_when_the_task_runs_is_an_error(orders):
    """What a pattern matches is fixed with the plan."""
    source = SegstoreDataSource({"path": f"{orders}/*.log"})
    reader = source.reader(source.schema())
    (planned,) = reader.partitions()
    (orders / f"{100:020}.log").unlink()
    with pytest.raises(LogNotFoundError):
        list(reader.read(planned))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "segments"}, "segstore dump"),
        ({"isolation.level": "durable"}, "do not say what was synced"),
        ({"subscribe": "payments"}, "payments"),
        ({"startingTimestamp": "-3"}, "special timestamp"),
        ({"subscribe": "orders", "assign": "{}"}, "Only one"),
        ({"asPartition": "orders"}, "option asPartition is 'orders'"),
        ({"asPartition": "payments-3", "subscribe": "orders"}, "orders"),
    ],
)
def test_what_files_cannot_answer_is_refused(orders, options, words):
    with pytest.raises(SegstoreError, match=words):
        rows(orders / "*.log", **options)


def test_other_doors_say_which_takes_files(orders, tmp_path):
    from segstore.spark import jobs
    from segstore.spark.stream_options import parse_stream_options

    with pytest.raises(ConnectorOptionError, match=r"use spark\.read"):
        parse_stream_options({"path": f"{orders}/*.log"})
    with pytest.raises(ConnectorOptionError, match="segstore export"):
        jobs.export_parquet(None, orders / "*.log", tmp_path / "out")
    with pytest.raises(LogNotFoundError, match="no file matches"):
        rows(orders / "*.tar")
    with pytest.raises(SegstoreError):
        rows(tmp_path / "none.log", subscribe="orders")
    with pytest.raises(ConnectorOptionError, match=r"set path to DIRECTORY/\*\.log"):
        rows(orders.parent, subscribe="orders", asPartition="orders-3")


def test_spark_reads_files(spark, ways):
    for path in ways[1:]:
        frame = spark.read.format("segstore").load(path)
        assert frame.where("offset >= 150").count() == 150
        assert segstore.spark.count(spark, path) == 300
        assert segstore.spark.read(spark, path, ["offset"], "offset < 7").count() == 7
