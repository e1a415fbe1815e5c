"""What a demo prints while it runs: lines with the time, and whether each answer is right."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Final

from segstore.cli.output import write_line


class DemoReport:
    """The lines and the checks of one run.

    Attributes
    ----------
    checks : dict of str to bool
        Whether each answer is right, by its name.
    """

    def __init__(self) -> None:
        self._started: Final = perf_counter()
        self.checks: Final[dict[str, bool]] = {}

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return perf_counter() - self._started

    @property
    def passed(self) -> bool:
        """Whether there are checks, and all of them are right."""
        return bool(self.checks) and all(self.checks.values())

    def tell(self, text: str) -> None:
        """Print a line with the time since the start."""
        write_line(f"[{self.seconds:5.1f} s] {text}")
        sys.stdout.flush()

    def check(self, name: str, passed: bool) -> None:  # noqa: FBT001 - a verdict
        """Note whether something is as it must be, and print it."""
        self.checks[name] = passed
        self.tell(f"{'equal' if passed else 'NOT EQUAL'}: {name}")

    def check_failed(self, name: str) -> None:
        """Note that something could not be checked."""
        self.checks[name] = False

    def write_table(self, figures: dict[str, str]) -> None:
        """Print the final table."""
        write_line("")
        for name, figure in figures.items():
            write_line(f"{name:<10}{figure}")
