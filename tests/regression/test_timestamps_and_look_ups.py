"""Timestamps of every kind, and look-ups by them."""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
from collections import namedtuple
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

import segstore
from segstore import Record
from segstore.errors import (
    ArgumentTypeError,
    CorruptLogError,
    CorruptRecordError,
    IllegalArgumentError,
    RecordTypeError,
)
from segstore.types import SpecialTimestamp
from tests.kits.log_kit import TIME
from tests.kits.warm_commands import run_warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog


# ---- damaged time index --------------------------------------------------------------------------
# A time index has no checksum: an entry that was damaged hid records from look-ups by time.
#
# [DUR-53] Whatever the bytes of a time index are, a look-up answers what the batches say.


ENTRY_BYTES = 12
# A rise with peaks between two entries; a time that many batches share, a peak, that time again.
TIMES = (10, 40, 30, 40, 70, 40, 70, 70, 70, 70, 90, 70, 120, 70, 120, 120, 160, 120, 130)
SECOND_TIMES = (120, 170, 150, 180, 160, 175)
INTERVAL_BYTES = 100  # an entry after every second batch
TARGETS = sorted({time + more for time in (*TIMES, *SECOND_TIMES) for more in (-1, 0, 1)})
KIND = "timeindex"


class Answers(NamedTuple):
    """What a log says about times."""

    offsets: list[int | None]
    scans: list[list[tuple[object, ...]]]
    largest: list[int]
    latest: object


def answers(log: UnifiedLog) -> Answers:
    return Answers(
        [log.offset_for_timestamp(TIME + target) for target in TARGETS],
        [
            log.scan(start_timestamp=TIME + low, end_timestamp=TIME + low + 25).tuples()
            for low in TARGETS[::3]
        ],
        [segment.largest_record_timestamp() for segment in log.segments()],
        log.fetch_offset_by_timestamp(SpecialTimestamp.MAX),
    )


