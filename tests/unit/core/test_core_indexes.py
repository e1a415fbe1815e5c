"""Index files by themselves: written, cut, renamed and deleted as Kafka's classes do."""

from __future__ import annotations

import contextlib
import struct
import threading

import pytest

from segstore._core import Directory, OffsetIndex, TimeIndex
from segstore.errors import (
    ClosedError,
    CorruptIndexError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidOffsetError,
    LogNotFoundError,
    SegstoreError,
)

NAME = "00000000000000000045.index"
TIME_NAME = "00000000000000000045.timeindex"
BASE = 45
BOTH = pytest.mark.parametrize("kafka_profile", [True, False])


@pytest.fixture
def offset_index(directory):
    return OffsetIndex(directory, NAME, BASE, max_size_bytes=240, kafka_profile=True)


@pytest.fixture
def time_index(directory):
    return TimeIndex(directory, TIME_NAME, BASE, max_size_bytes=360, kafka_profile=True)


def fill(index, count):
    for number in range(1, count + 1):
        if isinstance(index, OffsetIndex):
            index.append(BASE + number, number * 100)
        else:
            index.maybe_append(number * 10, BASE + number)


@BOTH
def test_an_offset_index_is_full_at_its_last_slot(directory, kafka_profile):
    """[IDX-4]"""
    index = OffsetIndex(directory, NAME, BASE, max_size_bytes=240, kafka_profile=kafka_profile)
    fill(index, 29)
    assert not index.is_full
    index.append(BASE + 30, 0)

    assert index.is_full
    assert (len(index), index.max_entries, index.size_in_bytes) == (30, 30, 240)
    with pytest.raises(IllegalArgumentError):
        index.append(BASE + 31, 0)
    index.close()


@BOTH
def test_a_time_index_keeps_its_last_slot(directory, kafka_profile):
    """[TMX-4, TMX-5]"""
    index = TimeIndex(directory, TIME_NAME, BASE, max_size_bytes=36, kafka_profile=kafka_profile)
    fill(index, 2)

    assert index.is_full
    with pytest.raises(IllegalArgumentError):
        index.maybe_append(30, BASE + 3)
    index.maybe_append(30, BASE + 3, skip_full_check=True)
    assert index.last_entry == (30, BASE + 3)
    with pytest.raises(InvalidOffsetError):
        index.maybe_append(40, BASE, skip_full_check=True)
    with pytest.raises(IllegalStateError):
        index.maybe_append(20, BASE + 4, skip_full_check=True)
    index.close()


@pytest.mark.parametrize("entries", [1, 1024, 1025, 1026, 2000])
@BOTH
def test_every_look_up_is_right_below_and_above_the_warm_section(directory, entries, kafka_profile):
    """[IDX-6, T-3] The last 8192 bytes are searched first; each slot and each gap is found."""
    index = OffsetIndex(directory, NAME, 0, max_size_bytes=16000, kafka_profile=kafka_profile)
    for number in range(entries):
        index.append(2 * number + 1, number)

    for number in range(entries):
        assert index.lookup(2 * number + 1) == (2 * number + 1, number)
        assert index.lookup(2 * number + 2) == (2 * number + 1, number)
    assert index.lookup(0) == (0, 0)
    index.close()


def test_the_last_offset_follows_appends_and_truncations(offset_index):
    """[OFX-2, OFX-5] And a resize leaves it."""
    assert offset_index.last_offset == BASE
    fill(offset_index, 5)
    assert offset_index.last_offset == BASE + 5
    offset_index.truncate_to(BASE + 4)
    assert (offset_index.last_offset, len(offset_index)) == (BASE + 3, 3)
    offset_index.resize(40)
    assert offset_index.last_offset == BASE + 3
    offset_index.truncate()
    assert offset_index.last_offset == BASE
    offset_index.close()


def test_trimming_cuts_the_file_to_its_entries(offset_index, directory, tmp_path):
    """[IDX-10] And makes the index full."""
    fill(offset_index, 3)
    offset_index.trim_to_valid_size()
    assert (tmp_path / NAME).stat().st_size == offset_index.length == 24
    assert offset_index.is_full
    offset_index.close()
    offset_index.trim_to_valid_size()  # nothing, once it is closed

    offset_index = OffsetIndex(directory, NAME, BASE, max_size_bytes=240, kafka_profile=True)
    assert (len(offset_index), offset_index.max_entries) == (3, 3)
    offset_index.close()


@BOTH
def test_a_reset_is_an_empty_index_of_the_configured_size(directory, tmp_path, kafka_profile):
    """[IDX-11] Whatever its length was."""
    index = OffsetIndex(directory, NAME, BASE, max_size_bytes=240, kafka_profile=kafka_profile)
    fill(index, 3)
    index.trim_to_valid_size()
    index.reset()

    assert (len(index), index.max_entries, index.last_offset) == (0, 30, BASE)
    if kafka_profile:
        assert (tmp_path / NAME).stat().st_size == 240
    fill(index, 30)
    index.close()


