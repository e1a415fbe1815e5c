"""Which leader epoch begins at which offset, kept in ``leader-epoch-checkpoint`` [EPC-*]."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from segstore._core import FileBarrier
from segstore.errors import (
    CorruptCheckpointError,
    IllegalArgumentError,
    LimitExceededError,
    NotALogError,
)
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    format_leader_epoch_checkpoint,
    parse_leader_epoch_checkpoint,
)
from segstore.log.files.prepared_file import PreparedFile
from segstore.types import EpochEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore._core import Directory

UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1

UNREADABLE_EPOCHS: Final = (
    CorruptCheckpointError,
    IllegalArgumentError,
    LimitExceededError,
    NotALogError,
)
"""What may be said of the checkpoint; other errors are of the disk, and say nothing of it."""

_HEADER_LINES: Final = 2  # version and count

_log = logging.getLogger(__name__)


class LeaderEpochFileCache:
    """Ascending (epoch, start offset) entries (Kafka ``LeaderEpochFileCache``).

    The entries are one immutable tuple that is replaced: readers take it without a lock, changes
    come from the thread that holds the log's append lock. Assigning writes the checkpoint before
    it returns; truncating leaves that to `flush`, since a checkpoint with too many entries is
    truncated again at the next open [EPC-7].

    Parameters
    ----------
    directory : Directory or None
        Where the checkpoint is; None keeps the entries in memory only (read-only handles).
    entries : iterable of EpochEntry
        To begin with.
    written_entry : EpochEntry or None
        The newest entry of the checkpoint that is there.

    Attributes
    ----------
    entries : tuple of EpochEntry
        All, ascending.
    is_dirty : bool
        The checkpoint may say something else.
    written_entry : EpochEntry or None
        The newest entry of the checkpoint on disk.
    before_write : callable or None
        Called with that entry and the newest one, before a checkpoint is written in which they
        differ.
    """

    __slots__ = (
        "_directory",
        "before_write",
        "entries",
        "is_dirty",
        "written_entry",
    )

    def __init__(
        self,
        directory: Directory | None,
        entries: Iterable[EpochEntry] = (),
        written_entry: EpochEntry | None = None,
    ) -> None:
        self._directory = directory
        self.entries: tuple[EpochEntry, ...] = ()
        self.is_dirty = False
        self.written_entry = written_entry
        self.before_write: Callable[[EpochEntry | None, EpochEntry | None], None] | None = None
        for epoch, start_offset in entries:
            self.entries = _with_entry(self.entries, epoch, start_offset) or self.entries

    @classmethod
    def read(
        cls, directory: Directory, *, writable: bool, is_strict: bool = False
    ) -> LeaderEpochFileCache | None:
        """Read the checkpoint of *directory*, None when there is none.

        To Kafka a file without a byte has no epochs. With *is_strict* it counts as lost; and what
        was cut short, or has entries that do not ascend, cannot be read: Kafka ends each line
        with a newline, and writes the entries in their order.

        Raises
        ------
        CorruptCheckpointError
            The file cannot be read; `IllegalArgumentError` for a negative number in it [EPC-11].
        """
        if not directory.exists(LEADER_EPOCH_CHECKPOINT):
            return None
        data = directory.read_file(LEADER_EPOCH_CHECKPOINT, MAX_CHECKPOINT_BYTES)
        if not data and is_strict:
            return None
        entries = parse_leader_epoch_checkpoint(data)
        if is_strict:
            require_whole(data, entries)
        cache = cls(directory if writable else None, entries)
        cache.written_entry = cache.latest_entry
        return cache

    @property
    def latest_entry(self) -> EpochEntry | None:
        """The newest entry."""
        return self.entries[-1] if self.entries else None

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch."""
        return self.entries[-1].epoch if self.entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The oldest entry."""
        return self.entries[0] if self.entries else None

    def begins_after(self, offset: int) -> bool:
        """Whether the newest epoch was said to begin above *offset*: its records come earlier."""
        return bool(self.entries) and self.entries[-1].start_offset > offset

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that *epoch* begins at *start_offset*; the checkpoint is on disk at return [EPC-2].

        Entries of a newer epoch, or that begin at or above *start_offset*, are dropped. Returns
        whether anything changed.
        """
        before = self.entries
        if not self.note(epoch, start_offset):
            return False
        try:
            self.flush()
        except BaseException:  # so that the next try writes it [DUR-12]
            self.is_dirty = True  # the file may be either one
            self.entries = before
            raise
        return True

    def note(self, epoch: int, start_offset: int) -> bool:
        """Do as `assign`, in memory only; `flush` writes it."""
        changed = _with_entry(self.entries, epoch, start_offset)
        if changed is None:
            return False
        removed = len(self.entries) + 1 - len(changed)
        if removed > 1 or (removed and self.entries[-1].start_offset != start_offset):
            _log.warning(
                "epoch %d from offset %d replaces %d entries", epoch, start_offset, removed
            )
        self.entries = changed
        self.is_dirty = True
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the entries that begin at or above *end_offset* [EPC-6].

        A negative one does nothing.
        """
        keep = bisect_left(self.entries, end_offset, key=_start_offset)
        if end_offset < 0 or keep == len(self.entries):
            return False
        self.entries = self.entries[:keep]
        self.is_dirty = True
        return True

    def entries_below(
        self, end_offset: int, next_from: int | None = None
    ) -> tuple[EpochEntry, ...]:
        """Return the entries that a truncation would leave; nothing changes.

        Parameters
        ----------
        end_offset : int
            Entries that begin there or above go.
        next_from : int or None
            Where the epoch after the latest one begins, None = none does.
        """
        kept = self.entries[: bisect_left(self.entries, end_offset, key=_start_offset)]
        latest = self.latest_epoch
        if next_from is None or latest is None:
            return kept
        return _with_entry(kept, latest + 1, next_from) or kept

    def prepare(self, entries: tuple[EpochEntry, ...]) -> PreparedFile | None:
        """Write a checkpoint with these entries, beside the one that counts.

        None when nothing would change. In memory nothing does before `replace`.
        """
        if entries == self.entries or self._directory is None:
            return None
        latest = entries[-1] if entries else None
        if self.before_write is not None and self.written_entry != latest:
            self.before_write(self.written_entry, latest)
        data = format_leader_epoch_checkpoint(entries)
        return PreparedFile(
            self._directory, LEADER_EPOCH_CHECKPOINT, data, FileBarrier.LEADER_EPOCHS
        )

    def replace(self, entries: tuple[EpochEntry, ...], prepared: PreparedFile | None) -> None:
        """Let these be the entries, with the checkpoint that was prepared for them."""
        self.is_dirty = self.is_dirty or entries != self.entries
        self.entries = entries
        if prepared is not None:
            prepared.publish()
            self.written_entry, self.is_dirty = self.latest_entry, False

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop the entries that begin at or below *start_offset*, but keep the last of them.

        Source: [EPC-6].

        That one is given *start_offset* as its start.
        """
        drop = bisect_right(self.entries, start_offset, key=_start_offset)
        if drop == 0:
            return False
        survivor = EpochEntry(self.entries[drop - 1].epoch, start_offset)
        remaining = (survivor, *self.entries[drop:])
        self.is_dirty = self.is_dirty or remaining != self.entries
        self.entries = remaining
        return True

    def forget_to(self, offset: int) -> None:
        """Drop the entries that begin at or below *offset* from memory [APP-10]."""
        drop = bisect_right(self.entries, offset, key=_start_offset)
        self.is_dirty = self.is_dirty or drop > 0
        self.entries = self.entries[drop:]

    def clear(self) -> None:
        """Drop all entries from memory; the checkpoint stays [EPC-8]."""
        self.entries = ()

    def clear_and_flush(self) -> None:
        """Drop all entries and write the checkpoint [EPC-8]."""
        self.clear()
        self.is_dirty = True
        self.flush()

    def flush(self, *, force: bool = False) -> None:
        """Write the checkpoint when it is behind, or in every case with *force* [EPC-7, EPC-12]."""
        if (self.is_dirty or force) and self._directory is not None:
            if self.before_write is not None and self.written_entry != self.latest_entry:
                self.before_write(self.written_entry, self.latest_entry)
            data = format_leader_epoch_checkpoint(self.entries)
            self._directory.write_file_atomically(
                LEADER_EPOCH_CHECKPOINT, data, FileBarrier.LEADER_EPOCHS
            )
            self.written_entry = self.latest_entry
        self.is_dirty = False

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the epoch at or below *epoch* and where it ends; (-1, -1) = undefined [EPC-5]."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        above = bisect_right(self.entries, epoch, key=_epoch)
        if above == len(self.entries):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        end = self.entries[above].start_offset
        return (epoch if above == 0 else self.entries[above - 1].epoch), end

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which *offset* was written, None below the first entry [EPC-9]."""
        above = bisect_right(self.entries, offset, key=_start_offset)
        return None if above == 0 else self.entries[above - 1].epoch

    def previous_entry(self, epoch: int) -> EpochEntry | None:
        """Return the entry of the greatest epoch below *epoch*."""
        return self._entry_at(bisect_left(self.entries, epoch, key=_epoch) - 1)

    def previous_epoch(self, epoch: int | None = None) -> int | None:
        """Return the greatest epoch below *epoch*, by default below the latest."""
        if epoch is None:
            epoch = self.latest_epoch
        entry = None if epoch is None else self.previous_entry(epoch)
        return None if entry is None else entry.epoch

    def next_epoch(self, epoch: int) -> int | None:
        """Return the smallest epoch above *epoch*."""
        entry = self._entry_at(bisect_right(self.entries, epoch, key=_epoch))
        return None if entry is None else entry.epoch

    def epoch_entries_in_range(self, start_offset: int, end_offset: int) -> tuple[EpochEntry, ...]:
        """Return the entries as they would be for a log of that range only [EPC-10]."""
        copy = LeaderEpochFileCache(None, self.entries)
        if start_offset >= 0:
            copy.truncate_from_start(start_offset)
        copy.truncate_from_end(end_offset)
        return copy.entries

    def _entry_at(self, index: int) -> EpochEntry | None:
        return self.entries[index] if 0 <= index < len(self.entries) else None


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


def require_whole(data: bytes, entries: Sequence[EpochEntry]) -> None:
    """Refuse a checkpoint that was cut short, or has entries in another order.

    Raises
    ------
    CorruptCheckpointError
        Not all of it was written so.
    """
    wrong = None
    if not data.endswith(b"\n") or data.count(b"\n") < _HEADER_LINES:
        wrong = "is cut short", repr(data[-20:]), "a newline at the end of each line"
    for entry, following in pairwise(entries):
        if entry.epoch >= following.epoch or entry.start_offset >= following.start_offset:
            wrong = "has entries that do not ascend", f"{following} after {entry}", "higher ones"
    if wrong is not None:
        what, found, expected = wrong
        raise CorruptCheckpointError(
            what, file=LEADER_EPOCH_CHECKPOINT, found=found, expected=expected
        )


def _with_entry(
    entries: tuple[EpochEntry, ...], epoch: int, start_offset: int
) -> tuple[EpochEntry, ...] | None:
    """Return *entries* with the assignment made, None when it changes nothing [EPC-2, EPC-3]."""
    if epoch < 0 or start_offset < 0:
        raise IllegalArgumentError(
            f"epoch {epoch} from offset {start_offset}: neither can be negative",
            found=f"{epoch} {start_offset}",
            expected="numbers from 0 on",
        )
    if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
        return None
    keep = len(entries)
    while keep and (
        entries[keep - 1].epoch >= epoch or entries[keep - 1].start_offset >= start_offset
    ):
        keep -= 1
    return (*entries[:keep], EpochEntry(epoch, start_offset))
