"""A split that failed behind its commit took back the new segments, which were in place already.

The old one was gone by then: a rename or a sync that failed once, and all of its records were
deleted, in both profiles (Kafka's ``splitOverflowedSegment`` does the same).
"""

from __future__ import annotations

import errno
from contextlib import closing

import pytest

from segstore.errors import SegstoreError
from tests.crash.barrier_scene import open_log
from tests.crash.barrier_scenes_of_opens import FAR
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    far_record,
    name_of,
    recovery_point,
)

OFFSETS = [0, 1, FAR, FAR + 1]
SETTINGS = {"segment_index_bytes": 4096}


def offsets_behind(call: str, nth: int, recovery: str) -> list[int] | None:
    """What a log has whose split met a failure and was tried again; None = it met none."""
    content = b"".join(far_record(offset) for offset in OFFSETS)
    disk = disk_with({name_of(0): content, RECOVERY_POINT: recovery_point(FAR + 2)})
    disk.fail(call, nth, errno.EIO)
    try:
        open_log(disk, recovery=recovery, **SETTINGS).close_quietly()
    except SegstoreError:
        disk.fail(call, 0, 0)
        with closing(open_log(disk, recovery=recovery, **SETTINGS)) as log:
            return [record.offset for record in log.scan()]
    return None


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("call", ["rename", "sync_directory", "open_file", "write_at", "sync_data"])
def test_the_records_are_there_when_the_split_is_tried_again(call: str, recovery: str):
    """[DUR-6, DUR-20, DUR-56]"""
    failed = 0
    for nth in range(1, 40):
        offsets = offsets_behind(call, nth, recovery)
        if offsets is not None:
            failed += 1
            assert offsets == OFFSETS, nth

    assert failed > 0
