"""On a full disk nothing could be deleted: the offset that is noted before took a block itself.

It is in the name of an empty file now, and survives a crash like a checkpoint [DUR-16, DUR-19].
"""

from __future__ import annotations

import errno
from contextlib import closing

import pytest

from segstore.errors import DiskFullError
from tests.crash.crash_check import Crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

SETTINGS = Settings(segment_bytes=100_000)
WRITTEN = [
    Operation("append", 3),
    Operation("roll"),
    Operation("append", 3),
    Operation("roll"),
    Operation("append", 3),
    Operation("flush"),
    Operation("background", 0),
]
SEEDS = 8


def _shortened(how):
    """Run *how* on a disk without a free block; returns the disk, and effects before and after."""
    run = run_script([*WRITTEN, Operation("kill")], SETTINGS)
    disk = run.disk
    log = SETTINGS.open(disk)
    end = log.log_end_offset
    disk.fail("write_at", 1, errno.ENOSPC, for_ever=True)
    before = disk.effects
    how(log, end)
    after = disk.effects
    disk.fail("write_at", 0, 0)
    log.close_quietly()
    return disk, before, after, end


def _ranges(disk, effects):
    """Return the ranges of offsets that opens behind a crash show."""
    found = set()
    for seed in range(SEEDS):
        with closing(SETTINGS.open(Crash(effects, "seed", seed).image(disk))) as log:
            offsets = [record.offset for record in log]
            assert offsets == list(range(log.log_start_offset, log.log_end_offset))
            found.add((log.log_start_offset, log.log_end_offset))
            assert not [text for text in log.report.warnings if "missing" in text]
    return found


@pytest.mark.parametrize("begin", [1, 3, 4])
def test_deleted_records(begin):
    """[DUR-5, DUR-19] Before the deletion or behind it, and behind it once it was acked."""
    disk, before, after, end = _shortened(lambda log, _: log.delete_records(begin))
    for effects in range(before, after):
        assert _ranges(disk, effects) <= {(0, end), (begin, end)}
    assert _ranges(disk, after) == {(begin, end)}


@pytest.mark.parametrize("cut", [3, 6])
def test_a_truncation(cut):
    """[DUR-5, DUR-16]"""
    disk, before, after, end = _shortened(lambda log, end: log.truncate_to(end - cut))
    for effects in range(before, after):
        assert {first for first, _ in _ranges(disk, effects)} == {0}
        assert {last for _, last in _ranges(disk, effects)} <= set(range(end - cut, end + 1))
    assert _ranges(disk, after) == {(0, end - cut)}


def test_the_names_go_with_the_next_checkpoint():
    """[DUR-21] and another full disk before that leaves one name only."""
    run = run_script([*WRITTEN, Operation("kill")], SETTINGS)
    log = SETTINGS.open(run.disk)
    run.disk.fail("write_at", 1, errno.ENOSPC, for_ever=True)
    for begin in (1, 2, 4):
        assert log.delete_records(begin) == begin
    names = [name for name in log._directory.names() if "log-start-" in name]
    assert names == [".segstore.log-start-00000000000000000004"]
    run.disk.fail("write_at", 0, 0)
    assert log.delete_records(5) == 5
    assert not [name for name in log._directory.names() if name.startswith(".segstore.")]
    log.close_quietly()


def test_what_needs_files_is_refused():
    """[DUR-30] A truncation into another leader epoch writes the epochs, once the records went."""
    run = run_script([*WRITTEN, Operation("kill")], SETTINGS)
    log = SETTINGS.open(run.disk)
    end = log.log_end_offset
    log.assign_epoch_start_offset(7, end)
    log.append([(None, b"x")])
    log.flush()
    run.disk.fail("write_at", 1, errno.ENOSPC, for_ever=True)
    for _ in range(2):
        with pytest.raises(DiskFullError, match="no room"):
            log.truncate_to(end - 1)
        assert log.log_end_offset == end + 1
    run.disk.fail("write_at", 0, 0)
    assert log.truncate_to(end - 1)
    assert log.append([(None, b"y")]).base_offset == end - 1
    log.close_quietly()
