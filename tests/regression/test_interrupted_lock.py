"""Control-C while the lock of a log was given back locked this process out of the log, for good.

The lock counted as given back before it was, so that neither a second close nor a collector took it
out of the registry of this process.
"""

from __future__ import annotations

import gc

import pytest

import segstore
from segstore import _core
from segstore.errors import LogLockedError
from segstore.log.files import partition_lock as module
from segstore.log.files.partition_lock import PartitionLock
from tests.crash.interrupts import interrupts
from tests.kits.interrupted_at import InterruptedAt

STEPS = {
    "acquire": [PartitionLock.acquire.__func__, PartitionLock.__init__, PartitionLock._take],
    "release": [PartitionLock.release, module._release_from_last, module._Registry.remove],
}
"""Of the registry's ``add`` no instruction but those behind calls: it is a ``with`` of a lock."""


@pytest.fixture
def directories(tmp_path):
    """A log directory, a partition in it, and one for its state: a writer takes three locks."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    found = [tmp_path, tmp_path / "orders-0", tmp_path / "state"]
    for path in found[1:]:
        path.mkdir()
    (tmp_path / "orders-0" / ".lock").write_bytes(b"")
    opened = [_core.Directory(str(path)) for path in found]
    yield opened
    for directory in opened:
        directory.close()


@pytest.fixture(autouse=True)
def nothing_else_to_collect():
    """What other tests have left on the heap is not gone through after each instruction."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def acquire(directories) -> PartitionLock:
    parent, partition, home = directories
    return PartitionLock.acquire(partition, parent, home=home)


def count_until_it_ends(interrupt_at) -> int:
    """Interrupt before the first instruction, the second, and so on; returns how many there are."""
    for nth in range(1, 2000):
        if not interrupt_at(nth):
            return nth - 1
    raise AssertionError("it never ended")


@pytest.mark.parametrize("step", STEPS["acquire"], ids=lambda step: step.__qualname__)
def test_a_lock_that_was_not_taken_to_the_end_is_free(directories, step):
    """[DUR-65, DUR-67] Whatever instruction an interrupt comes before."""

    def interrupt_at(nth: int) -> bool:
        with InterruptedAt(step, nth) as interrupt:
            try:
                acquire(directories)
            except KeyboardInterrupt:
                assert interrupt.came
        gc.collect()
        acquire(directories).release()
        return interrupt.came

    assert count_until_it_ends(interrupt_at) > 5


@pytest.mark.parametrize("is_kept", [True, False], ids=["released again", "dropped"])
@pytest.mark.parametrize("step", STEPS["release"], ids=lambda step: step.__qualname__)
def test_a_lock_that_was_not_given_back_to_the_end(directories, step, is_kept):
    """[DUR-67, DUR-70] The next `release` does the rest, or its end, whatever was interrupted."""

    def interrupt_at(nth: int) -> bool:
        lock = acquire(directories)
        with InterruptedAt(step, nth) as interrupt:
            try:
                lock.release()
            except KeyboardInterrupt:
                assert interrupt.came
        if is_kept:
            lock.release()
            assert not lock.held
        else:
            del lock
            gc.collect()
        acquire(directories).release()
        return interrupt.came

    assert count_until_it_ends(interrupt_at) > 5


class Interrupting:
    """A lock whose release ends in an interrupt, twice, as CPython does it: it is released."""

    def __init__(self, lock) -> None:
        self._lock = lock
        self._left = 2

    def release(self) -> None:
        self._lock.release()
        if self._left:
            self._left -= 1
            raise KeyboardInterrupt


@pytest.mark.parametrize("nth", [0, 1, 2])
def test_an_interrupt_behind_any_lock_leaves_none(directories, nth):
    """[DUR-65, DUR-67] Though nobody asks again, and the handle is kept."""
    lock = acquire(directories)
    lock._locks[nth] = Interrupting(lock._locks[nth])

    with pytest.raises(KeyboardInterrupt):
        lock.release()

    parent = directories[0]
    parent.lock(".lock", exclusive=True).release()
    again = acquire(directories)
    with pytest.raises(KeyboardInterrupt):
        lock.release()
    lock.release()
    assert not lock.held
    with pytest.raises(LogLockedError, match="in this process"):  # that is not the first one's
        acquire(directories)
    again.release()


@pytest.mark.filterwarnings("ignore:.*was dropped without close:ResourceWarning")
def test_a_log_opens_again_behind_any_interrupted_open_or_close(tmp_path):
    """[DUR-67, DUR-70] Behind whatever call it comes, once the handle is closed or dropped."""
    path, opened = tmp_path / "orders-0", []

    def open_it() -> None:
        opened.append(segstore.open(path))

    def close_it():
        open_it()
        return opened[0].close

    def open_again() -> None:
        while opened:
            opened.pop().close()
        try:
            segstore.open(path).close()
        except LogLockedError:
            gc.collect()  # as long as the interrupted call's frames are there, so is the lock
            segstore.open(path).close()

    for begin in (lambda: open_it, close_it):
        places = []
        for place in interrupts(begin):
            places.append(place)
            open_again()
        open_again()
        assert any("PartitionLock" in place for place in places)
