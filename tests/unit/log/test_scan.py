"""Scans, and what they say about damage: file, position, found, expected [DUR-7, DUR-79]."""

from __future__ import annotations

from pathlib import Path

import pytest

from segstore import _core
from segstore.errors import (
    CodecError,
    CorruptLogError,
    CorruptRecordError,
    IllegalArgumentError,
    InvalidRecordError,
    LimitExceededError,
    SegstoreError,
)
from segstore.number_limits import MAX_LONG
from segstore.types import Codec
from tests.kits.log_kit import TIME, at, batch, offsets, values
from tests.kits.records_kit import build

pa = pytest.importorskip("pyarrow")

FIRST = f"{0:020d}.log"
CRC_AT, CRC_FROM, COUNT_AT, LENGTH_AT, RECORDS_AT = 17, 21, 57, 8, 61
BATCHES = 12
"""Of two records; six a segment."""


@pytest.fixture
def path(new_log, tmp_path) -> Path:
    log = new_log(internal_segment_bytes=6 * 110, index_interval_bytes=150)
    for number in range(BATCHES):
        first = 2 * number
        log.append([(TIME + n, b"k%02d" % n, b"value %02d" % n) for n in (first, first + 1)])
    assert [segment.base_offset for segment in log.segments()] == [0, 12]
    log.close()
    return tmp_path / "topic-0"


def size_of_a_batch(path: Path) -> int:
    return (path / FIRST).stat().st_size // 6


def damage(path: Path, number: int, at_byte: int, new: bytes, *, crc: bool = False) -> int:
    """Overwrite bytes of the n-th batch of the first segment; returns its position."""
    file = path / FIRST
    size = size_of_a_batch(path)
    content = bytearray(file.read_bytes())
    begin = number * size
    content[begin + at_byte : begin + at_byte + len(new)] = new
    if crc:
        right = _core.crc32c(bytes(content[begin + CRC_FROM : begin + size]))
        content[begin + CRC_AT : begin + CRC_FROM] = right.to_bytes(4)
    file.write_bytes(content)
    return begin


WAYS = {
    "records": lambda log, start=0: [record.offset for record in log.scan(start)],
    "tuples": lambda log, start=0: log.scan(start).tuples(),
    "arrow": lambda log, start=0: log.scan(start).to_arrow(),
    "arrow batches": lambda log, start=0: list(log.scan(start).arrow_batches(rows=1)),
    "reversed columns": lambda log, start=0: log.scan(start, columns=["offset"]).to_arrow(),
    "from a time on": lambda log, start=0: list(log.scan(start, start_timestamp=TIME)),
}


@pytest.fixture(params=WAYS)
def read(request):
    """Each way to the records."""
    return WAYS[request.param]


# ---- beside a compaction -------------------------------------------------------------------------


@pytest.mark.parametrize("is_read_only", [False, True])
@pytest.mark.parametrize("count", [1, 20, 60])
def test_a_scan_ends_where_it_did_after_the_end_was_compacted_away(new_log, is_read_only, count):
    """[CLN-84, DUR-79] A segment that the cleaner made has batches beyond the end: no damage."""
    log = new_log(cleanup_policy="compact", internal_segment_bytes=1500)
    for number in range(60):
        log.append([(b"k%d" % (number % 5), b"value %d" % number)])
    of_scan = new_log(log.path, read_only=True) if is_read_only else log
    scan = of_scan.scan()
    for number in range(count):
        log.append([(b"k%d" % (number % 5), b"value %d" % number)])
    log.roll()
    log.compact()

    left = [record.offset for record in log.scan() if record.offset < 60]
    found = offsets(scan)  # a reader has the old files open
    assert set(left) <= set(found) <= set(range(60))
    assert set(left) <= set(scan.to_arrow()["offset"].to_pylist()) <= set(found)
    assert len(left) <= scan.count(by_headers=True) <= len(found)


# ---- what is good --------------------------------------------------------------------------------


def test_every_way_gives_the_same(new_log, path):
    log = new_log(path, read_only=True)
    everything = list(range(24))
    assert offsets(log.scan()) == everything
    assert [row[0] for row in log.scan().tuples()] == everything
    assert log.scan().to_arrow()["offset"].to_pylist() == everything
    assert log.select("offset").to_arrow()["offset"].to_pylist() == everything
    assert [offset for b in log.scan().batches() for offset in offsets(b)] == everything
    assert log.scan().count() == 24


