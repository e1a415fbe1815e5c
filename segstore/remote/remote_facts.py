"""What the small files of a remote partition say of it: where it begins, what of it is proven.

They are read by those who read them locally, from a folder of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from segstore._core import Directory
from segstore.errors import CorruptCheckpointError, SegstoreError
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    LogState,
    read_topic_id,
)
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping
    from pathlib import Path

    from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
    from segstore.log.files.stored_state import StoredState
    from segstore.remote.remote_file import RemoteFile
    from segstore.types import TopicPartition

ABOVE: Final = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, CLEAN_SHUTDOWN_MARKER)
"""Of the log directory."""
BESIDE: Final = (*ABOVE, LEADER_EPOCH_CHECKPOINT, LOG_STATE, PARTITION_METADATA)
"""Of the partition, besides segments and snapshots."""


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """What is known before a segment was looked at.

    Attributes
    ----------
    found : StoredState
        Log start, recovery point and clean marker.
    state : LogState or None
        What ``.segstore`` says where it is believed, without transaction indexes.
    recovery_point : int or None
        All records below had been synced.
    marker : CleanShutdownMarker or None
        The partition's own, where it fits the listing.
    is_plain : bool
        Nothing that a listing shows needs the whole log to be judged.
    first_base_offset : int
        Of the first segment.
    topic_id : uuid.UUID or None
        The id in ``partition.metadata``; None without one that can be read.
    """

    found: StoredState
    state: LogState | None
    recovery_point: int | None
    marker: CleanShutdownMarker | None
    is_plain: bool
    first_base_offset: int
    topic_id: uuid.UUID | None = None

    @property
    def log_start_offset(self) -> int:
        """Where the log begins."""
        return max(self.found.log_start_offset, self.first_base_offset)

    @property
    def is_clean(self) -> bool:
        """Whether the log was closed cleanly, by what a listing and the small files show."""
        return self.found.parent_is_clean or self.marker is not None

    @property
    def synced_below(self) -> int:
        """Records below are judged when they are read, and not by an open."""
        return MAX_LONG if self.is_clean else self.recovery_point or 0


def read_facts(
    folder: Path, topic_partition: TopicPartition, segments: Mapping[int, RemoteFile]
) -> RemoteFacts:
    """Read the small files of one partition.

    Parameters
    ----------
    folder : Path
        Holds them as they lie in the partition's directory, and the directory above it those of the
        log directory.
    topic_partition : TopicPartition
        Whose.
    segments : mapping of int to RemoteFile
        The ``.log`` files by their base offsets, sorted.
    """
    directory, parent = Directory(str(folder)), Directory(str(folder.parent))
    try:
        found = CheckpointStore(directory, parent, topic_partition).read()
        epochs = _epochs(directory)
        latest = None if epochs is None else epochs.latest_entry
        state = LogState.read(directory)
        topic_id = _topic_id(directory)
    finally:
        directory.close()
        parent.close()
    last, active = list(segments.items())[-1]
    marker = found.own_marker
    end = (last, active.size_bytes, latest)
    size_bytes = sum(file.size_bytes for file in segments.values())
    is_as_marked = marker is not None and marker.fits(len(segments), size_bytes, end)
    ends_as_marked = marker is not None and marker.fits_end(end)
    is_tied = state is None or epochs is not None
    if state is not None and (
        not state.fits(latest) or (found.parent_is_clean and not ends_as_marked)
    ):
        state = None  # a broker may have written since [DUR-64]
    recovery_point = found.recovery_point
    is_tied_marker = marker is not None and state is not None and marker.latest_epoch == latest
    if recovery_point is None and marker is not None and is_tied_marker:
        recovery_point = marker.log_end_offset  # as `with_marker_recovery_point`
    first = next(iter(segments))
    return RemoteFacts(
        found,
        state,
        recovery_point,
        marker if is_as_marked else None,
        is_plain=is_tied and not _lacks_begin(found, state, epochs, first),
        first_base_offset=first,
        topic_id=topic_id,
    )


def _topic_id(directory: Directory) -> uuid.UUID | None:
    """Return the topic id, None where the file is missing or cannot be read [UNI-5]."""
    try:
        return read_topic_id(directory)
    except CorruptCheckpointError:
        return None


def _epochs(directory: Directory) -> LeaderEpochFileCache | None:
    """Return the leader epochs, None where only the batches tell them."""
    try:
        return LeaderEpochFileCache.read(directory, writable=False, is_strict=True)
    except SegstoreError:
        return None


def _lacks_begin(
    found: StoredState, state: LogState | None, epochs: LeaderEpochFileCache | None, first: int
) -> bool:
    """Whether records may be missing before the first segment, as `first_missing_offset` asks."""
    if state is None:
        return False
    begin = max(found.log_start_offset, state.contiguous_from, state.local_log_start_offset)
    if found.own_marker is not None:
        begin = max(begin, found.own_marker.log_start_offset or 0)
    if epochs is not None and epochs.entries:
        begin = max(begin, epochs.entries[0].start_offset)
    return begin < first
