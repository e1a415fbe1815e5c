"""The topic ``__remote_log_metadata``, and what one of its partitions says [TIER-20…TIER-30]."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Protocol

from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.log.files.topic_names import REMOTE_LOG_METADATA_TOPIC
from segstore.remote.metadata.remote_log_metadata_cache import unknown_segment
from segstore.remote.metadata.remote_log_metadata_serde import parse_event, serialize
from segstore.remote.metadata.remote_partition_metadata_store import RemotePartitionMetadataStore
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
        TopicIdPartition,
    )


class MetadataTopic(Protocol):
    """The topic ``__remote_log_metadata``, as the manager of the metadata needs it."""

    @property
    def partitions_count(self) -> int:
        """At least 1; it does not change while the manager is open."""

    def append(self, partition: int, value: bytes) -> None:
        """Append a record without a key to a partition; it is durable at the return."""

    def values(self, partition: int) -> Iterable[bytes | None]:
        """Return the values of all records of a partition, from its begin on, in their order."""


class MetadataTopicPartition:
    """One partition of the topic, with what it says of the partitions whose events it has.

    It is read once, at the first use, and once more for a partition that was stopped and is used
    again. Several threads may use it: changes wait for each other, answers for nobody.
    """

    def __init__(self, topic: MetadataTopic, number: int) -> None:
        self._topic = topic
        self._number = number
        self._lock = Lock()
        self._store = RemotePartitionMetadataStore()
        self._is_read = False
        self._damage: SegstoreError | None = None
        self._stopped: set[TopicIdPartition] = set()

    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """Return what is known of *partition*, after it is loaded.

        Raises
        ------
        CorruptLogError, UnsupportedFormatError, IllegalArgumentError
            A record is no event that is known, or begins a copy in another state. It is not looked
            at again before `forget_damage`.
        """
        found = self._store.find(partition)
        if found is not None:
            return found
        with self._lock:
            return self._loaded(partition)

    def change(self, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> None:
        """Append what is new of a segment, then count it.

        Raises
        ------
        RemoteResourceNotFoundError
            It is an update of a segment that is not known [TIER-30].
        IllegalStateError
            The state may not follow [TIER-23].
        """
        with self._lock:
            found = self._loaded(event.topic_id_partition).segment(event.segment_id.id)
            if not isinstance(event, RemoteLogSegmentMetadata) and found is None:
                raise unknown_segment(event)
            before = None if found is None else found.state
            if not RemoteLogSegmentState.is_valid_transition(before, event.state):
                raise _wrong_state(f"segment {event.segment_id.id}", before, event.state)
            self._topic.append(self._number, serialize(event))
            self._store.apply(event)

    def change_deletion(self, event: RemotePartitionDeleteMetadata) -> None:
        """Append how far the deletion of a partition is, unless it is as far already; count it.

        Raises
        ------
        IllegalStateError
            A state in between is missing [TIER-24].
        """
        with self._lock:
            self._loaded(event.topic_id_partition)
            found = self._store.deletion(event.topic_id_partition)
            before = None if found is None else found.state
            if before is not None and event.state <= before:
                return
            if not RemotePartitionDeleteState.is_valid_transition(before, event.state):
                raise _wrong_state(str(event.topic_id_partition), before, event.state)
            self._topic.append(self._number, serialize(event))
            self._store.apply(event)

    def stop(self, partition: TopicIdPartition) -> None:
        """Give up the memory of *partition*.

        A begun deletion that has no segment left is kept: only its end can follow, and takes it
        away. Else that would read all events again.
        """
        with self._lock:
            if self._is_read and not self._is_to_end(partition):
                self._store.forget(partition)
                self._stopped.add(partition)

    def _is_to_end(self, partition: TopicIdPartition) -> bool:
        deletion, cache = self._store.deletion(partition), self._store.find(partition)
        return (
            deletion is not None
            and deletion.state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED
            and cache is not None
            and not any(cache.list_remote_log_segments(None))
        )

    def close(self) -> None:
        """Give up the memory of all partitions."""
        with self._lock:
            self._store.forget_all()

    def forget_damage(self) -> None:
        """Look at a record again that was no event: it may have been repaired."""
        with self._lock:
            self._damage = None

    def _loaded(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        found = self._store.find(partition)
        if found is not None:
            return found
        if not self._is_read:
            self._read(None)
            self._is_read = True
        elif partition in self._stopped:
            self._read(partition)
        self._stopped.discard(partition)
        self._store.assign(partition)
        self._store.mark_initialized(partition)
        return self._store.cache(partition)

    def _read(self, only: TopicIdPartition | None) -> None:
        """Read all events, or those of one partition."""
        if self._damage is not None:
            raise self._damage.with_traceback(None)
        seen: set[TopicIdPartition] = set()
        try:
            for number, value in enumerate(self._topic.values(self._number)):
                try:
                    self._take(parse_event(value), only, seen)
                except (CorruptLogError, UnsupportedFormatError, IllegalArgumentError) as error:
                    error.message += f", in record {number} of the partition, counted from 0"
                    self._damage = error.locate(f"{REMOTE_LOG_METADATA_TOPIC}-{self._number}")
                    raise self._damage from error.__cause__
        except BaseException:
            for each in seen:
                self._store.forget(each)
            raise
        for each in seen:
            self._store.mark_initialized(each)

    def _take(
        self, event: RemoteLogMetadata, only: TopicIdPartition | None, seen: set[TopicIdPartition]
    ) -> None:
        partition = event.topic_id_partition
        if only is None or partition == only:
            seen.add(partition)
            self._store.assign(partition)
            self._store.apply(event)


def _wrong_state(
    what: str,
    before: RemoteLogSegmentState | RemotePartitionDeleteState | None,
    after: RemoteLogSegmentState | RemotePartitionDeleteState,
) -> IllegalStateError:
    return IllegalStateError(
        f"the state does not follow the one that {what} has in remote storage",
        found=f"{after.name} after {'none' if before is None else before.name}",
        expected="the next state of a copy or of a deletion",
    )
