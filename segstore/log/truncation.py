"""Cutting a log at its newest end, durably [TRU-*, DUR-16, DUR-18].

A truncation first writes all that a full disk could refuse; nothing has changed until then. Behind
that point a failure ends writing, as memory and disk may be apart.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from segstore.errors import DiskFullError, FsyncFailedError, SegstoreError
from segstore.log.files.missing_records_file import forget_ranges_from, prepare_forgetting
from segstore.log.files.profile import Profile
from segstore.log.retention import delete_snapshots_of

if TYPE_CHECKING:
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.files.prepared_file import PreparedFile
    from segstore.log.log_writer import LogWriter
    from segstore.log.remote_part import RemotePart


class Truncation:
    """Makes one log shorter, under the append lock, and durably when a call returns."""

    def __init__(
        self, log: LogWriter, checkpoint_store: CheckpointStore, remote: RemotePart
    ) -> None:
        self._log = log
        self._checkpoint_store = checkpoint_store
        self._remote = remote
        self._is_safe = log.profile is Profile.SAFE

    @property
    def _ends_epochs(self) -> bool:
        """Whether what is cut may be in remote storage: then it is of an epoch that has ended.

        Else the records that are written there next could not be told from it [DUR-141].
        """
        return self._is_safe and self._remote.may_have_copies

    def truncate_to(self, offset: int) -> bool:
        """Remove the records from *offset* on; returns whether there were any [TRU-1..TRU-3]."""
        self._log.watcher.note_segments()
        self._log.begin_change()  # it may finish a deletion
        local_log, metadata = self._log.local_log, self._log.metadata
        log_end_offset = local_log.log_end.message_offset
        if offset >= log_end_offset:
            # an epoch that begins at the end is the one that a truncation has raised
            if metadata.epochs.truncate_from_end(log_end_offset + self._ends_epochs):
                metadata.begin_change()
                with self._log.failure_mark.poisoned_by(FsyncFailedError):
                    metadata.epochs.flush()
                    metadata.save_state()
            return False
        if offset < local_log.segments.first_segment.base_offset:
            keeps = self._remote.tier is not None and self._is_safe
            log_start = min(self._log.offsets.log_start_offset, offset) if keeps else offset
            self._truncate_fully(offset, log_start, keeps_epochs=log_start < offset)
        else:
            self._truncate(offset)
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int) -> None:
        """Remove all records and go on at *offset* [TRU-4]."""
        if self._remote.tier is None and self._is_safe:
            log_start_offset = offset
        # without their epochs the records below, in remote storage, could not be read [DUR-141]
        keeps_epochs = self._is_safe and log_start_offset < offset
        self._truncate_fully(offset, log_start_offset, keeps_epochs=keeps_epochs)

    def _truncate(self, offset: int) -> None:
        local_log, flusher, metadata = self._log.local_log, self._log.flusher, self._log.metadata
        metadata.begin_change()
        kept_end = local_log.end_of_data_below(offset)
        flusher.sync_what_stays(offset)
        goes_back = offset < self._log.offsets.log_start_offset
        has_hole, file = kept_end != offset, metadata.state_file
        # without one, what may be missing above *offset* goes with the records there
        contiguous_from = (
            offset if has_hole or file is None else min(file.state.contiguous_from, offset)
        )
        with self._log.failure_mark.poisoned_by(FsyncFailedError), ExitStack() as undo:  # [DUR-30]
            self._announce(undo, offset, offset if has_hole else None)
            undo.callback(flusher.restore_durable, flusher.durable)
            point = min(offset, kept_end) if self._is_safe else offset
            flusher.lower_recovery_point(point)
            self._checkpoint_store.lower_recovery_point(point)
            next_from = min(offset, kept_end) if self._ends_epochs else None
            entries = metadata.epochs.entries_below(offset, next_from)
            epochs = _or_discard(undo, metadata.epochs.prepare(entries))
            log_start = self._checkpoint_store.prepare_log_start(offset) if goes_back else None
            _or_discard(undo, log_start)
            ranges = _or_discard(undo, prepare_forgetting(local_log.directory, offset))
            local_log.begin_truncation(offset)
            undo.pop_all()  # nothing was changed yet, and no full disk can refuse the rest
        # memory and disk may be apart, whatever comes out of it [DUR-38]
        with self._log.failure_mark.poisoned_by(BaseException):
            flusher.note_hole(kept_end, offset)
            removed = local_log.truncate_to(offset)
            delete_snapshots_of(removed, self._log.producers, local_log)
            metadata.epochs.replace(entries, epochs)
            forget_ranges_from(local_log.directory, offset, ranges)
            with suppress(DiskFullError):  # it says less than it could until the next that is
                metadata.save_state(contiguous_from)
            if goes_back:
                self._log.offsets.reset_log_start_offset(offset)
                self._checkpoint_store.write_log_start(offset, log_start)
            if self._remote.tier is not None and self._is_safe:
                self._remote.tier.forget_from(offset)
            self._log.rebuild_producers()
            self._log.offsets.cut_to_log_end()
            flusher.note_durable(local_log.log_end)

    def _announce(
        self,
        undo: ExitStack,
        offset: int,
        contiguous_from: int | None,
        *,
        is_being_emptied: bool = False,
    ) -> None:
        """Before a cut at *offset*, let ``.segstore`` say that it comes: to readers, and to opens.

        And no more of the log than is true before and after it. Other records of the same size may
        come below the end of the clean part [DUR-126].
        """
        file = self._log.metadata.state_file
        if file is None:
            return
        known, cleaned = file.state.contiguous_from, file.state.cleaned

        def roll_back() -> None:
            with suppress(SegstoreError):  # else the next that is written does
                at_rest = file.state.generation_at_rest
                file.change(is_being_emptied=False, generation=at_rest)

        undo.callback(roll_back)
        file.change(
            generation=file.state.generation_at_rest + 1,
            contiguous_from=known if contiguous_from is None else max(known, contiguous_from),
            is_being_emptied=is_being_emptied,
            cleaned=None if cleaned is not None and offset < cleaned.offset else cleaned,
        )

    def _truncate_fully(
        self, offset: int, log_start_offset: int, *, keeps_epochs: bool = False
    ) -> None:
        self._log.watcher.note_segments()
        self._log.begin_change()
        checkpoint_store = self._checkpoint_store
        metadata, flusher = self._log.metadata, self._log.flusher
        metadata.begin_change()
        old_log_start = self._log.offsets.log_start_offset
        goes_back = log_start_offset < old_log_start
        file = metadata.state_file
        no_gap = log_start_offset == offset  # else what lies between is one
        contiguous_from = min(file.state.contiguous_from, offset) if file and no_gap else offset
        has_records = old_log_start < self._log.local_log.log_end.message_offset
        next_from = offset if self._ends_epochs and has_records else None
        entries = metadata.epochs.entries_below(offset if keeps_epochs else 0, next_from)
        with self._log.failure_mark.poisoned_by(FsyncFailedError), ExitStack() as undo:  # [DUR-30]
            undo.callback(flusher.restore_durable, flusher.durable)
            lowest = min(log_start_offset, old_log_start) if self._is_safe else offset
            flusher.lower_recovery_point(lowest)
            checkpoint_store.lower_recovery_point(lowest)
            # a crash leaves no .log, and that is no loss then
            self._announce(undo, 0, contiguous_from, is_being_emptied=True)
            epochs = _or_discard(undo, metadata.epochs.prepare(entries))
            log_start = checkpoint_store.prepare_log_start(log_start_offset)
            _or_discard(undo, log_start)
            self._log.local_log.begin_truncation(None)
            if log_start is None and not goes_back:
                checkpoint_store.write_log_start(log_start_offset)
            undo.pop_all()  # nothing was changed yet, and no full disk can refuse the rest
        # memory and disk may be apart, whatever comes out of it [DUR-38]
        with self._log.failure_mark.poisoned_by(BaseException):
            if log_start is not None and not goes_back:
                checkpoint_store.write_log_start(log_start_offset, log_start)
            removed = self._log.local_log.truncate_fully_and_start_at(offset)
            if goes_back:  # not before the files are gone: deleted records would come back [DUR-5]
                checkpoint_store.write_log_start(log_start_offset, log_start)
            metadata.epochs.replace(entries, epochs)
            forget_ranges_from(self._log.local_log.directory, 0)  # it removes the file
            if epochs is None and not (keeps_epochs or self._is_safe):
                metadata.epochs.clear_and_flush()  # a broker writes that there are none, again
            self._log.producers.truncate_fully_and_start_at(offset)
            delete_snapshots_of(removed, self._log.producers, self._log.local_log)
            self._log.offsets.reset_log_start_offset(log_start_offset)
            tier = self._remote.tier
            if tier is not None:
                tier.restart_at(offset)
                if self._is_safe:
                    tier.forget_from(offset)
            self._log.rebuild_producers()
            self._log.offsets.cut_to_log_end(always=True)
            with suppress(DiskFullError):  # it says less than it could until the next that is
                metadata.save_state(contiguous_from)
                self._note_local_start(offset, log_start_offset)
            flusher.note_durable(self._log.local_log.log_end)

    def _note_local_start(self, offset: int, log_start_offset: int) -> None:
        file = self._log.metadata.state_file
        if file is not None:
            is_remote_below = self._remote.tier is not None and log_start_offset < offset
            local_start = file.state.local_log_start_offset
            if is_remote_below or local_start > offset:
                file.change(local_log_start_offset=offset)


def _or_discard(undo: ExitStack, prepared: PreparedFile | None) -> PreparedFile | None:
    """Return what was prepared, to be given up when the operation is refused."""
    if prepared is not None:
        undo.callback(prepared.discard)
    return prepared
