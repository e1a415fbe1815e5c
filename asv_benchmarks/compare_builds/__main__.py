"""``python -m compare_builds BASE``: CPU time of this tree over that of a commit, path by path.

In each round every path is walked by both builds, which of them begins changes from round to round,
and each walk is a process of its own. A path fails when the 95 % interval of its ratio lies above
the limit.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from .build import ROOT, Build, LackingError, build_commit
from .paths import PATHS, BenchmarkPath
from .ratio import Interval, median_interval

MEMORY = Path("/dev/shm")
"""A file system without a disk."""
MEMORY_BYTES = 2 * 1024**3
LEAST_ROUNDS = 6


def scratch_parent() -> str | None:
    """Where files cost no disk, when there is room."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    return str(MEMORY) if has_room else None


def ratios_of(numbers: list[int], new: Build, base: Build, rounds: int) -> dict[int, list[float]]:
    """Cost of the new build over that of the base, a ratio for each round of each path."""
    calls: dict[int, int] = {}
    for number in numbers:
        fill_a_round = new.round(number, 0).calls  # a round that does not count
        try:
            calls[number] = min(fill_a_round, base.round(number, 0).calls)
        except LackingError as error:
            print(f"left out, the base lacks it: {PATHS[number]}: {error}")
    ratios: dict[int, list[float]] = {number: [] for number in calls}
    for turn in range(rounds):
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
        for number, count in calls.items():
            order = (base, new) if (turn + number) % 2 else (new, base)
            cost = {build: build.round(number, count).seconds for build in order}
            ratios[number].append(cost[new] / cost[base])
    return ratios


def told(path: BenchmarkPath, interval: Interval, limit: float) -> str:
    """One line of the answer."""
    verdict = "" if interval.reaches(limit) else "  TOO DEAR"
    figures = f"{interval.median:7.3f}  {interval.lower:7.3f} to {interval.upper:5.3f}"
    return f"{figures}  {path}{verdict}"


def enough_rounds(text: str) -> int:
    """Parse a number of rounds of which an interval can be told."""
    rounds = int(text)
    if rounds < LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(f"an interval needs {LEAST_ROUNDS} rounds at least")
    return rounds


def main() -> int:
    """Return 1 when a path fails."""
    parser = argparse.ArgumentParser(prog="python -m compare_builds", description=__doc__)
    parser.add_argument("base", help="a commit, or a folder with one that is built already")
    parser.add_argument("--rounds", type=enough_rounds, default=15)
    parser.add_argument("--limit", type=float, default=1.03, help="of the ratio of CPU times")
    parser.add_argument("--only", default="", help="the paths with this in their names")
    chosen = parser.parse_args()
    numbers = [number for number, path in enumerate(PATHS) if chosen.only in str(path)]
    with tempfile.TemporaryDirectory(prefix="segstore-price-", dir=scratch_parent()) as scratch:
        folder = Path(chosen.base)
        if not folder.is_dir():
            folder = build_commit(chosen.base, Path(scratch, "base"))
        new, base = (Build(tree.resolve(), Path(scratch)) for tree in (ROOT, folder))
        ratios = ratios_of(numbers, new, base, chosen.rounds)
    print(
        f"CPU time over that of {chosen.base}, median and 95 % interval of {chosen.rounds} rounds"
    )
    intervals = {number: median_interval(found) for number, found in ratios.items()}
    for number, interval in intervals.items():
        print(told(PATHS[number], interval, chosen.limit))
    return 0 if all(found.reaches(chosen.limit) for found in intervals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
