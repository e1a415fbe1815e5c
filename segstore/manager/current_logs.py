"""The logs that a manager has opened, by name (Kafka's ``LogManager.currentLogs``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.owned_log_directory import OwnedLogDirectory


class CurrentLogs:
    """Guarded by the manager's mutex, where nothing else is said.

    Parameters
    ----------
    owned : OwnedLogDirectory or None
        Hears of the names of logs that were renamed or closed; None for a reader.

    Attributes
    ----------
    by_name : dict of str to UnifiedLog
        By the name of the directory.
    """

    def __init__(self, owned: OwnedLogDirectory | None) -> None:
        self._owned = owned
        self.by_name: dict[str, UnifiedLog] = {}
        self._closing: list[UnifiedLog] = []  # not over yet: closed, or of a directory that is gone
        self._may_have_new_names = False

    def note_rename(self) -> None:
        """Called by a log when it has another name, by any thread and without the mutex."""
        self._may_have_new_names = True

    def find(self, name: str) -> UnifiedLog | None:
        """Return the open log whose directory has that name now."""
        self.note_new_names()
        log = self.by_name.get(name)
        if log is not None and log.closed:
            self.forget(name)
            return None
        return log

    def add(self, name: str, log: UnifiedLog) -> None:
        """Know a log that was opened."""
        self.by_name[name] = log

    def forget(self, name: str) -> None:
        """Know a log by its name no more; where it is not over, its end is waited for."""
        log = self.by_name.pop(name)
        self._closing = [one for one in self._closing if not one.shutdown.is_over]
        if not log.shutdown.is_over:
            self._closing.append(log)

    def note_new_names(self) -> None:
        """Know the logs by the names that `UnifiedLog.rename_dir` has given them [REN-1]."""
        if not self._may_have_new_names:
            return
        self._may_have_new_names = False  # before the look: what comes meanwhile is seen next time
        logs = [*self.by_name.values()]
        if self._owned is not None:
            self._owned.note_new_names(log.topic_partition for log in logs)
        self.by_name = {_name_of(log): log for log in logs if not log.closed}
        ending = [*self._closing, *(log for log in logs if log.closed)]
        self._closing = [log for log in ending if not log.shutdown.is_over]

    def all_writable(self) -> list[UnifiedLog]:
        """Return all that are not over; also without the mutex."""
        return [*self._closing, *self.by_name.values()]

    def end_with_this_thread(self) -> bool:
        """Whether it is the thread of one of them, whose end waits for it."""
        return any(
            log.shutdown.waits_for_this_thread()
            for log in self.all_writable()
            if not log.shutdown.is_over
        )

    def require_none_waits_for_this_thread(self) -> None:
        """Raise RuntimeError in the midst of a call that the end of one of them waits for."""
        for log in self.all_writable():
            if not log.shutdown.is_over:
                log._closing.require_not_awaited()  # noqa: SLF001 - one ends with the other


def _name_of(log: UnifiedLog) -> str:
    return log.path.rpartition("/")[2]
