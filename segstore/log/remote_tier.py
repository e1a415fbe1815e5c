"""What a log knows of its part in remote storage: up to where it is there, from where it is here.

The storage itself is the embedder's, who copies sealed segments and tells the log so. What he gives
at the open, a `RemoteLogReader`, reads there (Kafka ``RemoteLogManager``, ``AsyncOffsetReader``).

Source: [UNI-6, LST-3, LST-6, LST-7, RET-2, TS-1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from segstore.errors import IllegalStateError, OffsetOutOfRangeError
from segstore.log.files.topic_names import (
    CLUSTER_METADATA_TOPIC,
    INTERNAL_TOPICS,
    REMOTE_LOG_METADATA_TOPIC,
)
from segstore.log.local.timestamp_lookup import UNKNOWN_OFFSET, fetch_offset
from segstore.number_limits import MAX_LONG
from segstore.types import NO_TIMESTAMP, FileTimestampAndOffset, SpecialTimestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore._core import Directory, RemoteReadLane
    from segstore.config.log_config import LogConfig
    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.types import EpochEntry, LogOffsetMetadata, TopicPartition


_FoundT = TypeVar("_FoundT")

NOTHING_UPLOADED: Final = -1
_NO_EPOCH: Final = -1


class RemoteRead(NamedTuple):
    """What a `RemoteLogReader` has read: batches of one remote segment, in order."""

    records: bytes | memoryview
    """Whole batches; the last one may be cut. Empty: nothing was read."""
    offset_metadata: LogOffsetMetadata
    """Base offset of the first batch, its segment's start offset, the position there [TIER-68].

    The offset that was asked for, without a place, when nothing was read.
    """
    object_name: str
    """What the storage calls the segment: the file, or the object's key or URL; for errors."""
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    """None unless they were asked for, and for a first batch that is larger than the limit."""
    end_offset: int = MAX_LONG
    """All records are below it; the highest number where the reader does not know an end."""
    lane: RemoteReadLane[Any] | None = None
    """Takes further reads of the same log, where the core may do these by itself [D11]."""


