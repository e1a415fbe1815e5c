"""Which segments give which records, with small numbers and against an oracle."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore.errors import IllegalArgumentError
from segstore.remote.tiered.partition_plan import (
    extended_lineage,
    newest_segment,
    plan_partition,
)
from segstore.types import EpochEntry


class Segment(NamedTuple):
    name: str
    start_offset: int
    end_offset: int
    leader_epochs: tuple[EpochEntry, ...]


def segment(name, start, end, *epochs):
    """A segment; without epochs all of it is of epoch 0."""
    return Segment(name, start, end, entries(*(epochs or [(0, start)])))


def entries(*pairs):
    return tuple(EpochEntry(*pair) for pair in pairs)


def told(plan):
    return [(one.segment.name, one.from_offset, one.to_offset) for one in plan.ranges]


def test_the_newest_segment_is_that_of_the_highest_last_epoch():
    """[SEL-3] As numbers, then by the end; a lost branch may end higher."""
    lost = segment("lost", 50, 900, (9, 50))
    first, second = segment("first", 50, 70, (10, 50)), segment("second", 71, 90, (10, 71))

    assert newest_segment([lost, second, first]) == second


def test_segments_of_different_leaders_overlap_and_no_record_counts_twice():
    """[SEL-5] [SEL-6] The one that reaches farthest is taken."""
    segments = [
        segment("a", 0, 40),
        segment("b", 20, 90),
        segment("c", 30, 60),
        segment("d", 91, 99),
    ]

    plan = plan_partition(segments, entries((0, 0)))
    assert told(plan) == [("a", 0, 40), ("b", 41, 90), ("d", 91, 99)]
    assert (plan.gaps, plan.start_offset, plan.end_offset) == ((), 0, 100)


def test_a_lost_branch_is_left_out_where_it_leaves_the_lineage():
    """[SEL-4] [SEL-7] [DUR-141] Its common part serves; what Kafka 4.3.1 serves there does not."""
    lost = segment("lost", 40, 120, (3, 40))
    newest = segment("newest", 80, 99, (5, 80))
    plan = plan_partition([segment("a", 0, 39, (3, 0)), lost, newest], entries((3, 0), (5, 80)))

    assert told(plan) == [("a", 0, 39), ("lost", 40, 79), ("newest", 80, 99)]
    assert plan.end_offset == 100


def test_an_epoch_of_the_lost_branch_serves_nothing():
    """[SEL-4] The lineage has no such epoch."""
    lost = segment("lost", 40, 120, (3, 40), (4, 60))
    newest = segment("newest", 80, 99, (5, 80))
    plan = plan_partition([lost, newest], entries((3, 0), (5, 60)))

    assert told(plan) == [("lost", 40, 59), ("newest", 80, 99)]
    assert plan.gaps == ((60, 79),)


def test_a_gap_is_told_and_what_retention_deleted_is_none():
    """[SEL-8] Below the first covered offset nothing is missing [SEL-9]."""
    plan = plan_partition([segment("a", 10, 19), segment("b", 30, 39)], entries((0, 0)))

    assert plan.gaps == ((20, 29),)
    assert (plan.start_offset, plan.end_offset) == (10, 40)


def test_the_log_start_of_the_lineage_is_the_default_start():
    """[SEL-9] A segment lies across it; another start may be asked for."""
    segments = [segment("a", 0, 49), segment("b", 50, 99)]

    assert told(plan_partition(segments, entries((0, 20)))) == [("a", 20, 49), ("b", 50, 99)]
    assert told(plan_partition(segments, entries((0, 0)), 60)) == [("b", 60, 99)]
    beyond = plan_partition(segments, entries((0, 0)), 100)
    assert (beyond.ranges, beyond.start_offset, beyond.end_offset) == ((), 100, 100)


def test_an_epoch_without_records_serves_nothing():
    """[MAN-8] Two epochs with one start: the lower one has no records."""
    one = segment("a", 0, 9, (1, 0), (2, 5), (3, 5))

    plan = plan_partition([one], entries((1, 0), (3, 5)))
    assert [(part.epoch, part.from_offset, part.to_offset) for part in plan.ranges] == [
        (1, 0, 4),
        (3, 5, 9),
    ]


def test_a_lineage_is_extended_below_the_log_start():
    """[SEL-9] By the index that begins lowest, again and again."""
    lineage = entries((4, 160), (8, 320))
    others = [
        entries((4, 160), (8, 320)),
        entries((2, 100), (4, 150)),
        entries((0, 50), (2, 90)),
        entries((9, 0)),
        entries((4, 155)),
    ]

    assert extended_lineage(lineage, others) == entries((0, 50), (2, 90), (4, 150), (8, 320))
    assert extended_lineage(lineage, []) == lineage
    assert extended_lineage(entries((4, 0)), [entries((4, 0))]) == entries((4, 0))


@pytest.mark.parametrize(("segments", "lineage"), [([], [(0, 0)]), ([segment("a", 0, 9)], [])])
def test_nothing_to_plan_with_is_an_error(segments, lineage):
    with pytest.raises(IllegalArgumentError):
        plan_partition(segments, entries(*lineage))


@st.composite
def lineages(draw, end):
    starts = sorted(draw(st.sets(st.integers(1, end), max_size=4)))
    epochs = sorted(
        draw(st.sets(st.integers(0, 9), min_size=len(starts) + 1, max_size=len(starts) + 1))
    )
    return entries(*zip(epochs, [0, *starts], strict=True))


def epoch_at(epochs, offset):
    return max(
        (entry for entry in epochs if entry.start_offset <= offset), default=EpochEntry(-1, 0)
    ).epoch


@given(data=st.data())
def test_each_offset_is_served_once_where_an_epoch_agrees(data):
    """[SEL-4] [SEL-5] [SEL-6] The oracle asks every segment for every offset."""
    lineage = data.draw(lineages(40))
    segments = []
    for number in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, 40))
        end = data.draw(st.integers(start, 50))
        view = data.draw(st.sampled_from([lineage, data.draw(lineages(40))]))
        inside = [
            EpochEntry(entry.epoch, max(entry.start_offset, start))
            for entry in view
            if entry.start_offset <= end
        ]
        first = max((n for n, one in enumerate(view) if one.start_offset <= start), default=0)
        own = inside[first:]
        segments.append(Segment(str(number), start, end, tuple(own)))
    plan = plan_partition(segments, lineage)
    end = newest_segment(segments).end_offset

    served = {
        offset: part.segment
        for part in plan.ranges
        for offset in range(part.from_offset, part.to_offset + 1)
    }
    assert len(served) == sum(part.to_offset - part.from_offset + 1 for part in plan.ranges)
    for offset in range(end + 1):
        can = [
            one
            for one in segments
            if one.start_offset <= offset <= one.end_offset
            and epoch_at(one.leader_epochs, offset) == epoch_at(lineage, offset)
        ]
        assert (offset in served) == bool(can)
        assert offset not in served or served[offset] in can
    missing = {offset for first, last in plan.gaps for offset in range(first, last + 1)}
    firsts = [one.leader_epochs[0].start_offset for one in segments]
    assert missing == set(range(min(*firsts, plan.start_offset), end + 1)) - set(served)
