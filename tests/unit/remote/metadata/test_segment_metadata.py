"""The metadata of a remote segment: what it takes, how it changes, which state follows which."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from segstore.errors import IllegalArgumentError
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from segstore.types import EpochEntry, TopicPartition

PARTITION = TopicIdPartition(uuid.uuid4(), TopicPartition("orders", 0))
METADATA = RemoteLogSegmentMetadata(
    segment_id=RemoteLogSegmentId(PARTITION, uuid.uuid4()),
    start_offset=10,
    end_offset=19,
    max_timestamp_ms=1000,
    broker_id=1,
    event_timestamp_ms=2000,
    segment_size_bytes=300,
    state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    segment_leader_epochs=(EpochEntry(0, 10),),
    custom_metadata=b"before",
)


@pytest.mark.parametrize(
    "wrong",
    [{"start_offset": -1}, {"end_offset": 9}, {"segment_leader_epochs": ()}],
    ids=["negative-start", "end-below-start", "no-epoch"],
)
def test_metadata_that_cannot_be_is_refused(wrong):
    """[TIER-25] Start from 0 on, end from the start on, and at least one leader epoch."""
    with pytest.raises(IllegalArgumentError):
        replace(METADATA, **wrong)


def test_an_update_changes_four_things_and_nothing_else():
    """[TIER-25] Custom bytes too, also by none."""
    update = RemoteLogSegmentMetadataUpdate(
        segment_id=METADATA.segment_id,
        event_timestamp_ms=3000,
        custom_metadata=None,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        broker_id=2,
    )
    assert METADATA.with_update(update) == replace(
        METADATA,
        broker_id=2,
        event_timestamp_ms=3000,
        custom_metadata=None,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    )
    with pytest.raises(IllegalArgumentError, match="another remote log segment"):
        METADATA.with_update(
            replace(update, segment_id=RemoteLogSegmentId(PARTITION, uuid.uuid4()))
        )


def test_which_state_of_a_segment_follows_which():
    """[TIER-23] None to 0, 0 to 1, 0 to 2, 1 to 2, 2 to 3, and each to itself."""
    states = [None, *RemoteLogSegmentState]
    allowed = {
        (before, after)
        for before in states
        for after in RemoteLogSegmentState
        if RemoteLogSegmentState.is_valid_transition(before, after)
    }
    assert allowed == {(None, 0), (0, 1), (0, 2), (1, 2), (2, 3), *((x, x) for x in range(4))}


def test_which_state_of_a_deletion_follows_which():
    """[TIER-24] One after the other, and each to itself."""
    states = [None, *RemotePartitionDeleteState]
    allowed = {
        (before, after)
        for before in states
        for after in RemotePartitionDeleteState
        if RemotePartitionDeleteState.is_valid_transition(before, after)
    }
    assert allowed == {(None, 0), (0, 1), (1, 2), *((x, x) for x in range(3))}