@runtime_checkable
class RemoteLogReader(Protocol):
    """Reads records that are in remote storage; given to `open` for logs with remote storage.

    One object may serve many logs. The thread that calls the log calls it, without a lock. Its
    exceptions leave that call; each names the object [DUR-144].

    *leader_epochs* are those of the log, ascending. A batch belongs to the log only if its leader
    epoch is that of its base offset there; no other is returned [DUR-141].
    """

    def read(  # noqa: PLR0913 - as Kafka's RemoteStorageFetchInfo
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        max_bytes: int,
        *,
        min_one_message: bool,
        leader_epochs: Sequence[EpochEntry],
        is_committed: bool,
        local_aborted_transactions: Callable[[int, int], Iterable[AbortedTransaction]],
    ) -> RemoteRead:
        """Return batches: first the one with *start_offset*, or the next after it.

        Parameters
        ----------
        topic_partition : TopicPartition
            Partition of the records.
        start_offset : int
            From the log start on.
        max_bytes : int
            Most bytes of the result.
        min_one_message : bool
            A first batch that is larger is returned alone and whole; else nothing is [TIER-67].
        leader_epochs : sequence of EpochEntry
            See above.
        is_committed : bool
            Return the aborted transactions too, as a broker names them to a consumer [TIER-69].
        local_aborted_transactions : callable
            Gives those of the local segments that reach into ``[first offset, end offset)``.

        Raises
        ------
        OffsetOutOfRangeError
            No remote segment of this history holds *start_offset* [TIER-65].

        Source: Kafka ``RemoteLogManager.read``.
        """

    def aborted_transactions(
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        end_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> Iterable[AbortedTransaction]:
        """Return the entries of remote transaction indexes that reach into a range.

        Those that end at *start_offset* or later, and begin below *end_offset*. More do no
        harm. The log has those of its local segments from elsewhere.

        Parameters
        ----------
        topic_partition : TopicPartition
            Partition of the transactions.
        start_offset, end_offset : int
            The range; *end_offset* may be after the last remote segment.
        leader_epochs : sequence of EpochEntry
            See above.

        Source: Kafka ``RemoteLogManager.collectAbortedTransactions``.
        """

    def find_offset_by_timestamp(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        starting_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> FileTimestampAndOffset | None:
        """Return the first record in remote storage with that timestamp or a later one, or None.

        The log uses the result only below its local log start; above that it searches its own
        files [TIER-71, TIER-72].

        Parameters
        ----------
        topic_partition : TopicPartition
            Partition of the records.
        timestamp : int
            In ms since 1970.
        starting_offset : int
            The log start; records below it are deleted.
        leader_epochs : sequence of EpochEntry
            See above.
        """


def is_remote_log_enabled(config: LogConfig, topic: str, *, system_enabled: bool) -> bool:
    """Whether a log of *topic* with these settings has a part in remote storage [UNI-6].

    That of a compacted topic has none, nor that of one of Kafka's own.
    """
    return (
        system_enabled
        and config.remote_storage_enable
        and "compact" not in config.cleanup_policies
        and topic not in INTERNAL_TOPICS
        and topic not in {REMOTE_LOG_METADATA_TOPIC, CLUSTER_METADATA_TOPIC}
    )


def may_have_copies(config: LogConfig, topic: str) -> bool:
    """Whether a log of *topic* may have copies in remote storage, read from here or not [CFG-46].

    Where the settings have ended the remote part, what could not be deleted yet is left there.
    """
    return config.remote_log_delete_on_disable or is_remote_log_enabled(
        config, topic, system_enabled=True
    )


class RemoteTier:
    """The remote part of one log, while it has one; changed under its append lock.

    Parameters
    ----------
    reader : RemoteLogReader or None
        Answers for records that are in remote storage; None: nobody does, they are only kept.
    local_log_start_offset : int
        Where the log begins here.

    Attributes
    ----------
    local_log_start_offset : int
        Records below it may be in remote storage only.
    highest_offset : int
        The last offset that is known to be in remote storage, -1 for none.
    copies : bool
        Sealed segments are uploaded: they go here when they are there (``remote.log.copy.disable``
        is off).
    lane : RemoteReadLane or None
        What a read has brought for the next ones; it knows when it holds no more.
    """

    __slots__ = ("_reader", "copies", "highest_offset", "lane", "local_log_start_offset")

    def __init__(
        self, reader: RemoteLogReader | None, local_log_start_offset: int, *, copies: bool
    ) -> None:
        self._reader = reader
        self.local_log_start_offset = local_log_start_offset
        self.highest_offset = NOTHING_UPLOADED
        self.copies = copies
        self.lane: RemoteReadLane[Any] | None = None

    @property
    def has_reader(self) -> bool:
        """Whether its records can be read."""
        return self._reader is not None

    def copy_segments(self, *, copies: bool) -> None:
        """Upload sealed segments from now on, or no more."""
        self.copies = copies

    def restart_at(self, offset: int) -> None:
        """The local part was emptied, or is looked at again, and begins at *offset*."""
        self.local_log_start_offset = offset

    def raise_local_log_start(self, offset: int) -> None:
        """Let the local part begin at *offset*, or where it does, above that [LST-1, LST-3]."""
        self.local_log_start_offset = max(offset, self.local_log_start_offset)

    def raise_highest_offset(self, offset: int) -> None:
        """Everything up to *offset* is in remote storage now; it never falls [LST-6]."""
        self.highest_offset = max(offset, self.highest_offset)

    def forget_from(self, offset: int) -> None:
        """What is uploaded from *offset* on is not what will be written there; that is here."""
        self.highest_offset = min(self.highest_offset, offset - 1)
        self.local_log_start_offset = min(self.local_log_start_offset, offset)

    def allows_deletion(self, end_offset: int) -> bool:
        """Whether a segment that ends at *end_offset* may go here: it is uploaded [RET-2]."""
        return not self.copies or 0 < end_offset <= self.highest_offset + 1

    def only_local(self, segments: Iterable[Segment]) -> list[Segment]:
        """Return those that are not uploaded; one of a single record may be [LST-7, DIFF-28].

        Source: Kafka 4.4.0. Before, a segment that began with the last uploaded record counted.
        """
        return [one for one in segments if one.base_offset > self.highest_offset]

    def read(  # noqa: PLR0913 - as that of `RemoteLogReader`
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        max_bytes: int,
        *,
        min_one_message: bool,
        leader_epochs: Sequence[EpochEntry],
        is_committed: bool,
        local_aborted_transactions: Callable[[int, int], Iterable[AbortedTransaction]],
    ) -> RemoteRead:
        """Read batches from remote storage; as of `RemoteLogReader`."""
        reader = self._reader_of(topic_partition)
        found = reader.read(
            topic_partition,
            start_offset,
            max_bytes,
            min_one_message=min_one_message,
            leader_epochs=leader_epochs,
            is_committed=is_committed,
            local_aborted_transactions=local_aborted_transactions,
        )
        if not isinstance(found, RemoteRead):
            raise _wrong_result(topic_partition, found, "a RemoteRead")
        if found.lane is not None:
            self.lane = found.lane
        return found

    def aborted_transactions(
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        end_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> Iterable[AbortedTransaction]:
        """Ask for the entries of remote transaction indexes; as of `RemoteLogReader`."""
        reader = self._reader_of(topic_partition)
        return reader.aborted_transactions(topic_partition, start_offset, end_offset, leader_epochs)

    def _reader_of(self, topic_partition: TopicPartition) -> RemoteLogReader:
        if self._reader is None:
            raise IllegalStateError(
                f"{topic_partition} has records in remote storage alone, and was opened without"
                " remote_log_reader, which reads them",
                found="no remote_log_reader",
                expected="a remote_log_reader",
            )
        return self._reader

    def search(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        log_start_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> FileTimestampAndOffset | None:
        """Ask remote storage for the first record of that time or a later one.

        Raises
        ------
        IllegalStateError
            There is no reader, or what it gave is no record of the log from its log start on.
        """
        found = self._reader_of(topic_partition).find_offset_by_timestamp(
            topic_partition, timestamp, log_start_offset, leader_epochs
        )
        if found is not None and not isinstance(found, FileTimestampAndOffset):
            raise _wrong_result(topic_partition, found, "a FileTimestampAndOffset or None")
        if found is not None and not _is_offset_from(log_start_offset, found.offset):
            raise IllegalStateError(
                f"the remote_log_reader of {topic_partition} gave the offset {found.offset!r}",
                found=repr(found.offset),
                expected=f"an offset from the log start {log_start_offset} on",
            )
        return found

    def first_of(
        self, remote: FileTimestampAndOffset | None, find_here: Callable[[int], _FoundT]
    ) -> FileTimestampAndOffset | _FoundT:
        """Return *remote* if it is in remote storage alone; what is here is asked for here.

        There it may be of another lineage, cut here since. Source: Kafka
        ``RemoteLogManager.findOffsetByTimestamp``, ``OffsetResultHolder``.

        Parameters
        ----------
        remote : FileTimestampAndOffset or None
            What `search` gave.
        find_here : callable
            Called with the local log start.
        """
        start = self.local_log_start_offset
        if remote is not None and remote.offset < start:
            return remote
        found = find_here(start)
        if remote is not None and remote.offset < self.local_log_start_offset:
            return remote  # it was here, and has gone while we looked
        return found


def _wrong_result(
    topic_partition: TopicPartition, found: object, expected: str
) -> IllegalStateError:
    return IllegalStateError(
        f"the remote_log_reader of {topic_partition} gave {type(found).__name__}",
        found=type(found).__name__,
        expected=expected,
    )


def _is_offset_from(log_start_offset: int, offset: object) -> bool:
    return type(offset) is int and log_start_offset <= offset <= MAX_LONG


def fetch_tiered_offset(  # noqa: PLR0913 - the log, and what is asked
    tier: RemoteTier,
    local_log: LocalLog,
    epochs: LeaderEpochFileCache,
    topic_partition: TopicPartition,
    log_start_offset: int,
    end_offset: int,
    timestamp: int,
) -> FileTimestampAndOffset:
    """Answer as `fetch_offset`, for a log with a remote part: that one is asked first [TS-1]."""
    match timestamp:
        case SpecialTimestamp.EARLIEST_LOCAL:
            return _at(tier.local_log_start_offset, epochs)
        case SpecialTimestamp.LATEST_TIERED:
            highest = tier.highest_offset
            return _unknown(_NO_EPOCH) if highest == NOTHING_UPLOADED else _at(highest, epochs)
        case SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
            if tier.highest_offset != NOTHING_UPLOADED:
                return _at(max(tier.highest_offset + 1, log_start_offset), epochs)
            if tier.local_log_start_offset != log_start_offset:
                return _unknown(_NO_EPOCH)
            timestamp = SpecialTimestamp.EARLIEST
        case SpecialTimestamp.LATEST | SpecialTimestamp.EARLIEST | SpecialTimestamp.MAX:
            pass
        case _ if log_start_offset != local_log.log_end.message_offset:  # not empty [TS-4]
            remote = tier.search(topic_partition, timestamp, log_start_offset, epochs.entries)
            found = tier.first_of(
                remote, lambda start: fetch_offset(local_log, epochs, start, end_offset, timestamp)
            )
            return found if found.offset < end_offset else _unknown(None)
    return fetch_offset(local_log, epochs, log_start_offset, end_offset, timestamp)


def _at(offset: int, epochs: LeaderEpochFileCache) -> FileTimestampAndOffset:
    return FileTimestampAndOffset(NO_TIMESTAMP, offset, epochs.epoch_for_offset(offset))


def _unknown(epoch: int | None) -> FileTimestampAndOffset:
    return FileTimestampAndOffset(NO_TIMESTAMP, UNKNOWN_OFFSET, epoch)


def only_in_remote_storage(
    offset: int, log_start_offset: int, first: int, last: int, directory: Directory
) -> OffsetOutOfRangeError:
    """Return the error that names an offset which the log has, and not here."""
    return OffsetOutOfRangeError(
        f"offset {offset} is not here: the log begins at {log_start_offset}, and its records below"
        f" {first} are in remote storage alone",
        file=directory.path,
        found=str(offset),
        expected=f"{first} to {last}",
    )
