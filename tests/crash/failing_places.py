"""Every place where the Python classes call the environment, failed with every errno.

    python -m tests.crash.failing_places              # all errnos, once and for ever: the table
    python -m tests.crash.failing_places --how-much sample  # two failures at each place
    python -m tests.crash.failing_places --only roll        # scenarios with this in their names

A place is the innermost expression of segstore/*.py that the call comes from, and the kind of call;
the calls that the C core makes below it are failed one by one in tests/c/test_failing_calls.c. Each
scenario runs once undisturbed, which tells its places; then once for each of them, errno and
duration. Places that are only come to behind a failure get a second one [DUR-111].
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import logging
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import SegstoreError
from tests.crash.errno_table import applicable_errnos
from tests.crash.failing_scenarios import SCENARIOS
from tests.crash.failing_watcher import Failure, Row, Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.crash.failing_trial import Trial
    from tests.crash.failing_watcher import Tracer

PATIENCE_SECONDS = 30
MOST_FAILURES = 3
"""Of one run: what is only done behind two failures is failed as a third."""


class Result(NamedTuple):
    """A run with failures: what came of it."""

    rows: Counter[Row]
    failed: set[Failure]
    error: str
    outcome: str


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """[DUR-103] Whatever fails, nothing waits for ever."""

    def stop(_signal: int, _frame: object) -> None:
        raise AssertionError(f"it hangs, after {PATIENCE_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def names_its_file(error: SegstoreError) -> bool:
    """Whether an error, or what it was raised from, says which file it is about."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SegstoreError) and cause.file is not None:
            return True
        cause = cause.__cause__
    return False


def attempt(
    prepare: Callable[[], Trial],
    failures: Iterable[Failure] = (),
    tracer: Tracer | None = None,
) -> Result:
    """Run a trial with these failures, and check what is left.

    Raises AssertionError where a promise is broken, and whatever is no error of segstore.
    """
    failures = tuple(failures)
    trial = prepare()
    caught: SegstoreError | None = None
    with patience():
        watcher = Watcher(trial.disk, failures, tracer)
        try:
            trial.run()
        except SegstoreError as error:
            caught = error
        finally:
            watcher.end()
        if caught is not None:
            assert failures, f"nothing was to fail: {caught!r}"
            assert names_its_file(caught), f"no file is named: {caught!r}"
        outcome = trial.check(caught)
    name = type(caught).__name__ if caught is not None else "no error"
    return Result(watcher.rows, watcher.failed, name, outcome)


# ---- all of them ---------------------------------------------------------------------------------


@dataclass
class Visited:
    """What was failed at a place, and what came of it."""

    scenario: str
    behind: tuple[Failure, ...] = ()
    failed: set[tuple[int, bool]] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)


class Totals(NamedTuple):
    """What was failed with all that it should be, and what is known to call; parts are joined."""

    visited: list[str]
    known: list[str]
    failures: int
    runs: int


