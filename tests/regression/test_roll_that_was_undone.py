"""A roll failed, its file went, and came back with a power cut beside what was appended instead.

The file was unlinked and the directory not synced; no open went on then: the segment before it
"reaches into the next segment". Found by ``csrc/fuzz/fuzz_operations.c``.
"""

from __future__ import annotations

import errno
from contextlib import closing

import pytest

from segstore.errors import DiskFullError, FsyncFailedError, LogReadOnlyError
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_script import Settings

SETTINGS = Settings("none", segment_bytes=500, preallocate=True)


def log_behind_a_recovery_point():
    disk = new_disk()
    log = SETTINGS.open(disk)
    log.append([(None, b"synced")])
    log.flush()
    return disk, log


@pytest.mark.parametrize("call", ["roll", "append"])
def test_the_next_open_goes_on(call: str):
    """[DUR-30, DUR-53] The disk has no room for a new segment, and then for a small record."""
    disk, log = log_behind_a_recovery_point()
    disk.fail("allocate_space", 1, errno.ENOSPC)
    with pytest.raises(DiskFullError):
        log.roll() if call == "roll" else log.append([(None, bytes(400))])
    log.append([(None, b"behind it")])
    log.close_quietly()

    for seed in range(50):
        found = SETTINGS.open(disk.crash_image(fate="seed", seed=seed))
        assert found.log_end_offset in {1, 2}, seed
        found.close_quietly()


def test_a_sync_that_fails_ends_writing():
    """[DUR-30, DUR-35] Whether it comes back nobody knows; a second sync would prove nothing."""
    disk, log = log_behind_a_recovery_point()
    disk.fail("allocate_space", 1, errno.ENOSPC)
    disk.fail("sync_directory", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.append([(None, bytes(400))])

    with pytest.raises(LogReadOnlyError, match="a sync failed"):
        log.append([(None, b"behind it")])
    log.close_quietly()
    with closing(SETTINGS.open(disk)) as found:
        assert [record.value for record in found.scan()] == [b"synced"]
