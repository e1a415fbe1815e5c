"""Checksum sidecars for segments that were sealed without one: `write_checksum_sidecars`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from segstore.arguments import callback
from segstore.errors import CorruptLogError, CorruptRecordError, IllegalArgumentError
from segstore.log.checksum_sidecar_check import check_sidecar
from segstore.log.directory.profile import Profile
from segstore.log.local.checksum_sidecars import ChecksumSidecars
from segstore.log.log_settings import LogSettings
from segstore.log.log_verifier import all_headers

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.loader.loaded_log import LoadedLog
    from segstore.log.local.segment import Segment
    from segstore.log.open_options import OpenOptions


class SidecarsReport(NamedTuple):
    """What `LogChecksums.write_checksum_sidecars` did.

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


class LogChecksums(LogSettings):
    """What makes the bytes of sealed segments known for good."""

    def _sidecars(self, loaded: LoadedLog, options: OpenOptions) -> ChecksumSidecars | None:
        """Return those that a writer keeps true; a broker and a reader keep none."""
        if self.read_only or self.profile is Profile.KAFKA:
            return None
        there, are_written = loaded.checksum_sidecars, options.checksum_sidecar
        return ChecksumSidecars(self._directory, there, are_written=are_written)

    def write_checksum_sidecars(
        self, progress: Callable[[str, int, int], None] | None = None
    ) -> SidecarsReport:
        """Check every sealed segment, and write the checksum sidecar of each that has none.

        As ``checksum_sidecar=True`` does behind each roll. Appends, truncations and deletions go on
        meanwhile. Source: [DUR-60].

        Parameters
        ----------
        progress : callable or None
            Called with ``"sidecars"``, bytes checked, bytes to check.

        Raises
        ------
        IllegalArgumentError
            The log was opened with ``recovery="kafka"``, which makes no files but Kafka's.
        DiskFullError
            What was written until then stays.
        """
        self._require_writable()
        callback("progress", progress)
        sidecars = self._local_log.checksum_sidecars
        if sidecars is None:
            raise IllegalArgumentError(
                "a log that was opened with recovery='kafka' makes no files but Kafka's",
                found="recovery='kafka'",
                expected="recovery='safe'",
            )
        sealed = self._local_log.segments.as_tuple[:-1]  # first: what is sealed later is not synced
        self._flusher.flush()
        checked, total = 0, sum(segment.size_bytes for segment in sealed)
        report = SidecarsReport(0, 0, [])
        for segment in sealed:
            try:
                report = self._with_sidecar(segment, sidecars, report)
            except (CorruptLogError, CorruptRecordError) as error:
                report.problems.append(str(error))
            checked += segment.size_bytes
            if progress is not None:
                progress("sidecars", checked, total)
        return report

    def _with_sidecar(
        self, segment: Segment, sidecars: ChecksumSidecars, report: SidecarsReport
    ) -> SidecarsReport:
        """Give *segment* a sidecar where it needs one; returns *report* with what was done."""
        found = check_sidecar(
            self._directory, segment.base_offset, partial(all_headers, segment), is_believed=True
        )
        if found is not None and found.fits:
            return report._replace(fitting=report.fitting + 1)
        if found is not None and found.file == segment.name:
            report.problems.append(f"{segment.name}: {found.what}; its sidecar is kept")
            return report
        with self._append_lock:
            self._require_writable()
            if segment not in self._local_log.segments.as_tuple[:-1]:
                return report  # deleted meanwhile, or cut
            sidecars.note_sealed(segment)
        state = None if self._state_file is None else self._state_file.state
        is_written = self._flusher.write_checksum_sidecar(
            segment,
            contiguous=state is not None and segment.base_offset >= state.contiguous_from,
            check_epochs=state is not None and segment.base_offset >= state.epochs_ordered_from,
        )
        return report._replace(written=report.written + is_written)
