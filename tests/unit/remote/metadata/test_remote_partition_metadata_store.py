"""The store of all partitions: it answers for those whose events were all taken."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from segstore.errors import (
    IllegalStateError,
    RemoteResourceNotFoundError,
    RetriableRemoteStorageError,
)
from segstore.remote.metadata.remote_partition_metadata_store import RemotePartitionMetadataStore
from segstore.remote.metadata.segment_metadata import (
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tests.kits.remote_metadata_kit import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    added,
    updated,
)

OTHER = PARTITION._replace(topic_id=UUID(int=8))


@pytest.fixture
def store():
    made = RemotePartitionMetadataStore()
    made.assign(PARTITION)
    return made


def test_it_answers_when_all_was_taken(store):
    """[TIER-22] [TIER-30] Before that the same question may be asked later."""
    with pytest.raises(RetriableRemoteStorageError, match="still being loaded"):
        store.cache(PARTITION)
    assert store.find(PARTITION) is None
    with pytest.raises(RemoteResourceNotFoundError, match="nothing is known"):
        store.cache(OTHER)
    store.mark_initialized(PARTITION)
    store.mark_initialized(OTHER)
    assert store.find(PARTITION) is store.cache(PARTITION)
    assert store.find(OTHER) is None


def test_events_of_partitions_that_are_not_assigned_are_refused(store):
    """Both kinds of segments' events; the store does not choose what is read."""
    segment = added(0, 9, partition=OTHER)
    for event in (segment, updated(segment, FINISHED)):
        with pytest.raises(IllegalStateError, match="not assigned"):
            store.apply(event)


def test_an_update_of_an_unknown_segment_is_dropped(store, caplog):
    """[TIER-30] Without a word while it is loaded, with one afterwards."""
    event = updated(added(0, 9), FINISHED)
    store.apply(event)
    assert caplog.text == ""
    store.mark_initialized(PARTITION)
    with caplog.at_level(logging.WARNING):
        store.apply(event)
    assert str(event.segment_id.id) in caplog.text
    assert list(store.cache(PARTITION).list_remote_log_segments()) == []


def test_the_last_state_of_a_deletion_forgets_the_partition(store):
    """[TIER-24] The others are remembered."""
    store.mark_initialized(PARTITION)
    store.apply(added(0, 9))
    for state in RemotePartitionDeleteState:
        assert store.find(PARTITION) is not None
        event = RemotePartitionDeleteMetadata(
            topic_id_partition=PARTITION, state=state, event_timestamp_ms=1, broker_id=1
        )
        store.apply(event)
        is_last = state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
        assert store.deletion(PARTITION) == (None if is_last else event)
    assert store.find(PARTITION) is None


def test_deleted_segments_leave_nothing_behind(store):
    """[TIER-26] [TIER-27] But the highest offset of their epochs."""
    store.mark_initialized(PARTITION)
    kept = added(10_000, 10_009, {0: 10_000, 3: 10_005})
    store.apply(kept)
    for number in range(500):
        segment = added(number * 10, number * 10 + 9, {0: number * 10, 3: number * 10 + 5})
        store.apply(segment)
        for state in (FINISHED, DELETING, DELETED):
            store.apply(updated(segment, state))
    cache = store.cache(PARTITION)

    assert cache.metadata_count == 1
    for epoch, highest in ((0, 4_994), (3, 4_999)):
        state = cache.leader_epochs[epoch]
        assert (state.offsets, state.unreferenced) == ([], {kept.segment_id.id})
        assert state.highest_offset == highest


def test_whoever_knows_a_segment_learns_that_its_partition_was_forgotten(store):
    """[TIER-91] A reader that goes by what it knows looks at the count."""
    store.mark_initialized(PARTITION)
    segment = added(0, 9)
    store.apply(segment)
    store.apply(updated(segment, FINISHED))
    known = store.cache(PARTITION).segment_range(0, 5)
    assert known is not None
    assert known.changes.count == known.changes_count
    store.forget(PARTITION)
    assert known.changes.count > known.changes_count
