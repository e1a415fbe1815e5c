"""Kafka's LogManagerTest, as far as a manager without background work goes."""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import LogLockedError
from segstore.log.files.checkpoints import parse_offset_checkpoint


def test_create_log(tmp_path):
    """LogManagerTest.testCreateLog."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("kafka")

        log = manager.log("kafka", 0)

        assert (tmp_path / "kafka-0").is_dir()
        log.append([(None, b"test")])
        assert log.log_end_offset == 1


def test_load_logs_skip_remote_index_cache(tmp_path):
    """LogManagerTest.testLoadLogsSkipRemoteIndexCache."""
    (tmp_path / "remote-log-index-cache").mkdir()

    with segstore.open_dir(tmp_path) as manager:
        assert manager.topics() == {}
    assert (tmp_path / "remote-log-index-cache").is_dir()


def test_checkpoint_for_only_affected_logs(tmp_path):
    """LogManagerTest.testCheckpointForOnlyAffectedLogs; here as the directory is closed."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("a", 3)
        manager.create_topic("b", 2)
        expected = {}
        for count, topic_partition in enumerate(manager.partitions(), start=1):
            log = manager.log(*topic_partition)
            log.append([(None, b"test")] * 50 * count)
            log.flush()
            expected[topic_partition] = log.recovery_point

    found = parse_offset_checkpoint((tmp_path / "recovery-point-offset-checkpoint").read_bytes())
    assert found == expected
    assert sorted(found.values()) == [50, 100, 150, 200, 250]


def test_recovery_directory_mapping_with_trailing_slash(tmp_path):
    """LogManagerTest.testRecoveryDirectoryMappingWithTrailingSlash."""
    with segstore.open_dir(f"{tmp_path}/") as manager:
        manager.create_topic("a")
        manager.append("a", [(None, b"test")] * 3, partition=0)

    with segstore.open_dir(tmp_path) as manager:
        assert manager.log("a", 0).report.clean
        assert manager.log("a", 0).recovery_point == 3


def test_lock(tmp_path):
    """[DUR-65, DUR-66] LogManagerTest.testLock, but the lock file stays: others may hold it."""
    with segstore.open_dir(tmp_path), pytest.raises(LogLockedError):
        segstore.open_dir(tmp_path)

    segstore.open_dir(tmp_path).close()
    assert (tmp_path / ".lock").exists()
