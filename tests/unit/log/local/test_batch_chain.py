"""Which batches ascend: the most, then those that continue each other."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from segstore.log.files.checkpoints import LogState
from segstore.log.local import batch_chain
from segstore.log.local.batch_chain import choose_batches
from segstore.log.local.batch_search import ROW
from segstore.log.salvage.batch_epochs import BatchEpochs
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


def chosen(*tables, bases=(0,), gapless_from=None, only_unproven=False):
    """(base, last) of what is kept."""
    found = []
    for rows, kept, proven in choose_batches(tables, bases, gapless_from):
        wanted = rows[kept & ~proven] if only_unproven else rows[kept]
        found += [(int(row["base_offset"]), int(row["last_offset"])) for row in wanted]
    return found


def test_a_jump_and_a_fall_are_left_out():
    """[DUR-50] whichever way the wrong one went."""
    good = [(offset, offset + 9) for offset in range(0, 100, 10)]
    for wrong in [(500, 509), (0, 9), (33, 42), (27, 36), (2**40, 2**40 + 9)]:
        ranges = [*good[:3], wrong, *good[4:]]
        assert chosen(rows_of(ranges)) == [*good[:3], *good[4:]]


def test_one_that_reaches_the_next_segment_hides_no_other():
    """[DUR-50] Of the last two one can be kept: the first lies where the next segment is."""
    rows = rows_of([(0, 4), None, (2**26, 2**26), (10, 13)])
    (found,) = choose_batches([rows], [0], None, below=14)
    assert found.kept.tolist() == [True, False, False, True]


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
    assert chosen(rows_of(far), bases=[5], gapless_from=2**40) == far[:1]


def test_the_last_batch_of_a_log_without_gaps():
    """[DUR-64] jumped, with nothing behind it that would tell."""
    good = [(0, 9), (10, 19)]
    assert chosen(rows_of([*good, (21, 30)]), gapless_from=0) == good
    assert chosen(rows_of([*good, (21, 30)])) == [*good, (21, 30)]
    behind_damage = rows_of([*good, None, (30, 39)])
    assert chosen(behind_damage, gapless_from=0) == [*good, (30, 39)]
    assert chosen(behind_damage, gapless_from=0, only_unproven=True) == [(30, 39)]
    assert chosen(rows_of([(1, 5)]), gapless_from=0) == []


def ordered(epochs, state, entries=()):
    """Epochs of what is copied, and how many of them are not what the files say."""
    rows = rows_of([(offset, offset) for offset in range(len(epochs))], epochs=epochs)
    compared = BatchEpochs(state, entries)
    kept = [compared.without_older(part, part["whole"]) for part in (rows[:2], rows[2:])]
    assert rows["epoch"].tolist() == epochs
    return rows["epoch"][np.concatenate(kept)].tolist(), compared.differing


def test_leader_epochs_that_go_back():
    """[DUR-64] are left out behind the latest one, which has a checksum."""
    assert ordered([0, 9, 0, 1, -1], LogState(0, 0, EpochEntry(1, 3))) == ([0, 9, 0, 1, -1], 1)
    assert ordered([0, 3, 3, 2, 3], LogState(0, 0, EpochEntry(3, 1))) == ([0, 3, 3, 3], 0)
    assert ordered([0, 3, 3, 2, 3], LogState(0, 4, EpochEntry(3, 1))) == ([0, 3, 3, 2, 3], 0)
    assert ordered([0, 9, 0, 1, -1], LogState(0, 0, None)) == ([0, 9, 0, 1, -1], 0)


def test_the_latest_epoch_is_where_the_checksum_says():
    """[DUR-64] Batches below it there are older ones, unless there is none of it."""
    state = LogState(0, 0, EpochEntry(5, 1))
    assert ordered([3, 5, 5, 3, 3, 3], state) == ([3, 5, 5], 0)
    assert ordered([3, 4, 5, 5], state) == ([3, 4, 5, 5], 1)
    assert ordered([3, 4, 4, 4], state) == ([3, 4, 4, 4], 3)
    assert ordered([3, 5, 5, 7], state) == ([3, 5, 5, 7], 1)


def test_what_the_checkpoint_says_decides_between_two():
    """[DUR-64] Which of two batches is the older one."""
    entries = [EpochEntry(0, 0), EpochEntry(3, 2), EpochEntry(5, 4)]
    state = LogState(0, 0, entries[-1])
    assert ordered([0, 0, 3, 2, 5, 5], state, entries) == ([0, 0, 3, 5, 5], 0)
    assert ordered([0, 0, 4, 3, 5, 5], state, entries) == ([0, 0, 4, 3, 5, 5], 1)
    assert ordered([1, 0, 3, 3, 5, 5], state, entries) == ([1, 0, 3, 3, 5, 5], 1)
    assert ordered([0, 0, -9, 3, 5, -2], state, entries) == ([0, 0, -9, 3, 5, -2], 2)
    between_two_files = LogState(0, 0, EpochEntry(6, 6), epochs_before=(entries[-1],))
    assert ordered([0, 0, 9, 3, 5, 5], between_two_files, entries) == ([0, 0, 9, 3, 5, 5], 0)


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
    assert chosen(rows_of(ranges), gapless_from=0) == [(0, 1), (6, 10), (16, 17)]


def test_the_batch_behind_the_last_gap():
    """[DUR-50, DUR-64] A truncation within a batch leaves one: what follows may begin there."""
    true = [(8, 11), (12, 15)]
    assert chosen(rows_of([(0, 3), (8, 11), *true]), gapless_from=8) == [(0, 3), *true]
    assert chosen(rows_of([(0, 3), (8, 11)]), gapless_from=8) == [(0, 3), (8, 11)]
    unproven = chosen(rows_of([(0, 3), (8, 11)]), gapless_from=8, only_unproven=True)
    assert unproven == [(8, 11)]
    assert chosen(rows_of([(0, 4), (9, 12)]), gapless_from=8) == [(0, 4)]
    assert chosen(rows_of([(8, 11)]), bases=[4], gapless_from=8) == [(8, 11)]
    assert chosen(rows_of([(9, 11)]), bases=[4], gapless_from=8) == []


def test_one_of_two_that_continue_the_same_batch():
    """A batch that moved by one offset leaves a gap to the one right before it."""
    good = [(offset, offset) for offset in range(6)]
    moved_up = [*good[:3], (4, 4), *good[4:]]
    rows = rows_of(moved_up)
    (found,) = choose_batches([rows], [0], None)
    assert found.kept.tolist() == [True, True, True, False, True, True]
    moved_down = [*good[:3], (2, 2), *good[4:]]
    (found,) = choose_batches([rows_of(moved_down)], [0], None)
    assert found.kept.tolist() == [True, True, True, False, True, True]
