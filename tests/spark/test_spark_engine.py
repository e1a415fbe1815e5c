"""Through the real Spark: SQL, projections, unions, views, errors as a user sees them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.spark.connector_batch import (
    digest,
    entries,
    representative_queries,
    rows_of,
    sorted_rows,
)

pytest.importorskip("pyspark")

import segstore

ROOT = Path(__file__).resolve().parents[2]
TOPIC, RECORDS = "orders", 1400
"""Of the packed case that the tests with numbers read."""


@pytest.fixture
def orders(packed):
    return packed / "plain-many-segments" / "data"


@pytest.fixture
def load(spark, orders):
    """Load a packed case; options as keywords, ``schema`` as a projection."""

    def load(path=orders, topic=TOPIC, schema=None, **options):
        reader = spark.read.format("segstore").option("path", str(path))
        for name, value in {"subscribe": topic, **options}.items():
            reader = reader.option(name, value)
        return (reader if schema is None else reader.schema(schema)).load()

    return load


def test_sql_answers_are_the_connectors(  # noqa: PLR0913 - fixtures
    connector_case, answers_folder, spark, case_directory, summary, every_query
):
    """Every recorded query, over a view named as it was; each sort of them once unless --slow."""
    data = case_directory(connector_case) / "data"
    differences = []
    for entry in entries(answers_folder):
        if entry.case != connector_case or entry.sql is None:
            continue
        if entry.left_out is not None:
            summary.leave_out(f"{entry.id}: {entry.left_out}")
            continue
        if not every_query and entry.id not in representative_queries(answers_folder):
            continue
        difference = difference_of_query(spark, entry, entry.options_for(data))
        if difference is not None:
            differences.append(f"{entry.id}: {difference}")
        summary.add("queries", difference is None)

    assert differences == []


def difference_of_query(spark, entry, options) -> str | None:
    """Say in what the answer to a query differs from the recorded one."""
    try:
        spark.read.format("segstore").options(**options).load().createOrReplaceTempView("t")
        frame = spark.sql(entry.sql)
        table = frame.toArrow()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        if entry.error is None:
            return str(error)
        conditions = [c["condition"] for c in entry.error["chain"] if "condition" in c]
        return None if all(name in str(error) for name in conditions) else f"{error}, {conditions}"
    if entry.error is not None:
        return f"no error, the connector's {entry.error['chain'][0]}"
    columns = frame.columns
    rows = sorted_rows(columns, rows_of(table.to_batches()))
    found = (columns, len(rows), digest(rows))
    recorded = tuple(entry.result[name] for name in ("columns", "count", "sha256"))
    if entry.result.get("order_is_not_defined"):
        found, recorded = found[:2], recorded[:2]
    return None if found == recorded else f"{found}, the connector's {recorded}"


def test_one_frame_filtered_in_several_ways_answers_each_as_if_alone(load):
    """The trap of pushFilters: Spark keeps one plan for each frame, the last filter would stay."""
    frame = load()

    assert frame.count() == RECORDS
    assert frame.where("offset < 5").count() == 10
    assert frame.count() == RECORDS
    assert frame.where("offset < 5").union(frame.where("offset < 50")).count() == 110
    frame.createOrReplaceTempView("many")
    counts = frame.sparkSession.sql(
        "SELECT (SELECT count(*) FROM many WHERE offset < 5) AS a,"
        " (SELECT count(*) FROM many WHERE offset < 50) AS b, (SELECT count(*) FROM many) AS c"
    ).first()
    assert tuple(counts) == (10, 100, RECORDS)


def test_a_schema_chooses_columns_in_its_own_order(load):
    whole = load().select("offset", "value").toArrow()
    chosen = load(schema="offset LONG, value BINARY")

    assert chosen.columns == ["offset", "value"]
    assert chosen.toArrow().sort_by("offset")["offset"] == whole.sort_by("offset")["offset"]
    assert chosen.where("value IS NOT NULL").count() == load().where("value IS NOT NULL").count()


def test_a_schema_may_say_not_null_where_it_is_true(load):
    frame = load(schema="PARTITION INT NOT NULL, offset LONG NOT NULL, timestamp TIMESTAMP")

    assert frame.columns == ["PARTITION", "offset", "timestamp"]
    assert frame.count() == RECORDS
    with pytest.raises(Exception, match="NOT NULL"):
        load(schema="key BINARY NOT NULL").collect()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("offset LONG, size LONG", "does not have"),
        ("value STRING", "use cast"),
        ("offset INT", "use cast"),
        ("offset LONG, OFFSET LONG", "(?i)duplicate|twice"),
    ],
)
def test_a_schema_that_cannot_be_says_why(load, schema, words):
    with pytest.raises(Exception, match=words):
        load(schema=schema).count()


def test_headers_come_when_they_are_asked_for(load, packed):
    path = packed / "shapes" / "data"
    frame = load(path, "shapes", includeHeaders="true")

    assert frame.columns[-1] == "headers"
    assert frame.where("size(headers) > 0").count() > 0
    assert frame.where("headers IS NULL").count() + frame.where("headers IS NOT NULL").count() == (
        frame.count()
    )
    assert "headers" not in load(path, "shapes").columns


def test_sql_finds_the_source_by_name(spark, orders):
    """No registration: ``pyspark_segstore`` is found on the path."""
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW direct USING segstore"
        f" OPTIONS (path '{orders}', subscribe '{TOPIC}')"
    )

    assert spark.sql("SELECT count(*) FROM direct").first()[0] == RECORDS


def test_the_view_of_the_documents_shows_the_logs(spark, tmp_path):
    """The statement is taken from docs/spark.md; only its path is another one.

    What else of SQL was tried: headers, ``INSERT INTO`` the view, and what is appended later.
    """
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    (statement,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    assert statement.count("'data'") == 1
    with segstore.open_dir(tmp_path, durability="none") as logs:
        logs.create_topic("orders", partitions=2)
        logs.append("orders", [(b"k", b"%d" % number) for number in range(50)])
    statement = statement.replace("'data'", f"'{tmp_path}', topic 'orders'")
    spark.sql(statement)

    assert spark.sql("SELECT count(*) FROM orders").first()[0] == 50
    assert spark.sql("SELECT headers FROM orders WHERE headers IS NOT NULL").count() == 0
    spark.sql(
        "INSERT INTO orders SELECT key, value, topic, partition, offset, timestamp, timestampType, "
        "headers FROM orders LIMIT 3"
    )
    is_planned_each_time = spark.version.startswith("4.0.")  # later: once, at its first query
    seen = 53 if is_planned_each_time else 50
    assert spark.sql("SELECT count(*) FROM orders").first()[0] == seen
    spark.sql(statement)
    assert spark.sql("SELECT count(*) FROM orders").first()[0] == 53


def test_a_table_of_the_catalog_has_no_options(spark, tmp_path):
    """Why docs/spark.md sends users to the view; when this fails, Spark has learned it."""
    with segstore.open_dir(tmp_path, durability="none") as logs:
        logs.create_topic("orders")
    spark.sql("DROP TABLE IF EXISTS kept")
    try:
        spark.sql(
            f"CREATE TABLE kept USING segstore OPTIONS (path '{tmp_path}', subscribe 'orders')"
        )
        with pytest.raises(Exception, match=r"subscribe|path"):
            spark.sql("SELECT count(*) FROM kept").first()
    finally:
        spark.sql("DROP TABLE IF EXISTS kept")


def test_a_frame_goes_on_to_other_sources(load, tmp_path):
    """What is read is a table as any other."""
    frame = load().selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS text")
    frame.write.parquet(str(tmp_path / "orders.parquet"))

    back = frame.sparkSession.read.parquet(str(tmp_path / "orders.parquet"))
    assert back.count() == RECORDS
    assert back.exceptAll(frame).count() == 0


def test_spark_partitions_follow_min_partitions(load):
    """A hint: 3.5 parts each are rounded up."""
    assert load().rdd.getNumPartitions() == 2
    assert load(minPartitions="7").rdd.getNumPartitions() == 8
    assert load(minPartitions="7").count() == RECORDS
    packed = load(minPartitions="7", partitionsPerTask="3")  # still seven, where there are parts
    assert packed.rdd.getNumPartitions() == 8
    assert load(partitionsPerTask="2").rdd.getNumPartitions() == 1
    assert load(partitionsPerTask="2").count() == RECORDS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest"),
        (
            {"startingOffsets": json.dumps({TOPIC: {"0": 5}})},
            "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        ),
        (
            {"endingOffsets": json.dumps({TOPIC: {"0": 5, "1": 10**6}})},
            "COULD_NOT_READ_OFFSET_RANGE",
        ),
        ({"topic": "no-such-topic"}, "no-such-topic"),
        ({"path": "/no/such/directory"}, "/no/such/directory"),
        ({"kafka.isolation.level": "READ_COMMITTED"}, "String must be one of"),
    ],
)
def test_what_goes_wrong_reaches_the_user(load, options, words):
    """Condition, path or reason are in the text of the exception that PySpark raises."""
    with pytest.raises(Exception, match=words):
        load(**options).count()
