"""Taking records out of a log at either end: truncation, and deletion up to a new log start.

Source: [TRU-*, LST-4, DUR-16, DUR-18, DUR-19].
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from segstore.arguments import integer, natural
from segstore.errors import (
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    SegstoreError,
)
from segstore.log.directory.profile import Profile
from segstore.log.local.local_log import out_of_range
from segstore.log.log_retention import LogRetention

if TYPE_CHECKING:
    from segstore.log.directory.prepared_file import PreparedFile


class LogTruncator(LogRetention):
    """What makes a log shorter, under the append lock, and durably when it returns."""

    def truncate_to(self, offset: int) -> bool:
        """Remove the records from *offset* on, durably; returns whether there were any.

        Source: [TRU-1..TRU-3].

        A batch that holds *offset* goes whole; the next append gets *offset* all the same [TRU-5],
        as in Kafka. Without one, the log ends at the first offset of that batch when it is opened
        again: no file says that it had been longer.
        Below the log start it empties the log and moves the log start back to *offset*: deleted
        records do not come back [TRU-2]. Where only remote storage has what lies below *offset*,
        the log start stays; in Kafka's profile it moves there, and those records are given up.

        Parameters
        ----------
        offset : int
            The next offset to be written; at or above the log end nothing changes.
        """
        self._require_writable()
        offset = natural("offset", offset)
        with self._append_lock:
            self._require_writable()
            self._begin_change()  # it may finish a deletion
            if offset >= self.log_end_offset:
                if self._epochs.truncate_from_end(self.log_end_offset):
                    with self._flusher.poisoned_by(FsyncFailedError):
                        self._epochs.flush()
                        self._save_state()
                return False
            if offset < self._local_log.segments.first_segment.base_offset:
                keeps = self._tier is not None and self.profile is Profile.SAFE
                log_start = min(self.log_start_offset, offset) if keeps else offset
                self._truncate_fully(offset, log_start, keeps_epochs=log_start < offset)
            else:
                self._truncate(offset)
            return True

    def _truncate(self, offset: int) -> None:
        local_log, flusher = self._local_log, self._flusher
        kept_end = local_log.end_of_data_below(offset)
        flusher.sync_what_stays(offset)
        is_safe = self.profile is Profile.SAFE
        goes_back = offset < self.log_start_offset
        has_hole, file = kept_end != offset, self._state_file
        # without one, what may be missing above *offset* goes with the records there
        contiguous_from = (
            offset if has_hole or file is None else min(file.state.contiguous_from, offset)
        )
        with flusher.poisoned_by(FsyncFailedError), ExitStack() as undo:  # [DUR-30]
            undo.callback(flusher.take_durable_back, flusher.durable)
            point = min(offset, kept_end) if is_safe else offset
            flusher.lower_recovery_point(point)
            self._places.lower_recovery_point(point)
            self._weaken_state(undo, offset if has_hole else None)
            epochs = _or_discard(undo, self._epochs.prepare_truncation(offset))
            log_start = self._places.prepare_log_start(offset) if goes_back else None
            _or_discard(undo, log_start)
            local_log.begin_truncation(offset)
            undo.pop_all()  # nothing was changed yet, and no full disk can refuse the rest
        with flusher.poisoned_by(BaseException):  # memory and disk may be apart [DUR-38]
            flusher.note_hole(kept_end, offset)
            removed = local_log.truncate_to(offset)
            self._delete_snapshots_of(removed)
            self._epochs.finish_truncation(offset, epochs)
            with suppress(DiskFullError):  # it says less than it could until the next that is
                self._save_state(contiguous_from)
            if goes_back:
                self._offsets.log_start_offset = offset
                self._places.write_log_start(offset, log_start)
            if self._tier is not None and is_safe:
                self._tier.forget_from(offset)
            self._rebuild_producers()
            self._offsets.cut_to_log_end()
            flusher.note_durable(local_log.log_end)

    def _weaken_state(
        self, undo: ExitStack, contiguous_from: int | None, *, is_being_emptied: bool = False
    ) -> None:
        """Before a cut, let ``.segstore`` say no more than is true before and behind it."""
        file = self._state_file
        if file is None:
            return
        known = file.state.contiguous_from
        if is_being_emptied:

            def take_back() -> None:
                with suppress(SegstoreError):  # else the next that is written does
                    file.change(is_being_emptied=False)

            undo.callback(take_back)
        file.change(
            contiguous_from=known if contiguous_from is None else max(known, contiguous_from),
            is_being_emptied=is_being_emptied,
        )

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove all records, durably, and go on at *offset* [TRU-4].

        Parameters
        ----------
        log_start_offset : int or None
            Where a log begins that has a part in remote storage, at most *offset*; None = there,
            as without one: no offset below the first segment can be read here, and the next open
            would move the log start there [UNI-2, LDR-9]. In Kafka's profile the handle has it all
            the same until then.
        """
        self._require_writable()
        offset = natural("offset", offset)
        log_start = offset if log_start_offset is None else natural("offset", log_start_offset)
        if log_start > offset and self.profile is Profile.SAFE:
            raise IllegalArgumentError(
                f"a log cannot begin at {log_start} and end at {offset}",
                found=str(log_start),
                expected=f"at most {offset}",
            )
        with self._append_lock:
            self._require_writable()
            if self._tier is None and self.profile is Profile.SAFE:
                log_start = offset
            self._truncate_fully(offset, log_start)

    def _truncate_fully(
        self, offset: int, log_start_offset: int, *, keeps_epochs: bool = False
    ) -> None:
        self._begin_change()
        goes_back = log_start_offset < self.log_start_offset
        is_safe = self.profile is Profile.SAFE
        file = self._state_file
        no_gap = log_start_offset == offset  # else what lies between is one
        contiguous_from = min(file.state.contiguous_from, offset) if file and no_gap else offset
        epochs_end = offset if keeps_epochs else 0
        with self._flusher.poisoned_by(FsyncFailedError), ExitStack() as undo:  # [DUR-30]
            undo.callback(self._flusher.take_durable_back, self._flusher.durable)
            lowest = min(log_start_offset, self.log_start_offset) if is_safe else offset
            self._flusher.lower_recovery_point(lowest)
            self._places.lower_recovery_point(lowest)
            # a crash leaves no .log, and that is no loss then
            self._weaken_state(undo, contiguous_from, is_being_emptied=True)
            epochs = _or_discard(undo, self._epochs.prepare_truncation(epochs_end))
            log_start = self._places.prepare_log_start(log_start_offset)
            _or_discard(undo, log_start)
            self._local_log.begin_truncation(None)
            if log_start is None and not goes_back:
                self._places.write_log_start(log_start_offset)
            undo.pop_all()  # nothing was changed yet, and no full disk can refuse the rest
        with self._flusher.poisoned_by(BaseException):  # memory and disk may be apart [DUR-38]
            if log_start is not None and not goes_back:
                self._places.write_log_start(log_start_offset, log_start)
            removed = self._local_log.truncate_fully_and_start_at(offset)
            if goes_back:  # not before the files are gone: deleted records would come back [DUR-5]
                self._places.write_log_start(log_start_offset, log_start)
            self._epochs.finish_truncation(epochs_end, epochs)
            if epochs is None and not (keeps_epochs or is_safe):
                self._epochs.clear_and_flush()  # a broker writes that there are none, again
            self._producers.truncate_fully_and_start_at(offset)
            self._delete_snapshots_of(removed)
            self._offsets.log_start_offset = log_start_offset
            if self._tier is not None:
                self._tier.local_log_start_offset = offset
                if is_safe:
                    self._tier.forget_from(offset)
            self._rebuild_producers()
            self._offsets.cut_to_log_end(always=True)
            with suppress(DiskFullError):  # it says less than it could until the next that is
                self._save_state(contiguous_from)
                self._note_local_start(offset, log_start_offset)
            self._flusher.note_durable(self._local_log.log_end)

    def _note_local_start(self, offset: int, log_start_offset: int) -> None:
        file = self._state_file
        if file is not None:
            is_remote_below = self._tier is not None and log_start_offset < offset
            local_start = file.state.local_log_start_offset
            if is_remote_below or local_start > offset:
                file.change(local_log_start_offset=offset)

    def delete_records(self, before_offset: int) -> int:
        """Remove the records below *before_offset*; returns the log start offset, durable [LST-4].

        Files go when all of their records are below it, and are unlinked after
        ``file_delete_delay_ms``.

        Parameters
        ----------
        before_offset : int
            At most the high watermark; -1 = the high watermark, so that every record goes that
            consumers see.

        Raises
        ------
        OffsetOutOfRangeError
            It is above the high watermark, or below -1.
        """
        self._require_writable()
        before_offset = integer("before_offset", before_offset)
        policies = self.config.cleanup_policies
        if "compact" in policies and "delete" not in policies:
            raise IllegalArgumentError(
                "records of a compacted log are deleted by compaction",
                found=f"cleanup_policy {self.config.cleanup_policy!r}",
                expected="one with delete",
            )
        with self._append_lock:
            self._require_writable()
            offset = self.high_watermark if before_offset == -1 else before_offset
            if offset < 0:
                raise out_of_range(
                    offset, self.log_start_offset, self.high_watermark, self._directory
                )
            self._increment_log_start(offset)
            if self.profile is Profile.SAFE:  # also what an earlier call could not take
                self._begin_deletion()
                with self._flusher.poisoned_by(FsyncFailedError):
                    self._delete_segments(self._segments_below_log_start())
            return self.log_start_offset


def _or_discard(undo: ExitStack, prepared: PreparedFile | None) -> PreparedFile | None:
    """Return what was prepared, to be given up when the operation is refused."""
    if prepared is not None:
        undo.callback(prepared.discard)
    return prepared
