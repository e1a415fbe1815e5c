"""Records that are missing between two segments, and what proves it [DUR-7, DUR-54].

A segment may end below the base offset of the next one: a broker's compaction leaves such gaps, and
so does a ``.log`` that has lost its end, as a copy of a live partition has. Compaction makes the
indexes of what it keeps, so an index never names an offset in such a gap. When it does, its
``.log`` had these records.

An index is rebuilt from the ``.log`` that is there, and then proves nothing any more. So the range
is noted in ``.segstore.missing`` before that, with the leader epoch of the batch before it.
Compaction can only leave an earlier epoch there; a later one says that the log was written again.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from itertools import pairwise, product
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import SegmentContext
from segstore.errors import (
    LimitExceededError,
    LogNotFoundError,
    NotALogError,
    ReadIOError,
    ResourceError,
    SegstoreError,
)
from segstore.log.files.checkpoints import LOG_STATE, MISSING_RECORDS
from segstore.log.files.missing_records_file import note_ranges, read_ranges
from segstore.log.files.partition_directory import (
    DELETED_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    MAX_INDEX_BYTES,
    SWAP_FILE_SUFFIX,
    file_name,
)
from segstore.log.files.recovery_advice import missing_records, unread_records
from segstore.log.local.segment import Segment
from segstore.numpy_on_demand import np
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from segstore._core import Directory, ScanResult, SegmentListing


INDEX_ENTRIES: Final = {
    "index": [("relative_offset", ">i4"), ("position", ">i4")],
    "timeindex": [("timestamp", ">i8"), ("relative_offset", ">i4")],
}
_OFFSET_ENTRY_BYTES: Final = 8


class MissingRecords(NamedTuple):
    """A range of offsets that had records, and no read gives them.

    Attributes
    ----------
    first_offset, next_offset : int
        The first one, and the one behind the last: the base offset of the next segment.
    shown_by : str
        Name of the file that proves it. A ``.log`` has the records, beyond the base offset of a
        later segment: `segstore salvage` copies them.
    """

    first_offset: int
    next_offset: int
    shown_by: str

    @property
    def are_there(self) -> bool:
        """Whether a ``.log`` has the records, where no read looks for them."""
        return self.shown_by.endswith(LOG_FILE_SUFFIX)

    def __str__(self) -> str:
        if self.are_there:
            return unread_records(self.first_offset, self.next_offset, self.shown_by)
        return f"{missing_records(self.first_offset, self.next_offset)}: {self.shown_by} names them"


class LoneIndex(NamedTuple):
    """An index that lists records, and whose ``.log`` is gone."""

    name: str
    base_offset: int
    last_offset: int
    """The highest that it names."""


def missing_between(  # noqa: PLR0913 - what two segments show
    directory: Directory,
    base_offset: int,
    end_offset: int,
    next_base_offset: int,
    contiguous_from: int | None = None,
    *,
    must_read: bool = False,
    lone_bases: Sequence[int] | None = None,
) -> list[MissingRecords]:
    """Return what is proven to be missing between a segment and the next one; empty without proof.

    Parameters
    ----------
    directory : Directory
        The partition's.
    base_offset, end_offset : int
        Of the segment: its name, and the offset behind its last batch.
    next_base_offset : int
        Of the next segment.
    contiguous_from : int or None
        From there on the log was written without a gap, where its writer says so.
    must_read : bool
        An index that the disk does not give out is an error; else it proves nothing.
    lone_bases : sequence of int or None
        What `lone_index_bases` returns; None = look now.
    """
    if end_offset >= next_base_offset:
        return []
    if contiguous_from is not None and end_offset >= contiguous_from:
        return [MissingRecords(end_offset, next_base_offset, LOG_STATE)]
    lone_bases = lone_index_bases(directory.segment_listing()) if lone_bases is None else lone_bases
    between = [base for base in lone_bases if end_offset <= base < next_base_offset]
    bases = [base_offset, *between]
    proving = sorted(
        _that_may_prove(directory, bases, base_offset),
        key=lambda base: base != end_offset,  # it begins with the gap: its ``.log`` is gone
    )
    for base, kind in product(proving, INDEX_ENTRIES):
        last = _last_entry(directory, file_name(base, kind), must_read=must_read)
        offset = -1 if last is None else base + int(last["relative_offset"])
        if end_offset <= offset < next_base_offset:
            return [MissingRecords(end_offset, next_base_offset, file_name(base, kind))]
    noted = [
        (max(first, end_offset), min(behind, next_base_offset), epoch)
        for first, behind, *epoch in read_ranges(directory) or ()
        if first < next_base_offset and behind > end_offset
    ]
    latest = _last_epoch(directory, base_offset) if any(epoch for _, _, epoch in noted) else ()
    return [
        MissingRecords(first, behind, MISSING_RECORDS)
        for first, behind, epoch in noted
        if not epoch or tuple(epoch) >= latest
    ]


def lone_index_bases(listing: SegmentListing) -> list[int]:
    """Return the base offsets of the indexes whose ``.log`` is gone, ascending."""
    return sorted(
        {
            base
            for kind in INDEX_ENTRIES
            for base in listing.base_offsets(kind, lacking=LOG_FILE_SUFFIX)
        }
    )


def lone_indexes(directory: Directory) -> list[LoneIndex]:
    """Return the indexes that list records, and whose ``.log`` is gone, ascending."""
    found = []
    bases = lone_index_bases(directory.segment_listing())
    for base, kind in product(_that_may_prove(directory, bases, None), INDEX_ENTRIES):
        name = file_name(base, kind)
        last = _last_entry(directory, name, must_read=False)
        if last is not None:
            found.append(LoneIndex(name, base, base + int(last["relative_offset"])))
    return found


def first_shown_before(
    directory: Directory, first_offset: int, first_base_offset: int
) -> int | None:
    """Return the first offset that is missing before the first segment, as a lone index shows.

    Of a log whose beginning only the names of its files tell.

    Parameters
    ----------
    first_offset : int
        Records below it were deleted.
    first_base_offset : int
        Of the first segment.
    """
    return next(
        (
            max(one.base_offset, first_offset)
            for one in lone_indexes(directory)
            if one.base_offset < first_base_offset and one.last_offset >= first_offset
        ),
        None,
    )


def _that_may_prove(
    directory: Directory, bases: Sequence[int], base_offset: int | None
) -> Iterator[int]:
    """Yield whose indexes may prove that records are missing; *base_offset* has its ``.log``.

    Those of a segment in whose place a ``.swap`` file comes prove nothing, nor do those behind it:
    a compaction or a split has left records out. Nor does an index whose ``.log`` was deleted.
    """
    for base in bases:
        log_name = file_name(base, LOG_FILE_SUFFIX)
        if directory.exists(f"{log_name}{SWAP_FILE_SUFFIX}"):
            return
        if base == base_offset or not directory.exists(f"{log_name}{DELETED_FILE_SUFFIX}"):
            yield base


def named_behind(
    directory: Directory, base_offset: int, end_offset: int, size_bytes: int
) -> int | None:
    """Return the last offset that the index of the last segment names behind its end, if any.

    Its records may be missing: a ``.log`` that has lost its end looks so. A crash of the system
    looks so too, where the index was on the disk first. Both the offset and the position of the
    entry lie behind the end; of an index that a bit has changed only one does.

    Parameters
    ----------
    end_offset, size_bytes : int
        Where the segment ends; all of it is good batches.
    """
    last = _last_entry(directory, file_name(base_offset, "index"), must_read=False)
    if last is None or last["position"] < size_bytes:
        return None
    offset = base_offset + int(last["relative_offset"])
    return offset if offset >= end_offset else None


def kept_index_text(directory: Directory, name: str) -> str:
    """Say of an index that was kept under another name, *name*, which records it may prove."""
    last = _last_entry(directory, name, must_read=False)
    lists = "may list records that are missing"
    if last is not None:
        offset = int(name[:20]) + int(last["relative_offset"])
        lists = f"names offsets up to {offset}: records up to there may be missing"
    return f"{name}: an index that was kept; it {lists}"


def index_text(directory: Directory, name: str) -> str:
    """Say of an index without a ``.log``, kept or not, which records it names."""
    last = _last_entry(directory, name, must_read=False)
    if last is None:
        return f"{name} cannot be read"
    return f"{name} names offset {int(name[:20]) + int(last['relative_offset'])}"


def missing_of(
    directory: Directory,
    segments: Sequence[Segment],
    contiguous_from: int | None = None,
    log_start_offset: int = 0,
    holding_beyond: Callable[[Segment, int, int], str | None] | None = None,
) -> list[MissingRecords]:
    """Return what is proven to be missing between *segments*, which ascend.

    A segment that cannot be read is left out: its reader reports that. With *holding_beyond*, that
    of `Segments`, also what a file has beyond the base offset of a later segment.
    """
    missing: list[MissingRecords] = []
    lone_bases = lone_index_bases(directory.segment_listing())
    for segment, following in pairwise(segments):
        base, next_base = segment.base_offset, following.base_offset
        if next_base <= log_start_offset:
            continue
        try:
            end = max(_end_of(directory, segment), base, log_start_offset)
        except ResourceError:
            raise
        except SegstoreError:
            continue
        found = missing_between(
            directory, base, end, next_base, contiguous_from, lone_bases=lone_bases
        )
        missing += found
        if end < next_base and not found and holding_beyond is not None:
            with suppress(NotALogError, ReadIOError):  # as above
                holder = holding_beyond(segment, end, next_base)
                missing += [] if holder is None else [MissingRecords(end, next_base, holder)]
    return missing


def note_missing(
    directory: Directory, segment: Segment, following: Segment, *, must_read: bool = False
) -> None:
    """Note what is proven to be missing between two segments, durably.

    To be called before an index of the first one is built again. *must_read* is that of
    `missing_between`.
    """
    base = segment.base_offset
    end = max(_end_of(directory, segment), base)
    found = missing_between(directory, base, end, following.base_offset, must_read=must_read)
    note(directory, found)


def note(directory: Directory, found: Sequence[MissingRecords]) -> None:
    """Note *found*, durably, each with the leader epoch of the batch before it."""
    if not found:
        return
    bases = directory.segment_listing().base_offsets(LOG_FILE_SUFFIX)
    ranges = []
    for first, behind, _ in found:
        before = bases[: bisect_right(bases, first)][-1:]
        epoch = _last_epoch(directory, before[0]) if before else ()
        ranges.append((first, behind, *epoch))
    note_ranges(directory, ranges)


def index_entries(kind: str, data: bytes) -> NDArray[np.void]:
    """Return the whole entries of an ``index`` or a ``timeindex``."""
    layout = np.dtype(INDEX_ENTRIES[kind])
    return np.frombuffer(data, layout, len(data) // layout.itemsize)


def used_entries(entries: NDArray[np.void]) -> NDArray[np.void]:
    """Return *entries* without the zeros of a file that is, or was, preallocated [DUR-80].

    Only the first entry may be for the base offset itself.
    """
    unused = np.flatnonzero(entries["relative_offset"][1:] == 0)
    return entries[: unused[0] + 1] if len(unused) else entries


def is_all_zero(entries: NDArray[np.void]) -> bool:
    """Whether *entries*, as `used_entries` gives them, hold nothing that was ever written."""
    return len(entries) == 0 or (len(entries) == 1 and not entries.tobytes().strip(b"\0"))


def _end_of(directory: Directory, segment: Segment) -> int:
    """Return the offset behind the last batch of a sealed segment, without loading its index."""
    scan = _scan_by_index(directory, segment)
    return segment.read_next_offset()[0] if scan is None else scan.next_offset


def _last_epoch(directory: Directory, base_offset: int) -> tuple[int, ...]:
    """Return the leader epoch of the last batch of a sealed segment; nothing without a batch."""
    context = SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
    segment = Segment(context, base_offset)
    try:
        scan = _scan_by_index(directory, segment)
        if scan is None:
            scan = segment.scan_result(check_crc=False)
        return (scan.last_epoch,) if scan.batches_count else ()
    finally:
        segment.close_quietly()


def _scan_by_index(directory: Directory, segment: Segment) -> ScanResult | None:
    """Scan a segment from its last index entry on; None where that is of no use."""
    name, entry_bytes = file_name(segment.base_offset, "index"), _OFFSET_ENTRY_BYTES
    try:
        size = directory.info(name).size
        entry = directory.read_range(name, size - entry_bytes, entry_bytes) if size else b""
    except ResourceError:
        raise
    except SegstoreError:  # missing, or unreadable: all batches are read
        entry = b""
    position = int.from_bytes(entry[4:], "big")
    if not 0 < position < segment.size_bytes:
        return None
    scan = segment.scan_result(start_position=position, check_crc=False)
    return scan if scan.batches_count else None


def _last_entry(directory: Directory, name: str, *, must_read: bool) -> np.void | None:
    """Return the last entry of an index, kept or not; None where it is missing or no index."""
    try:
        data = directory.read_file(name, MAX_INDEX_BYTES)
    except (LogNotFoundError, NotALogError, LimitExceededError):
        return None
    except ResourceError:
        raise
    except SegstoreError:  # unreadable: it proves nothing
        if must_read:
            raise
        return None
    entries = used_entries(index_entries(name.split(".")[1], data))
    relative = entries["relative_offset"][-2:].tolist()
    if is_all_zero(entries) or relative != sorted(set(relative)):
        return None
    last: np.void = entries[-1]
    return last
