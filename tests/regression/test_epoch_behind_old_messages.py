"""A follower's epoch 5, messages without an epoch, then epoch 2 in the next segment.

The messages have ended epoch 5; recovery remembered it all the same, and cut what was behind as if
somebody else had written it: acknowledged and synced records.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from segstore._core import Directory, FileBarrier
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_script import PATH
from tests.kits.log_kit import at, message_of_magic_1


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("rolls", [True, False])
@pytest.mark.parametrize("durability", ["sync", "none"])
def test_nothing_is_cut(durability, rolls, has_checkpoint):
    """[DUR-1, DUR-50, APP-10] And the log goes on in its own epoch."""
    disk = new_disk()
    log = open_log(disk, durability=durability)
    log.append_as_follower(at(0, epoch=5), 5)
    log.append_as_follower(message_of_magic_1(1), 5)
    if rolls:
        log.roll()
    log.append_as_follower(at(2, epoch=2) + at(3, epoch=2), 2)
    assert log.verify().ok
    log.close_quietly()
    if not has_checkpoint:
        Directory(PATH, disk).unlink(LEADER_EPOCH_CHECKPOINT)

    with closing(open_log(disk, read_only=True)) as reader:
        assert [record.offset for record in reader] == [0, 1, 2, 3]
    with closing(open_log(disk)) as log:
        assert [record.offset for record in log] == [0, 1, 2, 3]
        assert (log.latest_epoch, log.report.truncated_from_offset) == (2, None)
        log.append_as_follower(at(4, epoch=2), 2)
        assert log.verify().ok


def test_a_lower_epoch_without_such_a_message_is_damage():
    """[DUR-7, DUR-50] As before."""
    disk = new_disk()
    with closing(open_log(disk)) as log:
        log.append_as_follower(at(0, epoch=5), 5)
        log.append_as_follower(at(1, epoch=5), 5)
        directory = Directory(PATH, disk)
        name = f"{0:020d}.log"
        content = bytearray(directory.read_file(name))
        start = len(content) // 2
        content[start + 12 : start + 16] = (2).to_bytes(4)
        directory.write_file_atomically(name, bytes(content), FileBarrier.LOG_STATE)

    with closing(open_log(disk)) as log:
        assert not log.verify().ok
