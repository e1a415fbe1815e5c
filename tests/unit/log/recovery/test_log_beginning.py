"""Where a log begins: which log starts are believed, and which first segments are missing."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from segstore.errors import CorruptLogError, CorruptRecordError, ResourceError, SegstoreError
from segstore.log.files.checkpoints import LogState
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.stored_state import StoredState
from segstore.log.recovery.log_beginning import (
    first_missing_offset,
    kept_remote_part,
    require_begin,
    with_possible_log_start,
    without_gap_from,
)
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.types import EpochEntry


class Piece(NamedTuple):
    """What is asked of a segment here."""

    base_offset: int
    end: int | SegstoreError
    ends_clean: bool = True
    path: str = "/data/orders-0/log"

    def read_next_offset(self) -> tuple[int, bool]:
        if isinstance(self.end, SegstoreError):
            raise self.end
        return self.end, self.ends_clean


def marker(end=10, log_start=None):
    return CleanShutdownMarker(end, 6, 500, None, log_start_offset=log_start)


def found(log_start=0, *, point=None, parent_is_clean=False, own=None):
    return StoredState(log_start, point, parent_is_clean, own)


def state(contiguous_from=0, local_start=0):
    return LogState(contiguous_from, 0, None, local_log_start_offset=local_start)


def epochs(*starts):
    return [EpochEntry(*entry) for entry in enumerate(starts)]


def first_missing(pieces, there, told_epochs, known, shown_before=lambda *_: None):
    end_of = Piece.read_next_offset
    return first_missing_offset(pieces, there, told_epochs, known, end_of, shown_before)


DAMAGED = CorruptRecordError("no batch")
OUT_OF_DESCRIPTORS = ResourceError("too many open files")
WHOLE = [Piece(0, 6), Piece(6, 10)]

# ---- log starts that cannot be true --------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize(
    "clean",
    [{"own": marker()}, {"parent_is_clean": True}, {"parent_is_clean": True, "own": marker(4)}],
    ids=["own marker", "broker's", "broker's behind an own one"],
)
def test_a_log_start_above_the_end_of_a_clean_stop_is_not_believed(clean, first):
    """[DUR-18, DUR-21] The log starts where its first segment does, and that is told."""
    report = RecoveryReport()

    believed = with_possible_log_start(
        found(11, **clean), [Piece(first, 6), Piece(6, 10)], report, Piece.read_next_offset
    )

    assert believed == found(first, **clean)
    (told,) = report.warnings
    assert (
        "log start 11 lies above the end 10 of a log that was closed cleanly: it is ignored" in told
    )
    assert told.endswith(f"starts at {first}")


BELIEVED = {
    "all records deleted": (found(10, own=marker()), WHOLE),
    "within the last segment": (found(8, parent_is_clean=True), WHOLE),
    "an unclean stop": (found(11), WHOLE),
    "as the marker says": (found(11, own=marker(log_start=11)), WHOLE),
    "written by another since": (found(11, own=marker(4)), WHOLE),
    "what ends in no batch": (found(11, own=marker()), [Piece(0, 6), Piece(6, 10, False)]),
    "not to be read": (found(11, own=marker()), [Piece(0, 6), Piece(6, DAMAGED)]),
    "no segment": (found(11, own=marker()), []),
}


@pytest.mark.parametrize("case", BELIEVED)
def test_a_log_start_that_can_be_true_is_believed(case):
    """[DUR-18, DUR-19] A crash leaves one above the log end; so do deletions of all records."""
    there, pieces = BELIEVED[case]
    report = RecoveryReport()

    assert with_possible_log_start(there, pieces, report, Piece.read_next_offset) is there
    assert report.warnings == []


def test_a_log_start_at_the_last_segment_costs_no_read():
    """[DUR-51] Wherever the log ends; a clean open reads the names and one header."""
    there = found(6, own=marker())
    pieces = [Piece(0, OUT_OF_DESCRIPTORS), Piece(6, OUT_OF_DESCRIPTORS)]

    report = RecoveryReport()
    assert with_possible_log_start(there, pieces, report, Piece.read_next_offset) is there


def test_who_cannot_look_decides_nothing_of_a_log_start():
    """[DUR-6, DUR-31]"""
    with pytest.raises(ResourceError):
        with_possible_log_start(
            found(11, own=marker()),
            [Piece(6, OUT_OF_DESCRIPTORS)],
            RecoveryReport(),
            Piece.read_next_offset,
        )


# ---- first segments that are missing -------------------------------------------------------------

LOST = {
    "the log start": (found(2), state(), ()),
    "the checkpoint's, the state's lower": (found(2), state(1), epochs(0)),
    "where it is contiguous": (found(0), state(2), ()),
    "the local log start": (found(0), state(0, local_start=2), ()),
    "the log start in the marker": (found(0, own=marker(log_start=2)), state(), ()),
    "the marker's, without a log start": (found(2, own=marker()), state(), ()),
    "the first epoch": (found(0), state(), epochs(2, 9)),
    "no epoch": (found(2), state(1), epochs()),
}


@pytest.mark.parametrize("case", LOST)
@pytest.mark.parametrize("end", [3, 8], ids=["an empty segment", "a segment with records"])
def test_what_begins_above_all_that_is_noted_has_lost_records(case, end):
    """[DUR-19, DUR-54] The log start is noted before a file goes; each note counts."""
    there, known, cache = LOST[case]
    pieces = [Piece(3, end), Piece(8, 9)]

    assert first_missing(pieces, there, cache, known) == 2


@pytest.mark.parametrize("case", LOST)
@pytest.mark.parametrize("first", [1, 2])
def test_what_begins_where_it_is_noted_has_lost_nothing(case, first):
    """[DUR-19, DUR-54] Below it a file may be left that was to go."""
    there, known, cache = LOST[case]

    assert first_missing([Piece(first, 8), Piece(8, 9)], there, cache, known) is None


@pytest.mark.parametrize(("log_start", "starts"), [(2, ()), (0, (2, 5)), (1, (2,))])
def test_of_a_log_of_somebody_else_a_lone_index_shows_it(log_start, starts):
    """[DUR-7, DUR-54] From where the records were deleted to the first segment."""
    asked = []

    def shown_before(first_offset, first_base_offset):
        asked.append((first_offset, first_base_offset))
        return 2

    there = found(log_start)
    assert first_missing([Piece(3, 8)], there, epochs(*starts), None, shown_before) == 2
    assert asked == [(2, 3)]


def test_of_a_log_of_somebody_else_nothing_else_can_tell():
    """[DUR-54, DUR-64] Nor of one without a segment."""
    assert first_missing([Piece(3, 8)], found(2), epochs(2), None) is None
    assert first_missing([], found(2), epochs(2), state()) is None


@pytest.mark.parametrize(("point", "lost"), [(None, None), (1, None), (2, None), (3, 2)])
def test_a_log_that_was_emptied_to_go_on_above_its_log_start_has_lost_nothing(point, lost):
    """[TRU-4, DUR-18] One empty segment, and a recovery point that had come down first."""
    there = found(2, point=point)

    assert first_missing([Piece(3, 3)], there, (), state()) == lost


@pytest.mark.parametrize("end", [4, DAMAGED], ids=["a record", "what cannot be read"])
def test_what_may_hold_records_was_not_emptied(end):
    """[DUR-51, DUR-54] Damage is no proof that there was nothing."""
    assert first_missing([Piece(3, end)], found(2), (), state()) == 2


def test_who_cannot_look_decides_nothing_of_a_first_segment():
    """[DUR-6, DUR-31]"""
    with pytest.raises(ResourceError):
        first_missing([Piece(3, OUT_OF_DESCRIPTORS)], found(2), (), state())


def test_a_lost_beginning_is_refused():
    """[DUR-54] With what is missing, and where."""
    require_begin([Piece(3, 8)], None)
    with pytest.raises(CorruptLogError, match="records 1 to 2 are missing before it") as caught:
        require_begin([Piece(3, 8), Piece(8, 9)], 1)
    assert caught.value.file == "/data/orders-0/log"
    assert (caught.value.found, caught.value.expected) == ("base offset 3", "base offset 1")
    assert "salvage /data/orders-0 " in str(caught.value)


# ---- what is known from then on ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contiguous_from", "log_start", "expected"),
    [(2, 3, 5), (5, 0, 5), (2, 5, 2), (7, 0, 7), (2, 4, 5), (4, 2, 5)],
)
def test_what_was_deleted_without_a_log_start_is_no_gap(contiguous_from, log_start, expected):
    """[DUR-54, DUR-64] The log is contiguous from its first segment on."""
    known = without_gap_from(state(contiguous_from), [Piece(5, 8), Piece(8, 9)], log_start)

    assert known == state(expected)


def test_nothing_is_known_of_a_log_of_somebody_else_or_without_segments():
    """[DUR-64]"""
    assert without_gap_from(None, [Piece(5, 8)], 0) is None
    assert without_gap_from(state(2), [], 0) == state(2)


@pytest.mark.parametrize(
    ("local_start", "first", "log_start", "last"),
    [(5, 5, 0, 4), (5, 3, 0, 2), (2, 6, 1, 5), (0, 5, 0, None), (5, 0, 0, None), (3, 5, 3, None)],
)
def test_records_that_remote_storage_alone_has_are_told(local_start, first, log_start, last):
    """[DUR-26] Those from the log start to the first segment, where a local log start says so."""
    told = kept_remote_part(state(local_start=local_start), first, found(log_start))

    assert (told is None) == (last is None)
    if told is not None:
        assert told.startswith(f"records {log_start} to {last} are in remote storage alone")


def test_a_log_of_somebody_else_keeps_no_remote_part():
    """[DUR-26, DUR-64]"""
    assert kept_remote_part(None, 5, found(0)) is None
