"""A segment from Python: appends, reads, recovery, closing under readers, forks [SEG-*]."""

from __future__ import annotations

import time

import pytest

from segstore._core import (
    Barrier,
    OffsetIndex,
    TimeIndex,
    scan_batches,
)
from segstore.errors import (
    AlreadyExistsError,
    ClosedError,
    CorruptRecordError,
    IllegalArgumentError,
    LogNotFoundError,
    LogSegmentOffsetOverflowError,
    SegstoreError,
)
from tests.kits.core_inputs import TIME, encoded, run_of_batches
from tests.kits.segment_inputs import LOG, Segment, append, context_of, offsets


def test_what_is_appended_is_read_by_offset_and_size(segment):
    for start in range(0, 30, 3):
        append(segment, 3, start=start)
    size = segment.size_bytes

    assert offsets(segment.read(0, size, size, True)) == list(range(30))
    fetched = segment.read(7, 1, size, True)
    assert offsets(fetched) == [6, 7, 8]  # whole batches, and at least one
    assert fetched.base_offset == 6
    assert fetched.first_batch_size == fetched.size_bytes == len(memoryview(fetched))
    assert not fetched.first_entry_incomplete
    assert segment.read(7, 1, size, False).first_entry_incomplete
    assert segment.read(30, size, size, True) is None
    assert segment.read(7, size, -1, True).size_bytes == 0
    where = segment.translate_offset(7)
    assert (where.position, where.size_bytes) == (fetched.position, 0)
    assert segment.read_next_offset() == (30, True)
    assert segment.unflushed_records == 30
    segment.flush(Barrier.APPENDED_RECORDS, indexes=True)
    assert segment.unflushed_records == 0


def test_fetched_bytes_are_read_only_and_outlive_segment_and_directory(directory):
    segment = Segment(context_of(directory), 0, create=True)
    append(segment, 3)
    view = memoryview(segment.read(0, 1000, segment.size_bytes, True))
    segment.close()
    directory.close()
    del segment

    assert view.readonly
    assert (view.format, view.ndim, view.shape) == ("B", 1, (len(view),))
    assert offsets(view) == [0, 1, 2]


def test_look_ups_by_time(segment):
    for start in range(0, 30, 3):
        append(segment, 3, start=start, timestamp=TIME + 10 * start)

    assert segment.find_offset_by_timestamp(TIME + 61, 0) == (TIME + 61, 7, 0)
    assert segment.find_offset_by_timestamp(TIME + 61, 8) == (TIME + 62, 8, 0)
    assert segment.find_offset_by_timestamp(TIME + 10**6, 0) is None
    assert segment.find_max_timestamp() == (TIME + 272, 29, 0)
    assert segment.max_timestamp() == (TIME + 272, 29, False)
    assert segment.first_batch_timestamp() == TIME + 2
    assert segment.time_index_entries() == sorted(segment.time_index_entries())
    for entry in segment.offset_index_entries():
        assert segment.offset_index_lookup(entry.offset) == entry
    for entry in segment.time_index_entries():
        assert segment.time_index_lookup(entry.timestamp) == entry
    assert not segment.indexes_full()
    assert abs(segment.created_ms - time.time() * 1000) < 60_000
    assert abs(segment.modified_ms() - time.time() * 1000) < 60_000


def test_scan_and_recovery_give_the_table_of_batches(segment, tmp_path):
    for start in range(0, 30, 3):
        append(segment, 3, start=start)
    before = segment.offset_index_entries()

    headers, result = segment.scan(check_order=True, contiguous=True)
    assert (result.stop, result.next_offset, len(headers)) == ("complete", 30, 10)
    assert segment.scan_result() == segment.scan()[1]
    recovered, recovery = segment.recover()
    assert recovered.tobytes() == headers.tobytes()
    assert recovery.truncated_bytes == 0
    assert segment.offset_index_entries() == before
    assert headers.tobytes() == scan_batches((tmp_path / LOG).read_bytes())[0].tobytes()


