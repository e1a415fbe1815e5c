"""What a maintenance pass did: values, to be printed. Source: DESIGN D18, [RTN-3, DUR-131]."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import AppendLock
from segstore.log.retention_plan import RetentionLimit
from segstore.notebook import text_as_html

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore.log.retention_plan import DeletedSegment
    from segstore.manager.log_cleaner import CleanedLog
    from segstore.types import TopicPartition


class SegmentDeletion(NamedTuple):
    """A segment that retention deleted.

    Attributes
    ----------
    topic_partition : TopicPartition
        Whose it was.
    segment : DeletedSegment
        Its limit, size, offsets and largest timestamp.
    """

    topic_partition: TopicPartition
    segment: DeletedSegment

    def __str__(self) -> str:
        return f"{self.topic_partition}: deleted {self.segment}"


class RemoteCopy(NamedTuple):
    """What was copied of a log to remote storage.

    Attributes
    ----------
    topic_partition : TopicPartition
        Whose it was.
    size_bytes : int
        Of its segments.
    end_offset : int
        All records below it are in remote storage now, or expired there.
    """

    topic_partition: TopicPartition
    size_bytes: int
    end_offset: int

    def __str__(self) -> str:
        return (
            f"{self.topic_partition}: copied {self.size_bytes} bytes to remote storage, which has"
            f" all below offset {self.end_offset} now"
        )


class RemoteDeletion(NamedTuple):
    """What was deleted in remote storage: expired, or of a topic that is not tiered any more.

    Attributes
    ----------
    topic_partition : TopicPartition
        Whose it was.
    segments : int
        How many.
    log_start_offset : int or None
        Where the log begins now; None: the partition is gone.
    """

    topic_partition: TopicPartition
    segments: int
    log_start_offset: int | None

    def __str__(self) -> str:
        text = f"{self.topic_partition}: deleted {self.segments} segments in remote storage"
        if self.log_start_offset is None:
            return f"{text}, of a partition that is deleted"
        return f"{text}; the log begins at offset {self.log_start_offset}"


class FailedTask(NamedTuple):
    """A task that failed; the others were done.

    Attributes
    ----------
    task : str
        ``retention``, ``cleaning``, ``flushes``, ``recovery points``, ``log starts``,
        ``high watermarks``, ``deleted partitions``, ``settings``, ``remote storage``, ``copies to
        remote storage``, ``expiration in remote storage``, ``deletion in remote storage``, or the
        name of a log's own task.
    topic_partition : TopicPartition or None
        The log that it was for; None = the whole directory.
    error : Exception
        What it raised.
    attempts : int
        How many times in a row it has failed.
    retry_ms : int or None
        When it is tried again, in ms since 1970; None = at its next turn.
    """

    task: str
    topic_partition: TopicPartition | None
    error: Exception
    attempts: int
    retry_ms: int | None

    def __str__(self) -> str:
        where = "" if self.topic_partition is None else f" of {self.topic_partition}"
        times = "" if self.attempts == 1 else f" {self.attempts} times"
        return f"{self.task}{where} failed{times}, and is tried again: {self.error}"


class MaintenanceReport(NamedTuple):
    """What one pass did.

    Attributes
    ----------
    deleted : tuple of SegmentDeletion
        The segments that retention deleted, of each log oldest first.
    cleaned : tuple of CleanedLog
        The passes of compaction, each with the log and its numbers.
    copied : tuple of RemoteCopy
        What was copied to remote storage, of each log.
    expired : tuple of RemoteDeletion
        What was deleted there.
    checkpoints : tuple of str
        The checkpoint files of the log directory that were written.
    removed : tuple of str
        The directories of deleted partitions that were removed.
    tasks : int
        How many tasks of logs were run: timed syncs, syncs after a roll, unlinking, looks for
        silent producers.
    failed : tuple of FailedTask
        What failed.
    due_in_ms : int
        In how many ms something is due again; 0 = now. The wall clock does not count.
    """

    deleted: tuple[SegmentDeletion, ...]
    cleaned: tuple[CleanedLog, ...]
    copied: tuple[RemoteCopy, ...]
    expired: tuple[RemoteDeletion, ...]
    checkpoints: tuple[str, ...]
    removed: tuple[str, ...]
    tasks: int
    failed: tuple[FailedTask, ...]
    due_in_ms: int

    def _repr_html_(self) -> str:
        return text_as_html(self)

    def __str__(self) -> str:
        counts = (
            f"{len(self.deleted)} segments deleted, {len(self.cleaned)} logs compacted,"
            f" {len(self.removed)} directories removed, {len(self.checkpoints)} checkpoints"
            f" written, {len(self.failed)} tasks failed; due again in {self.due_in_ms} ms"
        )
        lines: list[object] = [counts, *self.failed, *self.deleted, *self.cleaned]
        lines += [*self.copied, *self.expired]
        return "\n".join(map(str, lines))


class DeletionCounts:
    """What retention has deleted since the open, by limit.

    Attributes
    ----------
    segments, bytes : Counter of str
        Counted by the names of limits, such as ``retention.ms``.
    """

    def __init__(self) -> None:
        self.segments = Counter({_name_of(limit): 0 for limit in RetentionLimit})
        self.bytes = Counter(self.segments)
        self._lock = AppendLock()  # the cleaner deletes too

    def add(self, deletion: SegmentDeletion) -> None:
        """Count a segment."""
        name = _name_of(deletion.segment.limit)
        with self._lock:
            self.segments[name] += 1
            self.bytes[name] += deletion.segment.size_bytes


def combined_counts(counts: Iterable[DeletionCounts]) -> DeletionCounts:
    """Return what was deleted in several log directories."""
    combined = DeletionCounts()
    for one in counts:
        combined.segments.update(one.segments)
        combined.bytes.update(one.bytes)
    return combined


def _name_of(limit: RetentionLimit) -> str:
    return limit.value.replace("_", ".")


def combined_report(reports: Sequence[MaintenanceReport]) -> MaintenanceReport:
    """Return what was done in several log directories, one after another."""
    if len(reports) == 1:
        return reports[0]
    return MaintenanceReport(
        tuple(one for report in reports for one in report.deleted),
        tuple(one for report in reports for one in report.cleaned),
        tuple(one for report in reports for one in report.copied),
        tuple(one for report in reports for one in report.expired),
        tuple(one for report in reports for one in report.checkpoints),
        tuple(one for report in reports for one in report.removed),
        sum(report.tasks for report in reports),
        tuple(one for report in reports for one in report.failed),
        min((report.due_in_ms for report in reports), default=0),
    )


class Findings:
    """What a pass has done so far; all of it is logged too.

    Attributes
    ----------
    deleted, cleaned, copied, expired, checkpoints, removed, failed : list
        See `MaintenanceReport`.
    progress : callable or None
        See `LogManager.maintain`.
    """

    def __init__(self, progress: Callable[[TopicPartition, int, int], None] | None = None) -> None:
        self.progress = progress
        self.deleted: list[SegmentDeletion] = []
        self.cleaned: list[CleanedLog] = []
        self.copied: list[RemoteCopy] = []
        self.expired: list[RemoteDeletion] = []
        self.checkpoints: list[str] = []
        self.removed: list[str] = []
        self.failed: list[FailedTask] = []

    def report(self, tasks: int, due_in_ms: int) -> MaintenanceReport:
        """Return them as a value."""
        return MaintenanceReport(
            tuple(self.deleted),
            tuple(self.cleaned),
            tuple(self.copied),
            tuple(self.expired),
            tuple(self.checkpoints),
            tuple(self.removed),
            tasks,
            tuple(self.failed),
            due_in_ms,
        )
