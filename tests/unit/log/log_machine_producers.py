"""The state machine of a log, its second part: producers and their transactions."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

import segstore
from segstore._core import encode_end_transaction_marker
from segstore.types import AppendOrigin
from tests.unit.log.log_machine import CODEC_IDS, RECORDS, AppendingMachine, Data, encoded
from tests.unit.log.log_oracle import OracleBatch, OracleProducer, sequence_after

PRODUCERS = st.integers(100, 103)


class ProducingMachine(AppendingMachine):
    """Four producers, each with at most one transaction."""

    # ---- producers -------------------------------------------------------------------------------

    @rule(
        id_=PRODUCERS,
        data=RECORDS,
        is_transactional=st.booleans(),
        is_newer=st.booleans(),
        as_follower=st.booleans(),
        codec=CODEC_IDS,
    )
    def produce(  # noqa: PLR0913 - what a batch of a producer may be
        self,
        *,
        id_: int,
        data: list[Data],
        is_transactional: bool,
        is_newer: bool,
        as_follower: bool,
        codec: int,
    ):
        known = self.oracle.producers.get(id_, OracleProducer())
        is_newer = is_newer or known.epoch < 0 or not known.is_certain
        is_transactional = is_transactional or known.transaction_start is not None
        fields = {
            "producer_id": id_,
            "producer_epoch": known.epoch + is_newer,
            "base_sequence": 0 if is_newer else known.next_sequence,
        }
        records = self._stamped(data)
        base_offset = self.oracle.log_end
        epoch = self.oracle.latest_epoch or 0
        if as_follower:
            content = encoded(
                records,
                codec=codec,
                transactional=is_transactional,
                base_offset=base_offset,
                partition_leader_epoch=epoch,
                **fields,
            )
            info = self.log.append_as_follower(content, epoch)
        else:
            content = encoded(records, codec=codec, transactional=is_transactional, **fields)
            info = self.log.append_as_leader(content, epoch)
        assert (info.base_offset, info.is_duplicate) == (base_offset, False)
        self.oracle.note_epoch(epoch, base_offset)
        self._note(records, base_offset, is_transactional=is_transactional, **fields)
        producer = self.oracle.producers[id_]
        if not producer.is_certain and producer.transaction_start is None:
            producer.is_certain, producer.coordinator_epoch = True, -1

    @rule(id_=PRODUCERS, which=st.integers(0, 4))
    def send_again(self, id_: int, which: int):
        """A copy is answered with its first offsets, and not appended [PSM-20]."""
        known = self.oracle.producers.get(id_)
        if known is None or not known.is_certain or which >= len(known.batches):
            return
        batch = known.batches[which]
        info = self.log.append_as_leader(encoded_batch(batch))
        assert info.is_duplicate
        assert (info.base_offset, info.last_offset) == (batch.base_offset, batch.last_offset)

    @rule(id_=PRODUCERS, data=RECORDS, skipped=st.integers(1, 3))
    def skip_sequences(self, id_: int, data: list[Data], skipped: int):
        known = self.oracle.producers.get(id_)
        if known is None or not known.is_certain:
            return
        fields = {
            "producer_id": id_,
            "producer_epoch": known.epoch,
            "base_sequence": sequence_after(known.next_sequence, skipped),
            "transactional": known.transaction_start is not None,
        }
        with pytest.raises(segstore.OutOfOrderSequenceError):
            self.log.append_as_leader(encoded(self._stamped(data), **fields))

    @rule(id_=PRODUCERS, data=RECORDS)
    def produce_in_an_old_epoch(self, id_: int, data: list[Data]):
        known = self.oracle.producers.get(id_)
        if known is None or not known.is_certain or known.epoch == 0:
            return
        fields = {"producer_id": id_, "producer_epoch": known.epoch - 1, "base_sequence": 0}
        with pytest.raises(segstore.InvalidProducerEpochError):
            self.log.append_as_leader(encoded(self._stamped(data), **fields))

    @rule(id_=PRODUCERS, data=RECORDS)
    def leave_the_transaction(self, id_: int, data: list[Data]):
        known = self.oracle.producers.get(id_)
        if known is None or not known.is_certain or known.transaction_start is None:
            return
        fields = {
            "producer_id": id_,
            "producer_epoch": known.epoch,
            "base_sequence": known.next_sequence,
        }
        with pytest.raises(segstore.InvalidTxnStateError):
            self.log.append_as_leader(encoded(self._stamped(data), **fields))

    # ---- transactions ----------------------------------------------------------------------------

    @rule(
        id_=PRODUCERS,
        commit=st.booleans(),
        version=st.integers(0, 2),
        is_new_coordinator=st.booleans(),
    )
    def end_transaction(self, *, id_: int, commit: bool, version: int, is_new_coordinator: bool):
        known = self.oracle.producers.get(id_)
        if known is None:
            return
        self.coordinator_epoch += is_new_coordinator
        producer_epoch = known.epoch + (version == 2)
        base_offset = self.oracle.log_end
        leader_epoch = self.oracle.latest_epoch or 0
        marker = encode_end_transaction_marker(
            0,
            self.time.now_ms,
            leader_epoch,
            id_,
            producer_epoch,
            commit=commit,
            coordinator_epoch=self.coordinator_epoch,
        )
        info = self.log.append_as_leader(
            marker, leader_epoch, origin=AppendOrigin.COORDINATOR, transaction_version=version
        )
        assert info.base_offset == base_offset
        self.oracle.note_epoch(leader_epoch, base_offset)
        was_certain = known.is_certain
        self._note(
            [(self.time.now_ms, None, None)],
            base_offset,
            producer_id=id_,
            producer_epoch=producer_epoch,
            is_transactional=True,
            marker="commit" if commit else "abort",
            coordinator_epoch=self.coordinator_epoch,
        )
        known.is_certain = was_certain or version == 2

    @rule(id_=PRODUCERS)
    def end_transaction_as_an_old_coordinator(self, id_: int):
        known = self.oracle.producers.get(id_)
        if known is None or not known.is_certain or known.coordinator_epoch < 1:
            return
        marker = encode_end_transaction_marker(
            0,
            self.time.now_ms,
            0,
            id_,
            known.epoch,
            commit=True,
            coordinator_epoch=known.coordinator_epoch - 1,
        )
        with pytest.raises(segstore.TransactionCoordinatorFencedError):
            self.log.append_as_leader(
                marker, origin=AppendOrigin.COORDINATOR, transaction_version=1
            )


def encoded_batch(batch: OracleBatch) -> bytes:
    """Return a batch as its producer sent it."""
    return encoded(
        [tuple(record)[1:] for record in batch.records],
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
    )
