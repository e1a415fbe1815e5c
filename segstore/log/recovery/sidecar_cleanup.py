"""Removes checksum sidecars that may be stale, when a log is opened for writing [DUR-60].

Before anything of the segment is changed, and durably: a crash leaves none that speaks of other
bytes. Taking one away is always right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.errors import NotALogError
from segstore.log.files.checksum_sidecar import sidecar_base_offset, sidecar_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from segstore._core import Directory
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.recovery_report import RecoveryReport


class SidecarCleanup:
    """Those of one directory.

    Parameters
    ----------
    directory : Directory
        The partition's.
    names : iterable of str
        What is there.
    report : RecoveryReport
        Takes the names of those that are removed.

    Attributes
    ----------
    base_offsets : set of int
        Of the segments whose sidecar is kept.
    """

    def __init__(self, directory: Directory, names: Iterable[str], report: RecoveryReport) -> None:
        found = {base for name in names if (base := sidecar_base_offset(name)) is not None}
        self.base_offsets = found
        self._directory = directory
        self._report = report

    def keep_valid(self, segments: list[Segment], *, is_known: bool) -> None:
        """Remove those of no segment, and of the active one; all where a broker may have written.

        Parameters
        ----------
        segments : list of Segment
            Of the log as it was found.
        is_known : bool
            This library alone has written since its ``.segstore`` was [DUR-64].
        """
        if self.base_offsets:
            sealed = {segment.base_offset for segment in segments[:-1]} if is_known else set()
            self.remove(self.base_offsets - sealed)

    def remove_from(self, base_offset: int) -> None:
        """Remove those of *base_offset* and above."""
        self.remove([one for one in self.base_offsets if one >= base_offset])

    def remove(self, base_offsets: Collection[int]) -> None:
        """Remove those that are there of these, durably."""
        gone = sorted(self.base_offsets.intersection(base_offsets))
        for base_offset in gone:
            name = sidecar_name(base_offset)
            try:
                self._directory.unlink(name, missing_ok=True)
            except NotALogError:  # a directory of that name: not ours [DUR-42]
                self._report.warnings.append(f"{name} is no file, and was left where it is")
            else:
                self._report.removed.append(name)
        if gone:
            self._directory.sync(Barrier.LEFTOVERS_GONE)
            self.base_offsets.difference_update(gone)
