"""Kafka's LogManagerTest, over several log directories.

Where a directory fails, Kafka makes a new log in another one. Here a topic is made as a whole or
not at all: docs/decisions/several-log-directories.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import segstore
from segstore.errors import LogDirectoryOfflineError, ReadIOError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.manager.topic_registry import TopicRegistry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / str(number) for number in range(5)]


def partitions_of(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.is_dir())


def check_appends(manager: segstore.LogManager, topic: str = "kafka") -> None:
    log = manager.log(topic, 0)
    log.append([(None, b"test")])
    assert log.log_end_offset == 1


# ---- where a new log goes ------------------------------------------------------------------------


def test_create_log_on_targeted_log_directory(paths):
    """[MGR-9, MGR-77] LogManagerTest.testCreateLogOnTargetedLogDirectory; a path names it."""
    for number in (1, 3):
        paths[number].mkdir()
        directory_id = topic_id_text(UUID(int=number << 64))
        (paths[number] / "meta.properties").write_text(
            f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={directory_id}\n"
        )
    with segstore.open_dir(paths) as manager:
        ids = [one.directory_id for one in manager._directories]
        assert ids == [None, UUID(int=1 << 64), None, UUID(int=3 << 64), None]
        manager.create_topic("kafka", directories={0: paths[1]})

        assert [partitions_of(path) for path in paths] == [[], ["kafka-0"], [], [], []]
        assert manager.offline_directories() == {}
        check_appends(manager)


@pytest.mark.parametrize("directories", [None, {}])
def test_create_log_without_a_target(paths, directories):
    """[MGR-77] LogManagerTest.testCreateLogWithTargetedLogDirectorySetAsUnassigned.

    LogManagerTest.testCreateLogWithTargetedLogDirectorySetAsUnknownWithoutAnyOfflineDirectories
    too: no directory is named.
    """
    with segstore.open_dir(paths[:1]) as manager:
        manager.create_topic("kafka", directories=directories)
        assert partitions_of(paths[0]) == ["kafka-0"]
        check_appends(manager)


def test_create_log_with_invalid_log_dir(paths):
    """[MGR-3, MGR-10, MGR-76] LogManagerTest.testCreateLogWithInvalidLogDir.

    The manager starts. A new topic may be on the other disk: it needs an open without that.
    """
    paths[1].touch()
    with segstore.open_dir(paths[:2]) as manager:
        assert [*manager.offline_directories()] == [str(paths[1])]
        with pytest.raises(LogDirectoryOfflineError):
            manager.create_topic("kafka")
        assert partitions_of(paths[0]) == []
    with segstore.open_dir(paths[:1]) as manager:
        manager.create_topic("kafka")
        check_appends(manager)


def test_create_log_with_log_dir_fallback(paths, monkeypatch):
    """[MGR-72, MGR-80] LogManagerTest.testCreateLogWithLogDirFallback: by another call."""
    broken = [str(path) for path in paths[:2]]
    create = TopicRegistry.create

    def create_or_fail(registry: TopicRegistry, *given: object):
        if registry._directory.path in broken:
            raise ReadIOError("the disk is broken", file=registry._directory.path)
        return create(registry, *given)

    monkeypatch.setattr(TopicRegistry, "create", create_or_fail)
    manager = segstore.open_dir(paths)
    for number in (1, 2):
        with pytest.raises(ReadIOError):
            manager.create_topic("kafka")
        assert manager.topics() == {}
        assert [*manager.offline_directories()] == broken[:number]
    manager.create_topic("kafka")

    assert [partitions_of(path) for path in paths] == [[], [], ["kafka-0"], [], []]
    check_appends(manager)
    with pytest.raises(segstore.LogReadOnlyError):
        manager.close()


def test_least_loaded_assignment(paths):
    """[MGR-78] LogManagerTest.testLeastLoadedAssignment; with one topic or with many."""
    with segstore.open_dir(paths[:3]) as manager:
        for number in range(20):
            manager.create_topic(f"kafka{number}")
            counts = [len(partitions_of(path)) for path in paths[:3]]
            assert max(counts) <= min(counts) + 1
        manager.create_topic("many", 20)
        counts = [len(partitions_of(path)) for path in paths[:3]]
        assert (sum(counts), max(counts) - min(counts)) == (40, 1)


# ---- starts and stops ----------------------------------------------------------------------------


def test_clean_shutdown_file_with_broker_epoch(paths):
    """[CKP-20, MGR-52, MGR-56] LogManagerTest.testCleanShutdownFileWithBrokerEpoch."""
    with segstore.open_dir(paths[:2]) as manager:
        manager.create_topic("a", 2)
        for number in range(2):
            manager.log("a", number)
        manager.close(3)
    assert all((path / ".kafka_cleanshutdown").exists() for path in paths[:2])
    with segstore.open_dir(paths[:2]) as manager:
        assert manager.last_broker_epoch == 3


def test_log_recovery_metrics(paths):
    """[MGR-24] LogManagerTest.testLogRecoveryMetrics: each segment is reported to ``progress``."""
    with segstore.open_dir(paths[:2], recovery="kafka") as manager:
        manager.create_topic("a", 2)
        for number in range(2):
            log = manager.log("a", number)
            log.append([(None, b"test")])
            log.roll()
            log.append([(None, b"test")])
    for path in paths[:2]:
        (path / ".kafka_cleanshutdown").unlink()
        (path / "recovery-point-offset-checkpoint").unlink()
    seen: list[tuple[str, int, int]] = []
    with segstore.open_dir(
        paths[:2], recovery="kafka", progress=lambda *step: seen.append(step)
    ) as manager:
        for number in range(2):
            seen.clear()
            log = manager.log("a", number)
            assert {phase for phase, _, _ in seen} == {"recover"}
            done = [count for _, count, _ in seen]
            sizes = [one.size_bytes for one in log.segments()]
            assert done == [sizes[0], sum(sizes)]
            assert {total for _, _, total in seen} == {sum(sizes)}


# ---- settings ------------------------------------------------------------------------------------


def test_broker_config_change_delivered_to_all_logs(paths):
    """[MGR-95] LogManagerTest.testBrokerConfigChangeDeliveredToAllLogs, by the next open.

    What a topic was given stays.
    """
    with segstore.open_dir(paths[:2]) as manager:
        manager.create_topic("one")
        manager.create_topic("two", config={"segment.bytes": 2**20})
        before = [manager.log(topic, 0).config.segment_bytes for topic in ("one", "two")]
    with segstore.open_dir(paths[:2], segment_bytes=2**21, flush_messages=7) as manager:
        logs = [manager.log(topic, 0) for topic in ("one", "two")]
        assert before == [2**30, 2**20]
        assert [log.config.segment_bytes for log in logs] == [2**21, 2**20]
        assert [log.config.flush_messages for log in logs] == [7, 7]
