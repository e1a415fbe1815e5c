"""The package in a real process, on a disk that loses what was not synced [DUR-1, DUR-2, DUR-5].

As test_crash_scripts.py shows on the simulated disk; here the calls of the system are real, and a
library in front of them keeps what a power cut would take back.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kits.preloaded_library import compiled, environment_with

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

HERE = Path(__file__).parent
PATIENCE_SECONDS = 600


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``lossy_disk.c``, compiled."""
    return compiled(HERE / "lossy_disk.c", tmp_path_factory.mktemp("lossy"), "-pthread")


@pytest.fixture
def rounds(pytestconfig: pytest.Config, few_or_many: Callable[[int, int], int]) -> int:
    """How often the power is cut in a test."""
    return (pytestconfig.getoption("--kills") or 0) // 20 or few_or_many(10, 20)


def run_rounds(library: Path, folder: Path, durability: str, rounds: int, seed: int, **more: str):
    (folder / "disk").mkdir()
    environment = environment_with(
        library,
        LOSSY_ROOT=str(folder / "disk"),
        LOSSY_JOURNAL=str(folder / "journal"),
        **more,
    )
    driver = [sys.executable, "-m", "tests.crash.lossy_driver", str(folder / "disk"), durability]
    return subprocess.run(
        [*driver, str(rounds), str(seed)],
        env=environment,
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("durability", ["sync", "none"])
def test_what_was_durable_is_there_after_a_power_cut(
    library: Path,
    durability: str,
    tmp_path: Path,
    chooser: random.Random,
    rounds: int,
):
    """[DUR-1..DUR-5, DUR-13, DUR-16, DUR-19] Of appends, rolls, truncations and deletions."""
    ran = run_rounds(library, tmp_path, durability, rounds, chooser.getrandbits(32))

    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "could be lost" in ran.stdout


@pytest.mark.parametrize("liar", ["fdatasync", "fsync"])
def test_a_sync_that_is_missing_is_noticed(
    library: Path, liar: str, tmp_path: Path, chooser: random.Random
):
    """[DUR-110] The same with a call that promises and does nothing: records are missing.

    Or the next open refuses what is left: a file that lost its first blocks is damage.
    """
    seed = chooser.getrandbits(32)
    ran = run_rounds(library, tmp_path, "sync", 200, seed, LOSSY_LIAR=liar)

    assert ran.returncode != 0
    ways = ("records became", "\nsegstore.errors.CorruptLogError: ")
    assert any(way in ran.stderr for way in ways), ran.stderr[-4000:]
