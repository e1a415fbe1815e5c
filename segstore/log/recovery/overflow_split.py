"""A segment whose offsets do not fit its base, split into several (Kafka ``LocalLog``).

Such segments were written by old brokers: an index cannot name an offset 2^31 or more above the
segment's base. The names of the files tell at any time how far a split came [DUR-20, LDR-3].

Source: [LOC-25, LOC-26, SEG-11, LDR-31].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import (
    IllegalArgumentError,
    IllegalStateError,
    LogSegmentOffsetOverflowError,
)
from segstore.log.local.segment_replacement import (
    SegmentReplacement,
    delete_cleaned_segments,
    finish_cleaned_segment,
    new_cleaned_segment,
)
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import BatchHeaders, Directory, ScanResult, SegmentContext
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments

CHUNK_BYTES: Final = 1024 * 1024
"""What is copied at a time, unless one batch is larger."""


class SplitSegmentResult(NamedTuple):
    """What a split did (Kafka ``SplitSegmentResult``)."""

    segments: Segments
    """Of the log, the new ones in the place of the old one."""
    taken_out: tuple[Segment, ...]
    """The old one, renamed to ``.deleted``; none when it was not a segment of the log yet."""
    vanished: tuple[int, ...]
    """Base offsets of those that no new segment has."""


class OverflowedSegmentError(LogSegmentOffsetOverflowError):
    """Good batches do not fit their segment: it is to be split. Never leaves a loader."""

    def __init__(self, segment: Segment) -> None:
        super().__init__("its last offsets do not fit its base offset", file=segment.path)
        self.segment = segment


def is_overflowed(segment: Segment, scan: ScanResult, next_base_offset: int) -> bool:
    """Whether *scan* ended at the first of good batches that end too far above the base offset.

    It may begin where offsets still fit. All the rest of the file consists of batches that follow,
    below the next segment; anything else ends a log [DUR-50, LDR-31].
    """
    if not isinstance(scan.why, LogSegmentOffsetOverflowError):
        return False
    next_offset = max(scan.next_offset, segment.base_offset)
    for headers, rest in segment.scan_windows(start_position=scan.valid_bytes):
        first, last = headers["base_offset"], headers["last_offset"]
        expected = np.concatenate(([next_offset], last[:-1] + 1))
        if not ((first >= expected) & (last >= first) & (last < MAX_LONG)).all():
            return False
        next_offset = rest.next_offset
    return rest.stop == "complete" and next_offset <= next_base_offset


def has_overflow(segment: Segment) -> bool:
    """Whether the last batch of *segment* does not fit its base offset [LDR-31]."""
    next_offset, _ = segment.read_next_offset()
    return next_offset > segment.base_offset and not segment.can_hold(next_offset - 1)


def split_overflowed_segment(
    segment: Segment, known: Segments, directory: Directory, context: SegmentContext
) -> SplitSegmentResult:
    """Split *segment*; the new segments are on stable storage, and in its place, at return.

    Parameters
    ----------
    segment : Segment
        May be one that is not known yet: its ``.log`` is replaced then, not renamed.
    known : Segments
        Of the log, as far as they are loaded.
    directory : Directory
        The partition's.
    context : SegmentContext
        For the new segments.

    Raises
    ------
    IllegalArgumentError
        The last batch fits: this is no segment to split.
    IllegalStateError
        The segment ends in bytes that are no batch; nothing was changed.
    """
    if not has_overflow(segment):
        raise IllegalArgumentError(
            "only a segment whose last offset does not fit its base offset can be split",
            file=segment.path,
            found="offsets that fit",
            expected=f"an offset above {segment.base_offset + MAX_INT}",
        )
    split: list[Segment] = []
    modified_ms = segment.modified_ms()
    try:
        _copy(segment, split, directory, context)
        for one in split:
            finish_cleaned_segment(one, modified_ms, directory)
    except BaseException:
        delete_cleaned_segments(split)
        raise
    is_known = segment.base_offset in known
    replacement = SegmentReplacement(split, [segment] if is_known else [], directory)
    try:
        replacement.commit()
        replacement.finish()
    except BaseException:  # what has its name may be all there is [DUR-6]: the next open sorts it
        for one in split:
            one.close_quietly()
        raise
    vanished = tuple(one.base_offset for one in replacement.vanished)
    done = SplitSegmentResult(replacement.applied_to(known), replacement.old, vanished)
    if not (context.kafka_profile and is_known):
        return done
    return done._replace(segments=_as_kafka_knows(done.segments, segment, split))


def _copy(
    source: Segment, split: list[Segment], directory: Directory, context: SegmentContext
) -> None:
    """Copy *source* into new segments, each beginning with the first batch that did not fit."""
    target: Segment | None = None
    end = 0
    for rows in _chunks(source):
        position = int(rows["position"][0])
        if target is None or not target.can_hold(int(rows["last_offset"][0])):
            target = new_cleaned_segment(int(rows["base_offset"][0]), directory, context)
            split.append(target)
        end = int(rows["position"][-1]) + int(rows["size_bytes"][-1])
        target.append(directory.read_range(source.name, position, end - position), rows)
    if end < source.size_bytes:  # all of it, or nothing
        raise IllegalStateError(
            "the segment to split ends in bytes that are no batch", file=source.path, position=end
        )


def _chunks(source: Segment) -> Iterator[BatchHeaders]:
    """Yield runs of batches of one target segment, below `CHUNK_BYTES` each [SEG-11]."""
    base: int | None = None
    for headers, scan in source.scan_windows(check_crc=False):
        start, size = 0, 0
        for row in range(len(headers)):
            last_offset, row_bytes = (int(headers[n][row]) for n in ("last_offset", "size_bytes"))
            fits = base is not None and 0 <= last_offset - base <= MAX_INT
            if start < row and (not fits or size + row_bytes >= CHUNK_BYTES):
                yield headers[start:row]
                start, size = row, 0
            if not fits:
                base = int(headers["base_offset"][row])
            size += row_bytes
        if start < len(headers):
            yield headers[start:]
        if scan.why is not None:
            raise scan.why.locate(source.path)


def _as_kafka_knows(segments: Segments, old: Segment, split: list[Segment]) -> Segments:
    """Leave out a new segment with the base offset of *old* that is not the first of the new ones.

    Where base offsets go back, so that a new segment lies below *old*, a broker forgets with the
    old one the new one that took its name; the files stay [LOC-26].
    """
    first = min(segment.base_offset for segment in split)
    forgotten = [one for one in split if one.base_offset == old.base_offset != first]
    for segment in forgotten:
        segment.close_quietly()
    return segments.without(forgotten)
