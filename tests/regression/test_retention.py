"""Retention and deletion of many logs: what users of Kafka have reported, and what is right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import segstore
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from segstore.log.retention_plan import RetentionLimit

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def begin() -> int:
    return time.time_ns() // 1_000_000


def opened(path: Path, **settings):
    """A directory whose segments have three records."""
    return segstore.open_dir(path, durability="none", internal_segment_bytes=300, **settings)


def write(log, count: int, timestamp: int) -> None:
    for _ in range(count):
        log.append([(timestamp, None, b"x" * 30)])


# ---- which segments go, and which stay -----------------------------------------------------------


def test_a_future_timestamp_holds_back_by_age_and_not_by_size(tmp_path: Path, begin: int, caplog):
    """[RTN-14] KAFKA-6482. Plan and log name the segment and the timestamp that hold the rest."""
    with opened(tmp_path, message_timestamp_after_max_ms=10**15) as logs:
        logs.create_topic("a", config={"retention.ms": HOUR})
        log = logs.log("a", 0)
        write(log, 3, begin + 30 * DAY)
        assert logs.maintain(begin).deleted == ()
        assert caplog.text == ""  # it is written to
        write(log, 6, begin - DAY)
        assert logs.maintain(begin + HOUR).deleted == ()
        assert f"a-0: segment 0 has a record of the time {begin + 30 * DAY}" in caplog.text
        holding = log.plan_retention().holding
        assert (holding.base_offset, holding.largest_timestamp) == (0, begin + 30 * DAY)
        logs.alter_topic("a", {"retention.bytes": 0})

        deleted = logs.maintain(begin + 2 * HOUR).deleted

        limits = [(one.segment.base_offset, one.segment.limit) for one in deleted]
        assert limits[0] == (0, RetentionLimit.RETENTION_BYTES)


def test_a_second_pass_finds_nothing_more(tmp_path: Path, begin: int):
    """[RTN-2, RTN-5] KAFKA-12177. The log start counts first, then size, then age."""
    with opened(tmp_path) as logs:
        config = {"retention.ms": HOUR, "retention.bytes": 700}
        logs.create_topic("a", config=config)
        log = logs.log("a", 0)
        write(log, 9, begin - DAY)
        write(log, 9, begin)
        log.maybe_increment_log_start_offset(4)

        limits = [one.segment.limit for one in logs.maintain(begin).deleted]

        assert limits == sorted(limits, key=[*RetentionLimit].index)
        assert len({*limits}) > 1
        assert log.delete_old_segments() == []


def test_nothing_at_or_above_the_high_watermark_is_deleted(tmp_path: Path, begin: int):
    """[RTN-6] KAFKA-5634. By no limit."""
    with opened(tmp_path, replicated=True) as logs:
        logs.create_topic("a", config={"retention.ms": 1, "retention.bytes": 0})
        log = logs.log("a", 0)
        write(log, 9, begin - DAY)
        assert logs.maintain(begin).deleted == ()
        log.update_high_watermark(5)

        deleted = logs.maintain(begin + HOUR).deleted

        assert [one.segment.base_offset for one in deleted] == [0]
        assert log.log_start_offset == 3
        assert [record.offset for record in log.scan()] == [3, 4, 5, 6, 7, 8]


def test_an_idle_active_segment_expires(tmp_path: Path, begin: int):
    """[RTN-20, RTN-27] KAFKA-15047, strimzi#11845. It is rolled, and one empty segment stays."""
    with opened(tmp_path) as logs:
        logs.create_topic("a", config={"retention.ms": HOUR})
        log = logs.log("a", 0)
        write(log, 2, begin)
        assert logs.maintain(begin).deleted == ()
        assert len(logs.maintain(begin + 2 * HOUR).deleted) == 1
        assert [(one.base_offset, one.size_bytes) for one in log.segments()] == [(2, 0)]


def test_a_smaller_segment_counts_for_the_open_one(tmp_path: Path, begin: int):
    """[MGR-96, CFG-54] KAFKA-20664. The next append rolls."""
    with segstore.open_dir(tmp_path, durability="none") as logs:
        logs.create_topic("a")
        log = logs.log("a", 0)
        write(log, 10, begin)
        log.append([(begin, None, b"x" * 900_000)])
        logs.alter_topic("a", {"segment.bytes": 2**20})
        log.append([(begin, None, b"x" * 200_000)])
        assert len(log.segments()) == 2


def test_a_log_start_inside_the_active_segment(tmp_path: Path, begin: int):
    """[RTN-10] KAFKA-9133. The log goes on from there, also after a restart."""
    config = {"cleanup.policy": "compact,delete", "retention.ms": HOUR}
    with opened(tmp_path) as logs:
        logs.create_topic("a", config=config)
        for number in range(8):
            logs.log("a", 0).append([(begin, b"k%d" % number, b"x" * 30)])
        logs.log("a", 0).maybe_increment_log_start_offset(7)
        report = logs.maintain(begin)
        assert report.failed == ()
        assert [one.segment.limit for one in report.deleted] == [
            RetentionLimit.LOG_START_OFFSET
        ] * len(report.deleted)
    with opened(tmp_path) as logs:
        assert logs.maintain(begin + 60_000).failed == ()
        assert [record.offset for record in logs.log("a", 0).scan()] == [7]


# ---- deleted logs --------------------------------------------------------------------------------


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_deleted_log_writes_no_epochs_to_its_old_place(tmp_path: Path, begin: int, recovery: str):
    """[MGR-68, MGR-69, CKP-8] KAFKA-5099. A topic of the name that is made again has its own."""
    with opened(tmp_path, recovery=recovery) as logs:
        logs.create_topic("a")
        log = logs.log("a", 0)
        log.assign_epoch_start_offset(3, 0)
        write(log, 4, begin)
        logs.delete_topic("a")
        assert not (tmp_path / "a-0").exists()
        assert Path(log.path, LEADER_EPOCH_CHECKPOINT).exists()
        logs.create_topic("a")
        logs.log("a", 0)
        logs.maintain(begin + HOUR)
        assert not Path(log.path).exists()
        assert logs.log("a", 0).latest_epoch in {None, 0}
