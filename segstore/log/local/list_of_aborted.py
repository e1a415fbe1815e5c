"""The aborted transactions that a fetch names to a consumer, as a broker's fetch names them.

What a reader leaves out is decided by the batches (`BatchTransactions`). A broker's list comes from
its transaction indexes. It also has transactions whose records lie before the range, or were
compacted away, and it says of each where it began, also in a segment before.

Source: Kafka ``LocalLog.addAbortedTransactions`` [LOC-9, TXX-4].
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING

from segstore.errors import SegstoreError

if TYPE_CHECKING:
    from segstore.log.local.batch_transactions import AbortedInRange, TransactionEnds
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.transaction_index import AbortedTransaction


def list_of_aborted(
    local_log: LocalLog, found: AbortedInRange, offset: int, upper_bound_offset: int
) -> list[tuple[int, int, int]]:
    """Return the list of a fetch of ``[offset, upper_bound_offset)``.

    An entry of an index is listed when it agrees with the markers that were met, and begins behind
    its producer's marker before. So a wrong one neither shows nor hides a record. What the batches
    say is listed in any case. What lies below the first segment is in remote storage: of what was
    aborted there only the indexes say where it began.

    Parameters
    ----------
    found : AbortedInRange
        What the batches say.

    Returns
    -------
    list of tuple of int
        Producer id, first offset and marker, ascending by marker.
    """
    listed = {one[2]: one for one in found.transactions}
    entries: list[AbortedTransaction] = []
    only_helps = offset >= local_log.segments.first_segment.base_offset
    with suppress(*(SegstoreError,) if only_helps else ()):  # such a file costs no record
        entries = local_log.aborted_from(offset, upper_bound_offset, in_order=True)
    for entry in entries:
        producer_id, first_offset, marker = entry[:3]
        if _agrees(entry, found.walked):
            begin = listed[marker][1] if marker in listed else first_offset
            listed[marker] = producer_id, min(begin, first_offset), marker
    return [listed[marker] for marker in sorted(listed)]


def _agrees(entry: AbortedTransaction, walked: list[TransactionEnds]) -> bool:
    previous_marker = -1
    for ends in walked:
        if entry.last_offset < ends.next_offset:
            place = bisect_left(ends.aborts, entry.last_offset, key=lambda abort: abort.marker)
            abort = ends.aborts[place] if place < len(ends.aborts) else None
            if abort is None or abort.marker != entry.last_offset:
                return False
            if abort.producer_id != entry.producer_id:
                return False
            previous_marker = max(previous_marker, abort.previous_marker)
            break
        previous_marker = max(previous_marker, ends.last_ends.get(entry.producer_id, -1))
    return previous_marker < entry.first_offset
