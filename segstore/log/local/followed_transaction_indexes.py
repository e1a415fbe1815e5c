"""What a reader knows of the transaction indexes of a log that another handle may write [DUR-71].

The writer takes a note away before it changes the index, that of the active segment with the clean
marker, and makes it anew when the segment is sealed. So a note that was read before says nothing
about an index that was read after it: before an index is condemned the notes are read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import CorruptCheckpointError, CorruptIndexError, UnsupportedFormatError
from segstore.log.directory.checkpoints import LogState
from segstore.log.directory.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.local.transaction_index_notes import (
    TransactionIndexNotes,
    noted_transaction_indexes,
)

if TYPE_CHECKING:
    from segstore._core import CodecTable
    from segstore.log.directory.checkpoints import TransactionIndexNote
    from segstore.log.directory.clean_shutdown_marker import CleanShutdownMarker
    from segstore.log.directory.log_places import LogPlaces
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
    marker : CleanShutdownMarker or None
        That of the partition, where it fits the log.
    """

    ignores_entries_from_end = True

    def __init__(
        self, places: LogPlaces, state: LogState | None, marker: CleanShutdownMarker | None
    ) -> None:
        super().__init__(places.directory, noted_transaction_indexes(state, marker), None)
        self._places = places
        self._marker = marker
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
        """Read the notes; say whether they are others, and forget what they make untrue.

        A marker counts as long as it is the one that was compared with the log.
        """
        marker = self._marker
        if marker is not None and self._places.read_own_marker() != marker:
            marker = None
        state = LogState.read(self._places.directory)
        if state == self._state and marker == self._marker:
            return False
        noted = {} if state is None else self._notes_of(state, marker)
        known = self._noted
        self._state, self._marker, self._noted = state, marker, noted
        for base in {*known, *noted}:
            if known.get(base) != noted.get(base):
                self._right.discard(base)
                self._damaged.pop(base, None)
        return True

    def _notes_of(
        self, state: LogState, marker: CleanShutdownMarker | None
    ) -> dict[int, TransactionIndexNote]:
        """Return what a file says that was written since the open, nothing when a broker wrote."""
        if self._places.read().parent_is_clean:
            return {}
        try:
            epochs = LeaderEpochFileCache.read(self._places.directory, writable=False)
        except CorruptCheckpointError:
            return {}
        latest = None if epochs is None else epochs.latest_entry
        return noted_transaction_indexes(state, marker) if state.fits(latest) else {}
