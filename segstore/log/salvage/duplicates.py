"""Batches that a damaged log has twice, as where files of another replica were copied over it.

A salvage keeps one of two equal batches. The other one is no loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.recovery.quarantined_file import batch_keys, keys_within
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import Directory, SegmentContext
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.salvage_report import LostRange


def other_batches(
    lost: LostRange,
    segment: Segment,
    directory: Directory,
    context: SegmentContext,
    base_offsets: Sequence[int],
) -> tuple[list[LostRange], int]:
    """Return the parts of *lost* that the new log does not have, and the number of other batches.

    Parameters
    ----------
    lost : LostRange
        Whole batches of *segment*, which were not copied.
    directory, context, base_offsets
        The new log.
    """
    parts: list[LostRange] = []
    duplicates = 0
    for headers, _ in segment.scan_windows(
        start_position=lost.position, end_position=lost.position + lost.size_bytes, check_crc=False
    ):
        if not len(headers):
            break
        first, last = int(headers["base_offset"].min()), int(headers["last_offset"].max())
        there = keys_within(directory, context, base_offsets, first, last)
        is_there = np.isin(batch_keys(headers), there)
        duplicates += int(is_there.sum())
        for index in np.flatnonzero(~is_there).tolist():
            position, size = int(headers["position"][index]), int(headers["size_bytes"][index])
            if parts and parts[-1].position + parts[-1].size_bytes == position:
                parts[-1] = parts[-1]._replace(size_bytes=parts[-1].size_bytes + size)
            else:
                parts.append(lost._replace(position=position, size_bytes=size))
    return parts, duplicates
