"""A new log in a directory whose name was not on the disk was lost with all that was acknowledged.

The directory was there already: made by a process that was killed before its sync, or by the user;
or its sync had failed, after which no other sync brings the name to the disk.
"""

from __future__ import annotations

import errno
from contextlib import closing

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.errors import FsyncFailedError, LogNotFoundError
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_script import PATH


def empty_disk() -> SimulatedDisk:
    disk = new_disk()
    Directory("/data", disk, create=True)
    return disk.crash_image(fate="lost")


def records_behind_a_power_cut(disk: SimulatedDisk) -> int:
    """How many are left of one that was acknowledged."""
    log = open_log(disk, durability="sync")
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with closing(open_log(disk.crash_image(fate="lost"))) as found:
        return found.log_end_offset


def test_a_process_was_killed_before_it_synced_the_name():
    """[DUR-1, DUR-11] Anywhere in its open."""
    disk = empty_disk()
    open_log(disk).close_quietly()
    for effects in range(disk.effects + 1):
        killed = disk.crash_image(effects, fate="killed")

        assert records_behind_a_power_cut(killed) == 1, effects


def test_the_user_made_the_directory():
    """[DUR-1, DUR-11]"""
    disk = empty_disk()
    Directory("/data", disk).make_directory("topic-0")

    assert records_behind_a_power_cut(disk) == 1


def test_the_sync_of_the_name_failed():
    """[DUR-11, DUR-35] The directory goes again, so that the next one brings its name."""
    disk = empty_disk()
    disk.fail("sync_directory", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        open_log(disk)

    with pytest.raises(LogNotFoundError):
        Directory(PATH, disk)
    assert records_behind_a_power_cut(disk) == 1
