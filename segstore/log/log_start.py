"""Moving the log start forwards, durably: in memory, in its checkpoint, in what depends on it.

Source: [LST-1, LST-5, UNI-3, DUR-19].
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from segstore.errors import DiskFullError, FsyncFailedError
from segstore.log.files.profile import Profile
from segstore.log.local.local_log import out_of_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.failure_mark import FailureMark
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.local.local_log import LocalLog
    from segstore.log.log_flusher import LogFlusher
    from segstore.log.log_offsets import LogOffsets
    from segstore.log.log_writer import LogWriter
    from segstore.log.metadata import LogMetadata
    from segstore.log.producers.producer_state_manager import ProducerStateManager
    from segstore.log.remote_part import RemotePart


class LogStart:
    """Where one log begins; under its append lock. `LogOffsets` has the number."""

    def __init__(  # noqa: PLR0913 - what a log start moves
        self,
        local_log: LocalLog,
        offsets: LogOffsets,
        checkpoint_store: CheckpointStore,
        producers: ProducerStateManager,
        metadata: LogMetadata,
        writer: LogWriter,
        remote: RemotePart,
        flusher: LogFlusher,
        failure_mark: FailureMark,
        profile: Profile,
    ) -> None:
        self._local_log = local_log
        self._offsets = offsets
        self._checkpoint_store = checkpoint_store
        self._producers = producers
        self._metadata = metadata
        self._writer = writer
        self._remote = remote
        self._flusher = flusher
        self._failure_mark = failure_mark
        self._profile = profile

    def increment(self, offset: int) -> bool:
        """Move the log start to *offset*, unless it is there; returns whether it moved.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is above the high watermark.
        """
        offsets, metadata = self._offsets, self._metadata
        if offset > offsets.high_watermark:
            start, end = offsets.log_start_offset, offsets.high_watermark
            raise out_of_range(offset, start, end, self._local_log.directory)
        if self._remote.tier is not None:
            self._remote.tier.raise_local_log_start(offset)  # also where the log start stays
        if offset <= offsets.log_start_offset:
            return False
        self._writer.begin_deletion()
        metadata.begin_change()
        with self._failure_mark.poisoned_by(FsyncFailedError):
            self._producers.sync_snapshots()  # what they know of records that go is nowhere else
            self.with_room(lambda: self._checkpoint_store.write_log_start(offset), offset)
            offsets.update_log_start_offset(offset)
            self._flusher.raise_recovery_point(offset)
            is_changed = metadata.epochs.truncate_from_start(offset)
            self._producers.on_log_start_offset_incremented(offset)
            offsets.update_first_unstable_offset()
            with suppress(DiskFullError):  # what they say of deleted records counts no more
                if is_changed:
                    self.with_room(metadata.epochs.flush, offset)
                    self.with_room(metadata.save_state, offset)
        return True

    def with_room(self, write: Callable[[], None], offset: int) -> None:
        """Write a small file; a full disk must not keep anybody from deleting what fills it.

        Where it is full, the indexes of the oldest segments make room, as far as these are to go:
        they end at or below *offset*. Until they go reads are slower, and an open after a crash
        builds their indexes again [DUR-8, DUR-19, DUR-30].
        """
        try:
            write()
        except DiskFullError:
            if self._profile is Profile.KAFKA or not self._is_room_made(write, offset):
                raise

    def _is_room_made(self, write: Callable[[], None], offset: int) -> bool:
        for segment, following in pairwise(self._local_log.segments.as_tuple):
            if following.base_offset > offset:
                break
            if segment.give_up_indexes():
                with suppress(DiskFullError):
                    write()
                    return True
        return False
