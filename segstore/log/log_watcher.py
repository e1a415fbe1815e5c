"""The watcher of a log: it notes when retention or a checkpoint has something to do.

The owner of many logs looks at none that has nothing to do. An append to a segment that has records
makes its latest record later, never older, so it is not told: an entry that comes too early is put
off. Source: DESIGN D18.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class LogWatcher(Protocol):
    """Told under the append lock, by any thread: it only notes the log."""

    def note_segments(self) -> None:
        """Retention may delete something earlier than it said.

        After the first record of a segment, a roll, another setting, log start, or a truncation.
        """

    def note_checkpoint(self) -> None:
        """The recovery point or the log start is another one."""

    def truncating(self, offset: int | None) -> AbstractContextManager[None]:
        """Return what is around a truncation to *offset*, None = of all records [MGR-85, MGR-87].

        For one that reaches below the active segment. Not under the append lock: a pass of the
        cleaner ends before.
        """


class Unwatched:
    """Of a log that has no owner."""

    def note_segments(self) -> None:
        """Do nothing."""

    def note_checkpoint(self) -> None:
        """Do nothing."""

    def truncating(self, offset: int | None) -> AbstractContextManager[None]:
        """Do nothing."""
        del offset
        return nullcontext()


UNWATCHED = Unwatched()
