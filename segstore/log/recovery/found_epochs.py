"""Leader epochs of a log that is opened: of the checkpoint, or of the batches [DUR-21]."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import BatchTable
from segstore.errors import NotALogError, ReadIOError, SegstoreError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, require_unreadable
from segstore.log.files.leader_epoch_file_cache import UNREADABLE_EPOCHS, LeaderEpochFileCache
from segstore.log.files.recovery_advice import MOST_NAMES
from segstore.log.local.segments import next_base_offset
from segstore.log.recovery.contradicted_epochs import contradiction_of_epochs
from segstore.log.recovery.epoch_changes import epoch_changes, latest_epoch, note_epochs
from segstore.log.recovery.refusals import NO_DAMAGE
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segstore._core import BatchHeaders, Directory
    from segstore.log.files.checkpoints import LogState
    from segstore.log.local.segment import Segment
    from segstore.types import EpochEntry


class EpochsOfBatches(NamedTuple):
    """What the batches are like from which the epochs are rebuilt."""

    log_end_offset: int
    gaps: tuple[tuple[int, int], ...] = ()
    """First offset and the next one of the last gaps inside files."""
    gaps_count: int = 0
    """How many there are."""


class FoundEpochs(NamedTuple):
    """The epochs of a log, and what its checkpoint is worth."""

    entries: tuple[EpochEntry, ...] = ()
    """Those that count."""
    noted_entry: EpochEntry | None = None
    """The latest one, by the checkpoint where that can be read: ``.segstore`` is tied to it."""
    written_entry: EpochEntry | None = None
    """The latest one in the file on disk, None where that is lost."""
    lost: EpochsOfBatches | None = None
    """The checkpoint is lost; the first entry is where the first batch is."""
    unreadable: str | None = None
    """Why the checkpoint that is there is lost."""
    contradiction: str | None = None
    """Which batch contradicts the checkpoint; `entries` are those of the batches then."""
    is_rebuilt: bool = False
    """The checkpoint is to be written again."""

    @property
    def told_entries(self) -> tuple[EpochEntry, ...]:
        """What the checkpoint says, beside the batches."""
        return self.entries if self.lost is None else ()


def find_epochs(  # noqa: PLR0913 - where it looks, and what decides
    directory: Directory,
    read_state: Callable[[], LogState | None],
    segments: Sequence[Segment],
    log_start_offset: int,
    is_marked: Callable[[EpochEntry | None], bool],
    *,
    is_for_writing: bool,
) -> FoundEpochs:
    """Read the leader-epoch checkpoint, or rebuild its entries from headers of batches [DUR-21].

    Parameters
    ----------
    read_state : callable
        Returns what ``.segstore`` says, if anything.
    segments : sequence of Segment
        From the log start on.
    is_marked : callable
        Whether the clean marker fits a checkpoint with this latest entry: the batches are not
        asked then.
    is_for_writing : bool
        An error of the disk is raised: it may not leave out a part of what is written.
    """
    entries, why = read_checkpoint(directory, is_for_writing=is_for_writing)
    while entries is not None:
        latest = entries[-1] if entries else None
        if is_marked(latest):
            return FoundEpochs(entries, latest, latest)
        said = contradiction_of_epochs(entries, read_state(), segments, log_start_offset)
        if said is None:
            return FoundEpochs(entries, latest, latest)
        again, why = read_checkpoint(directory, is_for_writing=is_for_writing)
        if again == entries:  # no writer beside has changed it
            told = entries
            entries, _ = _of_batches(segments, log_start_offset, is_for_writing=is_for_writing)
            if _from_start(told, log_start_offset) == _from_start(entries, log_start_offset):
                return FoundEpochs(told, latest, latest)  # the batches contradict each other
            return FoundEpochs(entries, latest, latest, contradiction=said, is_rebuilt=True)
        entries = again
    entries, batches = _of_batches(segments, log_start_offset, is_for_writing=is_for_writing)
    latest = entries[-1] if entries else None
    has_bytes = any(segment.size_bytes for segment in segments)
    return FoundEpochs(entries, latest, None, batches, why, is_rebuilt=has_bytes)


def _from_start(entries: tuple[EpochEntry, ...], log_start_offset: int) -> tuple[EpochEntry, ...]:
    """Return *entries* as an open writes them: the first that counts begins at the log start."""
    cache = LeaderEpochFileCache(None, entries)
    cache.truncate_from_start(log_start_offset)
    return cache.entries


def read_checkpoint(
    directory: Directory, *, must_be_file: bool = False, is_for_writing: bool = True
) -> tuple[tuple[EpochEntry, ...] | None, str | None]:
    """Return the entries of the checkpoint, or None and why it cannot be read, if it is there.

    A reader goes on where the disk does not give out the file: the batches have the epochs too.

    Raises
    ------
    NotALogError
        *must_be_file*, and something else stands in its place; or a file was called none.
    ReadIOError
        *is_for_writing*, and the disk does not give out the file [DUR-33].
    """
    try:
        cache = LeaderEpochFileCache.read(directory, writable=False, is_strict=True)
    except UNREADABLE_EPOCHS as error:
        if must_be_file and isinstance(error, NotALogError):
            raise
        require_unreadable(directory, LEADER_EPOCH_CHECKPOINT, error)
        return None, f"{LEADER_EPOCH_CHECKPOINT} cannot be read: {error}"
    except ReadIOError as error:
        if is_for_writing:
            raise
        return None, f"{LEADER_EPOCH_CHECKPOINT} cannot be read: {error}"
    return None if cache is None else cache.entries, None


def _of_batches(
    segments: Sequence[Segment], log_start_offset: int, *, is_for_writing: bool
) -> tuple[tuple[EpochEntry, ...], EpochsOfBatches]:
    cache = LeaderEpochFileCache(None)
    log_end_offset, gaps_count, gaps = 0, 0, deque[tuple[int, int]](maxlen=MOST_NAMES)
    for number, segment in enumerate(segments):
        expected, following = segment.base_offset, next_base_offset(segments, number)
        try:
            for headers, _ in segment.scan_windows(check_crc=False):
                last = int(headers["last_offset"].max(initial=-1))
                if last >= following:  # no copy of all rows where none is to go
                    headers = headers[headers["last_offset"] < following]  # noqa: PLW2901
                table, latest = BatchTable(headers), latest_epoch(cache)
                note_epochs(cache, epoch_changes(table, latest, log_start_offset))
                if len(headers):
                    found, count = _gaps(headers, max(expected, log_start_offset))
                    gaps_count += count
                    gaps += found
                    expected = log_end_offset = int(headers["last_offset"][-1]) + 1
        except SegstoreError as error:
            if is_for_writing and isinstance(error, (*NO_DAMAGE, NotALogError)):
                raise  # the rest would be lost for good
            break  # who reads the segment finds the damage, and reports it
    return cache.entries, EpochsOfBatches(log_end_offset, tuple(gaps), gaps_count)


def _gaps(headers: BatchHeaders, expected: int) -> tuple[list[tuple[int, int]], int]:
    """Return which offsets are missing in front of batches: the last such runs, and their number.

    What lies below *expected* is none.
    """
    before = np.maximum(np.concatenate(([expected], headers["last_offset"][:-1] + 1)), expected)
    rows = np.flatnonzero(headers["base_offset"] > before)
    last = rows[-MOST_NAMES:]
    return [(int(before[row]), int(headers["base_offset"][row])) for row in last], len(rows)
