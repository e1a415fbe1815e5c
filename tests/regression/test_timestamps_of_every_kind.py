"""Rows of NumPy and pandas as tuples: their integers were refused, their indexes became timestamps.

And True was 1 ms, and a datetime was taken nowhere.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections import namedtuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

import segstore
from segstore import Record
from segstore.errors import ArgumentTypeError, IllegalArgumentError, RecordTypeError

TIME = 1_700_000_000_123
AWARE = dt.datetime.fromtimestamp(TIME // 1000, dt.UTC).replace(microsecond=123_999)
EQUAL_TIMES = [
    TIME,
    np.int64(TIME),
    np.uint64(TIME),
    pd.Series([TIME])[0],
    AWARE,
    AWARE.astimezone(ZoneInfo("Europe/Berlin")),
    AWARE.astimezone(dt.timezone(dt.timedelta(hours=-3))),
    pd.Timestamp(TIME, unit="ms", tz="UTC"),
    pd.Timestamp(TIME * 1_000_000 + 999_999, tz="Asia/Tokyo"),
    np.datetime64(TIME, "ms"),
    np.datetime64(TIME * 1000 + 999, "us"),
    pl.Series([AWARE])[0],
]
NO_TIMES = [
    True,
    np.True_,
    1.5,
    np.float64(TIME),
    "2024-05-01",
    dt.date(2024, 5, 1),
    dt.timedelta(seconds=1),
    np.timedelta64(1, "s"),
    np.array([TIME, TIME]),
    np.array([TIME], "datetime64[ms]"),
    AWARE.replace(tzinfo=None),
    pd.Timestamp("2024-05-01"),
]
NAIVE = [AWARE.replace(tzinfo=None), pd.Timestamp("2024-05-01")]


@pytest.fixture
def log(tmp_path):
    with segstore.open(tmp_path / "times-0", durability="none") as log:
        yield log


@pytest.fixture(params=["list", "iterator", "Record", "timestamp=", "topic", "marker"])
def stamped(request, log, tmp_path):
    """Return what gives a record a timestamp, in each of the ways, and reads it back."""

    def appended(time):
        if request.param == "topic":
            with segstore.open_dir(tmp_path / "topics", durability="none") as manager:
                if "t" not in manager.topics():
                    manager.create_topic("t", 1)
                manager.append("t", [(time, b"k", b"v")])
                return list(manager.log("t", 0))[-1].timestamp
        if request.param == "marker":
            marker = segstore.MemoryRecords.with_end_transaction_marker(
                1, 0, commit=True, timestamp=time
            )
            return next(marker.batches()).max_timestamp
        if request.param == "list":
            log.append([(time, b"k", b"v")])
        elif request.param == "iterator":
            log.append(iter([(time, b"k", b"v")]))
        elif request.param == "Record":
            log.append(Record(value=b"v", timestamp=time))
        else:
            log.append([(b"k", b"v")], timestamp=time)
        return list(log)[-1].timestamp

    return appended


@pytest.mark.parametrize("time", EQUAL_TIMES, ids=repr)
def test_a_time_is_taken_wherever_a_record_has_one(stamped, time):
    """Records keep whole milliseconds: what is behind is cut off, as by Arrow columns.

    Looked for beside tuples: Record, ``append(timestamp=)``, topics, markers, JSON lines, ``-o``,
    ranges of scans and look-ups. Options of Spark stay Kafka's texts of milliseconds.
    """
    assert stamped(time) == TIME


@pytest.mark.parametrize("time", NO_TIMES, ids=repr)
def test_what_is_no_time_is_refused(stamped, time):
    with pytest.raises(TypeError, match="timestamp") as caught:
        stamped(time)

    assert isinstance(caught.value, RecordTypeError | ArgumentTypeError)
    assert "since 1970" in caught.value.expected


@pytest.mark.parametrize("time", NAIVE, ids=repr)
def test_a_datetime_without_a_time_zone_is_refused_with_advice(stamped, time):
    """Python takes it for local time, pandas and Arrow for UTC."""
    with pytest.raises(TypeError, match=r"replace\(tzinfo=datetime\.UTC\)"):
        stamped(time)


@pytest.mark.parametrize("time", [pd.NaT, np.datetime64("NaT"), None], ids=repr)
def test_a_missing_time_is_that_of_the_append(log, time):
    """As where the whole frame is appended; ``append(timestamp=NaT)`` is refused."""
    log.append([(time, b"k", b"v")], timestamp=TIME)
    log.append([Record(value=b"v", timestamp=time)], timestamp=TIME)

    assert [record.timestamp for record in log] == [TIME, TIME]
    if time is not None:
        with pytest.raises(ArgumentTypeError):
            log.append([(b"k", b"v")], timestamp=time)


@pytest.mark.parametrize("ms", [-1, -1000])
def test_a_time_before_1970_is_refused(stamped, ms):
    """-1 ms would be no timestamp at all."""
    before = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)
    for moment in (before, np.datetime64(ms, "ms")):
        with pytest.raises(IllegalArgumentError):
            stamped(moment)


def test_every_way_to_ask_by_time_takes_every_kind(log):
    log.append([(TIME + n, None, b"%d" % n) for n in range(3)])
    for moment in EQUAL_TIMES:
        first = 0 if moment == TIME or str(moment).endswith("123000") else None
        found = log.offset_for_timestamp(moment)
        assert found in {0, 1} if first is None else found == first
        assert log.fetch_offset_by_timestamp(moment).offset == found
        assert [record.offset for record in log.scan(start_timestamp=moment)] == [*range(found, 3)]
        assert [record.offset for record in log.scan(end_timestamp=moment)] == [*range(found)]
    for moment in NO_TIMES:
        for ask in (
            log.offset_for_timestamp,
            log.fetch_offset_by_timestamp,
            lambda moment: log.scan(start_timestamp=moment),
            lambda moment: log.scan(end_timestamp=moment),
        ):
            with pytest.raises(ArgumentTypeError):
                ask(moment)


def test_a_bound_between_two_milliseconds_is_behind_the_first(log):
    log.append([(TIME + n, None, b"%d" % n) for n in range(3)])
    between = AWARE.replace(microsecond=124_001)  # behind the second record

    assert log.offset_for_timestamp(between) == 2
    assert log.offset_for_timestamp(np.datetime64(TIME * 1000 + 1001, "us")) == 2
    assert [record.offset for record in log.scan(end_timestamp=between)] == [0, 1]


def test_a_time_before_1970_is_no_special_timestamp(log):
    log.append([(TIME, None, b"v"), (TIME, None, b"w")])
    latest, earliest = (
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC) - dt.timedelta(milliseconds=n) for n in (1, 2)
    )

    assert log.fetch_offset_by_timestamp(segstore.SpecialTimestamp.LATEST).offset == 2
    assert log.fetch_offset_by_timestamp(latest).offset == 0
    assert log.fetch_offset_by_timestamp(np.datetime64(-1, "ms")).offset == 0
    assert log.offset_for_timestamp(earliest) == 0


@pytest.mark.parametrize("value", [(2**62, "Y"), (2**62, "h"), (-(2**62), "h"), (10**12, "D")])
def test_a_datetime64_that_no_milliseconds_hold_is_refused(log, value):
    """NumPy multiplies without a look at the range: 2^62 hours were 0 ms."""
    with pytest.raises(IllegalArgumentError, match="not within 64 bits"):
        log.append([(np.datetime64(*value), b"k", b"v")])
    for fine in (np.datetime64(TIME * 10**6 + 7, "ns"), np.datetime64(50, "Y")):
        log.append([(fine, b"k", b"v")])


# ---- rows that are counted -----------------------------------------------------------------------

FRAME = pd.DataFrame({"key": [b"a", b"b", b"c"], "value": [b"1", b"2", b"3"]})
Swapped = namedtuple("Swapped", ["value", "key"])  # noqa: PYI024 - as pandas makes them
Last = namedtuple("Last", ["key", "value", "timestamp"])  # noqa: PYI024
Event = namedtuple("Event", ["at", "key", "body"])  # noqa: PYI024


@pytest.fixture(params=["log", "topic"])
def append(request, log, tmp_path):
    if request.param == "log":
        yield log.append
    else:
        with segstore.open_dir(tmp_path / "topics", durability="none") as manager:
            manager.create_topic("t", 2)
            yield lambda rows: manager.append("t", rows)


@pytest.mark.parametrize(
    "rows",
    [
        FRAME.itertuples,
        lambda: list(FRAME.itertuples()),
        FRAME[1:2].itertuples,
        lambda: FRAME.itertuples(name=None),
        lambda: list(FRAME.itertuples(name=None)),
        lambda: pl.from_pandas(FRAME).with_row_index().rows(),
        lambda: ((n, b"k", b"v") for n in range(100_000)),
        lambda: [(n, b"k", b"v" * 300) for n in range(10_000)],
    ],
    ids=["named", "list", "one row", "plain", "plain list", "polars", "batches", "list of batches"],
)
def test_the_index_of_a_frame_is_no_timestamp(log, append, rows):
    """Refused are the field ``Index``, which pandas alone makes, and times that count all rows.

    At least two rows whose timestamps are 0, 1, 2, … ms after 1970, and no other: nobody has such
    times, except in a toy. Small timestamps as such are not refused: clocks of simulations begin
    at 0, too.
    """
    with pytest.raises(RecordTypeError, match=r"index=False.*Record\(timestamp"):
        append(rows())

    assert log.log_end_offset == 0


@pytest.mark.parametrize(
    "rows",
    [
        [(0, b"k", b"v")],
        [(0, b"k", b"v"), (0, b"k", b"v")],
        [(0, b"k", b"v"), (1, b"k", b"v"), (3, b"k", b"v")],
        [(1, b"k", b"v"), (2, b"k", b"v"), (3, b"k", b"v")],
        [(0, b"k", b"v"), (1, b"k", b"v"), (b"k", b"v")],
        [(0, b"k", b"v"), (10, b"k", b"v")],
        [Event(0, b"k", b"v"), Event(5, b"k", b"v")],
        [Record(value=b"v", timestamp=n) for n in range(3)],
        list(FRAME.itertuples(index=False)),
        list(FRAME.itertuples(index=False, name=None)),
        [Event(np.int64(TIME), b"k", b"v")],
    ],
    ids=str,
)
def test_small_timestamps_are_times(append, rows):
    append(rows)
    append(iter(rows))


@pytest.mark.parametrize(
    "rows",
    [
        [(9, b"d", b"1"), (0, b"a", b"1"), (1, b"c", b"2"), (1, b"a", b"2")],
        [(7, b"%d" % n, b"") for n in range(70_000)] + [(n, b"a", b"") for n in range(10)],
        [(100, b"k", b"v")] * 65_536 + [(n, b"k", b"v") for n in range(10)],
    ],
    ids=["a part", "a part of many", "the second piece of an iterator"],
)
def test_a_part_of_the_rows_may_count_them(append, rows):
    """All rows of an append are asked, not those of one partition, nor a piece of an iterator."""
    append(rows)
    append(iter(rows))


@pytest.mark.parametrize("row", [Swapped(b"v", b"k"), Last(b"k", b"v", TIME)], ids=repr)
def test_named_fields_in_other_places_are_refused(append, row):
    """Names do not count, so ``value`` became the key without a word."""
    with pytest.raises(RecordTypeError, match="the places count, not the names"):
        append([(b"k", b"v"), row])


def test_rows_of_a_frame_as_tuples(log):
    """[data/35] Each way that pandas has to give rows."""
    frame = pd.DataFrame(
        {"timestamp": [TIME, TIME + 1], "key": [b"a", b"b"], "value": [b"1", b"2"]}
    )
    for rows in (
        [tuple(row) for row in frame.values],  # noqa: PD011
        list(zip(frame["timestamp"], frame["key"], frame["value"], strict=True)),
        zip(frame["timestamp"].to_numpy(), frame["key"], frame["value"], strict=True),
        frame.itertuples(index=False),
        [(row["timestamp"], row["key"], row["value"]) for _, row in frame.iterrows()],
        frame.assign(timestamp=pd.to_datetime(frame["timestamp"], unit="ms", utc=True)).itertuples(
            index=False
        ),
        pl.from_pandas(frame).rows(),
    ):
        log.append(rows)

    assert [record.timestamp for record in log] == [TIME, TIME + 1] * 7


# ---- the command line ----------------------------------------------------------------------------


def run(*arguments, data=b""):
    command = [sys.executable, "-m", "segstore", *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def test_cat_takes_times_with_their_zone(log):
    log.append([(TIME + 1000 * n, None, b"%d" % n) for n in range(3)])
    log.flush()
    at = dt.datetime.fromtimestamp(TIME // 1000 + 1, dt.UTC).isoformat()

    for start in (TIME + 500, at, at.replace("+00:00", "Z")):
        assert run("cat", log.path, "-o", f"s@{start}").stdout == b"1\n2\n"
    assert run("cat", log.path, "-o", f"e@{at}").stdout == b"0\n"
    naive = run("cat", log.path, "-o", f"s@{at[:19]}")
    assert (naive.returncode, naive.stdout) == (2, b"")
    assert b"no zone" in naive.stderr


@pytest.mark.parametrize("time", ["true", "1.5", '"7"'])
def test_json_lines_have_integers_as_timestamps(tmp_path, time):
    line = b'{"value":"dg==","timestamp":%s}\n' % time.encode()
    done = run("append", tmp_path / "lines-0", "--format", "jsonl", data=line)

    assert done.returncode == 2
    assert b"the timestamp is" in done.stderr


# ---- keys and values -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        np.str_("v"),
        np.int64(5),
        np.float64(5),
        np.True_,
        np.datetime64(5, "s"),
        np.array(["k1"])[0],
        np.array(5),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "record",
    [
        lambda part: (b"k", part),
        lambda part: (part, b"v"),
        lambda part: (TIME, part, b"v"),
        lambda part: Record(value=part),
        lambda part: Record(key=part),
        lambda part: Record(value=b"v", headers=[("h", part)]),
    ],
    ids=["value", "key", "key of three", "Record's value", "Record's key", "header"],
)
def test_text_and_numbers_of_numpy_are_no_bytes(log, append, part, record):
    """They have a buffer of machine words: text was stored as UTF-32, 5 as eight bytes.

    ``str`` and ``int`` are refused in these places too.
    """
    with pytest.raises(RecordTypeError, match=rf"is (a )?(str\b|{type(part).__name__})"):
        append([(b"k", b"v"), record(part)])

    assert log.log_end_offset == 0


def test_bytes_of_numpy_are_bytes(log):
    for part in (np.bytes_(b"abc"), np.void(b"abc"), np.frombuffer(b"abc", np.uint8)):
        log.append([(part, part), Record(key=part, value=part)])

    assert {(one.key, one.value) for one in log} == {(b"abc", b"abc")}
