"""A transaction index against the ABORT markers of its segment's batches [TXX-1, DUR-7, DUR-8].

Readers of the safe profile do not ask these files. A broker does: it shows aborted records as
committed where an entry is missing, and hides committed ones where one is too many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import LogNotFoundError, UnsupportedFormatError
from segstore.log.local.transaction_index import (
    TRANSACTION_INDEX_ENTRY_BYTES,
    AbortedTransaction,
    TransactionIndex,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory
    from segstore.log.local.batch_transactions import Abort


def problem_of_index(
    directory: Directory,
    base_offset: int,
    aborts: Iterable[Abort],
) -> str | None:
    """Return in what way the index of a segment is not what its batches say; None where it is.

    Parameters
    ----------
    aborts : iterable of Abort
        Those of the segment. Of one whose producer ended none before, the beginning is not checked:
        it may lie before what was gone through.
    """
    index = TransactionIndex(directory, base_offset)
    left = {abort.marker: abort for abort in aborts}
    previous = base_offset - 1
    try:
        for number, entry in enumerate(index):
            problem = _problem_of_entry(entry, previous, left.pop(entry.last_offset, None))
            if problem is not None:
                return f"entry {number} {problem}"
            previous = entry.last_offset
        size = directory.info(index.name).size if directory.exists(index.name) else 0
    except UnsupportedFormatError as error:
        return error.message
    except LogNotFoundError:
        size = 0  # deleted meanwhile
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
        return f"ends at offset {entry.last_offset}, not behind {previous}"
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
