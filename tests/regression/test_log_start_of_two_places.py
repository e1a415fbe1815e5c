"""A truncation below the log start was undone by the log directory's checkpoint.

Of two log starts the greater counts [DUR-65]. The partition's own was lowered, the one above was
not: after a crash the log began anew at the old one, and acked records were set aside.
"""

from __future__ import annotations

import pytest

import segstore

CHECKPOINT = "log-start-offset-checkpoint"


@pytest.mark.parametrize("fully", [False, True])
def test_a_lowered_log_start_counts(tmp_path, fully):
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / CHECKPOINT).write_text("0\n2\nother 0 7\norders 0 10\n")
    (tmp_path / "orders-0").mkdir()
    log = segstore.open(tmp_path / "orders-0", durability="none")
    assert log.log_start_offset == 10

    if fully:
        log.truncate_fully_and_start_at(5)
    else:
        log.append([(None, b"gone")] * 3)
        log.truncate_to(5)
    log.append([(None, b"acked")] * 3)
    log.close_quietly()

    with segstore.open(tmp_path / "orders-0") as log:
        assert log.log_start_offset == 5
        rows = [(offset, value) for offset, _, _, value in log.scan().tuples()]
        assert rows == [(5, b"acked"), (6, b"acked"), (7, b"acked")]
    assert "other 0 7" in (tmp_path / CHECKPOINT).read_text()