def test_recovery_cuts_what_is_no_batch_and_says_why(segment, directory, tmp_path):
    append(segment, 3)
    size = segment.size_bytes
    segment.close()
    with (tmp_path / LOG).open("ab") as file:
        file.write(b"\xff" * 100)
    again = Segment(context_of(directory), 0)

    _, result = again.scan()
    assert (result.stop, result.valid_bytes) == ("corrupt", size)
    assert isinstance(result.why, CorruptRecordError)
    assert result.why.file == str(tmp_path / LOG)
    assert result.why.position == size
    _, recovery = again.recover(cut_at=-1)
    assert recovery.scan.stop == "corrupt"
    assert (tmp_path / LOG).stat().st_size == size + 100
    _, recovery = again.recover()
    assert recovery.truncated_bytes == 100
    assert (tmp_path / LOG).stat().st_size == size
    again.close()


def test_truncation_drops_the_batch_with_the_offset_and_all_behind(segment):
    for start in range(0, 30, 3):
        append(segment, 3, start=start)
    size = segment.size_bytes

    cut = segment.truncate_to(16)

    assert segment.read_next_offset() == (15, True)
    assert segment.size_bytes == size - cut
    assert all(entry.offset < 15 for entry in segment.offset_index_entries())
    append(segment, 1, start=15)
    assert segment.read_next_offset() == (16, True)


def test_sealing_and_names(segment, directory, tmp_path):
    append(segment, 3)
    segment.on_become_inactive()
    assert directory.info("00000000000000000000.timeindex").size == 12
    segment.prepare_for_appends()
    append(segment, 3, start=3)
    segment.rewrite(0)
    segment.change_suffix(".deleted")
    assert (tmp_path / (LOG + ".deleted")).exists()
    for wrong in (".swop", "deleted"):
        with pytest.raises(IllegalArgumentError):
            segment.change_suffix(wrong)
    segment.delete_files()
    assert directory.names() == []
    segment.close()


def test_opening_what_is_not_there_and_making_what_is(directory, tmp_path):
    (tmp_path / LOG).touch()
    with pytest.raises(LogNotFoundError) as caught:
        Segment(context_of(directory), 5)
    assert caught.value.file == str(tmp_path / "00000000000000000005.log")
    with pytest.raises(AlreadyExistsError):
        Segment(context_of(directory), 0, create=True)


def test_offsets_that_do_not_fit_a_segment_write_nothing(segment):
    append(segment, 1)
    size = segment.size_bytes
    with pytest.raises(LogSegmentOffsetOverflowError):
        append(segment, 1, start=2**31)
    assert segment.size_bytes == size
    assert not segment.poisoned


def test_bytes_and_table_of_an_append_must_agree(segment):
    batches = encoded([(b"k", b"v")])
    with pytest.raises(IllegalArgumentError):
        segment.append(bytes(batches) + b"x", batches.headers)
    with pytest.raises(IllegalArgumentError):
        segment.append(batches, [1])
    assert segment.size_bytes == 0


def test_damage_in_the_middle_is_an_error_of_the_reader_with_file_and_position(directory, tmp_path):
    (tmp_path / LOG).write_bytes(run_of_batches(3))
    data = bytearray((tmp_path / LOG).read_bytes())
    second = int(scan_batches(data)[0]["position"][1])
    data[second + 8 : second + 12] = bytes(4)  # a length of 0
    (tmp_path / LOG).write_bytes(data)
    segment = Segment(context_of(directory), 0)

    with pytest.raises(SegstoreError) as caught:
        segment.read(8, 10**6, segment.size_bytes, True)
    assert caught.value.file == str(tmp_path / LOG)
    assert caught.value.position == second
    segment.close_quietly()


def test_index_files_by_themselves(segment, directory):
    for start in range(0, 30, 3):
        append(segment, 3, start=start)
    offset_entries, time_entries = segment.offset_index_entries(), segment.time_index_entries()
    segment.close()

    index = OffsetIndex(directory, "00000000000000000000.index", 0)
    times = TimeIndex(directory, "00000000000000000000.timeindex", 0)

    assert index.entries() == offset_entries
    assert times.entries()[: len(time_entries)] == time_entries
    assert len(index) == len(offset_entries)
    assert index.entry(0) == offset_entries[0]
    assert index.lookup(offset_entries[1].offset) == offset_entries[1]
    assert times.lookup(TIME + 10**6) == times.entries()[-1]
    index.sanity_check()
    times.sanity_check()
    with pytest.raises(IllegalArgumentError):
        index.entry(len(index))
    index.close()
    index.close()
    times.close()
    for call in (index.entries, times.entries, lambda: len(index), lambda: times.lookup(0)):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(LogNotFoundError):
        OffsetIndex(directory, "absent.index", 0)
