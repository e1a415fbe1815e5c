"""A log directory looks after itself: passes of a moved clock, failures, threads, the end."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.config.broker_config import BrokerConfig
from segstore.errors import (
    ClosedError,
    CorruptCheckpointError,
    CorruptLogError,
    IllegalArgumentError,
    LogReadOnlyError,
)
from segstore.log.files.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_offset_checkpoint,
)
from segstore.log.files.topics_file import TOPICS_FILE, format_topics, parse_topics
from segstore.log.retention_plan import RetentionLimit
from segstore.log.unified_log import UnifiedLog
from segstore.manager import maintenance
from segstore.manager.maintenance_intervals import MaintenanceIntervals
from segstore.number_limits import MAX_LONG
from segstore.types import TopicPartition
from tests.conftest import IN_CI
from tests.crash.interrupts import Interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore.manager.log_manager import LogManager
    from segstore.manager.maintenance_report import MaintenanceReport

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
CHECK = MaintenanceIntervals().retention_ms
FOLDER = maintenance.__file__.rpartition("/")[0]
STEP = 3 if IN_CI else 1
"""An interrupt after each so many calls."""


@pytest.fixture
def begin() -> int:
    """Before the open of any directory of the test."""
    return time.time_ns() // 1_000_000


def open_small(path: Path, **settings: object) -> LogManager:
    return segstore.open_dir(path, durability="none", internal_segment_bytes=300, **settings)


@pytest.fixture
def logs(tmp_path: Path, begin: int) -> Iterator[LogManager]:
    """A directory whose segments have three records; its first passes are over."""
    del begin
    with open_small(tmp_path) as opened:
        yield opened


def write(log: UnifiedLog, count: int, timestamp: int) -> None:
    for _ in range(count):
        log.append([(timestamp, None, b"x" * 30)])


def deleted(report: MaintenanceReport) -> list[tuple[str, int, RetentionLimit]]:
    """(partition, base offset, limit) of each segment."""
    return [(str(tp), one.base_offset, one.limit) for tp, one in report.deleted]


def lines(path: Path, name: str) -> dict[str, int]:
    """The lines of a checkpoint of the log directory."""
    found = parse_offset_checkpoint((path / name).read_bytes())
    return {str(topic_partition): offset for topic_partition, offset in found.items()}


def no_log_may_be_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("a log was touched")

    for name in ("_run_retention", "_note_checkpoints"):
        monkeypatch.setattr(UnifiedLog, name, refuse)


# ---- retention -----------------------------------------------------------------------------------


def test_a_week_is_kept_and_the_report_says_what_went(logs: LogManager, begin: int):
    """[RTN-12, RTN-3] KAFKA-10141. Each deletion with limit, size, offsets, largest time."""
    logs.create_topic("clicks", config={"retention.ms": 7 * DAY})
    log = logs.log("clicks", 0)
    write(log, 5, begin)
    write(log, 2, begin + HOUR)
    size = log.segments()[0].size_bytes
    assert deleted(logs.maintain(begin + 7 * DAY)) == []
    report = logs.maintain(begin + 7 * DAY + CHECK)
    assert deleted(report) == [("clicks-0", 0, RetentionLimit.RETENTION_MS)]
    segment = report.deleted[0].segment
    assert (segment.next_offset, segment.size_bytes) == (3, size)
    assert (segment.largest_timestamp, segment.has_timestamp) == (begin, True)
    assert str(report.deleted[0]).startswith(f"clicks-0: deleted offsets 0 to 2, {size} bytes, by ")
    assert log.log_start_offset == 3
    assert deleted(logs.maintain(datetime.fromtimestamp(begin / 1000, UTC))) == []


def test_a_topic_without_limits_is_kept_for_ever(logs: LogManager, begin: int, tmp_path: Path):
    """[RTN-2] DESIGN D16: in the safe profile no default deletes, also where another limit does."""
    given = {
        "a": {},
        "b": {"cleanup.policy": "delete"},
        "c": {"retention.bytes": 10**9},
        "d": {"cleanup.policy": "compact", "retention.ms": 1},
    }
    for topic, config in given.items():
        logs.create_topic(topic, config=config)
        logs.log(topic, 0).append([(begin - 30 * DAY, b"k", b"x" * 30)] * 20)
        logs.log(topic, 0).roll()
    for hours in range(3):
        assert deleted(logs.maintain(begin + DAY + hours * HOUR)) == []
    logs.close()
    with open_small(tmp_path, retention_ms=DAY) as limited:
        report = limited.maintain(begin + 2 * DAY)
    assert {str(one.topic_partition) for one in report.deleted} == {"a-0", "b-0", "c-0"}


def test_kafkas_profile_deletes_after_kafkas_week(tmp_path: Path, begin: int):
    """[RTN-12, CFG-54]"""
    with open_small(tmp_path, recovery="kafka") as logs:
        logs.create_topic("clicks")
        write(logs.log("clicks", 0), 4, begin - 8 * DAY)
        assert deleted(logs.maintain()) == []  # nothing is known to be replicated [RTN-6]
        logs.log("clicks", 0).update_high_watermark(4)
        assert len(deleted(logs.maintain(begin + HOUR))) == 2


def test_retention_runs_each_five_minutes(logs: LogManager, begin: int, monkeypatch):
    """[MGR-30] The first time in the first pass, and a pass in between touches no log."""
    logs.create_topic("clicks", config={"retention.ms": 0})
    write(logs.log("clicks", 0), 4, begin - DAY)
    report = logs.maintain()
    assert len(report.deleted) == 2
    assert 0 < report.due_in_ms <= MINUTE
    write(logs.log("clicks", 0), 4, begin - DAY)
    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "_run_retention", lambda *_: pytest.fail("too early"))
        logs.maintain(begin + CHECK - MINUTE)
    assert len(logs.maintain(begin + CHECK + MINUTE).deleted) == 2


def test_a_pass_with_nothing_due_touches_no_log(logs: LogManager, begin: int, monkeypatch):
    """DESIGN D18: also when retention and checkpoints run."""
    logs.create_topic("clicks", 3, config={"retention.ms": DAY, "retention.bytes": 10**6})
    logs.create_topic("kept", 2)
    for topic, number in (("clicks", 0), ("clicks", 1), ("clicks", 2), ("kept", 0), ("kept", 1)):
        write(logs.log(topic, number), 4, begin)
        logs.log(topic, number).flush()
        assert logs.log(topic, number)._background.wait_until_idle(60)  # the sync after a roll
    logs.maintain(begin + HOUR)
    with monkeypatch.context() as patched:
        no_log_may_be_touched(patched)
        for hours in range(2, 20):
            report = logs.maintain(begin + hours * HOUR)
            assert (report.deleted, report.failed, report.checkpoints) == ((), (), ())
    write(logs.log("clicks", 1), 1, begin + HOUR - MINUTE)  # puts its active segment off
    logs.maintain(begin + 20 * HOUR)
    assert len(logs.maintain(begin + DAY + MINUTE).deleted) == 5
    assert len(logs.maintain(begin + DAY + HOUR).deleted) == 1


@pytest.mark.parametrize("change", ["alter", "append", "roll", "truncate", "log start"])
def test_what_changes_is_looked_at_in_the_next_pass(logs: LogManager, begin: int, change: str):
    """DESIGN D18: append, roll and alter move the due time."""
    logs.create_topic("a", config={"retention.ms": 365 * DAY, "retention.bytes": 10**6})
    log = logs.log("a", 0)
    if change != "append":
        write(log, 5, begin)
    logs.maintain(begin + HOUR)
    if change == "alter":
        logs.alter_topic("a", {"retention.ms": MINUTE})
    elif change == "append":
        write(log, 1, begin - 400 * DAY)
    elif change == "roll":
        logs.alter_topic("a", {"retention.bytes": 700})
        logs.maintain(begin + 2 * HOUR)
        write(log, 6, begin)
    elif change == "truncate":
        log.truncate_fully_and_start_at(9)
        write(log, 1, begin - 400 * DAY)
    else:
        log.maybe_increment_log_start_offset(4)
    assert deleted(logs.maintain(begin + 3 * HOUR))[0][:2] == (
        "a-0",
        9 if change == "truncate" else 0,
    )


@pytest.mark.parametrize(
    "limit", [{"retention.ms": MINUTE}, {"retention.bytes": 400}], ids=["age", "size"]
)
def test_a_lowered_limit_deletes_in_the_next_pass(logs: LogManager, begin: int, limit: dict):
    """[MGR-30, MGR-96] However long ago the last look for segments was; others wait for theirs."""
    logs.create_topic("a", config={"retention.ms": 365 * DAY, "retention.bytes": 10**6})
    write(logs.log("a", 0), 9, begin - HOUR)
    assert deleted(logs.maintain(begin + HOUR)) == []
    write(logs.log("a", 0), 1, begin - 400 * DAY)
    assert deleted(logs.maintain(begin + HOUR + 1)) == []
    logs.alter_topic("a", limit)
    assert logs.maintain(begin + HOUR + 2).deleted
    assert logs.maintain(begin + HOUR + 3).due_in_ms > 0


def test_a_lowered_limit_of_the_directory_deletes_in_the_next_pass(logs: LogManager, begin: int):
    """[MGR-97]"""
    logs.create_topic("a")
    write(logs.log("a", 0), 9, begin - HOUR)
    assert deleted(logs.maintain(begin + HOUR)) == []
    logs.reconfigure_default_log_config(retention_ms=MINUTE, internal_segment_bytes=300)
    assert len(logs.maintain(begin + HOUR + 1).deleted) == 3


def test_an_interrupted_pass_that_was_asked_for_is_due_again(
    logs: LogManager, begin: int, monkeypatch
):
    """[DUR-70]"""
    logs.create_topic("a", config={"retention.ms": 365 * DAY})
    write(logs.log("a", 0), 9, begin - HOUR)
    logs.maintain(begin + HOUR)
    logs.alter_topic("a", {"retention.ms": MINUTE})

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "_run_retention", interrupt)
        with pytest.raises(KeyboardInterrupt):
            logs.maintain(begin + HOUR + 1)
    assert logs.maintain(begin + HOUR + 2).deleted


def test_a_roll_by_hand_lets_the_deleted_segment_go_in_the_next_pass(logs: LogManager, begin: int):
    """[RTN-1, RET-5] The active segment had only deleted records, and was not to go before."""
    logs.create_topic("a", config={"retention.ms": -1, "retention.bytes": 10**6})
    log = logs.log("a", 0)
    write(log, 2, begin)
    log.maybe_increment_log_start_offset(2)
    assert deleted(logs.maintain(begin + HOUR)) == []
    log.roll()
    expected = [("a-0", 0, RetentionLimit.LOG_START_OFFSET)]
    assert deleted(logs.maintain(begin + 2 * HOUR)) == expected


def test_partitions_are_opened_only_where_a_limit_says_so(tmp_path: Path, begin: int):
    """A directory of many logs is not opened as a whole; a topic that is altered later is seen."""
    with open_small(tmp_path) as logs:
        for topic, config in (("kept", {}), ("limited", {"retention.ms": 1})):
            logs.create_topic(topic, config=config)
            write(logs.log(topic, 0), 4, begin - DAY)
    with open_small(tmp_path) as logs:
        report = logs.maintain(begin + HOUR)
        assert {one.topic_partition.topic for one in report.deleted} == {"limited"}
        assert [*logs._directories[0].logs.by_name] == ["limited-0"]
        logs.alter_topic("kept", {"retention.ms": 1})
        report = logs.maintain(begin + 2 * HOUR)
        assert {one.topic_partition.topic for one in report.deleted} == {"kept"}


def test_nothing_is_deleted_while_settings_cannot_be_read(tmp_path: Path, begin: int):
    """[DUR-128] Also by limits of the directory: the topic may have been given others."""
    with open_small(tmp_path) as logs:
        logs.create_topic("a", config={"retention.ms": 1})
        write(logs.log("a", 0), 4, begin - DAY)
    file = tmp_path / TOPICS_FILE
    content = file.read_bytes()
    file.write_bytes(content[:-9])
    with open_small(tmp_path, retention_bytes=0) as logs:
        logs.log("a", 0)
        report = logs.maintain(begin + HOUR)
        assert report.deleted == ()
        assert [type(one.error) for one in report.failed] == [CorruptCheckpointError] * 2
    file.write_bytes(content)
    with open_small(tmp_path) as logs:
        assert len(logs.maintain(begin + HOUR).deleted) == 2


def test_settings_that_are_damaged_meanwhile_delete_nothing(tmp_path: Path, begin: int):
    """[DUR-128] What was read of them before does not count any more."""
    file = tmp_path / TOPICS_FILE
    with open_small(tmp_path) as logs:
        logs.create_topic("a", config={"retention.ms": DAY})
        write(logs.log("a", 0), 4, begin)
        logs.maintain(begin + HOUR)
        content = file.read_bytes()
        file.write_bytes(content[:-9])
        report = logs.maintain(begin + 2 * DAY)
        assert report.deleted == ()
        assert [type(one.error) for one in report.failed] == [CorruptCheckpointError] * 2
        file.write_bytes(content)
        assert len(logs.maintain(begin + 3 * DAY).deleted) == 2


def test_a_setting_that_this_version_refuses_keeps_one_topic(tmp_path: Path, begin: int):
    """[DUR-128, DUR-131] The others go by theirs, and the log can be used."""
    with open_small(tmp_path) as logs:
        logs.create_topic("a", config={"retention.ms": 1})
        logs.create_topic("b", config={"retention.ms": 1})
        for topic in ("a", "b"):
            write(logs.log(topic, 0), 4, begin - DAY)
    topics = {**parse_topics((tmp_path / TOPICS_FILE).read_bytes()).topics}
    of_later_version = {"retention.ms": "1", "compression.zstd.level": "99"}
    topics["a"] = topics["a"]._replace(config=of_later_version)
    (tmp_path / TOPICS_FILE).write_bytes(format_topics(topics))
    with open_small(tmp_path) as logs:
        write(logs.log("a", 0), 1, begin)
        report = logs.maintain(begin + HOUR)
        assert {tp.topic for tp, _ in report.deleted} == {"b"}
        assert report.failed == ()
    with segstore.open(tmp_path / "a-0") as log:
        assert any("the settings of topic 'a' are unknown" in one for one in log.report.warnings)
        assert log.config.retention_ms is None


@pytest.mark.parametrize(
    ("profile", "cleans", "log_start"),
    [("safe", True, 4), ("safe", False, 4), ("kafka", True, 4), ("kafka", False, 0)],
)
def test_a_log_that_is_compacted_too_is_deleted_by_age(
    tmp_path: Path, begin: int, profile: str, log_start: int, *, cleans: bool
):
    """[RTN-1, RTN-2, RTN-28, CLN-7] The cleaner does it; without one, only the safe profile."""
    cleaner = segstore.CleanerConfig(enable=cleans)
    with open_small(tmp_path, recovery=profile, cleaner=cleaner) as logs:
        logs.create_topic("a", config={"cleanup.policy": "compact,delete", "retention.ms": HOUR})
        logs.log("a", 0).append([(begin, b"k", b"x" * 30)])
        for _ in range(3):
            logs.log("a", 0).roll()
            logs.log("a", 0).append([(begin, b"k", b"x" * 30)])
        if profile == "kafka":
            logs.log("a", 0).update_high_watermark(4)
        report = logs.maintain(begin + 2 * HOUR)
        assert report.failed == ()
        assert logs.log("a", 0).log_start_offset == log_start
        assert bool(report.deleted) == bool(log_start)


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_old_is_deleted_before_a_pass_puts_it_beside_younger_records(
    tmp_path: Path, begin: int, *, shared: bool
):
    """[RTN-1, CLN-7] The segment that a pass makes is as young as its youngest record.

    `maintain` compacted first, and nothing of these logs was old any more.
    """
    with open_small(tmp_path, shared=shared) as logs:
        logs.create_topic("a", 2, config={"cleanup.policy": "compact,delete", "retention.ms": HOUR})
        for number in range(2):
            for age in (3 * HOUR, 2 * HOUR, 0, 0):
                log = logs.log_to_write("a", number)
                log.append([(begin - age, b"%d" % log.log_end_offset, b"v")])
                log.roll()
            logs.close_log("a", number)
        report = logs.maintain(begin + 1)
        assert report.failed == ()
        assert {number: logs.log("a", number).log_start_offset for number in range(2)} == {
            0: 2,
            1: 2,
        }


# ---- checkpoints, what logs do later -------------------------------------------------------------


def test_checkpoints_of_open_logs_are_written_when_they_changed(
    logs: LogManager, begin: int, tmp_path: Path
):
    """[MGR-32, MGR-33, MGR-45, MGR-46] A broker that takes over after a kill recovers less."""
    logs.create_topic("a", 2)
    for number in range(2):
        write(logs.log("a", number), 4, begin)
    logs.log("a", 0).flush()
    logs.log("a", 1).flush()
    logs.log("a", 1).delete_records(2)
    assert set(logs.maintain(begin + HOUR).checkpoints) == {
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
    }
    assert lines(tmp_path, RECOVERY_POINT_CHECKPOINT) == {"a-0": 4, "a-1": 4}
    assert lines(tmp_path, LOG_START_OFFSET_CHECKPOINT)["a-1"] == 2
    assert logs.maintain(begin + 2 * HOUR).checkpoints == ()
    logs.log("a", 1).truncate_to(3)
    assert lines(tmp_path, RECOVERY_POINT_CHECKPOINT)["a-1"] == 3
    assert logs.maintain(begin + 3 * HOUR).checkpoints == ()


def test_high_watermarks_survive_a_restart_and_a_kill(tmp_path: Path, begin: int):
    """[CKP-12, MGR-35, MGR-47] Of replicated logs; a truncation lowers the line [DUR-16]."""
    with open_small(tmp_path, replicated=True) as logs:
        logs.create_topic("a", 2)
        write(logs.log("a", 0), 5, begin)
        logs.log("a", 0).update_high_watermark(4)
        assert HIGH_WATERMARK_CHECKPOINT in logs.maintain(begin + MINUTE).checkpoints
        assert lines(tmp_path, HIGH_WATERMARK_CHECKPOINT) == {"a-0": 4}
        logs.log("a", 0).update_high_watermark(5)
        assert logs.maintain(begin + MINUTE + 10_000).checkpoints == (HIGH_WATERMARK_CHECKPOINT,)
        logs.log("a", 0).truncate_to(3)
        assert lines(tmp_path, HIGH_WATERMARK_CHECKPOINT) == {"a-0": 3}
        write(logs.log("a", 0), 2, begin)
        logs.log("a", 0).update_high_watermark(4)
    assert lines(tmp_path, HIGH_WATERMARK_CHECKPOINT) == {"a-0": 4}
    with open_small(tmp_path, replicated=True) as logs:
        assert (logs.log("a", 0).high_watermark, logs.log("a", 1).high_watermark) == (4, 0)
        logs.delete_topic("a")
        assert lines(tmp_path, HIGH_WATERMARK_CHECKPOINT) == {}


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_handle_that_its_user_closes_keeps_its_high_watermark(
    tmp_path: Path, begin: int, recovery: str
):
    """[CKP-12, MGR-47] In the same manager, in the next one, and not after a deletion."""
    with open_small(tmp_path, replicated=True, recovery=recovery) as logs:
        logs.create_topic("a")
        for end in (4, 8):  # the second time it is opened before any line was written
            write(logs.log("a", 0), 4, begin)
            logs.log("a", 0).update_high_watermark(end - 1)
            logs.log("a", 0).close()
            assert logs.log("a", 0).high_watermark == end - 1
        logs.log("a", 0).update_high_watermark(8)  # no other change
        logs.log("a", 0).close()
    assert lines(tmp_path, HIGH_WATERMARK_CHECKPOINT) == {"a-0": 8}
    with open_small(tmp_path, replicated=True, recovery=recovery) as logs:
        assert logs.log("a", 0).high_watermark == 8
        logs.log("a", 0).close()
        logs.delete_topic("a")
        logs.create_topic("a")
        write(logs.log("a", 0), 9, begin)
        assert logs.log("a", 0).high_watermark == 0
    assert lines(tmp_path, HIGH_WATERMARK_CHECKPOINT).get("a-0", 0) == 0


@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_high_watermark_is_known_where_an_open_removes_files(
    tmp_path: Path, begin: int, *, is_reopened: bool
):
    """[CKP-12, DUR-120] Of records below the log start; no later file and no record is lost."""
    logs = open_small(tmp_path, replicated=True)
    logs.create_topic("a")
    log = logs.log("a", 0)
    write(log, 9, begin)
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(4)
    log.close()
    if is_reopened:
        logs.close()
        logs = open_small(tmp_path, replicated=True)
    with logs:
        found = logs.log("a", 0)
        assert found.report.removed
        assert found.high_watermark == 8
        assert found.maybe_increment_log_start_offset(5)


def test_after_a_kill_no_high_watermark_is_believed(tmp_path: Path, begin: int):
    """[CKP-12, DUR-120] The log may have lost records since, and have others at their offsets."""
    logs = open_small(tmp_path, replicated=True)
    logs.create_topic("a")
    write(logs.log("a", 0), 5, begin)
    logs.log("a", 0).update_high_watermark(5)
    assert HIGH_WATERMARK_CHECKPOINT in logs.maintain(begin + MINUTE).checkpoints
    killed = tmp_path.parent / "killed"
    shutil.copytree(tmp_path, killed)
    logs.close()
    with open_small(killed, replicated=True) as found:
        assert found.log("a", 0).high_watermark == 0


def test_a_high_watermark_that_cannot_be_read_begins_at_the_log_start(
    tmp_path: Path, begin: int, caplog
):
    """[CKP-6, CKP-12] The file is left as it is: it may have the lines of others."""
    with open_small(tmp_path, replicated=True) as logs:
        logs.create_topic("a")
        write(logs.log("a", 0), 5, begin)
    (tmp_path / HIGH_WATERMARK_CHECKPOINT).write_text("x\n")
    with open_small(tmp_path, replicated=True) as logs:
        assert logs.log("a", 0).high_watermark == 0
        logs.log("a", 0).update_high_watermark(5)
    assert "begins at its log start" in caplog.text
    assert (tmp_path / HIGH_WATERMARK_CHECKPOINT).read_text() == "x\n"


def test_a_directory_without_replicas_has_no_high_watermarks(
    logs: LogManager, begin: int, tmp_path: Path
):
    """[MGR-47] The high watermark is the log end."""
    logs.create_topic("a")
    write(logs.log("a", 0), 5, begin)
    logs.maintain(begin + HOUR)
    logs.close()
    assert not (tmp_path / HIGH_WATERMARK_CHECKPOINT).exists()


def test_kafkas_profile_writes_checkpoints_as_a_broker(tmp_path: Path, begin: int):
    """[MGR-45, MGR-46, MGR-48, MGR-52] Lines of all logs that are there, and the marker."""
    marker = tmp_path / ".kafka_cleanshutdown"
    with open_small(tmp_path, recovery="kafka") as logs:
        logs.create_topic("a", 3)
        for number in range(3):
            write(logs.log("a", number), 4, begin)
            logs.log("a", number).update_high_watermark(4)
        logs.log("a", 0).flush()
        logs.log("a", 0).maybe_increment_log_start_offset(2)
        logs.log("a", 1).maybe_increment_log_start_offset(3)
        logs.log("a", 1).delete_old_segments()  # the first segment says where it starts now
        logs.maintain(begin + HOUR)
        assert lines(tmp_path, LOG_START_OFFSET_CHECKPOINT) == {"a-0": 2}
        points = lines(tmp_path, RECOVERY_POINT_CHECKPOINT)
        assert points.keys() == {"a-0", "a-1", "a-2"}
        assert points["a-0"] == 4
        assert not marker.exists()
    assert lines(tmp_path, RECOVERY_POINT_CHECKPOINT) == {"a-0": 4, "a-1": 4, "a-2": 4}
    assert marker.exists()
    with open_small(tmp_path, recovery="kafka") as logs:
        assert not marker.exists()  # [MGR-16]
        write(logs.log("a", 0), 1, begin)
    assert marker.exists()
    assert lines(tmp_path, RECOVERY_POINT_CHECKPOINT) == {"a-0": 5, "a-1": 4, "a-2": 4}


def test_kafkas_profile_leaves_no_marker_for_a_log_that_was_not_flushed(tmp_path: Path, begin: int):
    """[MGR-52, DUR-123] Closed quietly by its user, or in a directory that was not clean."""
    marker = tmp_path / ".kafka_cleanshutdown"
    with open_small(tmp_path, recovery="kafka") as logs:
        logs.create_topic("a", 2)
        write(logs.log("a", 0), 4, begin)
        logs.log("a", 1)
        logs.log("a", 0).close_quietly()
    assert not marker.exists()
    with open_small(tmp_path, recovery="kafka") as logs:
        logs.log("a", 0)  # the other may need recovery yet
    assert not marker.exists()
    with open_small(tmp_path, recovery="kafka") as logs:
        for number in range(2):
            logs.log("a", number)
    assert marker.exists()


def test_kafkas_profile_flushes_logs_that_are_late(tmp_path: Path, begin: int, monkeypatch):
    """[MGR-31, MGR-40] ``flush.ms`` of the topic; one that fails stops no other [DUR-131]."""
    config = {"log.flush.scheduler.interval.ms": MINUTE, "log.flush.interval.ms": MAX_LONG}
    with open_small(tmp_path, recovery="kafka", config=config) as logs:
        logs.create_topic("late", 2, config={"flush.ms": HOUR})
        logs.create_topic("other")
        late, failing, other = logs.log("late", 1), logs.log("late", 0), logs.log("other", 0)
        for log in (late, failing, other):
            write(log, 2, begin)
        logs.maintain(begin + HOUR // 2)
        assert late.recovery_point == 0

        def fail(*, inclusive: bool) -> int:
            raise CorruptLogError(f"it is damaged {inclusive}")

        with monkeypatch.context() as patched:
            patched.setattr(
                failing._flusher, "_flush_up_to", lambda _, inclusive: fail(inclusive=inclusive)
            )
            (failed,) = logs.maintain(begin + HOUR + 2 * MINUTE).failed
        assert (failed.task, str(failed.topic_partition)) == ("flushes", "late-0")
        assert [one.recovery_point for one in (late, failing, other)] == [2, 0, 0]
        assert logs.maintain(begin + HOUR + 4 * MINUTE).failed == ()
        assert failing.recovery_point == 2


def test_files_are_unlinked_after_their_delay(logs: LogManager, begin: int, tmp_path: Path):
    """[RTN-23] The delay of the topic; the pass that deletes only renames."""
    logs.create_topic("a", config={"retention.ms": 1, "file.delete.delay.ms": HOUR})
    write(logs.log("a", 0), 4, begin - DAY)
    assert len(logs.maintain(begin + HOUR).deleted) == 2
    assert [*(tmp_path / "a-0").glob("*.log.deleted")]
    assert logs.maintain(begin + 2 * HOUR - MINUTE).deleted == ()
    assert [*(tmp_path / "a-0").glob("*.log.deleted")]
    logs.maintain(begin + 3 * HOUR)
    assert not [*(tmp_path / "a-0").glob("*.deleted")]


def test_deleted_partitions_go_by_the_clock_of_the_directory(
    logs: LogManager, begin: int, tmp_path: Path
):
    """[MGR-66] The delay begins by the clock that ends it: the wall clock may be set meanwhile."""
    logs.create_topic("a")
    logs.maintain(begin + DAY)
    logs.delete_topic("a")
    logs.maintain(begin + DAY + MINUTE // 2)
    assert logs.maintain(begin + DAY + MINUTE // 2).removed == ()
    assert [*tmp_path.glob("a-0.*-delete")]
    assert len(logs.maintain(begin + DAY + 3 * MINUTE).removed) == 1


def test_a_timed_sync_runs_in_the_pass_of_its_time(tmp_path: Path, begin: int):
    """[MGR-40, DUR-14] ``flush.ms`` of the topic; the log decides what it syncs."""
    with segstore.open_dir(tmp_path, durability="none") as logs:
        logs.create_topic("a", config={"flush.ms": HOUR})
        log = logs.log("a", 0)
        write(log, 2, begin)
        logs.maintain(begin + HOUR // 2)
        assert log.durable_offset == 0
        logs.maintain(begin + HOUR + MINUTE)
        assert log.durable_offset == 2


def test_silent_producers_are_forgotten_in_a_pass(tmp_path: Path, begin: int, monkeypatch):
    """[MGR-51, EXP-1] The log's own timer, each ten minutes."""
    from segstore.log.producer_expiration import ProducerExpiration

    calls: list[int] = []
    monkeypatch.setattr(ProducerExpiration, "_expire", lambda _: calls.append(1))
    with segstore.open_dir(tmp_path, recovery="kafka") as logs:  # which has the timer always
        logs.create_topic("a")
        logs.log("a", 0)
        logs.maintain(begin + MINUTE)
        assert calls == []
        logs.maintain(begin + 11 * MINUTE)
        assert calls == [1]


