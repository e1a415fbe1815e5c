"""What an open tells of a small file that was lost, or is not what was written [DUR-7, DUR-64]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.cli.check_result import Finding
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.cli.check_result import PartitionCheck
    from segstore.log.recovery.recovery_report import RecoveryReport


def judge_small_files(check: PartitionCheck) -> None:
    """Add what the open tells of a small file that was lost, or is not what was written."""
    report = check.forecast.report
    is_refused = check.forecast.error is not None
    check.findings += _lost_small_files(report, is_refused=is_refused)
    if report.doubtful_epochs is not None and report.maybe_missing is None:
        check.notes.append(report.doubtful_epochs)


def _lost_small_files(report: RecoveryReport, *, is_refused: bool) -> Iterator[Finding]:
    """Yield what is told of a small file that may hide the loss of records [DUR-7]."""
    file, what = LEADER_EPOCH_CHECKPOINT, f"was lost, and by {LOG_STATE} batches with it"
    if report.doubtful_epochs is not None:
        what = report.doubtful_epochs.removeprefix(f"by {LEADER_EPOCH_CHECKPOINT} ")
    if report.lost_state is not None:
        file, what = LOG_STATE, report.lost_state.removeprefix(f"{LOG_STATE} ")
    are_missing = report.maybe_missing is not None and not is_refused
    if report.lost_state is not None and not are_missing:
        yield Finding(
            file=file,
            what=what,
            meaning="it told from where on no record may be missing: whether one is, or was deleted"
            " or compacted away, nothing tells any more",
            advice="restore the directory from a copy if in doubt; the next open for writing makes"
            " it anew, for what is appended from then on",
            repaired=not is_refused,
        )
    if are_missing:
        yield Finding(
            file=file,
            what=f"{what}: {report.maybe_missing}",
            meaning="records that were once safe are missing, or were deleted: nothing tells which",
            advice="where no broker was here restore the directory from a copy, before the next "
            "open for writing: that goes on without them, and no later one knows of them",
            repaired=False,
        )
