"""Kafka's ProducerStateManagerTest: snapshots, and what is left of them."""

from __future__ import annotations

import pytest

from segstore.errors import OutOfOrderSequenceError, TransactionCoordinatorFencedError
from segstore.types import AppendOrigin
from tests.kits.producer_state_kit import (
    ABORT,
    COMMIT,
    LATE_MS,
    NOW,
    PRODUCER,
    Producers,
    data,
    producers,
)

__all__ = ["producers"]


def name(offset: int) -> str:
    return f"{offset:020}.snapshot"


def take_snapshots(kit: Producers, *ends: int) -> None:
    """A batch below each of *ends*, and a snapshot."""
    for seq, end in enumerate(ends):
        kit.seq(seq, end - 1)
        kit.state.take_snapshot()


def reloaded(kit: Producers, start: int, end: int, now: int = NOW):
    state = kit.another()
    state.truncate_and_reload(start, end, now)
    return state


def test_take_snapshot(producers):
    """[PSM-51, PSM-52, DUR-22] ProducerStateManagerTest.testTakeSnapshot."""
    producers.seq(0, 0)
    producers.seq(1, 1)

    assert producers.state.take_snapshot().name == name(2)
    assert producers.state.take_snapshot() is None
    (file,) = producers.path.iterdir()
    assert (file.name, file.stat().st_size) == (name(2), 56)


def test_fetch_snapshot_empty_snapshot(producers):
    """[PSM-58] ProducerStateManagerTest.testFetchSnapshotEmptySnapShot."""
    assert producers.state.snapshots.get(1) is None


def test_truncate_and_reload_removes_out_of_range_snapshots(producers):
    """[PSM-60] ProducerStateManagerTest.testTruncateAndReloadRemovesOutOfRangeSnapshots."""
    take_snapshots(producers, 1, 2, 3, 4, 5)

    producers.state.truncate_and_reload(1, 3, NOW)

    assert min(producers.state.snapshots.offsets, default=None) == 2
    assert producers.state.latest_snapshot_offset == 3
    assert producers.snapshots() == [2, 3]


def test_recover_from_snapshot_unfinished_transaction(producers):
    """[PSM-53, PSM-56] ProducerStateManagerTest.testRecoverFromSnapshotUnfinishedTransaction."""
    producers.txn(0, 0)
    producers.txn(1, 1)
    producers.state.take_snapshot()

    state = reloaded(producers, 0, 3)

    entry = state.last_entry(PRODUCER)
    assert (entry.first_seq, entry.last_seq) == (1, 1)
    assert (entry.first_data_offset, entry.last_data_offset) == (1, 1)
    assert entry.current_txn_first_offset == 0
    assert state.first_unstable_offset == (0, -1, -1)
    producers.append(data(2, 2, transactional=True), state=state)
    assert state.last_entry(PRODUCER).last_seq == 2


def test_recover_from_snapshot_finished_transaction(producers):
    """[PSM-53] ProducerStateManagerTest.testRecoverFromSnapshotFinishedTransaction."""
    producers.txn(0, 0)
    producers.txn(1, 1)
    producers.end(ABORT, 2)
    producers.state.take_snapshot()

    entry = reloaded(producers, 0, 3).last_entry(PRODUCER)

    assert (entry.first_seq, entry.last_seq) == (1, 1)
    assert (entry.first_data_offset, entry.last_data_offset) == (1, 1)
    assert entry.current_txn_first_offset is None


def test_recover_from_snapshot_empty_transaction(producers):
    """[PSM-19, PSM-54] ProducerStateManagerTest.testRecoverFromSnapshotEmptyTransaction."""
    producers.end(ABORT, 0, timestamp=NOW + 7)
    producers.state.take_snapshot()

    entry = reloaded(producers, 0, 1, NOW + 7).last_entry(PRODUCER)

    assert (entry.last_timestamp, entry.current_txn_first_offset) == (NOW + 7, None)
    assert entry.is_empty


