"""Kafka's LogManagerTest, over one log directory; test_kafka_log_manager_directories.py has others.

Not applicable yet: testTopicConfigChangeStopCleaningIfCompactIsRemoved, because there is no cleaner
whose work could be stopped.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import segstore
from segstore.errors import LogLockedError, OffsetOutOfRangeError, WriteError
from segstore.log.files.checkpoints import parse_offset_checkpoint
from segstore.log.unified_log import UnifiedLog
from segstore.types import TopicPartition
from tests.kits.remote_kit import RemoteRecords


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


# ---- background work -----------------------------------------------------------------------------

SMALL_BATCHES = {"durability": "none", "segment_ms": None}


def kafkas(path, **settings):
    """A manager of Kafka's profile, with segments of ten messages."""
    return segstore.open_dir(
        path, recovery="kafka", **SMALL_BATCHES, internal_segment_bytes=720, **settings
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def append_200(log) -> None:
    """Two hundred messages of 72 bytes, all replicated."""
    for _ in range(200):
        log.append([(None, None, b"test")])
    log.update_high_watermark(log.log_end_offset)


def test_cleanup_expired_segments(tmp_path):
    """[RTN-12, RTN-20, RTN-23] LogManagerTest.testCleanupExpiredSegments."""
    with kafkas(tmp_path, retention_ms=600_000) as manager:
        manager.create_topic("kafka")
        log = manager.log("kafka", 0)
        append_200(log)
        manager.maintain(now_ms() + 601_000)
        assert len(log.segments()) == 1
        manager.maintain(now_ms() + 601_000 + 120_000)

        assert not [*(tmp_path / "kafka-0").glob("*.deleted")]
        assert len(log.read(log.log_end_offset, 1000).records) == 0
        with pytest.raises(OffsetOutOfRangeError):
            log.read(0, 1000)
        log.append([(None, None, b"test")])


def test_cleanup_segments_to_maintain_size(tmp_path):
    """[RTN-11] LogManagerTest.testCleanupSegmentsToMaintainSize."""
    with kafkas(tmp_path, retention_bytes=3610, retention_ms=None) as manager:
        manager.create_topic("kafka")
        log = manager.log("kafka", 0)
        append_200(log)
        assert len(log.segments()) == 20
        manager.maintain()
        assert len(log.segments()) == 6
        manager.maintain(now_ms() + 120_000)

        assert not [*(tmp_path / "kafka-0").glob("*.deleted")]
        assert len(log.read(log.log_end_offset, 1000).records) == 0
        with pytest.raises(OffsetOutOfRangeError):
            log.read(0, 1000)
        log.append([(None, None, b"test")])


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_does_not_clean_compacted_logs(tmp_path, policy):
    """[RTN-1] LogManagerTest.testDoesntCleanLogsWithCompactPolicy.

    LogManagerTest.testDoesntCleanLogsWithCompactDeletePolicy too: it is left to the cleaner.
    """
    cleaner = segstore.CleanerConfig(enable=False)
    with kafkas(tmp_path, retention_ms=600_000, cleaner=cleaner) as manager:
        manager.create_topic("kafka", config={"cleanup.policy": policy})
        log = manager.log("kafka", 0)
        for _ in range(200):
            log.append([(None, b"test", b"test")])
        log.update_high_watermark(200)
        count = len(log.segments())
        assert manager.maintain(now_ms() + 601_000).deleted == ()
        assert len(log.segments()) == count


def test_topic_config_change_stop_cleaning_if_compact_is_removed(tmp_path, monkeypatch):
    """[MGR-96] LogManagerTest.testTopicConfigChangeStopCleaningIfCompactIsRemoved.

    A change that leaves compact in the policy, or did not have it, ends no pass.
    """
    with kafkas(tmp_path) as manager:
        manager.create_topic("topic", 2, config={"cleanup.policy": "compact"})
        for number in range(2):
            manager.log("topic", number)
        cleaner_manager = manager._directories[0].maintenance.cleaner_manager
        aborted = []
        pause = cleaner_manager._pause

        def note(topic_partition, *given, **named):
            aborted.append(topic_partition)
            pause(topic_partition, *given, **named)

        monkeypatch.setattr(cleaner_manager, "_pause", note)
        manager.alter_topic("topic", {"cleanup.policy": "compact,delete"})
        assert aborted == []
        manager.alter_topic("topic", {"cleanup.policy": "delete"})
        assert aborted == [TopicPartition("topic", number) for number in range(2)]
        manager.alter_topic("topic", {"cleanup.policy": "compact"})
        assert len(aborted) == 2


def test_time_based_flush(tmp_path):
    """[CFG-6m, MGR-31, MGR-40] LogManagerTest.testTimeBasedFlush."""
    with kafkas(tmp_path, flush_ms=1000) as manager:
        manager.create_topic("kafka")
        log = manager.log("kafka", 0)
        append_200(log)
        manager.maintain(now_ms() + 10_000)
        assert log.recovery_point == 200


def test_file_references_after_async_delete(tmp_path):
    """[MGR-63, MGR-66, MGR-69] LogManagerTest.testFileReferencesAfterAsyncDelete."""
    with kafkas(tmp_path) as manager:
        manager.create_topic("kafka", 2)
        log = manager.log("kafka", 0)
        append_200(log)
        names = [segment.name for segment in log.segments()]
        manager.delete_partition("kafka", 0)
        renamed = Path(log.path)

        assert renamed.name.startswith("kafka-0.")
        assert renamed.name.endswith("-delete")
        assert [segment.name for segment in log.segments()] == names
        assert len(log.read(0, 1000).records) > 0
        manager.maintain(now_ms() + 50_000)
        assert renamed.exists()
        manager.maintain(now_ms() + 200_000)
        assert not renamed.exists()


def test_create_and_delete_an_overly_long_topic(tmp_path):
    """[MGR-61] LogManagerTest.testCreateAndDeleteOverlyLongTopic; 249 is the limit of a topic."""
    name = "x" * 249
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic(name)
        manager.log(name, 0).append([(None, b"test")])
        manager.delete_topic(name)

        (deleted,) = [path.name for path in tmp_path.iterdir() if path.name.startswith("xx")]
        assert len(deleted) == 255
        assert deleted.endswith("-delete")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("xx")]


