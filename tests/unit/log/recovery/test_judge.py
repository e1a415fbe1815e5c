"""What an open makes of the small files of a log, and of its end after a clean stop; no disk."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from segstore.errors import CorruptLogError, CorruptRecordError, ReadIOError, SegstoreError
from segstore.log.files.checkpoints import LogState
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.stored_state import StoredState
from segstore.log.recovery.judge import clean_end, judge_start, state_of_last_writer
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.recovery.survey import LostLogs, SmallFiles
from segstore.types import EpochEntry

EPOCH = EpochEntry(3, 0)
OWN = CleanShutdownMarker(10, 6, 500, EPOCH)
UNCLEAN = StoredState(2, 7, parent_is_clean=False, own_marker=None)
STATE = LogState(0, 0, EPOCH)


class Piece(NamedTuple):
    """What is asked of a segment here."""

    base_offset: int
    end: int | SegstoreError
    ends_clean: bool = True
    path: str = "/data/orders-0/log"
    name: str = "the segment"


def end_of(piece: Piece) -> tuple[int, bool]:
    if isinstance(piece.end, SegstoreError):
        raise piece.end
    return piece.end, piece.ends_clean


WHOLE = (Piece(0, 6), Piece(6, 10))


def survey(stored, segments=WHOLE, **what):
    """A log that has nothing special but for *what*."""
    names = {"has_state": True, "state": STATE, "has_recovery_point": True}
    small = SmallFiles(**{name: what.pop(name, value) for name, value in names.items()})
    known = {
        "path": "/data/orders-0",
        "had_failed_sync": False,
        "mark": SimpleNamespace(stands=False, beside=(), require_same_log=lambda _: None),
        "end_of": end_of,
        "checkpoint_entries": lambda: (EPOCH,),
        "lost_logs": lambda: LostLogs(None, None),
        **what,
    }
    return SimpleNamespace(stored=stored, segments=list(segments), small=small, **known)


# ---- a clean stop behind a sync that failed ------------------------------------------------------


@pytest.mark.parametrize(
    "clean",
    [
        {"parent_is_clean": True, "own_marker": None},
        {"parent_is_clean": False, "own_marker": replace(OWN, log_start_offset=2)},
        {"parent_is_clean": True, "own_marker": replace(OWN, log_start_offset=2)},
    ],
    ids=["a broker's", "of Kafka's profile", "of both"],
)
def test_a_clean_stop_behind_a_failed_sync_is_not_believed(clean):
    """[DUR-35, DUR-36] Nor its recovery point; that is told behind what was told before."""
    found, report = StoredState(2, 7, **clean), RecoveryReport(warnings=["before"])

    believed = judge_start(survey(found, had_failed_sync=True), report).stored

    assert believed == StoredState(2, None, parent_is_clean=False, own_marker=None)
    assert report.warnings[0] == "before"
    assert "is ignored" in report.warnings[1]
    assert judge_start(survey(found), report).stored == found


def test_an_unclean_stop_behind_a_failed_sync_keeps_its_recovery_point():
    """[DUR-35] It came down, or stayed, when the sync failed: who knows the mark wrote it."""
    report = RecoveryReport()
    assert judge_start(survey(UNCLEAN, had_failed_sync=True), report).stored == UNCLEAN
    assert judge_start(survey(UNCLEAN), report).stored == UNCLEAN
    assert not report.warnings


# ---- who has closed the log ----------------------------------------------------------------------

ACTIVE = SimpleNamespace(base_offset=6, size_bytes=500)


@pytest.mark.parametrize(
    ("parent_is_clean", "marker", "is_believed"),
    [
        (False, None, True),
        (False, OWN, True),
        (True, None, False),
        (True, OWN, True),
        (True, replace(OWN, segments=9, size_bytes=9000), True),
        (True, replace(OWN, active_base_offset=9), False),
        (True, replace(OWN, active_size_bytes=400), False),
        (True, replace(OWN, latest_epoch=EpochEntry(4, 9)), False),
    ],
    ids=[
        *("crashed", "closed", "a broker's", "a manager's", "a sealed segment is another one"),
        *("a later segment", "a longer one", "a later epoch"),
    ],
)
def test_who_has_closed_the_log_last(parent_is_clean, marker, is_believed):
    """[DUR-54, DUR-64] A broker moves the end. A segment that is lost before it is no broker's."""
    stored = StoredState(0, 7, parent_is_clean=parent_is_clean, own_marker=marker)
    small = SmallFiles(has_state=True, state=STATE, has_recovery_point=True)

    found = state_of_last_writer(small, stored, [ACTIVE], EPOCH)

    assert found == (STATE if is_believed else None)


# ---- a lost recovery point -----------------------------------------------------------------------

LOST = StoredState(0, None, parent_is_clean=False, own_marker=OWN)


