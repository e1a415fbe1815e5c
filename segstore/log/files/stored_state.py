"""Log start, recovery point and clean marker, as an open reads them from the small files.

Source: [DUR-21, DUR-51, DUR-63, DUR-65].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker


@dataclass(frozen=True, slots=True)
class StoredState:
    """What both places say.

    Attributes
    ----------
    log_start_offset : int
        The greater of both, 0 where neither has one.
    recovery_point : int or None
        The smaller of those present; None = check everything [DUR-63].
    parent_is_clean : bool
        The log directory's marker is there: nobody wrote after it, since who writes removes it.
    own_marker : CleanShutdownMarker or None
        To be compared with the segments: a broker leaves it in place.
    warnings : list of str
        Files that could not be read.
    log_start_is_markers : bool
        No checkpoint has it, only the own marker, which goes before the first change.
    recovery_point_is_shown : bool
        No checkpoint has it: the newest snapshot, or the last epoch, of a log that was closed
        cleanly shows how far it reached.
    a_recovery_point : int or None
        The greater of those present: a broker writes one of the two alone.
    """

    log_start_offset: int
    recovery_point: int | None
    parent_is_clean: bool
    own_marker: CleanShutdownMarker | None
    warnings: list[str] = field(default_factory=list)
    log_start_is_markers: bool = False
    recovery_point_is_shown: bool = False
    a_recovery_point: int | None = None

    @property
    def highest_recovery_point(self) -> int | None:
        """The greatest that anybody has noted."""
        points = (self.recovery_point, self.a_recovery_point)
        return max((point for point in points if point is not None), default=None)

    @property
    def safe_below(self) -> int:
        """Everything from the log start up to here had been synced; the log start when unknown."""
        return self.log_start_offset if self.recovery_point is None else self.recovery_point

    def lacks_records_from(self, log_end_offset: int) -> bool:
        """Whether a log that ends there has lost records that had been synced [DUR-51]."""
        point = self.recovery_point
        return point is not None and log_end_offset < point > self.log_start_offset
