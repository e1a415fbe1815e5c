"""Fixtures of this folder."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KILLS_FEW, KILLS_MANY = 60, 300
M_MMAP_THRESHOLD, LARGE_BYTES = -3, 1024 * 1024  # of mallopt

# A simulated index has room for 10 MiB of which almost nothing is touched. On the heap, where large
# blocks go once some were given back, thousands of them, with small ones between, are more than the
# machine has: no process can be forked then, though nearly all of it is free.
with contextlib.suppress(AttributeError):  # another libc
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


@pytest.fixture(autouse=True, scope="module")
def _give_back_disks() -> Iterator[None]:
    """Let go of simulated disks that are held by what refers to itself."""
    yield
    gc.collect()


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
