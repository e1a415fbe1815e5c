"""Kafka's RemoteLogSegmentLifecycleTest, over the topic and after a restart too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.remote.metadata.topic_based_remote_log_metadata_manager import (
    TopicBasedRemoteLogMetadataManager,
)
from tests.kits.remote_metadata_kit import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    MemoryTopic,
    added,
    updated,
)

if TYPE_CHECKING:
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogSegmentMetadata,
        RemoteLogSegmentState,
    )


class Lifecycle:
    """A manager, and another that reads the topic at each question."""

    def __init__(self) -> None:
        self.topic = MemoryTopic(5)
        self.manager = TopicBasedRemoteLogMetadataManager(self.topic)

    def bring(self, segment: RemoteLogSegmentMetadata, *states: RemoteLogSegmentState) -> None:
        self.manager.add_remote_log_segment_metadata(segment)
        self.update(segment, *states)

    def update(self, segment: RemoteLogSegmentMetadata, *states: RemoteLogSegmentState) -> None:
        for state in states:
            self.manager.update_remote_log_segment_metadata(updated(segment, state))

    def both(self) -> list[TopicBasedRemoteLogMetadataManager]:
        return [self.manager, TopicBasedRemoteLogMetadataManager(self.topic)]

    def found(self, epoch: int, offset: int) -> object:
        answers = [one.remote_log_segment_metadata(PARTITION, epoch, offset) for one in self.both()]
        assert answers[0] == answers[1]
        return None if answers[0] is None else answers[0].segment_id

    def highest(self, epoch: int) -> int | None:
        answers = [one.highest_offset_for_epoch(PARTITION, epoch) for one in self.both()]
        assert answers[0] == answers[1]
        return answers[0]

    def listed(self, epoch: int | None = None) -> list[object]:
        answers = [list(one.list_remote_log_segments(PARTITION, epoch)) for one in self.both()]
        assert answers[0] == answers[1]
        return [one.segment_id for one in answers[0]]


@pytest.fixture
def lifecycle() -> Lifecycle:
    return Lifecycle()


def test_remote_log_segment_life_cycle(lifecycle: Lifecycle):
    """[TIER-26] [TIER-27] [TIER-28] [TIER-29]
    RemoteLogSegmentLifecycleTest.testRemoteLogSegmentLifeCycle.
    """
    segments = [
        added(0, 100, {0: 0, 1: 20, 2: 80}),
        added(101, 200, {2: 101}),
        added(201, 300, {2: 201, 3: 240}),
        added(250, 400, {3: 250, 4: 370}),
    ]
    for segment in segments:
        lifecycle.bring(segment)
        epoch, start = segment.segment_leader_epochs[0]
        assert lifecycle.found(epoch, start) != segment.segment_id
        assert segment.segment_id in lifecycle.listed(epoch)
        lifecycle.update(segment, FINISHED)
    first, second, third, fourth = (segment.segment_id for segment in segments)
    for epoch, offset, expected in (
        (1, 40, first),
        (2, 110, second),
        (3, 240, third),
        (3, 250, fourth),
        (4, 375, fourth),
        (1, 110, None),
        (4, 401, None),
        (5, 301, None),
    ):
        assert lifecycle.found(epoch, offset) == expected, (epoch, offset)

    lifecycle.update(segments[0], DELETING)
    assert lifecycle.found(0, 10) is None
    assert lifecycle.listed() == [first, second, third, fourth]
    lifecycle.update(segments[0], DELETED)
    assert lifecycle.found(0, 10) is None
    assert lifecycle.listed() == [second, third, fourth]
    assert [lifecycle.highest(epoch) for epoch in range(6)] == [19, 79, 239, 369, 400, None]


def test_cache_segment_with_copy_segment_started_state(lifecycle: Lifecycle):
    """[TIER-26] RemoteLogSegmentLifecycleTest.testCacheSegmentWithCopySegmentStartedState."""
    segment = added(0, 50)
    lifecycle.bring(segment)
    assert lifecycle.found(0, 20) is None
    assert lifecycle.listed() == lifecycle.listed(0) == [segment.segment_id]


def test_cache_segment_with_copy_segment_finished_state(lifecycle: Lifecycle):
    """[TIER-28] RemoteLogSegmentLifecycleTest.testCacheSegmentWithCopySegmentFinishedState."""
    segment = added(101, 200)
    lifecycle.bring(segment, FINISHED)
    assert lifecycle.found(0, 150) == segment.segment_id
    assert lifecycle.listed() == lifecycle.listed(0) == [segment.segment_id]


def test_cache_segment_with_delete_segment_started_state(lifecycle: Lifecycle):
    """[TIER-26] RemoteLogSegmentLifecycleTest.testCacheSegmentWithDeleteSegmentStartedState."""
    segment = added(201, 300)
    lifecycle.bring(segment, FINISHED, DELETING)
    assert lifecycle.found(0, 250) is None
    assert lifecycle.listed() == lifecycle.listed(0) == [segment.segment_id]


def test_cache_segment_with_delete_segment_finished_state(lifecycle: Lifecycle):
    """[TIER-26] [TIER-27] RemoteLogSegmentLifecycleTest, the last state: nothing is listed."""
    segment = added(301, 400)
    lifecycle.bring(segment, FINISHED, DELETING, DELETED)
    assert lifecycle.found(0, 350) is None
    assert lifecycle.listed() == lifecycle.listed(0) == []
    assert lifecycle.highest(0) == 400


def test_cache_list_segments(lifecycle: Lifecycle):
    """[TIER-29] RemoteLogSegmentLifecycleTest.testCacheListSegments."""
    segments = [added(0, 100), added(101, 200), added(201, 400, {0: 201, 1: 301})]
    for segment in segments:
        lifecycle.bring(segment, FINISHED)
    ids = [segment.segment_id for segment in segments]
    assert lifecycle.listed(0) == ids
    assert lifecycle.listed(1) == ids[2:]
    assert lifecycle.listed(2) == []