class CleanLog:
    """A log that was closed cleanly, its files put back before every use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.open() as log:
            for times in (TIMES, SECOND_TIMES):
                if times is SECOND_TIMES:
                    log.roll()
                for time in times:
                    log.append([(TIME + time, None, b"value")])
        self._files = {file: file.read_bytes() for file in path.iterdir() if file.is_file()}
        self.time_index = path / f"{0:020d}.{KIND}"
        self.entries_bytes = self._files[self.time_index]
        with self.open(read_only=True) as log:
            self.expected = answers(log)

    def open(self, **settings: object) -> UnifiedLog:
        return segstore.open(
            self.path,
            durability="none",
            segment_ms=None,
            index_interval_bytes=INTERVAL_BYTES,
            **settings,
        )

    def answers_with(self, time_index: bytes, *, read_only: bool) -> Answers:
        for file, content in self._files.items():
            file.write_bytes(content)
        self.time_index.write_bytes(time_index)
        with self.open(read_only=read_only) as log:
            assert log.report.clean
            return answers(log)


@pytest.fixture(scope="module")
def clean_log(tmp_path_factory: pytest.TempPathFactory) -> CleanLog:
    return CleanLog(tmp_path_factory.mktemp("time") / "topic-0")


def flipped(content: bytes) -> Iterator[bytes]:
    """Every single bit."""
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def entries_lost(content: bytes) -> Iterator[bytes]:
    """At the end, as a file that was cut; somewhere, as zeros or as what was there before."""
    count = len(content) // ENTRY_BYTES
    for first in range(count):
        before = content[: first * ENTRY_BYTES]
        yield before
        yield before + content[len(before) + 5 :]
        for end in range(first + 1, count + 1):
            yield before + bytes((end - first) * ENTRY_BYTES) + content[end * ENTRY_BYTES :]


def entries_swapped(content: bytes) -> Iterator[bytes]:
    count = len(content) // ENTRY_BYTES
    for first in range(count):
        for second in range(first):
            entries = [content[i : i + ENTRY_BYTES] for i in range(0, len(content), ENTRY_BYTES)]
            entries[first], entries[second] = entries[second], entries[first]
            yield b"".join(entries)


def of_an_earlier_life(content: bytes) -> Iterator[bytes]:
    """Entries of other batches with the same offsets, from some entry on."""
    count = len(content) // ENTRY_BYTES
    for first in range(count):
        for earlier in (-35, 5, 1000):
            stale = b"".join(
                (int.from_bytes(content[i : i + 8]) + earlier).to_bytes(8) + content[i + 8 : i + 12]
                for i in range(first * ENTRY_BYTES, len(content), ENTRY_BYTES)
            )
            yield content[: first * ENTRY_BYTES] + stale


def noise(content: bytes) -> Iterator[bytes]:
    random_bytes = random.Random(20).randbytes
    for size in (0, 1, 11, 13, *range(0, 3 * len(content), ENTRY_BYTES)):
        yield random_bytes(size)
    yield b"\xff" * len(content)
    yield b"\x7f" * len(content)


DAMAGES = (flipped, entries_lost, entries_swapped, of_an_earlier_life, noise)


@pytest.mark.parametrize("read_only", [True, False], ids=["read_only", "writable"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_time_index_hides_no_record(
    damage: Callable[[bytes], Iterator[bytes]], clean_log: CleanLog, *, read_only: bool
):
    """[DUR-53, DUR-8] The answers are those of the undamaged log, whatever became of the index."""
    assert len(clean_log.entries_bytes) >= 5 * ENTRY_BYTES
    wrong = [
        damaged.hex(" ", ENTRY_BYTES)
        for damaged in damage(clean_log.entries_bytes)
        if clean_log.answers_with(damaged, read_only=read_only) != clean_log.expected
    ]
    assert wrong == []


def test_the_answers_are_those_of_the_records(clean_log: CleanLog):
    """[SEG-23, TS-3] The oracle is a search through all records."""
    records = list(enumerate((*TIMES, *SECOND_TIMES)))
    expected = [next((o for o, time in records if time >= target), None) for target in TARGETS]
    assert clean_log.expected.offsets == expected
    assert clean_log.expected.largest == [TIME + max(TIMES), TIME + max(SECOND_TIMES)]


def test_a_writer_makes_a_damaged_time_index_anew(clean_log: CleanLog):
    """[DUR-53] When it was met by a look-up: closing rebuilds it as it was."""
    damaged = bytearray(clean_log.entries_bytes)
    damaged[2 * ENTRY_BYTES + 6] ^= 4
    clean_log.answers_with(bytes(damaged), read_only=True)
    assert clean_log.time_index.read_bytes() == damaged

    clean_log.answers_with(bytes(damaged), read_only=False)
    assert clean_log.time_index.read_bytes() == clean_log.entries_bytes


# ---- look ups around damage ----------------------------------------------------------------------
# Damage in a segment whose time index was lost hid readable records from look-ups by time.
#
# [DUR-79] The largest timestamp of what could be read was taken for that of the segment.


DAMAGE = (CorruptLogError, CorruptRecordError)
BATCHES = 60
DAMAGED = 20
WANTED = 30
LAST = 2 * BATCHES


def time_of(offset: int) -> int:
    return TIME + 10 * offset


def opened(path: Path, **settings: object) -> UnifiedLog:
    return segstore.open(
        path, durability="none", segment_ms=None, index_interval_bytes=256, **settings
    )


def damage(path: Path, base_offset: int, time_index: bytes) -> None:
    """Overwrite a batch of a segment; *time_index* is what its time index holds then."""
    with opened(path, read_only=True) as log:
        segment = next(one for one in log.segments() if one.base_offset == base_offset)
        position = segment.translate_offset(base_offset + DAMAGED, segment.size_bytes).position
    file = path / f"{base_offset:020d}.log"
    content = bytearray(file.read_bytes())
    content[position : position + 50] = b"\xff" * 50
    file.write_bytes(content)
    file.with_suffix(".timeindex").write_bytes(time_index)


@pytest.fixture(params=[b"", bytes(24)], ids=["empty", "zeros"])
def time_index(request: pytest.FixtureRequest) -> bytes:
    """What is left of a time index; where there is no file an open for writing reports damage."""
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of two sealed segments of as many batches and one that has one, closed cleanly."""
    path = tmp_path / "topic-0"
    with opened(path) as log:
        for offset in range(LAST + 1):
            if offset and offset % BATCHES == 0:
                log.roll()
            log.append([(time_of(offset), None, bytes(300))])
    return path


