"""``retention_ms=-1``, Kafka's way to say "for ever", deleted the whole log [RET-7].

Only a properties file turned it into None.
"""

from __future__ import annotations

import pytest

import segstore
from segstore import LogConfig

FOR_EVER = [None, -1]
SETTINGS = {"internal_segment_bytes": 2000, "file_delete_delay_ms": 0}


def write(log) -> None:
    for row in range(100):
        log.append([(1000 + row, None, b"%d" % row + b"." * 40)])


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("limit", FOR_EVER)
def test_no_limit_deletes_nothing(tmp_path, limit, recovery):
    how = {"recovery": recovery, "replicated": False}
    with segstore.open(tmp_path / "a-0", retention_ms=limit, **how, **SETTINGS) as log:
        write(log)
        assert (log.delete_old_segments(), log.log_start_offset) == (0, 0)


@pytest.mark.parametrize("limit", FOR_EVER)
def test_nor_does_one_that_is_set_later(tmp_path, limit):
    with segstore.open(tmp_path / "a-0", **SETTINGS) as log:
        write(log)
        log.update_config(LogConfig(retention_ms=limit, **SETTINGS))
        assert (log.delete_old_segments(), log.log_start_offset) == (0, 0)
        log.update_config(LogConfig(retention_ms=1000, **SETTINGS))
        assert log.delete_old_segments() > 0
