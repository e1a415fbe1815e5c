"""Idempotent and transactional producers whose log is killed: each record once, in order [DUR-2].

The producers live on, as Kafka's clients do: what was not acknowledged is sent again as it was, and
an open transaction is aborted by its coordinator before the next one begins.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, NamedTuple

import segstore
from segstore._core import encode_end_transaction_marker
from segstore.types import AppendOrigin
from tests.crash.kill_history import fresh_logs
from tests.crash.kill_writers import SETTINGS
from tests.crash.killed_process import OPENED, Note, Teller, run_until_killed
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog

SEND, BEGIN, END = b"p", b"t", b"e"
IDEMPOTENT, TRANSACTIONAL = (100, 101), 200
FULL_RECORDS = 1500
COMMITTED = 1
TIME = int(time.time() * 1000)  # producers that are silent for a day are forgotten


class Sent(NamedTuple):
    """A batch of an idempotent producer."""

    sequence: int
    count: int


class Producers:
    """What the producers know: batches that were sent, transactions that were ended."""

    def __init__(self) -> None:
        self.acked: dict[int, list[Sent]] = {id_: [] for id_ in IDEMPOTENT}
        self.pending: dict[int, Sent] = {}
        self.epoch = -1
        self.transactions: list[list[int]] = []
        """Of each that was begun: records that were sent at least, at most, and how it ended."""

    def next_sequence(self, id_: int) -> int:
        """Return the first sequence number that was not acknowledged."""
        return sum(self.acked[id_][-1]) if self.acked[id_] else 0

    def take(self, notes: list[Note]) -> None:
        """Go through what a child told before it was killed."""
        for note in notes:
            if note.step == SEND and note.where < len(IDEMPOTENT):
                id_, sent = IDEMPOTENT[note.where], Sent(note.first, note.second)
                self.pending[id_] = sent
                if note.is_done:
                    self.acked[id_].append(self.pending.pop(id_))
            elif note.step == SEND:
                self.transactions[-1][0 if note.is_done else 1] += note.second
            elif note.step == BEGIN:
                self.epoch = note.first
                self.transactions.append([0, 0, -1])
            elif note.step == END:
                self.transactions[-1][2] = note.first if note.is_done else note.first + 2


def test_each_record_of_a_producer_is_there_once(
    tmp_path: Path, chooser: random.Random, kills: int
):
    """[DUR-1, DUR-2, DUR-52] Sequences, open transactions and markers come back as they were."""
    logs = fresh_logs(tmp_path)
    path, _ = next(logs)
    known = Producers()
    sent = 0
    for kill in range(kills):
        notes = run_until_killed(produce(path, known, chooser.getrandbits(32)), chooser, kill)
        known.take(notes)
        sent += len(notes)
        if chooser.random() < 0.3:
            continue
        with segstore.open(path, **SETTINGS) as log:
            end = log.log_end_offset
            check_idempotent(log, known)
            check_transactions(log, known)
            assert log.verify().ok, str(log.verify())
        if end > FULL_RECORDS:
            path, _ = next(logs)
            known = Producers()
    assert sent


def check_idempotent(log: UnifiedLog, known: Producers) -> None:
    """Each number once, in order; a copy of what came last is known as one [PSM-20]."""
    states = {one.producer_id: one for one in log.active_producers()}
    values = [value for _, _, _, value in log.scan().tuples()]
    for id_ in IDEMPOTENT:
        prefix = b"%d:" % id_
        numbers = [int(one[len(prefix) :]) for one in values if one.startswith(prefix)]
        assert numbers == list(range(len(numbers)))
        after = known.next_sequence(id_)
        pending = known.pending.get(id_)
        assert len(numbers) in {after, after if pending is None else sum(pending)}
        if numbers:
            assert states[id_].last_sequence == numbers[-1]
            assert states[id_].current_txn_start_offset == -1
            last = pending if pending and len(numbers) > after else known.acked[id_][-1]
            assert log.append_as_leader(numbered(id_, last)).is_duplicate


def check_transactions(log: UnifiedLog, known: Producers) -> None:
    """What was committed is seen whole, what was aborted or is open not at all."""
    is_theirs = b"%d:" % TRANSACTIONAL
    seen = counts(
        value
        for _, _, _, value in log.scan(isolation="read_committed").tuples()
        if value.startswith(is_theirs)
    )
    present = counts(value for _, _, _, value in log.scan().tuples() if value.startswith(is_theirs))
    last = len(known.transactions) - 1
    for number, (least, most, ended) in enumerate(known.transactions):
        assert least <= present.get(number, 0) <= most, (number, known.transactions[number])
        whole = {present.get(number, 0)}
        allowed = whole if ended == COMMITTED else {0} if ended != COMMITTED + 2 else {0} | whole
        assert seen.get(number, 0) in allowed, (number, known.transactions[number])
    states = {one.producer_id: one for one in log.active_producers()}
    if TRANSACTIONAL in states and last >= 0 and known.transactions[last][2] in {0, COMMITTED}:
        assert states[TRANSACTIONAL].current_txn_start_offset == -1
        assert log.last_stable_offset == log.log_end_offset
    elif last >= 0 and known.transactions[last][2] < 0 and present.get(last):
        start = states[TRANSACTIONAL].current_txn_start_offset
        assert 0 <= start == log.last_stable_offset


def counts(values: object) -> dict[int, int]:
    """Count the records of each transaction; they are in order."""
    found: dict[int, int] = {}
    for value in values:
        _, number, at = map(int, value.split(b":"))
        assert at == found.get(number, 0)
        found[number] = at + 1
    return found


def numbered(id_: int, sent: Sent) -> bytes:
    """Build the batch of an idempotent producer, whose values are its sequence numbers."""
    records = [(TIME, None, b"%d:%d" % (id_, sent.sequence + i)) for i in range(sent.count)]
    return batch(records, producer_id=id_, producer_epoch=0, base_sequence=sent.sequence)


def produce(path: Path, known: Producers, seed: int) -> Callable[[Teller], None]:
    """Send what was pending again, abort what was open, and go on."""

    def work(tell: Teller) -> None:
        chooser = random.Random(seed)
        with segstore.open(path, durability="none", **SETTINGS) as log:
            tell.done(OPENED)
            abort_open_transaction(log, tell.at(2))
            clients = [Client(log, tell.at(where), known, where) for where in range(2)]
            coordinator = Coordinator(log, tell.at(2), known, chooser)
            while True:
                for _ in range(chooser.randrange(4)):
                    chooser.choice(clients).send(chooser.choice([1, 1, 3, 15]))
                coordinator.step()
                if chooser.random() < 0.1:
                    log.roll()

    return work


def abort_open_transaction(log: UnifiedLog, tell: Teller) -> None:
    for one in log.active_producers():
        if one.current_txn_start_offset >= 0:
            tell.begin(END)
            end_transaction(log, one.producer_epoch, commit=False)
            tell.done(END)


def end_transaction(log: UnifiedLog, epoch: int, *, commit: bool) -> None:
    marker = encode_end_transaction_marker(
        0, TIME, 0, TRANSACTIONAL, epoch, commit=commit, coordinator_epoch=0
    )
    log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)


class Client:
    """An idempotent producer."""

    def __init__(self, log: UnifiedLog, tell: Teller, known: Producers, where: int) -> None:
        self._log, self._tell = log, tell
        self._id = IDEMPOTENT[where]
        self._next = known.next_sequence(self._id)
        pending = known.pending.get(self._id)
        if pending is not None:
            self._send(pending)

    def send(self, count: int) -> None:
        """One more batch."""
        self._send(Sent(self._next, count))

    def _send(self, sent: Sent) -> None:
        self._tell.begin(SEND, *sent)
        self._log.append_as_leader(numbered(self._id, sent))
        self._tell.done(SEND, *sent)
        self._next = sum(sent)


class Coordinator:
    """A transactional producer and who ends its transactions; a new epoch in each process."""

    def __init__(
        self, log: UnifiedLog, tell: Teller, known: Producers, chooser: random.Random
    ) -> None:
        self._log, self._tell, self._chooser = log, tell, chooser
        self._epoch = known.epoch + 1
        self._sequence = 0
        self._number = len(known.transactions) - 1
        self._records_count = -1

    def step(self) -> None:
        """Begin, go on with, or end a transaction."""
        if self._records_count < 0:
            self._tell.done(BEGIN, self._epoch)
            self._number += 1
            self._records_count = 0
        elif self._records_count == 0 or self._chooser.random() < 0.5:
            self._send(self._chooser.choice([1, 4]))
        else:
            commit = self._chooser.random() < 0.6
            self._tell.begin(END, int(commit))
            end_transaction(self._log, self._epoch, commit=commit)
            self._tell.done(END, int(commit))
            self._records_count = -1

    def _send(self, count: int) -> None:
        first = self._records_count
        records = [
            (TIME, None, b"%d:%d:%d" % (TRANSACTIONAL, self._number, first + i))
            for i in range(count)
        ]
        self._tell.begin(SEND, first, count)
        self._log.append_as_leader(
            batch(
                records,
                producer_id=TRANSACTIONAL,
                producer_epoch=self._epoch,
                base_sequence=self._sequence,
                transactional=True,
            )
        )
        self._tell.done(SEND, first, count)
        self._records_count += count
        self._sequence += count