def test_has_late_transaction_initialized_after_reload(producers):
    """[PSM-46] ProducerStateManagerTest.testHasLateTransactionInitializedAfterReload."""
    producers.txn(0, 100, pid=39, epoch=2, timestamp=NOW)
    producers.txn(0, 150, pid=57, epoch=9, timestamp=NOW + 500)
    producers.state.take_snapshot()

    state = reloaded(producers, 0, producers.state.map_end_offset)

    for each in (producers.state, state):
        assert not each.has_late_transaction(NOW + LATE_MS)
        assert each.has_late_transaction(NOW + LATE_MS + 1)


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.REPLICATION])
def test_expired_producers_and_snapshots_beyond_the_end(producers, origin: AppendOrigin):
    """[PSM-60, PSM-15] A producer that is not known may begin anywhere.

    ProducerStateManagerTest.testRemoveExpiredPidsOnReload,
    ProducerStateManagerTest.testAcceptAppendWithoutProducerStateOnReplica.
    """
    producers.seq(0, 0, timestamp=0)
    producers.seq(1, 1, timestamp=1)
    producers.state.take_snapshot()

    state = reloaded(producers, 0, 1, 70_000)
    assert (state.is_empty, producers.snapshots()) == (True, [])
    producers.append(data(2, 2, timestamp=70_001), origin, state=state)

    entry = state.last_entry(PRODUCER)
    assert (state.producer_id_count, state.map_end_offset) == (1, 3)
    assert (entry.producer_epoch, entry.first_seq, entry.last_seq) == (0, 2, 2)


def test_expired_producers_are_not_loaded(producers):
    """[PSM-45, PSM-56] But for those with an open transaction; the limit itself is too old."""
    producers.config.producer_id_expiration_ms = 100
    producers.seq(0, 0, pid=1, timestamp=NOW)
    producers.seq(0, 1, pid=2, timestamp=NOW + 1)
    producers.txn(0, 2, pid=3, timestamp=NOW - 1000)
    producers.state.take_snapshot()

    assert set(reloaded(producers, 0, 5, NOW + 100).active_producers) == {2, 3}
    producers.config.producer_id_expiration_ms = 101  # [PSM-36] each use reads it
    assert set(reloaded(producers, 0, 5, NOW + 100).active_producers) == {1, 2, 3}


def test_reload_snapshots(producers):
    """[PSM-59] ProducerStateManagerTest.testReloadSnapshots."""
    for seq in range(5):
        producers.seq(seq, seq)
        if seq + 1 in {3, 5}:
            producers.state.take_snapshot()
    kept = (producers.path / name(3)).read_bytes()
    producers.state.truncate_and_reload(3, 5, NOW)
    assert producers.snapshots() == [5]

    (producers.path / name(3)).write_bytes(kept)
    producers.state.truncate_fully_and_start_at(0)
    producers.state.snapshots.reload()

    assert producers.snapshots() == [3]
    assert producers.state.snapshots.offsets == (3,)
    assert producers.state.latest_snapshot_offset == 3
    assert producers.state.map_end_offset == 0
    assert producers.state.is_empty


def test_first_unstable_offset_after_truncation(producers):
    """[PSM-60, PSM-47] ProducerStateManagerTest.testFirstUnstableOffsetAfterTruncation."""
    state = producers.state
    producers.txn(0, 99)
    assert producers.unstable == 99
    state.take_snapshot()
    producers.end(COMMIT, 105)
    state.on_high_watermark_updated(106)
    assert producers.unstable is None
    state.take_snapshot()
    producers.seq(1, 106)

    state.truncate_and_reload(0, 106, NOW)
    assert producers.unstable is None
    state.truncate_and_reload(0, 100, NOW)
    assert producers.unstable == 99


