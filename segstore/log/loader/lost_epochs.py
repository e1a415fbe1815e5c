"""What ``.segstore`` is worth where the leader-epoch checkpoint was lost [DUR-8, DUR-64].

The latest entry of that checkpoint tells whether a broker wrote here since. Where it was made anew
of the batches only those that are left tell it: they may be what a crash leaves of the log that
``.segstore`` speaks of, or not. A broker may still have deleted or compacted, and appended nothing;
but not above the recovery point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from segstore.errors import SegstoreError
from segstore.log.directory.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE
from segstore.log.directory.ways_out import missing_runs
from segstore.log.loader.log_begin import known_log_start
from segstore.log.loader.tail_or_damage import NO_DAMAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.directory.checkpoints import LogState
    from segstore.log.directory.found_state import FoundState
    from segstore.log.directory.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.loader.recovery_report import RecoveryReport
    from segstore.log.local.segment import Segment


def believed_state(
    state: LogState | None,
    segments: Sequence[Segment],
    found: FoundState,
    epochs: LeaderEpochFileCache,
) -> LogState | None:
    """Return what of *state* holds, None when nothing does.

    Where the epochs were lost that is: no offset is missing from the recovery point on, nor from
    the first segment. What is missing below it `note_maybe_missing` tells.
    """
    if state is None or state.fits(epochs.latest_entry):
        return state
    if not segments or not _may_be_left_of(state, found, epochs):
        return None
    begin = max(state.contiguous_from, _hole_ends_log_from(segments, found))
    return replace(state, contiguous_from=begin)


def note_maybe_missing(
    state: LogState | None,
    segments: Sequence[Segment],
    found: FoundState,
    epochs: LeaderEpochFileCache,
    report: RecoveryReport,
) -> None:
    """Report records that a lost epoch checkpoint may hide the loss of [DUR-7].

    Parameters
    ----------
    state : LogState or None
        What ``.segstore`` says, as it stands.
    segments : sequence of Segment
        From the log start on.
    """
    if state is None or not _may_be_left_of(state, found, epochs):
        return
    only_crashes_from = _hole_ends_log_from(segments, found)
    if segments and state.fits(epochs.latest_entry):
        only_crashes_from = segments[0].base_offset  # what is missing behind it is an error
    runs = _missing_runs(state, segments, found, only_crashes_from)
    if not runs:
        return
    report.maybe_missing = f"{missing_runs(runs)}, unless deleted, or compacted away by a broker"
    report.warnings.append(
        f"{LEADER_EPOCH_CHECKPOINT} was lost, and by {LOG_STATE} batches with it:"
        f" {report.maybe_missing}; no open behind one for writing tells that again"
    )


def _may_be_left_of(state: LogState, found: FoundState, epochs: LeaderEpochFileCache) -> bool:
    """Whether a loss, no broker, may be why the batches are not what *state* speaks of."""
    end = epochs.made_anew_to
    return end is not None and state.may_have_left(
        epochs.entries, known_log_start(state, found), end
    )


def _hole_ends_log_from(segments: Sequence[Segment], found: FoundState) -> int:
    """Return from where on only a crash can have made a hole."""
    return max(found.highest_recovery_point or 0, segments[0].base_offset if segments else 0)


def _missing_runs(
    state: LogState, segments: Sequence[Segment], found: FoundState, only_crashes_from: int
) -> list[tuple[int, int]]:
    """Return what is missing before and between segments, first offset and the next one.

    From *only_crashes_from* on recovery tells it: a hole ends the log there, or is an error.
    """
    end, runs = max(known_log_start(state, found), state.contiguous_from), []
    for segment in segments:
        if segment.base_offset > end:
            if end >= only_crashes_from:
                break
            runs.append((end, segment.base_offset))
        end = max(end, segment.base_offset)
        try:
            end = max(end, segment.read_next_offset()[0])
        except NO_DAMAGE:
            raise
        except SegstoreError:
            return runs  # whoever reads it tells; where it ended nobody knows
    return runs
