"""A clean stop with Kafka's profile and a directory for its state, as a broker's [DUR-24, DUR-62].

A broker's ``LogManager.shutdown`` flushes each log, closes it, and writes the checkpoints and the
marker of the log directory.
"""

from __future__ import annotations

import pytest

from segstore._core import Barrier, Directory, SimulatedDisk
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_offset_checkpoint,
)
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.types import TopicPartition
from tests.kits.log_kit import batch, offsets

COUNT = 9
LOG_START = 4


def open_log(disk: SimulatedDisk, **settings: object):
    """Open ``/logs/topic-0``; nothing is flushed before it is closed."""
    options = open_options(
        recovery="kafka",
        durability="none",
        segment_ms=None,
        internal_segment_bytes=200,
        **settings,
    )
    return open_partition("/logs/topic-0", options, LogEnvironment(environment=disk))


def stopped() -> SimulatedDisk:
    """What a power cut right after a close leaves: only what was synced."""
    disk = SimulatedDisk()
    root = Directory("/", disk)
    root.make_directory("logs")
    root.make_directory("state")
    root.sync(Barrier.APPENDED_NAMES)
    log = open_log(disk, state_dir="/state")
    for number in range(COUNT):
        log.append_as_leader(batch([(None, b"%d" % number)], timestamp=0), number // 3)
    log.update_high_watermark(COUNT)
    log.maybe_increment_log_start_offset(LOG_START)
    assert log.recovery_point < COUNT
    log.close()
    return disk.crash_image(fate="lost")


def test_everything_is_flushed_and_written_down():
    """[DUR-24, DUR-62, FLU-3, CLO-1] records, checkpoints, the last snapshot, the marker."""
    disk = stopped()
    state, folder = Directory("/state", disk), Directory("/logs/topic-0", disk)
    for name, offset in ((RECOVERY_POINT_CHECKPOINT, COUNT), (LOG_START_OFFSET_CHECKPOINT, 4)):
        assert parse_offset_checkpoint(state.read_file(name)) == {
            TopicPartition("topic", 0): offset
        }
    assert state.exists(CLEAN_SHUTDOWN_MARKER)
    assert folder.exists(f"{COUNT:020}.snapshot")
    assert not {RECOVERY_POINT_CHECKPOINT, CLEAN_SHUTDOWN_MARKER} & {*folder.names()}

    log = open_log(disk, state_dir="/state")
    assert log.report.clean
    assert log.report.scanned_bytes == 0
    assert (log.log_start_offset, log.recovery_point, log.log_end_offset) == (4, COUNT, COUNT)
    assert offsets(log) == [*range(LOG_START, COUNT)]
    assert log.end_offset_for_epoch(1) == (1, 6)
    log.close_quietly()


@pytest.mark.parametrize("failing", ["sync_data", "sync_file"])
def test_what_could_not_be_flushed_is_not_called_clean(failing):
    """[DUR-24, DUR-35]"""
    disk = SimulatedDisk()
    root = Directory("/", disk)
    root.make_directory("logs")
    log = open_log(disk, state_dir="/state")
    log.append([(None, b"v")])
    disk.fail(failing, 1, 5, for_ever=True)
    with pytest.raises(OSError, match="topic-0"):
        log.close()
    assert not Directory("/state", disk).exists(CLEAN_SHUTDOWN_MARKER)
