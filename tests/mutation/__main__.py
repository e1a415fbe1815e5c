"""``python -m tests.mutation``: which mutants of recovery, truncation and the indexes survive.

Each is tried until a test fails: one in C in a copy of the project, with the tests of its floor;
one in Python with tests that run its line, 10 s of them at most (`LineTests.of`). What does not
compile is none. Survivors are printed, and the share that was killed; a line that no test runs is
one that survives.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from rich.progress import Progress

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.package_trials import Answer, learn, try_in_package

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CORE = (
    "csrc/segment/recovery.c",
    "csrc/segment/kafka_recovery.c",
    "csrc/segment/segment_truncate.c",
    "csrc/segment/index_builder.c",
    "csrc/index/abstract_index.c",
    "csrc/index/index_search.c",
    "csrc/index/offset_index.c",
    "csrc/index/time_index.c",
)
PYTHON = (
    "segstore/log/truncation.py",
    "segstore/log/recovery/leftovers.py",
    "segstore/log/recovery/log_beginning.py",
    "segstore/log/recovery/survey.py",
    "segstore/log/recovery/judge.py",
    "segstore/log/recovery/judge_tail.py",
    "segstore/log/recovery/plan.py",
    "segstore/log/recovery/repair.py",
    "segstore/log/recovery/contradicted_epochs.py",
    "segstore/log/recovery/found_epochs.py",
    "segstore/log/recovery/lost_epochs.py",
    "segstore/log/recovery/lost_state.py",
    "segstore/log/recovery/overflow_split.py",
    "segstore/log/kafka_profile/swap_files.py",
)
CORE_TESTS = [
    "test_recovery",
    "test_index_builder",
    "test_segment_rewrite",
    "test_segment_truncate",
    "test_kafka_recovery",
    "test_log_segment",
    "test_segment_append",
    "test_segment_names",
    "test_segment_refusals",
    "test_offset_index",
    "test_time_index",
    "test_abstract_index",
    "test_index_cut",
    "test_index_flush",
    "test_segment_scan",
    "test_segment_sync",
    "test_segment_read",
    "test_segment_walk",
    "test_read_by_index",
    "test_mapped_file",
    "test_segment_release",
    "test_segment_timestamps",
    "test_failing_calls",
    "test_index_search",
    "test_index_answers",
]
CFLAGS = "-O1 -w -g0 -ftrivial-auto-var-init=pattern"  # what is never set is never right by chance
PYTHON_TESTS = [
    "tests/unit/log",
    "tests/conformance",
    "tests/regression",
    "tests/crash/test_barriers.py",
    "tests/crash/test_crashes_within_truncations.py",
]
SECONDS_FEW, SECONDS_MANY = 60, 1800


class Workshop:
    """A copy of the project in which one mutant in C after another is tried."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        for name in ("csrc", "tests"):
            shutil.copytree(ROOT / name, folder / name)

    def is_killed(self, mutant: Mutant) -> bool | None:
        """Whether a test fails with it; None = it does not compile."""
        place = self._root / mutant.name
        before = place.read_text(encoding="utf-8")
        place.write_text(mutant.of(before), encoding="utf-8")
        try:
            return self._core_dies()
        finally:
            place.write_text(before, encoding="utf-8")

    def build(self) -> None:
        """Compile all of it once, so that a mutant compiles one file."""
        if self._core_dies(SECONDS_MANY) is not False:
            sys.exit("the C tests do not pass as they are")

    def _core_dies(self, seconds: float = SECONDS_FEW) -> bool | None:
        built, explorer = self._root / "build", str(self._root / "build" / "explore_crashes")
        words = [f"BUILD={built}", f"TESTS={' '.join(CORE_TESTS)}", f"CFLAGS={CFLAGS}"]
        folder = str(self._root / "tests" / "c")
        if not self._runs(["make", "-s", "-C", folder, "build", explorer, *words], seconds):
            return None
        tests = [[str(built / name)] for name in CORE_TESTS]
        crashes = [explorer, "--jobs=1", "--length=2", "--images=4000"]
        return any(not self._runs(command, SECONDS_FEW) for command in (*tests, crashes))

    def _runs(self, command: list[str], seconds: float) -> bool:
        process = subprocess.Popen(
            command,
            cwd=self._root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False  # it hangs: that is noticed
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def try_in_core(folder: Path, mutants: list[Mutant], jobs: int) -> Iterator[Answer]:
    """Yield what becomes of each mutant, as it is known; *folder* takes the copies."""
    workshops: SimpleQueue[Workshop] = SimpleQueue()
    for number in range(jobs):
        workshop = Workshop(folder / str(number))
        workshop.build()
        workshops.put(workshop)

    def try_one(mutant: Mutant) -> Answer:
        workshop = workshops.get()
        try:
            return Answer(mutant, workshop.is_killed(mutant))
        finally:
            workshops.put(workshop)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(try_one, mutants)
        finally:
            pool.shutdown(cancel_futures=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--most", type=int, default=0, help="so many of them by chance; 0 = all")
    parser.add_argument("--seed", type=int, default=1, help="of the chance")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--least", type=float, default=85.0, help="per cent that must be killed")
    parser.add_argument("--lines", type=Path, help="keep here, or take, which tests run a line")
    parser.add_argument("--killed", action="store_true", help="tell also what is killed, by what")
    parser.add_argument("files", nargs="*", help=f"default: {' '.join((*CORE, *PYTHON))}")
    chosen = parser.parse_args()
    mutants = [m for name in chosen.files or (*CORE, *PYTHON) for m in mutants_of(ROOT, name)]
    if chosen.most:
        mutants = random.Random(chosen.seed).sample(mutants, min(chosen.most, len(mutants)))
    answers: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, Progress() as progress:
        tries = []
        if in_core := [mutant for mutant in mutants if not mutant.is_python]:
            tries.append(try_in_core(Path(folder), in_core, chosen.jobs))
        if in_package := [mutant for mutant in mutants if mutant.is_python]:
            lines = (chosen.lines or Path(folder, "lines.json")).resolve()
            if not lines.exists():
                learn(ROOT, sorted({*PYTHON, *chosen.files} - {*CORE}), PYTHON_TESTS, lines)
            tries.append(try_in_package(ROOT, in_package, PYTHON_TESTS, lines, chosen.jobs))
        task = progress.add_task("mutants", total=len(mutants))
        with contextlib.suppress(KeyboardInterrupt):  # what was tried so far is worth telling
            for mutant, is_killed, killer in itertools.chain(*tries):
                if is_killed is not None:
                    answers.append(is_killed)
                if is_killed is False or (is_killed and chosen.killed):
                    what = f"dies {killer}" if is_killed else "survives"
                    told = f"{sum(answers)} of {len(answers)} killed; {what}: {mutant}"
                    progress.console.print(told, markup=False, soft_wrap=True)
                progress.advance(task)
    share = 100 * sum(answers) / max(1, len(answers))
    print(f"{sum(answers)} of {len(answers)} mutants are killed: {share:.1f} %")
    return 0 if share >= chosen.least else 1


if __name__ == "__main__":
    sys.exit(main())
