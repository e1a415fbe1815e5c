"""What interrupted operations left in a directory, finished or undone at open.

Source: [LDR-1..LDR-6, DUR-55].

``.deleted`` and ``.cleaned`` files are worthless. ``.swap`` files are the complete result of a
compaction or split whose last renames are missing, unless a ``.cleaned`` file shows that the set is
incomplete. Names that are not ours are never touched.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from segstore._core import Barrier, open_segments
from segstore.errors import NotALogError
from segstore.log.files.checkpoints import TEMPORARY_FILES
from segstore.log.files.checksum_sidecar import CHECKSUM_SIDECAR_SUFFIX
from segstore.log.files.log_state_file import allow_gaps_below
from segstore.log.files.partition_directory import (
    CLEANED_FILE_SUFFIX,
    DELETED_FILE_SUFFIX,
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    SegmentFile,
    file_name,
    list_during_writes,
    segment_files,
)
from segstore.log.local.segment import Segment
from segstore.log.recovery.lost_log_files import require_log_file
from segstore.log.recovery.quarantined_file import quarantine_names
from segstore.log.recovery.sidecar_cleanup import SidecarCleanup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore._core import Directory, SegmentContext, SegmentListing
    from segstore.log.recovery.quarantine import Quarantine
    from segstore.log.recovery.recovery_report import RecoveryReport


class Leftovers:
    """Sorts out one directory for a writer, or tells a reader what to look past.

    Parameters
    ----------
    directory : Directory
        The partition's.
    context : SegmentContext
        To look into ``.swap`` files.
    report : RecoveryReport
        Takes the names of what was removed.

    Attributes
    ----------
    swapped_end : int
        Below it offsets may be missing: a broker compacted the log.
    """

    def __init__(
        self, directory: Directory, context: SegmentContext, report: RecoveryReport
    ) -> None:
        self._directory = directory
        self._context = context
        self._report = report
        self.swapped_end = 0

    def clear(self, quarantine: Quarantine, before_change: Callable[[], None]) -> SegmentListing:
        """Finish or undo what was interrupted; returns what is there now.

        *before_change* is called before a ``.swap`` segment takes the place of others; what is only
        garbage changes no log.

        Raises
        ------
        CorruptLogError
            Every ``.log`` file is missing; nothing was removed.
        """
        listing = self._directory.segment_listing()
        names = listing.others
        files = segment_files(names)
        swaps = complete_swaps(files)
        if not any(file.kind == LOG_FILE_SUFFIX for file in swaps):
            require_log_file(self._directory, listing, files)
        going = {
            file.name for file in files if file.suffix in {DELETED_FILE_SUFFIX, CLEANED_FILE_SUFFIX}
        }
        incomplete = {
            file.name for file in files if file.suffix == SWAP_FILE_SUFFIX and file not in swaps
        }
        going |= TEMPORARY_FILES.intersection(names)
        endings = (".snapshot.tmp", ".txnindex.tmp", f".{CHECKSUM_SIDECAR_SUFFIX}.tmp")
        going |= {name for name in names if name.endswith(endings) and name[:20].isdigit()}
        unfinished = (name.removesuffix(".tmp") for name in names if name.endswith(".tmp"))
        going |= {f"{name}.tmp" for name in quarantine_names(unfinished)}  # of what was not cut
        if not going and not swaps:
            return listing
        if incomplete:  # without the .cleaned files they would look complete
            self._remove(incomplete)
            self._directory.sync(Barrier.LEFTOVERS_INCOMPLETE)
        self._remove(going)
        if any(file.kind == "log" for file in swaps):
            before_change()
            self._swap_in(segment_files(self._directory.names()), swaps, quarantine)
        else:
            self._remove(file.name for file in swaps)
        self._directory.sync(Barrier.LEFTOVERS_GONE)
        return self._directory.segment_listing()

    def remove_indexes_without_log(self, listing: SegmentListing | None) -> None:
        """Remove index files that belong to no ``.log`` [LDR-11].

        Not before the log was found to be whole: they show that a ``.log`` was there [DUR-54].

        Parameters
        ----------
        listing : SegmentListing or None
            What is there; None to look.
        """
        if listing is None:
            listing = self._directory.segment_listing()
        for kind in INDEX_FILE_SUFFIXES:
            alone = listing.base_offsets(kind, lacking=LOG_FILE_SUFFIX)
            self._remove(file_name(base_offset, kind) for base_offset in alone)

    def _swap_in(
        self, files: list[SegmentFile], swaps: set[SegmentFile], quarantine: Quarantine
    ) -> None:
        """Put complete ``.swap`` segments in the place of those that they replace.

        Source: [LDR-4..LDR-6].
        """
        ranges = {}
        for base in sorted(file.offset for file in swaps if file.kind == "log"):
            end = self.end_of_swap(base)
            if end is None:  # the old segments are still the better copy
                quarantine.set_aside(base, SWAP_FILE_SUFFIX)
                self._report.warnings.append(f"a damaged .swap segment at {base} was set aside")
                swaps = {file for file in swaps if file.offset != base}
            elif end == base:  # without a record; what it would replace may hold some
                self._remove(file.name for file in swaps if file.offset == base)
                swaps = {file for file in swaps if file.offset != base}
            else:
                ranges[base] = end
        if ranges:
            bases = {file.offset for file in files if not file.suffix}
            logs = {file.offset for file in files if not file.suffix and file.kind == "log"}
            replaced = replaced_by(ranges, bases) | self._split_into(ranges, logs)
            allow_gaps_below(self._directory, end_of_swapped(ranges, bases - replaced))
            old = {file for file in files if not file.suffix and file.offset in replaced}
            there = SidecarCleanup(self._directory, self._directory.names(), self._report)
            there.remove({file.offset for file in old})
            self._remove(file.name for file in old)
            self._directory.sync(Barrier.LEFTOVERS_REPLACED)
        for file in sorted(swaps):
            self._directory.rename(file.name, file._replace(suffix="").name)

    def end_of_swap(self, base_offset: int) -> int | None:
        """Return the next offset of a ``.swap`` segment, None when it is not wholly good."""
        segment = Segment(self._context, base_offset, suffix=SWAP_FILE_SUFFIX)
        try:
            _, result = segment.scan(check_order=True, expected_offset=base_offset, table=False)
        finally:
            segment.close_quietly()
        return result.next_offset if result.stop == "complete" else None

    def _split_into(self, ranges: dict[int, int], bases: Iterable[int]) -> set[int]:
        """Return the segment of which a split made ``.swap`` ones that do not have its name.

        It begins with a gap, and lies before them: the first is named by its first batch [LOC-25].
        No segment of *bases* reaches into *ranges* otherwise.
        """
        before = [base for base in bases if base < min(ranges)]
        return {max(before)} if before and self._was_split(max(before), ranges) else set()

    def _was_split(self, base_offset: int, ranges: dict[int, int]) -> bool:
        """Whether the segment begins with the first record of *ranges*, and ends with the last."""
        segment = Segment(self._context, base_offset)
        try:
            headers, _ = segment.scan(max_batches=1)
            if not len(headers) or int(headers["base_offset"][0]) != min(ranges):
                return False
            *_, (_, scan) = segment.scan_windows(check_crc=False)  # no index is made for that
        finally:
            segment.close_quietly()
        return scan.stop == "complete" and scan.next_offset == max(ranges.values())

    def _remove(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            try:
                self._directory.unlink(name, missing_ok=True)
            except NotALogError:  # a directory of that name: not ours [LDR-1, DUR-42]
                self._report.warnings.append(f"{name} is no file, and was left where it is")
            else:
                self._report.removed.append(name)

    def segments_for_reading(self) -> list[Segment]:
        """Return the segments as they will be once a writer has opened the log; changes nothing."""
        listing, bases = list_during_writes(self._directory)
        ranges = {}
        for file in sorted(complete_swaps(segment_files(listing.others))):
            if file.kind != "log":
                continue
            next_offset = self.end_of_swap(file.offset)
            if next_offset is None:
                self._report.warnings.append(f"a damaged .swap segment at {file.offset} is ignored")
            elif next_offset > file.offset:
                ranges[file.offset] = next_offset
        if ranges:
            first, end = min(ranges), max(ranges.values())
            self._report.warnings.append(
                f"a compaction was interrupted: offsets {first} to {end} are read from .swap files"
            )
            replaced = replaced_by(ranges, bases) | self._split_into(ranges, bases)
            bases = array("q", sorted({*bases} - replaced))
            self.swapped_end = end_of_swapped(ranges, bases)
        swapped_in = [Segment(self._context, base, suffix=SWAP_FILE_SUFFIX) for base in ranges]
        return open_segments(Segment, self._context, bases) + swapped_in


def replaced_by(ranges: dict[int, int], bases: Iterable[int]) -> set[int]:
    """Return which segments the ``.swap`` ones with these ranges of offsets take the place of.

    Each range counts by itself: what lies between two may be of the same set, with its last name
    already [LDR-5].
    """
    return {base for base in bases if any(first <= base < end for first, end in ranges.items())}


def end_of_swapped(ranges: dict[int, int], bases: Iterable[int]) -> int:
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
