"""The state of all producers, beyond what Kafka's own tests ask [PSM-20..PSM-60]."""

from __future__ import annotations

import pytest

from segstore.errors import LogNotFoundError
from segstore.log.producers.producer_state_manager import ProducerStateManager
from segstore.log.producers.txn_metadata import CompletedTxn, TransactionsByOffset, TxnMetadata
from segstore.types import AppendOrigin, LogOffsetMetadata
from tests.kits.producer_state_kit import (
    ABORT,
    COMMIT,
    NOW,
    PRODUCER,
    data,
    producers,
)

__all__ = ["producers"]


def name(offset: int) -> str:
    return f"{offset:020}.snapshot"


@pytest.mark.parametrize(
    ("seq", "count", "epoch", "known"),
    [
        (1, 2, 0, True),
        (9, 2, 0, True),
        (9, 2, 1, False),
        (1, 1, 0, False),
        (2, 2, 0, False),
        (11, 2, 0, False),
    ],
)
def test_duplicates(producers, seq: int, count: int, epoch: int, known):
    """[PSM-20] Both ends and the epoch; five batches are remembered, the sixth back is not."""
    producers.seq(0, 0)
    for number in range(5):
        producers.append(data(1 + 2 * number, 1 + 2 * number, count=2))

    entry = producers.state.last_entry(PRODUCER)
    found = entry.find_duplicate_batch(data(seq, 500, count=count, epoch=epoch))

    assert (found is not None) == known
    assert found is None or (found.first_offset, found.last_offset) == (seq, seq + 1)
    assert entry.find_duplicate_batch(data(0, 500)) is None


def test_last_stable_offset_of_a_completed_transaction(producers):
    """[PSM-43] The lowest one of another producer that is still open, else behind the marker."""
    producers.txn(0, 10)
    producers.txn(0, 20, pid=2)
    producers.txn(0, 30, pid=3)
    stable = producers.state.last_stable_offset

    assert stable(CompletedTxn(PRODUCER, 10, 40, False)) == 20
    assert stable(CompletedTxn(2, 20, 40, True)) == 10
    for pid in (2, 3):
        producers.end(COMMIT, 41, pid=pid)
    assert stable(CompletedTxn(PRODUCER, 10, 50, False)) == 51


def test_a_later_log_start(producers):
    """[PSM-47] Producers and open transactions stay; what was replicated with it goes."""
    state = producers.state
    producers.txn(0, 0)
    producers.end(ABORT, 4)
    producers.txn(1, 5)

    state.on_log_start_offset_incremented(4)
    assert producers.unstable == 0
    state.on_log_start_offset_incremented(9)

    assert (producers.unstable, state.map_end_offset) == (5, 9)
    assert set(state.active_producers) == {PRODUCER}
    assert state.take_snapshot() is None  # the last one counts as taken at the log start
    producers.seq(0, 9, pid=2)
    assert state.take_snapshot().offset == 10
    state.on_log_start_offset_incremented(12)
    assert state.take_snapshot().offset == 12
    state.on_log_start_offset_incremented(11)
    assert state.map_end_offset == 12


def test_empty(producers):
    """[PSM-48] A transaction that is not replicated yet counts, whoever it was of."""
    assert producers.state.is_empty
    producers.txn(0, 0)
    producers.end(COMMIT, 1)
    producers.state.remove_expired_producers(NOW + 10**12)
    assert not producers.state.is_empty
    producers.state.on_high_watermark_updated(2)
    assert producers.state.is_empty


