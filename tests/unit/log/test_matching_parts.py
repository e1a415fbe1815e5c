"""Which parts of a scan pyarrow leaves for a filter: never fewer than match."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyarrow import compute

from segstore.log.matching_parts import ArrowFilter, constants_in, matching_parts, names_in
from segstore.number_limits import MAX_LONG, MIN_LONG

SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
    }
)
KEY, TOPIC, PARTITION, OFFSET, TIMESTAMP = map(compute.field, SCHEMA.names)
NAN = float("nan")
UNBOUNDED = (MIN_LONG, MAX_LONG)


class Scan(NamedTuple):
    """What is asked of a `LogScan`; a part of it is what was asked for."""

    partition: int
    start_offset: int
    end_offset: int
    timestamps: tuple[int, int] = UNBOUNDED
    has_index: bool = True

    @property
    def _has_index(self):
        return self.has_index

    @property
    def _timestamps(self):
        return self.timestamps

    @property
    def _topic_partition(self):
        return "orders", self.partition

    def _part(self, start, end, *, chunk_bytes, timestamps):
        assert chunk_bytes > 0
        return self.partition, (start, end), timestamps


def parts_of(expression, *scans):
    return matching_parts(scans, ArrowFilter(SCHEMA, expression))


def ms(value, unit="ms"):
    return pa.scalar(value, pa.timestamp(unit, "UTC"))


# ---- filters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (OFFSET > 5, {"offset"}),
        ((OFFSET > 5) & (KEY == b"a"), {"offset", "key"}),
        (~(PARTITION == 1) | TIMESTAMP.is_null(), {"partition", "timestamp"}),
        (compute.scalar(True), set()),
    ],
)
def test_the_columns_of_a_filter_are_found(expression, names):
    assert ArrowFilter(SCHEMA, expression).names == names


def test_the_columns_of_expressions_are_found():
    assert names_in(SCHEMA, columns={"a": OFFSET + 1, "b": KEY}) == ["key", "offset"]


@pytest.mark.parametrize("expression", [compute.field("nope") == 1, KEY > 5])
def test_a_filter_that_does_not_fit_is_an_error(expression):
    with pytest.raises(pa.ArrowException):
        ArrowFilter(SCHEMA, expression)


@pytest.mark.parametrize(
    ("expression", "ranges", "all_match"),
    [
        (OFFSET == 70, [(70, 71)], False),
        ((OFFSET >= 70) & (OFFSET < 90), [(70, 90)], True),
        ((OFFSET > 70) & (OFFSET <= 90), [(71, 91)], True),
        (~(OFFSET >= 70), [(10, 70)], True),
        ((OFFSET < 20) | (OFFSET > 900_000), [(10, 20), (900_001, 1_000_000)], True),
        (OFFSET.isin([3, 70, 900_000]), [(70, 71), (900_000, 900_001)], False),
        (OFFSET > 70.5, [(71, 1_000_000)], True),
        ((OFFSET > 70) & (KEY == b"a"), [(71, 1_000_000)], False),
        ((OFFSET > 70) | (KEY == b"a"), [(10, 1_000_000)], False),
        (compute.bit_wise_and(OFFSET, 1) == 0, [(10, 1_000_000)], False),
        (OFFSET < 10, [], True),
        (OFFSET.is_null(), [], True),
        (compute.scalar(None) < OFFSET, [], True),
        (compute.scalar(True), [(10, 1_000_000)], True),
        (TOPIC == "others", [], True),
        (TOPIC == "orders", [(10, 1_000_000)], True),
    ],
    ids=str,
)
def test_a_filter_of_offsets_gives_ranges(expression, ranges, all_match):
    parts, everything_matches = parts_of(expression, Scan(0, 10, 1_000_000))
    assert parts == [(0, one, UNBOUNDED) for one in ranges]
    if parts:
        assert everything_matches >= all_match  # a newer pyarrow may know more


@pytest.mark.parametrize(
    ("expression", "timestamps"),
    [
        (ms(1000) <= TIMESTAMP, (1000, MAX_LONG)),
        ((ms(1000) < TIMESTAMP) & (ms(2000) > TIMESTAMP), (1001, 2000)),
        (ms(1000) == TIMESTAMP, (1000, 1001)),
        (ms(-1) > TIMESTAMP, (MIN_LONG, -1)),
        (ms(1_000_000, "us") <= TIMESTAMP, (1000, MAX_LONG)),
        ((ms(5) > TIMESTAMP) | (ms(9000) < TIMESTAMP), (MIN_LONG, MAX_LONG)),
        ((ms(5) == TIMESTAMP) | (ms(9000) == TIMESTAMP), (5, 9001)),
        (ms(1_000_001, "us") <= TIMESTAMP, (MIN_LONG, MAX_LONG)),
        (ms(1_000_000_001, "ns") <= TIMESTAMP, (MIN_LONG, MAX_LONG)),
    ],
    ids=str,
)
def test_a_filter_of_timestamps_gives_bounds(expression, timestamps):
    """Of finer units than milliseconds pyarrow proves nothing: all is read."""
    parts, _ = parts_of(expression, Scan(0, 10, 100))
    assert parts == [(0, (10, 100), timestamps)]


def test_the_bounds_of_a_scan_and_those_of_a_filter_hold_together():
    scan = Scan(0, 10, 100, (500, 700))
    parts, all_match = parts_of(ms(600) <= TIMESTAMP, scan)
    assert parts == [(0, (10, 100), (600, 700))]
    assert all_match
    assert parts_of(ms(700) <= TIMESTAMP, scan) == ([], True)
    parts, all_match = parts_of(ms(500) <= TIMESTAMP, scan)
    assert parts == [(0, (10, 100), (500, 700))]
    assert all_match


def test_each_partition_has_its_own_part():
    scans = [Scan(number, 100 * number, 1000) for number in range(4)]
    assert parts_of(PARTITION == 2, *scans) == ([(2, (200, 1000), UNBOUNDED)], True)
    parts, all_match = parts_of(OFFSET < 150, *scans)
    assert parts == [(0, (0, 150), UNBOUNDED), (1, (100, 150), UNBOUNDED)]
    assert all_match
    by_partition = (PARTITION == 1) & (OFFSET < 120) | (PARTITION == 3) & (OFFSET > 900)
    parts, all_match = parts_of(by_partition, *scans)
    assert parts == [(1, (100, 120), UNBOUNDED), (3, (901, 1000), UNBOUNDED)]
    assert all_match


def test_an_empty_scan_has_no_part():
    assert parts_of(OFFSET < 150, Scan(0, 10, 10)) == ([], True)
    assert parts_of(OFFSET < 150) == ([], True)


def test_what_has_no_index_is_read_in_one_part():
    """A filter must then be applied to what lies between the ranges."""
    scans = Scan(0, 0, 100), Scan(1, 0, 100, has_index=False)
    ends = (OFFSET < 10) | (OFFSET >= 90)
    parts, all_match = parts_of(ends, *scans)
    assert [(number, offsets) for number, offsets, _ in parts] == [
        (0, (0, 10)),
        (0, (90, 100)),
        (1, (0, 100)),
    ]
    assert not all_match
    assert parts_of((OFFSET >= 20) & (OFFSET < 30), scans[1]) == ([(1, (20, 30), UNBOUNDED)], True)
    assert parts_of(OFFSET > 100, scans[1]) == ([], True)


def test_many_places_are_read_with_what_lies_between(monkeypatch):
    monkeypatch.setattr("segstore.log.matching_parts.MOST_CONSTANTS", 4)
    places = [100 * number for number in range(1, 50)]
    parts, all_match = parts_of(OFFSET.isin(places), Scan(0, 0, 5000))
    assert not all_match
    assert len(parts) < len(places)
    for place in places:
        assert any(start <= place < end for _, (start, end), _ in parts)


@pytest.mark.parametrize("pickled", [b"no file of Arrow", None])
def test_without_constants_nothing_is_cut_and_nothing_lost(monkeypatch, pickled):
    """As in a pyarrow that pickles expressions in another way."""

    class Other:
        def __reduce__(self):
            return int, (pickled,)

    assert constants_in(Other()) is None
    monkeypatch.setattr("segstore.log.matching_parts.constants_in", lambda _: None)
    for expression in ((OFFSET > 70) & (ms(500) < TIMESTAMP), PARTITION == 0, PARTITION == 1):
        parts, all_match = parts_of(expression, Scan(0, 10, 100))
        assert parts == [(0, (10, 100), UNBOUNDED)]
        assert not all_match


@pytest.mark.parametrize(
    "nan",
    [
        pa.scalar(NAN, pa.float16()),
        pa.scalar([NAN], pa.list_(pa.float32(), 1)),
        pa.scalar({"a": [NAN]}),
        pa.scalar([("a", NAN)], pa.map_(pa.string(), pa.float64())),
        pa.array([5.0, NAN]).dictionary_encode()[1],
    ],
    ids=lambda value: str(value.type),
)
def test_a_constant_that_is_nan_is_found_wherever_it_is(nan):
    assert constants_in((OFFSET > 5) & compute.equal(KEY, nan)) is None


def test_functions_that_may_make_nan_prove_nothing(monkeypatch):
    """Also where pyarrow does not say which functions there are."""
    for made in (compute.sqrt(compute.scalar(-1)), compute.scalar("nan").cast(pa.float64())):
        assert constants_in((OFFSET > 5) & (made > OFFSET)) is None
        assert parts_of((OFFSET > 5) & (made > OFFSET), Scan(0, 0, 9)) == (
            [(0, (0, 9), UNBOUNDED)],
            False,
        )
    assert constants_in(OFFSET > 5) == ([5], [])
    monkeypatch.setattr("segstore.log.matching_parts._CALL", re.compile("written in another way"))
    assert constants_in(OFFSET > 5) is None


@pytest.mark.parametrize(
    ("expression", "numbers", "times"),
    [
        ((OFFSET > 5) | (OFFSET == 2**62 + 1), [5, 2**62 + 1], []),
        (OFFSET > -0.5, [-1], []),
        (OFFSET.isin([3, None, 1]) & (ms(5_001, "us") > TIMESTAMP), [1, 3], [5]),
        (TIMESTAMP.isin([datetime(2025, 1, 1, tzinfo=UTC)]), [], [1735689600000]),
        (OFFSET.isin(pa.array([5, 7]).dictionary_encode()), [5, 7], []),
        (compute.scalar(None) > OFFSET, [], []),
        (KEY.is_null(), [], []),
        ((OFFSET > 5) & (compute.hour(TIMESTAMP) == 8) & compute.starts_with(KEY, "k"), [5, 8], []),
        (compute.if_else(OFFSET.is_valid(), OFFSET.isin([5]), None), [5], []),  # DuckDB's IN
    ],
    ids=str,
)
def test_the_constants_of_a_filter_are_found(expression, numbers, times):
    """Also numbers of an option are."""
    found, found_times = constants_in(expression)
    assert [number for number in found if number != 0] == numbers
    assert found_times == times
