"""A Control-C before one instruction of a function."""

from __future__ import annotations

import sys


class InterruptedAt:
    """Raises KeyboardInterrupt before the n-th instruction of a function, once."""

    def __init__(self, function, nth: int) -> None:
        self._code, self._left = function.__code__, nth
        self.came = False

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _enter(self, frame, _event, _argument):
        if frame.f_code is not self._code:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, _frame, event, _argument):
        if event == "opcode" and not self.came:
            self._left -= 1
            if self._left == 0:
                self.came = True
                raise KeyboardInterrupt
        return self._step
