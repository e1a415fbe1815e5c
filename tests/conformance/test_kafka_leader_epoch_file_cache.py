"""Kafka's LeaderEpochFileCacheTest, test by test [EPC-1..EPC-13]."""

from __future__ import annotations

import pytest

from segstore import _core
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache

UNDEFINED = (-1, -1)


@pytest.fixture
def directory(tmp_path):
    directory = _core.Directory(str(tmp_path))
    yield directory
    directory.close()


@pytest.fixture
def cache(directory):
    return LeaderEpochFileCache(directory)


def assigned(cache, *entries):
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    return cache


def three_epochs(cache):
    return assigned(cache, (2, 6), (3, 8), (4, 11))


def test_previous_epoch(cache):
    """[EPC-9] LeaderEpochFileCacheTest.testPreviousEpoch."""
    assert cache.previous_epoch() is None
    assigned(cache, (2, 10))
    assert cache.previous_epoch() is None
    assigned(cache, (4, 15))
    assert cache.previous_epoch() == 2
    assigned(cache, (10, 20))
    assert cache.previous_epoch() == 4
    cache.truncate_from_end(18)
    assert cache.previous_epoch() == 2


def test_should_add_epoch_and_message_offset_to_cache(cache):
    """[EPC-2, EPC-5] LeaderEpochFileCacheTest.shouldAddEpochAndMessageOffsetToCache."""
    assigned(cache, (2, 10))

    assert cache.latest_epoch == 2
    assert cache.entries == ((2, 10),)
    assert cache.end_offset_for(2, 11) == (2, 11)


def test_should_return_undefined_offset_if_undefined_epoch_requested(cache):
    """[EPC-5] LeaderEpochFileCacheTest.shouldReturnUndefinedOffsetIfUndefinedEpochRequested."""
    assert assigned(cache, (2, 11), (3, 12)).end_offset_for(-1, 0) == UNDEFINED


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        # LeaderEpochFileCacheTest.shouldEnforceMonotonicallyIncreasingStartOffsets
        ([(2, 9), (3, 9)], [(3, 9)]),
        # LeaderEpochFileCacheTest.shouldTruncateIfMatchingEpochButEarlierStartingOffset
        ([(5, 11), (6, 12), (7, 13), (7, 12)], [(5, 11), (7, 12)]),
        # LeaderEpochFileCacheTest.shouldNotUpdateEpochAndStartOffsetIfItDidNotChange
        ([(2, 6), (2, 7)], [(2, 6)]),
        # LeaderEpochFileCacheTest.shouldEnforceMonotonicallyIncreasingEpochs
        ([(1, 5), (2, 6), (1, 7)], [(1, 7)]),
    ],
)
def test_both_epochs_and_start_offsets_ascend(cache, entries, expected):
    """[EPC-2, EPC-3]"""
    assert list(assigned(cache, *entries).entries) == expected


@pytest.mark.parametrize(
    ("entries", "asked", "expected"),
    [
        # LeaderEpochFileCacheTest.shouldTruncateIfMatchingEpochButEarlierStartingOffset
        ([(5, 11), (6, 12), (7, 13), (7, 12)], (5, 0), (5, 12)),
        ([(5, 11), (6, 12), (7, 13), (7, 12)], (6, 0), (5, 12)),
        ([(1, 11), (1, 12), (2, 13), (2, 14), (3, 15), (3, 16)], (2, 17), (2, 15)),
        ([(0, 10), (2, 13), (4, 17)], (1, 0), (0, 13)),
        ([(0, 10), (2, 13), (4, 17)], (2, 0), (2, 17)),
        ([(0, 10), (2, 13), (4, 17)], (3, 0), (2, 17)),
        ([(2, 100)], (3, 100), UNDEFINED),
        # LeaderEpochFileCacheTest.shouldSupportEpochsThatDoNotStartFromZero
        ([(2, 6)], (2, 7), (2, 7)),
        # LeaderEpochFileCacheTest.shouldEnforceMonotonicallyIncreasingEpochs
        ([(1, 5), (2, 6), (1, 7)], (1, 8), (1, 8)),
        ([(1, 5), (2, 6), (1, 7)], (2, 8), UNDEFINED),
        # LeaderEpochFileCacheTest.shouldFetchEndOffsetOfEmptyCache
        ([], (7, 0), UNDEFINED),
    ],
)
def test_where_an_epoch_ends(cache, entries, asked, expected):
    """[EPC-5] And, too long to stand beside their lines:

    LeaderEpochFileCacheTest.shouldGetFirstOffsetOfSubsequentEpochWhenOffsetRequestedForPreviousEpoch
    LeaderEpochFileCacheTest.shouldReturnNextAvailableEpochIfThereIsNoExactEpochForTheOneRequested
    LeaderEpochFileCacheTest.shouldReturnInvalidOffsetIfEpochIsRequestedWhichIsNotCurrentlyTracked
    """
    assert assigned(cache, *entries).end_offset_for(*asked) == expected


def test_should_persist_epochs_between_instances(directory, cache):
    """[EPC-1, EPC-12] LeaderEpochFileCacheTest.shouldPersistEpochsBetweenInstances."""
    assigned(cache, (2, 6))

    assert LeaderEpochFileCache.read(directory, writable=True).entries == ((2, 6),)


