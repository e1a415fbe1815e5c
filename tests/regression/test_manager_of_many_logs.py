"""Each first open made the list of all open logs anew; of several errors only one was told."""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import CorruptCheckpointError, CorruptLogError
from segstore.log.files.background import BackgroundWorker
from segstore.log.unified_log import UnifiedLog


def test_a_first_open_makes_no_new_list_of_logs(tmp_path):
    """[REN-1] Only where one was renamed, or closed."""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("x", partitions=4)
    with segstore.open_dir(tmp_path / "logs") as manager:
        known = manager._logs.by_name
        logs = [manager.log("x", number) for number in range(4)]
        assert manager._logs.by_name is known
        logs[1].rename_dir("y-1")
        assert manager.log("y", 1) is logs[1]
        assert manager._logs.by_name is not known
        logs[2].close()
        assert manager.log("x", 2) is not logs[2]


def test_all_errors_of_a_close_are_told(tmp_path, monkeypatch):
    """[DUR-34] The first is raised, the others are notes of it."""
    manager = segstore.open_dir(tmp_path / "logs")
    manager.create_topic("x", partitions=3)
    real = UnifiedLog.close

    def close(log):
        real(log)
        if log.topic_partition.partition:
            raise CorruptLogError(f"partition {log.topic_partition.partition}")

    monkeypatch.setattr(UnifiedLog, "close", close)
    with pytest.raises(CorruptLogError, match="partition 1") as caught:
        manager.close()
    assert caught.value.__notes__ == ["another log could not be closed: partition 2"]


def test_a_damaged_epoch_checkpoint_is_named_with_its_directory(tmp_path):
    """[DUR-7] Of a hundred partitions nobody would know which."""
    path = tmp_path / "x-0"
    segstore.open(path, recovery="kafka").close()
    (path / "leader-epoch-checkpoint").write_text("0\nx\n")
    with pytest.raises(CorruptCheckpointError) as caught:
        segstore.open(path, recovery="kafka")
    assert caught.value.file == str(path / "leader-epoch-checkpoint")


def test_a_setting_that_comes_and_goes_leaves_one_timer(tmp_path, monkeypatch):
    """[DUR-14, UNI-7] Each change back to ``flush_ms`` added another one, for ever."""
    periods = []
    real = BackgroundWorker.repeat

    def repeat(self, method, seconds, **how):
        periods.append(seconds)
        real(self, method, seconds, **how)

    monkeypatch.setattr(BackgroundWorker, "repeat", repeat)
    with segstore.open(tmp_path / "x-0", durability="none") as log:
        for _ in range(20):
            for flush_ms in (60_000, 90_000, 2**63 - 1):
                log.update_config(log.config.with_changes(flush_ms=flush_ms))
    assert sorted(periods) == [60.0, 90.0]