# ---- failures ------------------------------------------------------------------------------------


def test_a_log_that_fails_is_retried_later_and_stops_no_other(
    logs: LogManager, begin: int, monkeypatch, caplog
):
    """[DUR-131] After the interval, then twice as long, at most an hour."""
    for topic in ("a", "b", "c"):
        logs.create_topic(topic, config={"retention.ms": 1})
        write(logs.log(topic, 0), 4, begin - DAY)
    real, tried = UnifiedLog._run_retention, []

    def fail_for_b(log: UnifiedLog, *given: object) -> int | None:
        if log.topic_partition.topic == "b":
            tried.append(None)
            raise CorruptLogError("it is damaged")
        return real(log, *given)

    monkeypatch.setattr(UnifiedLog, "_run_retention", fail_for_b)
    now = begin + HOUR
    report = logs.maintain(now)
    assert {one.topic_partition.topic for one in report.deleted} == {"a", "c"}
    (failed,) = report.failed
    assert (failed.task, str(failed.topic_partition), failed.attempts) == ("retention", "b-0", 1)
    assert failed.retry_ms == now + CHECK
    assert "retention of b-0 failed, and is tried again: it is damaged" in caplog.text
    delays = []
    for _ in range(6):
        retry_ms = failed.retry_ms
        assert logs.maintain(retry_ms - 1).failed == ()
        (failed,) = logs.maintain(retry_ms + CHECK).failed
        delays.append((failed.retry_ms - retry_ms - CHECK) // CHECK)
    assert delays == [2, 4, 8, 12, 12, 12]
    monkeypatch.setattr(UnifiedLog, "_run_retention", real)
    assert len(logs.maintain(failed.retry_ms + CHECK).deleted) == 2


def test_a_task_that_fails_as_a_whole_is_retried_and_stops_no_other(
    logs: LogManager, begin: int, monkeypatch
):
    """[DUR-131] After a second, then twice as long."""
    logs.create_topic("a", config={"retention.ms": 1})
    write(logs.log("a", 0), 4, begin - DAY)
    logs.log("a", 0).flush()
    checkpoints = logs._directories[0].owned.checkpoints
    real = checkpoints.write

    def fail(names: tuple[str, ...]) -> list[str]:
        return 1 / 0 if RECOVERY_POINT_CHECKPOINT in names else real(names)

    monkeypatch.setattr(checkpoints, "write", fail)
    now = begin + HOUR
    report = logs.maintain(now)
    assert len(report.deleted) == 2
    (failed,) = report.failed
    assert (failed.task, failed.topic_partition, failed.attempts) == ("recovery points", None, 1)
    first_ms = failed.retry_ms
    assert now + 1000 <= first_ms < now + 60_000
    assert logs.maintain(first_ms - 500).failed == ()
    (failed,) = logs.maintain(first_ms).failed
    assert failed.attempts == 2
    assert failed.retry_ms >= first_ms + 2000
    monkeypatch.undo()
    assert logs.maintain(failed.retry_ms).checkpoints


def test_an_interrupted_pass_is_done_by_the_next(logs: LogManager, begin: int, monkeypatch):
    """[DUR-70] Ctrl-C leaves all logs valid, and what was not done is due."""
    for topic in ("a", "b", "c"):
        logs.create_topic(topic, config={"retention.ms": 1})
        write(logs.log(topic, 0), 4, begin - DAY)
    real, calls = UnifiedLog._run_retention, []

    def interrupt_the_second(log: UnifiedLog, *given: object) -> int | None:
        calls.append(log)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(log, *given)

    monkeypatch.setattr(UnifiedLog, "_run_retention", interrupt_the_second)
    with pytest.raises(KeyboardInterrupt):
        logs.maintain(begin + HOUR)
    assert len(logs.maintain(begin + HOUR).deleted) == 4


def test_an_interrupt_anywhere_in_a_pass_loses_nothing(tmp_path: Path, begin: int):
    """[DUR-70] Ctrl-C after each call that the manager makes: the next pass does what was due.

    Logs wait for their age, lines of checkpoints for their job, and a sync for its time.
    """
    topics, tail = ("a", "b"), TopicPartition("tail", 0)
    with open_small(tmp_path) as logs:
        for topic in (*topics, "tail"):
            logs.create_topic(topic)
        for number in itertools.count(1):
            now = begin + 2 * number * DAY
            for topic in topics:
                logs.alter_topic(topic, {"retention.ms": now - HOUR - begin})
                logs.log(topic, 0).append([(begin, None, b"x" * 30)])
            logs.maintain(now - 2 * HOUR)
            logs.alter_topic("tail", {"flush.ms": HOUR})
            logs.log(*tail).append([(begin, None, b"v")])
            logs.log(*tail).flush()
            logs.log(*tail).append([(begin, None, b"v")])
            interrupt = Interrupt(number * STEP, FOLDER)
            interrupt.run(partial(logs.maintain, now))
            logs.maintain(now)

            where = interrupt.place
            kept = [one for one in topics if logs.log(one, 0).log_start_offset < number]
            assert (where, kept) == (where, [])
            content = (tmp_path / "recovery-point-offset-checkpoint").read_bytes()
            points = dict(parse_offset_checkpoint(content))
            # the line is of before the sync, or behind that of the interrupted pass
            assert (where, points.get(tail) in {2 * number - 1, 2 * number}) == (where, True)
            assert (where, logs.log(*tail).durable_offset) == (where, 2 * number)
            if where is None:
                break
        assert number > 20


def test_a_partition_that_is_gone_is_forgotten(logs: LogManager, begin: int, tmp_path: Path):
    """[DUR-124]"""
    logs.create_topic("a", 2, config={"retention.ms": DAY})
    logs.maintain(begin + HOUR)
    logs.log("a", 1).delete()
    assert not (tmp_path / "a-1").exists()
    report = logs.maintain(begin + 3 * DAY)
    assert (report.deleted, report.failed) == ((), ())


def test_a_log_that_its_user_closed_is_opened_again(logs: LogManager, begin: int):
    logs.create_topic("a", config={"retention.ms": DAY})
    write(logs.log("a", 0), 4, begin)
    logs.log("a", 0).close()
    assert len(logs.maintain(begin + 3 * DAY).deleted) == 2


def fail_as_closed(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object]) -> list[int]:
    """Let a job of each manager end with the `ClosedError` of one log; return the runs."""
    runs: list[int] = []

    def note(_: UnifiedLog) -> None:
        runs.append(len(runs))
        before()
        raise ClosedError("the log a-0 is closed")

    monkeypatch.setattr(UnifiedLog, "_note_checkpoints", note)
    return runs


