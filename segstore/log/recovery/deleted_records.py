"""Segments below the log start: their records were deleted, and acked as such [DUR-18]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.errors import ResourceError, SegstoreError
from segstore.log.files.checkpoints import LOG_STATE
from segstore.log.local.segments import floor_index
from segstore.log.recovery.quarantined_file import base_offset_of
from segstore.log.recovery.restart_marker import (
    RestartMarker,
    RestartMarkerContent,
    missing_files_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.quarantine import Quarantine
    from segstore.log.recovery.recovery_report import RecoveryReport


def count_deleted(segments: list[Segment], log_start_offset: int) -> int:
    """Count the first segments that end at or below the log start.

    By what is in them: one may reach into the next, which is damage that is told later [DUR-54].
    """
    floor = floor_index(segments, log_start_offset)
    for index, segment in enumerate(segments[:floor]):
        try:
            end, _ = segment.read_next_offset()
        except ResourceError:
            raise
        except SegstoreError:
            return index
        if end > log_start_offset:
            return index
    return floor


class DeletedSegments:
    """Those below the log start of a log that is opened: they go when it is accepted.

    Where the log start lies above the log end, that is all there is. Where nothing says that it was
    deleted it is set aside: a log start that is not what was written would look the same. A mark
    tells until that is done: what a crash or a failed call leaves of them would count as deleted,
    or as a log that has lost all its files [DUR-54].

    Parameters
    ----------
    directory : Directory
        The partition's.
    log_start_offset : int
        Of the log.
    quarantine : Quarantine
        Takes what is set aside.
    report : RecoveryReport
        Filled in.

    Attributes
    ----------
    segments : list of Segment
        Ascending.
    was_begun : bool
        An open was not done with that, and could not tell of it.
    lost : str
        What of that is not here any more, a sentence.
    mark : RestartMarker
        Where it stands, the open removes it at its end.

    Raises
    ------
    CorruptLogError
        That open found a log start above this one.
    """

    def __init__(
        self,
        directory: Directory,
        log_start_offset: int,
        quarantine: Quarantine,
        report: RecoveryReport,
    ) -> None:
        self.segments: list[Segment] = []
        self._directory = directory
        self._log_start_offset = log_start_offset
        self._quarantine = quarantine
        self._report = report
        self.mark = RestartMarker(directory)
        self.mark.require_same_log(log_start_offset)
        self.was_begun = self.mark.stands
        self.lost = ""
        if self.mark.missing:
            self.lost = f"{missing_files_text(self.mark.missing)}: {self.mark.missing_records()}"
        report.set_aside += self.mark.beside

    def log_ends_at(self, offset: int) -> None:
        """Remove them, where the log start lies within a log that is good up to *offset*."""
        if offset >= self._log_start_offset and not self.mark.stands:
            self._remove(self.segments)

    def finish(self, *, were_deleted: bool) -> None:
        """Remove them; what an open before was setting aside is set aside."""
        if were_deleted or not self.mark.stands:
            self._remove(self.segments)
        else:
            self._set_aside(self.segments, 0)

    def restart(
        self,
        segments: list[Segment],
        make_segment: Callable[[], Segment],
        log_end_offset: int,
        *,
        were_deleted: bool,
    ) -> None:
        """Put one empty segment in the place of all. Source: [LDR-25, LDR-26].

        Where there is none any more their removal comes to the disk first: who emptied the log may
        have died before its sync, and one that came back would lie beside the new one [DUR-18].
        """
        segments[:0] = self.segments
        self.segments = []
        if not segments and self._directory.exists(LOG_STATE):
            self._directory.sync(Barrier.EMPTYING_FIRST)
        if segments and not were_deleted:
            self._set_aside(segments, log_end_offset)
        created = make_segment()  # its name is there before the mark goes: the epochs are written
        self._remove(segments)
        segments[:] = [created]

    def _remove(self, segments: list[Segment]) -> None:
        """Remove the files of *segments*.

        The names of the segments behind them come first: they may be as new as the crash [DUR-54].
        """
        if segments:
            self._directory.sync(Barrier.RECOVERY_NAMES)
        for segment in segments:
            segment.delete_files()
            segment.close_quietly()
            self._report.removed.append(segment.name)
        if segments:
            self._directory.sync(Barrier.LEFTOVERS_DELETED)
        segments.clear()

    def _set_aside(self, segments: list[Segment], log_end_offset: int) -> None:
        """Take *segments* out, highest first: what is left is a prefix at any time."""
        full = [segment.base_offset for segment in segments if segment.size_bytes > 0]
        names = self._named(full, log_end_offset)
        for segment in reversed(segments):
            if segment.base_offset in names:
                self._quarantine.set_aside(segment.base_offset, name=names[segment.base_offset])
            else:
                segment.delete_files()
            segment.close_quietly()
        if segments:
            self._directory.sync(Barrier.RECOVERY_SET_ASIDE)
        segments.clear()

    def _named(self, base_offsets: list[int], log_end_offset: int) -> dict[int, str]:
        """Return what these segments will be called, by base offset; the mark has it then.

        Those that an open before has named keep their names, unless these were given away.
        """
        before = self.mark.content
        names = {} if before is None else {base_offset_of(name): name for name in before.names}
        for base_offset in base_offsets:
            name = names.get(base_offset)
            if name is None or self._directory.exists(name):
                names[base_offset] = self._quarantine.free_name(base_offset)
        if before is not None:
            log_end_offset = max(log_end_offset, before.log_end_offset)
        named = tuple(names[base_offset] for base_offset in sorted(names))
        if before is None or before.names != named:
            self.mark.set(RestartMarkerContent(self._log_start_offset, log_end_offset, named))
        return {base_offset: names[base_offset] for base_offset in base_offsets}
