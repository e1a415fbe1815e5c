"""Where leader epochs begin: the rules [EPC-1..EPC-13]."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore import _core
from segstore._core import FileBarrier
from segstore.errors import CorruptCheckpointError, IllegalArgumentError
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache

CHECKPOINT = "leader-epoch-checkpoint"
ENTRY = st.tuples(st.integers(0, 8), st.integers(0, 20))


@pytest.fixture
def directory(tmp_path):
    directory = _core.Directory(str(tmp_path))
    yield directory
    directory.close()


@given(st.lists(ENTRY, max_size=30))
def test_epochs_and_offsets_always_ascend(assignments):
    """[EPC-2, EPC-3] And the newest assignment is in force: the last entry is at or below it."""
    cache = LeaderEpochFileCache(None)
    for epoch, start_offset in assignments:
        cache.assign(epoch, start_offset)

        epochs = [entry.epoch for entry in cache.entries]
        starts = [entry.start_offset for entry in cache.entries]
        assert epochs == sorted(set(epochs))
        assert starts == sorted(set(starts))
        assert cache.latest_epoch == epoch
        assert cache.latest_entry.start_offset <= start_offset


@given(st.lists(ENTRY, max_size=30), st.integers(0, 22))
def test_the_epoch_of_an_offset_is_the_last_that_began_at_or_below_it(assignments, offset):
    """[EPC-9] The oracle is a search from the end."""
    cache = LeaderEpochFileCache(None, assignments)

    below = [entry.epoch for entry in cache.entries if entry.start_offset <= offset]
    assert cache.epoch_for_offset(offset) == (below[-1] if below else None)


@given(st.lists(ENTRY, max_size=30), st.integers(-1, 22), st.integers(-1, 22))
def test_the_entries_of_a_range_are_those_of_a_log_cut_to_it(assignments, start, end):
    """[EPC-10] The cache itself does not change."""
    cache = LeaderEpochFileCache(None, assignments)
    before = cache.entries
    cut = LeaderEpochFileCache(None, before)
    if start >= 0:
        cut.truncate_from_start(start)
    cut.truncate_from_end(end)

    assert cache.epoch_entries_in_range(start, end) == cut.entries
    assert cache.entries == before


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_neither_epoch_nor_offset_can_be_negative(entry):
    """[EPC-2]"""
    cache = LeaderEpochFileCache(None, [(1, 5)])

    with pytest.raises(IllegalArgumentError):
        cache.assign(*entry)
    assert cache.entries == ((1, 5),)


def test_an_assignment_is_on_disk_when_it_returns(directory):
    """[EPC-12, DUR-12] One that changes nothing writes nothing."""
    cache = LeaderEpochFileCache(directory)

    assert cache.assign(0, 0)
    assert directory.read_file(CHECKPOINT) == b"0\n1\n0 0\n"
    directory.unlink(CHECKPOINT)
    assert not cache.assign(0, 7)
    assert not directory.exists(CHECKPOINT)


def test_truncations_wait_for_flush(directory):
    """[EPC-7] A stale checkpoint has too many entries, never too few."""
    cache = LeaderEpochFileCache(directory)
    cache.assign(0, 0)
    cache.assign(1, 5)

    assert cache.truncate_from_end(5)
    assert LeaderEpochFileCache.read(directory, writable=False).entries == ((0, 0), (1, 5))
    cache.flush()
    assert LeaderEpochFileCache.read(directory, writable=False).entries == ((0, 0),)
    assert not cache.truncate_from_end(5)


def test_a_reader_never_writes(directory):
    """[DUR-71]"""
    directory.create_file(CHECKPOINT, b"0\n2\n0 0\n1 5\n", FileBarrier.CLEAN_MARKER)

    cache = LeaderEpochFileCache.read(directory, writable=False)
    cache.truncate_from_end(3)
    cache.flush()

    assert directory.read_file(CHECKPOINT) == b"0\n2\n0 0\n1 5\n"


def test_a_file_is_read_by_assigning_its_lines_in_order(directory):
    """[EPC-1, EPC-11] Lines that do not ascend replace others, as Kafka reads them."""
    directory.create_file(CHECKPOINT, b"0\n3\n0 0\n5 9\n3 9\n", FileBarrier.CLEAN_MARKER)

    assert LeaderEpochFileCache.read(directory, writable=False).entries == ((0, 0), (3, 9))


@pytest.mark.parametrize("content", [b"0\n1\n-1 0\n", b"0\n1\n0 -1\n", b"0\n2\n0 0\n", b"x"])
def test_a_file_that_cannot_be_read(directory, content):
    """[EPC-11]"""
    directory.create_file(CHECKPOINT, content, FileBarrier.CLEAN_MARKER)

    with pytest.raises((CorruptCheckpointError, IllegalArgumentError)):
        LeaderEpochFileCache.read(directory, writable=False)


def test_neighbours():
    """[EPC-9] Strict neighbours of an epoch that need not exist."""
    cache = LeaderEpochFileCache(None, [(1, 5), (4, 9)])

    assert [cache.next_epoch(epoch) for epoch in (0, 1, 2, 4)] == [1, 4, 4, None]
    assert [cache.previous_epoch(epoch) for epoch in (1, 2, 4, 9)] == [None, 1, 1, 4]
    assert (cache.earliest_entry, cache.latest_entry) == ((1, 5), (4, 9))
