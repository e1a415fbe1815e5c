"""The end of a log: its active segment, the log end, and what moves them: append and roll [LOC-*].

Whatever a program's signal handlers raise, Ctrl-C above all, may come between any two calls here.
What belongs together is therefore computed first and then stored by plain assignments in a row,
which nothing interrupts; a roll is noted before it begins, and `LogTail.settle` undoes one that did
not get to that point.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.arguments import integer
from segstore.errors import (
    AlreadyExistsError,
    FsyncFailedError,
    IllegalArgumentError,
    IllegalStateError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.directory.partition_directory import (
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    file_name,
)
from segstore.log.directory.partition_lock import removed_while_open
from segstore.log.local.cuts import Cuts
from segstore.log.local.segment import Segment, roll_jitter_ms
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from segstore._core import (
        AppendLane,
        BatchHeaders,
        CodecTable,
        Directory,
        SegmentContext,
    )
    from segstore.config import LogConfig
    from segstore.log.directory.background import Scheduler
    from segstore.log.local.checksum_sidecars import ChecksumSidecars
    from segstore.log.local.segments import Segments
    from segstore.log.local.transaction_index import TransactionIndex

_log = logging.getLogger(__name__)


class LogTail:
    """What `LocalLog` does at its end, under the append lock of `UnifiedLog`.

    Attributes
    ----------
    segments : Segments
        Never empty while the log is open.
    log_end : LogOffsetMetadata
        The next offset, and the segment and byte where it will be; published after the bytes.
    names_version : int
        Raised whenever a file was created or renamed.
    checksum_sidecars : ChecksumSidecars or None
        None for a reader, and in Kafka's profile.
    """

    __slots__ = ("__dict__", "log_end")  # every append stores it: a slot takes half the time

    def __init__(  # noqa: PLR0913 - what a log consists of
        self,
        directory: Directory,
        context: SegmentContext,
        config: LogConfig,
        segments: Segments,
        log_end: LogOffsetMetadata,
        background: Scheduler,
        codecs: CodecTable,
    ) -> None:
        self.directory = directory
        self.config = config
        self.segments = segments
        self.log_end = log_end
        self.names_version = 1
        self.generation = 0
        self.cuts = Cuts()
        self.may_have_gaps = False
        self.first_missing_offset: int | None = None  # before the first segment
        self._context = context
        self._background = background
        self._codecs = codecs
        self._deletions = count()
        self._awaiting_deletion: dict[int, Callable[[], object]] = {}
        self._transaction_index: TransactionIndex | None = None
        self.unsynced_transaction_indexes: dict[int, int] = {}
        self.checksum_sidecars: ChecksumSidecars | None = None
        self._active = segments.active_segment
        self._max_segment_ms = self._draw_max_segment_ms()
        self._rolling_to: int | None = None
        self._is_sealing = False
        self._is_cutting = False

    def _draw_max_segment_ms(self) -> int:
        return self.config.roll_ms - roll_jitter_ms(self.config)

    @property
    def has_heap_indexes(self) -> bool:
        """Whether the indexes of new segments are in memory [DUR-25]."""
        return self._context.heap_indexes

    def use_config(self, config: LogConfig, context: SegmentContext) -> None:
        """Go by other settings from the next decision on; segments keep their own [UNI-7]."""
        self.config = config
        self._context = context
        self._max_segment_ms = self._draw_max_segment_ms()

    # ---- what an interrupted call has left -------------------------------------------------------

    def settle(self) -> None:
        """Undo a roll that was interrupted; every change begins with this.

        Raises
        ------
        FsyncFailedError
            Of a roll that is undone: it may come back, and nothing may be written any more.
        IllegalStateError
            A truncation was interrupted, or the log end is not where the file ends: nothing may be
            written any more [DUR-38].
        """
        if self._rolling_to is not None:
            self._undo_roll(self._rolling_to)
        active = self._active
        position = active.size_bytes
        if self._is_cutting or position != self.log_end.relative_position_in_segment:
            raise IllegalStateError(
                "a change of the log was interrupted: it takes no others, until it is opened again",
                file=active.path,
                found=f"{position} bytes",
                expected=f"{self.log_end.relative_position_in_segment} bytes",
            )

    def _undo_roll(self, base_offset: int) -> None:
        """Remove what `_roll_at` has made for *base_offset*; may be done twice.

        On the disk too: what the power brings back would lie beside what is appended now [DUR-30].
        """
        active = self._active
        is_same = active.base_offset == base_offset
        if is_same:  # it must not have the names that are removed
            active.change_suffix(".deleted")
        for kind in (LOG_FILE_SUFFIX, *INDEX_FILE_SUFFIXES):
            self.directory.unlink(file_name(base_offset, kind), missing_ok=True)
        if is_same:
            active.change_suffix("")
        self.directory.sync(Barrier.ROLL_UNDONE)
        if self._is_sealing:
            active.prepare_for_appends()
        self.names_version += 1
        self._is_sealing = False
        self._rolling_to = None

    # ---- append and roll -------------------------------------------------------------------------

    def append(self, batches: Buffer, headers: BatchHeaders, last_offset: int) -> None:
        """Write whole batches behind the log end and publish the new one [LOC-5, CON-4]."""
        active = self._active
        position = active.size_bytes + memoryview(batches).nbytes
        log_end = LogOffsetMetadata(last_offset + 1, active.base_offset, position)
        try:
            active.append(batches, headers)
        finally:  # also when something is raised behind the write: the bytes are there
            if active.size_bytes == position:
                self.log_end = log_end

    def arm(self, lane: AppendLane, leader_epoch: int, log_start_offset: int) -> None:
        """Tell the short way of an append where the log ends; nothing is left undone [D11]."""
        active, log_end = self._active, self.log_end
        lane.arm(
            active,
            log_end.message_offset,
            log_end.relative_position_in_segment,
            leader_epoch,
            self._max_segment_ms,
            log_start_offset,
            self.generation,
        )

    @property
    def is_poisoned(self) -> bool:
        """A failed write could not be undone: nothing may be written any more [DUR-32]."""
        return self._active.poisoned

    def roll_if_needed(
        self, max_timestamp: int, max_offset: int, size_bytes: int, now_ms: int, first_offset: int
    ) -> Segment | None:
        """Begin a new segment at *first_offset* when the active one cannot take what comes.

        Source: [APP-12].

        Returns the segment that was sealed, None when there was no need.
        """
        sealed = self._active
        if not sealed.should_roll(
            self._max_segment_ms,
            self.config.roll_bytes,
            max_timestamp,
            max_offset,
            size_bytes,
            now_ms,
        ):
            return None
        self._roll_at(max(first_offset, self.log_end.message_offset))
        return sealed

    def roll(
        self, expected_next_offset: int | None = None, *, may_leave_gap: bool = False
    ) -> Segment:
        """Begin a new segment at the log end; returns it [LOC-11].

        An active segment that is empty and begins there already is made ready again; Kafka makes
        its files anew (KAFKA-6388).

        Raises
        ------
        IllegalArgumentError
            *expected_next_offset* is above the log end: every later append would fail. With
            *may_leave_gap* the segment begins there all the same, as Kafka's.
        """
        self.settle()
        end = self.log_end.message_offset
        expected = 0 if expected_next_offset is None else integer("offset", expected_next_offset)
        if may_leave_gap:
            return self._roll_at(max(expected, end))
        if expected > end:
            raise IllegalArgumentError(
                f"a segment at {expected_next_offset} would leave a gap behind {end}",
                found=str(expected_next_offset),
                expected=f"at most {end}",
            )
        return self._roll_at(end)

    def _roll_at(self, base_offset: int) -> Segment:
        sealed = self._active
        is_same = sealed.base_offset == base_offset
        if is_same and sealed.size_bytes > 0:
            raise IllegalStateError(f"the segment at {base_offset} has data", file=sealed.name)
        if base_offset < sealed.base_offset:  # of a directory that a broker deletes [LDR-8]
            raise IllegalStateError(
                f"a segment at {base_offset} would lie before the active one", file=sealed.name
            )
        if is_same and not self._context.kafka_profile:
            return self._empty_again(sealed)
        if not is_same:
            self._check_is_free(base_offset)
        self._rolling_to = base_offset
        try:
            if is_same:
                sealed.indexes_full()  # Kafka loads them, and so they are there to go [LOC-12]
                sealed.change_suffix(".deleted")
            created = self._create_segment(base_offset)
            if not is_same:
                self._is_sealing = True
                sealed.on_become_inactive()
        except BaseException:
            self._try_to_settle()
            raise
        self._publish(self.segments.with_segment(created), created, self.log_end.message_offset)
        if is_same:
            self._unlink_later(sealed)
        return created

    def _try_to_settle(self) -> None:
        """Undo a roll whose error is told; where that fails the next change tries again."""
        try:
            self.settle()
        except FsyncFailedError:  # a second sync would prove nothing [DUR-35]
            raise
        except SegstoreError:
            _log.debug("%s: a roll is not undone yet", self.directory.path, exc_info=True)

    def _empty_again(self, active: Segment) -> Segment:
        """Let the empty active segment take what a new one would: its indexes are empty [LOC-12].

        It keeps its name. That may be all that says where the log ends: between the rename and the
        new file a crash would leave neither [DUR-51].
        """
        active.truncate_to(active.base_offset)
        self._max_segment_ms = self._draw_max_segment_ms()
        return active

    def _check_is_free(self, base_offset: int) -> None:
        """Refuse a roll onto a ``.log`` that the log does not know: it may hold data [DUR-11]."""
        name = file_name(base_offset, LOG_FILE_SUFFIX)
        if self.directory.exists(name):
            raise AlreadyExistsError(
                "a file exists already where the next segment begins",
                file=f"{self.directory.path}/{name}",
            )

    def _create_segment(self, base_offset: int) -> Segment:
        """Create the files of a new segment; index files without a log at that base go."""
        for kind in INDEX_FILE_SUFFIXES:
            self.directory.unlink(file_name(base_offset, kind), missing_ok=True)
        self.names_version += 1
        try:
            return Segment(self._context, base_offset, create=True)
        except LogNotFoundError as error:
            raise removed_while_open(self.directory.path) from error

    def _publish(self, segments: Segments, active: Segment, log_end_offset: int) -> None:
        """Make *active* the active segment: there is never a moment without one [CON-9]."""
        max_segment_ms = self._draw_max_segment_ms()
        log_end = LogOffsetMetadata(log_end_offset, active.base_offset, active.size_bytes)
        self.segments = segments  # from here on no call: nothing comes between
        self._active = active
        self._max_segment_ms = max_segment_ms
        self.log_end = log_end
        self._is_sealing = False
        self._rolling_to = None
        self._transaction_index = None

    # ---- files that go later ---------------------------------------------------------------------

    def _unlink_later(self, segment: Segment) -> None:
        """Unlink a segment's files; readers that hold it keep reading, it closes with the last.

        Source: [CON-7].
        """
        self.unlink_later(segment.delete_files)

    def unlink_later(self, unlink: Callable[[], object]) -> None:
        """Call *unlink* after ``file.delete.delay.ms``, or when the log is closed [LOC-20]."""
        number = next(self._deletions)
        task = self._awaiting_deletion[number] = partial(self._unlink, number, unlink)
        self._background.submit(task, self.config.file_delete_delay_ms / 1000)

    def _unlink(self, number: int, unlink: Callable[[], object]) -> None:
        if self._awaiting_deletion.pop(number, None) is not None:
            try:
                unlink()
            except SegstoreError:  # garbage: tried again by the next open [DUR-42]
                _log.warning("%s: files could not be removed", self.directory.path, exc_info=True)
