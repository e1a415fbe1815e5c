"""A truncation to the log start, inside a batch, left a log whose next open forgot the log start.

All data goes with the batch, and the clean marker said that the log ends below its log start.
"""

from __future__ import annotations

import segstore
from tests.kits.log_kit import TIME


def test_the_log_start_is_kept(new_log):
    """[DUR-19, TRU-5]"""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 2)
    log.delete_records(1)
    log.truncate_to(1)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    log.close()

    with segstore.open(log.path) as again:
        assert again.report.clean
        assert not again.report.warnings
        assert (again.log_start_offset, again.log_end_offset) == (1, 1)
        assert again.append([(TIME, b"k", b"w")]).base_offset == 1
        assert [record.value for record in again] == [b"w"]
