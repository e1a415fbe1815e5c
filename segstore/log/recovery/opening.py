"""How a log is opened for writing in the safe profile: survey, judge, plan, repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.recovery.judge import judge, judge_start, synced_end_beside_swaps
from segstore.log.recovery.plan import plan_leftovers, plan_of, plan_split
from segstore.log.recovery.repair import Repair
from segstore.log.recovery.survey import survey_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory, SegmentContext
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.files.stored_state import StoredState
    from segstore.log.recovery.loaded_log import LoadedLog
    from segstore.log.recovery.plan import RemoteRecords
    from segstore.log.recovery.recovery_report import RecoveryReport


def load_to_write(  # noqa: PLR0913 - what an open brings along
    directory: Directory,
    checkpoint_store: CheckpointStore,
    context: SegmentContext,
    report: RecoveryReport,
    progress: Callable[[str, int, int], None] | None,
    remote: RemoteRecords,
) -> LoadedLog:
    """Bring a directory in order and return the log, all of it synced (Kafka ``LogLoader``).

    Parameters
    ----------
    directory : Directory
        The partition's, locked.
    checkpoint_store : CheckpointStore
        Checkpoints and markers.
    context : SegmentContext
        Shared by the segments.
    report : RecoveryReport
        Filled in.
    progress : callable or None
        Called with a phase, the work done and the work to do.
    remote : RemoteRecords
        What becomes of records in remote storage.

    Raises
    ------
    CorruptLogError
        Data that had been synced is damaged or missing; nothing was changed.
    """
    stored: StoredState = checkpoint_store.read()
    report.warnings += stored.warnings
    repair = Repair(directory, context, checkpoint_store, report)
    is_split = False
    while True:
        survey = survey_log(directory, context, stored)
        try:
            start = judge_start(survey, report)
            stored = start.stored
            leftovers = plan_leftovers(survey, report)
            if survey.leftovers.has_swaps:
                synced_end = synced_end_beside_swaps(survey, stored)
                repair.begin(start, synced_end, changes_log=True)
                repair.clear_leftovers(survey, leftovers)
                survey.close()
                continue
            judgement = judge(survey, stored, report, progress, is_again=is_split)
            survey.release()
            if judgement.split is None:
                plan = plan_of(survey, judgement, report, remote)
                repair.begin(start, judgement.synced_end, changes_log=plan.changes_log)
                repair.clear_leftovers(survey, leftovers)
                return repair.carry_out(survey, plan)
            sidecars = plan_split(survey, judgement.split, report)
            repair.begin(start, judgement.synced_end, changes_log=True)
            repair.clear_leftovers(survey, leftovers)
            repair.split(survey, judgement.split, sidecars)
            is_split = True
        except BaseException:
            survey.close()
            raise
        survey.close()
