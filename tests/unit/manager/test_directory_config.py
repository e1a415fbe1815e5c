"""Settings of a log directory in a broker's keys: intervals, compaction, defaults of topics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.config.broker_keys import BROKER_KEYS
from segstore.config.directory_config import (
    CLEANER_KEYS,
    DIRECTORY_KEYS,
    INTERVAL_KEYS,
    REMOTE_KEYS,
    directory_config,
)
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.errors import (
    ArgumentTypeError,
    IllegalArgumentError,
    InvalidConfigurationError,
)
from segstore.manager.cleaner_config import CleanerConfig
from segstore.manager.maintenance_intervals import MaintenanceIntervals

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.manager.log_manager import LogManager

MINUTE = 60_000
HOUR = 60 * MINUTE


def open_small(path: Path, **settings: object) -> LogManager:
    return segstore.open_dir(path, durability="none", internal_segment_bytes=300, **settings)


def write(logs: LogManager, topic: str, count: int, timestamp: int) -> None:
    for _ in range(count):
        logs.log(topic, 0).append([(timestamp, b"k", b"x" * 30)])


@pytest.fixture
def begin() -> int:
    """Before the open of any directory of the test."""
    return time.time_ns() // 1_000_000


def test_the_interval_of_retention(tmp_path: Path, begin: int):
    """[MGR-30, CFG-62] Kafka's is five minutes."""
    with open_small(tmp_path, config={"log.retention.check.interval.ms": 30 * MINUTE}) as logs:
        logs.create_topic("a", config={"retention.ms": HOUR})
        write(logs, "a", 4, begin)
        logs.maintain(begin + HOUR - 10 * MINUTE)
        assert logs.maintain(begin + HOUR + 15 * MINUTE).deleted == ()
        assert len(logs.maintain(begin + HOUR + 20 * MINUTE).deleted) == 2


@pytest.mark.parametrize(
    ("key", "file"),
    [("log.flush.offset.checkpoint.interval.ms", "recovery-point-offset-checkpoint"),
     ("log.flush.start.offset.checkpoint.interval.ms", "log-start-offset-checkpoint"),
     ("replica.high.watermark.checkpoint.interval.ms", "replication-offset-checkpoint")],
)  # fmt: skip
def test_the_intervals_of_checkpoints(tmp_path: Path, begin: int, key: str, file: str):
    """[MGR-32, MGR-33, MGR-35, CFG-64, CFG-65, CFG-68] A text counts as a number does."""
    with open_small(tmp_path, replicated=True, config={key: str(20 * MINUTE)}) as logs:
        logs.create_topic("a")
        logs.maintain(begin + MINUTE)
        write(logs, "a", 6, begin)
        log = logs.log("a", 0)
        log.flush()
        log.update_high_watermark(6)
        log.delete_records(4)
        assert file not in logs.maintain(begin + 15 * MINUTE).checkpoints
        assert file in logs.maintain(begin + 21 * MINUTE).checkpoints


def test_how_it_compacts(tmp_path: Path, begin: int):
    """[CLN-3, CFG-69…CFG-75] Nothing where it is switched off; and the back-off."""
    for config, due_ms in (
        ({"log.cleaner.enable": False}, MINUTE),
        ({"log.cleaner.backoff.ms": 7000, "log.cleaner.threads": 2}, 7000),
    ):
        with open_small(tmp_path, config=config) as logs:
            if "users" not in logs.topics():
                logs.create_topic("users", config={"cleanup.policy": "compact"})
                write(logs, "users", 9, begin)
            report = logs.maintain(begin + HOUR)
            assert bool(report.cleaned) == (due_ms == 7000)
            assert due_ms - 2000 < report.due_in_ms <= due_ms


def test_defaults_of_topics(tmp_path: Path):
    """[CFG-52] With the broker's key, or the topic's, which counts first."""
    config = {
        "log.retention.hours": 2,
        "log.segment.bytes": 2**21,
        "retention.bytes": 10**9,
        "log.retention.bytes": 5,
        "min.insync.replicas": 2,
    }
    with segstore.open_dir(tmp_path, config=config, segment_bytes=2**22) as logs:
        logs.create_topic("a", config={"segment.ms": 5})
        found = logs.log("a", 0).config
        assert (found.retention_ms, found.retention_bytes) == (2 * HOUR, 10**9)
        assert (found.segment_bytes, found.segment_ms) == (2**22, 5)
        values = {one.name: one.value for one in logs.describe_topic("a").settings}
        assert values["retention.ms"] == 2 * HOUR


def test_nothing_deletes_unless_a_limit_is_given(tmp_path: Path):
    """[RTN-2] DESIGN D16."""
    with segstore.open_dir(tmp_path, config={"log.cleaner.backoff.ms": 5}) as logs:
        logs.create_topic("a")
        assert logs.log("a", 0).config.retention_ms is None


@pytest.mark.parametrize(
    ("config", "error", "expected"),
    [({"log.retention.check.intervall.ms": 5}, InvalidConfigurationError,
      "log.retention.check.interval.ms"),
     ({"log.cleaner.backof.ms": 5}, InvalidConfigurationError, "log.cleaner.backoff.ms"),
     ({"log.dirs": "/data"}, InvalidConfigurationError, "log."),
     ({"xyzzy": 1}, InvalidConfigurationError, "log.cleaner.threads, "),
     ({"log.retention.check.interval.ms": 0}, IllegalArgumentError, "1"),
     ({"log.flush.offset.checkpoint.interval.ms": -1}, IllegalArgumentError, "0"),
     ({"log.cleaner.threads": 0}, IllegalArgumentError, "one thread or more"),
     ({"log.cleaner.backoff.ms": "soon"}, IllegalArgumentError, ""),
     ({"log.cleaner.backoff.ms": [5]}, ArgumentTypeError, "a number"),
     ({5: 5}, ArgumentTypeError, "Kafka's keys")],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, config: Any, error: type[Exception], expected: str):
    """[CFG-37, CFG-49, CFG-62…CFG-75] Before anything is made, with the keys that may be meant."""
    with pytest.raises(error) as raised:
        segstore.open_dir(tmp_path / "new", config=config)
    assert expected in (raised.value.expected or "")
    assert not (tmp_path / "new").exists()


def test_compaction_is_set_in_one_place(tmp_path: Path):
    cleaner = segstore.CleanerConfig(threads=2)
    with pytest.raises(IllegalArgumentError, match="cleaner= was given too"):
        segstore.open_dir(tmp_path, cleaner=cleaner, config={"log.cleaner.threads": 2})
    with segstore.open_dir(tmp_path, cleaner=cleaner, config={"log.retention.ms": 2}) as logs:
        assert logs._cleaner_config == cleaner


def test_keys_are_those_of_brokers_and_topics():
    """[CFG-52, CFG-62…CFG-75]"""
    assert {*CLEANER_KEYS, *INTERVAL_KEYS, *REMOTE_KEYS} <= {*BROKER_KEYS}
    assert {*BROKER_KEYS, *TOPIC_KEYS} > DIRECTORY_KEYS
    broker = directory_config({}).broker
    assert MaintenanceIntervals.of_broker(broker) == MaintenanceIntervals()
    unlimited = CleanerConfig.of_broker(broker).max_io_bytes_per_second
    assert CleanerConfig.of_broker(broker) == CleanerConfig(max_io_bytes_per_second=unlimited)
    assert unlimited > 1e300
