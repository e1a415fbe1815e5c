"""What a clean marker knows of a log whose recovery point was lost [DUR-24, DUR-63]."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segstore.log.directory.checkpoints import LogState
    from segstore.log.directory.found_state import FoundState
    from segstore.log.directory.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.directory.log_places import LogPlaces
    from segstore.log.loader.recovery_report import RecoveryReport


def with_marked_point(
    found: FoundState,
    epochs: LeaderEpochFileCache,
    state: LogState | None,
    report: RecoveryReport,
    places: LogPlaces | None = None,
) -> FoundState:
    """Return *found*; a lost recovery point is where the clean marker says that the log ended.

    Everything below it had been synced when that was written [DUR-24], and no writer since has left
    it in place but a broker, which raises the leader epoch or has a recovery point [DUR-63].

    Parameters
    ----------
    places : LogPlaces or None
        Where it is written down: the marker is gone when a writer's open fails. None for a reader.
    """
    marker = found.own_marker
    if found.recovery_point is not None or marker is None or state is None:
        return found
    if marker.latest_epoch != epochs.latest_entry:
        return found
    end = marker.log_end_offset
    report.warnings.append(f"there is no recovery point; the log was closed cleanly at {end}")
    if places is not None:
        places.write_recovery_point(end)
    return replace(found, recovery_point=end)
