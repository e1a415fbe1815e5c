""".segstore said no more that a log is being emptied, before the new segment's name was durable.

Of a log without epochs, which no other file syncs: a power cut between left neither, but an old
index, and every open behind it was refused.
"""

from __future__ import annotations

from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    LogState,
)
from tests.crash.barrier_scene import open_log
from tests.kits.directory_kit import RECOVERY_POINT, disk_with, name_of

START = 50


def test_the_name_is_synced_before():
    """[DUR-11, DUR-18, DUR-54]"""
    disk = disk_with(
        {
            LOG_STATE: LogState(0, 0, None, is_being_emptied=True).format(),
            name_of(0).replace(".log", ".index"): b"\0\0\0\5\0\0\1\0",
            LOG_START_OFFSET_CHECKPOINT: b"0\n1\ntopic 0 %d\n" % START,
            RECOVERY_POINT: b"0\n1\ntopic 0 0\n",
            LEADER_EPOCH_CHECKPOINT: b"0\n0\n",
        }
    )
    before = disk.effects
    open_log(disk).close_quietly()

    events = [disk.event(number) for number in range(before + 1, disk.effects + 1)]
    made = next(n for n, one in enumerate(events) if one.name == name_of(START))
    said = next(n for n, one in enumerate(events) if one.to == LOG_STATE)
    assert "sync_directory" in [one.call for one in events[made:said]]
    for effects in range(before, disk.effects + 1):
        for seed in range(20):
            image = disk.crash_image(effects=effects, fate="seed", seed=seed)
            with open_log(image) as log:
                assert (log.log_start_offset, log.log_end_offset) == (START, START)