@pytest.mark.parametrize(("start", "end"), [(0, 24), (3, 4), (11, 13), (5, 5), (7, 20), (23, 99)])
def test_ranges_of_offsets(new_log, path, start, end):
    log = new_log(path, read_only=True)
    scan = log.scan(start, end)
    expected = list(range(start, min(end, 24)))
    assert offsets(scan) == [row[0] for row in scan.tuples()] == expected
    assert scan.to_arrow()["offset"].to_pylist() == expected
    assert scan.count() == len(expected)


@pytest.mark.parametrize(("start", "end"), [(0, 5), (3, 4), (13, 99), (24, 30), (5, 5), (None, 3)])
def test_ranges_of_time(new_log, path, start, end):
    log = new_log(path, read_only=True)
    first = None if start is None else TIME + start
    scan = log.scan(start_timestamp=first, end_timestamp=TIME + end)
    expected = list(range(start or 0, max(min(end, 24), start or 0)))
    assert offsets(scan) == [row[0] for row in scan.tuples()] == expected
    assert scan.to_arrow()["offset"].to_pylist() == expected
    assert scan.count() == len(expected)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, None, [0, 1]), (MAX_LONG, None, [1]), (None, MAX_LONG, [0, 1]), (0, MAX_LONG - 1, [0])],
)
def test_the_largest_time_is_within_a_range_without_an_end(new_log, start, end, expected):
    log = new_log()
    log.append_as_follower(
        build([(0, TIME, None, b"a"), (1, MAX_LONG, None, b"b")], partition_leader_epoch=0), 0
    )
    scan = log.scan(start_timestamp=start, end_timestamp=end)
    assert offsets(scan) == [row[0] for row in scan.tuples()] == expected
    assert scan.to_arrow()["offset"].to_pylist() == expected
    assert scan.count() == len(scan) == len(expected)


def test_timestamps_in_microseconds_as_spark_has_them(new_log, path):
    log = new_log(path)
    (batch_of_all,) = log.scan(columns=["timestamp"]).arrow_batches(timestamp_unit="us")
    column = pa.record_batch(batch_of_all).column("timestamp")

    assert column.type == pa.timestamp("us", "UTC")
    assert column.cast(pa.int64()).to_pylist() == [(TIME + n) * 1000 for n in range(2 * BATCHES)]
    with pytest.raises(IllegalArgumentError, match="'ns', expected ms or us"):
        log.scan().arrow_batches(timestamp_unit="ns")


def test_a_timestamp_that_microseconds_have_no_room_for(new_log):
    log = new_log(message_timestamp_after_max_ms=2**63 - 1)
    log.append([(2**60, None, b"far")])

    assert log.scan().to_arrow().num_rows == 1
    with pytest.raises(InvalidRecordError, match=FIRST):
        list(log.scan().arrow_batches(timestamp_unit="us"))


def test_positions_of_batches_are_those_of_the_file(new_log):
    """Also behind the first read of a megabyte."""
    log = new_log()
    for _ in range(5):
        log.append([(None, b"x" * 700_000)])
    size = log.segments()[0].size_bytes // 5
    assert [b.position for b in log.scan().batches()] == [n * size for n in range(5)]
    assert {len(b.data) for b in log.scan().batches()} == {size}


def test_a_scan_of_a_closed_log(new_log, path):
    """A closed handle: the scan that was made before says so."""
    log = new_log(path, read_only=True)
    scan = log.scan()
    log.close()
    with pytest.raises(SegstoreError, match="closed"):
        offsets(scan)


# ---- what is not ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 3, 5])
def test_a_wrong_checksum(new_log, path, read, number):
    """[DUR-7, DUR-79]"""
    position = damage(path, number, RECORDS_AT + 12, b"\xee")
    log = new_log(path, read_only=True)
    with pytest.raises(CorruptRecordError, match=f"offset {2 * number}: its CRC") as caught:
        read(log)
    assert (caught.value.file, caught.value.position) == (str(path / FIRST), position)
    assert len(read(log, 2 * number + 2)) > 0  # what follows can be read


def test_records_before_the_damage_are_given(new_log, path):
    """An error comes after the good records, not in their place."""
    damage(path, 3, RECORDS_AT + 12, b"\xee")
    log = new_log(path, read_only=True)
    found = []

    def read_on() -> None:
        for record in log:
            found.append(record.offset)  # noqa: PERF401 - what was found stays found

    with pytest.raises(CorruptRecordError):
        read_on()
    assert found == list(range(6))


def test_checksums_may_be_left_out_but_not_order(new_log, path):
    """[DUR-79]"""
    damage(path, 1, CRC_AT, b"\0\0\0\0")
    log = new_log(path, read_only=True)
    assert offsets(log.scan(check_crcs=False)) == list(range(24))
    position = damage(path, 3, 0, (2).to_bytes(8))
    with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
        list(new_log(path, read_only=True).scan(check_crcs=False))
    assert caught.value.file == str(path / FIRST)
    assert 0 <= caught.value.position <= position


