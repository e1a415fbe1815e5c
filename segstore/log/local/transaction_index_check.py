"""Transaction indexes against the ABORT markers of the batches, and made anew from them [DUR-8].

Readers of the safe profile do not ask these files. A broker does: it shows aborted records as
committed where an entry is missing, and hides committed ones where one is too many.

Source: [TXX-1, DUR-7, DUR-52].
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import FileBarrier
from segstore.errors import (
    CorruptIndexError,
    LimitExceededError,
    LogNotFoundError,
    LogPermissionError,
    NotALogError,
    ReadIOError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.log.files.partition_directory import file_name
from segstore.log.local.batch_transactions import (
    aborts_by_segment,
)
from segstore.log.local.transaction_index import (
    TRANSACTION_INDEX_ENTRY_BYTES,
    AbortedTransaction,
    TransactionIndex,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory
    from segstore.log.local.batch_transactions import Abort
    from segstore.log.local.local_log import LocalLog

_LOOKS_BESIDE_A_WRITER: Final = 2
"""More than one: it writes a marker, and then its entry."""
_PAUSE_SECONDS: Final = 0.01


class WrongIndex(NamedTuple):
    """A transaction index that the batches contradict."""

    base_offset: int
    problem: str
    content: bytes | None
    """What it should hold; None where damage of the log hides that."""
    error: SegstoreError | None = None
    """Why the file cannot be read; None where its content is wrong."""


def wrong_indexes(
    local_log: LocalLog, log_start_offset: int, *, may_grow: bool
) -> list[WrongIndex]:
    """Compare every transaction index of a log with all of its batches; writes nothing.

    Of what lies below the log start an index need not say anything.

    Parameters
    ----------
    may_grow : bool
        The index of the active segment may be written meanwhile.
    """
    end = local_log.log_end
    wrong = []
    for segment, is_known, ends in aborts_by_segment(local_log, log_start_offset, end):
        is_last = segment.base_offset == end.segment_base_offset
        is_growing = may_grow and is_last
        unreadable = None
        try:
            problem = _problem_during_writes(
                local_log.directory,
                segment.base_offset,
                ends.aborts,
                seen_below=ends.next_offset if is_growing or ends.damage is not None else None,
                is_written=is_growing and ends.damage is None,
            )
        except (LogPermissionError, NotALogError, ReadIOError) as error:
            problem, unreadable = f"cannot be read: {error.message}", error
        if problem is not None and local_log.segments.get(segment.base_offset) is segment:
            content = None
            if is_known and ends.damage is None:
                content = _content_of(ends.aborts)
            wrong.append(WrongIndex(segment.base_offset, problem, content, unreadable))
    return wrong


def rebuild_wrong_indexes(local_log: LocalLog, log_start_offset: int) -> list[str]:
    """Put right ones in the place of those that the batches contradict, durably.

    The caller holds the append lock. Returns their names.
    """
    names = []
    for wrong in wrong_indexes(local_log, log_start_offset, may_grow=False):
        if wrong.content is not None:
            try:
                names.append(write_index(local_log.directory, wrong.base_offset, wrong.content))
            except NotALogError:
                name = file_name(wrong.base_offset, "txnindex")
                if not _is_something_else(local_log.directory, name):
                    raise  # it is about the file beside it
    return names


def _is_something_else(directory: Directory, name: str) -> bool:
    """Whether there is no file in the place of an index: of that the user disposes."""
    return directory.exists(name) and not directory.info(name).is_regular


def check_indexes(local_log: LocalLog, offset: int, log_start_offset: int) -> None:
    """Compare the indexes from the segment of *offset* on with the batches.

    Raises
    ------
    CorruptIndexError
        One of them is not what they say.
    LogPermissionError, NotALogError, ReadIOError
        One of them cannot be read.
    """
    first = local_log.segments.floor_segment(offset)
    for wrong in wrong_indexes(local_log, log_start_offset, may_grow=True):
        if first is not None and wrong.base_offset >= first.base_offset:
            raise wrong.error or CorruptIndexError(
                f"the list of aborted transactions is wrong: it {wrong.problem}",
                file=TransactionIndex(local_log.directory, wrong.base_offset).path,
                found="other entries",
                expected="those of the batches",
            )


def _problem_during_writes(
    directory: Directory,
    base_offset: int,
    aborts: Iterable[Abort],
    *,
    seen_below: int | None,
    is_written: bool,
) -> str | None:
    """As `problem_of_index`; it looks again for the last entry of an index that is written now."""
    problem = problem_of_index(directory, base_offset, aborts, seen_below)
    for _ in range(_LOOKS_BESIDE_A_WRITER if is_written else 0):
        if problem is None:
            break
        time.sleep(_PAUSE_SECONDS)
        problem = problem_of_index(directory, base_offset, aborts, seen_below)
    return problem


def problem_of_index(
    directory: Directory,
    base_offset: int,
    aborts: Iterable[Abort],
    seen_below: int | None = None,
) -> str | None:
    """Return in what way the index of a segment is not what its batches say; None where it is.

    Parameters
    ----------
    aborts : iterable of Abort
        Those of the segment. Of one whose producer ended none before, the beginning is not checked:
        it may lie before what was gone through.
    seen_below : int or None
        The batches below were gone through: entries of others are not looked at.
    """
    index = TransactionIndex(directory, base_offset)
    left = {abort.marker: abort for abort in aborts}
    previous = base_offset - 1
    try:
        for number, entry in enumerate(index):
            if seen_below is not None and entry.last_offset >= seen_below:
                break
            problem = _problem_of_entry(entry, previous, left.pop(entry.last_offset, None))
            if problem is not None:
                return f"entry {number} {problem}"
            previous = entry.last_offset
        size = directory.info(index.name).size if directory.exists(index.name) else 0
    except LogNotFoundError:
        size = 0  # deleted meanwhile
    except (CorruptIndexError, LimitExceededError, UnsupportedFormatError) as error:
        return f"cannot be read: {error.message}"
    for abort in left.values():
        if abort.first_offset is not None:
            return (
                f"does not have the transaction of producer {abort.producer_id} from offset"
                f" {abort.first_offset} on, which was aborted at {abort.marker}"
            )
    if size % TRANSACTION_INDEX_ENTRY_BYTES:
        return f"{size} bytes are no multiple of {TRANSACTION_INDEX_ENTRY_BYTES}"
    return None


def _problem_of_entry(entry: AbortedTransaction, previous: int, abort: Abort | None) -> str | None:
    if entry.last_offset <= previous:
        return f"ends at offset {entry.last_offset}, not after {previous}"
    if abort is None or abort.producer_id != entry.producer_id:
        return (
            f"names offset {entry.last_offset}, where producer {entry.producer_id} aborted nothing"
        )
    first = abort.marker if abort.first_offset is None else abort.first_offset
    if not abort.previous_marker < entry.first_offset <= first:  # compaction may leave a lower one
        return (
            f"begins at offset {entry.first_offset}, and the transaction that was aborted at"
            f" {abort.marker} at {first}"
        )
    if not 0 <= entry.last_stable_offset <= abort.last_stable_offset:
        return (
            f"has the last stable offset {entry.last_stable_offset}, and {abort.last_stable_offset}"
            " is the most that it can be"
        )
    return None


def _content_of(aborts: Iterable[Abort]) -> bytes:
    return b"".join(
        AbortedTransaction(
            abort.producer_id, abort.first_offset, abort.marker, abort.last_stable_offset
        ).format()
        for abort in aborts
        if abort.first_offset is not None
    )


def write_index(directory: Directory, base_offset: int, content: bytes) -> str:
    """Put an index in the place of a wrong one, durably; returns its name."""
    name = file_name(base_offset, "txnindex")
    directory.write_file_atomically(name, content, FileBarrier.REBUILT_TRANSACTION_INDEX)
    return name
