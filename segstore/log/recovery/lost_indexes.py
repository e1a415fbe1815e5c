"""Index files that are missing, or cannot be one, made again [DUR-8].

Kafka does so for a missing ``.index`` only [LDR-15].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.errors import CorruptLogError
from segstore.log.files.partition_directory import INDEX_ENTRY_BYTES, LOG_FILE_SUFFIX, file_name
from segstore.log.local.missing_records import note_missing
from segstore.log.recovery.overflow_split import is_overflowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory, ScanResult, SegmentListing
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.recovery_report import RecoveryReport


class LostIndexes:
    """Finds and rebuilds the index files that a directory lacks, or that are no index.

    Parameters
    ----------
    directory : Directory
        The partition's.
    report : RecoveryReport
        Knows what recovery has rebuilt already, and takes what is rebuilt here.
    listing : SegmentListing
        What was there before anything was opened.
    most_bytes : int
        A larger file is no index, and is not read.
    """

    def __init__(
        self,
        directory: Directory,
        report: RecoveryReport,
        listing: SegmentListing,
        most_bytes: int,
    ) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._report = report
        self._missing = {
            kind: frozenset(listing.base_offsets(LOG_FILE_SUFFIX, lacking=kind))
            for kind in INDEX_ENTRY_BYTES
        }

    def check(self, segments: list[Segment]) -> None:
        """Raise, before recovery changes anything, what would keep indexes from being made anew.

        Raises
        ------
        CorruptLogError
            A segment that lost an index does not consist of batches.
        """
        for segment in segments:
            if self._of(segment):
                base = segment.base_offset
                _, scan = segment.scan(check_order=True, expected_offset=base, table=False)
                if not is_overflowed(segment, scan):
                    _check_whole(segment, scan)

    def rebuild(self, segments: list[Segment], before_change: Callable[[], None]) -> list[Segment]:
        """Make anew what is missing; returns the segments that have to be split first [DUR-97].

        *before_change* is called before the first of them.

        After a clean close the names are enough, and for the active segment the look at its end
        [DUR-51]. Any other index that cannot be one is met when it is first used, and is made again
        when the segment is sealed or closed [DUR-53]. Damaged batches stop no clean open that does
        not miss a file: look-ups go without the index then.
        """
        rebuilt = set(self._report.rebuilt)
        overflowed = []
        for segment in self._with_missing(segments) if self._report.clean else segments:
            lost = [name for name in self._of(segment) if name not in rebuilt]
            if not lost:
                continue
            before_change()
            note_missing(self._directory, segments[segments.index(segment) :][:2])
            base = segment.base_offset
            _, recovery = segment.recover(cut_at=-1, expected_offset=base, table=False)
            if is_overflowed(segment, recovery.scan):
                overflowed.append(segment)
                continue
            if recovery.scan.stop != "complete" and self._report.clean and not self._misses(base):
                continue
            _check_whole(segment, recovery.scan)
            if segment is not segments[-1]:
                segment.flush(Barrier.RECOVERY_RECORDS, indexes=True)
            self._report.rebuilt += lost
        return overflowed

    def _with_missing(self, segments: list[Segment]) -> list[Segment]:
        return [one for one in segments[:-1] if self._misses(one.base_offset)] + segments[-1:]

    def _misses(self, base_offset: int) -> bool:
        return any(base_offset in missing for missing in self._missing.values())

    def _of(self, segment: Segment) -> list[str]:
        base = segment.base_offset
        if segment.size_bytes == 0:
            return []
        names = {file_name(base, kind): kind for kind in INDEX_ENTRY_BYTES}
        return [
            name
            for name, kind in names.items()
            if base in self._missing[kind]
            or segment.index_damaged
            or not self._may_be_index(name, kind)
        ]

    def _may_be_index(self, name: str, kind: str) -> bool:
        size = self._directory.info(name).size
        return size <= self._most_bytes and size % INDEX_ENTRY_BYTES[kind] == 0


def _check_whole(segment: Segment, scan: ScanResult) -> None:
    if scan.stop != "complete":
        raise CorruptLogError(
            f"cannot be indexed: {scan.why or 'it ends in an incomplete batch'}",
            file=segment.name,
            position=scan.valid_bytes,
            found=f"{scan.valid_bytes} bytes of batches",
            expected=f"{segment.size_bytes} bytes, the size of the file",
        ) from scan.why
