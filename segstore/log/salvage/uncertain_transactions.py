"""Transactions of a salvaged log whose end may be among what was lost.

An ABORT marker that is lost makes what was aborted look committed as soon as its producer ends
another transaction. A salvage makes no marker again: it names these transactions. Where the
transaction index of the source names the lost marker, it says that too.

Source: [DUR-7, DUR-62].
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from segstore.errors import SegstoreError
from segstore.log.local.segment import Segment
from segstore.log.local.transaction_index import TransactionIndex
from segstore.log.recovery.salvage_report import UncertainTransaction
from segstore.types import CONTROL_FLAG, CURRENT_MAGIC, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from segstore._core import Directory, SegmentContext


def uncertain_transactions(
    context: SegmentContext, base_offsets: Iterable[int], lost_from: Iterable[int]
) -> Iterator[UncertainTransaction]:
    """Yield the transactions that were open where something is lost, and that a later marker ends.

    Parameters
    ----------
    context, base_offsets : SegmentContext, iterable of int
        The new log.
    lost_from : iterable of int
        Where each range of lost offsets begins, ascending.
    """
    losses = deque(lost_from)
    begins: dict[int, int] = {}
    crossed: dict[int, int] = {}
    for row in _transactional_rows(context, base_offsets):
        offset, producer_id = int(row["base_offset"]), int(row["producer_id"])
        while losses and losses[0] <= offset:
            loss = losses.popleft()
            for one in begins:
                crossed.setdefault(one, loss)
        if not row["attributes"] & CONTROL_FLAG:
            begins.setdefault(producer_id, offset)
            continue
        begin, lost = begins.pop(producer_id, None), crossed.pop(producer_id, None)
        if begin is not None and lost is not None:
            yield UncertainTransaction(producer_id, begin, lost, offset)


def _transactional_rows(context: SegmentContext, base_offsets: Iterable[int]) -> Iterator[np.void]:
    for base in base_offsets:
        segment = Segment(context, base)
        try:
            for headers, _ in segment.scan_windows(check_crc=False):
                is_marked = headers["attributes"] & TRANSACTIONAL_FLAG != 0
                yield from headers[is_marked & (headers["magic"] >= CURRENT_MAGIC)]
        finally:
            segment.close_quietly()


def with_aborts(
    uncertain: list[UncertainTransaction], directory: Directory, base_offsets: Iterable[int]
) -> list[UncertainTransaction]:
    """Return them with the lost ABORT markers that transaction indexes of the source name.

    No checksum covers an index: it is evidence for a person, and changes nothing in the copy.
    """
    marker_of = {(one.producer_id, one.first_offset): one.aborted_at for one in uncertain}
    for base in base_offsets:
        with suppress(SegstoreError):  # an index without a whole entry says nothing
            for entry in TransactionIndex(directory, base):
                key = entry.producer_id, entry.first_offset
                if key in marker_of:
                    marker_of[key] = entry.last_offset
    return [
        one._replace(aborted_at=marker_of[one.producer_id, one.first_offset]) for one in uncertain
    ]
