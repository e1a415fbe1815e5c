"""The assignment of a leader epoch was interrupted: its checkpoint stayed ahead of the log.

In memory the old epoch went on, with records that were acknowledged; behind a crash they belonged
to a newer epoch that had begun before them, and a follower would have cut them off.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from tests.crash.barrier_scene import new_disk, open_log


def test_the_epoch_goes_with_the_next_change(monkeypatch):
    """[DUR-12, DUR-21, DUR-70] Control-C came behind the checkpoint's sync."""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    log.append([(None, b"x")] * 3)
    real = LeaderEpochFileCache.flush

    def interrupted(self, **options):
        real(self, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LeaderEpochFileCache, "flush", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.assign_epoch_start_offset(1, log.log_end_offset)
    assert log.append([(None, b"acknowledged")] * 2).durable_offset == 5
    assert (log.latest_epoch, log.end_offset_for_epoch(0)) == (0, (0, 5))

    for fate in ("lost", "kept", "killed"):
        with closing(open_log(disk.crash_image(fate=fate))) as found:
            assert (found.latest_epoch, found.end_offset_for_epoch(0)) == (0, (0, 5)), fate
    log.close_quietly()