def test_a_structure_that_cannot_be(new_log, path, read):
    """[DUR-87] a batch with a right checksum and a wrong count."""
    position = damage(path, 2, COUNT_AT, (9).to_bytes(4), crc=True)
    log = new_log(path, read_only=True)
    with pytest.raises((InvalidRecordError, CorruptRecordError)) as caught:
        read(log)
    assert (caught.value.file, caught.value.position) == (str(path / FIRST), position)


@pytest.mark.parametrize("length", [2**31 - 1, 10**6, 600])
@pytest.mark.parametrize("number", [0, 1, 3, 5])
def test_a_sealed_segment_that_ends_early(new_log, path, read, number, length):
    """[DUR-79] a length beyond the end looks like a torn tail: here it is damage, not the end.

    Also where the index knows batches behind it, and where the read begins in that batch.
    """
    position = damage(path, number, LENGTH_AT, length.to_bytes(4))
    log = new_log(path, read_only=True)
    for start in (0, 2 * number, 2 * number + 1):
        with pytest.raises(CorruptLogError, match="no batch") as caught:
            read(log, start)
        assert (caught.value.file, caught.value.position) == (str(path / FIRST), position)
        assert caught.value.found
        assert caught.value.expected == "a batch"
    assert len(read(log, 12)) > 0


@pytest.mark.parametrize("start", [6, 7])
def test_a_fetch_from_a_batch_that_is_none(new_log, path, start):
    """[DUR-79] never a silent step to the next segment."""
    position = damage(path, 3, LENGTH_AT, (2**30).to_bytes(4))
    log = new_log(path, read_only=True)
    with pytest.raises(CorruptLogError) as caught:
        log.read(start, 1000)
    assert (caught.value.file, caught.value.position) == (str(path / FIRST), position)
    assert offsets(log.read(0, 10**6)) == [0, 1, 2, 3, 4, 5]
    assert offsets(log.read(12, 1)) == [12, 13]


def test_a_look_up_by_timestamp_that_meets_damage(new_log, path):
    """[DUR-7, DUR-79] "no such record" would be a wrong answer."""
    position = damage(path, 4, LENGTH_AT, (2**30).to_bytes(4))
    log = new_log(path, read_only=True)
    assert log.offset_for_timestamp(TIME + 3) == 3
    for wanted in (8, 9, 20):  # a damaged batch may have any time
        with pytest.raises(CorruptLogError) as caught:
            log.offset_for_timestamp(TIME + wanted)
        assert (caught.value.file, caught.value.position) == (str(path / FIRST), position)


@pytest.mark.parametrize("garbage", [b"\0", b"\0" * 40, b"\xff" * 40, b"\x11" * 500])
def test_bytes_behind_the_last_batch_of_a_sealed_segment(new_log, path, read, garbage):
    """[DUR-79]"""
    end = (path / FIRST).stat().st_size
    with (path / FIRST).open("ab") as file:
        file.write(garbage)
    log = new_log(path, read_only=True)
    with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
        read(log)
    assert (caught.value.file, caught.value.position) == (str(path / FIRST), end)


def test_the_active_segment_below_the_log_end(new_log):
    """[DUR-79] damage below the published end is damage, whoever writes there."""
    log = new_log()
    for number in range(10):
        log.append([(None, b"%d" % number)])
    file = Path(log.segments()[0].path)
    size = file.stat().st_size // 10
    with file.open("r+b") as damaged:
        damaged.seek(5 * size + LENGTH_AT)
        damaged.write((10**6).to_bytes(4))
    for start in (0, 5):
        with pytest.raises(CorruptLogError) as caught:
            values(log.scan(start))
        assert caught.value.position == 5 * size
    with pytest.raises(CorruptLogError):
        log.read(5, 100)


def test_a_file_that_became_shorter_under_the_reader(new_log, path, read):
    """[DUR-33, DUR-79] a truncated file while reading."""
    log = new_log(path, read_only=True)
    size = size_of_a_batch(path)
    with (path / FIRST).open("r+b") as file:
        file.truncate(2 * size + 30)
    with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
        read(log)
    assert caught.value.file == str(path / FIRST)
    assert 2 * size <= caught.value.position <= 2 * size + 30
    assert offsets(log.read(12, 10**6)) == list(range(12, 24))


def test_a_file_that_is_gone_under_the_reader(new_log, path, read):
    """[DUR-78] a file that nobody deleted through the log."""
    log = new_log(path, read_only=True)
    (path / FIRST).unlink()
    with pytest.raises(SegstoreError) as caught:
        read(log)
    assert caught.value.file == str(path / FIRST)
    assert isinstance(caught.value, FileNotFoundError)


