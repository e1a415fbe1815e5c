"""The producers of one partition and their transactions (Kafka ``ProducerStateManager``).

It says which batch of a producer may come next, which one is a duplicate, and where the first
transaction begins that is still undecided. All of it follows from the log; a snapshot saves the
work of reading the log from its start. One thread at a time, the owner of the log's append lock;
properties may be read without it.

Source: [PSM-10, PSM-30..PSM-60].
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from segstore._core import PublishedEnd
from segstore.errors import IllegalArgumentError
from segstore.log.producers.producer_append_info import ProducerAppendInfo
from segstore.log.producers.producer_state_entry import ProducerStateEntry
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.log.producers.snapshot_files import SnapshotFiles
from segstore.log.producers.txn_metadata import TransactionsByOffset, TxnMetadata
from segstore.log.producers.verification_state_entry import VerificationStateEntry
from segstore.types import NO_PRODUCER_ID, NO_TIMESTAMP, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore._core import Directory
    from segstore.log.producers.snapshot_file import SnapshotFile
    from segstore.log.producers.txn_metadata import CompletedTxn
    from segstore.types import AppendOrigin

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
"""A coordinator gets so much longer than a transaction's time-out to end it."""
DEFAULT_MAX_TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * 1000


class ProducerStateManager:
    """State of all records below `map_end_offset`.

    Attributes
    ----------
    config : ProducerStateManagerConfig
        The settings shared with other logs [PSM-36].
    snapshots : SnapshotFiles
        The snapshots of the partition.
    published : PublishedEnd
        That of the log: `map_end_offset` is there, which the append lane raises too.

    Parameters
    ----------
    partition : str
        For messages: ``topic-0``.
    directory : Directory
        The partition's, with its snapshots.
    config : ProducerStateManagerConfig
        Shared with other logs; read at each use.
    max_transaction_timeout_ms : int
        Kafka's ``transaction.max.timeout.ms``, in ms.
    kafka_profile : bool
        Write snapshots in place, and read past bytes behind their end, as Kafka does [DUR-62].
    """

    def __init__(
        self,
        partition: str,
        directory: Directory,
        config: ProducerStateManagerConfig | None = None,
        *,
        max_transaction_timeout_ms: int = DEFAULT_MAX_TRANSACTION_TIMEOUT_MS,
        kafka_profile: bool = False,
    ) -> None:
        self._partition = partition
        self.config = ProducerStateManagerConfig() if config is None else config
        self._max_transaction_timeout_ms = max_transaction_timeout_ms
        self.snapshots = SnapshotFiles(directory, kafka_profile=kafka_profile)
        self._producers: dict[int, ProducerStateEntry] = {}
        self._verification_states: dict[int, VerificationStateEntry] = {}
        self._ongoing_transactions = TransactionsByOffset()
        self._unreplicated_transactions = TransactionsByOffset()
        self.published = PublishedEnd()
        self._last_snapshot_offset = 0
        self._oldest_transaction_timestamp = NO_TIMESTAMP

    # ---- producers -------------------------------------------------------------------------------

    @property
    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """Entries by producer id, to be read only."""
        return MappingProxyType(self._producers)

    @property
    def producer_id_count(self) -> int:
        """Number of producers; can be read without the lock [PSM-75]."""
        return len(self._producers)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a producer nor a transaction that waits to be replicated."""
        return not self._producers and not self._unreplicated_transactions  # [PSM-48]

    @property
    def map_end_offset(self) -> int:
        """What is below it is taken in."""
        return self.published.map_end_offset

    def update_map_end_offset(self, offset: int) -> None:
        """Note that everything below *offset* is taken in."""
        self.published.map_end_offset = offset

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return what is known of a producer."""
        return self._producers.get(producer_id)

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """Return what checks the batches of one producer in one append [PSM-10]."""
        entry = self._producers.get(producer_id)
        return ProducerAppendInfo(
            self._partition,
            producer_id,
            ProducerStateEntry(producer_id) if entry is None else entry,
            origin,
            self._verification_states.get(producer_id),
        )

    def update(self, append_info: ProducerAppendInfo) -> None:
        """Take in what was appended [PSM-42].

        Raises
        ------
        IllegalArgumentError
            The producer id is -1.
        """
        producer_id = append_info.producer_id
        if producer_id == NO_PRODUCER_ID:
            raise IllegalArgumentError(
                f"an update of {self._partition} without a producer id",
                found=str(producer_id),
                expected="0 or more",
            )
        updated = append_info.to_entry()
        known = self._producers.get(producer_id)
        if known is None:
            self._producers[producer_id] = updated
        else:
            known.update(updated)
        for transaction in append_info.started_transactions:
            self._ongoing_transactions.put(transaction)
        self._update_oldest_transaction_timestamp()

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget the producers that are silent, and verifications that were not used [PSM-45]."""
        gone = [entry for entry in self._producers.values() if self._is_expired(entry, now_ms)]
        for entry in gone:
            del self._producers[entry.producer_id]
        limit = self.config.producer_id_expiration_ms
        states = self._verification_states
        for producer_id in [pid for pid, one in states.items() if now_ms - one.timestamp >= limit]:
            del states[producer_id]

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        if entry.current_txn_first_offset is not None:
            return False
        return now_ms - entry.last_timestamp >= self.config.producer_id_expiration_ms

    # ---- verification ----------------------------------------------------------------------------

    def maybe_create_verification_state_entry(
        self,
        producer_id: int,
        sequence: int,
        epoch: int,
        now_ms: int,
        *,
        supports_epoch_bump: bool = False,
    ) -> VerificationStateEntry:
        """Return the verification under way of a producer, begun here if there is none [PSM-30]."""
        entry = self._verification_states.get(producer_id)
        if entry is None:
            entry = VerificationStateEntry(
                now_ms, sequence, epoch, supports_epoch_bump=supports_epoch_bump
            )
            self._verification_states[producer_id] = entry
        entry.maybe_update_lowest_sequence_and_epoch(sequence, epoch)
        return entry

    def verification_state_entry(self, producer_id: int) -> VerificationStateEntry | None:
        """Return the verification under way of a producer."""
        return self._verification_states.get(producer_id)

    def clear_verification_state_entry(self, producer_id: int) -> None:
        """Forget it: the transaction has begun, or is over [PSM-35]."""
        self._verification_states.pop(producer_id, None)

    # ---- transactions ----------------------------------------------------------------------------

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the lowest open transaction begins."""
        first = self._ongoing_transactions.first
        return None if first is None else first.first_offset.message_offset

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """Where the lowest transaction begins that is open or not replicated yet [PSM-40]."""
        heads = [self._ongoing_transactions.first, self._unreplicated_transactions.first]
        places = [transaction.first_offset for transaction in heads if transaction is not None]
        return min(places, key=lambda place: place.message_offset, default=None)

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Return where it will be once *completed* is; asked before `complete_txn` [PSM-43]."""
        for transaction in self._ongoing_transactions:
            if transaction.producer_id != completed.producer_id:
                return transaction.first_offset.message_offset
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        """End a transaction: from here on it waits for the high watermark [PSM-44].

        Raises
        ------
        IllegalArgumentError
            No transaction that begins there is open.
        """
        transaction = self._ongoing_transactions.pop(completed.first_offset)
        if transaction is None:
            raise IllegalArgumentError(
                f"a transaction of {self._partition} was completed that is not open",
                found=str(completed),
                expected="the first offset of an open transaction",
            )
        ended = transaction._replace(last_offset=completed.last_offset)
        self._unreplicated_transactions.put(ended)
        self._update_oldest_transaction_timestamp()

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget the transactions that are replicated: with their marker [PSM-41]."""
        self._unreplicated_transactions.drop_ended_before(high_watermark)

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether a transaction hangs: open for longer than a coordinator allows [PSM-46]."""
        timestamp = self._oldest_transaction_timestamp  # one read: no lock is needed
        limit = self._max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return timestamp > 0 and now_ms - timestamp > limit

    def _update_oldest_transaction_timestamp(self) -> None:
        oldest = self._ongoing_transactions.first
        entry = None if oldest is None else self._producers.get(oldest.producer_id)
        timestamp = NO_TIMESTAMP if entry is None else entry.last_timestamp
        self._oldest_transaction_timestamp = timestamp

    # ---- snapshots -------------------------------------------------------------------------------

    @property
    def latest_snapshot_offset(self) -> int | None:
        """Offset of the newest snapshot that is known."""
        latest = self.snapshots.latest
        return None if latest is None else latest.offset

    def take_snapshot(self, *, sync: bool = True) -> SnapshotFile | None:
        """Write the state down, unless nothing was taken in since the last time [PSM-51, PSM-52].

        Parameters
        ----------
        sync : bool
            Bring the file to stable storage; a roll leaves that to `SnapshotFiles.sync_unsynced`
            on the background thread [DUR-22, DUR-29].
        """
        if self.map_end_offset <= self._last_snapshot_offset:
            return None
        end = self.map_end_offset
        file = self.snapshots.write(end, self._producers.values(), sync=sync)
        self._last_snapshot_offset = end
        return file

    # ---- truncation ------------------------------------------------------------------------------

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Go back to a snapshot within the log, when the two do not end at one offset [PSM-60].

        The log is to be read from `map_end_offset` on afterwards.

        Parameters
        ----------
        log_start_offset, log_end_offset : int
            Snapshots outside of them are deleted.
        now_ms : int
            Wall clock: expired producers are not loaded.
        """
        self.snapshots.sync_unsynced()
        for offset in self.snapshots.outside(log_start_offset + 1, log_end_offset):
            self.snapshots.delete(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._clear()
        self._load_from_snapshot(log_start_offset, now_ms)
        self._update_oldest_transaction_timestamp()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything and delete all snapshots; the log begins anew at *offset* [PSM-59]."""
        self._clear()
        for known in self.snapshots.offsets:
            self.snapshots.delete(known)
        self._last_snapshot_offset = 0
        self.published.map_end_offset = offset
        self._update_oldest_transaction_timestamp()

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Note that the log begins later; producers and open transactions stay [PSM-47]."""
        self._unreplicated_transactions.drop_ended_before(log_start_offset)
        self.published.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def _clear(self) -> None:
        self._producers.clear()
        self._ongoing_transactions.clear()
        self._unreplicated_transactions.clear()

    def _load_from_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        """Load the newest good snapshot, without the producers that are expired [PSM-56]."""
        offset, entries = self.snapshots.load_latest() or (log_start_offset, [])
        for entry in entries:
            if self._is_expired(entry, now_ms):
                continue
            self._producers[entry.producer_id] = entry
            if (first_offset := entry.current_txn_first_offset) is not None:
                place = LogOffsetMetadata(first_offset)
                self._ongoing_transactions.put(TxnMetadata(entry.producer_id, place))
        self._last_snapshot_offset = self.published.map_end_offset = offset
