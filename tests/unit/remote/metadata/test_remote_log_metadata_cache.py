"""Look-ups in the segments of one partition, as Kafka's walk from one to the next finds them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    import pytest

PARTITION = TopicIdPartition(uuid.UUID(int=7), TopicPartition("t", 0))
STATES = [
    RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
]
HIGHEST_OFFSET = 30


def begin(
    cache: RemoteLogMetadataCache,
    number: int,
    offsets: tuple[int, int],
    epochs: list[tuple[int, int]],
    *,
    is_empty: bool = True,
) -> RemoteLogSegmentId:
    """Add the copy of one segment."""
    segment_id = RemoteLogSegmentId(PARTITION, uuid.UUID(int=number))
    cache.add_copy_in_progress_segment(
        RemoteLogSegmentMetadata(
            segment_id=segment_id,
            start_offset=offsets[0],
            end_offset=offsets[1],
            max_timestamp_ms=0,
            broker_id=1,
            event_timestamp_ms=0,
            segment_size_bytes=1,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs=tuple(EpochEntry(*one) for one in epochs),
            is_transaction_index_empty=is_empty,
        )
    )
    return segment_id


def move(
    cache: RemoteLogMetadataCache, segment_id: RemoteLogSegmentId, state: RemoteLogSegmentState
) -> None:
    cache.update_remote_log_segment_metadata(
        RemoteLogSegmentMetadataUpdate(
            segment_id=segment_id,
            event_timestamp_ms=0,
            custom_metadata=None,
            state=state,
            broker_id=1,
        )
    )


def walk(cache: RemoteLogMetadataCache, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
    """Go from one segment to the next, as Kafka does."""
    found = cache.remote_log_segment_metadata(epoch, offset)
    while found is not None and found.is_transaction_index_empty:
        found = cache.remote_log_segment_metadata(epoch, found.end_offset + 1)
    return found


@st.composite
def segments(draw: st.DrawFn) -> tuple[tuple[int, int], list[tuple[int, int]], bool, int]:
    """Offsets, epochs, whether there is no transaction index, and how far the segment comes."""
    start = draw(st.integers(0, HIGHEST_OFFSET))
    end = draw(st.integers(start, min(start + 6, HIGHEST_OFFSET)))
    first = draw(st.integers(0, 1))
    later = draw(st.none() | st.integers(start, end))
    epochs = [(first, start), *([] if later is None else [(first + 1, later)])]
    return (start, end), epochs, draw(st.integers(0, 4)) > 0, draw(st.integers(0, 3))


@given(st.lists(segments() | st.integers(1, 4), max_size=25))
def test_the_next_transaction_index_is_that_of_a_walk(events: list):
    """[TIER-22, TIER-26] After copies that follow one another, leave gaps, overlap, and go."""
    cache, number, end = RemoteLogMetadataCache(), 0, -1
    for event in events:
        if isinstance(event, int):  # one that follows the one before, as most do
            offsets, epochs, is_empty, states = (end + 1, end + event), [(0, end + 1)], True, 1
        else:
            offsets, epochs, is_empty, states = event
        number, end = number + 1, offsets[1]
        segment_id = begin(cache, number, offsets, epochs, is_empty=is_empty)
        for state in STATES[:states]:
            move(cache, segment_id, state)
        for epoch in range(3):
            for offset in range(end + 3):
                found = cache.next_segment_with_transaction_index(epoch, offset)
                assert found == walk(cache, epoch, offset)


@given(st.lists(segments(), max_size=12))
def test_a_range_has_the_offsets_for_which_a_segment_is_found(events: list):
    """[TIER-28] All of them where no later copy covers it; the count tells whether it holds."""
    cache, seen = RemoteLogMetadataCache(), []
    for number, (offsets, epochs, is_empty, states) in enumerate(events):
        segment_id = begin(cache, number, offsets, epochs, is_empty=is_empty)
        for state in STATES[:states]:
            move(cache, segment_id, state)
    for epoch in range(3):
        found = [cache.remote_log_segment_metadata(epoch, n) for n in range(HIGHEST_OFFSET + 3)]
        for offset, metadata in enumerate(found):
            known = cache.segment_range(epoch, offset)
            if metadata is None:
                assert known is None
                continue
            assert known is not None
            assert known.metadata is metadata
            assert known.first_offset <= offset <= known.last_offset
            same = found[known.first_offset : known.last_offset + 1]
            assert all(one is metadata for one in same)
            assert known.changes_count == known.changes.count
            seen.append(known)
    for known in seen[:1]:
        state = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
        move(cache, known.metadata.segment_id, state)
        assert known.changes_count != known.changes.count


def test_many_segments_without_aborted_transactions_are_passed_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    """[TIER-22] A committed read asks for each of its segments; it is no walk to the end."""
    cache = RemoteLogMetadataCache()
    ids = [begin(cache, one, (10 * one, 10 * one + 9), [(0, 10 * one)]) for one in range(1000)]
    last = begin(cache, 1000, (10_000, 10_009), [(0, 10_000)], is_empty=False)
    for one in (*ids, last):
        move(cache, one, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
    look_up, asked = cache.remote_log_segment_metadata, []

    def count(*place: int) -> RemoteLogSegmentMetadata | None:
        asked.append(place)
        return look_up(*place)

    monkeypatch.setattr(cache, "remote_log_segment_metadata", count)
    found = cache.next_segment_with_transaction_index(0, 15)
    assert found is not None
    assert found.segment_id == last
    assert len(asked) == 1
    move(cache, last, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    assert cache.next_segment_with_transaction_index(0, 15) is None
    assert len(asked) <= 3
