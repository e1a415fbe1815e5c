"""Writes go as through Spark's own Kafka sink: what is accepted, what is written, the words."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import LongType, StructField, StructType

from segstore.errors import IllegalArgumentError, InvalidTopicError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.open_logs import OPEN_LOGS
from tests.kits.sink_kit import make_topic
from tests.spark.connector_batch import digest, rows_of, sorted_rows
from tests.spark.connector_sink import (
    BROKER,
    NOT_GIVEN,
    NOTHING_IS_LEFT,
    chosen_entries,
    sink_entries,
)


@pytest.fixture(autouse=True)
def no_log_stays_open():
    yield
    OPEN_LOGS.close()


def options_of(entry, path):
    return {**{k: v for k, v in entry.options.items() if k != BROKER}, "path": str(path)}


@pytest.mark.filterwarnings("ignore:option:UserWarning")
@pytest.mark.filterwarnings("ignore:column timestamp is ignored:UserWarning")
def test_options_and_columns_are_refused_as_by_the_connector(sink_entry, tmp_path):
    """All of them, without Spark: what is refused before there is a row."""
    entry = sink_entry
    schema = StructType.fromJson(entry.input_schema)
    source = SegstoreDataSource(options_of(entry, tmp_path))

    if entry.left_out is not None or entry.is_refused_by_mode:
        return
    said = None
    try:
        source.writer(schema, overwrite=entry.mode == "overwrite")
    except (IllegalArgumentError, InvalidTopicError) as error:
        said = str(error)

    assert (said is not None) >= entry.is_refused_without_rows
    assert said is None or (not entry.accepted and entry.words in said)


def test_writes_go_as_with_the_connector(spark, tmp_path, summary, pytestconfig, answers_folder):
    """One of each group and a forty-eighth of all; all of them with --slow."""
    differences = []
    chosen = sink_entries if pytestconfig.getoption("--slow") else chosen_entries
    entries = chosen(answers_folder)
    for entry in entries:
        if entry.left_out is not None:
            summary.leave_out(f"{entry.id}: {entry.left_out}")
            continue
        path = tmp_path / entry.name
        make_topic(path, "an-empty-one", 1)
        for topic, partitions in entry.topics.items():
            make_topic(path, topic, partitions)
        difference = difference_of(entry, *outcome(spark, entry, path, tmp_path))
        if difference is not None:
            differences.append(f"{entry.id}: {difference}")
        summary.add("writes", difference is None)
        if not entry.accepted and entry.written and entry.written["count"]:
            summary.leave_out(f"{entry.id}: {NOTHING_IS_LEFT}")

    assert differences == []


def outcome(spark, entry, path, folder):
    """The error, and what the topics hold."""
    options, error = options_of(entry, path), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if entry.sql is None:
                stream(spark, entry, options, folder / f"{entry.name}-checkpoint")
            else:
                writer = spark.sql(entry.sql).write.format("segstore").options(**options)
                if entry.partition_by is not None:
                    writer = writer.partitionBy(entry.partition_by)
                writer.mode("append" if entry.mode == NOT_GIVEN else entry.mode).save()
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is compared
            error = raised
    return error, rows_in(path, entry)


def stream(spark, entry, options, checkpoint):
    assert entry.source == "rate-micro-batch, rowsPerBatch 20, one batch"
    rows = {"rowsPerBatch": 20, "numPartitions": 1}
    frame = spark.readStream.format("rate-micro-batch").options(**rows).load()
    query = (
        frame.selectExpr(*split_at_commas(entry.select))
        .writeStream.format("segstore")
        .outputMode(entry.output_mode)
        .options(**options, checkpointLocation=str(checkpoint))
        .trigger(once=True)
        .start()
    )
    query.awaitTermination()


def split_at_commas(select):
    return [one.strip() for one in select.split(",")]


def rows_in(path, entry):
    """Every record, in the recorded form."""
    if not entry.topics:
        return []
    source = SegstoreDataSource(
        {"path": str(path), "subscribe": ",".join(entry.topics), "includeHeaders": "true"}
    )
    fields = {field.name: field for field in source.schema().fields}
    chosen = [fields.get(name, StructField(name, LongType())) for name in entry.written["columns"]]
    reader = source.reader(StructType(chosen))
    return rows_of(batch for part in reader.partitions() for batch in reader.read(part))


def difference_of(entry, error, rows):
    """Say in what an outcome differs from the recorded one."""
    if not entry.accepted:
        if error is None:
            return f"no error, the connector's {entry.words}"
        if entry.words not in str(error):
            return f"{error}, the connector's {entry.words}"
        return f"{len(rows)} rows were left" if rows else None
    if error is not None:
        return str(error)
    columns = entry.written["columns"]
    if entry.partitions_are_random:
        found, recorded = without_places(columns, rows), recorded_rows(entry)
        return None if found == recorded else f"{found}, the connector's {recorded}"
    found = len(rows), digest(sorted_rows(columns, rows))
    recorded = entry.written["count"], entry.written["sha256"]
    return None if found == recorded else f"{found}, the connector's {recorded}"


def without_places(columns, rows):
    """Topic, key, value and headers: partition and offset are chance."""
    kept = [n for n, name in enumerate(columns) if name not in {"partition", "offset"}]
    return sorted(str([row[n] for n in kept]) for row in rows)


def recorded_rows(entry):
    rows = entry.written["rows"]
    assert len(rows) == entry.written["count"]
    return without_places(entry.written["columns"], rows)
