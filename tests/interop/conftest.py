"""The golden runner: one parameter a partition, and a summary that says how many were equal and names the others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.golden import golden_root
from tests.interop.golden_case import GoldenPartition, covered_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator


class GoldenSummary:
    """What the runner prints at the end."""

    def __init__(self) -> None:
        self.equal: Counter[str] = Counter()
        self.compared: Counter[str] = Counter()
        self.others: list[str] = []

    def add(self, what: str, equal: int, compared: int) -> None:
        """Count *equal* of *compared* things of the kind *what*."""
        self.equal[what] += equal
        self.compared[what] += compared

    def name(self, other: str) -> None:
        """Name something that was not compared for equality, with the reason."""
        self.others.append(other)


_summary = GoldenSummary()


@pytest.fixture
def golden_summary() -> Iterator[GoldenSummary]:
    """Counters that the runner prints at the end of the session."""
    yield _summary


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a covered partition of ``--golden``."""
    if "golden_partition" in metafunc.fixturenames:
        partitions, later = covered_partitions(golden_root(metafunc.config))
        for line in later:
            if f"not yet covered: {line}" not in _summary.others:
                _summary.name(f"not yet covered: {line}")
        metafunc.parametrize("golden_partition", partitions, ids=str)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many were equal, and name the others with the reason."""
    if not _summary.compared:
        return
    terminalreporter.section("a real broker's directories")
    for what in sorted(_summary.compared):
        terminalreporter.write_line(f"{what}: {_summary.equal[what]} of {_summary.compared[what]} equal")
    for other in sorted(_summary.others):
        terminalreporter.write_line(f"  {other}")


__all__ = ["GoldenPartition", "GoldenSummary"]
