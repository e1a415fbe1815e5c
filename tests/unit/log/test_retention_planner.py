"""What retention would delete, also of a log that is only read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import ArgumentTypeError, ClosedError
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
