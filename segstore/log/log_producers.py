"""What a log knows of its producers, and what verifies their transactions [PSM-*].

Source: Kafka ``UnifiedLog``: activeProducers, lastRecordsOfActiveProducers,
maybeStartTransactionVerification.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.arguments import flag, integer, natural
from segstore.errors import DiskFullError, FsyncFailedError, ResourceError, SegstoreError
from segstore.log.directory.profile import Profile
from segstore.log.local.transaction_index_check import (
    check_indexes,
    contradicts_an_index,
    write_index,
    wrong_indexes,
)
from segstore.log.log_truncator import LogTruncator
from segstore.log.producers import active_producers, transaction_verification

if TYPE_CHECKING:
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.log.producers.active_producers import ActiveProducer, LastRecord
    from segstore.log.producers.verification_state_entry import VerificationGuard

_log = logging.getLogger(__name__)


class LogProducers(LogTruncator):
    """Views of the producer state, each taken under the append lock."""

    def active_producers(self) -> list[ActiveProducer]:
        """Return the producers that are known: their epochs, sequences, open transactions."""
        self._require_writable()
        with self._append_lock:
            return active_producers.active_producers(self._producers)

    def last_records_of_active_producers(self) -> dict[int, LastRecord]:
        """Return where each producer's newest data is; compaction keeps it [PSM-75]."""
        self._require_writable()
        with self._append_lock:
            return active_producers.last_records_of_active_producers(self._producers)

    @property
    def producer_id_count(self) -> int:
        """Number of producers that are known; takes no lock."""
        self._require_writable()
        return self._producers.producer_id_count

    def remove_expired_producers(self, now_ms: int | None = None) -> None:
        """Forget the producers that are silent for too long [PSM-45].

        Parameters
        ----------
        now_ms : int or None
            None = the wall clock.
        """
        self._require_writable()
        now_ms = self._now_ms() if now_ms is None else integer("now_ms", now_ms)
        with self._append_lock:
            self._producers.remove_expired_producers(now_ms)

    def has_late_transaction(self, now_ms: int | None = None) -> bool:
        """Whether a transaction hangs: open for longer than a coordinator allows [PSM-46]."""
        self._require_writable()
        now_ms = self._now_ms() if now_ms is None else integer("now_ms", now_ms)
        return self._producers.has_late_transaction(now_ms)

    def take_producer_snapshot(self) -> None:
        """Write the producers down, as a close and a roll do [PSM-51]."""
        self._require_writable()
        with self._append_lock:
            self._require_writable()
            self._producers.take_snapshot()

    def _take_last_snapshot(self) -> None:
        """Write the producers down for the next open, all on stable storage [CLO-1, DUR-24]."""
        with self._flusher.poisoned_by(FsyncFailedError):
            self._producers.sync_snapshots()
            try:
                self._producers.take_snapshot()
            except (DiskFullError, ResourceError) as error:  # [DUR-22]
                if self.profile is Profile.KAFKA:
                    raise
                _log.warning("%s: no producer snapshot: %s", self.path, error)

    def maybe_start_transaction_verification(
        self,
        producer_id: int,
        sequence: int,
        epoch: int,
        *,
        supports_epoch_bump: bool = False,
    ) -> VerificationGuard:
        """Return the guard that a transaction's first batch must be appended with [PSM-32].

        Raises
        ------
        InvalidProducerEpochError
            A newer producer of the same id is known.
        """
        self._require_writable()
        producer_id, epoch = natural("producer_id", producer_id), integer("epoch", epoch)
        flag("supports_epoch_bump", supports_epoch_bump)
        with self._append_lock:
            if not self._expires_producers:
                self._expire_producers_later()
            return transaction_verification.maybe_start_transaction_verification(
                self._producers,
                producer_id,
                integer("sequence", sequence),
                epoch,
                self._now_ms(),
                supports_epoch_bump=supports_epoch_bump,
            )

    def collect_aborted_transactions(
        self, start_offset: int, upper_bound_offset: int
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that a fetch of the range has to know [LOC-10].

        Of the segments from that of *start_offset* on: one that ended before *start_offset* in the
        same segment is among them, as in Kafka. Who reads them compares offsets.

        Raises
        ------
        CorruptIndexError
            The index of one of these segments is not what the batches say. Kafka's profile believes
            it.
        """
        self._require_open()
        start_offset = integer("start_offset", start_offset)
        upper_bound_offset = integer("upper_bound_offset", upper_bound_offset)
        local_log = self._local_log
        if self.profile is Profile.SAFE:
            check_indexes(self._batch_transactions, local_log, start_offset, self.log_start_offset)
        return local_log.collect_aborted_transactions(
            self.log_start_offset, start_offset, upper_bound_offset
        )

    def rebuild_transaction_indexes(self) -> list[str]:
        """Make the transaction indexes anew that the batches contradict; returns their names.

        All batch headers are looked at, and appends wait meanwhile. Readers here do not ask these
        files; a broker that opens the directory later believes them. One stays as it is where
        damaged or missing batches hide what it should hold: `verify` names it.

        Source: [DUR-8, DUR-52].
        """
        self._require_writable()
        with self._append_lock:
            self._require_writable()
            self._begin_change()
            return self._rebuild_wrong_indexes()

    def _rebuild_wrong_indexes(self) -> list[str]:
        """As `rebuild_transaction_indexes`; nothing is appended."""
        wrong = wrong_indexes(self._local_log, self.log_start_offset, may_grow=False)
        with self._flusher.poisoned_by(FsyncFailedError):
            return [
                write_index(self._directory, one.base_offset, one.content)
                for one in wrong
                if one.content is not None
            ]

    def _rebuild_indexes_at_last(self) -> None:
        """Before the end, make wrong transaction indexes anew for the broker that may follow.

        That one is wrong shows where the batches of its segment were gone through, for a reader of
        committed data. No failure but that of a sync keeps a log from being closed [DUR-22].
        """
        try:
            if not contradicts_an_index(
                self._batch_transactions, self._directory, self.log_start_offset
            ):
                return
            with self._append_lock:
                names = self._rebuild_wrong_indexes()
        except FsyncFailedError:
            raise
        except SegstoreError as error:
            _log.warning("%s: a wrong transaction index was not made anew: %s", self.path, error)
        else:
            if names:
                _log.warning("%s: made anew from the batches: %s", self.path, ", ".join(names))
