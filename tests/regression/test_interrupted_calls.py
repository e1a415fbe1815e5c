"""Ctrl-C at any moment: what a call had begun was left half done, and later records were lost.

An append whose bytes were written, but whose log end was not published, left a batch behind the log
end; the next append used the same offsets again, was acknowledged and synced, and was cut by the
next recovery [CON-4, DUR-2, DUR-15].
"""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

import pytest

import segstore
from segstore import _core
from segstore.errors import IllegalStateError, InvalidOffsetError, SegstoreError
from segstore.log.local.local_log import LocalLog
from segstore.records.compression import codec_table
from tests.kits.log_kit import offsets

# The exception may strike inside a finalizer or a collector's hook, where Python only tells of it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

BUDGET_SECONDS = 1.5


class InterruptedCallError(BaseException):
    """What the signal handler raises."""


@pytest.fixture
def interrupt():
    """Arm a timer that raises in the main thread after some seconds; 0 takes it back."""
    is_armed = False

    def raise_it(*_: object) -> None:
        if is_armed:  # a signal that was on its way may arrive after it was taken back
            raise InterruptedCallError

    def arm(seconds: float) -> None:
        nonlocal is_armed
        is_armed = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, raise_it)
    yield arm
    arm(0)
    signal.signal(signal.SIGALRM, before)


def interrupt_often(interrupt, act, longest_seconds: float) -> int:
    """Call *act* again and again, with an interrupt at a random moment; returns how many came."""
    interrupts = 0
    deadline = time.monotonic() + BUDGET_SECONDS
    while time.monotonic() < deadline:
        try:
            interrupt(random.uniform(1e-5, longest_seconds))
            act()
            interrupt(0)
        except InterruptedCallError:
            interrupts += 1
    interrupt(0)
    return interrupts


def check_contents(log, acked: dict[int, bytes]) -> None:
    """Every acknowledged record is there, at its offset, once, and all offsets ascend."""
    found = {record.offset: record.value for record in log}
    assert list(found) == sorted(found)
    assert {offset: found.get(offset) for offset in acked} == acked
    assert log.verify().ok


@pytest.mark.parametrize("settings", [{}, {"internal_segment_bytes": 3000}], ids=["append", "roll"])
def test_appends(new_log, interrupt, settings):
    """[CON-4] The log end is where the bytes end, and the next append goes on there."""
    log = new_log(**settings)
    log.append([(None, b"first")])
    acked = {}
    number = 0

    def act() -> None:
        nonlocal number
        number += 1
        value = b"%d " % number + b"x" * 500
        offset = log.append([(None, value)]).base_offset
        acked[offset] = value

    assert interrupt_often(interrupt, act, 3e-4) > 0
    value = b"after the interrupts"
    acked[log.append([(None, value)]).base_offset] = value
    assert log.flush() == log.log_end_offset
    check_contents(log, acked)
    log.close_quietly()
    again = new_log(**settings)
    assert again.report.truncated_bytes == 0
    check_contents(again, acked)


def test_rolls_and_syncs(new_log, interrupt):
    """[LOC-11] A roll that was interrupted is undone; it failed for ever after."""
    log = new_log(file_delete_delay_ms=0)
    log.append([(None, b"first")])
    acked = {}

    def act() -> None:
        acked[log.append([(None, b"x")]).base_offset] = b"x"
        log.roll()
        log.roll()
        if len(acked) % 10 == 0:
            log.flush()

    assert interrupt_often(interrupt, act, 2e-3) > 0
    log.roll()
    acked[log.append([(None, b"last")]).base_offset] = b"last"
    check_contents(log, acked)
    log.close()
    again = new_log()
    assert again.report.clean
    check_contents(again, acked)


def test_the_first_task_of_the_background_thread(new_log, monkeypatch):
    """[CON-4] The handler's exception comes out, not what it makes of CPython's `Condition.wait`.

    Struck between two lines there, a lock is let go twice: "release unlocked lock".
    """
    wait = threading.Event.wait

    def wait_interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        wait(event, timeout)
        with event._cond:
            event._cond.release()
            raise InterruptedCallError

    log = new_log(durability="none")
    log.append([(None, b"first")])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Event, "wait", wait_interrupted)
        with pytest.raises(InterruptedCallError):
            log.roll()
    log.append([(None, b"second")])
    log.roll()
    assert log._background.wait_until_idle()
    check_contents(log, {0: b"first", 1: b"second"})


