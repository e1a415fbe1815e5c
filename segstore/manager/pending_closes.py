"""Logs that a closing manager has yet to close: each is closed, whatever others do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segstore.log.unified_log import UnifiedLog


class PendingCloses:
    """Those that are left; an interrupt leaves them to the next call [DUR-70].

    Parameters
    ----------
    logs : iterable of UnifiedLog
        Also any that are closed: the close of one may have been interrupted.

    Attributes
    ----------
    errors : list of Exception
        Of those that could not be closed.
    """

    def __init__(self, logs: Iterable[UnifiedLog]) -> None:
        self._left = dict.fromkeys(logs)
        self.errors: list[Exception] = []

    def close(self) -> bool:
        """Close all that are left; False where another thread ends one, and waits for this call.

        Raises
        ------
        Exception
            What kept a log from being let go of, behind the others: it is left to the next call.
        """
        kept_from: Exception | None = None
        for log in [*self._left]:
            try:
                log.close()
            except Exception as error:  # noqa: BLE001 - the other logs are closed all the same
                if log.shutdown.is_over:
                    self.errors.append(error)
                else:
                    kept_from = kept_from or error
            if log.shutdown.is_over:
                del self._left[log]
        if kept_from is not None:
            raise kept_from
        return not self._left

    def raise_errors(self) -> None:
        """Raise the first error, with what the others say."""
        raise_of_several(self.errors, "another log could not be closed")


def raise_of_several(errors: Sequence[Exception], of_others: str) -> None:
    """Raise the first error, with a note for each other one; nothing without one."""
    for other in errors[1:]:
        errors[0].add_note(f"{of_others}: {other}")
    if errors:
        raise errors[0]
