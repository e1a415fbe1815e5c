"""What a clean marker knows of a log whose recovery point was lost [DUR-24, DUR-63]."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from segstore._core import SegmentContext
from segstore.errors import CorruptLogError, CorruptRecordError, DiskFullError
from segstore.log.directory.checkpoints import LogState
from segstore.log.directory.leader_epoch_file_cache import UNREADABLE_EPOCHS, LeaderEpochFileCache
from segstore.log.loader.epoch_changes import fits
from segstore.log.loader.leftovers import Leftovers
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.directory.clean_shutdown_marker import CleanShutdownMarker
    from segstore.log.directory.found_state import FoundState
    from segstore.log.directory.log_places import LogPlaces
    from segstore.log.loader.recovery_report import RecoveryReport


def with_marked_point(
    found: FoundState,
    epochs: LeaderEpochFileCache | None,
    state: LogState | None,
    report: RecoveryReport,
) -> FoundState:
    """Return *found*; a lost recovery point is where the clean marker says that the log ended.

    Everything below it had been synced when that was written [DUR-24], and no writer since has left
    it in place but a broker, which raises the leader epoch or has a recovery point [DUR-63].

    Parameters
    ----------
    epochs : LeaderEpochFileCache or None
        None where the checkpoint is lost too: then nothing speaks of a broker.
    state : LogState or None
        What ``.segstore`` says, if anything.
    """
    marker = found.own_marker
    if found.recovery_point is not None or marker is None or state is None:
        return found
    if epochs is not None and marker.latest_epoch != epochs.latest_entry:
        return found
    end = marker.log_end_offset
    report.warnings.append(f"there is no recovery point; the log was closed cleanly at {end}")
    return replace(found, recovery_point=end)


def settled_recovery_point(
    found: FoundState, places: LogPlaces, report: RecoveryReport
) -> FoundState:
    """Return *found* as `with_marked_point`, and write down what it says.

    That is done while the marker stands: when an open fails behind that, nothing else says it. On a
    full disk it may be left to the next clean stop where the log is all that was closed: then there
    is no damage that only the point would tell from an end that was not synced [DUR-8, DUR-30].
    """
    marker = found.own_marker
    if found.recovery_point is not None or marker is None:
        return found
    directory = places.directory
    state = LogState.read(directory)
    if state is None or not state.fits(marker.latest_epoch):
        return found
    try:
        epochs = LeaderEpochFileCache.read(directory, writable=False, believes_empty=False)
    except UNREADABLE_EPOCHS:
        epochs = None
    settled = with_marked_point(found, epochs, state, report)
    if settled.recovery_point is not None:
        try:
            places.write_recovery_point(settled.recovery_point)
        except DiskFullError as error:
            if epochs is None or not _is_as_closed(marker, directory, epochs, report):
                raise
            report.warnings.append(f"the recovery point could not be written down: {error}")
    return settled


def _is_as_closed(
    marker: CleanShutdownMarker,
    directory: Directory,
    epochs: LeaderEpochFileCache,
    report: RecoveryReport,
) -> bool:
    """Whether all files are there as the marker says, and the last ends in a whole batch."""
    context = SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
    leftovers = Leftovers(directory, context, deepcopy(report))
    segments = sorted(leftovers.segments_for_reading(), key=lambda segment: segment.base_offset)
    try:
        if not fits(marker, segments, epochs):
            return False
        return segments[-1].read_next_offset() == (marker.log_end_offset, True)
    except (CorruptRecordError, CorruptLogError):
        return False
    finally:
        for segment in segments:
            segment.close_quietly()