@pytest.mark.parametrize("kafka_profile", [False, True])
def test_a_longer_file_of_the_same_name(producers, kafka_profile):
    """[PSM-51, DUR-22, DUR-62] Ours is replaced; Kafka's keeps its end, which fails the CRC."""
    stale = producers.path / name(1)
    producers.seq(0, 0)
    state = ProducerStateManager("topic-0", producers.directory, kafka_profile=kafka_profile)
    stale.write_bytes(b"\xff" * 500)
    producers.append(data(0, 0), state=state)

    for sync in (False, True):
        state.truncate_fully_and_start_at(0)
        stale.write_bytes(b"\xff" * 500)
        producers.append(data(0, 0), state=state)
        assert state.take_snapshot(sync=sync).path == str(stale)

        assert len(stale.read_bytes()) == (500 if kafka_profile else 56)
        again = ProducerStateManager("topic-0", producers.directory, kafka_profile=kafka_profile)
        again.truncate_and_reload(0, 1, NOW)
        assert (PRODUCER in again.active_producers) == (not kafka_profile)
    assert not list(producers.path.glob("*.tmp"))


def test_what_a_crash_left_of_a_snapshot_is_no_snapshot(producers):
    """[DUR-22, PSM-50] Nor are files of other names; a shorter rest is overwritten as a whole."""
    (producers.path / (name(1) + ".tmp")).write_bytes(b"\xff" * 500)
    for other in ("7.snapshot", name(8) + ".deleted", "snapshot", name(9)[1:]):
        (producers.path / other).write_bytes(b"")
    (producers.path / name(10)).mkdir()
    (producers.path / name(10)).rmdir()
    producers.state = producers.another()
    assert producers.state.latest_snapshot_offset is None

    producers.seq(0, 0)
    producers.state.take_snapshot(sync=False)

    assert (producers.path / name(1)).stat().st_size == 56


def test_a_snapshot_that_cannot_be_read_is_no_damaged_one(producers):
    """[PSM-56, DUR-33] A known file that is gone: an error, and no older one is believed."""
    for seq in range(2):
        producers.seq(seq, seq)
        producers.state.take_snapshot()
    (producers.path / name(2)).unlink()

    with pytest.raises(LogNotFoundError):
        producers.state.truncate_and_reload(0, 9, NOW)
    assert producers.snapshots() == [1]


def test_a_full_truncation(producers):
    """[PSM-59] All maps, all files; a snapshot is due again from offset 1 on."""
    producers.txn(0, 0)
    producers.state.take_snapshot()
    producers.txn(0, 3, pid=2)
    producers.end(COMMIT, 4, pid=2)

    producers.state.truncate_fully_and_start_at(77)

    assert (producers.state.is_empty, producers.unstable, producers.snapshots()) == (True, None, [])
    assert producers.state.map_end_offset == 77
    assert not producers.state.has_late_transaction(NOW + 10**12)
    assert producers.state.take_snapshot().offset == 77


def test_the_first_unstable_offset_keeps_its_place(producers):
    """[PSM-40] A reader needs no index lookup for it; completed ones too [PSM-44]."""
    place = LogOffsetMetadata(9, 0, 990009)
    producers.txn(0, 9)
    assert producers.state.first_unstable_offset == place
    producers.end(COMMIT, 10)
    assert producers.state.first_unstable_offset == place


def test_one_append_with_two_transactions(producers):
    """[PSM-42] Both are registered, the oldest one's producer says how late it is."""
    info = producers.state.prepare_update(PRODUCER, AppendOrigin.REPLICATION)
    info.append(data(0, 0, transactional=True, timestamp=5))
    info.append(data(1, 1, transactional=True, timestamp=6))
    producers.state.update(info)

    assert len(info.started_transactions) == 1
    assert producers.state.has_late_transaction(6 + 600_001)
    assert not producers.state.has_late_transaction(6 + 600_000)


def test_transactions_are_ordered_by_their_first_offsets():
    """[PSM-40] In whatever order a snapshot has them; one may replace another."""
    transactions = TransactionsByOffset()
    for pid, first in enumerate([7, 3, 9, 3]):
        transactions.put(TxnMetadata(pid, LogOffsetMetadata(first), first + 100))

    assert [(one.producer_id, one.first_offset[0]) for one in transactions] == [
        (3, 3),
        (0, 7),
        (2, 9),
    ]
    assert transactions.pop(4) is None
    transactions.drop_ended_before(107)
    assert transactions.first.first_offset.message_offset == 7
    transactions.clear()
    assert (len(transactions), transactions.first) == (0, None)
