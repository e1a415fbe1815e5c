"""What a loader hands to the log that it has loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import uuid
    from array import array

    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.files.log_state_file import LogStateFile
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments
    from segstore.log.producers.producer_state_manager import ProducerStateManager
    from segstore.log.producers.snapshot_file import SnapshotFile
    from segstore.log.recovery.restart_marker import RestartMarker
    from segstore.types import LogOffsetMetadata


class LoadedLog(NamedTuple):
    """A loaded log (Kafka ``LoadedLogOffsets``, and what belongs to it)."""

    segments: Segments
    log_start_offset: int
    log_end: LogOffsetMetadata
    recovery_point: int
    """Below the log end: what lies above it is to be written again before a change [DUR-36]."""
    epochs: LeaderEpochFileCache
    state_file: LogStateFile | None
    """None for a reader, and in Kafka's profile."""
    may_have_gaps: bool = False
    """Nothing says where the log is contiguous."""
    producer_state: ProducerStateManager | None = None
    """None for a reader, who computes what it needs of it."""
    awaiting_deletion: tuple[Segment | SnapshotFile, ...] = ()
    """Renamed to ``.deleted``; the files go after ``file.delete.delay.ms`` [LOC-20, PSM-57]."""
    recovered: frozenset[int] = frozenset()
    """Base offsets of the segments whose indexes were made anew from their batches."""
    with_producers: frozenset[int] = frozenset()
    """Of those, the ones that hold batches with a producer id."""
    restart_marker: RestartMarker | None = None
    """Where it stands, whoever opens the log takes it away, the last thing of all."""
    moves_recovery_point: bool = False
    """It is written down when everything below it is in order, transaction indexes too [DUR-56]."""
    snapshot_offsets: array[int] | None = None
    """Of the producer snapshots, when they were listed and nothing can have changed since."""
    keeps_remote_part: bool = False
    """Records are in remote storage alone, though the log is not opened as a tiered one."""
    checksum_sidecars: frozenset[int] = frozenset()
    """Base offsets of the segments that have one, which is true."""
    generation: int | None = None
    """Of a log that is read, as it was before anything else was looked at."""
    topic_id: uuid.UUID | None = None
    """In ``partition.metadata``."""
