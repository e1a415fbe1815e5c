"""The check of one partition of a bucket: every complete segment, and what they are together.

Each segment is fetched into a directory of its own and judged by the check of log directories, so
that as much room is needed as one segment takes. Segments that no reader needs, because another
holds the same records, are checked too. What is wrong with one hides no other.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from segstore._core import Directory
from segstore.errors import LogNotFoundError, SegstoreError
from segstore.log.check.partition_check import check_partition
from segstore.log.check.segment_check import scan_all
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    format_leader_epoch_checkpoint,
    format_offset_checkpoint,
)
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX, directory_name, file_name
from segstore.log.files.partition_metadata_file import format_partition_metadata, topic_id_text
from segstore.log.findings.finding import FindingCode
from segstore.log.findings.finding_text import finding_line, meaning
from segstore.log.local.written_order import WrittenOrder
from segstore.remote.tiered.tiered_segment import LOOKED_UP_INDEXES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore._core import BatchHeaders, ScanResult
    from segstore.log.check.verify_report import VerifyReport
    from segstore.log.local.segment import Segment
    from segstore.remote.spool import Spool
    from segstore.remote.tiered.tiered_partition import TieredPartition
    from segstore.remote.tiered.tiered_segment import TieredSegment
    from segstore.types import TopicPartition

    Progress = Callable[[str, int, int], None]
    """Takes the path, bytes checked so far and bytes in all."""

_TIME_ENTRY_BYTES: Final = 12


@dataclass(slots=True, kw_only=True)
class BucketVerifyReport:
    """What was found in one partition of a bucket.

    Attributes
    ----------
    path : str
        The bucket, and the partition as ``<topic>-<number>``.
    topic_id : str or None
        Of the topic that is read, as Kafka writes it.
    log_start_offset, log_end_offset : int
        Of the log that the bucket gives; end exclusive.
    last_stable_offset : int or None
        Where committed reads end; None where it cannot be read.
    segments : int
        Complete ones.
    redundant : int
        Those of them that no read needs: copies of other leaders, or of a lost branch.
    batches, records, size_bytes : int
        Of all complete segments, plain; control records are not counted.
    problems : list of str
        What is wrong, a sentence each, with the object.
    notes : list of str
        What is not wrong, and worth knowing: segments left out because a copy or a deletion was
        not finished, and which of several topic ids is read.
    """

    path: str
    topic_id: str | None = None
    log_start_offset: int = 0
    log_end_offset: int = 0
    last_stable_offset: int | None = None
    segments: int = 0
    redundant: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        verdict = "clean" if self.ok else _counted(len(self.problems), "problem")
        summary = (
            f"{self.path}: {verdict}; offsets {self.log_start_offset} to {self.log_end_offset},"
            f" {_counted(self.segments, 'segment')}, {_counted(self.batches, 'batch', 'batches')},"
            f" {_counted(self.records, 'record')}, {self.size_bytes} bytes"
        )
        if self.redundant:
            summary += f"; no read needs {_counted(self.redundant, 'segment')}"
        lines = [f"  {problem}" for problem in self.problems]
        return "\n".join([summary, *lines, *(f"  note: {note}" for note in self.notes)])


def _counted(count: int, one: str, several: str | None = None) -> str:
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def verify_partition(
    path: str,
    topic_partition: TopicPartition,
    partition: TieredPartition,
    spool: Spool,
    progress: Progress | None = None,
) -> BucketVerifyReport:
    """Check every complete segment, and whether together they are the log [SEL-3 to SEL-11].

    Parameters
    ----------
    path : str
        Of the partition, for people.
    topic_partition : TopicPartition
        Which it is.
    partition : TieredPartition
        Its segments.
    spool : Spool
        Has room for one segment.
    progress : callable or None
        Called with *path*, plain bytes checked so far and bytes in all.
    """
    report = BucketVerifyReport(path=path)
    if partition.topic_note is not None:
        report.notes.append(partition.topic_note)
    for one in partition.left_out:
        is_unfinished = isinstance(one.reason, LogNotFoundError)
        (report.notes if is_unfinished else report.problems).append(one.text)
    if not partition.segments:
        report.problems.append("no segment is complete: there is nothing to read")
        return report
    report.topic_id = topic_id_text(partition.segments[0].manifest.metadata.topic_id)
    total = sum(segment.size_bytes for segment in partition.segments)
    for segment in partition.segments:
        with _noting(report):
            checked, epochs = _check_segment(topic_partition, segment, spool)
            report.problems += epochs
            report.batches += checked.batches
            report.records += checked.records
            report.problems += _problems_of(segment, checked)
        report.segments += 1
        report.size_bytes += segment.size_bytes
        if progress is not None:
            progress(path, report.size_bytes, total)
    with _noting(report):
        _check_plan(partition, report)
    with _noting(report):
        report.last_stable_offset = partition.stable_end_offset()
    return report


@contextmanager
def _noting(report: BucketVerifyReport) -> Iterator[None]:
    try:
        yield
    except (SegstoreError, ImportError) as error:
        text = str(error)
        if text not in report.problems:  # an object that is read twice
            report.problems.append(text)


def _check_plan(partition: TieredPartition, report: BucketVerifyReport) -> None:
    plan = partition.plan()
    used = {id(one.segment) for one in plan.ranges}
    report.redundant = sum(id(segment) not in used for segment in partition.segments)
    report.log_start_offset = max(plan.start_offset, partition.lineage[0].start_offset)
    report.log_end_offset = plan.end_offset
    for first, last in plan.gaps:
        report.problems.append(f"no segment holds the records of offsets {first} to {last}")


def _check_segment(
    topic_partition: TopicPartition, segment: TieredSegment, spool: Spool
) -> tuple[VerifyReport, list[str]]:
    """Check a segment as the only one of a log whose broker was stopped after it.

    Its manifest says which leader epochs it has; the choice of segments relies on that [SEL-4].
    """
    epochs: list[str] = []

    def scan_segment(one: Segment, **how: Any) -> tuple[BatchHeaders, ScanResult]:
        headers, result = scan_all(one, **how)
        other = order.first_of_other_epoch(headers, segment.log_name, 0)
        if other is not None:
            error = other[1]
            where = f"{segment.log_name}, byte {error.position}"
            epochs[:] = [f"{where}: a batch of {error.found}, its manifest says {error.expected}"]
        return headers, result

    with spool.new_view() as view:
        folder = view.path / directory_name(topic_partition)
        folder.mkdir()
        for name, data in _small_files(topic_partition, segment):
            (folder / name).write_bytes(data)
        with (folder / file_name(segment.start_offset, LOG_FILE_SUFFIX)).open("wb") as stream:
            for piece in segment.pieces(0, segment.size_bytes):
                stream.write(piece)
        segment.read_index("transaction")
        with closing(Directory(str(folder))) as directory:
            order = WrittenOrder(
                directory, has_gaps=False, looks_away=False, lineage=segment.leader_epochs
            )
            return check_partition(str(folder), scan_segment=scan_segment), epochs


def _small_files(
    topic_partition: TopicPartition, segment: TieredSegment
) -> Iterator[tuple[str, bytes]]:
    end = segment.end_offset + 1
    for suffix, name in LOOKED_UP_INDEXES.items():
        yield file_name(segment.start_offset, suffix), segment.read_index(name) or b""
    yield file_name(end, "snapshot"), segment.read_index("producerSnapshot") or b""
    lineage = segment.lineage()
    yield LEADER_EPOCH_CHECKPOINT, format_leader_epoch_checkpoint(lineage)
    # The log start may have risen into the segment before that index was copied.
    start = min(max(segment.start_offset, lineage[0].start_offset), end)
    yield f"../{LOG_START_OFFSET_CHECKPOINT}", format_offset_checkpoint({topic_partition: start})
    topic_id = segment.manifest.metadata.topic_id
    yield PARTITION_METADATA, format_partition_metadata(topic_id)
    yield f"../{RECOVERY_POINT_CHECKPOINT}", format_offset_checkpoint({topic_partition: end})
    yield f"../{CLEAN_SHUTDOWN_MARKER}", b"{}"


def _problems_of(segment: TieredSegment, checked: VerifyReport) -> Iterator[str]:
    for finding in checked.findings:
        if finding.code is not FindingCode.TRANSACTION_INDEX_CORRUPT:  # none was written
            yield f"{segment.log_name}: {finding_line(finding)}; {meaning(finding)}"
    told = segment.manifest.metadata.max_timestamp_ms
    entry = (segment.read_index("timestamp") or b"")[-_TIME_ENTRY_BYTES:]
    latest = int.from_bytes(entry[:8], signed=True)
    if entry and latest != told:  # whether the index is right was checked above
        yield (
            f"{segment.log_name}: the last entry of its time index has the timestamp {latest}, and"
            f" its manifest says {told}"
        )
    if not checked.findings and checked.log_end_offset != segment.end_offset + 1:
        yield (
            f"{segment.log_name}: the last record has offset {checked.log_end_offset - 1}, and its"
            f" manifest says {segment.end_offset}"
        )
