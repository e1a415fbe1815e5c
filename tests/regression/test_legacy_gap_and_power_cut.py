"""Messages of magic 1 permit gaps, but not behind bytes that are not synced yet."""

from __future__ import annotations

from segstore._core import RecordsBuilder
from segstore.records.compression import codec_table
from tests.crash.barrier_scene import new_disk, open_log
from tests.kits.log_kit import TIME, values

WRITTEN = [b"first", b"old", b"new 0", b"new 1"]


def test_a_legacy_message_of_a_follower_leaves_no_hole():
    """[DUR-1, DUR-5, DUR-64] The next segment reached the disk, the message before it did not."""
    builder = RecordsBuilder(codec_table(), magic=1)
    builder.append(1, TIME, None, WRITTEN[1])
    disk = new_disk()
    log = open_log(disk, durability="none")
    log.append([(None, WRITTEN[0])])
    log.flush()
    log.append_as_follower(builder.build(), 0)
    log.roll()
    for value in WRITTEN[2:]:
        log.append([(None, value)])
    ends = set()
    for seed in range(60):
        with open_log(disk.crash_image(fate="seed", seed=seed)) as found:
            left = values(found)
        assert left == WRITTEN[: len(left)], seed
        ends.add(len(left))
    assert ends >= {1, 2}
    log.close_quietly()
