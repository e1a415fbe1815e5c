"""A bucket and the log directories of one of its brokers, shown as one log directory [SEL-10].

The bucket has the records below the first local segment, along the leader epochs of the local log;
the local log has all others, also those that were copied. So nothing is read twice.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    IllegalStateError,
    InconsistentTopicIdError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    format_offset_checkpoint,
)
from segstore.log.files.partition_directory import directory_name, parse_directory_name
from segstore.log.files.partition_metadata_file import format_partition_metadata, topic_id_text
from segstore.remote.tiered.partition_plan import (
    PartitionPlan,
    extended_lineage,
    newest_segment,
    plan_partition,
)
from segstore.remote.tiered.segment_run import segment_runs
from segstore.remote.tiered.tiered_partition import checked_lineage
from segstore.remote.tiered.tiered_store import (
    LOOKS,
    TieredStore,
    clean_marker,
    small_files,
    start_files,
)
from segstore.remote.tiered.topic_choice import TopicChoice

if TYPE_CHECKING:
    from uuid import UUID

    from segstore.remote.remote_file import Folder, RemoteStore
    from segstore.remote.tiered.aiven_layout import AivenLayout
    from segstore.remote.tiered.local_logs import LocalLog, LocalLogs
    from segstore.remote.tiered.local_tiered_layout import LocalTieredLayout
    from segstore.remote.tiered.partition_plan import PlannedRange
    from segstore.remote.tiered.tiered_partition import TieredPartition
    from segstore.remote.tiered.tiered_segment import TieredSegment
    from segstore.remote.tiered.tiered_store import TieredReading
    from segstore.types import EpochEntry, TopicPartition

_GAP: Final = "neither the bucket nor the local log holds these records"


class JoinedStore(TieredStore):
    """What a bucket and a broker have together, of the topics that the bucket has.

    Parameters
    ----------
    bucket, layout, key_prefix
        As of `TieredStore`.
    local : LocalLogs
        The broker's.
    reading : TieredReading
        What is read.
    """

    def __init__(
        self,
        bucket: RemoteStore,
        layout: AivenLayout | LocalTieredLayout,
        key_prefix: str,
        local: LocalLogs,
        reading: TieredReading,
    ) -> None:
        super().__init__(bucket, layout, key_prefix, reading)
        self.key = hashlib.sha256(f"{self.key} {local.directories}".encode()).hexdigest()
        self._local = local

    def partitions_of(self, topic: str, topic_id: UUID) -> list[int]:
        """Return the partitions of which something is in the bucket or on the broker, sorted."""
        local = (one.partition for one in self._local.partitions() if one.topic == topic)
        return sorted({*super().partitions_of(topic, topic_id), *local})

    def topic_choice(self, topic: str, topic_ids: list[UUID]) -> TopicChoice:
        """Return the id that the topic has on the broker, if the bucket has it."""
        for one in self._local.partitions():
            if one.topic == topic:
                with suppress(SegstoreError):  # the open of that partition says it
                    topic_id = self._local.topic_id(one)
                    if topic_id in topic_ids:
                        return TopicChoice(topic_id)
        return super().topic_choice(topic, topic_ids)

    def _list_now(self, folder: str) -> Folder:
        """Return what `list_folder` does.

        Raises
        ------
        InconsistentTopicIdError
            The broker's log is of another topic than the bucket's.
        IllegalStateError
            The bucket has newer records than the local log.
        CorruptLogError
            Records are in neither.
        SegstoreError
            As of `TieredStore.list_folder`, and of `LocalLogs.find`.
        """
        return self._listed(folder, LOOKS)

    def _listed(self, folder: str, looks: int, end_before: int = -1) -> Folder:
        topic_partition = parse_directory_name(folder)
        # The broker first: what it deletes after that look, it has copied before.
        local = self._local.find(topic_partition)
        if local is None:
            return super()._list_now(folder)
        found = self._copies(topic_partition, local)
        newer = _newer_copy(local, found)
        if newer is None:
            return self._joined(topic_partition, local, found)
        if looks == 1 or local.log_end_offset == end_before:
            raise newer
        # A running broker may have copied what it appended since that look.
        return self._listed(folder, looks - 1, local.log_end_offset)

    def _copies(self, topic_partition: TopicPartition, local: LocalLog) -> TieredPartition:
        topic, number = topic_partition
        topic_ids = self.topic_ids().get(topic, [])
        if local.topic_id not in topic_ids:
            raise InconsistentTopicIdError(
                "the local log is of another topic than the bucket's, which had the same name",
                file=f"{local.path}/{PARTITION_METADATA}",
                found=f"topic id {topic_id_text(local.topic_id)}",
                expected=f"{' or '.join(map(topic_id_text, topic_ids)) or 'none'}, in {self.url}",
            )
        return self._layout.partition(topic, local.topic_id, number)

    def _joined(
        self, topic_partition: TopicPartition, local: LocalLog, found: TieredPartition
    ) -> Folder:
        where = directory_name(topic_partition)
        lineage, start, base = local.lineage, local.log_start_offset, local.local_log_start_offset
        if self.reading.below_log_start:
            start = 0
            lineage = extended_lineage(lineage, map(checked_lineage, found.segments))
        plan = _plan(local, found, lineage, start)
        if plan.gaps and not self.reading.allow_gaps:
            first, last = plan.gaps[0]
            raise CorruptLogError(
                f"{_GAP}; {self.reading.way_on}",
                file=local.path,
                found=f"a gap from offset {first} to {last}",
                expected=f"copies of them in {self.url}",
            ).lacks(first, last + 1)
        if not self.reading.allow_gaps:
            found.check_ends(plan, start, self.reading.way_on, end_is_known=True)
        runs = segment_runs(plan, f"{self.url}/{where}", self.reading.way_on, allow_gaps=True)
        files = [one for run in runs for one in self.segment_files(where, run)] + [*local.files]
        start = max(start, plan.start_offset if runs else min(base, local.log_start_offset))
        synced = {topic_partition: local.recovery_point}
        small = {
            RECOVERY_POINT_CHECKPOINT: format_offset_checkpoint(synced),
            PARTITION_METADATA: format_partition_metadata(local.topic_id),
        }
        if lineage:  # else no record was ever written
            small |= start_files(topic_partition, start, lineage, base if plan.gaps else start)
            if local.is_whole:
                small[CLEAN_SHUTDOWN_MARKER] = clean_marker(
                    files, start, local.log_end_offset, lineage[-1]
                )
        shown = [*small_files(where, small), *files]
        gaps = (f"{_GAP}: offsets {first} to {last}" for first, last in plan.gaps)
        return self._shown(shown, lineage, runs, (*found.notes(), *gaps))


def _newer_copy(local: LocalLog, found: TieredPartition) -> IllegalStateError | None:
    """Return what is raised where the bucket has records that follow those of the local log."""
    if not found.segments or not local.lineage:
        return None
    newest, epoch = newest_segment(found.segments), local.lineage[-1].epoch
    if newest.leader_epochs[-1].epoch > epoch:
        there, here = f"leader epoch {newest.leader_epochs[-1].epoch}", f"leader epoch {epoch}"
    elif newest.leader_epochs[-1].epoch == epoch and newest.end_offset >= local.log_end_offset:
        there, here = f"offset {newest.end_offset}", f"an end at offset {local.log_end_offset}"
    else:
        return None
    return IllegalStateError(
        "the bucket has newer records than the local log, which is an old copy, or that of a"
        " follower that lags: read the bucket without it",
        file=local.path,
        found=here,
        expected=f"a log that has {there}, as {newest.log_name} has",
    )


def _plan(
    local: LocalLog, found: TieredPartition, lineage: tuple[EpochEntry, ...], start: int
) -> PartitionPlan[TieredSegment]:
    """Return which segments have the records from *start* up to the local log.

    Raises
    ------
    CorruptCheckpointError
        No lineage tells which ones are of this history.
    """
    base = local.local_log_start_offset
    if start < base and not lineage:
        raise CorruptCheckpointError(
            "the leader epochs of the local log are missing: no file shows which copies in the"
            " bucket are of its history",
            file=f"{local.path}/{LEADER_EPOCH_CHECKPOINT}",
            found="no file, or an empty one",
            expected=f"the epochs of the records from offset {start} on",
        )
    segments = found.segments
    ranges: list[PlannedRange[TieredSegment]] = []
    gaps: list[tuple[int, int]] = []
    reached = local.log_start_offset
    if segments and lineage:
        plan = plan_partition(segments, lineage, start, max(one.end_offset for one in segments))
        ranges = [
            one._replace(to_offset=min(one.to_offset, base - 1))
            for one in plan.ranges
            if one.from_offset < base
        ]
        gaps = [(first, last) for first, last in plan.gaps if last < base - 1]
        reached = max([reached, *(one.to_offset + 1 for one in ranges)])
    if reached < base:
        gaps.append((reached, base - 1))
    begin = ranges[0].from_offset if ranges else base
    return PartitionPlan(tuple(ranges), tuple(gaps), begin, base)