@pytest.mark.parametrize("read_only", [True, False], ids=["read_only", "writable"])
def test_a_look_up_by_time_reports_damage_before_its_answer(
    path: Path, time_index: bytes, *, read_only: bool
):
    """[DUR-79, TS-2] The second segment's first record was given as the answer."""
    damage(path, 0, time_index)
    with opened(path, read_only=read_only) as log:
        for _ in range(2):  # neither answer is one that the first call has kept
            with pytest.raises(DAMAGE) as refused:
                log.offset_for_timestamp(time_of(WANTED))
            assert refused.value.next_readable_offset == DAMAGED + 1
            with pytest.raises(DAMAGE):
                log.fetch_offset_by_timestamp(time_of(WANTED))
            with pytest.raises(DAMAGE):
                log.fetch_offset_by_timestamp(SpecialTimestamp.MAX)
            with pytest.raises(DAMAGE):
                log.scan(start_timestamp=time_of(WANTED)).tuples()

        assert log.offset_for_timestamp(time_of(DAMAGED - 1)) == DAMAGED - 1
        skipping = log.scan(start_timestamp=time_of(WANTED), on_damage="skip")
        assert [record.offset for record in skipping] == [*range(WANTED, LAST + 1)]


def test_a_whole_time_index_leads_past_damage(path: Path):
    """[DUR-8, DUR-53] Its entries show where later times are."""
    damage(path, 0, (path / f"{0:020d}.timeindex").read_bytes())
    with opened(path, read_only=True) as log:
        assert log.offset_for_timestamp(time_of(WANTED)) == WANTED
        assert not log.segments()[0].max_timestamp().is_partial


def test_a_segment_says_that_damage_may_hide_its_largest_timestamp(path: Path, time_index: bytes):
    """[SEG-3, DUR-79]"""
    damage(path, 0, time_index)
    with opened(path, read_only=True) as log:
        first, second, _ = log.segments()
        for _ in range(2):
            assert first.max_timestamp() == (time_of(DAMAGED - 1), DAMAGED - 1, True)
        assert second.max_timestamp() == (time_of(LAST - 1), LAST - 1, False)


def test_retention_by_time_keeps_a_segment_whose_newest_record_is_hidden(
    path: Path, time_index: bytes
):
    """[RET-7, DUR-79] Records that are young were deleted with what is old before the damage."""
    damage(path, BATCHES, time_index)
    with opened(path, retention_ms=1) as log:
        with pytest.raises(CorruptLogError, match=r"retention\.ms"):
            log.delete_old_segments()

        assert log.log_start_offset == BATCHES  # the first one is whole, and old

        log.delete_records(LAST)
        assert [segment.base_offset for segment in log.segments()] == [LAST]


def test_an_append_behind_damage_hides_no_record_in_front_of_it(tmp_path: Path):
    """[DUR-79, SEG-5.5] A time-index entry says that no record before it has a later time."""
    path = tmp_path / "topic-0"
    with opened(path) as log:
        for offset in range(BATCHES):
            log.append([(time_of(offset), None, bytes(300))])
    damage(path, 0, b"")
    with opened(path) as log:
        for _ in range(4):
            log.append([(time_of(DAMAGED), None, bytes(300))])
        for _ in range(2):
            with pytest.raises(DAMAGE):
                log.offset_for_timestamp(time_of(WANTED))
        log.roll()
    with opened(path, read_only=True) as log, pytest.raises(DAMAGE):
        log.offset_for_timestamp(time_of(WANTED))


