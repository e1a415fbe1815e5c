"""Whether the transaction indexes of a log are what they were when they were right [DUR-7, DUR-8].

A lost one, or a changed bit, would make aborted records count as committed. ``.segstore`` has size
and checksum of each that this library wrote or has compared with the log, of sealed segments; that
of the active one is in the clean marker, which is gone before the first change. An index without
such a note is compared with the markers that it names when it is first used.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from segstore._core import AppendLock, crc32c
from segstore.errors import (
    CorruptIndexError,
    DiskFullError,
    LogNotFoundError,
    UnsupportedFormatError,
)
from segstore.log.directory.checkpoints import (
    DAMAGED_TRANSACTION_INDEX as DAMAGED,
)
from segstore.log.directory.checkpoints import (
    TransactionIndexNote,
)
from segstore.log.directory.partition_directory import file_name
from segstore.log.local.transaction_index import TransactionIndex
from segstore.log.local.transaction_index_check import check_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segstore._core import CodecTable, Directory
    from segstore.log.directory.checkpoints import LogState
    from segstore.log.directory.clean_shutdown_marker import CleanShutdownMarker
    from segstore.log.directory.log_state_file import LogStateFile
    from segstore.log.local.segments import Segments
    from segstore.log.local.transaction_index import AbortedTransaction

_PIECE_BYTES: Final = 1024 * 1024


class TransactionIndexNotes:
    """What is known of the transaction indexes of one log; of Kafka's profile nothing [DUR-62].

    Parameters
    ----------
    directory : Directory
        The partition's.
    noted : mapping of int to TransactionIndexNote
        By base offset, what ``.segstore`` and the clean marker said at the open.
    state_file : LogStateFile or None
        Where to write it down; None for a reader.

    Attributes
    ----------
    ignores_entries_from_end : bool
        Entries at or above the end are not looked at: another handle adds them, behind the end that
        this one has seen.
    lock : AppendLock
        Held while they are written down.
    """

    ignores_entries_from_end = False

    def __init__(
        self,
        directory: Directory,
        noted: Mapping[int, TransactionIndexNote],
        state_file: LogStateFile | None,
    ) -> None:
        self._directory = directory
        self._state_file = state_file
        self._noted = dict(noted)
        self._right: set[int] = set()
        self._changed: set[int] = set()
        self._held = set(noted) - set(self._noted_in_file)
        self._damaged: dict[int, str] = {}
        self._changes, self._saved_changes = 1, 0  # counted behind each one, under the lock
        self.lock = AppendLock()

    @property
    def _noted_in_file(self) -> Mapping[int, TransactionIndexNote]:
        return {} if self._state_file is None else self._state_file.state.transaction_indexes

    def check(self, base_offset: int, segments: Segments, end: int, codecs: CodecTable) -> None:
        """Compare the index of a segment with its note, or with the log, at its first use.

        Parameters
        ----------
        base_offset : int
            Of the segment.
        segments, end : Segments, int
            The log and its end.

        Raises
        ------
        CorruptIndexError, UnsupportedFormatError
            It cannot be believed: the batches are to be asked.
        """
        if base_offset in self._right:
            return
        name = file_name(base_offset, "txnindex")
        problem = self._damaged.get(base_offset)
        if problem is None:
            try:
                self._compare(base_offset, name, segments, end, codecs)
            except (CorruptIndexError, UnsupportedFormatError) as error:
                problem = self._damaged[base_offset] = error.message
            else:
                self._right.add(base_offset)
                return
        raise CorruptIndexError(
            f"the list of aborted transactions cannot be believed: {problem}",
            file=f"{self._directory.path}/{name}",
            found="other entries",
            expected="those that were written, by their checksum or by the batches",
        )

    def condemn(self, base_offset: int, problem: str) -> None:
        """The batches contradict the index of a sealed segment: the next open makes it anew."""
        if base_offset not in self._damaged:
            self._right.discard(base_offset)
            self._damaged[base_offset] = problem
            self._changes += 1

    def _compare(
        self, base_offset: int, name: str, segments: Segments, end: int, codecs: CodecTable
    ) -> None:
        found, noted = look_at(self._directory, name), self._noted.get(base_offset)
        problem = None if noted is None else differs(noted, found)
        if problem is not None:
            raise CorruptIndexError(
                problem, found="other bytes", expected="those that `.segstore` has the CRC of"
            )
        if found is not None and (noted is None or noted.crc is None):
            entries: Iterable[AbortedTransaction] = TransactionIndex(self._directory, base_offset)
            if self.ignores_entries_from_end and segments.higher_segment(base_offset) is None:
                entries = takewhile(lambda one: one.last_offset < end, entries)
            check_entries(entries, base_offset, segments, end, codecs)
            self._changed.add(base_offset)

    def begin_change(
        self, base_offset: int, segments: Segments, end: int, codecs: CodecTable
    ) -> None:
        """Before entries are added or taken away: what is noted will not be true any more.

        The file says so first: a reader would take the index for a damaged one [DUR-71]. Of the
        active segment it says nothing, so that nothing is written before an entry is added, but
        that of a segment which a truncation makes active.
        """
        if base_offset in self._changed and base_offset not in self._noted:
            return
        with suppress(CorruptIndexError):  # known from here on, and for the next open
            self.check(base_offset, segments, end, codecs)
        noted = self._noted.pop(base_offset, None)
        if base_offset in self._damaged:
            self._noted[base_offset] = DAMAGED
        if noted != self._noted.get(base_offset):
            self._changes += 1
        with self.lock:  # one that runs may still have the old note, and write it
            noted_in_file = self._noted_in_file.get(base_offset)
        if noted_in_file not in {None, self._noted.get(base_offset)}:
            try:
                self.save(segments)
            except BaseException:  # nothing changes, and the next change begins here again
                if noted is None:
                    self._noted.pop(base_offset, None)
                else:
                    self._noted[base_offset] = noted
                raise
        self._held.discard(base_offset)
        self._changed.add(base_offset)

    def begin_truncation(self, base_offset: int, segments: Segments) -> None:
        """Before the segments above *base_offset* go: the file says nothing of them any more.

        Where that cannot be written, nothing has changed.
        """
        known = self._noted.copy(), self._damaged.copy()
        bases = self._right.copy(), self._changed.copy(), self._held.copy()
        self.forget_above(base_offset)
        try:
            self.save(segments)
        except BaseException:
            self._noted, self._damaged = known
            self._right, self._changed, self._held = bases
            raise

    def forget_above(self, base_offset: int) -> None:
        """The segments above *base_offset* are gone; others may begin where they did."""
        for known in (self._noted, self._damaged):
            for gone in [one for one in known if one > base_offset]:
                del known[gone]
        for bases in (self._right, self._changed, self._held):
            bases.difference_update([one for one in bases if one > base_offset])
        self._changes += 1

    def are_unnoted_below(self, base_offset: int) -> bool:
        """Whether an index below *base_offset*, that of the active segment, has no true note.

        Or one that is gone has a note still.
        """
        damaged = [one for one in list(self._damaged) if self._noted.get(one) != DAMAGED]
        is_unsaved = self._saved_changes != self._changes
        unnoted = [*self._changed, *self._held, *damaged]
        return is_unsaved or any(one < base_offset for one in unnoted)

    def note_below(self, base_offset: int) -> None:
        """Look at what was changed in segments below *base_offset*; under the append lock."""
        for base in [one for one in list(self._changed) if one < base_offset]:
            found = look_at(self._directory, file_name(base, "txnindex"))
            if found is not None and found.size_bytes > 0:
                self._noted[base] = found
            else:
                self._noted.pop(base, None)
            self._changed.discard(base)
            self._changes += 1
        for base in [one for one in list(self._held) if one < base_offset]:
            self._held.discard(base)
            self._changes += 1
        for base in [one for one in list(self._damaged) if one < base_offset]:
            self._noted[base] = DAMAGED
            self._changes += 1

    def note_of(self, base_offset: int) -> TransactionIndexNote | None:
        """Return what the index of a segment is like; None without one, or for a damaged one."""
        note = self._noted.get(base_offset)
        return None if note == DAMAGED else note

    def save_if_there_is_room(self, segments: Segments) -> None:
        """As `save`; what a full disk refuses is in the next that is written."""
        with suppress(DiskFullError):
            self.save(segments)

    def save(self, segments: Segments) -> None:
        """Write the notes of segments that are there, and sealed, into ``.segstore``.

        What could not be written, for want of space, is still to be written.
        """
        if self._state_file is None:
            return
        with self.lock:  # what is older is not written over what is newer
            changes, all_noted = self._changes, self._noted.copy()
            there = {base: note for base, note in all_noted.items() if base in segments}
            noted = sealed_notes(there, segments.active_segment.base_offset)
            self._state_file.change(transaction_indexes=noted)
            self._saved_changes = changes


def noted_transaction_indexes(
    state: LogState | None, marker: CleanShutdownMarker | None
) -> dict[int, TransactionIndexNote]:
    """Return what was noted: of sealed segments in ``.segstore``, of the active one in *marker*.

    Parameters
    ----------
    state : LogState or None
        None where a broker may have written since [DUR-64].
    marker : CleanShutdownMarker or None
        One that fits the log.
    """
    if state is None:
        return {}
    noted = dict(state.transaction_indexes)
    if marker is not None and marker.transaction_index is not None:
        noted.setdefault(marker.active_base_offset, marker.transaction_index)
    return noted


def sealed_notes(
    noted: Mapping[int, TransactionIndexNote], active_base_offset: int
) -> dict[int, TransactionIndexNote]:
    """Return what belongs into ``.segstore``: of the active segment only that it is damaged."""
    return {
        base: note for base, note in noted.items() if base < active_base_offset or note == DAMAGED
    }


def look_at(directory: Directory, name: str) -> TransactionIndexNote | None:
    """Return size and checksum of an index as it is; None without a file."""
    size = crc = 0
    try:
        while piece := directory.read_range(name, size, _PIECE_BYTES):
            size, crc = size + len(piece), crc32c(piece, crc)
    except LogNotFoundError:
        return None
    return TransactionIndexNote(size, crc)


def differs(noted: TransactionIndexNote, found: TransactionIndexNote | None) -> str | None:
    """Return in what way an index is not what was noted; None where it is.

    Parameters
    ----------
    found : TransactionIndexNote or None
        The file as it is, perhaps without its checksum; None without a file.
    """
    if noted == DAMAGED:
        return "it was found to be damaged"
    if found is None:
        return f"it is missing, and had {noted.size_bytes} bytes"
    if found.size_bytes != noted.size_bytes:
        return f"it has {found.size_bytes} bytes, and had {noted.size_bytes}"
    if found.crc != noted.crc and None not in {found.crc, noted.crc}:
        return "its bytes are not those that were written"
    return None
