"""Numbers of a log directory: Kafka's names, Prometheus' text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from unittest import mock

import pytest

import segstore
from segstore.errors import ClosedError, CorruptLogError, LogReadOnlyError
from segstore.log.unified_log import UnifiedLog
from segstore.manager import manager_stats as names
from tests.kits.prometheus_reader import read_prometheus_text

if TYPE_CHECKING:
    from pathlib import Path

DAY = 24 * 3600 * 1000


def test_numbers_of_open_logs(tmp_path: Path):
    """[MGR-12] Kafka's ``Log`` metrics; no log is opened for them."""
    with segstore.open_dir(tmp_path, internal_segment_bytes=200) as logs:
        logs.create_topic("t", 3)
        log = logs.log("t", 1)
        for _ in range(3):
            log.append([(None, b"x" * 100)])
        log.delete_records(1)
        found = logs.stats()
        assert found.value(names.SEGMENTS, topic="t", partition="1") == len(log.segments())
        assert found.value(names.LOG_START_OFFSET, topic="t", partition="1") == 1
        assert found.value(names.LOG_END_OFFSET, topic="t", partition="1") == 3
        assert found.value(names.SIZE, topic="t", partition="1") == log.stats()["size"]
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        found = logs.stats()
        assert found.value(names.PARTITIONS) == 3
        assert found.value(names.OPEN_LOGS) == 0
        with pytest.raises(KeyError):
            found.value(names.SIZE, topic="t", partition="1")
        logs.log("t", 1)
        assert logs.stats().value(names.OPEN_LOGS) == 1
    with pytest.raises(ClosedError):
        logs.stats()


def test_a_deleted_log_has_no_numbers(tmp_path: Path):
    """[MGR-63] While its directory waits; the topic that is made again has each series once."""
    with segstore.open_dir(tmp_path) as logs:
        for _ in range(2):
            logs.create_topic("t")
            log = logs.log("t", 0)
            log.append([(None, b"x")])
            logs.delete_topic("t")
        assert not log.closed
        assert logs.stats().value(names.OPEN_LOGS) == 0
        logs.create_topic("t")
        logs.log("t", 0)
        found = logs.stats()
        assert found.value(names.OPEN_LOGS) == 1
        assert [one.value for one in found.metrics if one.name == names.LOG_END_OFFSET] == [0]
        logs.set_aside_partition("t", 0)
        assert logs.stats().value(names.OPEN_LOGS) == 0


def test_what_retention_has_deleted(tmp_path: Path):
    """Counted since the open, by limit; what fails is a gauge that falls again [DUR-131]."""
    now = time.time_ns() // 1_000_000
    with segstore.open_dir(tmp_path, internal_segment_bytes=200) as logs:
        logs.create_topic("t", config={"retention.ms": DAY})
        for _ in range(3):
            logs.log("t", 0).append([(now - 9 * DAY, None, b"x" * 100)])
        size = logs.log("t", 0).stats()["size"]
        with mock.patch.object(UnifiedLog, "_run_retention", side_effect=CorruptLogError("bad")):
            assert logs.maintain().failed
        assert logs.stats().value(names.FAILING_TASKS) == 1
        done = logs.maintain(now + DAY).deleted
        found = logs.stats()
        assert len(done) == found.value(names.DELETED_SEGMENTS, limit="retention.ms") == 3
        assert found.value(names.DELETED_BYTES, limit="retention.ms") == size
        assert found.value(names.DELETED_SEGMENTS, limit="retention.bytes") == 0
        assert found.value(names.FAILING_TASKS) == 0


def test_a_directory_that_is_offline(tmp_path: Path):
    """[MGR-12] Both gauges are 1."""
    logs = segstore.open_dir(tmp_path)
    assert logs.stats().value(names.OFFLINE_DIRECTORIES) == 0
    logs._failures.maybe_add_offline_log_dir(str(tmp_path), CorruptLogError("gone"))
    found = logs.stats()
    with pytest.raises(LogReadOnlyError):
        logs.close()
    assert found.value(names.OFFLINE_DIRECTORIES) == 1
    assert found.value(names.DIRECTORY_OFFLINE, logDirectory=str(tmp_path)) == 1


def test_logs_that_wait_for_their_recovery(tmp_path: Path):
    """[MGR-24] Of a directory that was not closed: each counts until it is opened, or is gone."""
    paths = [tmp_path / name for name in "ab"]

    def remaining(logs: segstore.LogManager) -> list[int]:
        found = logs.stats()
        return [found.value(names.REMAINING_LOGS, dir=str(path)) for path in paths]

    with segstore.open_dir(paths) as logs:
        logs.create_topic("t", 4, directories={n: paths[n // 3] for n in range(4)})
        assert remaining(logs) == [0, 0]  # they are new
        for number in range(4):
            logs.append("t", [(None, b"v")], partition=number)
    with segstore.open_dir(paths) as logs:
        assert remaining(logs) == [0, 0]  # the stop was clean
    (paths[0] / ".kafka_cleanshutdown").unlink()
    with segstore.open_dir(paths) as logs:
        assert remaining(logs) == [3, 0]
        logs.log("t", 0)
        logs.log("t", 3)
        assert remaining(logs) == [2, 0]
        logs.delete_partition("t", 1)
        assert remaining(logs) == [1, 0]
        logs.create_topic("u", directories={0: paths[0]})
        assert remaining(logs) == [1, 0]
        logs.log("t", 2)
        assert remaining(logs) == [0, 0]
    with segstore.open_dir(paths, read_only=True) as logs:
        assert remaining(logs) == [0, 0]


def test_several_directories(tmp_path: Path):
    """[MGR-12] The numbers of all of them; also of one that could not be opened."""
    paths = [tmp_path / name for name in "abc"]
    paths[2].touch()
    with segstore.open_dir(paths[:2], internal_segment_bytes=200) as logs:
        logs.create_topic("t", 2, config={"retention.bytes": 0})
        for number in range(2):
            for _ in range(2):
                logs.append("t", [(None, b"x" * 100)], partition=number)
    with segstore.open_dir(paths) as logs:
        deleted = logs.maintain().deleted
        found = logs.stats()
    assert len({one.topic_partition for one in deleted}) == 2
    assert found.value(names.DELETED_SEGMENTS, limit="retention.bytes") == len(deleted)
    assert (found.value(names.PARTITIONS), found.value(names.OPEN_LOGS)) == (2, 2)
    assert found.value(names.OFFLINE_DIRECTORIES) == 1
    offline = [found.value(names.DIRECTORY_OFFLINE, logDirectory=str(path)) for path in paths]
    assert offline == [0, 0, 1]


def test_prometheus_reads_them(tmp_path: Path):
    """The names are those of the JMX exporter; any path is escaped."""
    folder = tmp_path / 'a "b"\\c\nd'
    with segstore.open_dir(folder) as logs:
        logs.create_topic("t.u-v", 2)
        found = logs.stats()
        families = read_prometheus_text(found.prometheus_text())
    assert families["kafka_log_log_size"].samples == {
        (("topic", "t.u-v"), ("partition", "0")): 0,
        (("topic", "t.u-v"), ("partition", "1")): 0,
    }
    directories = families["kafka_log_logmanager_logdirectoryoffline"].samples
    assert directories == {(("logDirectory", str(folder)),): 0}
    assert families["segstore_manager_retention_deletedsegments_total"].kind == "counter"
    assert sum(len(one.samples) for one in families.values()) == len(found.metrics)
    assert families["kafka_server_replicamanager_partitioncount"].samples == {(): 2}
