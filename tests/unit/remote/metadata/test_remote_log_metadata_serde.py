"""Events of ``__remote_log_metadata``: every field as it was written, and damaged ones."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.remote.metadata.remote_log_metadata_serde import deserialize, parse_event, serialize
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from segstore.remote.metadata.usual_events import usual_event
from segstore.types import EpochEntry, TopicPartition
from tests.fuzz.mutations import anything_like, outcome
from tests.kits.remote_log_events import event_bytes

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
OFFSET = st.integers(0, 2**63 - 1)
TEXT = st.text(max_size=40)
MOST_OF_AN_ERROR = 500

partitions = st.builds(TopicIdPartition, st.uuids(), st.builds(TopicPartition, TEXT, INT))
segment_ids = st.builds(RemoteLogSegmentId, partitions, st.uuids())
said_of_state = {
    "broker_id": INT,
    "event_timestamp_ms": LONG,
    "state": st.sampled_from(RemoteLogSegmentState),
    "custom_metadata": st.none() | st.binary(max_size=200),
}


@st.composite
def segments(draw, kind, segment_id):
    """A segment, or a snapshot of one."""
    start, end = sorted((draw(OFFSET), draw(OFFSET)))
    epochs = draw(st.dictionaries(INT, LONG, min_size=1, max_size=5))
    return kind(
        segment_id=draw(segment_id),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=draw(LONG),
        segment_size_bytes=draw(INT),
        segment_leader_epochs=tuple(EpochEntry(*entry) for entry in sorted(epochs.items())),
        is_transaction_index_empty=draw(st.booleans()),
        **{name: draw(values) for name, values in said_of_state.items()},
    )


snapshots = segments(RemoteLogSegmentMetadataSnapshot, st.uuids())
events = st.one_of(
    segments(RemoteLogSegmentMetadata, segment_ids),
    st.builds(RemoteLogSegmentMetadataUpdate, segment_id=segment_ids, **said_of_state),
    st.builds(
        RemotePartitionDeleteMetadata,
        topic_id_partition=partitions,
        state=st.sampled_from(RemotePartitionDeleteState),
        event_timestamp_ms=LONG,
        broker_id=INT,
    ),
)
PARTITION = TopicIdPartition(UUID(int=1), TopicPartition("orders", 3))
GOOD = RemoteLogSegmentMetadata(
    segment_id=RemoteLogSegmentId(PARTITION, UUID(int=2)),
    start_offset=0,
    end_offset=9,
    max_timestamp_ms=1735871068137,
    broker_id=1,
    event_timestamp_ms=1795756877557,
    segment_size_bytes=32626,
    state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    segment_leader_epochs=(EpochEntry(0, 0), EpochEntry(10, 4)),
    is_transaction_index_empty=True,
)


@given(event=events)
def test_every_event_is_read_as_it_was_written(event):
    """[RLM-2] [RLM-3] Both kinds and the deletion of a partition, with any values."""
    assert parse_event(event_bytes(event)) == event
    assert serialize(event) == event_bytes(event)


@given(snapshot=snapshots)
def test_every_snapshot_is_read_as_it_was_written(snapshot):
    """[RLM-3] Kind 3, which the topic does not have."""
    assert deserialize(serialize(snapshot)) == snapshot
    with pytest.raises(UnsupportedFormatError, match="snapshot"):
        parse_event(serialize(snapshot))


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_size_bytes": 2**31},
        {"broker_id": -(2**31) - 1},
        {"end_offset": 2**63},
        {
            "segment_id": RemoteLogSegmentId(
                TopicIdPartition(UUID(int=1), TopicPartition("\ud800", 0)), UUID(int=2)
            )
        },
    ],
)
def test_what_has_no_bytes_is_refused(wrong):
    """A number that its field does not hold, a name that is no text."""
    with pytest.raises(IllegalArgumentError, match="have no bytes"):
        serialize(replace(GOOD, **wrong))


@given(data=st.data())
def test_the_reader_of_usual_bytes_reads_what_the_reader_of_all_reads(data):
    """[RLM-2] [RLM-3] Or nothing: then the other one reads it, or says what is wrong."""
    value = data.draw(anything_like(st.one_of(events, snapshots).map(serialize)))
    found = usual_event(value)
    if found is not None:
        assert found == deserialize(value)


@given(event=events)
def test_what_kafka_writes_of_a_segment_is_usual(event):
    """With a short name and few custom bytes; a deletion of a partition is rare."""
    is_usual = (
        not isinstance(event, RemotePartitionDeleteMetadata)
        and len(event.topic_id_partition.topic_partition.topic.encode()) < 127
        and len(event.custom_metadata or b"") < 127
    )
    assert usual_event(serialize(event)) == (event if is_usual else None)


@given(data=st.data())
def test_any_value_is_an_event_or_refused(data):
    """[RLM-2] [RLM-3] The text stays short, and there is no other error."""
    value = data.draw(anything_like(st.one_of(events, snapshots).map(serialize)))
    event, error = outcome(lambda: deserialize(value), SegstoreError)

    assert (event is None) != (error is None)
    if error is not None:
        assert isinstance(error, CorruptLogError | UnsupportedFormatError)
        assert len(str(error)) < MOST_OF_AN_ERROR


def test_every_cut_of_an_event_is_refused():
    """[RLM-2] And so is a byte more."""
    value = event_bytes(GOOD)
    for size in range(len(value)):
        with pytest.raises(SegstoreError):
            parse_event(value[:size])
    with pytest.raises(CorruptLogError, match="garbage"):
        parse_event(value + b"\0")
    with pytest.raises(CorruptLogError):
        parse_event(None)


def test_tags_that_are_not_known_are_passed_over():
    """[RLM-3] A later Kafka may add some; without the tag the transaction index is not empty."""
    value = event_bytes(GOOD)
    assert value.endswith(b"\1\0\1\1")
    assert parse_event(value[:-4] + b"\2\0\1\1\5\3abc") == GOOD
    assert parse_event(value[:-4] + b"\0").is_transaction_index_empty is False


@pytest.mark.parametrize(
    ("head", "match"),
    [
        (bytes([1, 9, 0]), "kind or version that is not known.*9"),
        (bytes([1, 0, 1]), "kind or version that is not known.*no version 1"),
        (bytes([2, 0, 0]), "frame version 2"),
        (bytes([0, 0, 0]), "frame version 0"),
    ],
)
def test_another_frame_kind_or_version_is_refused(head, match):
    """[RLM-2] Each by its name."""
    with pytest.raises((CorruptLogError, UnsupportedFormatError), match=match):
        parse_event(head + event_bytes(GOOD)[3:])


@pytest.mark.parametrize(
    ("field", "value"),
    [("start_offset", -1), ("start_offset", 10), ("segment_leader_epochs", ())],
)
def test_a_segment_that_kafka_would_not_make_is_refused(field, value):
    """[RLM-3] [TIER-25] Offsets below 0 or in the wrong order, no leader epoch."""
    wrong = replace(GOOD)
    object.__setattr__(wrong, field, value)  # past its own check
    with pytest.raises(CorruptLogError, match="a segment from"):
        parse_event(event_bytes(wrong))


def test_a_state_that_is_none_is_refused():
    """[RLM-4]."""
    with pytest.raises(CorruptLogError, match="state 4 of 4"):
        parse_event(event_bytes(replace(GOOD, state=4)))
    deletion = RemotePartitionDeleteMetadata(
        topic_id_partition=PARTITION, state=3, event_timestamp_ms=2, broker_id=1
    )
    with pytest.raises(CorruptLogError, match="state 3 of 3"):
        parse_event(event_bytes(deletion))
