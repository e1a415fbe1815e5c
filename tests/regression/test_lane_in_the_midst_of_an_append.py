"""An append of several segments was interrupted behind its first step, and the lane was armed.

The first step had told the lane where the log ends. When the next one broke off in its roll, twice,
appends by the lane did not look at what was left undone: what they wrote, and acknowledged, lay in
the segment before one that was there already, which the next open called damage.
"""

from __future__ import annotations

import pytest

from segstore.log.local.local_log import LocalLog
from tests.crash.barrier_scene import new_disk, open_log

ONE = [(None, b"x")]
SEVERAL_SEGMENTS = [(None, b"y" * 400)] * 20
SETTINGS = {"durability": "sync", "internal_segment_bytes": 3000, "max_message_bytes": 1000}


def test_what_is_left_undone_is_done_before_the_next_append(monkeypatch):
    """[CON-4, DUR-1, DUR-70] Control-C comes behind the new file, and again while it goes."""
    disk = new_disk()
    log, real = open_log(disk, **SETTINGS), LocalLog._create_segment
    log.append(ONE)

    def interrupted(*_):
        raise KeyboardInterrupt

    def interrupted_behind(self, base_offset):
        real(self, base_offset)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LocalLog, "_create_segment", interrupted_behind)
        patched.setattr(LocalLog, "_undo_roll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append(SEVERAL_SEGMENTS)
    first = log.log_end_offset
    assert first > 1
    assert not log._lane_switch.lane.is_armed
    assert log.append(ONE).base_offset == first

    for fate, seed in [("lost", 0), ("kept", 0), ("killed", 0), *(("seed", n) for n in range(20))]:
        with open_log(disk.crash_image(fate=fate, seed=seed), **SETTINGS) as found:
            assert found.log_end_offset == first + 1
    log.close_quietly()
