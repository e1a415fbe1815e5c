"""Fixtures of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kits.damaged_logs import build
from tests.kits.log_kit import clock, new_log, scheduler
from tests.kits.small_disk import disk_of_small_blocks, small_disk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kits.damaged_logs import LogDirectory

__all__ = ["clock", "disk_of_small_blocks", "new_log", "scheduler", "small_disk"]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> LogDirectory:
    """A log that was not closed, nothing of it known to be synced; to be copied."""
    return build(tmp_path_factory.mktemp("crashed") / "orders-0")


@pytest.fixture
def log_directory(crashed: LogDirectory, tmp_path: Path) -> LogDirectory:
    return crashed.copy(tmp_path / "orders-0")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where a salvage makes the new log; nothing is there."""
    return tmp_path / "salvaged" / "orders-0"
