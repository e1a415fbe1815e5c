"""Kafka's recovery of one segment, batch by batch (Kafka ``LogSegment.recover``) [SEG-40..SEG-43].

For ``recovery="kafka"``: every step takes effect at once, so that a recovery which fails in the
middle leaves behind what Kafka's does. `LogRecovery` is that of ``safe``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore._core import BatchTable
from segstore.errors import CorruptRecordError, InvalidRecordError
from segstore.log.producers.producer_state_rebuild import recover_producer_state
from segstore.log.recovery.epoch_changes import epoch_changes, latest_epoch
from segstore.numpy_on_demand import np
from segstore.types import CONTROL_FLAG, CURRENT_MAGIC, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segstore._core import BatchHeaders, CodecTable
    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.local.segment import Segment
    from segstore.log.local.transaction_index import TransactionIndex
    from segstore.log.producers.producer_state_manager import ProducerStateManager

_log = logging.getLogger(__name__)


class KafkaRecovery:
    """Recovers one segment.

    Parameters
    ----------
    segment : Segment
        Of a context with ``kafka_profile``.
    transaction_index : TransactionIndex
        Of the segment.
    state : ProducerStateManager
        What the log before the segment says; is brought to the segment's end.
    epochs : LeaderEpochFileCache
        Gets the epochs that are newer than its latest, and writes each at once.
    codecs : CodecTable
        For the records of control batches.
    """

    def __init__(
        self,
        segment: Segment,
        transaction_index: TransactionIndex,
        state: ProducerStateManager,
        epochs: LeaderEpochFileCache,
        codecs: CodecTable,
    ) -> None:
        self._segment = segment
        self._transaction_index = transaction_index
        self._state = state
        self._epochs = epochs
        self._codecs = codecs
        self._last_indexed_position = 0
        self._valid_bytes = 0

    def recover(self) -> int:
        """Check every batch, build the indexes anew, cut what is no batch; returns the bytes cut.

        Raises
        ------
        LogSegmentOffsetOverflowError
            An offset does not fit the segment: it is to be split [LDR-30].
        InvalidOffsetError
            Offsets go back, at a batch that gets an index entry [SEG-41].
        IllegalArgumentError
            An index is full, or a control batch holds no end of a transaction.
        """
        segment = self._segment
        segment.begin_recovery()
        self._transaction_index.reset()
        try:
            for headers, _ in segment.scan_windows():
                for part in _parts(headers, self._in_transaction()):
                    self._take(part)
        except (CorruptRecordError, InvalidRecordError) as error:  # a marker that cannot be read
            _log.warning("%s: the log ends after it: %s", segment.path, error)
        return segment.end_recovery(self._valid_bytes)

    def _in_transaction(self) -> list[int]:
        """Return the producers whose transactions are open at the end of what was taken in."""
        producers = self._state.active_producers.items()
        return [
            producer_id
            for producer_id, entry in producers
            if entry.current_txn_first_offset is not None
        ]

    def _take(self, headers: BatchHeaders) -> None:
        """Take in the next batches: first all that can fail without a look at the records."""
        recovered = self._segment.recover_batches(headers, self._last_indexed_position)
        self._last_indexed_position = recovered.last_indexed_position
        taken = headers[: recovered.taken]
        if len(taken):
            self._valid_bytes = int(taken["position"][-1]) + int(taken["size_bytes"][-1])
        current = taken[taken["magic"] >= CURRENT_MAGIC]
        for epoch, start_offset in epoch_changes(BatchTable(current), latest_epoch(self._epochs)):
            self._epochs.assign(epoch, start_offset)
        recover_producer_state(
            self._state, self._segment, current, self._codecs, self._transaction_index.append
        )
        if recovered.error is not None:
            raise recovered.error


def _parts(headers: BatchHeaders, in_transaction: Sequence[int]) -> Iterator[BatchHeaders]:
    """Divide batches, so that those that producers may refuse come alone.

    They are the control batches, whose records are read, and what a producer *in_transaction*, or
    with a transactional batch here, writes outside of a transaction.
    """
    attributes, producer_ids = headers["attributes"], headers["producer_id"]
    is_control = (attributes & CONTROL_FLAG) != 0
    is_transactional = (attributes & TRANSACTIONAL_FLAG) != 0
    suspects = np.append(producer_ids[is_transactional], np.array(in_transaction, np.int64))
    may_fail = is_control | (~is_transactional & np.isin(producer_ids, suspects))
    start = 0
    for row in np.flatnonzero(may_fail & (producer_ids >= 0)):
        yield headers[start:row]
        yield headers[row : row + 1]
        start = int(row) + 1
    yield headers[start:]
