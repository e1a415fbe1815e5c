"""Checksum sidecars for segments that were sealed without one [DUR-60]."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import CorruptLogError, CorruptRecordError
from segstore.log.check.checksum_sidecar_check import all_headers, check_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import ChangeLock
    from segstore.log.flusher import Flusher
    from segstore.log.local.checksum_sidecars import ChecksumSidecars
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.log_metadata import LogMetadata


class SidecarsReport(NamedTuple):
    """What `UnifiedLog.write_checksum_sidecars` did.

    Attributes
    ----------
    written : int
        Segments that got a sidecar, or a new one for one that could not be read.
    fitting : int
        Those that had one, which says what they are.
    problems : list of str
        Why others got none: a segment is not whole, or is not what its sidecar says, which is kept.
    """

    written: int
    fitting: int
    problems: list[str]


class SidecarWriting:
    """Checks sealed segments, and writes the sidecars that are missing."""

    def __init__(
        self,
        changing: ChangeLock,
        local_log: LocalLog,
        sidecars: ChecksumSidecars,
        metadata: LogMetadata,
        flusher: Flusher,
    ) -> None:
        self._changing = changing
        self._local_log = local_log
        self._sidecars = sidecars
        self._metadata = metadata
        self._flusher = flusher

    def write(self, progress: Callable[[str, int, int], None] | None) -> SidecarsReport:
        """Do it; appends, truncations and deletions go on meanwhile."""
        sealed = self._local_log.segments.as_tuple[:-1]  # first: what is sealed later is not synced
        self._flusher.flush()
        checked, total = 0, sum(segment.size_bytes for segment in sealed)
        report = SidecarsReport(0, 0, [])
        for segment in sealed:
            try:
                report = self._with_sidecar(segment, report)
            except (CorruptLogError, CorruptRecordError) as error:
                report.problems.append(str(error))
            checked += segment.size_bytes
            if progress is not None:
                progress("sidecars", checked, total)
        return report

    def _with_sidecar(self, segment: Segment, report: SidecarsReport) -> SidecarsReport:
        """Give *segment* a sidecar where it needs one; returns *report* with what was done."""
        directory = self._local_log.directory
        found = check_sidecar(
            directory, segment.base_offset, partial(all_headers, segment), is_believed=True
        )
        if found is not None and found.fits:
            return report._replace(fitting=report.fitting + 1)
        if found is not None and found.file == segment.name:
            report.problems.append(f"{segment.name}: {found.what}; its sidecar is kept")
            return report
        with self._changing:
            if segment not in self._local_log.segments.as_tuple[:-1]:
                return report  # deleted meanwhile, or cut
            self._sidecars.note_sealed(segment)
        state_file = self._metadata.state_file
        state = None if state_file is None else state_file.state
        is_written = self._flusher.write_checksum_sidecar(
            segment,
            contiguous=state is not None and segment.base_offset >= state.contiguous_from,
            check_epochs=state is not None and segment.base_offset >= state.epochs_ordered_from,
        )
        return report._replace(written=report.written + is_written)
