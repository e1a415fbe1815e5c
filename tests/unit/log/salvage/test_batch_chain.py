"""Which batches ascend: the most, then those that continue each other."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from segstore.log.files.checkpoints import LogState
from segstore.log.local.batch_search import ROW
from segstore.log.salvage import batch_chain
from segstore.log.salvage.batch_chain import choose_batches
from segstore.log.salvage.original_epochs import OriginalEpochs
from segstore.types import EpochEntry

SIZE = 100


def rows_of(ranges, segment=0, epochs=None):
    """Whole batches, one behind the other in a file; None is a range that is none."""
    rows = np.zeros(len(ranges), ROW)
    for number, one in enumerate(ranges):
        rows[number]["position"], rows[number]["size"] = number * SIZE, SIZE
        rows[number]["segment"] = segment
        rows[number]["epoch"] = -1 if epochs is None else epochs[number]
        if one is not None:
            rows[number]["whole"] = True
            rows[number]["base_offset"], rows[number]["last_offset"] = one
    return rows


def chosen(*tables, bases=(0,), state=None):
    """(base, last) of what is kept."""
    found = []
    written = None if state is None else OriginalEpochs(state)
    for rows, kept in choose_batches(tables, bases, state, original_epochs=written):
        found += [(int(row["base_offset"]), int(row["last_offset"])) for row in rows[kept]]
    return found


def test_a_jump_and_a_fall_are_left_out():
    """[DUR-50] whichever way the wrong one went."""
    good = [(offset, offset + 9) for offset in range(0, 100, 10)]
    for wrong in [(500, 509), (0, 9), (33, 42), (27, 36), (2**40, 2**40 + 9)]:
        ranges = [*good[:3], wrong, *good[4:]]
        assert chosen(rows_of(ranges)) == [*good[:3], *good[4:]]


def test_what_continues_wins_over_what_only_fits():
    """One of two overlapping batches is wrong: the one that its neighbours do not continue."""
    assert chosen(rows_of([(0, 9), (11, 20), (20, 29), (30, 39)])) == [(0, 9), (20, 29), (30, 39)]
    assert chosen(rows_of([(0, 9), (10, 19), (19, 28), (30, 39)])) == [(0, 9), (10, 19), (30, 39)]


def test_gaps_of_a_compacted_log_stay():
    ranges = [(0, 3), (10, 12), (500, 500), (2**31 - 1, 2**31 - 1)]
    assert chosen(rows_of(ranges)) == ranges


def test_a_batch_that_is_not_of_its_segment():
    """[DUR-50, DUR-89] below its base, or backwards; beyond 31 bits it may be a broker's."""
    assert chosen(rows_of([(5, 9), (10, 9), (20, 29)]), bases=[6]) == [(20, 29)]
    far = [(5, 9), (2**31 + 1, 2**31 + 5)]
    assert chosen(rows_of(far), bases=[5]) == far
    assert chosen(rows_of(far), bases=[5], state=LogState(2**40, 0, None)) == far[:1]


def test_the_last_batch_of_a_log_without_gaps():
    """[DUR-64] jumped, with nothing behind it that would tell."""
    state = LogState(0, 0, None)
    good = [(0, 9), (10, 19)]
    assert chosen(rows_of([*good, (21, 30)]), state=state) == good
    assert chosen(rows_of([*good, (21, 30)])) == [*good, (21, 30)]
    assert chosen(rows_of([*good, None, (30, 39)]), state=state) == [*good, (30, 39)]
    assert chosen(rows_of([(1, 5)]), state=state) == []


def ordered(epochs, state, entries=()):
    """Epochs of what is kept, and which of all are mended; offsets are 0, 1, 2, ..."""
    rows = rows_of([(offset, offset) for offset in range(len(epochs))], epochs=epochs)
    written = None if state is None else OriginalEpochs(state, entries)
    ((found, kept),) = choose_batches([rows], [0], state, original_epochs=written)
    assert rows["epoch"].tolist() == epochs
    return found["epoch"][kept].tolist(), np.flatnonzero(found["epoch_is_mended"]).tolist()


def test_leader_epochs_that_go_back():
    """[DUR-64] count where the log is known to have none; what never was is mended."""
    state = LogState(0, 0, EpochEntry(1, 3))
    assert ordered([0, 9, 0, 1, -1], state) == ([0, 0, 0, 1, -1], [1])
    assert ordered([0, 9, 0, 1, -1], None) == ([0, 9, 0, 1, -1], [])
    assert ordered([0, 9, 0, 1, -1], LogState(0, 0, None)) == ([0, 0, 1, -1], [])
    assert ordered([9, 0, 9, 1, 9], state) == ([0, 0, 0, 1, 9], [0, 2])
    assert ordered([0, 3, 3, 2, 3], LogState(0, 0, EpochEntry(3, 1))) == ([0, 3, 3, 3], [])
    assert ordered([0, 3, 3, 2, 3], LogState(0, 4, EpochEntry(3, 1))) == ([0, 3, 3, 2, 3], [])


def test_the_latest_epoch_is_where_the_checksum_says():
    """[DUR-64] Batches below it there are older ones, unless there is none of it."""
    state = LogState(0, 0, EpochEntry(5, 1))
    assert ordered([3, 5, 5, 3, 3, 3], state) == ([3, 5, 5], [])
    assert ordered([3, 4, 5, 5], state) == ([3, 5, 5], [])
    assert ordered([3, 4, 4, 4], state) == ([3, 4, 4, 4], [])
    assert ordered([3, 5, 5, 7], state) == ([3, 5, 5, 7], [])
    assert ordered([3, 5, 9, 7], state) == ([3, 5, 5, 7], [2])


