"""Which tests run each line of the mutated Python files, and how long each of them takes.

A plugin of pytest (``-p tests.mutation.line_tests --lines-to FILE``): a mutant is given only to the
tests that run its line, the quick ones first.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SECONDS = 90.0


class LineTests(NamedTuple):
    """What one run of all tests saw."""

    seconds: dict[str, float]
    tests: dict[str, list[str]]

    @classmethod
    def read(cls, path: Path) -> LineTests:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def of(self, name: str, line_number: int) -> dict[str, float]:
        """Return the tests that run a line with their seconds, the quickest first.

        The slowest are left out where all would take longer than MOST_SECONDS.
        """
        chosen: dict[str, float] = {}
        quick_first = sorted(
            self.tests.get(f"{name}:{line_number}", ()), key=self.seconds.__getitem__
        )
        for test in quick_first:
            if chosen and sum(chosen.values()) + self.seconds[test] > MOST_SECONDS:
                break
            chosen[test] = self.seconds[test]
        return chosen


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
        path.write_text(json.dumps(LineTests(self._seconds, tests)._asdict()), encoding="utf-8")


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
