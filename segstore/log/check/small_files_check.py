"""Checkpoints, snapshots and marks compared with the log that they speak of [DUR-65].

A file that cannot be read is found by `partition_state` already.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from segstore.errors import CorruptLogError, CorruptSnapshotError
from segstore.log.check.partition_state import opened_log_start
from segstore.log.check.unreadable_file import UNREADABLE_ERRORS, unreadable_file
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    MISSING_RECORDS,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
)
from segstore.log.files.missing_records_file import damaged_notes
from segstore.log.findings.finding import Action, Finding, FindingCode, Records, facts_of
from segstore.log.producers.snapshot_file import SnapshotFile
from segstore.log.recovery.restart_marker import RestartMarker, missing_files_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import Directory
    from segstore.errors import SegstoreError
    from segstore.log.check.partition_state import PartitionState
    from segstore.log.recovery.forecast import OpenForecast
    from segstore.types import EpochEntry


def small_file_findings(
    directory: Directory,
    state: PartitionState,
    forecast: OpenForecast,
    log_end_offset: int,
    named_until: int | None,
) -> Iterator[Finding]:
    """Yield what is wrong with what the small files say.

    Parameters
    ----------
    log_end_offset : int
        Where the batches end.
    named_until : int or None
        Where the offsets end that other findings name from there on; None = they have no end.
    """
    mark = RestartMarker(directory)
    yield from _restart_findings(mark, forecast)
    if forecast.split is None and not _lies_beside(mark, log_end_offset):
        # else it is not known before where the log ends
        if named_until is not None:
            yield from _recovery_point(state, log_end_offset, named_until)
        yield from _log_start(state, forecast, log_end_offset)
    yield from _epochs(state.epochs)
    yield from _doubtful_epochs(forecast)
    yield from _lost_small_files(forecast)


def snapshot_findings(directory: Directory, offsets: Iterable[int]) -> Iterator[Finding]:
    """Yield the producer snapshots that cannot be used; `recover` deletes them."""
    for offset in offsets:
        file = SnapshotFile(directory, offset)
        try:
            file.read(exact_size=False)
        except CorruptSnapshotError as error:
            yield Finding(
                code=FindingCode.SNAPSHOT_CORRUPT,
                file=file.name,
                position=error.position,
                action=Action.RECOVER,
                repaired=True,
                **facts_of(error),
            )
        except UNREADABLE_ERRORS as error:
            yield unreadable_file(directory, file.name, error)


def missing_records_findings(directory: Directory) -> Iterator[Finding]:
    """Yield that the noted ranges of missing records are lost: a gap may be one of them."""
    for name in damaged_notes(directory, directory.names()):
        yield Finding(
            code=FindingCode.CHECKPOINT_CORRUPT,
            file=name,
            found="a wrong checksum, version or line",
            expected="ranges of offsets whose records are missing",
            records=Records.MAYBE_MISSING,
            action=Action.RESTORE if name == MISSING_RECORDS else Action.COMPARE,
        )


def _recovery_point(
    state: PartitionState, log_end_offset: int, first_offset: int
) -> Iterator[Finding]:
    point = state.recovery_point
    if point is not None and point > first_offset:
        yield Finding(
            code=FindingCode.RECOVERY_POINT_ABOVE_END,
            file=RECOVERY_POINT_CHECKPOINT,
            first_offset=first_offset,
            last_offset=point - 1,
            found=f"the recovery point {point}",
            expected=f"at most the log end {log_end_offset}",
            records=Records.MISSING,
            lost=((first_offset, point - 1),),
            action=Action.RESTORE_SEGMENTS,
        )


def _log_start(
    state: PartitionState, forecast: OpenForecast, log_end_offset: int
) -> Iterator[Finding]:
    """Compare the log start that a checkpoint says with the log end."""
    told, start = state.reported_log_start_offset, opened_log_start(forecast)
    if told is None or told <= log_end_offset:
        return
    is_believed = start is None or start >= told
    yield Finding(
        code=FindingCode.LOG_START_ABOVE_END,
        file=LOG_START_OFFSET_CHECKPOINT,
        first_offset=log_end_offset,
        found=f"the log start {told}",
        expected=f"at most the log end {log_end_offset}"
        if is_believed
        else f"{start}, where the log starts",
        records=Records.UNREADABLE if is_believed else Records.NONE,
        action=Action.WRITE_LOG_START if is_believed else Action.RECOVER,
        repaired=not is_believed,
    )


def _epochs(epochs: list[EpochEntry]) -> Iterator[Finding]:
    for before, after in pairwise(epochs):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            yield Finding(
                code=FindingCode.EPOCHS_WRONG,
                file=LEADER_EPOCH_CHECKPOINT,
                first_offset=after.start_offset,
                found=f"epoch {after.epoch} from offset {after.start_offset}",
                expected=f"more than epoch {before.epoch} from offset {before.start_offset}",
                action=Action.RECOVER,
                repaired=True,
            )
            return


def _doubtful_epochs(forecast: OpenForecast) -> Iterator[Finding]:
    """Yield that the batches contradict a checkpoint that is in order itself."""
    if forecast.report.doubtful_epochs is not None:
        yield Finding(
            code=FindingCode.EPOCHS_WRONG,
            file=LEADER_EPOCH_CHECKPOINT,
            found=forecast.report.doubtful_epochs,
            action=Action.RECOVER,
            repaired=True,
        )


# ---- an open that quarantined a whole log [DUR-54] -----------------------------------------------


def _restart_findings(mark: RestartMarker, forecast: OpenForecast) -> Iterator[Finding]:
    error = forecast.error
    if mark.missing:
        yield Finding(
            code=FindingCode.QUARANTINE_LOST,
            file=RESTART_MARKER,
            found=f"{missing_files_text(mark.missing)}: {mark.missing_records()}",
            records=Records.MISSING,
            action=Action.RESTORE,
        )
    if error is not None and is_of_restart(error):
        yield Finding(
            code=FindingCode.RESTART_REFUSED,
            file=RESTART_MARKER,
            found=error.message,
            action=Action.RENAME,
        )
    elif mark.stands and error is None:
        yield Finding(
            code=FindingCode.RESTART_UNFINISHED,
            file=RESTART_MARKER,
            found=mark.hint(),
            action=Action.RECOVER,
            repaired=True,
        )


def is_of_restart(error: SegstoreError) -> bool:
    """Whether an open is refused since the log starts elsewhere than its restart marker says."""
    return (
        isinstance(error, CorruptLogError)
        and error.file is not None
        and error.file.endswith(f"/{RESTART_MARKER}")
    )


def _lies_beside(mark: RestartMarker, log_end_offset: int) -> bool:
    """Whether the log ends where it does since the rest stands aside: the mark says so."""
    if mark.content is None:
        return mark.has_names
    return log_end_offset < mark.content.log_start_offset


# ---- small files that may hide a loss [DUR-7, DUR-64] --------------------------------------------


def _lost_small_files(forecast: OpenForecast) -> Iterator[Finding]:
    """Yield what an open finds of records that went together with a small file."""
    report, is_refused = forecast.report, forecast.error is not None
    file = LEADER_EPOCH_CHECKPOINT if report.lost_state is None else LOG_STATE
    if report.maybe_missing is not None and not is_refused:
        yield Finding(
            code=FindingCode.RECORDS_MAYBE_MISSING,
            file=file,
            found=report.maybe_missing,
            records=Records.MAYBE_MISSING,
            lost=tuple((first, behind - 1) for first, behind in report.maybe_missing_ranges),
            action=Action.RESTORE_FIRST,
        )
    elif report.lost_state is not None:
        yield Finding(
            code=FindingCode.STATE_MISSING,
            file=file,
            found=report.lost_state,
            records=Records.MAYBE_MISSING,
            action=Action.RESTORE_FIRST,
            repaired=True,
        )
