"""The Python half: a mutant takes the place of functions in a process that has the tests ready.

All tests are collected once. For each mutant a fork of that process gives the functions of the
mutated module the code that they have in the mutant, and runs tests until one fails that does not
fail without it. What a test starts as another program runs the code as it is.
"""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
from functools import partial
from itertools import zip_longest
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.line_tests import LineTests
from tests.mutation.live_functions import replace_functions
from tests.mutation.told_by_fork import told_by_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.mutation.mutants import Mutant

CPU_SECONDS, SLOWER = 20, 3
"""What a mutant's tests may take: so much, and so many times what they take without one."""


class Answer(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    is_killed: bool | None
    """None = it does not compile."""
    killer: str = ""


def learn(root: Path, files: Sequence[str], tests: Sequence[str], answer: Path) -> None:
    """Run all tests once, under `line_tests`, to see which of them run each line."""
    watched = [word for name in files for word in ("--lines-of", name)]
    plugin = ["-p", "tests.mutation.line_tests", "--lines-to", str(answer), *watched]
    options = ["-x", "-q", "-p", "no:cacheprovider", *plugin]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    if subprocess.run(command, cwd=root, env=_environment(), check=False).returncode:
        answer.unlink(missing_ok=True)  # of some of the tests: the next run would take it
        sys.exit("the tests do not pass as they are")


def try_in_package(
    root: Path, mutants: Sequence[Mutant], tests: Sequence[str], lines_file: Path, jobs: int
) -> Iterator[Answer]:
    """Yield what becomes of each mutant, as it is known.

    Parameters
    ----------
    root : Path
        The project; nothing is changed there.
    mutants : sequence of Mutant
        Of Python files.
    tests : sequence of str
        What pytest is to collect.
    lines_file : Path
        What `learn` has written.
    jobs : int
        Processes that share the mutants.
    """
    context = get_context("spawn")
    answers = context.SimpleQueue()
    processes = [
        context.Process(
            target=_try_share, args=(root, mutants[number::jobs], tests, lines_file, answers)
        )
        for number in range(jobs)
    ]
    for process in processes:
        process.start()
    try:
        for _ in processes:
            while (answer := answers.get()) is not None:
                yield answer
        for process in processes:
            process.join()
            if process.exitcode:
                sys.exit("not all mutants could be tried")
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _environment() -> dict[str, str]:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("CI", None)
    return environment


def _try_share(
    root: Path, mutants: Sequence[Mutant], tests: Sequence[str], lines_file: Path, answers: Any
) -> None:
    os.chdir(root)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("CI", None)
    trials = PackageTrials(root, mutants, LineTests.read(lines_file), answers.put)
    options = ["-s", "-q", "-p", "no:cacheprovider", "--disable-warnings"]
    try:
        sys.exit(pytest.main([*options, *tests], plugins=[trials]))
    finally:
        answers.put(None)


class PackageTrials:
    """A plugin of pytest that tries mutants where tests would be run.

    Parameters
    ----------
    root : Path
        The project.
    mutants : sequence of Mutant
        Of Python files.
    lines : LineTests
        Which tests are asked.
    tell : callable
        Called with each `Answer`.
    """

    def __init__(
        self,
        root: Path,
        mutants: Sequence[Mutant],
        lines: LineTests,
        tell: Callable[[Answer], object],
    ) -> None:
        names = {mutant.name for mutant in mutants}
        self._texts = {name: (root / name).read_text(encoding="utf-8") for name in names}
        self._mutants = mutants
        self._lines = lines
        self._tell = tell

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        items = {item.nodeid: item for item in session.items}
        gc.freeze()
        for mutant in self._mutants:
            self._tell(self._answer(mutant, items))
        return True

    def _answer(self, mutant: Mutant, items: dict[str, pytest.Item]) -> Answer:
        module = importlib.import_module(mutant.name.removesuffix(".py").replace("/", "."))
        text = mutant.of(self._texts[mutant.name])
        try:
            code = compile(text, str(module.__file__), "exec")
        except SyntaxError:
            return Answer(mutant, None)
        seconds = self._lines.of(mutant.name, mutant.line_number)
        most_seconds = CPU_SECONDS + SLOWER * int(sum(seconds.values()))

        def killer() -> str:
            try:
                replace_functions(module, code)
            except ImportError as error:
                return f"the import: {error}"
            return first_failed([items[test] for test in seconds if test in items])

        while (told := told_by_fork(killer, most_seconds)) in items:
            alone = [items[told]]
            if told_by_fork(partial(first_failed, alone), most_seconds) == "":
                self._lines.note_killer(mutant.name, mutant.line_number, told)
                break
            del items[told]  # it fails without a mutant too: at times, or in a fork
        return Answer(
            mutant, told != "", "a crash, or a time without end" if told is None else told
        )


def first_failed(items: Sequence[pytest.Item]) -> str:
    """Run tests up to the first that fails, and return its name; empty when none does."""
    for item, following in zip_longest(items, items[1:]):
        try:
            reports = runtestprotocol(item, log=False, nextitem=following)
        except (KeyboardInterrupt, pytest.exit.Exception):
            return item.nodeid
        if any(report.failed for report in reports):
            return item.nodeid
    return ""
