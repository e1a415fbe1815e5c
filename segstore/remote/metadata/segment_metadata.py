"""The metadata of one segment in remote storage, and of the deletion of a partition.

Source: [TIER-23, TIER-24, TIER-25], KIP-405, Kafka ``RemoteLogSegmentMetadata``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import IllegalArgumentError

if TYPE_CHECKING:
    from uuid import UUID

    from segstore.types import EpochEntry, TopicPartition


class RemoteLogSegmentState(IntEnum):
    """Where a copy is in its life; only finished ones are readable [RLM-4, TIER-23]."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3

    @staticmethod
    def is_valid_transition(
        before: RemoteLogSegmentState | None, after: RemoteLogSegmentState
    ) -> bool:
        """Whether *after* may follow *before*; None = there was none [TIER-23].

        Raises
        ------
        IllegalArgumentError
            *after* is no state.
        """
        _check_state(after, RemoteLogSegmentState)
        return before is after or after in _FOLLOWING[before]


class RemotePartitionDeleteState(IntEnum):
    """How far the deletion of a partition is [TIER-24]."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2

    @staticmethod
    def is_valid_transition(
        before: RemotePartitionDeleteState | None, after: RemotePartitionDeleteState
    ) -> bool:
        """Whether *after* may follow *before*; None = there was none [TIER-24].

        Raises
        ------
        IllegalArgumentError
            *after* is no state.
        """
        _check_state(after, RemotePartitionDeleteState)
        return before is after or after == (0 if before is None else before + 1)


def _check_state(state: object, states: type[IntEnum]) -> None:
    if not isinstance(state, states):
        raise IllegalArgumentError(
            "nothing goes on to a state that is none",
            found=repr(state),
            expected=f"a {states.__name__}",
        )


_FOLLOWING: dict[RemoteLogSegmentState | None, tuple[RemoteLogSegmentState, ...]] = {
    None: (RemoteLogSegmentState.COPY_SEGMENT_STARTED,),
    RemoteLogSegmentState.COPY_SEGMENT_STARTED: (
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
    ),
    RemoteLogSegmentState.COPY_SEGMENT_FINISHED: (RemoteLogSegmentState.DELETE_SEGMENT_STARTED,),
    RemoteLogSegmentState.DELETE_SEGMENT_STARTED: (RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,),
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED: (),
}


class TopicIdPartition(NamedTuple):
    """A partition of one topic: a topic that is made again has another id."""

    topic_id: UUID
    topic_partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.topic_partition} of topic {self.topic_id}"


class RemoteLogSegmentId(NamedTuple):
    """One copy of a segment; each attempt to copy has an id of its own [TIER-35]."""

    topic_id_partition: TopicIdPartition
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadata:
    """What is known of one copy of a segment [TIER-25].

    Attributes
    ----------
    segment_id : RemoteLogSegmentId
        Which copy.
    start_offset, end_offset : int
        Both inclusive.
    max_timestamp_ms : int
        Largest timestamp of its records.
    broker_id, event_timestamp_ms : int
        Who said the last of it, and when by its clock.
    segment_size_bytes : int
        Of its ``.log``.
    state : RemoteLogSegmentState
        Where the copy is in its life.
    segment_leader_epochs : tuple of EpochEntry
        Each leader epoch with its first offset in the segment, ascending; never empty.
    custom_metadata : bytes or None
        What the remote storage gave when it copied the segment.
    is_transaction_index_empty : bool
        The segment has no aborted transaction; False also where nobody said it.

    Raises
    ------
    IllegalArgumentError
        An offset is negative, the end is below the start, or there is no leader epoch.
    """

    segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_bytes: int
    state: RemoteLogSegmentState
    segment_leader_epochs: tuple[EpochEntry, ...]
    custom_metadata: bytes | None = None
    is_transaction_index_empty: bool = False

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """Whose segment it is."""
        return self.segment_id.topic_id_partition

    def __post_init__(self) -> None:
        if self.start_offset < 0 or self.end_offset < self.start_offset:
            raise IllegalArgumentError(
                "a remote log segment has no such offsets",
                found=f"{self.start_offset} to {self.end_offset}",
                expected="a start from 0 on, and an end from the start on",
            )
        if not self.segment_leader_epochs:
            raise IllegalArgumentError(
                "a remote log segment has at least one leader epoch",
                found="none",
                expected="each epoch with its first offset in the segment",
            )

    def with_update(self, update: RemoteLogSegmentMetadataUpdate) -> RemoteLogSegmentMetadata:
        """Return the metadata after *update*; whether the state may follow is not looked at.

        Raises
        ------
        IllegalArgumentError
            The update is of another copy.
        """
        if update.segment_id != self.segment_id:
            raise IllegalArgumentError(
                "the update is of another remote log segment",
                found=str(update.segment_id),
                expected=str(self.segment_id),
            )
        return RemoteLogSegmentMetadata(  # of a million updates; dataclasses.replace takes longer
            segment_id=self.segment_id,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            max_timestamp_ms=self.max_timestamp_ms,
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            segment_size_bytes=self.segment_size_bytes,
            state=update.state,
            segment_leader_epochs=self.segment_leader_epochs,
            custom_metadata=update.custom_metadata,
            is_transaction_index_empty=self.is_transaction_index_empty,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadataUpdate:
    """The next state of a copy (Kafka ``RemoteLogSegmentMetadataUpdate``).

    Attributes
    ----------
    segment_id : RemoteLogSegmentId
        Which copy.
    event_timestamp_ms, broker_id : int
        When, and who says so.
    custom_metadata : bytes or None
        From now on; None takes earlier ones away [TIER-25].
    state : RemoteLogSegmentState
        From now on.
    """

    segment_id: RemoteLogSegmentId
    event_timestamp_ms: int
    custom_metadata: bytes | None
    state: RemoteLogSegmentState
    broker_id: int

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """Whose segment it is."""
        return self.segment_id.topic_id_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadataSnapshot:
    """A segment in a file of one partition's segments (Kafka's class of the same name).

    Kafka 4.3.1 never writes it to ``__remote_log_metadata``. The attributes are those of
    `RemoteLogSegmentMetadata`; ``segment_id`` is the UUID alone, for the file is of one partition.
    """

    segment_id: UUID
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_bytes: int
    state: RemoteLogSegmentState
    segment_leader_epochs: tuple[EpochEntry, ...]
    custom_metadata: bytes | None = None
    is_transaction_index_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePartitionDeleteMetadata:
    """How far the deletion of a partition is (Kafka ``RemotePartitionDeleteMetadata``)."""

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int


RemoteLogMetadata = (
    RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata
)
"""What a record of ``__remote_log_metadata`` says."""


def is_of_a_partition_that_stays(event: RemoteLogMetadata) -> bool:
    """Whether an event withdraws the mark of a deletion that has not begun: a segment is kept.

    Kafka has no event that takes a mark back. To a broker it is one more copy, or says nothing new.
    """
    if isinstance(event, RemotePartitionDeleteMetadata):
        return False
    return event.state in _OF_COPIES


_OF_COPIES = {
    RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
}
