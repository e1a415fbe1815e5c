"""The reader answers as Spark's own Kafka connector did: rows, Spark partitions, ranges, errors."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from tests.spark.connector_batch import (
    CLIENT,
    PATH,
    SCHEMA,
    digest,
    entries,
    rows_of,
    sorted_rows,
)

pytest.importorskip("pyspark")

from segstore.errors import InvalidTopicError, SegstoreError, UnknownTopicOrPartitionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.local_planned_log import planned_log
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.options import parse_options
from segstore.spark.reader import SegstoreReader
from segstore.types import TopicPartition

EXCEPTION_CLASSES = {
    "UnknownTopicOrPartitionException": UnknownTopicOrPartitionError,
    "InvalidTopicException": InvalidTopicError,
}
TASKS_RACE = {
    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
}
EARLIER = {"ConfigException"}
"""What the connector's consumer finds in a task is found in ``load()`` here."""
LATER = "can't be latest for batch queries on Kafka"
"""In ``load()`` Spark does not tell a source in Python that it is not for a stream."""


@pytest.fixture(autouse=True)
def no_log_stays_open():
    yield
    OPEN_LOGS.close()


@pytest.mark.filterwarnings("ignore:option:UserWarning")
@pytest.mark.filterwarnings("ignore:.* option ignored:UserWarning")
def test_the_reader_answers_as_the_connector_did(
    connector_case, answers_folder, case_directory, summary
):
    """Every recorded read without SQL, in this process: what is planned, and what comes out."""
    data = case_directory(connector_case) / "data"
    differences = []
    for entry in entries(answers_folder):
        if entry.case != connector_case or entry.sql is not None:
            continue
        if entry.left_out is not None:
            summary.leave_out(f"{entry.id}: {entry.left_out}")
            continue
        compare = compare_error if entry.error is not None else compare_result
        try:
            difference = compare(entry, entry.options_for(data))
        except SegstoreError as error:
            difference = repr(error)
        if difference is not None and entry.compatible_only is not None:
            summary.leave_out(f"{entry.id}, with connectorCompatible: {entry.compatible_only}")
            difference = compare(entry, entry.options_for(data, compatible=True))
        if difference is not None:
            differences.append(f"{entry.id}: {difference}")
        summary.add("reads", difference is None)

    assert differences == []


def compare_result(entry, options) -> str | None:
    """Say in what the answer differs from the recorded one."""
    result = entry.result
    source = SegstoreDataSource(options)
    schema = source.schema()
    if json.loads(schema.json()) != result["schema"]:
        return f"schema {schema.simpleString()}"
    reader = source.reader(schema)
    partitions = reader.partitions()
    planned = sorted(resolved(result["planned_ranges"], options))
    ranges = [
        (o.topic, o.partition, o.from_offset, o.until_offset) for o in map(offsets_of, partitions)
    ]
    if ranges != planned:
        return f"ranges {ranges}, the connector's {planned}"
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    rows = sorted_rows(result["columns"], rows_of(batches))
    if len(rows) != result["count"]:
        return f"{len(rows)} rows, the connector's {result['count']}"
    if digest(rows) != result["sha256"]:
        return (
            f"other rows, {rows[:1]}, the connector's {result.get('rows', result.get('first'))[:1]}"
        )
    return None


def resolved(planned_ranges, options):
    """The connector's plan with -2 and -1 replaced by the bounds of the logs."""
    isolation = parse_options(options).isolation
    for topic, partition, from_offset, until_offset in planned_ranges:
        log = planned_log(options["path"], TopicPartition(topic, partition), isolation)
        yield (
            topic,
            partition,
            log.start_offset if from_offset == -2 else from_offset,
            log.end_offset if until_offset == -1 else until_offset,
        )


def offsets_of(partition):
    (offsets,) = partition.ranges  # one, as the connector has
    return offsets


def compare_error(entry, options) -> str | None:
    """Say in what the failure differs from the recorded one: its phase, condition or words."""
    found, phase = failure_of(options)
    (recorded,) = [c for c in entry.error["chain"] if "condition" in c] or entry.error["chain"][-1:]
    name = recorded["class"].rpartition(".")[2]
    if found is None:
        return f"no error, the connector's {recorded}"
    if phase != entry.error["phase"] and name not in EARLIER and LATER not in str(found):
        return f"{phase} instead of {entry.error['phase']}: {found}"
    if "condition" in recorded:
        return compare_condition(recorded, found)
    if name in EXCEPTION_CLASSES:
        same = isinstance(found, EXCEPTION_CLASSES[name])
    elif name == "PatternSyntaxException":
        same = name in str(found)
    else:
        same = unordered(recorded["message"]) in unordered(str(found))
    return None if same else f"{found!r}, the connector's {recorded}"


def unordered(message: str) -> str:
    """Which of several partitions is named first depends on the order of a Scala map."""
    return re.sub(r"topic-partition [\w.-]+", "topic-partition", message).rstrip(".")


def compare_condition(recorded, found) -> str | None:
    condition = getattr(found, "condition", None)
    if condition != recorded["condition"]:
        return f"{found!r}, the connector's {recorded['condition']}"
    if f"[{condition}]" not in str(found):
        return f"{found} does not name its condition"
    ours = {name: words(found.parameters.get(name)) for name in recorded["parameters"]}
    theirs = {name: words(value) for name, value in recorded["parameters"].items()}
    ours.pop("groupId", None)
    theirs.pop("groupId", None)
    # The connector's tasks race: which partition fails first differs from run to run there.
    names = ("topicPartition",) if "topicPartition" in theirs else ("topic", "partition")
    race = condition in TASKS_RACE and any(ours[name] != theirs[name] for name in names)
    return None if race or ours == theirs else f"{ours}, the connector's {theirs}"


def words(text: str | None) -> list[str]:
    """Scala's sets have no order."""
    return sorted((text or "").removeprefix("Set(").removesuffix(")").split(", "))


def failure_of(options) -> tuple[Exception | None, str]:
    phase = "load"
    try:
        source = SegstoreDataSource(options)
        schema = source.schema()
        phase = "execute"
        reader = source.reader(schema)
        for partition in reader.partitions():
            for _ in reader.read(partition):
                pass
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return error, phase
    return None, phase


def test_what_is_not_compared_is_known():
    """A new reason to leave something out is a decision, not an accident."""
    reasons = Counter(entry.left_out for entry in entries(None) if entry.left_out is not None)

    assert reasons == {CLIENT: 6, PATH: 1, SCHEMA: 1}


def test_the_reader_leaves_filters_to_spark():
    """Spark keeps one plan for each DataFrame; a pushed filter would stay for its next use."""
    from pyspark.sql.datasource import DataSourceReader

    default = getattr(DataSourceReader, "pushFilters", None)

    assert getattr(SegstoreReader, "pushFilters", None) is default
