"""A misspelt option: functions refuse it, since they would do more; the source and sink warn."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource")

import segstore
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.options import parse_options
from segstore.spark.reader import SegstoreReader
from segstore.spark.schema import connector_schema
from segstore.spark.sink_options import parse_sink_options
from segstore.spark.stream_options import parse_stream_options


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("asign", "assign"),
        ("subscrib", "subscribe"),
        ("startingOffset", "startingOffsets"),
        ("isolation_level", "isolation.level"),
    ],
)
def test_a_function_refuses_what_it_does_not_know(tmp_path, name, meant):
    with pytest.raises(ConnectorOptionError, match=f"{name}.*was {meant} meant"):
        options_of_call(str(tmp_path), {name: "x"})


def test_a_function_refuses_anything_else_too(tmp_path):
    with pytest.raises(ConnectorOptionError, match=r"there is no option 'colour' \(expected"):
        options_of_call(str(tmp_path), {"colour": "red"})


def test_names_in_any_case_and_of_the_connector_are_known(tmp_path):
    given = {"SUBSCRIBE": "t", "kafka.group.id": "g", "fetchOffset.numRetries": 3, "remote.x": "y"}
    with pytest.warns(UserWarning, match="consumer are ignored"):
        assert options_of_call(str(tmp_path), given).choice.topics == ("t",)


@pytest.mark.parametrize("kind", ["segments", "batches"])
def test_functions_are_for_records(tmp_path, kind):
    with pytest.raises(ConnectorOptionError, match=f"kind={kind}"):
        options_of_call(str(tmp_path), {"kind": kind})
    assert options_of_call(str(tmp_path), {"kind": "records"}).choice.pattern is not None


def test_the_source_and_the_sink_warn():
    read = parse_options({"path": "d", "subscribe": "t", "minPartition": "3", "mine": "1"})
    assert read.warnings == ("option minpartition is not known: minPartitions is",)
    write = parse_sink_options({"path": "d", "topic": "t", "numPartition": "3"})
    assert write.warnings == ("option numpartition is not known: numPartitions is",)


def test_a_log_that_lost_its_log_files_is_not_passed_over(tmp_path):
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            manager.append("t", [(None, b"x")], partition=number)
    for file in (tmp_path / "t-1").glob("*.log"):
        file.unlink()

    reader = SegstoreReader(
        {"path": str(tmp_path), "subscribe": "t"}, connector_schema(include_headers=False)
    )
    with pytest.raises(segstore.SegstoreError, match="t-1"):
        reader.partitions()


def test_a_limit_below_nothing_is_warned_of(tmp_path):
    """It ends as with Spark's Kafka source; the error then speaks of lost data."""
    given = {"path": str(tmp_path), "subscribe": "t", "maxOffsetsPerTrigger": "-5"}
    (warning,) = parse_stream_options(given).read.warnings
    assert "maxOffsetsPerTrigger is -5" in warning
