"""Ctrl-C behind any one call that code of segstore makes, to the core or to its own functions.

CPython looks at signals when a call has returned, above all one that waited for the disk: what it
did is done, and the instruction behind it is not.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import weakref
from typing import TYPE_CHECKING, Final

from tests.crash.failing_watcher import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})


@functools.cache
def _calls(code: CodeType) -> dict[int, int | None]:
    """Return the positions of its calls, and where each goes on when it raises."""
    return {one.offset: _handler(code, one.offset) for one in _instructions(code)}


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    return (one for one in dis.get_instructions(code) if one.opname in _CALLS)


def _handler(code: CodeType, position: int) -> int | None:
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((one.target for one in entries if one.start <= position < one.end), None)


def _is_finalizing(frame: FrameType | None) -> bool:
    """Say whether a finalizer runs: Python drops what it raises, and the interrupt is lost."""
    while frame is not None and frame.f_code.co_name != "__del__":
        if frame.f_code is weakref.finalize.__call__.__code__:
            return True
        frame = frame.f_back
    return frame is not None


class Interrupt:
    """Runs something, and raises `KeyboardInterrupt` behind one of its calls.

    Parameters
    ----------
    number : int
        Which call, from 1 on. Not counted is one in whose place the next instruction, where a
        tracer raises, would not be caught by the same ``except`` or ``with``; nor what a finalizer
        calls.
    folder : str
        Only calls that code in this folder makes.

    Attributes
    ----------
    place : str or None
        Function and line; None when there were fewer calls.
    """

    def __init__(self, number: int, folder: str = PACKAGE) -> None:
        self._folder = folder
        self.place: str | None = None
        self._left = number
        self._last: dict[FrameType, int] = {}

    def run(self, act: Callable[[], object]) -> None:
        """Do *act*, up to the interrupt."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            act()
        except KeyboardInterrupt:
            assert self.place is not None
        finally:
            sys.settrace(before)
            self._last.clear()

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Callable | None:
        code = frame.f_code
        if self.place or not code.co_filename.startswith(self._folder) or _is_finalizing(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._follow

    def _follow(self, frame: FrameType, event: str, _argument: object) -> Callable | None:
        if event != "opcode" or self.place:
            return self._follow
        code, position = frame.f_code, frame.f_lasti
        last, self._last[frame] = self._last.get(frame, -1), position
        if last in _calls(code) and _calls(code)[last] == _handler(code, position):
            self._left -= 1
            if not self._left:
                self.place = f"{code.co_qualname}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self._follow


def interrupts(begin: Callable[[], Callable[[], object]], nth: int = 1) -> Iterator[str]:
    """Interrupt an operation after each *nth* of its calls in turn; yield where it was.

    Parameters
    ----------
    begin : callable
        Makes everything anew, and returns the operation.
    """
    for number in itertools.count(1, nth):
        interrupt = Interrupt(number)
        interrupt.run(begin())
        if interrupt.place is None:
            return
        yield interrupt.place
