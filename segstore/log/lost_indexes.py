"""Index files that are missing, made anew [DUR-8]; Kafka does so for ``.index`` only [LDR-15]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import CorruptLogError
from segstore.log.overflow_split import is_overflowed
from segstore.log.partition_directory import INDEX_ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore._core import Directory, ScanResult
    from segstore.log.recovery_report import RecoveryReport
    from segstore.log.segment import Segment


class LostIndexes:
    """Finds and rebuilds the index files that a directory lacks.

    Parameters
    ----------
    directory : Directory
        The partition's.
    report : RecoveryReport
        Knows what recovery has rebuilt already, and takes what is rebuilt here.
    stems : mapping
        What was there before anything was opened, by its extension.
    """

    def __init__(
        self, directory: Directory, report: RecoveryReport, stems: Mapping[str, set[str]]
    ) -> None:
        self._directory = directory
        self._report = report
        self._stems = stems
        self._whole = set.intersection(*(stems[kind] for kind in INDEX_ENTRY_BYTES))

    def check(self, segments: list[Segment]) -> None:
        """Raise, before recovery changes anything, what would keep indexes from being made anew.

        Raises
        ------
        CorruptLogError
            A segment that lost an index does not consist of batches.
        """
        for segment in segments:
            if self._of(segment, check_sizes=True):
                base = segment.base_offset
                _, scan = segment.scan(check_order=True, expected_offset=base, table=False)
                if not is_overflowed(segment, scan):
                    _check_whole(segment, scan)

    def rebuild(self, segments: list[Segment]) -> list[Segment]:
        """Make anew what is missing; returns the segments that have to be split first [DUR-97].

        Of a log that was closed cleanly the names are enough [DUR-51]: an index that cannot be is
        met when it is first used, and made anew when the segment is sealed or closed [DUR-53].
        """
        rebuilt = set(self._report.rebuilt)
        overflowed = []
        check_sizes = not self._report.clean
        for segment in segments:
            lost = [
                name for name in self._of(segment, check_sizes=check_sizes) if name not in rebuilt
            ]
            if not lost:
                continue
            base = segment.base_offset
            _, recovery = segment.recover(cut=False, expected_offset=base, table=False)
            if is_overflowed(segment, recovery.scan):
                overflowed.append(segment)
                continue
            _check_whole(segment, recovery.scan)
            if segment is not segments[-1]:
                segment.flush(indexes=True)
            self._report.rebuilt += lost
        return overflowed

    def _of(self, segment: Segment, *, check_sizes: bool) -> list[str]:
        stem = f"{segment.base_offset:020d}"
        if (stem in self._whole and not check_sizes) or segment.size_bytes == 0:
            return []
        return [
            f"{stem}.{kind}"
            for kind, entry_bytes in INDEX_ENTRY_BYTES.items()
            if stem not in self._stems[kind]
            or self._directory.info(f"{stem}.{kind}").size % entry_bytes
        ]


def _check_whole(segment: Segment, scan: ScanResult) -> None:
    if scan.stop != "complete":
        raise CorruptLogError(
            f"cannot be indexed: {scan.why or 'it ends in an incomplete batch'}",
            file=segment.name,
            position=scan.valid_bytes,
        ) from scan.why
