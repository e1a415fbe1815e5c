"""What interrupted operations left in a directory: what an open for writing does with each file.

Source: [LDR-1..LDR-6, DUR-55].

``.deleted`` and ``.cleaned`` files are worthless. ``.swap`` files are the complete result of a
compaction or split whose last renames are missing, unless a ``.cleaned`` file shows that the set is
incomplete. Names that are not ours are never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.log.files.checkpoints import TEMPORARY_FILES
from segstore.log.files.checksum_sidecar import CHECKSUM_SIDECAR_SUFFIX
from segstore.log.files.partition_directory import (
    CLEANED_FILE_SUFFIX,
    DELETED_FILE_SUFFIX,
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    SegmentFile,
    file_name,
    segment_files,
)
from segstore.log.local.segment import Segment
from segstore.log.producers.snapshot_file import SNAPSHOT_FILE_SUFFIX
from segstore.log.recovery.quarantined_file import quarantine_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import SegmentContext, SegmentListing

_TEMPORARY_ENDINGS = (".snapshot.tmp", ".txnindex.tmp", f".{CHECKSUM_SIDECAR_SUFFIX}.tmp")
_KINDS = (LOG_FILE_SUFFIX, *INDEX_FILE_SUFFIXES, SNAPSHOT_FILE_SUFFIX)


class Leftovers(NamedTuple):
    """The files of interrupted operations in one directory."""

    incomplete: tuple[str, ...] = ()
    """What goes first, since it would look like something else alone.

    ``.swap`` files without their ``.cleaned`` files: a complete set. Indexes without the
    ``.log.deleted`` of their segment: proof that its records are missing.
    """
    worthless: tuple[str, ...] = ()
    damaged: tuple[int, ...] = ()
    """Base offsets of ``.swap`` segments that are set aside: the old ones are the better copy."""
    replaced: tuple[SegmentFile, ...] = ()
    """Plain files in whose place the ``.swap`` ones come."""
    renamed: tuple[SegmentFile, ...] = ()
    """``.swap`` files that get their names."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Base offset and next offset of each ``.swap`` segment that gets its name."""
    swapped_end: int = 0
    """Below it offsets may be missing: a broker compacted the log."""

    @property
    def has_swaps(self) -> bool:
        """Whether segments change: what comes then is surveyed again."""
        return bool(self.damaged or self.renamed)


def find_leftovers(listing: SegmentListing, context: SegmentContext) -> Leftovers:
    """Sort out the names in a directory; looks into ``.swap`` files, changes nothing."""
    names = listing.others
    files = segment_files(names)
    swaps = complete_swaps(files)
    going = {
        file.name for file in files if file.suffix in {DELETED_FILE_SUFFIX, CLEANED_FILE_SUFFIX}
    }
    going |= TEMPORARY_FILES.intersection(names)
    going |= {name for name in names if name.endswith(_TEMPORARY_ENDINGS) and name[:20].isdigit()}
    unfinished = (name.removesuffix(".tmp") for name in names if name.endswith(".tmp"))
    going |= {f"{name}.tmp" for name in quarantine_names(unfinished)}  # of what was not cut
    if not going and not swaps:
        return Leftovers()
    incomplete = sorted(
        file.name for file in files if file.suffix == SWAP_FILE_SUFFIX and file not in swaps
    )
    incomplete += sorted(_indexes_of_deleted(files, listing))
    bases = sorted(file.offset for file in swaps if file.kind == LOG_FILE_SUFFIX)
    ends = {base: end_of_swap(base, context) for base in bases}
    ranges = {base: end for base, end in ends.items() if end is not None and end > base}
    damaged = tuple(base for base, end in ends.items() if end is None)
    # without a record; what it would replace may hold some
    empty = {base for base, end in ends.items() if end == base}
    alone = {file.name for file in swaps if not bases or file.offset in empty}
    renamed = sorted(
        file for file in swaps if bases and file.offset not in empty and file.offset not in damaged
    )
    found = Leftovers(
        tuple(incomplete),
        (*sorted(going), *sorted(alone)),
        damaged,
        renamed=tuple(renamed),
        ranges=tuple(ranges.items()),
    )
    return found if not ranges else _with_replaced(found, ranges, listing, context)


