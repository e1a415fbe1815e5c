"""A truncation inside a batch left a recovery point in the hole: the next open was refused.

The batch goes whole, the log end is in the middle of it [TRU-5]; after a crash the log ends where
the data ends, which must not look as if records below the recovery point were missing [DUR-51].
"""

from __future__ import annotations

import pytest

import segstore


@pytest.mark.parametrize("durability", ["none", "sync"])
@pytest.mark.parametrize("torn", [b"", b"\0\0\0\0\0\0\0\x0f\0\0\1\0torn"])
@pytest.mark.parametrize("appended", [0, 3])
def test_a_crash_behind_a_truncation_inside_a_batch(tmp_path, durability, torn, appended):
    path = tmp_path / "orders-0"
    log = segstore.open(path, durability=durability)
    log.append([(None, b"first")] * 10)
    log.append([(None, b"second")] * 10)
    log.truncate_to(15)
    assert log.log_end_offset == 15
    log.flush()
    for _ in range(appended):
        log.append([(None, b"third")])
    log.flush()
    log.close_quietly()
    with (path / "00000000000000000000.log").open("ab") as file:
        file.write(torn)

    with segstore.open(path) as log:
        assert log.log_end_offset == (15 + appended if appended else 10)
        values = [value for _, _, _, value in log.scan().tuples()]
        assert values == [b"first"] * 10 + [b"third"] * appended
        assert log.report.truncated_bytes == len(torn)


def test_the_recovery_point_goes_on_behind_the_hole(tmp_path):
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        log.append([(None, b"first")] * 10)
        log.truncate_to(5)
        log.flush()
        assert (log.recovery_point, log.durable_offset) == (0, 5)

        log.append([(None, b"second")])
        log.flush()

        assert (log.recovery_point, log.durable_offset) == (6, 6)