@pytest.mark.parametrize(
    ("stored", "what", "point"),
    [
        (LOST, {}, 10),
        (LOST, {"checkpoint_entries": lambda: None}, 10),
        (LOST, {"checkpoint_entries": lambda: (EPOCH, EpochEntry(4, 9))}, None),
        (LOST, {"state": None}, None),
        (LOST, {"state": replace(STATE, latest_epoch=EpochEntry(2, 0))}, None),
        (replace(LOST, own_marker=None), {}, None),
        (replace(LOST, recovery_point=4), {}, 4),
    ],
    ids=[
        *("lost", "with the epochs", "a broker wrote", "without .segstore", "of another log"),
        *("without a marker", "there"),
    ],
)
def test_a_lost_recovery_point_is_where_the_clean_marker_says(stored, what, point):
    """[DUR-24, DUR-63] It is written while the marker stands."""
    report = RecoveryReport()

    start = judge_start(survey(stored, **what), report)

    assert start.stored.recovery_point == point
    assert start.writes_recovery_point == (point == 10)
    assert bool(report.warnings) == (point == 10)


# ---- a log start that only the clean marker has --------------------------------------------------


@pytest.mark.parametrize("is_markers", [True, False])
def test_a_log_start_that_only_the_marker_has_is_written(is_markers):
    """[DUR-21] While the marker stands; a second survey writes it no more."""
    stored = StoredState(2, 7, parent_is_clean=False, own_marker=replace(OWN, log_start_offset=2))

    start = judge_start(survey(replace(stored, log_start_is_markers=is_markers)), RecoveryReport())

    assert start.writes_log_start == is_markers
    assert start.stored == stored


def test_a_log_start_that_cannot_be_true_is_written_over():
    """[DUR-21] Nobody can tell any more once the clean marker is gone."""
    stored = StoredState(11, None, parent_is_clean=True, own_marker=None)

    start = judge_start(survey(stored), RecoveryReport())

    assert (start.stored.log_start_offset, start.writes_log_start) == (0, True)


# ---- a directory without a .log ------------------------------------------------------------------

EMPTY = {"segments": (), "state": replace(STATE, latest_epoch=None)}
EMPTY["checkpoint_entries"] = lambda **_: None


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ({**EMPTY}, None),
        ({**EMPTY, "has_state": False, "checkpoint_entries": lambda **_: (EPOCH,)}, None),
        ({**EMPTY, "state": STATE}, ".segstore"),
        ({**EMPTY, "checkpoint_entries": lambda **_: (EPOCH,)}, "leader-epoch-checkpoint"),
        ({**EMPTY, "lost_logs": lambda: LostLogs(None, "5.index")}, "5.index"),
        ({**EMPTY, "lost_logs": lambda: LostLogs("5.log.deleted", None)}, "5.log.deleted"),
        ({**EMPTY, "state": replace(STATE, is_being_emptied=True)}, None),
        ({**EMPTY, "state": STATE, "mark": SimpleNamespace(stands=True)}, None),
    ],
)
def test_a_log_that_lost_all_its_files_is_refused(what, shown):
    """[DUR-51, DUR-54] What shows that there were records is named; a new log has nothing."""
    if "mark" in what:
        what["mark"] = SimpleNamespace(stands=True, beside=(), require_same_log=lambda _: None)
    stored = StoredState(0, None, parent_is_clean=False, own_marker=None)
    if shown is None:
        report = RecoveryReport()
        judge_start(survey(stored, **what), report)
        assert report.created
        return
    with pytest.raises(CorruptLogError) as refused:
        judge_start(survey(stored, **what), RecoveryReport())
    assert f"there is no .log file, but {shown}" in refused.value.message


# ---- the end of a log that was closed cleanly ----------------------------------------------------

MARKED = StoredState(0, 10, parent_is_clean=False, own_marker=OWN)
BROKERS = StoredState(0, None, parent_is_clean=True, own_marker=None)


@pytest.mark.parametrize(
    ("stored", "last", "is_as_marked", "reason"),
    [
        (MARKED, Piece(6, 10), True, None),
        (BROKERS, Piece(6, 10), False, None),
        (UNCLEAN, Piece(6, 10), True, "no clean shutdown marker"),
        (MARKED, Piece(6, 10, ends_clean=False), True, "ends in bytes that are no batch"),
        (
            MARKED,
            Piece(6, CorruptRecordError("bad")),
            True,
            "there is a clean shutdown marker, but bad",
        ),
        (MARKED, Piece(6, 9), True, "below the recovery point 10"),
        (MARKED, Piece(6, 11), True, "another program wrote"),
        (MARKED, Piece(6, 10), False, "another program wrote"),
        (replace(MARKED, parent_is_clean=True), Piece(6, 11), False, None),
    ],
)
def test_where_a_clean_log_ends(stored, last, is_as_marked, reason):
    """[DUR-51] After a clean stop the end is where the last segment ends; else all is read."""
    report = RecoveryReport()

    end = clean_end(survey(stored), stored, [last], report, is_as_marked=is_as_marked)

    assert report.clean == (reason is None)
    assert end == (last.end if reason is None else None)
    assert (report.reason or "").endswith(reason or "") or reason in report.reason


def test_an_error_of_the_disk_says_nothing_of_a_stop():
    """[DUR-33]"""
    with pytest.raises(ReadIOError):
        clean_end(
            survey(MARKED),
            MARKED,
            [Piece(6, ReadIOError("EIO"))],
            RecoveryReport(),
            is_as_marked=True,
        )