def _indexes_of_deleted(files: Iterable[SegmentFile], listing: SegmentListing) -> set[str]:
    """Return the indexes that still have their names, of segments that were being deleted."""
    deleted = {
        file.offset
        for file in files
        if (file.kind, file.suffix) == (LOG_FILE_SUFFIX, DELETED_FILE_SUFFIX)
    }
    return {
        file_name(base, kind)
        for kind in INDEX_FILE_SUFFIXES
        for base in listing.base_offsets(kind, lacking=LOG_FILE_SUFFIX)
        if base in deleted
    }


def _with_replaced(
    found: Leftovers, ranges: dict[int, int], listing: SegmentListing, context: SegmentContext
) -> Leftovers:
    there = {kind: listing.base_offsets(kind) for kind in _KINDS}
    bases = {base for offsets in there.values() for base in offsets}
    replaced = replaced_by(ranges, bases)
    replaced |= _split_into(ranges, there[LOG_FILE_SUFFIX], context)
    old = [SegmentFile(b, kind, "") for kind, offsets in there.items() for b in offsets]
    return found._replace(
        replaced=tuple(sorted(file for file in old if file.offset in replaced)),
        swapped_end=_end_of_swapped(ranges, bases - replaced),
    )


def end_of_swap(base_offset: int, context: SegmentContext) -> int | None:
    """Return the next offset of a ``.swap`` segment, None when it is not wholly good."""
    segment = Segment(context, base_offset, suffix=SWAP_FILE_SUFFIX)
    try:
        result = segment.scan_result(check_order=True, expected_offset=base_offset)
    finally:
        segment.close_quietly()
    return result.next_offset if result.stop == "complete" else None


def _split_into(ranges: dict[int, int], bases: Iterable[int], context: SegmentContext) -> set[int]:
    """Return the segment of which a split made ``.swap`` ones that do not have its name.

    It begins with a gap, and lies before them: the first is named by its first batch [LOC-25].
    No segment of *bases* reaches into *ranges* otherwise.
    """
    before = [base for base in bases if base < min(ranges)]
    return {max(before)} if before and _was_split(max(before), ranges, context) else set()


def _was_split(base_offset: int, ranges: dict[int, int], context: SegmentContext) -> bool:
    """Whether the segment begins with the first record of *ranges*, and ends with the last."""
    segment = Segment(context, base_offset)
    try:
        headers, _ = segment.scan(max_batches=1)
        if not len(headers) or int(headers["base_offset"][0]) != min(ranges):
            return False
        *_, (_, scan) = segment.scan_windows(check_crc=False)  # no index is made for that
    finally:
        segment.close_quietly()
    return scan.stop == "complete" and scan.next_offset == max(ranges.values())


def replaced_by(ranges: dict[int, int], bases: Iterable[int]) -> set[int]:
    """Return which segments the ``.swap`` ones with these ranges of offsets take the place of.

    Each range counts by itself: what lies between two may be of the same set, with its last name
    already [LDR-5].
    """
    return {base for base in bases if any(first <= base < end for first, end in ranges.items())}


def _end_of_swapped(ranges: dict[int, int], bases: Iterable[int]) -> int:
    """Return where the next segment begins; a compaction may have taken its last records."""
    end = max(ranges.values())
    return min((base for base in bases if base >= end), default=end)


def complete_swaps(files: list[SegmentFile]) -> set[SegmentFile]:
    """Return the ``.swap`` files whose set is complete: those below every ``.cleaned`` one.

    Source: [LDR-3].
    """
    cleaned = [file.offset for file in files if file.suffix == CLEANED_FILE_SUFFIX]
    return {
        file
        for file in files
        if file.suffix == SWAP_FILE_SUFFIX and (not cleaned or file.offset < min(cleaned))
    }
