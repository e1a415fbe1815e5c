"""Moving what readers see: high watermark, log start, leader epochs [HW-*, LST-*, EPC-5].

For who replicates a log: without ``replicated=True`` the high watermark is the log end.
"""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import TYPE_CHECKING

from segstore.arguments import callback, instance, integer, leader_epoch
from segstore.errors import DiskFullError, FsyncFailedError
from segstore.log.directory.profile import Profile
from segstore.log.local.local_log import out_of_range
from segstore.log.log_appender import LogAppender
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.log_offsets import LogOffsetSnapshot
    from segstore.types import EpochEntry


class LogWatermarks(LogAppender):
    """What Kafka's replica manager does to a log besides appending."""

    # ---- high watermark --------------------------------------------------------------------------

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark, between log start and log end; returns where it is [HW-2].

        It may move backwards. It is not written down: after an open it is the log start [UNI-4].

        Raises
        ------
        IllegalStateError
            The log was not opened with ``replicated=True``.
        """
        self._require_writable()
        metadata = LogOffsetMetadata(integer("offset", offset))
        with self._append_lock:
            self._require_writable()
            return self._offsets.update_high_watermark(metadata)

    def maybe_increment_high_watermark(
        self, high_watermark: LogOffsetMetadata
    ) -> LogOffsetMetadata | None:
        """Move the high watermark forwards, as a leader; returns the old one if it moved [HW-4].

        Raises
        ------
        IllegalArgumentError
            It is above the log end.
        """
        self._require_writable()
        instance("high_watermark", high_watermark, LogOffsetMetadata, "a LogOffsetMetadata")
        with self._append_lock:
            self._require_writable()
            return self._offsets.maybe_increment_high_watermark(high_watermark)

    def maybe_update_high_watermark(self, offset: int) -> int | None:
        """Take over the leader's high watermark, as a follower; returns the new one if it moved.

        Source: [HW-5].
        """
        self._require_writable()
        offset = integer("offset", offset)
        with self._append_lock:
            self._require_writable()
            old = self._offsets.high_watermark
            new = self._offsets.update_high_watermark(LogOffsetMetadata(offset))
            return None if new == old else new

    def set_high_watermark_listener(self, listener: Callable[[int], None] | None) -> None:
        """Call *listener* with each high watermark that the caller moved, under the append lock.

        That is of a log that was opened with ``replicated=True``: elsewhere it is the log end, and
        each append returns it. It must not call the log; what it raises comes out of the call that
        moved the watermark, which has moved. Setting it calls nothing; `close` drops it [LIS-1].
        """
        self._require_open()
        callback("listener", listener)
        with self._append_lock:
            self._offsets.listen(listener)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open, or ended above the high watermark.

        None when there is none, or the log was opened to be read [LSO-1].
        """
        self._require_open()
        return self._offsets.first_unstable_offset

    def fetch_offset_snapshot(self) -> LogOffsetSnapshot:
        """Return log start, log end, high watermark and last stable offset, with their places.

        Source: [LSO-4].
        """
        self._require_writable()
        with self._append_lock:
            return self._offsets.snapshot()

    def maybe_convert_to_offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return *offset* with its place, offset-only where it is not held here [HW-9]."""
        self._require_open()
        return self._local_log.offset_metadata(integer("offset", offset))

    # ---- log start -------------------------------------------------------------------------------

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start forwards, durably; returns whether it moved [LST-1].

        No file goes: `delete_old_segments` deletes those that end below it [LST-2].

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is above the high watermark.
        """
        self._require_writable()
        offset = integer("offset", offset)
        with self._append_lock:
            self._require_writable()
            return self._increment_log_start(offset)

    def _increment_log_start(self, offset: int) -> bool:
        if offset > self.high_watermark:
            raise out_of_range(offset, self.log_start_offset, self.high_watermark, self._directory)
        if self._tier is not None:
            self._tier.raise_local_log_start(offset)  # also where the log start stays
        if offset <= self.log_start_offset:
            return False
        self._begin_deletion()
        with self._flusher.poisoned_by(FsyncFailedError):
            self._producers.sync_snapshots()  # what they know of records that go is nowhere else
            self._with_room(lambda: self._places.write_log_start(offset), offset)
            self._offsets.update_log_start_offset(offset)
            self._flusher.raise_recovery_point(offset)
            is_changed = self._epochs.truncate_from_start(offset)
            self._producers.on_log_start_offset_incremented(offset)
            self._offsets.update_first_unstable_offset()
            with contextlib.suppress(
                DiskFullError
            ):  # what they say of deleted records counts no more
                if is_changed:
                    self._with_room(self._epochs.flush, offset)
                    self._with_room(self._save_state, offset)
        return True

    def _with_room(self, write: Callable[[], None], offset: int) -> None:
        """Write a small file; a full disk must not keep anybody from deleting what fills it.

        Where it is full, the indexes of the oldest segments make room, as far as these are to go:
        they end at or below *offset*. Until they go reads are slower, and whoever opens the log
        after a crash makes their indexes anew [DUR-8, DUR-19, DUR-30].
        """
        try:
            write()
        except DiskFullError:
            if self.profile is Profile.KAFKA or not self._is_room_made(write, offset):
                raise

    def _is_room_made(self, write: Callable[[], None], offset: int) -> bool:
        for segment, following in pairwise(self._local_log.segments.as_tuple):
            if following.base_offset > offset:
                break
            if segment.give_up_indexes():
                with contextlib.suppress(DiskFullError):
                    write()
                    return True
        return False

    # ---- leader epochs ---------------------------------------------------------------------------

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch."""
        return self._epochs.latest_epoch

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """All leader epochs that are known, ascending, each with its first offset.

        Of a handle that reads, as they were when it was opened.
        """
        return self._epochs.entries

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """Note that *epoch* begins at *start_offset*, durably [EPC-2].

        Raises
        ------
        IllegalArgumentError
            One of them is negative.
        InvalidEpochError
            *epoch* is older than the newest [DUR-64].
        """
        self._require_writable()
        epoch, start_offset = leader_epoch(epoch), integer("start_offset", start_offset)
        with self._append_lock:
            self._require_writable()
            self._begin_change()
            self._note_epoch(self._epoch_of(epoch), start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the newest epoch up to *epoch* and where it ends, None when unknown [EPC-5]."""
        self._require_open()
        found = self._epochs.end_offset_for(integer("epoch", epoch), self.log_end_offset)
        return None if found[1] < 0 else found
