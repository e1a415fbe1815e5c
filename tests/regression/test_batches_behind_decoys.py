"""Whole batches were cut without being kept, behind much that looked like a batch.

The search for them gives up when too many places look like one; that counted as "there is none", of
which 64 MiB are kept.
"""

from __future__ import annotations

import struct
from contextlib import closing

import pytest

from segstore._core import Directory
from segstore.errors import DiskFullError
from segstore.log.recovery import quarantine
from tests.crash.barrier_scene import open_log
from tests.crash.crash_script import PATH
from tests.kits.directory_kit import disk_with, name_of, records

LIMIT_BYTES = 50_000
DECOYS_BYTES = 200_000
DECOY = struct.pack(">qiiB", 100, DECOYS_BYTES // 2, 0, 2)  # offset, length, epoch, magic
BATCHES = records(11, 31)
TAIL = DECOY * (DECOYS_BYTES // len(DECOY)) + BATCHES


@pytest.fixture
def disk(monkeypatch):
    monkeypatch.setattr(quarantine, "MAX_QUARANTINE_BYTES", LIMIT_BYTES)
    return disk_with({name_of(0): records(0, 10) + TAIL})


def test_all_is_kept_where_nobody_knows_whether_batches_are_in_it(disk):
    """[DUR-59] They may have been acknowledged."""
    with closing(open_log(disk)) as log:
        assert log.log_end_offset == 10
        names = log.report.quarantined
        assert log.report.warnings == []

    directory = Directory(PATH, disk)
    kept = [directory.read_file(name) for name in names]
    assert b"".join(kept) == TAIL
    assert max(map(len, kept)) == LIMIT_BYTES


def test_nothing_is_cut_where_there_is_no_room_for_it(disk):
    """[DUR-57, DUR-59] The open is refused, and the next one with room finds all of it."""
    disk.set_room(LIMIT_BYTES)
    with pytest.raises(DiskFullError, match="may be whole batches among them"):
        open_log(disk)

    directory = Directory(PATH, disk)
    assert directory.read_file(name_of(0)) == records(0, 10) + TAIL
    assert not any("quarantine" in name for name in directory.names())
    disk.set_room(None)
    with closing(open_log(disk)) as log:
        assert len(log.report.quarantined) == 5