def test_a_log_that_is_closed_fails_the_job_and_it_waits(logs: LogManager, begin: int, monkeypatch):
    """[DUR-131] The manager is open: the job is not due again at once."""
    logs.create_topic("a")
    logs.maintain(begin + HOUR)
    write(logs.log("a", 0), 1, begin)
    logs.log("a", 0).flush()
    runs = fail_as_closed(monkeypatch, lambda: None)
    report = logs.maintain(begin + 2 * HOUR)

    assert {(one.task, one.attempts) for one in report.failed} == {
        ("recovery points", 1),
        ("log starts", 1),
    }
    assert report.due_in_ms > 0
    logs.maintain(begin + 2 * HOUR + 100)
    assert len(runs) == 2


def test_a_job_that_a_close_ends_has_not_failed(tmp_path: Path, begin: int, monkeypatch, caplog):
    """[MGR-37, DUR-131] No thread tries it again or logs it, as long as the close may take."""
    began, may_end, ticks = threading.Event(), threading.Event(), []
    real = maintenance.Maintenance.tick

    def tick(*given: object) -> None:
        ticks.append(given)
        real(*given)

    def wait() -> None:
        began.set()
        assert may_end.wait(30)

    def wait_for_moves() -> None:
        ticks.clear()
        may_end.set()
        time.sleep(0.3)

    logs = open_small(tmp_path, background=True, config=FAST)
    logs.create_topic("a")
    write(logs.log("a", 0), 1, begin)
    fail_as_closed(monkeypatch, wait)
    logs.log("a", 0).flush()
    assert began.wait(30)
    monkeypatch.setattr(logs._moves, "wait", wait_for_moves)
    monkeypatch.setattr(maintenance.Maintenance, "tick", tick)
    logs.close()

    assert len(ticks) < 10
    assert "is tried again" not in caplog.text


