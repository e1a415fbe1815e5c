"""When a segment loads, writes and trims its indexes: Kafka's LazyIndex and LogSegment."""

from __future__ import annotations

import pytest

from segstore._core import Barrier, scan_batches
from segstore.errors import (
    ClosedError,
    IllegalArgumentError,
    InvalidOffsetError,
    LogNotFoundError,
)
from tests.kits.core_inputs import TIME
from tests.kits.segment_inputs import LOG, Segment, append, context_of

INDEX = "00000000000000000000.index"
TIME_INDEX = "00000000000000000000.timeindex"
BOTH = pytest.mark.parametrize("kafka_profile", [True, False])


def names(tmp_path) -> set[str]:
    return {path.name for path in tmp_path.iterdir()}


def batch_bytes(directory, tmp_path, starts) -> bytes:
    """Batches of three records, as another segment wrote them."""
    other = Segment(context_of(directory), 10**6, create=True)
    for start in starts:
        append(other, 3, start=10**6 + start)
    path = tmp_path / f"{10**6:020}.log"
    data = bytearray(path.read_bytes())
    other.delete_files()
    other.close_quietly()
    headers, _ = scan_batches(data)
    for header, start in zip(headers, starts, strict=True):
        at = int(header["position"])
        data[at : at + 8] = start.to_bytes(8)
    return bytes(data)


@BOTH
def test_what_needs_no_index_makes_no_index(directory, tmp_path, kafka_profile):
    """[LZY-1, LZY-2, SEG-51] A segment that was opened, asked, renamed and closed."""
    Segment(context_of(directory), 0, create=True).close_quietly()
    segment = Segment(context_of(directory, kafka_profile=kafka_profile), 0)
    assert segment.size_bytes == 0
    segment.change_suffix(".deleted")  # [LZY-3]
    segment.flush(Barrier.APPENDED_RECORDS)
    segment.close()

    assert names(tmp_path) == {f"{LOG}.deleted"}


