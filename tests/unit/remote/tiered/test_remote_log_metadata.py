"""Events of ``__remote_log_metadata``: every field as it was written, and damaged ones."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import write_varlong
from segstore.errors import CorruptLogError, SegstoreError, UnsupportedFormatError
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from segstore.remote.tiered.remote_log_metadata import (
    CopiedSegment,
    CustomMetadata,
    PartitionDeletion,
    SegmentEvent,
    parse_custom_metadata,
    parse_event,
)
from segstore.types import EpochEntry, TopicPartition
from tests.fuzz.mutations import anything_like, outcome
from tests.interop.message_writer import varint
from tests.kits.remote_log_events import compact, event_bytes

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
OFFSET = st.integers(0, 2**63 - 1)
TEXT = st.text(max_size=40)
MOST_OF_AN_ERROR = 500


@st.composite
def copies(draw):
    """What the first event of a copy says."""
    start, end = sorted((draw(OFFSET), draw(OFFSET)))
    epochs = draw(st.dictionaries(INT, LONG, min_size=1, max_size=5))
    entries = tuple(EpochEntry(*entry) for entry in sorted(epochs.items()))
    return CopiedSegment(start, end, draw(LONG), draw(INT), entries, draw(st.booleans()))


partitions = st.builds(TopicPartition, TEXT, INT)
events = st.one_of(
    st.builds(
        SegmentEvent,
        partitions,
        st.uuids(),
        st.uuids(),
        st.sampled_from(RemoteLogSegmentState),
        INT,
        LONG,
        st.none() | st.binary(max_size=200),
        st.none() | copies(),
    ),
    st.builds(
        PartitionDeletion,
        partitions,
        st.uuids(),
        st.sampled_from(RemotePartitionDeleteState),
        INT,
        LONG,
    ),
)
GOOD = SegmentEvent(
    TopicPartition("orders", 3),
    UUID(int=1),
    UUID(int=2),
    RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    1,
    1795756877557,
    None,
    CopiedSegment(0, 9, 1735871068137, 32626, (EpochEntry(0, 0), EpochEntry(10, 4)), True),
)


@given(event=events)
def test_every_event_is_read_as_it_was_written(event):
    """[RLM-2] [RLM-3] Both kinds and the deletion of a partition, with any values."""
    assert parse_event(event_bytes(event)) == event


@given(data=st.data())
def test_any_value_is_an_event_or_refused(data):
    """[RLM-2] [RLM-3] The text stays short, and there is no other error."""
    value = data.draw(anything_like(events.map(event_bytes)))
    event, error = outcome(lambda: parse_event(value), SegstoreError)

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
    assert parse_event(value[:-4] + b"\0").copied.is_transaction_index_empty is False


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


def test_a_snapshot_is_not_seen_in_the_topic():
    """[RLM-3] Kind 3 has no topic."""
    start = UUID(int=1).bytes + struct.pack(">qqiqq", 0, 9, 1, 5, 6)
    rest = varint(1) + struct.pack(">i", 7) + compact(None) + b"\1\0"
    with pytest.raises(UnsupportedFormatError, match="snapshot"):
        parse_event(bytes([1, 3, 0]) + start + rest)


@pytest.mark.parametrize(
    "copied",
    [
        GOOD.copied._replace(start_offset=-1),
        GOOD.copied._replace(start_offset=10),
        GOOD.copied._replace(leader_epochs=()),
    ],
)
def test_a_segment_that_kafka_would_not_make_is_refused(copied):
    """[RLM-3] [TIER-25] Offsets below 0 or in the wrong order, no leader epoch."""
    with pytest.raises(CorruptLogError, match="a segment from"):
        parse_event(event_bytes(GOOD._replace(copied=copied)))


def test_a_state_that_is_none_is_refused():
    """[RLM-4]."""
    with pytest.raises(CorruptLogError, match="state 4 of 4"):
        parse_event(event_bytes(GOOD._replace(state=4)))
    deletion = PartitionDeletion(GOOD.topic_partition, GOOD.topic_id, 3, 1, 2)
    with pytest.raises(CorruptLogError, match="state 3 of 3"):
        parse_event(event_bytes(deletion))


def custom_bytes(said, *, unknown=b""):
    """Return the section of tagged fields [RLM-5]."""
    fields = [
        (0, None if said.remote_size_bytes is None else write_varlong(said.remote_size_bytes)),
        (1, None if said.key_prefix is None else compact(said.key_prefix.encode())),
        (2, None if said.main_key is None else compact(said.main_key.encode())),
        (7, unknown or None),
    ]
    there = [(tag, data) for tag, data in fields if data is not None]
    return varint(len(there)) + b"".join(
        varint(tag) + varint(len(data)) + data for tag, data in there
    )


@given(
    said=st.builds(CustomMetadata, st.none() | LONG, st.none() | TEXT, st.none() | TEXT),
    unknown=st.binary(max_size=9),
)
def test_custom_metadata_are_read_as_they_were_written(said, unknown):
    """[RLM-5] Any of the three fields, and others are passed over."""
    assert parse_custom_metadata(custom_bytes(said, unknown=unknown)) == said


@given(
    data=anything_like(
        st.builds(CustomMetadata, st.none() | LONG, st.none() | TEXT, st.none() | TEXT).map(
            custom_bytes
        )
    )
)
def test_any_custom_metadata_are_read_or_refused(data):
    """[RLM-5] They may be those of another plug-in."""
    said, error = outcome(lambda: parse_custom_metadata(data), CorruptLogError)
    assert (said is None) != (error is None)
