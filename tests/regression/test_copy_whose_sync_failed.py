"""A sync of a copied log failed, and the open behind it believed what that had left in memory.

The mark that lets the next open write everything again could not be made on a full disk, where the
sync fails too: the copy counted as synced then, and a power cut took its records. And with the mark
only the records were written again: a log start went, and what had been deleted came back.
"""

from __future__ import annotations

import errno

import pytest

from segstore._core import DataFile, Directory, SimulatedDisk
from segstore.errors import FsyncFailedError
from tests.crash.crash_check import look
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_opens import SEGMENTS, SETTINGS, closed
from tests.kits.directory_kit import disk_with

DELETED = ("delete_records", 3), ("background", 3600)
SYNCS = 9
"""Of as many files: the marker, ``.segstore``, two ``.log``, two snapshots, three checkpoints."""


def copied_without_a_sync(source: SimulatedDisk) -> SimulatedDisk:
    """Return a disk with the files of a log that was closed cleanly: only their names are on it."""
    disk = disk_with({})
    there, here = Directory(PATH, source), Directory(PATH, disk)
    for name in there.names():
        with DataFile(here, name, create=True) as file:
            file.write(0, there.read_file(name))
    return disk


def open_with_a_failed_sync(disk: SimulatedDisk, number: int, *, is_full: bool) -> None:
    """Let that sync fail; for want of room, which is there again for the next open."""
    syncs = []

    def watch(call: str, name: str) -> None:
        if call == "sync_file":
            syncs.append(name)
        if call == "sync_file" and len(syncs) == number:
            disk.fail("sync_file", 1, errno.ENOSPC)
            disk.fail("open_file", int(is_full), errno.ENOSPC, for_ever=True)

    disk.watch(watch)
    try:
        SETTINGS.open(disk).close_quietly()
    finally:
        disk.watch(None)
        disk.fail("open_file", 0, 0)


@pytest.mark.parametrize("is_full", [True, False])
def test_what_the_next_open_shows_survives_a_power_cut(is_full):
    """[DUR-1, DUR-5, DUR-35, DUR-36] Whichever sync it was, and without room for a mark."""
    source = closed(*SEGMENTS, *DELETED)
    expected = look(source.crash_image(fate="lost"), SETTINGS).found
    assert expected.log_start == 3
    for number in range(1, SYNCS + 1):
        disk = copied_without_a_sync(source)
        with pytest.raises(FsyncFailedError):
            open_with_a_failed_sync(disk, number, is_full=is_full)
        log = SETTINGS.open(disk)
        assert (log.log_start_offset, log.log_end_offset) == (3, 6)
        log.close_quietly()

        assert look(disk.crash_image(fate="lost"), SETTINGS).found == expected
