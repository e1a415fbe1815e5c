"""The first ABORT marker after a clean open made the log read-only when the disk was full.

`.segstore` was written between the marker, which was in the log already, and its index entry.
"""

from __future__ import annotations

import pytest

from segstore.errors import DiskFullError
from tests.conformance.transactions_kit import ABORT, Producer, write
from tests.small_disk import small_disk

__all__ = ["small_disk"]


def test_the_marker_is_refused_and_the_log_goes_on(new_log, small_disk):
    """[APP-16, DUR-41] Nothing was written; with space again, the same marker is taken."""
    path = small_disk.path / "topic-0"
    log = new_log(path, file_delete_delay_ms=0)
    first = Producer(log, 1)
    first.write(2)
    first.end(ABORT)
    write(log)
    log.close()
    log = new_log(path, file_delete_delay_ms=0)
    second = Producer(log, 2)
    second.write(2)
    write(log)
    end, stable = log.log_end_offset, log.last_stable_offset
    small_disk.fill()

    for _ in range(2):
        with pytest.raises(DiskFullError):
            second.end(ABORT)
        assert (log.log_end_offset, log.last_stable_offset) == (end, stable)
    write(log)
    small_disk.free()
    second.end(ABORT)

    assert log.last_stable_offset == log.log_end_offset == end + 2
    shown = [record.offset for record in log.scan(isolation="read_committed")]
    log.close()
    again = new_log(path)
    assert again.report.clean
    assert [record.offset for record in again.scan(isolation="read_committed")] == shown
    assert again.verify().ok
    again.close()
