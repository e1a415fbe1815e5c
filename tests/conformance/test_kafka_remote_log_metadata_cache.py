"""Kafka's RemoteLogMetadataCacheTest."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from segstore.errors import IllegalArgumentError, RemoteResourceNotFoundError
from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
from tests.kits.remote_metadata_kit import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    added,
    updated,
)

if TYPE_CHECKING:
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState


@pytest.fixture
def cache() -> RemoteLogMetadataCache:
    made = RemoteLogMetadataCache()
    made.mark_initialized()
    return made


@pytest.mark.parametrize("state", [FINISHED, DELETING, DELETED])
def test_cache_add_metadata_on_invalid_args(
    cache: RemoteLogMetadataCache, state: RemoteLogSegmentState
):
    """[TIER-20] [TIER-30] RemoteLogMetadataCacheTest.testCacheAddMetadataOnInvalidArgs."""
    with pytest.raises(IllegalArgumentError, match=state.name):
        cache.add_copy_in_progress_segment(added(0, 9, state=state))
    assert cache.metadata_count == 0


def test_drop_event_on_invalid_state_transition(
    cache: RemoteLogMetadataCache, caplog: pytest.LogCaptureFixture
):
    """[TIER-23] [TIER-30] RemoteLogMetadataCacheTest.testDropEventOnInvalidStateTransition."""
    segment = added(10, 100, {5: 10})
    assert cache.add_copy_in_progress_segment(segment)
    for state, is_taken, now in (
        (DELETED, False, STARTED),
        (FINISHED, True, FINISHED),
        (DELETED, False, FINISHED),
        (STARTED, False, FINISHED),
        (DELETING, True, DELETING),
        (FINISHED, False, DELETING),
        (STARTED, False, DELETING),
    ):
        caplog.clear()
        taken = cache.update_remote_log_segment_metadata(updated(segment, state))
        assert taken is is_taken
        assert ("does not follow" in caplog.text) is not is_taken
        assert [one.state for one in cache.list_remote_log_segments()] == [now]
    assert cache.update_remote_log_segment_metadata(updated(segment, DELETED))
    assert list(cache.list_remote_log_segments()) == []
    assert cache.metadata_count == 0


def test_an_update_of_an_unknown_segment(caplog: pytest.LogCaptureFixture):
    """[TIER-30] Dropped while not all is loaded; from then on it is not found."""
    cache = RemoteLogMetadataCache()
    with caplog.at_level(logging.DEBUG):
        assert not cache.update_remote_log_segment_metadata(updated(added(0, 9), FINISHED))
    assert caplog.text == ""
    cache.mark_initialized()
    with pytest.raises(RemoteResourceNotFoundError):
        cache.update_remote_log_segment_metadata(updated(added(0, 9), FINISHED))


def test_a_copy_does_not_begin_twice(cache: RemoteLogMetadataCache):
    """[TIER-30] Adding it again is taken, an update says nothing new, a further one stays."""
    segment = added(0, 9)
    assert cache.add_copy_in_progress_segment(segment)
    assert cache.add_copy_in_progress_segment(segment)
    with pytest.raises(IllegalArgumentError):
        cache.update_remote_log_segment_metadata(updated(segment, STARTED))
    assert cache.update_remote_log_segment_metadata(updated(segment, FINISHED))
    assert not cache.add_copy_in_progress_segment(segment)
    assert [one.state for one in cache.list_remote_log_segments()] == [FINISHED]


def test_segments_that_begin_at_the_same_offset_are_listed_as_they_were_added(
    cache: RemoteLogMetadataCache,
):
    """[TIER-29] Also after updates, which do not move them."""
    segments = [added(5, 9), added(0, 9), *(added(5, end) for end in range(10, 30))]
    for segment in segments:
        cache.add_copy_in_progress_segment(segment)
    for segment in segments[::3]:
        cache.update_remote_log_segment_metadata(updated(segment, FINISHED))
    ordered = [segments[1], segments[0], *segments[2:]]
    for epoch in (None, 0):
        listed = [one.segment_id for one in cache.list_remote_log_segments(epoch)]
        assert listed == [one.segment_id for one in ordered]


def test_a_segment_of_an_offset_with_aborted_transactions(cache: RemoteLogMetadataCache):
    """[TIER-22] [TIER-28] The next one in the epoch that has some, up to the first that lacks."""
    empty = [True, True, False, True, True]
    segments = [
        added(10 * number, 10 * number + 9, is_transaction_index_empty=one)
        for number, one in enumerate(empty)
    ]
    segments.append(added(60, 69))
    for segment in segments:
        cache.add_copy_in_progress_segment(segment)
        cache.update_remote_log_segment_metadata(updated(segment, FINISHED))
    found = [cache.next_segment_with_transaction_index(0, 10 * number) for number in range(7)]
    ids = [None if one is None else one.start_offset for one in found]
    assert ids == [20, 20, 20, None, None, None, 60]
    assert cache.next_segment_with_transaction_index(1, 0) is None
