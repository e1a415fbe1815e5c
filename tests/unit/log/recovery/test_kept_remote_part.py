"""A log with a part in remote storage that is opened as if it had none [DUR-26, CFG-46]."""

from __future__ import annotations

import os

import pytest

import segstore
from segstore.cli import main
from segstore.errors import IllegalStateError, OffsetOutOfRangeError
from tests.kits.log_kit import TIME, bases, batch, offsets, singleton
from tests.kits.remote_kit import TIERED, RemoteRecords

SIZE = len(singleton())


@pytest.fixture
def tiered(new_log):
    """Open a tiered log of one-record segments."""

    def open_tiered(path=None, **settings: object):
        return new_log(
            path,
            **{
                "retention_ms": None,
                "internal_segment_bytes": 2 * SIZE - 1,
                "remote_log_reader": RemoteRecords(),
                **TIERED,
                **settings,
            },
        )

    return open_tiered


@pytest.fixture
def path(tiered) -> str:
    """Offsets 0 to 7 of which 0 to 3 are in remote storage alone; closed."""
    with tiered(retention_bytes=4 * SIZE) as log:
        for number in range(8):
            log.append_as_leader(batch([(TIME + number, b"key", b"value")]), number // 2)
        log.update_highest_offset_in_remote_storage(3)
        assert len(log.delete_old_segments()) == 4
        assert bases(log) == [4, 5, 6, 7]
        return log.path


@pytest.mark.parametrize(
    "settings",
    [
        {"remote_log_reader": None},
        {"remote_storage_enable": False},
        {"cleanup_policy": "compact"},
        {"remote_log_reader": None, "remote_log_copy_disable": True, "retention_ms": 0},
    ],
)
def test_an_open_that_forgets_the_remote_part_keeps_it(path, tiered, settings):
    """[DUR-26] and says so; nothing counts as uploaded, so that retention deletes none."""
    for _ in range(2):
        with tiered(path, **settings) as log:
            assert "records 0 to 3 are in remote storage alone" in str(log.report)
            assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)
            assert log.remote_log_enabled
            log.append_as_leader(batch([(TIME, b"key", b"value")]), 4)
            assert offsets(log.scan(4))[0] == 4
            if "compact" not in log.config.cleanup_policy:
                assert len(log.delete_old_segments()) == 0
            with pytest.raises(OffsetOutOfRangeError, match="remote storage"):
                log.read(0, 1000)
    with tiered(path) as log:
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)
        assert log.report.warnings == []
        assert bases(log) == [4, 5, 6, 7, 8, 9]


def test_what_is_kept_is_given_up_when_that_is_said(path, tiered):
    """[CFG-46] at the open, or later; until then no look-up by time leaves it out silently."""
    gives_up = {"remote_log_delete_on_disable": True}
    log = tiered(path, remote_log_reader=None)
    for ask in (log.offset_for_timestamp, log.fetch_offset_by_timestamp):
        with pytest.raises(IllegalStateError, match="in remote storage alone") as caught:
            ask(TIME)
        assert caught.value.found == "no remote_log_reader"
    log.close_quietly()
    with tiered(path, remote_log_reader=None, **gives_up) as log:
        assert (log.log_start_offset, log.local_log_start_offset) == (4, 4)
        assert not log.remote_log_enabled
    with tiered(path) as log:
        assert log.log_start_offset == 4


def test_settings_give_up_what_is_kept(path, tiered):
    """[CFG-46] of a log that is open."""
    log = tiered(path, remote_log_reader=None)
    log.update_config(log.config.with_changes(retention_bytes=0))
    assert (log.log_start_offset, len(log.delete_old_segments())) == (0, 0)
    log.update_config(log.config.with_changes(remote_log_delete_on_disable=True))
    assert (log.log_start_offset, log.remote_log_enabled) == (4, False)
    assert log.offset_for_timestamp(TIME) == 4


def test_a_directory_of_logs_keeps_what_is_remote(path, capsys):
    """[DUR-26] a manager and the command line know of no remote storage either."""
    with segstore.open_dir(os.path.dirname(path)) as logs:  # noqa: PTH120
        logs.append("topic", [(None, b"v")], partition=0)
        assert logs.log("topic", 0).log_start_offset == 0
    assert main(["recover", "-q", path]) == 0
    assert "records 0 to 3 are in remote storage alone" in capsys.readouterr().out
    with segstore.open(path, remote_log_reader=RemoteRecords(), **TIERED) as log:
        assert (log.log_start_offset, log.log_end_offset) == (0, 9)
