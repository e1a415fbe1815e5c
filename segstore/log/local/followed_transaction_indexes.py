"""What a reader knows of the transaction indexes of a log that another handle may write [DUR-71].

The writer takes a note away before it changes the index, and makes it anew when the segment is
sealed. So a note that was read before says nothing about an index that was read after it: before an
index is condemned the notes are read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import CorruptCheckpointError, CorruptIndexError, UnsupportedFormatError
from segstore.log.directory.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.directory.log_state import LogState
from segstore.log.local.transaction_index_notes import TransactionIndexNotes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore._core import CodecTable
    from segstore.log.directory.log_places import LogPlaces
    from segstore.log.directory.log_state import TransactionIndexNote
    from segstore.log.local.segments import Segments

_ATTEMPTS: Final = 8
"""A writer does not change the notes so often while one index is read."""


class FollowedTransactionIndexNotes(TransactionIndexNotes):
    """As `TransactionIndexNotes`, of a handle that only reads.

    Parameters
    ----------
    places : LogPlaces
        Of the partition.
    state : LogState or None
        What ``.segstore`` says; None when a broker may have written since [DUR-64].
    """

    ignores_entries_from_end = True

    def __init__(self, places: LogPlaces, state: LogState | None) -> None:
        noted = {} if state is None else state.transaction_indexes
        super().__init__(places.directory, noted, None)
        self._places = places
        self._state = LogState.read(places.directory) if state is None else state

    def look_again(self, *, is_cut: bool) -> None:
        """The log was looked at again: nothing that may have changed counts as damaged.

        What was right stays so unless the log *is_cut*, or there is another note: entries that a
        writer adds to the active segment are believed as it believes them, until it notes them.
        """
        self._read_notes()
        for base in [one for one in list(self._damaged) if one not in self._noted]:
            self._damaged.pop(base, None)
        if is_cut:
            self._right.intersection_update(self._noted)

    def _compare(
        self, base_offset: int, name: str, segments: Segments, end: int, codecs: CodecTable
    ) -> None:
        for _ in range(_ATTEMPTS):
            try:
                super()._compare(base_offset, name, segments, end, codecs)
            except (CorruptIndexError, UnsupportedFormatError):
                if not self._read_notes():
                    raise
            else:
                return
        super()._compare(base_offset, name, segments, end, codecs)

    def _read_notes(self) -> bool:
        """Read ``.segstore``; say whether it is another one, and forget what it makes untrue."""
        state = LogState.read(self._places.directory)
        if state == self._state:
            return False
        noted = {} if state is None else dict(self._notes_of(state))
        known = self._noted
        self._state, self._noted = state, noted
        for base in {*known, *noted}:
            if known.get(base) != noted.get(base):
                self._right.discard(base)
                self._damaged.pop(base, None)
        return True

    def _notes_of(self, state: LogState) -> Mapping[int, TransactionIndexNote]:
        """Return what a file says that was written since the open, nothing when a broker wrote."""
        if self._places.read().parent_is_clean:
            return {}
        try:
            epochs = LeaderEpochFileCache.read(self._places.directory, writable=False)
        except CorruptCheckpointError:
            return {}
        latest = None if epochs is None else epochs.latest_entry
        return state.transaction_indexes if state.fits(latest) else {}
