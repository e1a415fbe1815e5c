"""Files of deleted segments that cannot be removed are garbage, and no reason to fail [DUR-42]."""

from __future__ import annotations

import errno
import logging

from segstore._core import Directory, SimulatedDisk
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options


def test_they_stay_and_the_next_open_removes_them(caplog):
    """The log goes on meanwhile; the reason is in the program's log."""
    disk = SimulatedDisk()
    Directory("/", disk).make_directory("logs")
    options = open_options(
        durability="none", segment_ms=None, internal_segment_bytes=100, file_delete_delay_ms=0
    )
    log_environment = LogEnvironment(environment=disk)
    log = open_partition("/logs/topic-0", options, log_environment)
    for number in range(4):
        log.append([(None, b"%d" % number * 30)])
    log.flush()
    disk.fail("unlink", 1, errno.EIO, for_ever=True)
    with caplog.at_level(logging.WARNING):
        log.delete_records(3)
        log._background.wait_until_idle()
        disk.fail("unlink", 0, errno.EIO)
        assert log.append([(None, b"goes on")]).base_offset == 4
        log.close_quietly()
    assert "could not be removed" in caplog.text
    left = [name for name in Directory("/logs/topic-0", disk).names() if ".deleted" in name]
    assert left
    again = open_partition("/logs/topic-0", options, log_environment)
    assert not [name for name in Directory("/logs/topic-0", disk).names() if ".deleted" in name]
    assert [record.offset for record in again] == [3, 4]
    again.close()
