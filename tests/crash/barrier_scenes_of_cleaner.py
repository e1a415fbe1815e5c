"""The scene of the cleaner: what a pass goes by, and what it puts in the place of what."""

from __future__ import annotations

from contextlib import closing
from unittest import mock

from segstore.log.cleaning import cleaner
from segstore.log.cleaning.cleaner import Cleaner
from tests.crash.barrier_scene import Scene, new_disk, open_log
from tests.crash.crash_check import Crash
from tests.crash.crash_script import START_MS
from tests.kits.cleaner_kit import SmallDestinations

COMPACT = {"cleanup_policy": "compact", "internal_segment_bytes": 300, "delete_retention_ms": 0}


def compacted() -> Scene:
    """A pass takes old values away, and a deleted one with its tombstone, for new ones [DUR-126].

    The old values are on stable storage. The new ones were not synced before the pass, and its
    output goes into several segments.
    """
    keys = [b"%d" % number for number in range(4)]
    made = new_disk()
    log = open_log(made, **COMPACT)
    for key in (*keys, b"deleted"):
        log.append([(START_MS, key, b"old" * 10)])
    log.append([(START_MS, b"deleted", None)])
    log.close()
    disk = Crash(made.effects, "kept").image(made)
    disk.wall_clock_ms = START_MS

    log = open_log(disk, **COMPACT)
    for key in keys:
        log.append([(START_MS, key, b"new" * 10)])
    log.roll()
    with mock.patch.object(cleaner, "SegmentCleaner", SmallDestinations):
        for later_ms in (1, 2):  # the first pass gives the tombstone its horizon
            log.clean(Cleaner(), 0, now_ms=START_MS + later_ms)
    ended = disk.effects
    log.close_quietly()

    def check(crash: Crash) -> None:
        with closing(open_log(crash.image(disk), **COMPACT)) as found:
            last = {record.key: record.value for record in found.scan()}
        assert last.get(b"deleted") is None
        wanted = (b"new" * 10,) if crash.effects >= ended else (b"old" * 10, b"new" * 10)
        assert all(last.get(key) in wanted for key in keys)

    return Scene(disk, check)