# ---- look ups beside a truncation ----------------------------------------------------------------
# A look-up beside a truncation remembers nothing of what was cut [SEG-3, SEG-14, DUR-53].
#
# The largest timestamp of a record that was cut went into the time index and into retention, and
# entries that were cut were taken for damage: the next roll read the whole segment again, under the
# append lock. Looked for besides: each field that a look-up writes, in tests/c/test_segment_cuts.c,
# where hooks make the interleaving; remembered headers (a version of their own); what Python keeps
# of a log (`CommittedEnd`, the bounds of reads), which asks its own counter of cuts.


RECORDS = 400
KEPT = 50
ROUNDS = 12


def test_a_truncation_beside_reads_is_no_damage_of_the_index(tmp_path: Path):
    """[DUR-53] Without the counter of cuts the mark stood after the first round."""
    log = segstore.open(tmp_path / "t-0", durability="none", index_interval_bytes=0)
    has_ended = threading.Event()

    def read() -> None:
        offset = 0
        while not has_ended.is_set():
            offset = (offset + 7919) % RECORDS
            try:
                log.read(offset, 100)
                log.offset_for_timestamp(1000 + offset)
            except segstore.SegstoreError:
                continue  # it was cut

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(ROUNDS):
            for offset in range(log.log_end_offset, RECORDS):
                log.append([(1000 + offset, None, b"x")])
            log.truncate_to(KEPT)
            assert not log.segments()[-1].index_damaged
    finally:
        has_ended.set()
        for reader in readers:
            reader.join()
    log.close()


def test_a_largest_timestamp_that_was_cut_is_not_remembered(tmp_path: Path):
    """[SEG-3] The segment is opened each time, so that nobody has asked for it before."""
    path = tmp_path / "t-0"
    settings = {"durability": "none", "index_interval_bytes": 2**30}
    for delay in range(8):
        with segstore.open(path, **settings) as log:
            for offset in range(log.log_end_offset, RECORDS):
                log.append([(1000 + offset, None, b"x")])
            log.append([(9000, None, b"the latest")])
        with segstore.open(path, **settings) as log:
            reader = threading.Thread(target=log.segments()[-1].max_timestamp)
            reader.start()
            time.sleep(delay * 0.00005)
            log.truncate_to(RECORDS)
            reader.join()

            assert log.segments()[-1].max_timestamp() == (999 + RECORDS, RECORDS - 1, False)


# ---- timestamps in a later segment ---------------------------------------------------------------
# A look-up by timestamp ended in the first segment that may have such a record, and found none.
#
# A broker does so [TS-2], and `fetch_offset_by_timestamp` answers as a broker.


def test_behind_an_empty_segment(new_log):
    """An empty segment counts with the time of its file [SEG-4]."""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 2)
    log.truncate_to(1)
    log.roll()
    log.append([(TIME, b"k", b"w")])

    assert log.offset_for_timestamp(TIME) == 1
    assert log.fetch_offset_by_timestamp(TIME).offset == -1


def test_behind_deleted_records(new_log):
    log = new_log()
    log.append([(TIME + 50, b"k", b"v")])
    log.append([(TIME, b"k", b"v")])
    log.roll()
    log.append([(TIME + 40, b"k", b"w")])
    log.delete_records(1)

    assert log.offset_for_timestamp(TIME + 40) == 2
    assert log.fetch_offset_by_timestamp(TIME + 40).offset == -1


# ---- timestamps of every kind --------------------------------------------------------------------
# Rows of NumPy and pandas as tuples: their integers were refused, their indexes became timestamps.
#
# And True was 1 ms, and a datetime was taken nowhere.


