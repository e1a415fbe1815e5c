"""``python -m tests.mutation``: which mutants of recovery, truncation and the indexes survive.

Each runs in a copy of the project until a test fails: one in C with the tests of its floor, one in
Python with those that run its line. What does not compile is none. Survivors are printed, and the
share that was killed; a line that no test runs is one that survives.
"""

from __future__ import annotations

import argparse
import contextlib
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

from rich.progress import Progress

from tests.mutation.line_tests import LineTests
from tests.mutation.mutants import Mutant, mutants_of

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
    "segstore/log/log_truncator.py",
    "segstore/log/loader/leftovers.py",
    "segstore/log/loader/log_begin.py",
    "segstore/log/loader/log_loader.py",
    "segstore/log/loader/log_recovery.py",
    "segstore/log/loader/lost_indexes.py",
    "segstore/log/loader/overflow_split.py",
    "segstore/log/loader/recovered_tail.py",
    "segstore/log/loader/swap_files.py",
    "segstore/log/loader/tail_or_damage.py",
)
CORE_TESTS = [
    "test_recovery",
    "test_index_builder",
    "test_segment_rewrite",
    "test_segment_truncate",
    "test_kafka_recovery",
    "test_log_segment",
    "test_segment_refusals",
    "test_offset_index",
    "test_time_index",
    "test_abstract_index",
    "test_index_cut",
    "test_index_flush",
    "test_segment_scan",
    "test_segment_sync",
    "test_segment_read",
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
    "unit/log/test_log_recovery.py",
    "unit/log/test_leftovers.py",
    "unit/log/test_log_loader.py",
    "unit/log/test_log_truncator.py",
    "unit/log/test_local_log.py",
    "unit/log/test_quarantine.py",
    "unit/log/test_damage_below_recovery_point.py",
    "unit/log/test_read_only_loader.py",
    "unit/log/test_recovery_report.py",
    "unit/log/test_unified_log.py",
    "conformance/test_kafka_log_loader.py",
    "crash/test_barriers.py",
    "crash/test_crash_scripts.py",
    "regression",
]
SECONDS_FEW, SECONDS_MANY = 60, 1800
SLOWER = 5  # than without a mutant a test may be, on a machine that does other things


class Workshop:
    """A copy of the project in which one mutant after another is tried."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        for name in ("csrc", "segstore", "tests", "pyproject.toml"):
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / name)

    def is_killed(self, mutant: Mutant, lines: LineTests | None) -> bool | None:
        """Whether a test fails with it; None = it does not compile."""
        place = self._root / mutant.name
        before = place.read_text(encoding="utf-8")
        place.write_text(mutant.of(before), encoding="utf-8")
        try:
            if lines is None:
                return self._core_dies()
            return self._package_dies(place, lines.of(mutant.name, mutant.line_number))
        finally:
            place.write_text(before, encoding="utf-8")

    def build(self) -> None:
        """Compile all of it once, so that a mutant compiles one file."""
        if self._core_dies(SECONDS_MANY) is not False:
            sys.exit("the C tests do not pass as they are")

    def learn(self, files: list[str]) -> LineTests:
        """Run all tests once to see which of them run each line."""
        answer = self._root / "lines.json"
        options = ["-p", "tests.mutation.line_tests", "--lines-to", str(answer)]
        watched = [word for name in files for word in ("--lines-of", name)]
        tests = [f"tests/{name}" for name in PYTHON_TESTS]
        if not self._pytest([*options, *watched, *tests], SECONDS_MANY):
            sys.exit("the tests do not pass as they are")
        return LineTests.read(answer)

    def _pytest(self, words: list[str], seconds: float) -> bool:
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        return self._runs([sys.executable, "-m", "pytest", *options, *words], seconds)

    def _core_dies(self, seconds: float = SECONDS_FEW) -> bool | None:
        built, explorer = self._root / "build", str(self._root / "build" / "explore_crashes")
        words = [f"BUILD={built}", f"TESTS={' '.join(CORE_TESTS)}", f"CFLAGS={CFLAGS}"]
        folder = str(self._root / "tests" / "c")
        if not self._runs(["make", "-s", "-C", folder, "build", explorer, *words], seconds):
            return None
        tests = [[str(built / name)] for name in CORE_TESTS]
        crashes = [explorer, "--jobs=1", "--length=2", "--images=4000"]
        return any(not self._runs(command, SECONDS_FEW) for command in (*tests, crashes))

    def _package_dies(self, place: Path, tests: dict[str, float]) -> bool | None:
        if not self._runs([sys.executable, "-m", "py_compile", str(place)], SECONDS_FEW):
            return None
        if not tests:
            return False
        chosen = self._root / "chosen.txt"
        chosen.write_text("\n".join(tests), encoding="utf-8")
        return not self._pytest([f"@{chosen}"], SECONDS_FEW + SLOWER * sum(tests.values()))

    def _runs(self, command: list[str], seconds: float) -> bool:
        environment = {**os.environ, "PYTHONPATH": str(self._root)}
        environment.pop("CI", None)
        process = subprocess.Popen(
            command,
            cwd=self._root,
            env=environment,
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--most", type=int, default=0, help="so many of them by chance; 0 = all")
    parser.add_argument("--seed", type=int, default=1, help="of the chance")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--least", type=float, default=85.0, help="per cent that must be killed")
    parser.add_argument("files", nargs="*", help=f"default: {' '.join((*CORE, *PYTHON))}")
    chosen = parser.parse_args()
    mutants = [m for name in chosen.files or (*CORE, *PYTHON) for m in mutants_of(ROOT, name)]
    if chosen.most:
        mutants = random.Random(chosen.seed).sample(mutants, min(chosen.most, len(mutants)))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, Progress() as progress:
        workshops: SimpleQueue[Workshop] = SimpleQueue()
        lines: LineTests | None = None
        for number in range(chosen.jobs):
            workshop = Workshop(Path(folder, str(number)))
            if any(not mutant.is_python for mutant in mutants):
                workshop.build()
            if lines is None and (names := sorted({m.name for m in mutants if m.is_python})):
                lines = workshop.learn(names)
            workshops.put(workshop)
        task = progress.add_task("mutants", total=len(mutants))
        answers: list[bool] = []

        def try_one(mutant: Mutant) -> None:
            workshop = workshops.get()
            try:
                killed = workshop.is_killed(mutant, lines if mutant.is_python else None)
            finally:
                workshops.put(workshop)
            if killed is not None:
                answers.append(killed)
            if killed is False:
                told = f"{sum(answers)} of {len(answers)} killed; survives: {mutant}"
                progress.console.print(told, markup=False, soft_wrap=True)
            progress.advance(task)

        with ThreadPoolExecutor(chosen.jobs) as pool:
            tried = [pool.submit(try_one, mutant) for mutant in mutants]
            try:
                for one in tried:
                    one.result()
            except KeyboardInterrupt:  # what was tried so far is worth telling
                pool.shutdown(cancel_futures=True)
    share = 100 * sum(answers) / max(1, len(answers))
    print(f"{sum(answers)} of {len(answers)} mutants are killed: {share:.1f} %")
    return 0 if share >= chosen.least else 1


if __name__ == "__main__":
    sys.exit(main())
