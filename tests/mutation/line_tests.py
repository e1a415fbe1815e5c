"""Which tests run each line of the mutated Python files, and how long each of them takes.

A plugin of pytest (``-p tests.mutation.line_tests --lines-to FILE``): a mutant is given only to
tests that run its line, those that are likely to notice it first.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SECONDS = 10.0


class LineTests:
    """What one run of all tests saw, and which of them have noticed mutants since.

    Parameters
    ----------
    seconds : dict of str to float
        What each test took.
    tests : dict of str to list of str
        By ``file:line``, those that run it; of a function's signature, those that run its body.
    """

    def __init__(self, seconds: dict[str, float], tests: dict[str, list[str]]) -> None:
        self._seconds = seconds
        self._tests = tests
        self._killers: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._rarity: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        for place, there in tests.items():
            of_file = self._rarity[place.rpartition(":")[0]]
            for test in there:
                of_file[test] += 1 / len(there)

    @classmethod
    def read(cls, path: Path) -> LineTests:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def of(self, name: str, line_number: int) -> dict[str, float]:
        """Return tests that run a line with their seconds, the likely killers first.

        Those are what killed a mutant of the same file, the nearest line first; the tests that
        begin with its name; then quick ones that run lines of it which few others do. All together
        take MOST_SECONDS at most, or are a single one: those that are left out are never asked.
        """
        killers, rarity = self._killers[name], self._rarity[name]
        own = f"/test_{Path(name).stem}"

        def order(test: str) -> tuple[float, bool, float]:
            distance = abs(killers[test] - line_number) if test in killers else float("inf")
            return distance, own not in test, self._seconds[test] / rarity[test]

        chosen: dict[str, float] = {}
        left = MOST_SECONDS
        for test in sorted(self._tests.get(f"{name}:{line_number}", ()), key=order):
            seconds = self._seconds[test]
            if not chosen or seconds <= left:
                chosen[test] = seconds
                left -= seconds
        return chosen

    def note_killer(self, name: str, line_number: int, test: str) -> None:
        """Ask *test* first about mutants near this line from now on."""
        self._killers[name][test] = line_number


class Observer:
    """Notes the lines that each test runs, in any thread."""

    def __init__(self, root: Path, watched: list[str]) -> None:
        self._files = {str(root / name): name for name in watched}
        self._coverage = Coverage(data_file=None, config_file=False, include=list(self._files))
        self._seconds: dict[str, float] = {}
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        begin = perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = perf_counter() - begin
            self._coverage.switch_context("")

    def write(self, path: Path) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        tests = {
            f"{name}:{line}": sorted(filter(None, contexts))
            for file, name in self._files.items()
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file, name in self._files.items():
            tests |= _tests_of_signatures(name, Path(file).read_text(encoding="utf-8"), tests)
        seen = {"seconds": self._seconds, "tests": tests}
        path.write_text(json.dumps(seen), encoding="utf-8")


def _tests_of_signatures(name: str, text: str, tests: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return by ``file:line`` which tests run the body: a signature itself the import runs."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            begin = node.body[0].lineno
            body = [tests.get(f"{name}:{line}", ()) for line in range(begin, node.end_lineno + 1)]
            running = sorted(set().union(*body))
            found |= {f"{name}:{line}": running for line in range(node.lineno, begin)}
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lines-to", type=Path, required=True, help="where the answer is written")
    parser.addoption("--lines-of", action="append", default=[], help="a file of the project")


def pytest_configure(config: pytest.Config) -> None:
    observer = Observer(config.rootpath, config.getoption("--lines-of"))
    config.pluginmanager.register(observer, "segstore-lines")


def pytest_unconfigure(config: pytest.Config) -> None:
    observer = config.pluginmanager.get_plugin("segstore-lines")
    if isinstance(observer, Observer):
        observer.write(config.getoption("--lines-to"))
