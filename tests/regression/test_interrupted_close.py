"""Control-C in a close left the lock of a log behind that called itself closed.

A second close did nothing, and nobody could write the log while the old handle was kept.
"""

from __future__ import annotations

import dis
import signal
import sys

import pytest

import segstore
from segstore.errors import ForkedHandleError
from segstore.log.closing import Closing
from segstore.log.unified_log import UnifiedLog
from tests.kits.log_kit import in_a_child

ENDS = {
    "close": (UnifiedLog.close, Closing.end, Closing._end_alone),
    "close_quietly": (UnifiedLog.close_quietly, Closing.end, Closing._end_alone),
    "delete": (UnifiedLog.delete, Closing._end_alone),
}


def lines_of(functions):
    """Yield each line of each, but for the first ones."""
    for function in functions:
        code = function.__code__
        for line in sorted({line for _, line in dis.findlinestarts(code)} - {code.co_firstlineno}):
            yield code, line


def interrupting(code, line):
    """Return a tracer that raises where *line* of *code* begins, once."""
    is_over = False

    def trace_line(frame, event, _):
        nonlocal is_over
        if event == "line" and frame.f_lineno == line and not is_over:
            is_over = True
            raise KeyboardInterrupt
        return trace_line

    def trace(frame, _, __):
        return trace_line if frame.f_code is code else None

    return trace


@pytest.mark.parametrize("how", ENDS)
def test_a_close_that_was_interrupted_is_finished_by_the_next(tmp_path, how):
    """[DUR-70] And what was acknowledged is there."""
    interrupts = 0
    for number, (code, line) in enumerate(lines_of(ENDS[how])):
        path, before = tmp_path / f"t-{number}", sys.gettrace()
        log = segstore.open(path, durability="sync")
        log.append([(None, b"x")] * 3)
        sys.settrace(interrupting(code, line))
        try:
            getattr(log, how)()
        except KeyboardInterrupt:
            interrupts += 1
        finally:
            sys.settrace(before)
        log.close()
        assert log.closed
        with segstore.open(path) as again:
            assert [record.value for record in again] in (
                [b"x"] * 3,
                [b"x"] * 3 * (how != "delete"),
            )
    assert interrupts > 1


def test_a_close_in_the_midst_of_another_does_nothing(tmp_path, monkeypatch):
    """[DUR-70] As that of a signal's handler; the first one writes the clean marker."""
    log = segstore.open(tmp_path / "t-0", durability="sync")
    log.append([(None, b"x")])
    real = log._take_last_snapshot

    def take_last_snapshot():
        log.close()
        log.close_quietly()
        real()

    with monkeypatch.context() as patched:
        patched.setattr(log, "_take_last_snapshot", take_last_snapshot)
        log.close()
    with segstore.open(tmp_path / "t-0") as again:
        assert again.report.clean


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_finishes_no_close_of_its_parent(tmp_path, monkeypatch):
    """[DUR-68, DUR-70] It waited for threads that it does not have."""
    log = segstore.open(tmp_path / "t-0", durability="sync")
    log.append([(None, b"x")])

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(log._background), "close", interrupted)
        patched.setattr(Closing, "_close_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.close()

    def close_there():
        signal.alarm(20)  # which ends it where it waits
        with pytest.raises(ForkedHandleError):
            log.close()

    assert in_a_child(close_there) == 0
    log.close()
