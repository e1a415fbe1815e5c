"""What an open for writing would do to a log: survey, judge and plan, without the repair."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import segstore._core as _core
from segstore.errors import (
    CorruptCheckpointError,
    LimitExceededError,
    LogNotFoundError,
    ResourceError,
    SegstoreError,
)
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import read_topic_id
from segstore.log.files.partition_path import (
    absolute_path,
    open_parent_directory,
    open_partition_directory,
)
from segstore.log.recovery.judge import judge, judge_start
from segstore.log.recovery.plan import RemoteRecords, plan_leftovers, plan_of
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.recovery.survey import survey_log
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection

    from segstore._core import Directory
    from segstore.log.recovery.plan import Plan
    from segstore.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenForecast:
    """What an open for writing would do.

    Attributes
    ----------
    report : RecoveryReport
        What it would report, as far as it came.
    error : SegstoreError or None
        What it would raise.
    truncations : dict
        Base offset of a segment to the byte at which its ``.log`` would be cut.
    reindexed : frozenset of int
        Base offsets of the segments whose index files would be built anew.
    recovered : frozenset of int
        Base offsets of those that would be read whole, and their transactions with them.
    split : int or None
        Base offset of a segment that would be split; what comes behind that is not foretold.
    is_own : bool or None
        As in `Judgement`; None where the open did not come so far.
    """

    report: RecoveryReport
    error: SegstoreError | None = None
    truncations: dict[int, int] = field(default_factory=dict)
    reindexed: frozenset[int] = frozenset()
    recovered: frozenset[int] = frozenset()
    split: int | None = None
    is_own: bool | None = None

    def replaces_transaction_index(self, base_offset: int) -> bool:
        """Whether that of a segment is made anew from the batches [DUR-52]."""
        return base_offset in self.recovered

    def replaces_snapshot(self, offset: int, offsets: Collection[int]) -> bool:
        """Whether the snapshot of *offset*, which cannot be read, is deleted [PSM-56, PSM-60].

        *offsets* are those of all snapshots: the open tries the newest up to where it begins.
        """
        if self.error is not None:
            return False
        begin = min(self.recovered, default=self.report.log_end_offset)
        return offset > begin or offset == max(one for one in offsets if one <= begin)

    def keeps_tail_of(self, base_offset: int) -> bool:
        """Whether a copy of what is cut from that segment is kept: of zeros there is none."""
        prefix = f"{base_offset:020d}.quarantine-"
        return any(name.startswith(prefix) for name in self.report.quarantined)

    def sets_aside(self, base_offset: int) -> bool:
        """Whether the whole segment is taken out of the log."""
        prefix = f"{base_offset:020d}."
        return any(name.startswith(prefix) for name in self.report.set_aside)

    def changes_log(self, base_offset: int) -> bool:
        """Whether a ``.log`` is cut, split or taken out of the log."""
        is_cut = base_offset in self.truncations or base_offset == self.split
        return is_cut or self.sets_aside(base_offset)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        error = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return {"error": error, "report": self.report.to_dict()}


def forecast_open(
    path: str | os.PathLike[str],
    progress: Callable[[str, int, int], None] | None = None,
    *,
    environment: _core.Environment | None = None,
    as_: TopicPartition | None = None,
) -> OpenForecast:
    """Return what ``segstore.open(path)`` would do; no lock is taken, nothing is made or written.

    With *as_* it is what the open would do if the directory had the name of that partition.

    Raises
    ------
    LogNotFoundError
        There is nothing at *path*.
    ResourceError
        No memory or descriptor is left: that is no fact about the log.
    """
    full_path = absolute_path(path)
    report = RecoveryReport()
    parent = directory = None
    try:
        _core.Directory(full_path, environment).close()  # the open would make one
    except (LogNotFoundError, ResourceError):
        raise
    except SegstoreError as error:
        return OpenForecast(report=report, error=error)
    try:
        directory, topic_partition = open_partition_directory(
            full_path, read_only=False, environment=environment, as_=as_
        )
        parent = open_parent_directory(full_path, environment, as_)
        checkpoint_store = CheckpointStore(directory, parent, topic_partition)
        found = _forecast(directory, checkpoint_store, report, progress)
        with suppress(CorruptCheckpointError, LimitExceededError):  # an open goes on without it
            read_topic_id(directory)
    except ResourceError:
        raise
    except SegstoreError as error:
        return OpenForecast(report=report, error=error)
    else:
        return found
    finally:
        for opened in (directory, parent):
            if opened is not None:
                opened.close()


def _forecast(
    directory: Directory,
    checkpoint_store: CheckpointStore,
    report: RecoveryReport,
    progress: Callable[[str, int, int], None] | None,
) -> OpenForecast:
    context = _core.SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
    stored = checkpoint_store.read()
    report.warnings += stored.warnings
    survey = survey_log(directory, context, stored)
    try:
        start = judge_start(survey, report)
        plan_leftovers(survey, report)
        judgement = judge(survey, start.stored, report, progress)
        if judgement.split is not None:
            report.warnings.append(
                f"{judgement.split.name} holds offsets that do not fit its base offset: recovery"
                " would split it; what it would do after that is not known before"
            )
            return OpenForecast(
                report=report,
                split=judgement.split.base_offset,
                is_own=judgement.is_own,
            )
        plan = plan_of(survey, judgement, report, RemoteRecords(), is_foretold=True)
        return _forecast_of(plan, report)
    finally:
        survey.close()


def _forecast_of(plan: Plan, report: RecoveryReport) -> OpenForecast:
    judgement, tail = plan.judgement, plan.judgement.tail
    ends = {segment.base_offset: segment.size_bytes for segment, _ in judgement.lost_indexes}
    sizes = dict(ends)
    recovered: frozenset[int] = frozenset()
    if tail is not None:
        repaired = [*tail.repairs, *((one.segment, one.result.valid_bytes) for one in tail.scanned)]
        ends |= {segment.base_offset: end for segment, end in repaired}
        sizes |= {segment.base_offset: segment.size_bytes for segment, _ in repaired}
        if plan.restart is None:
            recovered = frozenset(one.segment.base_offset for one in tail.scanned)
    return OpenForecast(
        report=report,
        truncations={base: end for base, end in ends.items() if end < sizes[base]},
        reindexed=frozenset(ends),
        recovered=recovered,
        is_own=judgement.is_own,
    )