def test_truncations(new_log, interrupt):
    """[DUR-38] One that was interrupted is finished, or the log takes no changes any more."""
    deadline = time.monotonic() + BUDGET_SECONDS
    while time.monotonic() < deadline:
        log = new_log(durability="none")
        log.append([(None, b"x")] * 3)
        log.roll()
        end = log.append([(None, b"y")] * 3).last_offset + 1
        try:
            interrupt(random.uniform(1e-5, 4e-3))
            log.truncate_to(end - 4)
            interrupt(0)
        except InterruptedCallError:
            pass
        try:
            acked = {log.append([(None, b"after")]).base_offset: b"after"}
            log.close()
        except SegstoreError:
            acked = {}
            log.close_quietly()
        again = new_log()
        found = {record.offset: record.value for record in again}
        assert {offset: found.get(offset) for offset in acked} == acked
        again.close()


def test_no_clean_mark_on_a_log_end_that_is_not_the_files(new_log):
    """[DUR-24] And no append either."""
    log = new_log()
    log.append([(None, b"x")])
    before = log._local_log.log_end
    log.append([(None, b"y")])
    log._local_log.published.log_end = before
    log._lane_switch.lane.disarm()  # which knows better, and would go on from where the file ends

    with pytest.raises(IllegalStateError, match="interrupted"):
        log.append([(None, b"z")])
    with pytest.raises(IllegalStateError, match="interrupted"):
        log.close()
    assert offsets(new_log()) == [0, 1]


def test_the_segment_refuses_offsets_that_it_has(new_log):
    """[SEG-5] By its last batch, not by the last entry of its index."""
    log = new_log()
    for _ in range(3):
        log.append([(None, b"x")])
    log.close()
    for opens in range(2):
        log = new_log()
        segment = log._local_log.segments.active_segment
        batches = _core.encode_records([(None, b"y")], _core.BatchOptions(), codec_table(), 0, 1000)
        for _ in range(2):
            with pytest.raises(InvalidOffsetError, match="come after 2"):
                segment.append(batches, batches.headers)
        log.close()
        assert opens < 2


def test_a_flush_that_was_interrupted_forgets_no_names(new_log, monkeypatch):
    """[DUR-13] The directory is synced by the next one."""
    log = new_log()
    log.append([(None, b"x")])
    log.flush()
    monkeypatch.setattr(log._flusher, "segment_was_sealed", lambda *_: None)
    log.roll()
    log.append([(None, b"y")])
    version = log._local_log.names_version
    real = log._flusher._sync_segment

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(log._flusher, "_sync_segment", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.flush()
    monkeypatch.setattr(log._flusher, "_sync_segment", real)
    assert log._flusher._directory_sync.synced_names_version < version

    assert log.flush() == 2
    assert log._flusher._directory_sync.synced_names_version == version


def test_two_interrupts_in_a_roll(new_log, monkeypatch):
    """The second comes while the first is being dealt with: the next change does that."""
    log = new_log()
    log.append([(None, b"x")])

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalLog, "_publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.roll()
    assert len(list(Path(log.path).glob("*.log"))) == 2

    assert log.append([(None, b"y")]).base_offset == 1
    assert len(list(Path(log.path).glob("*.log"))) == 1
    assert log.roll().base_offset == 2
    log.close()
    assert offsets(new_log()) == [0, 1]


@pytest.fixture
def ctrl_c():
    """Let SIGINT raise: a shell has it ignored by what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_many_threads(tmp_path):
    """[DUR-70] The main thread is interrupted while others append and sync: nobody hangs."""
    log = segstore.open(tmp_path / "topic-0", durability="sync")
    stop = threading.Event()
    acked: dict[int, bytes] = {}

    def write(name: bytes) -> None:
        while not stop.is_set():
            acked[log.append([(None, name)]).base_offset] = name

    threads = [threading.Thread(target=write, args=(b"%d" % n,), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    interrupts = 0
    deadline = time.monotonic() + BUDGET_SECONDS
    while time.monotonic() < deadline:
        timer = threading.Timer(random.uniform(1e-4, 5e-3), signal.raise_signal, (signal.SIGINT,))
        try:
            timer.start()
            acked[log.append([(None, b"main")]).base_offset] = b"main"
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            interrupts += 1
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert interrupts > 0
    check_contents(log, acked)
    log.close()
