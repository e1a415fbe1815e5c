"""A batch whose base offset jumped ahead, so that good batches behind it seem to go back [DUR-50].

The base offset is not covered by the CRC: of two batches that do not follow one another, the first
may be the bad one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segstore._core import ScanResult
    from segstore.log.local.segment import Segment


def end_before_jump(segment: Segment, scan: ScanResult) -> int | None:
    """Return the log end before the batch that jumped ahead, None when none did.

    *scan* ended at a batch that would follow if the one before it were left out.
    """
    if scan.stop != "order":
        return None
    following, _ = segment.scan(start_position=scan.valid_bytes, max_batches=1)
    if not len(following):
        return None
    ends = [segment.base_offset]
    for headers, _ in segment.scan_windows(end_position=scan.valid_bytes, check_crc=False):
        ends = [*ends[-2:], *(headers["last_offset"][-2:] + 1).tolist()]
    base_offset = int(following["base_offset"][0])
    return ends[-2] if len(ends) > 1 and ends[-2] <= base_offset < ends[-1] else None
