"""Which bytes of which segment a log of a bucket is made of, segment by segment [SEL-5, RDB-2].

Where another leader's segment goes on, or a lost branch begins, a segment is cut between two
batches. The place is found by the offset index and the headers of some batches.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from segstore.errors import CorruptLogError
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore.remote.tiered.partition_plan import PartitionPlan
    from segstore.remote.tiered.tiered_partition import TieredPartition
    from segstore.remote.tiered.tiered_segment import TieredSegment
    from segstore.types import EpochEntry

GAP: Final = (
    "no segment of the bucket holds these records: they were deleted, their objects cannot be read,"
    " or they are in an Iceberg table"
)
_HEADER: Final = struct.Struct(">qiib4xhi")
"""Of a batch: base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
_LENGTH_END: Final = 12
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_MAGIC_END: Final = 17
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


class TieredLog(NamedTuple):
    """The log that a bucket has of a partition.

    Attributes
    ----------
    plan : PartitionPlan
        Which segment gives which offsets.
    lineage : tuple of EpochEntry
        The leader epochs that its batches have.
    runs : tuple of SegmentRun
        Its segments, ascending; none where all records were deleted.
    """

    plan: PartitionPlan[TieredSegment]
    lineage: tuple[EpochEntry, ...]
    runs: tuple[SegmentRun, ...]

    @property
    def start_offset(self) -> int:
        """Where it begins."""
        return max(self.plan.start_offset, self.lineage[0].start_offset)

    @property
    def end_offset(self) -> int:
        """Where it ends, exclusive: at its start if all records were deleted."""
        return max(self.plan.end_offset, self.start_offset)


def tiered_log(
    partition: TieredPartition,
    where: str,
    way_on: str,
    *,
    below_log_start: bool = False,
    allow_gaps: bool = False,
) -> TieredLog:
    """Return the log that *partition*, which has a segment, gives.

    Parameters
    ----------
    where, way_on, allow_gaps
        As for `segment_runs`; *allow_gaps* counts for both ends of the log, too.
    below_log_start : bool
        It begins with the lowest offset that a segment still holds [SEL-9].

    Raises
    ------
    CorruptLogError
        Records are missing between two segments [SEL-8], or perhaps at an end of the log.
    SegstoreError, ImportError
        As `segment_runs` and `checked_lineage`.
    """
    plan = partition.plan(0 if below_log_start else None)
    lineage = partition.whole_lineage if below_log_start else partition.lineage
    runs = segment_runs(plan, where, way_on, allow_gaps=allow_gaps)
    if not allow_gaps:
        partition.check_ends(plan, 0 if below_log_start else lineage[0].start_offset, way_on)
    return TieredLog(plan, lineage, tuple(runs))


def cut_index(run: SegmentRun, name: Literal["offset", "timestamp"]) -> bytes:
    """Return an index of the part of a segment, made of the entries that are about it [IXO-3].

    Errors are those of `TieredSegment.read_index`.
    """
    shift = run.base_offset - run.segment.start_offset
    index = run.segment.read_index(name) or b""
    if name == "offset":
        places = index_entries(index)
        return b"".join(
            _OFFSET_ENTRY.pack(relative - shift, position - run.low)
            for relative, position in places
            if run.low <= position < run.high and relative >= shift
        )
    times = _TIME_ENTRY.iter_unpack(index[: len(index) // _TIME_ENTRY.size * _TIME_ENTRY.size])
    last = run.to_offset - run.segment.start_offset
    return b"".join(
        _TIME_ENTRY.pack(timestamp, relative - shift)
        for timestamp, relative in times
        if shift <= relative <= last
    )


def segment_runs(
    plan: PartitionPlan[TieredSegment], where: str, way_on: str, *, allow_gaps: bool = False
) -> list[SegmentRun]:
    """Return the parts of segments that a plan takes, ascending.

    The first segment is shown from its beginning, as a broker keeps it [SEL-9].

    Parameters
    ----------
    plan : PartitionPlan
        Of a partition.
    where : str
        The partition, for errors.
    way_on : str
        What the error of a gap says that the user can do.
    allow_gaps : bool
        Records that are missing between two segments are no error.

    Raises
    ------
    CorruptLogError
        Records are missing between two segments [SEL-8], or a segment cannot be cut where another
        one goes on.
    CorruptLogError, EncryptionKeyError, ImportError, LogTruncatedError, LogNotFoundError, …
        As `TieredSegment.read`.
    """
    if plan.gaps and not allow_gaps:
        first, last = plan.gaps[0]
        raise CorruptLogError(
            f"{GAP}; {way_on}",
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
    relative = offset - segment.start_offset
    position = 0
    for entry, at in index_entries(segment.read_index("offset") or b""):
        if entry >= relative:  # an entry is of a batch's last offset: begin one before
            break
        if 0 <= at < segment.size_bytes:
            position = at
    for batch in batch_places(segment.read, segment.size_bytes, position, segment.log_name):
        if batch.magic != CURRENT_MAGIC:
            raise _no_batch(segment.log_name, batch.position, f"magic {batch.magic}")
        if batch.base_offset >= offset:
            return batch.position
        if batch.last_offset >= offset:
            found = f"offsets {batch.base_offset} to {batch.last_offset}"
            raise _no_batch(segment.log_name, batch.position, found)
    return segment.size_bytes


class BatchPlace(NamedTuple):
    """A batch by its header: the first byte, and the offsets."""

    position: int
    base_offset: int
    last_offset: int
    magic: int


def index_entries(index: bytes) -> Iterator[tuple[int, int]]:
    """Yield relative offset and position of each whole entry of an offset index."""
    return struct.iter_unpack(">ii", index[: len(index) // 8 * 8])


def batch_places(
    read: Callable[[int, int], bytes | memoryview], size_bytes: int, position: int, file: str
) -> Iterator[BatchPlace]:
    """Yield the batches from byte *position* of a segment on, by their headers.

    Of a message set of magic 0 or 1 the only offset known is its last one.

    Parameters
    ----------
    read : callable
        Returns bytes ``[start, end)`` of the segment, cut to its size.
    size_bytes : int
        Of the segment.
    file : str
        Its name, for errors.

    Raises
    ------
    CorruptLogError
        A header says that the batch has no bytes, or more than the segment.
    """
    window, begin = b"", position
    while position < size_bytes:
        if position + _HEADER.size > begin + len(window):
            window, begin = bytes(read(position, position + _WINDOW_BYTES)), position
            if len(window) < _MAGIC_END:
                raise _no_batch(file, position, f"{len(window)} bytes")
            window = window.ljust(_HEADER.size, b"\0")  # the last one of magic 0 may be shorter
        base, length, _, magic, _, delta = _HEADER.unpack_from(window, position - begin)
        following = position + _LENGTH_END + length
        if length <= 0 or following > size_bytes:
            raise _no_batch(file, position, f"a length of {length} bytes")
        yield BatchPlace(position, base, base + (delta if magic == CURRENT_MAGIC else 0), magic)
        position = following


def _no_batch(file: str, position: int, found: str) -> CorruptLogError:
    return CorruptLogError(
        "the segment cannot be cut, or has no end, here",
        file=file,
        position=position,
        found=found,
        expected="a batch of magic 2 within the segment, and within the cut",
    )
