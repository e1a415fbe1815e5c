"""Kafka's RemoteLogLeaderEpochStateTest."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from segstore.errors import RemoteResourceNotFoundError
from segstore.remote.metadata.remote_log_leader_epoch_state import RemoteLogLeaderEpochState
from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
from tests.kits.remote_metadata_kit import added

FIRST, SECOND, THIRD, FOURTH = (UUID(int=number) for number in range(1, 5))


@pytest.fixture
def state() -> RemoteLogLeaderEpochState:
    return RemoteLogLeaderEpochState()


def test_list_all_remote_log_segments_on_empty(state: RemoteLogLeaderEpochState):
    """[TIER-29] RemoteLogLeaderEpochStateTest.testListAllRemoteLogSegmentsOnEmpty."""
    assert state.listed() == set()
    assert state.offsets == []
    assert state.floor(5) is None
    assert list(RemoteLogMetadataCache().list_remote_log_segments(0)) == []


def test_a_listed_id_without_metadata_is_not_found():
    """[TIER-29]
    RemoteLogLeaderEpochStateTest.testListAllRemoteLogSegmentsShouldThrowErrorForUnknownSegmentId.
    """
    cache = RemoteLogMetadataCache()
    cache.add_copy_in_progress_segment(added(0, 9))
    unknown = uuid4()
    cache.leader_epochs[0].copy_finished(unknown, 10, 19)
    with pytest.raises(RemoteResourceNotFoundError, match=str(unknown)):
        cache.list_remote_log_segments(0)
    with pytest.raises(RemoteResourceNotFoundError, match=str(unknown)):
        cache.remote_log_segment_metadata(0, 12)


def test_copy_started(state: RemoteLogLeaderEpochState):
    """[TIER-26] RemoteLogLeaderEpochStateTest.handleSegmentWithCopySegmentStartedState."""
    state.copy_started(FIRST)
    assert state.unreferenced == {FIRST}
    assert (state.offsets, state.highest_offset) == ([], None)


def test_copy_finished_of_overlapping_segments(state: RemoteLogLeaderEpochState):
    """[TIER-26] [TIER-27]
    RemoteLogLeaderEpochStateTest.handleSegmentWithCopySegmentFinishedStateForMultipleOverlappingSegments.
    """
    for segment_id, start, end in (
        (FIRST, 10, 100),
        (SECOND, 5, 150),
        (THIRD, 148, 155),
        (FOURTH, 4, 200),
    ):
        state.copy_started(segment_id)
        state.copy_finished(segment_id, start, end)
    assert state.offsets == [(4, FOURTH)]
    assert state.unreferenced == {FIRST, SECOND, THIRD}
    assert state.highest_offset == 200


def test_copy_finished_of_the_same_offsets(state: RemoteLogLeaderEpochState):
    """[TIER-26]
    RemoteLogLeaderEpochStateTest.handleSegmentWithCopySegmentFinishedStateForDuplicateSegments.
    """
    state.copy_finished(FIRST, 10, 100)
    state.copy_finished(SECOND, 10, 100)
    assert state.offsets == [(10, SECOND)]
    assert (state.unreferenced, state.highest_offset) == ({FIRST}, 100)


def test_delete_started(state: RemoteLogLeaderEpochState):
    """[TIER-26] [TIER-27]
    RemoteLogLeaderEpochStateTest.handleSegmentWithDeleteSegmentStartedState.
    """
    state.copy_finished(FIRST, 10, 100)
    state.copy_finished(SECOND, 101, 200)
    state.delete_started(FIRST, 10)
    assert (state.offsets, state.unreferenced) == ([(101, SECOND)], {FIRST})
    state.delete_started(SECOND, 101)
    assert (state.offsets, state.unreferenced) == ([], {FIRST, SECOND})
    assert state.highest_offset == 200


def test_delete_finished(state: RemoteLogLeaderEpochState):
    """[TIER-26] RemoteLogLeaderEpochStateTest.handleSegmentWithDeleteSegmentFinishedState."""
    state.copy_started(FIRST)
    state.delete_started(FIRST, 10)
    assert state.unreferenced == {FIRST}
    state.delete_finished(FIRST)
    assert state.unreferenced == set()
