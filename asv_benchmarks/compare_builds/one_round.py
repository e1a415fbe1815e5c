"""``python -m compare_builds.one_round PATH CALLS``: one path by the segstore that is found first.

PATH is a number in the list of paths. Prints a line of JSON: the median CPU seconds of CALLS calls,
or of as many as make a round when CALLS is 0, and how many they were; or what the build lacks.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import segstore

from .paths import PATHS

SECONDS_OF_A_ROUND = 0.4


def cost_of_calls(number: int, calls: int) -> tuple[float, int]:
    """Median CPU seconds per unit of the calls that were measured, and how many they were."""
    from benchmarks.common import Cost, cost_of

    path = PATHS[number]
    benchmark = path.prepare()
    try:
        action = getattr(benchmark, path.action)

        def measure() -> float:
            if path.action == "ours":
                cost: Cost = action()
                return cost.cpu
            return cost_of(action).cpu

        measure()  # what is done once is done here
        costs, end = [], time.process_time() + SECONDS_OF_A_ROUND
        while len(costs) < calls or (calls == 0 and time.process_time() < end):
            costs.append(measure())
        return statistics.median(costs), len(costs)
    finally:
        if hasattr(benchmark, "teardown"):
            benchmark.teardown(*path.parameters)


def main() -> None:
    """Print the answer."""
    answer: dict[str, object] = {"package": str(Path(segstore.__file__).parents[1])}
    try:
        answer["seconds"], answer["calls"] = cost_of_calls(*map(int, sys.argv[1:]))
    except (AttributeError, ImportError, TypeError) as error:
        answer["lacks"] = f"{type(error).__name__}: {error}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
