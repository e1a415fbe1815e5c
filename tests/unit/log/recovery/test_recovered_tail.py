"""What an open does with what lies above the recovery point: synced, or written again [DUR-36]."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from segstore.log.files.checkpoints import SYNC_FAILED_MARK
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.stored_state import StoredState
from segstore.log.recovery.recovered_tail import after_failed_sync, bring_to_disk
from segstore.log.recovery.recovery_report import RecoveryReport

OWN = CleanShutdownMarker(10, 6, 500, None)
UNCLEAN = StoredState(2, 7, parent_is_clean=False, own_marker=None)


class Place(NamedTuple):
    position: int


class Steps(list):
    """A directory, and its segments of ten bytes a record, that note what is done to them."""

    def __init__(self, *names: str) -> None:
        self.names = {*names}

    def exists(self, name):
        return name in self.names

    def unlink(self, name):
        self.append(f"unlink {name}")

    def sync(self, _):
        self.append("sync names")

    def segment(self, base_offset, end):
        return Piece(self, base_offset, (end - base_offset) * 10)


class Piece(NamedTuple):
    steps: Steps
    base_offset: int
    size_bytes: int

    def translate_offset(self, offset):
        position = (offset - self.base_offset) * 10
        return Place(position) if position < self.size_bytes else None

    def rewrite(self, position):
        self.steps.append(f"rewrite {self.base_offset} from {position}")

    def flush(self, _, *, indexes=False):
        self.steps.append(f"sync {self.base_offset}{' and its indexes' if indexes else ''}")


# ---- a clean stop behind a sync that failed ------------------------------------------------------


@pytest.mark.parametrize(
    "clean",
    [
        {"parent_is_clean": True, "own_marker": None},
        {"parent_is_clean": False, "own_marker": OWN},
        {"parent_is_clean": True, "own_marker": OWN},
    ],
    ids=["a broker's", "of Kafka's profile", "of both"],
)
def test_a_clean_stop_behind_a_failed_sync_is_not_believed(clean):
    """[DUR-35, DUR-36] Nor its recovery point; that is told behind what was told before."""
    found, report = StoredState(2, 7, **clean), RecoveryReport(warnings=["before"])

    believed = after_failed_sync(found, Steps(SYNC_FAILED_MARK), report)

    assert believed == StoredState(2, None, parent_is_clean=False, own_marker=None)
    assert report.warnings[0] == "before"
    assert "is not believed" in report.warnings[1]
    assert after_failed_sync(found, Steps(), report) is found


def test_an_unclean_stop_behind_a_failed_sync_keeps_its_recovery_point():
    """[DUR-35] It came down, or stayed, when the sync failed: who knows the mark wrote it."""
    report = RecoveryReport()
    assert after_failed_sync(UNCLEAN, Steps(SYNC_FAILED_MARK), report) is UNCLEAN
    assert after_failed_sync(UNCLEAN, Steps(), report) is UNCLEAN
    assert not report.warnings


# ---- what is brought to the disk -----------------------------------------------------------------


def test_what_lies_above_the_recovery_point_is_synced_and_written_again_later():
    """[DUR-4, DUR-36] Before the first change: until then it is not durable."""
    steps, report = Steps(), RecoveryReport()
    segments = [steps.segment(6, 10), steps.segment(10, 12)]

    is_rewritten = bring_to_disk([steps.segment(0, 6)], segments, 8, steps, report)

    assert not is_rewritten
    assert steps == ["sync 6", "sync 10", "sync names"]
    assert (report.rewritten_bytes, report.rewritten, report.warnings) == (40, False, [])


def test_where_nothing_lies_above_the_recovery_point_nothing_is_left_to_write():
    """[DUR-36, DUR-52] The indexes, made anew, are synced all the same."""
    steps, report = Steps(), RecoveryReport()

    is_rewritten = bring_to_disk([], [steps.segment(6, 10)], 10, steps, report)

    assert is_rewritten
    assert steps == ["sync 6 and its indexes", "sync names"]
    assert (report.rewritten_bytes, report.rewritten, report.warnings) == (0, False, [])


@pytest.mark.parametrize("point", [0, 8, 12])
def test_behind_a_failed_sync_all_is_written_again_at_once(point):
    """[DUR-35, DUR-36] Also below the recovery point; the mark goes when all is on the disk."""
    steps, report = Steps(SYNC_FAILED_MARK), RecoveryReport()
    synced, segments = [steps.segment(0, 6)], [steps.segment(6, 10), steps.segment(10, 12)]

    is_rewritten = bring_to_disk(synced, segments, point, steps, report)

    assert is_rewritten
    assert steps == [
        *("rewrite 0 from 0", "sync 0 and its indexes"),
        *("rewrite 6 from 0", "sync 6 and its indexes"),
        *("rewrite 10 from 0", "sync 10 and its indexes"),
        "sync names",
        f"unlink {SYNC_FAILED_MARK}",
    ]
    assert (report.rewritten_bytes, report.rewritten) == (120, True)
    assert report.warnings == ["a sync had failed: all that there is was written again at once"]


def test_behind_a_failed_sync_of_an_empty_log_nothing_was_written_again():
    """[DUR-58] The report tells what was done."""
    steps, report = Steps(SYNC_FAILED_MARK), RecoveryReport()

    assert bring_to_disk([], [steps.segment(6, 6)], 6, steps, report)

    assert (report.rewritten_bytes, report.rewritten) == (0, False)
    assert steps[-1] == f"unlink {SYNC_FAILED_MARK}"