# ---- threads, the end ----------------------------------------------------------------------------


FAST = {
    "log.retention.check.interval.ms": 20,
    "log.flush.offset.checkpoint.interval.ms": 20,
    "log.flush.start.offset.checkpoint.interval.ms": 20,
    "log.initial.task.delay.ms": 0,
}
"""Background work begins at once, and comes back soon."""


def test_threads_delete_beside_writers(tmp_path: Path, begin: int):
    """[MGR-30, MGR-37] DESIGN D18: appends, rolls, settings and reads go on meanwhile."""
    errors: list[BaseException] = []
    with open_small(tmp_path, background=True, config=FAST) as logs:
        logs.create_topic("a", 4, config={"retention.bytes": 900})

        def append(number: int) -> None:
            try:
                log = logs.log("a", number)
                for _ in range(300):
                    log.append([(begin, None, b"x" * 30)])
                    if number == 3:
                        logs.alter_topic("a", {"retention.bytes": 900 + log.log_end_offset % 2})
            except BaseException as error:  # noqa: BLE001 - told by the test
                errors.append(error)

        writers = [threading.Thread(target=append, args=(number,)) for number in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(120)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and any(
            len(logs.log("a", number).segments()) > 4 for number in range(4)
        ):
            time.sleep(0.01)
        for number in range(4):
            log = logs.log("a", number)
            assert log.log_end_offset == 300
            assert len(log.segments()) <= 4
            assert [record.offset for record in log.read(log.log_start_offset)] == [
                *range(log.log_start_offset, 300)
            ]
        assert errors == []
    with open_small(tmp_path) as logs:
        assert all(logs.log("a", number).report.clean for number in range(4))


@pytest.mark.parametrize("is_beside_a_pass", [False, True])
def test_a_thread_deletes_by_a_lowered_limit_at_once(
    tmp_path: Path, begin: int, monkeypatch, *, is_beside_a_pass: bool
):
    """[MGR-30, MGR-36] Neither the initial delay nor the interval is over.

    Also where a pass runs, which has looked at the log before.
    """
    with open_small(tmp_path, background=True) as logs:
        logs.create_topic("a", config={"retention.ms": 365 * DAY})
        write(logs.log("a", 0), 9, begin - HOUR)
        schedule = logs._directories[0].maintenance._schedule
        has_looked, go_on = threading.Event(), threading.Event()
        real = schedule.run

        def run(*given: object) -> None:
            real(*given)
            has_looked.set()
            go_on.wait(30)

        if is_beside_a_pass:
            monkeypatch.setattr(schedule, "run", run)
            logs.alter_topic("a", {"retention.bytes": 10**6})
            assert has_looked.wait(30)
        logs.alter_topic("a", {"retention.ms": MINUTE})
        go_on.set()
        deadline = time.monotonic() + 20
        while logs.log("a", 0).log_start_offset < 9:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_many_changes_leave_one_task_that_counts(tmp_path: Path):
    """[MGR-37] Each change begins a run, and the wait of one run alone goes on."""
    with open_small(tmp_path, background=True) as logs:
        logs.create_topic("a")
        maintenance = logs._directories[0].maintenance
        for number in range(50):
            logs.alter_topic("a", {"retention.ms": 365 * DAY + number})
        (job,) = (one for one in maintenance._jobs if one.name == "retention")
        assert job.tasks.wait_until_idle()
        maintenance._pool._pool.next_due_ns()  # what has come is in the heap
        owner = job.tasks._owner
        waiting = [one for one in maintenance._pool._pool._heap if one.owner is owner]
        assert [one.run.args[-1] for one in waiting].count(job.turn) == 1


def test_a_directory_starts_no_thread_of_its_own_unasked(tmp_path: Path, begin: int):
    """DESIGN D18: retention and checkpoints wait for a call."""
    before = threading.active_count()
    with open_small(tmp_path) as logs:
        logs.create_topic("a", config={"retention.ms": 1})
        logs.log("a", 0).append([(begin, None, b"v")])
        assert threading.active_count() == before
        logs.maintain()
    with open_small(tmp_path, background=True):
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_a_dropped_manager_ends_its_threads(tmp_path: Path):
    """Nothing that waits for its time keeps the manager alive."""
    import gc

    before = threading.active_count()
    logs = open_small(tmp_path, background=True)
    del logs
    gc.collect()
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_close_waits_for_one_log_and_not_for_the_pass(tmp_path: Path, begin: int, monkeypatch):
    """[MGR-37, MGR-50] What is left is due for the next who opens the directory."""
    began, is_over, calls = threading.Event(), threading.Event(), []
    real = UnifiedLog._run_retention

    def slow(log: UnifiedLog, *given: object) -> int | None:
        calls.append(log)
        began.set()
        assert is_over.wait(60)
        return real(log, *given)

    with open_small(tmp_path) as logs:
        logs.create_topic("a", 5, config={"retention.ms": 1})
        for number in range(5):
            write(logs.log("a", number), 4, begin - DAY)
    monkeypatch.setattr(UnifiedLog, "_run_retention", slow)
    logs = open_small(tmp_path, background=True, config=FAST)
    assert began.wait(60)
    closer = threading.Thread(target=logs.close)
    closer.start()
    while not logs._directories[0].maintenance._has_ended():
        time.sleep(0.001)
    is_over.set()
    closer.join(60)
    assert not closer.is_alive()
    assert len(calls) == 1
    with pytest.raises(ClosedError):
        logs.maintain()
    monkeypatch.undo()
    with open_small(tmp_path) as logs:
        assert logs.last_broker_epoch is not None  # a clean stop
        assert len(logs.maintain().deleted) == 8


def test_a_handler_in_the_middle_of_a_pass_is_refused(logs: LogManager, begin: int, monkeypatch):
    """[DUR-70] It would wait for the call that it interrupts."""
    logs.create_topic("a", config={"retention.ms": 1})
    write(logs.log("a", 0), 4, begin - DAY)
    real, refused = UnifiedLog._run_retention, []

    def handled(log: UnifiedLog, *given: object) -> int | None:
        for call in (logs.maintain, logs.close):
            with pytest.raises(RuntimeError):
                call()
            refused.append(call)
        return real(log, *given)

    monkeypatch.setattr(UnifiedLog, "_run_retention", handled)
    assert len(logs.maintain(begin + HOUR).deleted) == 2
    assert len(refused) == 2
    assert not logs.closed


def test_who_may_not_write_does_not_maintain(tmp_path: Path, begin: int):
    del begin
    with open_small(tmp_path) as logs:
        logs.create_topic("a")
    with segstore.open_dir(tmp_path, read_only=True) as reader, pytest.raises(LogReadOnlyError):
        reader.maintain()
    with pytest.raises(IllegalArgumentError, match="background"):
        segstore.open_dir(tmp_path, read_only=True, background=True)
    with pytest.raises(ClosedError):
        logs.maintain()


def test_a_broker_says_how_often():
    """[MGR-30…MGR-33, MGR-35, MGR-36]"""
    assert MaintenanceIntervals() == MaintenanceIntervals.of_broker(
        BrokerConfig.from_properties({})
    )
    assert MaintenanceIntervals() == (5 * MINUTE, MINUTE, MINUTE, MINUTE // 2, 5000, MAX_LONG)
    given = {
        "log.retention.check.interval.ms": "7",
        "log.flush.offset.checkpoint.interval.ms": "9",
        "log.flush.start.offset.checkpoint.interval.ms": "0",
        "log.initial.task.delay.ms": "11",
        "replica.high.watermark.checkpoint.interval.ms": "12",
        "log.flush.scheduler.interval.ms": "13",
    }
    config = BrokerConfig.from_properties(given)
    assert MaintenanceIntervals.of_broker(config) == (7, 9, 1, 11, 12, 13)