def test_coordinator_fenced_after_reload(producers):
    """[PSM-17] Before and after. ProducerStateManagerTest.testCoordinatorFencedAfterReload."""
    producers.txn(0, 99)
    producers.end(ABORT, 100, coordinator_epoch=1)
    producers.state.take_snapshot()

    for state in (producers.state, reloaded(producers, 0, 102)):
        with pytest.raises(TransactionCoordinatorFencedError):
            producers.end(ABORT, 100, coordinator_epoch=0, state=state)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="ProducerStateManagerTest.testLoadFromEmptySnapshotFile"),
        pytest.param(
            lambda whole: bytes(37) + whole[37:],
            id="ProducerStateManagerTest.testLoadFromCorruptSnapshotFile",
        ),
    ],
)
def test_load_from_damaged_snapshot_file(producers, damage):
    """[PSM-54, PSM-56, DUR-22] The damaged one goes, the state comes from the one before it."""
    take_snapshots(producers, 1, 2)
    newest = producers.path / name(2)
    newest.write_bytes(damage(newest.read_bytes()))

    state = reloaded(producers, 0, 20)

    assert producers.snapshots() == [1]
    assert (state.last_entry(PRODUCER).last_data_offset, state.map_end_offset) == (0, 1)
    (refused,) = state.snapshots.refused
    assert refused.file == str(newest)
    assert None not in {refused.position, refused.found, refused.expected}


@pytest.mark.parametrize(
    ("files", "bases", "kept"),
    [
        ([2, 5, 42], [42], [42]),
        ([5, 1, 0], [], [5]),
        ([5, 1, 3], [1, 2], [1, 5]),
        ([2, 5, 42], [0, 100], []),
        ([2, 5, 42], [2, 5, 42], [2, 5, 42]),
        ([7], [7, 9], [7]),
        ([9, 10], [3, 9], [9, 10]),
    ],
)
def test_remove_stray_snapshots(producers, files: list[int], bases: list[int], kept: list[int]):
    """[PSM-55] ProducerStateManagerTest.testRemoveAllStraySnapshots, and its neighbours."""
    producers.touch(*files)

    producers.state.snapshots.remove_strays(bases)

    assert producers.snapshots() == kept
    assert producers.state.latest_snapshot_offset == (kept[-1] if kept else None)
    assert min(producers.state.snapshots.offsets, default=None) == (kept[0] if kept else None)


def test_remove_and_mark_snapshot_for_deletion(producers):
    """[PSM-57] ProducerStateManagerTest.testRemoveAndMarkSnapshotForDeletion."""
    producers.touch(5)

    file = producers.state.snapshots.mark_for_deletion(5)

    assert file.name == name(5) + ".deleted"
    assert [path.name for path in producers.path.iterdir()] == [file.name]
    assert producers.state.latest_snapshot_offset is None
    assert file.delete_if_exists()
    assert not file.delete_if_exists()


def test_a_snapshot_that_is_gone_counts_as_deleted(producers):
    """[PSM-57, LDR-17] A recovery of one segment deletes behind the back of the log's state."""
    producers.touch(5)
    (producers.path / name(5)).unlink()

    assert producers.state.snapshots.mark_for_deletion(5) is None
    assert producers.state.latest_snapshot_offset is None
    assert producers.state.snapshots.mark_for_deletion(6) is None


def test_a_reloaded_state_knows_only_the_newest_batch(producers):
    """[PSM-20, PSM-53] An older duplicate is out of order after that."""
    for seq in range(3):
        producers.seq(seq, seq)
    producers.state.take_snapshot()
    state = reloaded(producers, 0, 5)

    known = {
        seq: [
            each.last_entry(PRODUCER).find_duplicate_batch(data(seq, 9)) is not None
            for each in (producers.state, state)
        ]
        for seq in range(3)
    }
    assert known == {0: [True, False], 1: [True, False], 2: [True, True]}
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(data(1, 9), state=state)