def test_should_increase_and_track_epochs_as_leaders_change_many_times(cache):
    """[EPC-5] LeaderEpochFileCacheTest.shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes."""
    assigned(cache, (0, 0), (1, 0))
    assert cache.latest_epoch == 1
    assert [cache.end_offset_for(epoch, 0) for epoch in (1, 0)] == [(1, 0), (0, 0)]
    assert [cache.end_offset_for(epoch, 5) for epoch in (1, 0)] == [(1, 5), (0, 0)]

    assigned(cache, (2, 5))

    found = [cache.end_offset_for(epoch, 10) for epoch in (2, 1, 0)]
    assert found == [(2, 10), (1, 5), (0, 0)]


def test_should_increase_and_track_epochs_as_follower_receives_many_messages(cache):
    """LeaderEpochFileCacheTest.shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages."""
    for epoch in (0, 1, 2):
        for offset in range(3 * epoch, 3 * epoch + 3):
            cache.assign(epoch, offset)
        assert cache.latest_epoch == epoch
        assert cache.end_offset_for(epoch, 3 * epoch + 3) == (epoch, 3 * epoch + 3)

    assert [cache.end_offset_for(epoch, 9) for epoch in (2, 0, 1)] == [(2, 9), (0, 3), (1, 6)]


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [
        # LeaderEpochFileCacheTest.shouldDropEntriesOnEpochBoundaryWhenRemovingLatestEntries
        (8, [(2, 6)]),
        # LeaderEpochFileCacheTest.shouldDropEntriesBetweenEpochBoundaryWhenRemovingNewest
        (9, [(2, 6), (3, 8)]),
        # LeaderEpochFileCacheTest.shouldNotResetEpochHistoryTailIfUndefinedPassed
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_truncation_from_the_end(cache, end_offset, expected):
    """[EPC-6]"""
    three_epochs(cache).truncate_from_end(end_offset)

    assert list(cache.entries) == expected
    assert cache.latest_epoch == expected[-1][0]


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [
        # LeaderEpochFileCacheTest.shouldUpdateSavedOffsetWhenOffsetToClearToIsBetweenEpochs
        (9, [(3, 9), (4, 11)]),
        # LeaderEpochFileCacheTest.shouldNotClearAnythingIfOffsetToEarly
        (1, [(2, 6), (3, 8), (4, 11)]),
        # LeaderEpochFileCacheTest.shouldNotClearAnythingIfOffsetToFirstOffset
        (6, [(2, 6), (3, 8), (4, 11)]),
        # LeaderEpochFileCacheTest.shouldRetainLatestEpochOnClearAllEarliest
        (11, [(4, 11)]),
        # LeaderEpochFileCacheTest.shouldRetainLatestEpochOnClearAllEarliestAndUpdateItsOffset
        (15, [(4, 15)]),
    ],
)
def test_truncation_from_the_start(cache, start_offset, expected):
    """[EPC-6]"""
    three_epochs(cache).truncate_from_start(start_offset)

    assert list(cache.entries) == expected


def test_should_clear_all_entries(directory, cache):
    """[EPC-8] LeaderEpochFileCacheTest.shouldClearAllEntries."""
    three_epochs(cache).clear_and_flush()

    assert cache.entries == ()
    assert LeaderEpochFileCache.read(directory, writable=True).entries == ()


def test_an_empty_cache_has_nothing(cache):
    """[EPC-13] LeaderEpochFileCacheTest.shouldFetchLatestEpochOfEmptyCache,
    LeaderEpochFileCacheTest.shouldClearEarliestOnEmptyCache.
    """
    assert cache.latest_epoch is cache.latest_entry is cache.earliest_entry is None
    assert not cache.truncate_from_start(7)
    assert cache.entries == ()


def test_find_previous_entry(cache):
    """[EPC-9] LeaderEpochFileCacheTest.testFindPreviousEntry."""
    assert cache.previous_entry(2) is None
    assigned(cache, (2, 10))
    assert cache.previous_entry(2) is None
    assigned(cache, (4, 15))
    assert cache.previous_entry(4) == (2, 10)
    assigned(cache, (10, 20))
    assert cache.previous_entry(10) == (4, 15)
    cache.truncate_from_end(18)
    assert cache.previous_entry(cache.latest_epoch) == (2, 10)


def test_should_fetch_epoch_for_given_offset(cache):
    """[EPC-9] LeaderEpochFileCacheTest.shouldFetchEpochForGivenOffset."""
    assigned(cache, (0, 10), (1, 20), (5, 30))

    found = [cache.epoch_for_offset(offset) for offset in (25, 20, 30, 50, 5)]
    assert found == [1, 1, 5, 5, None]


def test_should_write_checkpoint_on_truncation(directory, cache):
    """[EPC-7] LeaderEpochFileCacheTest.shouldWriteCheckpointOnTruncation; here by `flush`."""
    three_epochs(cache).truncate_from_end(11)
    cache.truncate_from_start(8)
    cache.flush()

    assert LeaderEpochFileCache.read(directory, writable=False).entries == ((3, 8),)
