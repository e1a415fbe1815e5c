"""What retention would delete, also of a log that is only read."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import ArgumentTypeError, ClosedError, SegstoreError
from segstore.log.retention_plan import HoldingReason, RetentionLimit

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3600 * 1000


def fill(path: Path) -> None:
    now_ms = int(time.time() * 1000)
    with segstore.open(path) as log:
        for age in (30, 20, 10):
            log.append([(now_ms - age * HOUR_MS, None, bytes(1000))])
            log.roll()


def test_a_reader_plans_as_the_writer_deletes(tmp_path: Path):
    """[RTN-5, RTN-12] It takes no lock, and nothing changes."""
    fill(tmp_path / "t-0")
    with segstore.open(tmp_path / "t-0", retention_ms=15 * HOUR_MS) as log:
        with segstore.open(tmp_path / "t-0", read_only=True, retention_ms=15 * HOUR_MS) as reader:
            plan = reader.plan_retention()
        assert plan == log.plan_retention()
        assert [one.base_offset for one in plan.deleted] == [0, 1]
        assert {one.limit for one in plan.deleted} == {RetentionLimit.RETENTION_MS}
        assert plan.holding is not None
        assert (plan.holding.base_offset, plan.holding.reason) == (2, HoldingReason.WITHIN_LIMITS)
        assert log.log_start_offset == 0
        assert log.delete_old_segments() == [*plan.deleted]


def test_a_plan_by_other_settings(tmp_path: Path):
    """[RTN-11] What would go if the topic were given them."""
    fill(tmp_path / "t-0")
    with segstore.open(tmp_path / "t-0", read_only=True, retention_ms=-1) as log:
        assert log.plan_retention().deleted == ()
        plan = log.plan_retention(log.config.with_changes(retention_bytes=1000))
        assert [one.limit for one in plan.deleted] == [RetentionLimit.RETENTION_BYTES] * 2
        with pytest.raises(ArgumentTypeError):
            log.plan_retention({"retention.bytes": 1})
    with pytest.raises(ClosedError):
        log.plan_retention()


@pytest.mark.parametrize("told_age", [None, 40, 1])
@pytest.mark.parametrize("index_mode", ["heap", "mmap"])
def test_a_time_index_alone_decides_nothing(tmp_path: Path, told_age: int | None, index_mode):
    """[DUR-130] Batch headers do: a segment stays or goes, whatever its time index says."""
    path, now_ms = tmp_path / "t-0", int(time.time() * 1000)
    with segstore.open(path) as log:
        for age in (20, 20, 1):
            log.append([(now_ms - age * HOUR_MS, None, bytes(1000))])
            log.roll()
        log.append([(now_ms, None, b"")])
    told = b""
    if told_age is not None:
        told = struct.pack(">qi", now_ms - told_age * HOUR_MS, 0)
    for base in (0, 1, 2):
        (path / f"{base:020d}.timeindex").write_bytes(told)
    for retention_hours, expected in ((30, []), (15, [0, 1])):
        settings = {"retention_ms": retention_hours * HOUR_MS, "index_mode": index_mode}
        with segstore.open(path, **settings) as log:
            assert [one.base_offset for one in log.plan_retention().deleted] == expected
            assert [one.base_offset for one in log.delete_old_segments()] == expected


def test_a_segment_whose_headers_cannot_be_read_is_not_deleted_by_time(tmp_path: Path):
    """[DUR-130, RTN-12] Nor is what comes behind it; by size it goes as any other."""
    path, now_ms = tmp_path / "t-0", int(time.time() * 1000)
    with segstore.open(path) as log:
        for _ in range(3):
            log.append([(now_ms - 20 * HOUR_MS, None, bytes(1000))])
            log.roll()
        log.append([(now_ms, None, b"")])
    file = path / f"{1:020d}.log"
    data = bytearray(file.read_bytes())
    data[8:12] = b"\xff" * 4  # the size of its batch
    file.write_bytes(data)
    with segstore.open(path, retention_ms=15 * HOUR_MS) as log:
        plan = log.plan_retention()
        assert [one.base_offset for one in plan.deleted] == [0]
        assert plan.holding is not None
        assert (plan.holding.base_offset, plan.holding.reason) == (1, HoldingReason.DAMAGED)
        with pytest.raises(SegstoreError):
            log.delete_old_segments()
        assert [one.base_offset for one in log.segments()] == [1, 2, 3]
        log.update_config(log.config.with_changes(retention_ms=None, retention_bytes=1))
        log.delete_old_segments()
        assert [one.base_offset for one in log.segments()] == [3]
