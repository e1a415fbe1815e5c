"""A clean stop stays clean when the next open removes a segment below the log start [DUR-18]."""

from __future__ import annotations

import segstore
from tests.kits.log_kit import TIME


def test_a_segment_of_deleted_records_only(new_log):
    """It was the active one when its records were deleted, and a roll left it behind."""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 2)
    log.delete_records(2)
    log.roll()
    assert [segment.base_offset for segment in log.segments()] == [0, 2]
    log.close()

    with segstore.open(log.path) as again:
        assert again.report.clean, str(again.report)
        assert again.report.removed == ["00000000000000000000.log"]
        assert (again.log_start_offset, again.log_end_offset) == (2, 2)
