"""[DUR-70] Control-C ends a wait also where a library had the handler installed with SA_RESTART.

The import of polars does that: a wait of the system then goes on behind the
signal, and nobody looked.
"""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from segstore._core import AppendLock, SyncRounds
from segstore.log.flusher import Flusher
from tests.kits.log_kit import PATIENCE_SECONDS, lead_rounds_by_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore.log.unified_log import UnifiedLog


@pytest.fixture
def restarting_alarm() -> Iterator[None]:
    """SIGALRM raises, and the system goes on with what it interrupts."""

    def raise_it(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, raise_it)
    signal.siginterrupt(signal.SIGALRM, False)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupt_soon() -> None:
    """Long enough that the wait has begun, and again in case that it had not."""
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.5)


@pytest.mark.usefixtures("restarting_alarm")
@pytest.mark.parametrize("wait", ["acquire", "wait", "join"])
def test_a_wait_for_another_thread(wait: str):
    """[CON-1, DUR-15]"""
    lock = AppendLock()
    rounds = SyncRounds(lock)
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)

    def hold_the_lock() -> None:
        with lock:
            hold()

    waits = {"acquire": lock.__enter__, "wait": rounds.wait, "join": lambda: rounds.join(hold)}
    with ThreadPoolExecutor(1) as elsewhere:
        held = elsewhere.submit(hold_the_lock if wait == "acquire" else lambda: rounds.join(hold))
        assert begun.wait(PATIENCE_SECONDS)
        interrupt_soon()
        with pytest.raises(InterruptedError):
            waits[wait]()
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert not held.done()
        may_end.set()
        held.result()


@pytest.mark.usefixtures("restarting_alarm")
def test_an_append_that_waits_for_a_sync_of_another_thread(
    new_log: Callable[..., UnifiedLog],
    monkeypatch: pytest.MonkeyPatch,
):
    """[DUR-15] The record was written, and is not acknowledged: it is there, and nothing hangs."""
    begun, may_end, real = threading.Event(), threading.Event(), Flusher._sync_segment

    def sync(self: Flusher, segment: object, *, indexes: bool) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)
        real(self, segment, indexes=indexes)

    monkeypatch.setattr(Flusher, "_sync_segment", sync)
    lead_rounds_by_layers(monkeypatch)
    may_end.set()
    log = new_log(durability="sync")
    log.append([(None, b"first")])
    begun.clear()
    may_end.clear()
    with ThreadPoolExecutor(1) as elsewhere:
        held = elsewhere.submit(log.append, [(None, b"held")])
        assert begun.wait(PATIENCE_SECONDS)
        interrupt_soon()
        with pytest.raises(InterruptedError):
            log.append([(None, b"interrupted")])
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert not held.done()
        may_end.set()
        held.result()
    log.append([(None, b"last")])
    assert [one.value for one in log] == [b"first", b"held", b"interrupted", b"last"]
