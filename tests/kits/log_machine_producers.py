"""The state machine of a log, its second part: producers and their transactions."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import segstore
from segstore._core import encode_end_transaction_marker
from segstore.types import AppendOrigin
from tests.kits.log_machine import CODEC_IDS, RECORDS, AppendingMachine, Data, encoded
from tests.kits.log_oracle_producer import OracleBatch, OracleProducer, sequence_after

PRODUCERS = st.integers(100, 103)
CHOICES = st.integers(0, 11)
"""Which of the producers that fit."""


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
        self.reach("produce", *(["in a transaction"] if is_transactional else []))
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

    @rule(
        written=st.lists(st.tuples(PRODUCERS, RECORDS), min_size=1, max_size=4),
        commits=st.lists(st.booleans(), min_size=1, max_size=2),
        codec=CODEC_IDS,
    )
    def write_transactions(
        self, *, written: list[tuple[int, list[Data]]], commits: list[bool], codec: int
    ):
        """Several producers write in turn, and some of them end what they began."""
        for id_, data in written:
            self.produce(
                id_=id_,
                data=data,
                is_transactional=True,
                is_newer=False,
                as_follower=False,
                codec=codec,
            )
        for which, commit in enumerate(commits):
            if self._in_transactions():
                self.end_transaction(
                    which=which, commit=commit, version=0, is_new_coordinator=False
                )

    def _note_refused(self):
        """The leader epoch is noted before the producer is looked at [APP-10]."""
        self.oracle.note_epoch(self.oracle.latest_epoch or 0, self.oracle.log_end)

    def _known(self) -> list[int]:
        return sorted(id_ for id_, one in self.oracle.producers.items() if one.is_certain)

    def _in_transactions(self) -> list[int]:
        producers = self.oracle.producers
        return [id_ for id_ in self._known() if producers[id_].transaction_start is not None]

    @precondition(lambda self: any(self.oracle.producers[id_].batches for id_ in self._known()))
    @rule(which=CHOICES)
    def send_again(self, which: int):
        """A copy is answered with its first offsets, and not appended [PSM-20]."""
        sent = [batch for id_ in self._known() for batch in self.oracle.producers[id_].batches]
        self.reach("send again")
        batch = sent[which % len(sent)]
        info = self.log.append_as_leader(encoded_batch(batch))
        self._note_refused()
        assert info.is_duplicate
        assert (info.base_offset, info.last_offset) == (batch.base_offset, batch.last_offset)

    @precondition(lambda self: self._known())
    @rule(which=CHOICES, data=RECORDS, skipped=st.integers(1, 3))
    def skip_sequences(self, which: int, data: list[Data], skipped: int):
        id_, known = self._chosen(which, self._known())
        self.reach("skip sequences")
        fields = {
            "producer_id": id_,
            "producer_epoch": known.epoch,
            "base_sequence": sequence_after(known.next_sequence, skipped),
            "transactional": known.transaction_start is not None,
        }
        with pytest.raises(segstore.OutOfOrderSequenceError):
            self.log.append_as_leader(encoded(self._stamped(data), **fields))
        self._note_refused()

    def _chosen(self, which: int, ids: list[int]) -> tuple[int, OracleProducer]:
        id_ = ids[which % len(ids)]
        return id_, self.oracle.producers[id_]

    @precondition(lambda self: self._known())
    @rule(which=CHOICES, data=RECORDS)
    def produce_in_an_old_epoch(self, which: int, data: list[Data]):
        id_, known = self._chosen(which, self._known())
        if known.epoch == 0:
            return
        self.reach("produce in an old epoch")
        fields = {"producer_id": id_, "producer_epoch": known.epoch - 1, "base_sequence": 0}
        with pytest.raises(segstore.InvalidProducerEpochError):
            self.log.append_as_leader(encoded(self._stamped(data), **fields))
        self._note_refused()

    @precondition(lambda self: self._in_transactions())
    @rule(which=CHOICES, data=RECORDS)
    def leave_the_transaction(self, which: int, data: list[Data]):
        id_, known = self._chosen(which, self._in_transactions())
        self.reach("leave the transaction")
        fields = {
            "producer_id": id_,
            "producer_epoch": known.epoch,
            "base_sequence": known.next_sequence,
        }
        with pytest.raises(segstore.InvalidTxnStateError):
            self.log.append_as_leader(encoded(self._stamped(data), **fields))
        self._note_refused()

    # ---- transactions ----------------------------------------------------------------------------

    @precondition(lambda self: self.oracle.producers)
    @rule(
        which=CHOICES,
        commit=st.booleans(),
        version=st.integers(0, 2),
        is_new_coordinator=st.booleans(),
    )
    def end_transaction(self, *, which: int, commit: bool, version: int, is_new_coordinator: bool):
        """An open transaction if there is one; a marker may also end nothing."""
        ids = self._in_transactions()
        is_open = bool(ids)
        id_, known = self._chosen(which, ids or sorted(self.oracle.producers))
        self.reach(
            "commit" if commit else "abort", *(["of an open transaction"] if is_open else [])
        )
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

    @precondition(lambda self: self._known())
    @rule(which=CHOICES)
    def end_transaction_as_an_old_coordinator(self, which: int):
        id_, known = self._chosen(which, self._known())
        if known.coordinator_epoch < 1:
            return
        self.reach("end a transaction as an old coordinator")
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
        self._note_refused()


def encoded_batch(batch: OracleBatch) -> bytes:
    """Return a batch as its producer sent it."""
    return encoded(
        [tuple(record)[1:] for record in batch.records],
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
    )