def test_a_log_that_is_made_again_before_its_deletion_lives(tmp_path):
    """[MGR-63, MGR-66] LogManagerTest.testMetricsExistWhenLogIsRecreatedBeforeDeletion."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("kafka")
        old = manager.log("kafka", 0)
        old.append([(None, b"test")] * 3)
        manager.delete_topic("kafka")
        manager.create_topic("kafka")
        new = manager.log("kafka", 0)
        new.append([(None, b"new")])
        manager.maintain(now_ms() + 200_000)

        assert not Path(old.path).exists()
        assert [record.value for record in new.scan()] == [b"new"]


def test_topic_config_change_updates_log_config(tmp_path):
    """[MGR-96] LogManagerTest.testTopicConfigChangeUpdatesLogConfig: also of logs not open."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("one", 2)
        manager.create_topic("two")
        others = manager.log("two", 0).config
        log = manager.log("one", 0)
        manager.alter_topic("one", {"segment.bytes": 2**20})

        assert [manager.log("one", n).config.segment_bytes for n in (0, 1)] == [2**20, 2**20]
        assert log is manager.log("one", 0)
        assert manager.log("two", 0).config == others


def test_checkpoint_log_start_offset_for_normal_topic(tmp_path):
    """[MGR-46] LogManagerTest.testCheckpointLogStartOffsetForNormalTopic."""
    with kafkas(tmp_path) as manager:
        manager.maintain()
        manager.create_topic("topic")
        log = manager.log("topic", 0)
        for offset in range(50):
            log.append([(None, None, b"test")])
            if offset and offset % 10 == 0:
                log.roll()
        log.update_high_watermark(49)
        log.maybe_increment_log_start_offset(31)
        assert "log-start-offset-checkpoint" in manager.maintain(now_ms() + 61_000).checkpoints
        assert log_starts(tmp_path) == {"topic-0": 31}

        manager.maintain(now_ms() + 400_000)
        assert (len(log.segments()), log.log_start_offset) == (2, 31)
        assert log_starts(tmp_path) == {}


