"""What an append has stored that Ctrl-C ended: it may come when the records are in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import SegstoreError

if TYPE_CHECKING:
    from segstore.log.unified_log import Log


def appended_since(error: BaseException, log: Log, first: int) -> tuple[int, int] | None:
    """Return the offsets ``[first, end)`` that an append may have stored which *error* ended.

    What other threads have appended since is in them too. An error of ours says itself what its
    append has stored: then, and where there is nothing, None.
    """
    if isinstance(error, SegstoreError):
        return None
    end = log.log_end_offset
    return (first, end) if end > first else None


def note_appended(error: BaseException, log: Log, first: int) -> None:
    """Say in *error* which records of the append that it ended are in the log.

    Parameters
    ----------
    first : int
        The log end before the append.
    """
    stored = appended_since(error, log, first)
    if stored is not None:
        start, end = stored
        error.add_note(
            f"up to {end - start} records of this append were appended to {log.topic_partition}"
            f" before the error, and stay there: offsets {start} to {end - 1}"
        )
