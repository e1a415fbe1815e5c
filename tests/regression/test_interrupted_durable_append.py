"""Control-C in an append that waited for its sync left records in the file that the log denied.

The next append came behind them: a record that was sent again was there twice, and a truncation to
the log end, which said that there was nothing, brought them back.
"""

from __future__ import annotations

import shutil
import signal
import threading

import pytest

import segstore
from tests.memory_folder import memory_folder

ROUNDS = 150
PATIENCE_SECONDS = 20


class InterruptedAppend(Exception):  # noqa: N818 - no error
    """Raised by the handler, as KeyboardInterrupt is."""


@pytest.fixture
def memory_path():
    path = memory_folder("interrupted-")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def alarms():
    """Raise in the main thread after a while: ``alarms(seconds)``; 0 = not any more."""

    def interrupt(*_):
        raise InterruptedAppend

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "beside other threads"])
def test_what_an_interrupted_append_wrote_is_in_the_log(memory_path, alarms, beside):
    """[CON-4, DUR-5] The log end says whether it was written, and the next append begins there."""
    log = segstore.open(memory_path / "t-0", durability="sync")
    log.append([(b"k", b"first")])
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            log.append([(b"other", b"v")])

    threads = [threading.Thread(target=write) for _ in range(beside)]
    for thread in threads:
        thread.start()
    interrupts = 0
    try:
        for number in range(ROUNDS):
            try:
                alarms(20e-6 + (number % 40) * 4e-6)
                for _ in range(50):
                    log.append([(b"k", b"v%d" % number)])
                alarms(0)
            except InterruptedAppend:
                alarms(0)
                interrupts += 1
                assert log._lane is not None
                if not beside:
                    seen = log.log_end_offset
                    assert not log.truncate_to(seen)
                    assert log.append([(b"k", b"again")]).base_offset == seen
    finally:
        alarms(0)
        is_over.set()
        for thread in threads:
            thread.join()
    assert interrupts > 0
    assert log.flush() == log.log_end_offset
    assert [record.offset for record in log] == list(range(log.log_end_offset))
    assert log.verify().ok
    log.close()


def test_a_handler_that_uses_the_log_in_its_own_round_is_told(memory_path, monkeypatch):
    """[DUR-70] It would wait for itself. Nothing was changed: the log goes on, and closes."""
    log = segstore.open(memory_path / "t-0", durability="sync")
    log.append([(None, b"x")])
    real, told = log._flusher._sync_segment, []
    uses = [log.flush, lambda: log.append([(None, b"inside")]), log.roll, log.close, log.delete]

    def sync_segment(segment, *, indexes):
        for use in uses:
            try:
                use()
            except RuntimeError as error:
                told.append(error)
        real(segment, indexes=indexes)

    with monkeypatch.context() as patched:
        patched.setattr(log._flusher, "_sync_segment", sync_segment)
        thread = threading.Thread(target=log.append, args=([(None, b"y")],), daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)  # one that waits for itself stays
        assert not thread.is_alive()
    assert len(told) == len(uses)
    assert log.append([(None, b"z")]).base_offset == 2
    log.close()
    with segstore.open(memory_path / "t-0") as again:
        assert again.report.clean
        assert [record.value for record in again] == [b"x", b"y", b"z"]


def test_a_handler_that_uses_the_log_while_its_checkpoint_is_written_is_told(memory_path):
    """[DUR-70]"""
    with segstore.open(memory_path / "t-0", durability="none") as log:
        log.append([(None, b"x")])
        with log._flusher._checkpoint_lock, pytest.raises(RuntimeError):
            log.flush()
        assert log.flush() == log.recovery_point == 1
