"""What a condition tells a log: never less than it asks for."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from segstore.number_limits import MAX_LONG, MIN_LONG
from segstore.spark.where_clause import Narrowing, narrowing_of

TIMES = {"'2024-01-01'": 1_704_067_200_000_000, "timestamp '1970-01-01 00:00:00.0015Z'": 1_500}


def narrowed(condition):
    return narrowing_of(condition, TIMES.get)


def offsets(condition):
    found = narrowed(condition)
    return found.first_offset, found.end_offset


@pytest.mark.parametrize(
    ("condition", "first", "end"),
    [
        ("offset >= 5", 5, MAX_LONG),
        ("offset > 5 AND offset < 9", 6, 9),
        ("OFFSET <= 5", 0, 6),
        ("5 <= offset and 7 > `offset`", 5, 7),
        ("offset = 5", 5, 6),
        ("offset BETWEEN 3 AND 9 AND key IS NULL", 3, 10),
        ("(offset >= 5) AND ((offset < 8))", 5, 8),
        ("offset >= -5 AND offset < 3", 0, 3),
        ("value = 'a AND offset > 99' AND offset < 4", 0, 4),
        ("length(value) > 3 AND offset < 4", 0, 4),
        ("NOT offset > 7 AND offset < 90", 0, 90),
        ("offset > 5 AND offset > 2", 6, MAX_LONG),
    ],
)
def test_bounds_of_offsets_are_understood(condition, first, end):
    assert offsets(condition) == (max(first, 0), end)


@pytest.mark.parametrize(
    "condition",
    [
        "offset >= 5 OR partition = 1",
        "NOT (offset >= 5 AND offset < 7)",
        "offset >= 5 + 3",
        "offset + 1 >= 5",
        "offset >= 5L",
        "offset >= 5.5",
        "offset >= 5 IS NOT TRUE",
        "a.offset >= 5",
        "offset BETWEEN SYMMETRIC 9 AND 1",
        "offset NOT BETWEEN 3 AND 9",
        'value = "x AND offset > 5 AND y"',
        r"value = 'it\'s AND offset > 5 AND y'",
        "value = 1 -- AND\n AND offset > 5",
        "value = 1 /* ' */ AND offset > 5",
        "CASE WHEN key IS NULL THEN key = value AND offset > 5 AND true ELSE true END",
        "IF(key IS NULL, offset > 5, true)",
        "offset > 5 = false",
        "offset IN (SELECT max(offset) FROM t)",
        "offset >= ",
        "",
        "((",
    ],
)
def test_what_is_not_understood_is_left_to_spark(condition):
    """Each of these looks like a bound, and is none."""
    found = narrowed(condition)

    assert Narrowing(columns=found.columns) == found


def test_timestamps_are_rounded_so_that_nothing_is_missed():
    """Records have milliseconds, Spark microseconds; the literal is Spark's to read."""
    odd = "timestamp '1970-01-01 00:00:00.0015Z'"
    for operator, bounds in (
        (">=", (2, MAX_LONG)),
        (">", (2, MAX_LONG)),
        ("<", (MIN_LONG, 2)),
        ("<=", (MIN_LONG, 2)),
        ("=", (2, 2)),
    ):
        found = narrowed(f"timestamp {operator} {odd}")
        assert (found.first_timestamp, found.end_timestamp) == bounds
    whole = narrowed("timestamp > '2024-01-01' AND '2024-01-01' >= timestamp")
    assert whole.first_timestamp == whole.end_timestamp == 1_704_067_200_001
    assert narrowed("timestamp > current_timestamp()").first_timestamp == MIN_LONG
    assert narrowed("timestamp > 'no time'").first_timestamp == MIN_LONG


def test_topics_and_partitions():
    found = narrowed("topic IN ('a', 'it''s') AND topic = 'a' AND partition IN (0, 2, 3)")

    assert found.topics == {"a"}
    assert found.partitions == {0, 2, 3}
    assert narrowed("partition = 1 AND partition = 2").partitions == frozenset()
    assert narrowed("partition < 2 AND topic LIKE 'a%'") == Narrowing(
        columns=frozenset({"partition", "topic"})
    )


def test_the_columns_of_a_condition_are_named_as_the_source_names_them():
    assert narrowed("TIMESTAMPTYPE = 0 AND `Key` IS NULL AND 'value' = 'headers'").columns == {
        "timestampType",
        "key",
    }
