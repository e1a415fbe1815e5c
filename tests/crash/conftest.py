"""Fixtures of this folder."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KILLS_FEW, KILLS_MANY = 60, 300


@pytest.fixture
def chooser() -> random.Random:
    """Other moments in each run; SEGSTORE_CRASH_SEED repeats those of one that failed [DUR-114]."""
    seed = int(os.environ.get("SEGSTORE_CRASH_SEED", random.SystemRandom().getrandbits(32)))
    print(f"SEGSTORE_CRASH_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def kills(request: pytest.FixtureRequest, few_or_many: Callable[[int, int], int]) -> int:
    """How many processes one kind of test may kill: its share of ``--kills``."""
    total = request.config.getoption("--kills") or few_or_many(KILLS_FEW, KILLS_MANY)
    kinds = sum("kills" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return -(-total // kinds)


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """Killed processes leave what they wrote on a disk, not in memory."""
    return disk_path
