"""The segments of one partition in remote storage, in memory [TIER-22, TIER-26…TIER-30]."""

from __future__ import annotations

import logging
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import ChangeCounter
from segstore.errors import IllegalArgumentError, RemoteResourceNotFoundError
from segstore.remote.metadata.remote_log_leader_epoch_state import RemoteLogLeaderEpochState
from segstore.remote.metadata.remote_log_metadata_manager import SegmentRange
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from segstore.remote.metadata.segment_metadata import (
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
    )

_log = logging.getLogger(__name__)


class _Added(NamedTuple):
    order: int
    metadata: RemoteLogSegmentMetadata


class RemoteLogMetadataCache:
    """Takes the events of one partition in their order, and answers from them.

    Several threads may use it. What is deleted is forgotten: it takes no memory. Ids and offsets
    alone are kept of an epoch, and of each epoch its highest offset.

    Attributes
    ----------
    changes : ChangeCounter
        Counts what may let another segment be found, also that the partition is forgotten.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._segments: dict[UUID, _Added] = {}
        self._epochs: dict[int, RemoteLogLeaderEpochState] = {}
        self._added_count = 0
        self.changes = ChangeCounter()
        self._is_initialized = False

    @property
    def is_initialized(self) -> bool:
        """Whether everything that was there at the start has been taken."""
        return self._is_initialized

    def mark_initialized(self) -> None:
        """Note that everything that was there at the start has been taken."""
        self._is_initialized = True

    @property
    def metadata_count(self) -> int:
        """Segments in any state but deleted."""
        return len(self._segments)

    @property
    def leader_epochs(self) -> dict[int, RemoteLogLeaderEpochState]:
        """What each leader epoch has; a copy of the table, of the states themselves."""
        with self._lock:
            return dict(self._epochs)

    # ---- changes ---------------------------------------------------------------------------------

    def add_copy_in_progress_segment(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Take a segment whose copy begins; return whether it was taken.

        It is not when the segment is further already [TIER-30].

        Raises
        ------
        IllegalArgumentError
            The state is not COPY_SEGMENT_STARTED [TIER-20].
        """
        check_added(metadata)
        segment_id = metadata.segment_id.id
        with self._lock:
            before = self._segments.get(segment_id)
            if not self._may_follow(None if before is None else before.metadata, metadata):
                return False
            for epoch, _ in metadata.segment_leader_epochs:
                self._epoch(epoch).copy_started(segment_id)
            if before is None:
                self._added_count += 1
            order = self._added_count if before is None else before.order
            self._segments[segment_id] = _Added(order, metadata)
        return True

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> bool:
        """Take the next state of a segment; return whether it was taken.

        It is not when that state may not follow, or while not all is loaded, of a segment that is
        not known [TIER-30].

        Raises
        ------
        RemoteResourceNotFoundError
            All is loaded, and the segment is not known.
        IllegalArgumentError
            The state is COPY_SEGMENT_STARTED, and so is the one before.
        """
        with self._lock:
            before = self._segments.get(update.segment_id.id)
            if before is None:
                if self._is_initialized:
                    raise unknown_segment(update)
                return False
            if not self._may_follow(before.metadata, update):
                return False
            if update.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
                check_updated(update)
            self._take(_Added(before.order, before.metadata.with_update(update)))
        return True

    def _take(self, changed: _Added) -> None:
        self.changes.add()
        metadata = changed.metadata
        segment_id, state = metadata.segment_id.id, metadata.state
        for epoch, start_offset in metadata.segment_leader_epochs:
            of_epoch = self._epoch(epoch)
            if state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                end_offset = _end_offset(metadata, epoch)
                is_passed = metadata.is_transaction_index_empty
                of_epoch.copy_finished(
                    segment_id,
                    start_offset,
                    end_offset,
                    may_be_passed=is_passed and end_offset == metadata.end_offset,
                )
            elif state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
                of_epoch.delete_started(segment_id, start_offset)
            else:
                of_epoch.delete_finished(segment_id)
        if state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            del self._segments[segment_id]
        else:
            self._segments[segment_id] = changed

    def _epoch(self, epoch: int) -> RemoteLogLeaderEpochState:
        state = self._epochs.get(epoch)
        if state is None:
            state = self._epochs[epoch] = RemoteLogLeaderEpochState()
        return state

    @staticmethod
    def _may_follow(
        before: RemoteLogSegmentMetadata | None,
        after: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate,
    ) -> bool:
        state = None if before is None else before.state
        if RemoteLogSegmentState.is_valid_transition(state, after.state):
            return True
        _log.warning(
            "%s: state %s does not follow %s, the event is dropped",
            after.segment_id,
            after.state.name,
            None if state is None else state.name,
        )
        return False

    # ---- answers ---------------------------------------------------------------------------------

    def segment(self, segment_id: UUID) -> RemoteLogSegmentMetadata | None:
        """Return what is known of one copy; None: nothing, or it is deleted."""
        with self._lock:
            added = self._segments.get(segment_id)
            return None if added is None else added.metadata

    def remote_log_segment_metadata(
        self, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that has *offset* in that epoch, None: none has [TIER-28]."""
        with self._lock:
            of_epoch = self._epochs.get(leader_epoch)
            segment_id = None if of_epoch is None else of_epoch.floor(offset)
            if segment_id is None:
                return None
            metadata = self._known(segment_id)
        return metadata if offset <= _end_offset(metadata, leader_epoch) else None

    def segment_range(self, leader_epoch: int, offset: int) -> SegmentRange | None:
        """Return the finished segment of an offset, and for which others it is the one."""
        with self._lock:
            metadata = self.remote_log_segment_metadata(leader_epoch, offset)
            if metadata is None:
                return None
            first, last = self._epochs[leader_epoch].range_of_floor(offset)
            last = min(last, _end_offset(metadata, leader_epoch))
            return SegmentRange(metadata, first, last, self.changes, self.changes.count)

    def next_segment_with_transaction_index(
        self, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the segment of *offset*, or the next in its epoch with aborted transactions.

        None: from there on a segment is missing, or none has [TIER-22]. Segments without any that
        follow one another take no time.
        """
        with self._lock:
            found = self.remote_log_segment_metadata(leader_epoch, offset)
            while found is not None and found.is_transaction_index_empty:
                stop = self._epochs[leader_epoch].next_stop(offset)
                if stop is not None and stop != found.segment_id.id:
                    found = self._known(stop)
                    offset = found.start_offset
                else:
                    offset = found.end_offset + 1
                    found = self.remote_log_segment_metadata(leader_epoch, offset)
        return found

    def highest_offset_for_epoch(self, leader_epoch: int) -> int | None:
        """Return the highest offset that was ever finished in an epoch [TIER-27]."""
        with self._lock:
            of_epoch = self._epochs.get(leader_epoch)
            return None if of_epoch is None else of_epoch.highest_offset

    def list_remote_log_segments(
        self, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return the segments, or those of one epoch, by start offset, then as they were added.

        What is listed is what was there at the call [TIER-29].

        Raises
        ------
        RemoteResourceNotFoundError
            An epoch has a segment of which nothing is known.
        """
        with self._lock:
            if leader_epoch is None:
                listed = list(self._segments.values())
            else:
                of_epoch = self._epochs.get(leader_epoch)
                ids = set() if of_epoch is None else of_epoch.listed()
                listed = [self._added(segment_id) for segment_id in ids]
        listed.sort(key=lambda added: (added.metadata.start_offset, added.order))
        return (added.metadata for added in listed)

    def remote_log_size(self, leader_epoch: int) -> int:
        """Return the bytes of all segments that are listed for an epoch."""
        return sum(one.segment_size_bytes for one in self.list_remote_log_segments(leader_epoch))

    def _known(self, segment_id: UUID) -> RemoteLogSegmentMetadata:
        return self._added(segment_id).metadata

    def _added(self, segment_id: UUID) -> _Added:
        added = self._segments.get(segment_id)
        if added is None:
            raise RemoteResourceNotFoundError(
                "a leader epoch has a remote log segment of which nothing is known",
                found=str(segment_id),
                expected="its metadata",
            )
        return added


def check_added(metadata: RemoteLogSegmentMetadata) -> None:
    """Refuse metadata that do not say that a copy begins [TIER-20]."""
    if metadata.state is not RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        raise IllegalArgumentError(
            "a remote log segment is added when its copy begins, later states are updates",
            found=metadata.state.name,
            expected=RemoteLogSegmentState.COPY_SEGMENT_STARTED.name,
        )


def check_updated(update: RemoteLogSegmentMetadataUpdate) -> None:
    """Refuse an update that says that a copy begins [TIER-20, TIER-30]."""
    if update.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        raise IllegalArgumentError(
            "an update does not begin a copy of a remote log segment: that one is added",
            found=update.state.name,
            expected="a later state",
        )


def unknown_segment(update: RemoteLogSegmentMetadataUpdate) -> RemoteResourceNotFoundError:
    """Return the error for an update of a segment that was not added, or is deleted [TIER-30]."""
    return RemoteResourceNotFoundError(
        "nothing is known of the remote log segment",
        found=f"{update.state.name} of {update.segment_id.id}",
        expected="a segment that was added and is not deleted",
    )


def _end_offset(metadata: RemoteLogSegmentMetadata, epoch: int) -> int:
    """Return the last offset of the segment that is of an epoch: the next one ends it."""
    if len(metadata.segment_leader_epochs) == 1:
        return metadata.end_offset
    starts = (start - 1 for other, start in metadata.segment_leader_epochs if other > epoch)
    return next(starts, metadata.end_offset)
