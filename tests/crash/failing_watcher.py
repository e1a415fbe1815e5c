"""Which places of segstore a run comes to, as the simulated disk is told of each call."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import segstore
from tests.crash.errno_table import applicable_errnos

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, FrameType

    from segstore._core import SimulatedDisk

ROOT = Path(segstore.__file__).parents[1]
PACKAGE = f"{ROOT / 'segstore'}{os.sep}"


class Place(NamedTuple):
    """An expression of the sources, by where it ends: its beginning differs among Pythons."""

    file: str
    line: int
    column: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.function}"


class Row(NamedTuple):
    """A place, and the kind of call that is made there."""

    place: Place
    call: str


class Failure(NamedTuple):
    """A call that is to fail: the first at its place."""

    row: Row
    os_error: int
    for_ever: bool

    def __str__(self) -> str:
        duration = "for ever" if self.for_ever else "once"
        name = errno.errorcode[self.os_error]
        return f"{self.row.call} at {self.row.place} fails with {name} {duration}"


@functools.cache
def place_at(code: CodeType, instruction: int) -> Place:
    """Return the place of an instruction."""
    positions = list(code.co_positions())[instruction // 2]
    _, line, _, column = positions
    file = str(Path(code.co_filename).relative_to(ROOT))
    return Place(file, line or code.co_firstlineno, column or 0, code.co_qualname)


def place_of(frame: FrameType | None) -> Place | None:
    """Return the place of the innermost frame that is segstore's; None = a test's own call."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return place_at(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


class Tracer:
    """Takes lines that are come to off a list, wherever a place may call nothing at all.

    A traced run takes three times as long. So a run with a failure is traced from the failure on:
    up to there it is the undisturbed one.

    Attributes
    ----------
    pending : dict of str to set of int
        By file, the lines that no run has come to.
    """

    def __init__(self, lines: Iterable[tuple[str, int]]) -> None:
        self.pending: dict[str, set[int]] = {}
        self._pending_of: dict[CodeType, set[int]] = {}
        for file, line in lines:
            self.pending.setdefault(file, set()).add(line)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Tracer | None:
        """Do as `sys.settrace` wants it; functions without such a line are left in peace."""
        code = frame.f_code
        pending = self._pending_of.get(code)
        if pending is None:
            pending = self._pending_of[code] = self._lines_of(code)
        if not pending:
            return None
        if event == "line" and frame.f_lineno in pending:
            pending.discard(frame.f_lineno)
            self.pending[file_of(code)].discard(frame.f_lineno)
        return self

    def begin(self) -> None:
        """Trace this thread from here on, also in the functions that it is in."""
        frame: FrameType | None = sys._getframe(1)
        sys.settrace(self)
        while frame is not None:
            frame.f_trace = self(frame, "call", None)
            frame = frame.f_back

    def _lines_of(self, code: CodeType) -> set[int]:
        """Return the lines of a function that no run has come to."""
        lines = {line for _, _, line in code.co_lines() if line is not None}
        return lines & self.pending.get(file_of(code), set())


def file_of(code: CodeType) -> str:
    """Return the file of a function, below the checkout."""
    return code.co_filename.removeprefix(f"{ROOT}{os.sep}")


class Watcher:
    """Notes which places call the disk, and lets the calls of a plan fail."""

    def __init__(
        self,
        disk: SimulatedDisk,
        failures: Iterable[Failure] = (),
        tracer: Tracer | None = None,
    ) -> None:
        self.rows: Counter[Row] = Counter()
        self.failed: set[Failure] = set()
        self._disk = disk
        self._failures = {failure.row: failure for failure in failures}
        self._standing: dict[str, Failure] = {}
        self._tracer = tracer
        disk.watch(self)

    def __call__(self, call: str, _name: str) -> None:
        place = place_of(sys._getframe(1))
        if place is None or call not in applicable_errnos():
            return
        row = Row(place, call)
        self.rows[row] += 1
        failure = self._failures.get(row) if self.rows[row] == 1 else None
        if failure is not None:
            self._disk.fail(call, 1, failure.os_error, for_ever=failure.for_ever)
            self.failed.add(failure)
            if self._tracer is not None:
                self._tracer.begin()
            if failure.for_ever:
                self._standing[call] = failure
        elif call in self._standing and self.rows[row] == 1:
            self.failed.add(self._standing[call]._replace(row=row))

    def end(self) -> None:
        """Let everything work again."""
        self._disk.watch(None)
        for call in applicable_errnos():
            self._disk.fail(call, 0, 0)
