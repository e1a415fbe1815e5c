"""Control-C in an append that waited for its sync left records in the file that the log denied.

The next append came behind them: a record that was sent again was there twice, and a truncation to
the log end, which said that there was nothing, brought them back.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time

import pytest

import segstore
from segstore.errors import SegstoreError
from tests.memory_folder import memory_folder

ROUNDS = 150


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
    """[DUR-70] It would wait for itself; the log goes on."""
    log = segstore.open(memory_path / "t-0", durability="sync")
    log.append([(None, b"x")])
    real, told = log._flusher.sync_names, []

    def sync_names(version):
        for use in (log.flush, lambda: log.append([(None, b"inside")])):
            try:
                use()
            except (RuntimeError, SegstoreError) as error:
                told.append(type(error))
        real(version)

    monkeypatch.setattr(log._flusher, "sync_names", sync_names)
    begin = time.monotonic()
    assert log.append([(None, b"y")]).durable_offset >= 2
    assert time.monotonic() - begin < 10
    monkeypatch.undo()
    assert RuntimeError in told
    log.append([(None, b"z")])
    assert [record.value for record in log][-1] == b"z"
    log.close()