def test_checkpoint_log_start_offset_for_remote_topic(tmp_path):
    """[MGR-46, RTN-8, RTN-10] LogManagerTest.testCheckpointLogStartOffsetForRemoteTopic."""
    with kafkas(tmp_path, remote_log_reader=RemoteRecords()) as manager:
        config = {"remote.storage.enable": True, "internal.segment.bytes": 1024}
        manager.create_topic("topic", config=config)
        log = manager.log("topic", 0)
        for offset in range(50):
            log.append([(None, None, b"test")])
            if offset and offset % 10 == 0:
                log.roll()
        assert len(log.segments()) == 5
        log.update_high_watermark(49)
        log.update_highest_offset_in_remote_storage(30)
        log.maybe_increment_local_log_start_offset(31)
        manager.maintain(now_ms() + 400_000)
        assert (len(log.segments()), log.log_start_offset) == (2, 0)
        assert log_starts(tmp_path) == {"topic-0": 0}
        log.update_log_start_offset_from_remote_tier(21)
        manager.maintain(now_ms() + 800_000)
        assert log_starts(tmp_path) == {"topic-0": 21}


def log_starts(path) -> dict[str, int]:
    found = parse_offset_checkpoint((path / "log-start-offset-checkpoint").read_bytes())
    return {str(topic_partition): offset for topic_partition, offset in found.items()}


def test_no_marker_while_a_log_was_not_loaded(tmp_path):
    """[MGR-54] LogManagerTest.testCleanShutdownFileWhenShutdownCalledBeforeStartupComplete."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("a", 2)
        for number in range(2):
            manager.log("a", number).append([(None, b"test")])
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with segstore.open_dir(tmp_path) as manager:
        manager.log("a", 0)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("failing", [(), (0,), (1,), (0, 1)])
def test_wait_for_all_to_complete(tmp_path, monkeypatch, failing):
    """[MGR-53] LogManagerTest.testWaitForAllToComplete: one that fails stops no other."""
    manager = segstore.open_dir(tmp_path)
    manager.create_topic("a", 2)
    logs = [manager.log("a", number) for number in range(2)]
    for log in logs:
        log.append([(None, b"test")])
    close = UnifiedLog._close_cleanly

    def close_or_fail(log: UnifiedLog) -> None:
        if log.topic_partition.partition in failing:
            raise WriteError("no")
        close(log)

    monkeypatch.setattr(UnifiedLog, "_close_cleanly", close_or_fail)
    if failing:
        with pytest.raises(WriteError):
            manager.close()
    else:
        manager.close()
    assert all(log.closed for log in logs)
    assert (tmp_path / ".kafka_cleanshutdown").exists() == (not failing)


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_shutdown_with_zero_file_delete_delay_ms(tmp_path, recovery):
    """[MGR-66] LogManagerTest.testShutdownWithZeroFileDeleteDelayMs; KAFKA-16588, KAFKA-6710."""
    manager = segstore.open_dir(
        tmp_path, recovery=recovery, background=True, file_delete_delay_ms=0
    )
    manager.create_topic("a")
    manager.log("a", 0).append([(None, b"test")])
    manager.delete_topic("a")
    cpu, wall = time.process_time(), time.monotonic()
    manager.maintain(now_ms() + 60_000)
    assert not [*tmp_path.glob("*-delete")]
    time.sleep(0.2)
    assert time.process_time() - cpu < 2  # nothing spins on an empty queue
    manager.close()
    assert time.monotonic() - wall < 60
