"""The end of one handle: takes no calls any more, does a last step, closes everything [DUR-70].

`Shutdown` decides which thread does it. What a clean close writes is `UnifiedLog._close_cleanly`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.shutdown import Shutdown

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import AppendLock, ChangeLock
    from segstore.log.access import LogAccess
    from segstore.log.flusher import LogFlusher
    from segstore.log.lane_switch import LaneSwitch
    from segstore.log.log_parts import LogParts


class Closing:
    """Ends a handle once.

    Parameters
    ----------
    flusher, lane_switch : LogFlusher, LaneSwitch or None
        Of a handle that writes.

    Attributes
    ----------
    shutdown : Shutdown
        Its end, by `close`, `close_quietly` or `delete`: also who waits for it.
    """

    __slots__ = (
        "_access",
        "_append_lock",
        "_background",
        "_flusher",
        "_lane_switch",
        "_local_log",
        "_open_handles",
        "shutdown",
    )

    def __init__(
        self,
        parts: LogParts,
        access: LogAccess,
        flusher: LogFlusher | None = None,
        lane_switch: LaneSwitch | None = None,
    ) -> None:
        self.shutdown = Shutdown(parts.background.runs_this_thread)
        self._access = access
        self._append_lock = parts.append_lock
        self._background = parts.background
        self._local_log = parts.local_log
        self._open_handles = parts.open_handles
        self._flusher = flusher
        self._lane_switch = lane_switch

    def end(self, last_step: Callable[[], None] | None) -> None:
        """Take no calls any more, do *last_step*, and close everything.

        Once: a second call does what is left of one that was interrupted. Beside one that is under
        way it waits. Called in the middle of that one, by the same thread, it does nothing.
        """
        shutdown = self.shutdown
        if shutdown.is_over:
            return
        self._access.require_same_process()  # no thread of the parent's ends here [DUR-68]
        if shutdown.runs_in_this_thread():
            return
        self.require_not_awaited()
        shutdown.run(lambda: self._end_alone(self._append_lock, last_step))

    def end_by(self, changing: ChangeLock, remove: Callable[[], None]) -> None:
        """As `end`, for a log that is deleted: it must take changes.

        Raises
        ------
        RuntimeError
            The log is being closed, by a thread that waits for this call.
        """
        self._access.require_writable()
        self.require_not_awaited()
        if not self.shutdown.run(lambda: self._end_alone(changing, remove)):
            raise RuntimeError("the log is being closed, and that close waits for this call")

    def _end_alone(
        self, lock: AppendLock | ChangeLock, last_step: Callable[[], None] | None
    ) -> None:
        try:
            with lock:  # a thread that is inside an append leaves it first [DUR-70]
                is_first = not self._access.is_closed
                if is_first and self._lane_switch is not None:
                    self._lane_switch.reconcile()
                self._access.close()
            if is_first:
                self._background.close()
                if last_step is not None:
                    last_step()
        finally:
            if self._access.is_closed and not self.shutdown.is_over:
                self._close_all()

    def require_not_awaited(self) -> None:
        """Raise RuntimeError in the middle of a call that an end of the log waits for [DUR-70].

        A handler or a finalizer that waited there for that call would wait for itself.
        """
        self._append_lock.require_another_owner()
        if self._flusher is not None:
            self._flusher.rounds.require_another_leader()

    def _close_all(self) -> None:
        self._background.close()  # once more, when that was interrupted
        try:
            if self._flusher is not None:
                self._flusher.end()
        finally:
            self._local_log.close_quietly()
            self._open_handles.close()
        self.shutdown.finish()
