"""Offsets missing between two batches of one follower append: a crash cut the log there."""

from __future__ import annotations

import segstore
from tests.kits.log_kit import at, offsets


def test_the_batches_behind_the_gap_are_kept(tmp_path):
    """[DUR-64, DUR-1] The log is contiguous from behind the gap only, whatever the recovery."""
    path = tmp_path / "t-0"
    log = segstore.open(path)
    log.append_as_follower(at(0) + at(5) + at(6), 0)
    log.append_as_follower(at(7) + at(9, 2) + at(20), 0)
    log.close_quietly()
    for name in ("recovery-point-offset-checkpoint",):
        (path / name).unlink(missing_ok=True)

    with segstore.open(path) as log:
        assert log.report.truncated_bytes == 0
        assert offsets(log) == [0, 5, 6, 7, 9, 10, 20]
        assert log.log_end_offset == 21