@pytest.mark.parametrize("closed", [True, False])
def test_a_deleted_index_is_closed_and_not_trimmed(offset_index, tmp_path, closed):
    """[IDX-15] True when there was a file."""
    fill(offset_index, 3)
    if closed:
        offset_index.close_handler()
        assert (tmp_path / NAME).stat().st_size == 240  # [IDX-14]

    assert offset_index.delete_if_exists()
    assert not (tmp_path / NAME).exists()
    assert not offset_index.delete_if_exists()
    assert offset_index.closed


def test_a_renamed_index_goes_on_under_its_new_name(offset_index, tmp_path):
    """[IDX-16]"""
    fill(offset_index, 3)
    offset_index.rename_to(f"{NAME}.deleted")
    offset_index.append(BASE + 4, 0)

    assert offset_index.path == f"{tmp_path}/{NAME}.deleted"
    offset_index.close()
    assert [path.name for path in tmp_path.iterdir()] == [f"{NAME}.deleted"]
    assert (tmp_path / f"{NAME}.deleted").stat().st_size == 32


def test_the_new_name_counts_even_when_renaming_failed(offset_index, tmp_path):
    """[IDX-16]"""
    (tmp_path / NAME).unlink()
    with pytest.raises(LogNotFoundError):
        offset_index.rename_to("other.index")
    assert offset_index.name == "other.index"
    offset_index.close_handler()


def test_a_directory_that_was_renamed_is_told(offset_index, tmp_path):
    """[IDX-16] Only the name changes."""
    (tmp_path / "other").mkdir()
    other = Directory(str(tmp_path / "other"))
    offset_index.update_parent_directory(other)

    assert offset_index.path == f"{tmp_path}/other/{NAME}"
    assert (tmp_path / NAME).exists()
    offset_index.close_handler()
    other.close()


def test_a_closed_index_takes_nothing_and_flushes_nothing(offset_index, time_index):
    """[IDX-13, IDX-14] Closing twice is harmless."""
    for index in (offset_index, time_index):
        index.flush()
        index.close()
        index.close()
        index.close_handler()
        index.flush()
        for call in (index.truncate, index.reset, index.sanity_check, index.entries):
            with pytest.raises(ClosedError):
                call()
        with pytest.raises(ClosedError):
            index.resize(24)
        with pytest.raises(ClosedError):
            index.truncate_to(0)
        with pytest.raises(ClosedError):
            _ = index.max_entries


def test_an_index_for_reading_only_changes_nothing(directory, tmp_path):
    (tmp_path / NAME).write_bytes(struct.pack(">iiii", 1, 0, 2, 100))
    index = OffsetIndex(directory, NAME, BASE)
    with pytest.raises(SegstoreError):
        index.append(BASE + 9, 0)
    with pytest.raises(SegstoreError):
        index.resize(80)
    index.close()
    assert (tmp_path / NAME).stat().st_size == 16


@BOTH
def test_a_maximum_without_room_for_an_entry_leaves_an_empty_file(
    directory, tmp_path, kafka_profile
):
    """[IDX-1]"""
    for kind, name, size in ((OffsetIndex, NAME, 7), (TimeIndex, TIME_NAME, 11)):
        with pytest.raises(IllegalArgumentError):
            kind(directory, name, BASE, max_size_bytes=size, kafka_profile=kafka_profile)
        assert (tmp_path / name).stat().st_size == 0


def test_a_resize_below_what_is_used(directory, tmp_path):
    """[IDX-9] Refused before the cut; Kafka refuses behind it, and has lost what it cut."""
    safe = OffsetIndex(directory, "safe", BASE, max_size_bytes=240)
    kafka = OffsetIndex(directory, "kafka", BASE, max_size_bytes=240, kafka_profile=True)
    for index in (safe, kafka):
        fill(index, 5)
        with pytest.raises(IllegalArgumentError):
            index.resize(16)
        assert len(index) == 5

    assert safe.lookup(BASE + 5) == (BASE + 5, 500)
    assert (tmp_path / "kafka").stat().st_size == 16
    assert kafka.entry(1) == (BASE + 2, 200)
    with pytest.raises(CorruptIndexError):
        kafka.lookup(BASE + 5)
    with pytest.raises(CorruptIndexError):
        kafka.entry(4)
    safe.close()
    kafka.close_handler()


@BOTH
def test_changes_take_turns(directory, kafka_profile):
    """[IDX-17, DIFF-6] Threads that append, cut and look up: no entry is lost, or torn."""
    index = TimeIndex(directory, TIME_NAME, 0, max_size_bytes=12000, kafka_profile=kafka_profile)
    failures = []

    def run(action):
        try:
            for _ in range(200):
                action()
        except SegstoreError as error:
            failures.append(error)

    def append():
        last = index.last_entry
        with contextlib.suppress(InvalidOffsetError, IllegalStateError, IllegalArgumentError):
            index.maybe_append(last.timestamp + 5, last.offset + 1, skip_full_check=True)

    actions = [append, append, index.flush, lambda: index.lookup(500), index.sanity_check]
    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    timestamps = [entry.timestamp for entry in index.entries()]
    assert timestamps == sorted(set(timestamps))
    index.close()