TIME_MS = 1_700_000_000_123
AWARE = dt.datetime.fromtimestamp(TIME_MS // 1000, dt.UTC).replace(microsecond=123_999)
EQUAL_TIMES = [
    TIME_MS,
    np.int64(TIME_MS),
    np.uint64(TIME_MS),
    pd.Series([TIME_MS])[0],
    AWARE,
    AWARE.astimezone(ZoneInfo("Europe/Berlin")),
    AWARE.astimezone(dt.timezone(dt.timedelta(hours=-3))),
    pd.Timestamp(TIME_MS, unit="ms", tz="UTC"),
    pd.Timestamp(TIME_MS * 1_000_000 + 999_999, tz="Asia/Tokyo"),
    np.datetime64(TIME_MS, "ms"),
    np.datetime64(TIME_MS * 1000 + 999, "us"),
    pl.Series([AWARE])[0],
]
NO_TIMES = [
    True,
    np.True_,
    1.5,
    np.float64(TIME_MS),
    "2024-05-01",
    dt.date(2024, 5, 1),
    dt.timedelta(seconds=1),
    np.timedelta64(1, "s"),
    np.array([TIME_MS, TIME_MS]),
    np.array([TIME_MS], "datetime64[ms]"),
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
    assert stamped(time) == TIME_MS


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
    log.append([(time, b"k", b"v")], timestamp=TIME_MS)
    log.append([Record(value=b"v", timestamp=time)], timestamp=TIME_MS)

    assert [record.timestamp for record in log] == [TIME_MS, TIME_MS]
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
    log.append([(TIME_MS + n, None, b"%d" % n) for n in range(3)])
    for moment in EQUAL_TIMES:
        first = 0 if moment == TIME_MS or str(moment).endswith("123000") else None
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
    log.append([(TIME_MS + n, None, b"%d" % n) for n in range(3)])
    between = AWARE.replace(microsecond=124_001)  # behind the second record

    assert log.offset_for_timestamp(between) == 2
    assert log.offset_for_timestamp(np.datetime64(TIME_MS * 1000 + 1001, "us")) == 2
    assert [record.offset for record in log.scan(end_timestamp=between)] == [0, 1]


def test_a_time_before_1970_is_no_special_timestamp(log):
    log.append([(TIME_MS, None, b"v"), (TIME_MS, None, b"w")])
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
    for fine in (np.datetime64(TIME_MS * 10**6 + 7, "ns"), np.datetime64(50, "Y")):
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
        [Event(np.int64(TIME_MS), b"k", b"v")],
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


@pytest.mark.parametrize("row", [Swapped(b"v", b"k"), Last(b"k", b"v", TIME_MS)], ids=repr)
def test_named_fields_in_other_places_are_refused(append, row):
    """Names do not count, so ``value`` became the key without a word."""
    with pytest.raises(RecordTypeError, match="their order counts, not their names"):
        append([(b"k", b"v"), row])


def test_rows_of_a_frame_as_tuples(log):
    """[data/35] Each way that pandas has to give rows."""
    frame = pd.DataFrame(
        {"timestamp": [TIME_MS, TIME_MS + 1], "key": [b"a", b"b"], "value": [b"1", b"2"]}
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

    assert [record.timestamp for record in log] == [TIME_MS, TIME_MS + 1] * 7


# ---- the command line ----------------------------------------------------------------------------


def run(*arguments, data=b""):
    return run_warm(*arguments, stdin=data)


def test_cat_takes_times_with_their_zone(log):
    log.append([(TIME_MS + 1000 * n, None, b"%d" % n) for n in range(3)])
    log.flush()
    at = dt.datetime.fromtimestamp(TIME_MS // 1000 + 1, dt.UTC).isoformat()

    for start in (TIME_MS + 500, at, at.replace("+00:00", "Z")):
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
        lambda part: (TIME_MS, part, b"v"),
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
