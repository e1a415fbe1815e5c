"""What is known of lost records where the leader-epoch checkpoint was lost [DUR-8, DUR-64].

The latest entry of that checkpoint tells whether a broker wrote here since. Where it was made anew
of the batches only those that are left tell it: they may be what a crash leaves of the log that
``.segstore`` speaks of, or not. A broker may still have deleted or compacted, and appended nothing;
but not above the recovery point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import SegstoreError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE
from segstore.log.files.recovery_advice import missing_runs
from segstore.log.recovery.log_beginning import known_log_start
from segstore.log.recovery.lost_state import begin_without_state, lost_state
from segstore.log.recovery.refusals import NO_DAMAGE
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.files.checkpoints import LogState
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.found_epochs import FoundEpochs
    from segstore.log.recovery.log_beginning import EndOf
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.recovery.survey import SmallFiles

_BY_A_BROKER: Final = "deleted, or compacted away by a broker"


def believed_state(
    state: LogState | None,
    segments: Sequence[Segment],
    found: StoredState,
    epochs: FoundEpochs,
) -> LogState | None:
    """Return what of *state* holds, None when nothing does.

    Where the epochs were lost that is: no offset is missing from the recovery point on, nor from
    the first segment. What is missing below it `note_maybe_missing` tells.
    """
    if state is None or state.fits(epochs.noted_entry):
        return state
    if not segments or not _may_be_left_of(state, found, epochs):
        return None
    if _gaps_of_others(state, epochs):
        return None
    begin = max(state.contiguous_from, _hole_ends_log_from(segments, found))
    return replace(state, contiguous_from=begin)


def note_maybe_missing(  # noqa: PLR0913 - what an open knows
    small: SmallFiles,
    state: LogState | None,
    segments: Sequence[Segment],
    found: StoredState,
    epochs: FoundEpochs,
    report: RecoveryReport,
    end_of: EndOf,
    *,
    is_for_writing: bool,
) -> None:
    """Report records that a lost small file may hide the loss of [DUR-7].

    Parameters
    ----------
    state : LogState or None
        What ``.segstore`` says, as it stands.
    segments : sequence of Segment
        From the log start on.
    is_for_writing : bool
        An error of the disk is raised: no later open will know. A reader warns of it.
    """
    if state is None:
        doubt = _without_state(small, found, epochs, report) if segments else None
    else:
        doubt = _without_epochs(state, segments, found, epochs) or _with_other_epochs(
            state, found, epochs
        )
    if doubt is None:
        return
    why, runs, is_reported = doubt.why, doubt.gaps, doubt.is_reported
    try:
        runs = sorted(runs + _missing_runs(segments, doubt.begin, doubt.only_crashes_from, end_of))
    except NO_DAMAGE as error:
        if is_for_writing:
            raise
        why, is_reported = f"{why}; which records are missing cannot be read: {error}", True
    if runs:
        report.maybe_missing = f"{missing_runs(runs)}, unless {doubt.others}"
        report.maybe_missing_ranges = runs
        why += f": {report.maybe_missing}; after an open for writing no open reports this again"
    if runs or is_reported:
        report.warnings.append(why)


class _Doubt(NamedTuple):
    """What is not known any more, and what may be looked for all the same."""

    why: str
    begin: int
    only_crashes_from: int
    gaps: list[tuple[int, int]]
    others: str
    """What else takes records away."""
    is_reported: bool
    """Also where no record is missing."""


def _without_state(
    small: SmallFiles, found: StoredState, epochs: FoundEpochs, report: RecoveryReport
) -> _Doubt | None:
    lost = lost_state(small, found)
    if lost is None:
        return None
    report.lost_state = f"{LOG_STATE} {lost}"
    why = f"{report.lost_state}: no file shows any more from which offset on the log is complete"
    others = "deleted, compacted away by a broker, or in remote storage alone"
    return _Doubt(
        why, begin_without_state(found, epochs.told_entries), MAX_LONG, [], others, is_reported=True
    )


def _without_epochs(
    state: LogState,
    segments: Sequence[Segment],
    found: StoredState,
    epochs: FoundEpochs,
) -> _Doubt | None:
    if not _may_be_left_of(state, found, epochs):
        return None
    only_crashes_from = _hole_ends_log_from(segments, found)
    if gaps := _gaps_of_others(state, epochs):
        only_crashes_from = MAX_LONG  # nothing of the file is believed
    elif segments and state.fits(epochs.noted_entry):
        only_crashes_from = segments[0].base_offset  # what is missing behind it is an error
    why = f"{LEADER_EPOCH_CHECKPOINT} was lost, and {LOG_STATE} shows that batches were too"
    begin = max(known_log_start(state, found), state.contiguous_from)
    more = 0 if epochs.lost is None else epochs.lost.gaps_count - len(gaps)
    gaps = [(max(first, begin), end) for first, end in gaps if end > begin]
    others = _BY_A_BROKER
    if gaps and more:
        others = f"{others}; and up to {more} more gaps before these"
    return _Doubt(why, begin, only_crashes_from, gaps, others, is_reported=False)


def _with_other_epochs(state: LogState, found: StoredState, epochs: FoundEpochs) -> _Doubt | None:
    """A broker may have been here, or the checkpoint is not what was written."""
    if epochs.contradiction is None:
        return None
    begin = max(known_log_start(state, found), state.contiguous_from)
    why = f"{LEADER_EPOCH_CHECKPOINT} is not what was written, or a broker wrote to the log"
    return _Doubt(why, begin, MAX_LONG, [], _BY_A_BROKER, is_reported=False)


def _may_be_left_of(state: LogState, found: StoredState, epochs: FoundEpochs) -> bool:
    """Whether a loss, no broker, may be why the batches are not what *state* speaks of."""
    anew = epochs.lost
    return anew is not None and state.may_have_left(
        epochs.entries, known_log_start(state, found), anew.log_end_offset
    )


def _gaps_of_others(state: LogState, epochs: FoundEpochs) -> list[tuple[int, int]]:
    """Return gaps inside files: a crash takes no bytes out of the midst, a broker compacts.

    So does a flipped bit of a base offset, which no CRC covers: nothing tells which it was.
    """
    if epochs.lost is None or state.fits(epochs.noted_entry):
        return []
    return [gap for gap in epochs.lost.gaps if gap[1] > state.contiguous_from]


def _hole_ends_log_from(segments: Sequence[Segment], found: StoredState) -> int:
    """Return from where on only a crash can have made a hole."""
    return max(found.highest_recovery_point or 0, segments[0].base_offset if segments else 0)


def _missing_runs(
    segments: Sequence[Segment], begin: int, only_crashes_from: int, end_of: EndOf
) -> list[tuple[int, int]]:
    """Return what is missing from *begin* on and between segments, first offset and the next one.

    From *only_crashes_from* on recovery tells it: a hole ends the log there, or is an error.
    """
    end, runs = begin, []
    for segment in segments:
        if segment.base_offset > end:
            if end >= only_crashes_from:
                break
            runs.append((end, segment.base_offset))
        end = max(end, segment.base_offset)
        if segment is segments[-1]:
            break
        try:
            end = max(end, end_of(segment)[0])
        except NO_DAMAGE:
            raise
        except SegstoreError:
            return runs  # whoever reads it tells; where it ended nobody knows
    return runs
