"""Which bytes of which segment a log of a bucket is made of, segment by segment [SEL-5, RDB-2].

Where another leader's segment goes on, or a lost branch begins, a segment is cut between two
batches. The place is found by the offset index and the headers of some batches.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import CorruptLogError

if TYPE_CHECKING:
    from segstore.remote.tiered.partition_plan import PartitionPlan
    from segstore.remote.tiered.tiered_segment import TieredSegment

_HEADER: Final = struct.Struct(">qiib4xhi")
"""Of a batch: base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
_LENGTH_END: Final = 12
_MAGIC: Final = 2
_WINDOW_BYTES: Final = 64 * 1024


class SegmentRun(NamedTuple):
    """The part of a segment that the log has.

    Attributes
    ----------
    segment : TieredSegment
        Which.
    base_offset : int
        That of the log's own segment, which its files are named after.
    to_offset : int
        The last one: inclusive.
    low, high : int
        Plain bytes ``[low, high)`` of the segment.
    """

    segment: TieredSegment
    base_offset: int
    to_offset: int
    low: int
    high: int

    @property
    def is_whole(self) -> bool:
        """Whether its indexes fit: their positions are those of the whole segment."""
        return (self.low, self.high) == (0, self.segment.size_bytes)


def segment_runs(plan: PartitionPlan[TieredSegment], where: str) -> list[SegmentRun]:
    """Return the parts of segments that a plan takes, ascending.

    The first segment is shown from its beginning, as a broker keeps it [SEL-9].

    Parameters
    ----------
    plan : PartitionPlan
        Of a partition.
    where : str
        The partition, for errors.

    Raises
    ------
    CorruptLogError
        Records are missing between two segments [SEL-8], or a segment cannot be cut where another
        one goes on.
    CorruptLogError, EncryptionKeyError, ImportError, LogTruncatedError, LogNotFoundError, …
        As `TieredSegment.read`.
    """
    for first, last in plan.gaps:
        raise CorruptLogError(
            "no segment of the bucket holds these records: they were deleted, their objects"
            " cannot be read, or they are in an Iceberg table",
            file=where,
            found=f"a gap from offset {first} to {last}",
            expected="segments without a gap",
        ).lacks(first, last + 1)
    joined: list[tuple[TieredSegment, int, int]] = []
    for segment, from_offset, to_offset, _ in plan.ranges:
        if joined and joined[-1][0] is segment and joined[-1][2] + 1 == from_offset:
            joined[-1] = segment, joined[-1][1], to_offset
        else:
            joined.append((segment, from_offset, to_offset))
    return [_run(*one, is_first=number == 0) for number, one in enumerate(joined)]


def _run(segment: TieredSegment, from_offset: int, to_offset: int, *, is_first: bool) -> SegmentRun:
    base, low, high = segment.start_offset, 0, segment.size_bytes
    if not is_first and from_offset > base:
        base, low = from_offset, _position(segment, from_offset)
    if to_offset < segment.end_offset:
        high = _position(segment, to_offset + 1)
    return SegmentRun(segment, base, to_offset, low, high)


def _position(segment: TieredSegment, offset: int) -> int:
    """Return where the first batch from *offset* on begins, by index and batch headers [RDB-2]."""
    position = 0
    relative = offset - segment.start_offset
    for entry, at in struct.iter_unpack(">ii", _whole_entries(segment.read_index("offset") or b"")):
        if entry >= relative:  # an entry is of a batch's last offset: begin one before
            break
        if 0 <= at < segment.size_bytes:
            position = at
    window, begin = b"", position
    while position < segment.size_bytes:
        if position + _HEADER.size > begin + len(window):
            window, begin = segment.read(position, position + _WINDOW_BYTES), position
            if len(window) < _HEADER.size:
                raise _no_batch(segment, position, f"{len(window)} bytes")
        base, length, _, magic, _, delta = _HEADER.unpack_from(window, position - begin)
        if magic != _MAGIC:
            raise _no_batch(segment, position, f"magic {magic}")
        if base >= offset:
            return position
        if base + delta >= offset or length <= 0:
            found = f"{length} bytes of offsets {base} to {base + delta}"
            raise _no_batch(segment, position, found)
        position += _LENGTH_END + length
    return segment.size_bytes


def _whole_entries(index: bytes) -> bytes:
    return index[: len(index) // 8 * 8]


def _no_batch(segment: TieredSegment, position: int, found: str) -> CorruptLogError:
    return CorruptLogError(
        "the segment cannot be cut where another one goes on",
        file=segment.log_name,
        position=position,
        found=found,
        expected="a batch of magic 2 that ends before the cut",
    )