@BOTH
def test_the_first_look_up_makes_them_and_the_second_finds_them(directory, tmp_path, kafka_profile):
    """[LZY-1, IDX-1] At full size at once in Kafka, and always to be written to."""
    segment = Segment(context_of(directory, kafka_profile=kafka_profile), 0, create=True)
    assert names(tmp_path) == {LOG}
    assert segment.offset_index_lookup(5) == (0, 0)
    assert names(tmp_path) == {LOG, INDEX}
    assert segment.time_index_lookup(5) == (-1, 0)

    assert names(tmp_path) == {LOG, INDEX, TIME_INDEX}
    sizes = [(tmp_path / name).stat().st_size for name in (INDEX, TIME_INDEX)]
    assert sizes == ([1000, 996] if kafka_profile else [0, 0])
    append(segment, 3)
    append(segment, 3, start=3)
    assert segment.offset_index_entries() == [(5, segment.size_bytes // 2)]
    segment.close()


@BOTH
def test_a_closed_index_is_not_loaded_again(directory, kafka_profile):
    """[LZY-4]"""
    segment = Segment(context_of(directory, kafka_profile=kafka_profile), 0, create=True)
    append(segment, 3)
    segment.close()
    with pytest.raises(ClosedError):
        segment.offset_index_lookup(0)
    with pytest.raises(ClosedError):
        segment.time_index_lookup(0)


@pytest.mark.parametrize("gone", [INDEX, TIME_INDEX])
@BOTH
def test_renaming_wants_the_file_of_a_loaded_index(directory, tmp_path, kafka_profile, gone):
    """[LZY-3, SEG-54] As Kafka does; to us an index can be made anew."""
    segment = Segment(context_of(directory, kafka_profile=kafka_profile), 0, create=True)
    segment.indexes_full()  # loads them
    (tmp_path / gone).unlink()
    if kafka_profile:
        with pytest.raises(LogNotFoundError):
            segment.change_suffix(".deleted")
    else:
        segment.change_suffix(".deleted")
        assert f"{LOG}.deleted" in names(tmp_path)
    segment.close_quietly()


@BOTH
def test_renaming_takes_all_files_along(directory, tmp_path, kafka_profile):
    """[SEG-54, SEG-55] And looking up goes on."""
    segment = Segment(context_of(directory, kafka_profile=kafka_profile), 0, create=True)
    for start in range(0, 9, 3):
        append(segment, 3, start=start)
    entries = segment.offset_index_entries()
    (tmp_path / "00000000000000000000.txnindex").touch()
    segment.change_suffix(".deleted")

    assert all(name.endswith(".deleted") for name in names(tmp_path))
    assert len(names(tmp_path)) == 4
    assert segment.offset_index_entries() == entries
    segment.close()


@BOTH
def test_the_distance_to_the_last_entry_is_not_kept_on_disk(directory, kafka_profile):
    """[SEG-1, SEG-8, T-2] So the first batch after an open gets no entry."""
    segment = Segment(context_of(directory, kafka_profile=kafka_profile), 0, create=True)
    append(segment, 3)
    append(segment, 3, start=3)
    assert [entry.offset for entry in segment.offset_index_entries()] == [5]
    segment.close()

    segment = Segment(context_of(directory, kafka_profile=kafka_profile), 0)
    segment.prepare_for_appends()
    append(segment, 3, start=6)
    assert [entry.offset for entry in segment.offset_index_entries()] == [5]
    append(segment, 3, start=9)
    assert [entry.offset for entry in segment.offset_index_entries()] == [5, 11]
    segment.close()


@BOTH
def test_batches_appended_together_are_indexed_one_by_one(directory, tmp_path, kafka_profile):
    """[SEG-5, SEG-6, SEG-7, SEG-9] As if each had come alone: last offset to first byte.

    Kafka 4.0 made one entry for all of them.
    """
    starts = range(0, 18, 3)
    data = batch_bytes(directory, tmp_path, starts)
    headers, _ = scan_batches(data)
    together = Segment(context_of(directory, kafka_profile=kafka_profile), 0, create=True)
    together.append(data, headers)
    entries, times = together.offset_index_entries(), together.time_index_entries()
    together.delete_files()
    together.close_quietly()
    alone = Segment(context_of(directory, kafka_profile=kafka_profile), 0, create=True)
    for header in headers:
        start, size = int(header["position"]), int(header["size_bytes"])
        part = data[start : start + size]
        alone.append(part, scan_batches(part)[0])

    expected = [(int(row["last_offset"]), int(row["position"])) for row in headers[1:]]
    assert entries == alone.offset_index_entries() == expected
    assert times == alone.time_index_entries()
    alone.close()


def test_a_full_index_stops_and_the_appends_go_on(directory):
    """[SEG-10, SEG-27 port] No batch lies in the file that nobody was told of."""
    segment = Segment(context_of(directory, max_index_bytes=36), 0, create=True)
    for start in range(0, 30, 3):
        append(segment, 3, start=start, timestamp=TIME + start)

    assert segment.indexes_full()
    assert len(segment.offset_index_entries()) == len(segment.time_index_entries()) == 2
    assert segment.read_next_offset() == (30, True)
    segment.close()


def test_a_full_index_fails_kafkas_append_with_the_bytes_in_the_file(directory):
    """[SEG-10, SEG-27] A roll comes first, unless one append fills the index."""
    segment = Segment(context_of(directory, kafka_profile=True, max_index_bytes=36), 0, create=True)
    for start in range(0, 9, 3):
        append(segment, 3, start=start, timestamp=TIME + start)
    size = segment.size_bytes

    with pytest.raises(IllegalArgumentError, match="full"):
        append(segment, 3, start=9, timestamp=TIME + 9)

    assert segment.size_bytes > size
    segment.close_quietly()


def test_kafka_appends_offsets_that_go_back_until_an_index_notices(directory):
    """[SEG-5, SEG-10] The order is looked at by who calls."""
    segment = Segment(context_of(directory, kafka_profile=True), 0, create=True)
    append(segment, 3, start=10)
    append(segment, 3, start=5)

    with pytest.raises(InvalidOffsetError):
        append(segment, 3, start=4)

    assert [int(base) for base in segment.scan()[0]["base_offset"]] == [10, 5, 4]
    segment.close_quietly()


@pytest.mark.parametrize("prepared", [True, False])
@BOTH
def test_a_close_leaves_the_same_files_prepared_or_not(
    directory, tmp_path, prepared, kafka_profile
):
    """[SEG-59, SEG-50, SEG-51] Kafka 4.4 seals before flush and close; our close seals itself."""
    segment = Segment(context_of(directory, kafka_profile=kafka_profile), 0, create=True)
    for start in range(0, 12, 3):
        append(segment, 3, start=start, timestamp=TIME + start)
    if prepared:
        segment.on_become_inactive()
        segment.flush(Barrier.APPENDED_RECORDS, indexes=True)
    segment.close()

    assert (tmp_path / INDEX).stat().st_size == 3 * 8
    assert (tmp_path / TIME_INDEX).stat().st_size == 3 * 12
    last = (tmp_path / TIME_INDEX).read_bytes()[-12:]
    assert last == (TIME + 11).to_bytes(8) + (11).to_bytes(4)
