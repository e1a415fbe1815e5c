"""Control-C in a close of a log directory kept its lock, in a manager that called itself closed.

A second close did nothing: the logs that were left were never closed, and nobody could write in the
directory while the process lived.
"""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import ClosedError, LogLockedError
from segstore.log.shutdown import Shutdown
from segstore.log.unified_log import UnifiedLog
from segstore.manager.current_logs import CurrentLogs
from segstore.manager.log_manager import LogManager
from segstore.manager.owned_log_directory import OwnedLogDirectory
from segstore.manager.pending_closes import PendingCloses
from tests.crash.interrupts import Interrupt

MARKER = ".kafka_cleanshutdown"
STEPS = {
    step.__code__
    for step in (
        LogManager.close,
        LogManager._close_alone,
        LogManager._release,
        CurrentLogs.note_new_names,
        Shutdown.run,
        PendingCloses.__init__,
        PendingCloses.close,
        OwnedLogDirectory.mark_clean,
        OwnedLogDirectory.release,
    )
}


class InterruptOfTheManager(Interrupt):
    """One behind a call that the manager's own steps make."""

    def _enter(self, frame, event, argument):
        return super()._enter(frame, event, argument) if frame.f_code in STEPS else None


def manager_of(path):
    """Return a manager of two logs, one of which has another name by now."""
    manager = segstore.open_dir(path, durability="none")
    manager.create_topic("t", 2)
    for number in range(2):
        manager.append("t", [(None, b"x")], partition=number)
    manager.log("t", 0).rename_dir("t-9")
    return manager


def opens_clean(path):
    with segstore.open_dir(path) as manager:
        return {number: manager.log("t", number).report.clean for number in (1, 9)}


def test_a_close_that_was_interrupted_is_finished_by_the_next(tmp_path):
    """[DUR-24, DUR-70] Behind any call of the manager's own."""
    places = []
    while True:
        path = tmp_path / f"{len(places)}"
        manager = manager_of(path)
        logs = list(manager._logs.by_name.values())
        interrupt = InterruptOfTheManager(len(places) + 1)
        interrupt.run(manager.close)
        if interrupt.place is None:
            break
        places.append(interrupt.place)
        manager.close()
        assert manager.closed, interrupt.place
        assert all(log.closed for log in logs), interrupt.place
        assert opens_clean(path) == {1: True, 9: True}, interrupt.place
    assert len(places) > 10
    assert (path / MARKER).exists()


def test_what_an_interrupt_leaves_belongs_to_the_manager(tmp_path, monkeypatch):
    """[DUR-24, DUR-65] The log that was being closed is recovered; nothing else is to be."""
    manager, ended = manager_of(tmp_path), []
    real = UnifiedLog._close_cleanly

    def close_cleanly(log):
        ended.append(log)
        if len(ended) == 1:
            raise KeyboardInterrupt
        real(log)

    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "_close_cleanly", close_cleanly)
        with pytest.raises(KeyboardInterrupt):
            manager.close()
        assert not manager.closed
        with pytest.raises(ClosedError):
            manager.topics()
        with pytest.raises(LogLockedError):
            segstore.open_dir(tmp_path)
        manager.close()
    assert manager.closed
    assert len(ended) == 2
    assert not (tmp_path / MARKER).exists()
    interrupted = ended[0].topic_partition.partition
    assert opens_clean(tmp_path) == {1: interrupted != 1, 9: interrupted != 9}


def test_an_interrupt_does_not_hide_a_log_that_could_not_be_closed(tmp_path, monkeypatch):
    """[DUR-24] The second close raises what nobody was told of, and leaves no marker."""
    manager, ended = manager_of(tmp_path), []

    def close_cleanly(log):
        ended.append(log)
        raise ValueError("broken") if len(ended) == 1 else KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "_close_cleanly", close_cleanly)
        with pytest.raises(KeyboardInterrupt):
            manager.close()
        with pytest.raises(ValueError, match="broken"):
            manager.close()
        manager.close()
    assert manager.closed
    assert not (tmp_path / MARKER).exists()
    assert opens_clean(tmp_path) == {1: False, 9: False}


def test_a_close_in_the_midst_of_another_does_nothing(tmp_path, monkeypatch):
    """[DUR-70] As that of a signal's handler."""
    manager = manager_of(tmp_path)
    real = UnifiedLog._close_cleanly

    def close_cleanly(log):
        manager.close()
        assert not manager.closed
        real(log)

    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "_close_cleanly", close_cleanly)
        manager.close()
    assert manager.closed
    assert (tmp_path / MARKER).exists()