def test_what_the_checkpoint_says_decides_between_two():
    """[DUR-64] Which of two batches goes back, and which epoch one had that never was."""
    entries = [EpochEntry(0, 0), EpochEntry(3, 2), EpochEntry(5, 4)]
    state = LogState(0, 0, entries[-1])
    assert ordered([0, 0, 3, 2, 5, 5], state, entries) == ([0, 0, 3, 5, 5], [])
    assert ordered([0, 0, 4, 3, 5, 5], state, entries) == ([0, 0, 3, 3, 5, 5], [2])
    assert ordered([0, 0, 9, 3, 5, 5], state, entries) == ([0, 0, 3, 3, 5, 5], [2])
    other = [EpochEntry(0, 0), EpochEntry(2, 2), EpochEntry(5, 4)]  # a digit flipped
    assert ordered([1, 0, 3, 3, 5, 5], state, entries) == ([0, 0, 3, 3, 5, 5], [0])
    assert ordered([0, 0, -9, 3, 5, -2], state, entries) == ([0, 0, 3, 3, 5, 5], [2, 5])
    assert ordered([0, 9, 3, 3, 5, 5], state, other) == ([0, 0, 3, 3, 5, 5], [1])
    assert ordered([0, 0, 3, 9, 5, 5], state, other) == ([0, 0, 3, 3, 5, 5], [3])
    before = LogState(0, 0, EpochEntry(6, 6), epochs_before=(entries[-1],))
    assert ordered([0, 0, 9, 3, 5, 5], before, entries) == ([0, 0, 3, 5, 5], [])


def test_a_decision_does_not_depend_on_where_a_block_ends(monkeypatch):
    """What is behind a batch is looked at before it is kept."""
    ranges = [(offset, offset) for offset in range(400)]
    for wrong in range(0, 400, 17):
        ranges[wrong] = (wrong + 5000, wrong + 5000)
    expected = [one for one in ranges if one[0] < 400]
    monkeypatch.setattr(batch_chain, "_BLOCK_ROWS", 64)
    monkeypatch.setattr(batch_chain, "_LOOK_AHEAD_ROWS", 16)
    rows = rows_of(ranges)
    tables = [rows[at : at + 7] for at in range(0, len(rows), 7)]
    assert chosen(*tables)[:-1] == expected[: len(chosen(*tables)) - 1]
    assert len(chosen(*tables)) >= len(expected) - 1


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(-2, 5)), max_size=9),
)
def test_the_most_that_ascend(pairs):
    """The oracle tries all subsets."""
    ranges = [(first, first + more) for first, more in pairs]
    kept = chosen(rows_of(ranges))
    legal = [one for one in ranges if one[1] >= one[0]]
    best = max(
        len(subset)
        for count in range(len(legal) + 1)
        for subset in combinations(legal, count)
        if all(after[0] > before[1] for before, after in pairwise(subset))
    )
    assert len(kept) == best
    assert all(after[0] > before[1] for before, after in pairwise(kept))


def test_one_of_two_that_overlap_with_nothing_around_them_to_continue():
    """[DUR-64] in a log without gaps, the one that leaves one to its neighbour is wrong."""
    ranges = [(0, 1), (3, 6), (6, 10), (2**40, 2**40 + 4), (16, 17)]
    assert chosen(rows_of(ranges), state=LogState(0, 0, None)) == [(0, 1), (6, 10), (16, 17)]


def test_mended_epochs_ascend():
    """Of three that are wrong the second is not below what the first got."""
    entries = [EpochEntry(0, 0), EpochEntry(3, 1), EpochEntry(7, 2), EpochEntry(9, 4)]
    state = LogState(0, 0, entries[-1])
    assert ordered([0, 99, 99, 5, 9, 9], state, entries) == ([0, 3, 3, 5, 9, 9], [1, 2])
    assert ordered([0, 1 << 18, -4], LogState(0, 0, EpochEntry(4, 2))) == ([0, 1 << 18, -1], [2])
    assert ordered([-1, -7, -1], LogState(0, 0, None)) == ([-1, -1, -1], [1])
    assert ordered([-7], LogState(0, 0, None)) == ([-1], [0])
    assert ordered([-7, -8], LogState(0, 0, None), []) == ([-1, -1], [0, 1])
    assert ordered([-7], LogState(0, 0, entries[0])) == ([0], [0])


def test_the_batch_behind_the_last_gap():
    """[DUR-50, DUR-64] It ends it, unless it may be one that stood there and has jumped."""
    state = LogState(8, 0, None)
    true = [(8, 11), (12, 15)]
    assert chosen(rows_of([(0, 3), (8, 11), *true]), state=state) == [(0, 3), *true]
    assert chosen(rows_of([(0, 3), (8, 11)]), state=state) == [(0, 3)]
    assert chosen(rows_of([(0, 4), (8, 11)]), state=state) == [(0, 4), (8, 11)]
    assert chosen(rows_of([(0, 4), (8, 10)]), state=state) == [(0, 4)]
    assert chosen(rows_of([(0, 4), (8, 10), (11, 11)]), state=state) == [(0, 4), (8, 10), (11, 11)]
    assert chosen(rows_of([(0, 4), (9, 12)]), state=state) == [(0, 4)]
    assert chosen(rows_of([(8, 11)]), bases=[5], state=state) == [(8, 11)]
    assert chosen(rows_of([(8, 11)]), bases=[4], state=state) == []
    assert chosen(rows_of([(8, 11), *true]), bases=[4], state=state) == true
