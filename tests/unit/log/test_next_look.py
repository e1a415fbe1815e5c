"""When retention of a log has to look again: early at most, never late [RTN-11, RTN-12]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.errors import CorruptLogError
from segstore.log.local.segment import Segment
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.log_watcher import Unwatched
from segstore.log.open_options import open_options
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore.log.retention_plan import DeletedSegment
    from segstore.log.unified_log import UnifiedLog

NOW = 1_700_000_000_000
DAY = 86_400_000
BATCH_BYTES = 70


class Notes(Unwatched):
    """A watcher that counts."""

    def __init__(self) -> None:
        self.segments = 0
        self.checkpoints = 0

    def note_segments(self) -> None:
        self.segments += 1

    def note_checkpoint(self) -> None:
        self.checkpoints += 1

    def take(self) -> tuple[bool, bool]:
        found = bool(self.segments), bool(self.checkpoints)
        self.segments = self.checkpoints = 0
        return found


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def log(tmp_path: Path, notes: Notes) -> Iterator[UnifiedLog]:
    options = open_options(durability="none", retention_ms=None, internal_segment_bytes=500)
    opened = open_partition(str(tmp_path / "a-0"), options, LogEnvironment(watcher=notes))
    yield opened
    opened.close()


def append(log: UnifiedLog, timestamp: int) -> None:
    log.append([(timestamp, None, b"v")])


def alter(log: UnifiedLog, **settings: object) -> None:
    log.update_config(log.config.with_changes(**settings))


def look(log: UnifiedLog) -> int | None:
    """Delete nothing, and return when it has to look again."""
    deleted: list[object] = []
    due = log._run_retention(deleted, NOW)
    assert deleted == []
    return due


def test_a_log_without_limits_is_never_looked_at(log: UnifiedLog):
    append(log, NOW)
    assert look(log) is None
    alter(log, retention_ms=DAY, cleanup_policy="compact")
    assert look(log) is None


def test_by_age_the_latest_record_of_the_oldest_segment_decides(log: UnifiedLog):
    """[RTN-5, RTN-12] Strictly older than the limit."""
    alter(log, retention_ms=DAY)
    assert look(log) is None  # an empty active segment stays [RTN-7]
    append(log, NOW + 5)
    append(log, NOW)
    assert look(log) == NOW + 5 + DAY + 1
    log.roll()
    append(log, NOW - 2 * DAY)
    assert look(log) == NOW + 5 + DAY + 1
    assert log._run_retention([], NOW + 5 + DAY) == NOW + 5 + DAY + 1
    deleted: list[object] = []
    assert log._run_retention(deleted, NOW + 5 + DAY + 1) is None
    assert len(deleted) == 2


def test_without_times_the_active_segment_is_looked_at_each_time(log: UnifiedLog):
    """[RTN-13] An append may have an older time than the file; a sealed one has the file's."""
    alter(log, retention_ms=10**12)
    append(log, -1)
    assert look(log) == NOW
    log.roll()
    due = look(log)
    assert due is not None
    assert due > NOW


def test_by_size_the_active_segment_counts_as_large_as_it_can_get(log: UnifiedLog):
    """[RTN-11] It may grow to ``segment.bytes`` before the next roll is told."""
    for _ in range(3):
        append(log, NOW)
    alter(log, retention_bytes=1)
    assert look(log) is None  # one segment is never above a limit
    size = log.segments()[0].size_bytes
    log.roll()
    append(log, NOW)
    for limit, is_near in ((500, True), (501, False), (500 + size, False)):
        alter(log, retention_bytes=limit)
        assert look(log) == (NOW if is_near else None)
    log.roll()
    append(log, NOW)
    assert look(log) is None
    alter(log, retention_bytes=0)
    deleted: list[object] = []
    log._run_retention(deleted, NOW)
    assert len(deleted) == 3


def test_what_may_bring_the_next_look_forward_is_told(log: UnifiedLog, notes: Notes):
    """DESIGN D18: the first record of a segment, a setting, a log start, a truncation."""
    append(log, NOW)
    assert notes.take()[0]
    append(log, NOW)  # by the layers, and then by the lane
    append(log, NOW)
    assert not notes.take()[0]
    log.roll()
    for call in (
        lambda: append(log, NOW),
        lambda: alter(log, retention_ms=1),
        lambda: log.maybe_increment_log_start_offset(1),
        lambda: log.truncate_to(3),
        lambda: log.truncate_fully_and_start_at(7),
        lambda: append(log, NOW),
    ):
        call()
        assert notes.take()[0], call
    while len(log.segments()) == 1:
        append(log, NOW)
    assert notes.take()[0]


def test_a_checkpoint_that_changes_is_told(log: UnifiedLog, notes: Notes):
    """[MGR-45, MGR-46]"""
    append(log, NOW)
    notes.take()
    log.flush()
    assert notes.take()[1]
    log.maybe_increment_log_start_offset(1)
    assert notes.take()[1]
    assert log.topic_partition == TopicPartition("a", 0)


def test_a_log_with_a_fault_says_what_it_has_deleted(log: UnifiedLog, monkeypatch):
    """[DUR-79] The error of a later segment hides no deletion."""
    alter(log, retention_ms=DAY)
    for _ in range(3):
        append(log, NOW)
        log.roll()
    real, base_offset = Segment.largest_timestamp, log.segments()[1].base_offset

    def largest_timestamp(segment: Segment) -> int:
        if segment.base_offset == base_offset:
            raise CorruptLogError("its times cannot be read")
        return real(segment)

    monkeypatch.setattr(Segment, "largest_timestamp", largest_timestamp)
    deleted: list[DeletedSegment] = []
    with pytest.raises(CorruptLogError, match="cannot be read"):
        log._run_retention(deleted, NOW + 2 * DAY)
    assert [one.base_offset for one in deleted] == [0]
