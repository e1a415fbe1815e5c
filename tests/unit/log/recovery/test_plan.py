"""What an open plans to do, from what was judged; no disk."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from segstore._core import SegmentListing
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.stored_state import StoredState
from segstore.log.recovery.found_epochs import FoundEpochs
from segstore.log.recovery.judge import Judgement
from segstore.log.recovery.judge_tail import Cut, Tail
from segstore.log.recovery.plan import RemoteRecords, SetAside, plan_of
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.recovery.survey import SmallFiles

NO_MARK = SimpleNamespace(stands=False, content=None, missing=())


@dataclass(frozen=True)
class Piece:
    """What is asked of a segment here."""

    base_offset: int
    size_bytes: int = 100

    @property
    def name(self) -> str:
        return f"{self.base_offset:020d}.log"


def survey(names=(), *, directories=(), sidecars=(), mark=NO_MARK, unreadable=()):
    return SimpleNamespace(
        names=lambda: [*names],
        listing=SegmentListing([*names]),
        sidecars=frozenset(sidecars),
        leftovers=SimpleNamespace(incomplete=()),
        mark=mark,
        small=SmallFiles(has_state=True, state=None, has_recovery_point=True),
        had_failed_sync=False,
        is_directory=lambda name: name in directories,
        unreadable_indexes=lambda indexes: [name for name in indexes if name in unreadable],
        name_aside=lambda name: f"{name}.quarantine-1",
        names_of_kept_tail=lambda *_, **__: (["00000000000000000006.quarantine-1"], []),
    )


def judged(  # noqa: PLR0913
    live, *, end, log_start=0, deleted=(), tail=None, marker=None, is_own=True
):
    return Judgement(
        stored=StoredState(log_start, end, parent_is_clean=False, own_marker=marker),
        deleted=tuple(deleted),
        live=tuple(live),
        epochs=FoundEpochs(),
        is_own=is_own,
        is_as_marked=marker is not None,
        tail=tail,
        log_end_offset=end,
    )


def scanned(segment, valid_bytes=100):
    result = SimpleNamespace(valid_bytes=valid_bytes, stop="complete")
    is_cut = valid_bytes < segment.size_bytes
    return SimpleNamespace(segment=segment, result=result, is_cut=is_cut)


def plan(there, judgement, **how):
    report = RecoveryReport(clean=judgement.tail is None)
    return plan_of(there, judgement, report, RemoteRecords(), **how), report


LOG = (Piece(0), Piece(6))


def test_a_clean_log_is_left_as_it_is():
    """[DUR-51]"""
    found, report = plan(survey(), judged(LOG, end=10))

    assert (found.live, found.log_end_offset, found.changes_log) == (LOG, 10, False)
    assert (report.removed, report.rebuilt, report.warnings) == ([], [], [])


def test_what_lies_below_the_log_start_goes():
    """[DUR-18] It was deleted, and that was acknowledged."""
    found, report = plan(survey(), judged(LOG[1:], end=10, log_start=6, deleted=LOG[:1]))

    assert found.begin.deleted == LOG[:1]
    assert report.removed == [LOG[0].name]
    assert (report.log_start_offset, report.segments) == (6, 1)


@pytest.mark.parametrize("marked", [None, 20])
def test_a_log_start_above_the_end(marked):
    """[LDR-25, DUR-54] All is set aside, unless the clean marker says that it was deleted."""
    marker = None if marked is None else CleanShutdownMarker(10, 6, 100, None, log_start_offset=20)

    found, report = plan(survey(), judged(LOG, end=10, log_start=20, marker=marker))

    assert (found.live, found.restart.base_offset, found.log_end_offset) == ((), 20, 20)
    names = ["00000000000000000006.quarantine-1", "00000000000000000000.quarantine-1"]
    if marked is None:
        assert found.begin.set_aside == (SetAside(LOG[1], names[0]), SetAside(LOG[0], names[1]))
        assert found.begin.mark.names == (names[1], names[0])
        assert report.set_aside == names
        assert len(report.warnings) == 1
    else:
        assert found.begin.deleted == LOG
        assert (report.set_aside, report.warnings) == ([], [])


@pytest.mark.parametrize("is_foretold", [True, False])
def test_a_torn_tail_is_cut_and_what_follows_is_set_aside(is_foretold):
    """[DUR-51, DUR-59] The highest first; an empty file is removed."""
    behind = (Piece(9), Piece(12, 0))
    cut = Cut(LOG[1], 60, holds_batches=False)
    tail = Tail(LOG[:1], (), (scanned(LOG[1], 60),), behind, 8, cut, "an incomplete batch")

    found, report = plan(
        survey(), judged((*LOG, *behind), end=8, tail=tail), is_foretold=is_foretold
    )

    aside = "00000000000000000009.quarantine-1"
    assert found.tail.later == (SetAside(behind[1], None), SetAside(behind[0], aside))
    assert found.live == LOG
    assert report.set_aside == [aside]
    assert report.removed == [behind[1].name]
    assert report.rebuilt == [f"{6:020d}.index", f"{6:020d}.timeindex"]
    assert bool(report.quarantined) == is_foretold


@pytest.mark.parametrize("is_own", [True, False])
def test_checksum_sidecars_that_may_be_of_other_bytes_go(is_own):
    """[DUR-60, DUR-64] That of the active segment; all where a broker may have written."""
    found, _ = plan(survey(sidecars=(0, 6, 9)), judged(LOG, end=10, is_own=is_own))

    assert found.checksum_sidecars == (frozenset({0}) if is_own else frozenset())
    gone = [base for base in (0, 6, 9) if base not in found.checksum_sidecars]
    assert list(found.stale_sidecars) == [f"{base:020d}.segsum" for base in gone]


def test_index_files_without_a_log_go_and_directories_stay():
    """[LDR-11, DUR-42] A directory of such a name is not ours."""
    names = [f"{base:020d}.index" for base in (3, 4)]

    found, report = plan(survey(names, directories=names[:1]), judged(LOG, end=10))

    assert found.lone_indexes == tuple(names[1:])
    assert report.warnings == [f"{names[0]} is no file, and was left where it is"]


def test_an_empty_segment_of_a_log_that_begins_again_is_named():
    """[DUR-51, DUR-54] It holds no byte to set aside: it was removed, and named nowhere."""
    empty = Piece(6, 0)

    found, report = plan(survey(), judged([Piece(0), empty], end=6, log_start=9))

    assert found.begin.set_aside[0] == SetAside(empty, None)
    assert report.removed == [empty.name]


@pytest.mark.parametrize("is_foretold", [True, False])
def test_an_index_without_a_log_that_cannot_be_read_is_kept(is_foretold):
    """[DUR-7, DUR-59] It was removed without a word."""
    names = [f"{base:020d}.index" for base in (3, 4)]

    there = survey(names, unreadable=names[:1])
    found, report = plan(there, judged(LOG, end=10), is_foretold=is_foretold)

    assert found.lone_indexes == tuple(names)
    assert report.removed == names[1:]
    assert report.quarantined == ([f"{names[0]}.quarantine-1"] if is_foretold else [])
