"""A permitted gap in a follower's append hid that records before it were lost in a crash.

From the gap on a log counts as contiguous: whether records are missing between earlier segments
nobody looks any more. Those were not synced before, and of a gap whose append failed the note
stayed, above the log end.
"""

from __future__ import annotations

import errno

import pytest

from segstore.errors import DiskFullError
from tests.crash.barrier_scene import new_disk, open_log
from tests.kits.log_kit import at, values

ONE = [(None, b"one")]
SEEDS = 150


def require_prefixes_of_segments_without_a_gap(disk, log):
    """Append two segments and one record behind the first, and look what crashes leave."""
    for _ in range(2):
        log.append(ONE)
        log.roll()
    log.append(ONE)
    records = [b"one"] * 4
    for seed in range(SEEDS):
        with open_log(disk.crash_image(fate="seed", seed=seed)) as found:
            assert values(found) == records[: found.log_end_offset], seed


@pytest.mark.parametrize("gap", [0, 5])
def test_what_was_appended_before_the_gap(gap):
    """[DUR-1, DUR-2, APP-9]"""
    disk = new_disk()
    log = open_log(disk, durability="none")
    for value in (b"synced", b"not synced", b"nor this"):
        log.append([(None, value)])
        if value == b"synced":
            log.flush()
    log.roll()
    log.append_as_follower(at(3 + gap, value=b"behind"), 0)

    found_whole = 0
    for seed in range(SEEDS):
        with open_log(disk.crash_image(fate="seed", seed=seed)) as found:
            shown = values(found)
        assert shown == [b"synced", b"not synced", b"nor this", b"behind"][: len(shown)], seed
        found_whole += len(shown) == 4
    assert found_whole > 0
    log.close_quietly()


def test_what_is_appended_when_the_append_of_the_gap_failed():
    """[DUR-1, DUR-30, APP-9]"""
    disk = new_disk()
    log = open_log(disk, durability="none")
    log.append(ONE)

    def refuse(call: str, name: str) -> None:
        if call == "write_at" and name.endswith(".log"):
            disk.fail("write_at", 1, errno.ENOSPC)

    disk.watch(refuse)
    with pytest.raises(DiskFullError):
        log.append_as_follower(at(1000), 0)
    disk.watch(None)
    disk.fail("write_at", 0, 0)

    require_prefixes_of_segments_without_a_gap(disk, log)
    log.close_quietly()


def test_what_is_appended_when_a_truncation_took_the_gap():
    """[DUR-1, TRU-1]"""
    disk = new_disk()
    log = open_log(disk, durability="none")
    log.append(ONE)
    log.append_as_follower(at(1000), 0)
    log.truncate_to(1)

    require_prefixes_of_segments_without_a_gap(disk, log)
    log.close_quietly()
