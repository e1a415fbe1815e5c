"""What a repair does with what lies above the recovery point: synced, or written again [DUR-36]."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import pytest

from segstore.log.files.checkpoints import SYNC_FAILED_MARK
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.recovery.repair import Repair


class Place(NamedTuple):
    position: int


class Steps(list):
    """A directory, and its segments of ten bytes a record, that note what is done to them."""

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


def bring_to_disk(below, scanned, point, *, had_failed_sync=False, above=True):
    steps = scanned[0].steps
    plan = SimpleNamespace(
        judgement=SimpleNamespace(stored=SimpleNamespace(recovery_point=point)),
        had_failed_sync=had_failed_sync,
        has_nothing_to_rewrite=not above,
    )
    tail = SimpleNamespace(below=below, scanned=[SimpleNamespace(segment=one) for one in scanned])
    Repair(steps, None, None, RecoveryReport())._bring_to_disk(plan, tail)


def test_what_lies_above_the_recovery_point_is_synced_and_written_again_later():
    """[DUR-4, DUR-36] Before the first change: until then it is not durable."""
    steps = Steps()

    bring_to_disk([steps.segment(0, 6)], [steps.segment(6, 10), steps.segment(10, 12)], 8)

    assert steps == ["sync 6", "sync 10", "sync names"]


def test_where_nothing_lies_above_the_recovery_point_nothing_is_left_to_write():
    """[DUR-36, DUR-52] The indexes, made anew, are synced all the same."""
    steps = Steps()

    bring_to_disk([], [steps.segment(6, 10)], 10, above=False)

    assert steps == ["sync 6 and its indexes", "sync names"]


@pytest.mark.parametrize("point", [0, 8, 12])
def test_behind_a_failed_sync_all_is_written_again_at_once(point):
    """[DUR-35, DUR-36] Also below the recovery point; the mark goes when all is on the disk."""
    steps = Steps()
    scanned = [steps.segment(6, 10), steps.segment(10, 12)]

    bring_to_disk([steps.segment(0, 6)], scanned, point, had_failed_sync=True)

    assert steps == [
        *("rewrite 0 from 0", "sync 0 and its indexes"),
        *("rewrite 6 from 0", "sync 6 and its indexes"),
        *("rewrite 10 from 0", "sync 10 and its indexes"),
        "sync names",
        f"unlink {SYNC_FAILED_MARK}",
    ]