def test_compressed_data_that_cannot_be_decoded(new_log, read):
    """[DUR-92..DUR-94] with a right checksum."""
    log = new_log()
    for codec in (1, 2, 3, 4):
        made = bytearray(batch([(None, b"x" * 500)] * 2, codec=codec, base_offset=0))
        made[RECORDS_AT + 2 : RECORDS_AT + 12] = bytes(10)
        made[CRC_AT:CRC_FROM] = _core.crc32c(bytes(made[CRC_FROM:])).to_bytes(4)
        made[0:8] = log.log_end_offset.to_bytes(8)
        made[12:16] = (0).to_bytes(4)
        start = log.log_end_offset
        position = log.segments()[0].size_bytes
        log.append_as_follower(made, 0)
        with pytest.raises((CodecError, InvalidRecordError)) as caught:
            read(log, start)
        assert (caught.value.file, caught.value.position) == (log.segments()[0].path, position)


def test_a_batch_that_grows_beyond_the_limit(new_log, read):
    """[DUR-92] the next one can be read."""
    log = new_log()
    log.append_as_follower(batch([(None, bytes(10**6))], codec=1, epoch=0), 0)
    log.append_as_follower(at(1), 0)
    log.close()
    small = new_log(read_only=True, max_decompressed_batch_bytes=10**5)
    with pytest.raises(LimitExceededError) as caught:
        read(small)
    assert (caught.value.file, caught.value.position) == (small.segments()[0].path, 0)
    assert len(read(small, 1)) == 1


def test_an_error_crosses_arrow_as_itself(new_log, path):
    """Arrow's own error is an OSError with a text; the log's error comes instead."""
    damage(path, 0, RECORDS_AT + 12, b"\xee")
    log = new_log(path, read_only=True)
    with pytest.raises(CorruptRecordError) as caught:
        log.to_arrow()
    assert caught.value.position == 0
    with pytest.raises((pa.ArrowException, OSError), match=FIRST):
        pa.RecordBatchReader.from_stream(log.scan()).read_all()


# ---- messages of magic 0 and 1 -------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("on_damage", ["raise", "skip"])
def test_a_range_that_ends_within_old_compressed_messages(
    new_log, tmp_path, magic, codec, on_damage
):
    """[format.md 7] The header of a compressed message has the offset of its last one.

    A range that ended before that lost those of its records that lie in the message.
    """
    directory = tmp_path / "topic-0"
    directory.mkdir()
    parts = [
        build([(n, TIME + n, b"k", b"v%d" % n) for n in range(first, first + 4)], magic, codec)
        for first in (0, 4, 8)
    ]
    (directory / FIRST).write_bytes(b"".join(parts))
    log = new_log(directory, read_only=True)
    for start in range(13):
        for end in range(start, 14):
            scan = log.scan(start, end, on_damage=on_damage)
            expected = list(range(start, min(end, 12)))
            assert offsets(scan) == [row[0] for row in scan.tuples()] == expected
            assert scan.to_arrow()["offset"].to_pylist() == expected
            assert scan.count() == scan.count(by_headers=True) == len(expected)
            of_batches = [offset for b in scan.batches() for offset in offsets(b)]
            assert [offset for offset in of_batches if start <= offset < end] == expected


# ---- records that are missing at the end of a range ----------------------------------------------


@pytest.mark.parametrize("chunk_bytes", [1, 200, 1024 * 1024])
def test_a_range_that_ends_where_records_are_missing(new_log, tmp_path, monkeypatch, chunk_bytes):
    """[DUR-50, DUR-79] 12 and 13 were written. A range that ended there said nothing of it."""
    monkeypatch.setattr("segstore.log.chunk_reader.CHUNK_BYTES", chunk_bytes)
    log = new_log(durability="sync")
    for first in range(0, 24, 2):
        log.append([(TIME, None, b"%02d" % n) for n in (first, first + 1)])
    log.close()
    file = tmp_path / "topic-0" / FIRST
    size = file.stat().st_size // 12
    content = file.read_bytes()
    file.write_bytes(content[: 6 * size] + content[7 * size :])
    log = new_log(tmp_path / "topic-0", read_only=True)
    for start in range(24):
        for end in range(start, 25):
            for way in (offsets, lambda scan: scan.count(by_headers=True)):
                if start < 14 and end > max(start, 12):
                    with pytest.raises(CorruptLogError, match="records before it are missing"):
                        way(log.scan(start, end))
                else:
                    way(log.scan(start, end))