class Explorer:
    """Goes through scenarios, and keeps the table.

    Parameters
    ----------
    scenarios : iterable of str
        Their names.
    part, parts : int
        Of the places, only each *parts*-th is failed, from *part* on.
    how_much : str
        Of the failures of a place: ``sample`` is one, another at each place; ``all`` is every
        errno, once and for ever.
    tracer : Tracer
        Notes which lines run, before a failure and after it.
    """

    def __init__(
        self,
        scenarios: Iterable[str] = SCENARIOS,
        part: int = 0,
        parts: int = 1,
        *,
        how_much: str = "all",
        tracer: Tracer | None = None,
    ) -> None:
        self.table: dict[Row, Visited] = {}
        self.runs = 0
        self.broken: list[str] = []
        self._scenarios = list(scenarios)
        self._part, self._parts, self._how_much = part, parts, how_much
        self._tracer = tracer

    def explore(self) -> None:
        """Fill the table."""
        clean = self.record()
        numbers = {place: n for n, place in enumerate(sorted({row.place for row in clean}))}
        for row in sorted(clean):
            if numbers[row.place] % self._parts == self._part:
                self.table[row] = Visited(clean[row])
        waiting = list(self.table)
        while waiting:
            row = waiting.pop()
            for failure in self._failures_of(row):
                waiting += self._fail(row, failure, known=clean)

    def record(self) -> dict[Row, str]:
        """Run every scenario undisturbed; return each place with the shortest that comes to it."""
        shortest: dict[Row, tuple[int, str]] = {}
        for name in self._scenarios:
            try:
                rows = self._attempt(name, ()).rows
            except Exception as error:
                raise AssertionError(f"{name}: {error!r}") from error
            for row in rows:
                shortest[row] = min(shortest.get(row, (sys.maxsize, "")), (rows.total(), name))
        return {row: name for row, (_, name) in shortest.items()}

    def _failures_of(self, row: Row) -> list[Failure]:
        errnos = applicable_errnos()[row.call]
        line = row.place.line
        if self._how_much == "all":
            return [Failure(row, each, ever) for each in errnos for ever in (False, True)]
        return [Failure(row, errnos[line // 2 % len(errnos)], for_ever=line % 2 == 0)]

    def _fail(self, row: Row, failure: Failure, known: Iterable[Row]) -> list[Row]:
        """Fail there; return the places that are only come to behind it."""
        visited = self.table[row]
        if (failure.os_error, failure.for_ever) in visited.failed:
            return []
        failures = (*visited.behind, failure)
        what = ", then ".join(map(str, failures))
        self.runs += 1
        try:
            result = self._attempt(visited.scenario, failures)
        except Exception as error:  # noqa: BLE001 - all of them are told at the end
            self.broken.append(f"{visited.scenario}: {what}: {error!r}")
            visited.failed.add((failure.os_error, failure.for_ever))
            visited.outcomes["BROKEN"] += 1
            return []
        if failure not in result.failed:
            self.broken.append(f"{visited.scenario}: {what}: it was not come to")
        new = []
        if len(failures) < MOST_FAILURES:
            new = [each for each in result.rows if each not in known and each not in self.table]
        for each in new:
            self.table[each] = Visited(visited.scenario, failures)
        for one in result.failed:
            if one.row in self.table and (one.row == row or one.row in new):
                self.table[one.row].failed.add((one.os_error, one.for_ever))
                self.table[one.row].outcomes[f"{result.error}, {result.outcome}"] += 1
        return new

    def _attempt(self, name: str, failures: tuple[Failure, ...]) -> Result:
        gc.disable()  # what it closes is closed at places that differ from run to run
        before = sys.gettrace()
        if self._tracer is not None and not failures:
            self._tracer.begin()
        try:
            return attempt(SCENARIOS[name], failures, self._tracer)
        finally:
            sys.settrace(before)
            gc.enable()

    # ---- what was done ---------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """Return the calls that were not failed with all that they should be."""
        return [f"{row.place} {row.call}" for row in self._incomplete()]

    def _incomplete(self) -> list[Row]:
        return [
            row
            for row, visited in self.table.items()
            if any(one[1:] not in visited.failed for one in self._failures_of(row))
        ]

    def totals(self) -> Totals:
        """Return how much was done."""
        incomplete = set(self._incomplete())
        return Totals(
            sorted(f"{row.place} {row.call}" for row in self.table if row not in incomplete),
            sorted(f"{row.place} {row.call}" for row in self.table),
            sum(len(visited.failed) for visited in self.table.values()),
            self.runs,
        )

    def lines(self) -> Iterator[str]:
        """Lines of the table: place, kind of call, errnos, outcomes."""
        for row in sorted(self.table):
            visited = self.table[row]
            by_errno = Counter(errno.errorcode[os_error] for os_error, _ in visited.failed)
            errnos = " ".join(f"{name} {count}" for name, count in by_errno.items())
            outcomes = "; ".join(f"{what} {count}" for what, count in visited.outcomes.items())
            behind = " behind another failure" if visited.behind else ""
            yield f"{row.place} | {row.call}{behind} | {errnos} | {outcomes}"


def told(parts: Iterable[Totals]) -> str:
    """Say in a line how much was done, in all parts."""
    parts = [Totals(*part) for part in parts]
    visited = {call for part in parts for call in part.visited}
    known = {call for part in parts for call in part.known}
    places = {call.rpartition(" ")[0] for call in known}
    return (
        f"failing calls of the Python classes: {len(visited)} of {len(known)} kinds of call at"
        f" {len(places)} places, {sum(part.failures for part in parts)} failures,"
        f" {sum(part.runs for part in parts)} runs"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--how-much", choices=("sample", "all"), default="all")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="scenarios with this in the name"
    )
    chosen = parser.parse_args(arguments)
    logging.disable()
    names = [name for name in SCENARIOS if chosen.only in name]
    explorer = Explorer(names, how_much=chosen.how_much)
    explorer.explore()
    for line in explorer.lines():
        print(line)
    for line in explorer.broken:
        print(line)
    print(told([explorer.totals()]))
    return 1 if explorer.broken or explorer.missing() else 0


if __name__ == "__main__":
    sys.exit(main())
