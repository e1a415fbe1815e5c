"""The first ABORT marker after a clean open made the log read-only when the disk was full.

`.segstore` was written between the marker, which was in the log already, and its index entry. Now
nothing is written but the two, and room for the entry is taken first.
"""

from __future__ import annotations

import pytest

from segstore.errors import DiskFullError
from tests.kits.small_disk import small_disk
from tests.kits.transactions_kit import ABORT, Producer, write

__all__ = ["small_disk"]


def committed(log):
    return [record.offset for record in log.scan(isolation="read_committed")]


@pytest.mark.parametrize("has_index", [True, False])
def test_the_log_goes_on(new_log, small_disk, has_index):
    """[APP-16, DUR-30] What fits is taken; what does not is not there, and taken with space again.

    In the blocks that they have begun both the log and its index have room.
    """
    path = small_disk.path / "topic-0"
    log = new_log(path, file_delete_delay_ms=0)
    first = Producer(log, 1)
    first.write(2)
    first.end(ABORT)
    write(log)
    if not has_index:
        log.roll()
        write(log)
    log.close()
    log = new_log(path, file_delete_delay_ms=0)
    second = Producer(log, 2)
    second.write(2)
    write(log)
    end, stable = log.log_end_offset, log.last_stable_offset
    small_disk.fill()

    if not has_index:
        for _ in range(2):
            with pytest.raises(DiskFullError):
                second.end(ABORT)
            assert (log.log_end_offset, log.last_stable_offset) == (end, stable)
        write(log)
        end += 1
        small_disk.free()
    second.end(ABORT)
    write(log)
    small_disk.free()

    assert log.last_stable_offset == log.log_end_offset == end + 2
    shown = committed(log)
    log.close()
    again = new_log(path)
    assert again.report.clean
    assert committed(again) == shown
    assert again.verify().ok
    again.close()
