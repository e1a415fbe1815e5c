"""The segments of a partition as one log: the active one, the log end, what moves them [LOC-*].

Whatever a program's signal handlers raise, Ctrl-C above all, may come between any two calls here.
What belongs together is therefore computed first and then stored by plain assignments in a row,
which nothing interrupts; a roll is noted before it begins, and `LocalLog.reconcile` undoes one that
did not get to that point.
"""

from __future__ import annotations

import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from segstore._core import (
    Barrier,
    FetchedBytes,
    FetchedFiles,
    SegmentSlice,
    base_offset_of,
    close_segments,
    close_segments_quietly,
)
from segstore.arguments import integer
from segstore.errors import (
    AlreadyExistsError,
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    FsyncFailedError,
    IllegalArgumentError,
    IllegalStateError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    SegstoreError,
)
from segstore.log.files.partition_directory import (
    CLEANED_FILE_SUFFIX,
    DELETED_FILE_SUFFIX,
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    file_name,
)
from segstore.log.files.partition_lock import removed_while_open
from segstore.log.files.recovery_advice import corrupt_log, missing_records, salvage_hint
from segstore.log.local.delayed_deletion import DelayedDeletion
from segstore.log.local.missing_records import (
    lone_index_bases,
    missing_between,
    missing_of,
    note_missing,
)
from segstore.log.local.segment import Segment, roll_jitter_ms, segment_context
from segstore.log.local.segment_replacement import (
    SegmentReplacement,
    delete_cleaned_segments,
    new_cleaned_segment,
)
from segstore.log.local.transaction_index import TransactionIndexes
from segstore.log.local.truncation_history import TruncationHistory
from segstore.log.local.written_order import WrittenOrder
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.types import CURRENT_MAGIC, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from typing_extensions import Buffer

    from segstore._core import (
        AppendLane,
        AppendLock,
        BatchHeaders,
        CodecTable,
        Directory,
        PublishedEnd,
        SegmentContext,
    )
    from segstore.config.log_config import LogConfig
    from segstore.log.files.background import Scheduler
    from segstore.log.files.file_origin import FileOrigin
    from segstore.log.local.checksum_sidecars import ChecksumSidecars
    from segstore.log.local.missing_records import MissingRecords
    from segstore.log.local.observed_end import ObservedEnd
    from segstore.log.local.segments import Segments
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.types import EpochEntry

_log = logging.getLogger(__name__)

NO_BYTES_VISIBLE: Final = -1

_FoundT = TypeVar("_FoundT", FetchedBytes, SegmentSlice)


class LocalLog:
    """Kafka ``LocalLog``: the active segment, the log end, and everything that changes them.

    ``segments`` and ``log_end`` are immutable objects that are replaced: a reader takes each with
    one attribute read. Changes come from the thread that holds the append lock of `UnifiedLog`.

    Parameters
    ----------
    directory : Directory
        The partition's.
    context : SegmentContext
        For new segments.
    config : LogConfig
        When to roll, and when files that are deleted go.
    segments : Segments
        At least one; the last is the active one.
    log_end : LogOffsetMetadata
        The next offset, and its place in the active segment.
    published : PublishedEnd
        That of this log, where the log end is seen by readers.
    background : Scheduler
        Unlinks files later.
    codecs : CodecTable
        For the base offsets of old compressed batches.
    may_have_gaps : bool
        Offsets may be missing anywhere, as behind compaction.
    checksum_sidecars : ChecksumSidecars or None
        None for a reader, and in Kafka's profile.
    observed_end : ObservedEnd or None
        For a handle that only reads: the end of the log as it was looked at.
    lineage : sequence of EpochEntry
        See `WrittenOrder`.
    origins : mapping of str to FileOrigin
        See `LogEnvironment`.

    Attributes
    ----------
    segments : Segments
        Never empty while the log is open.
    published : PublishedEnd
        With the log end: the next offset, and the segment and byte where it will be. It is
        published after the bytes, without a call of Python: no signal handler comes between.
    generation : int
        Raised whenever bytes or names that were written may be gone again [DUR-13].
    names_version : int
        Raised whenever a file was created or renamed.
    replacements_count : int
        Raised whenever segments were compacted or split.
    truncations : TruncationHistory
        Its truncations.
    is_kafkas : bool
        Whether a broker's own handle would do the same: it is not one that only reads.
    written_order : WrittenOrder
        What is known of the order in which the batches were written.
    transaction_indexes : TransactionIndexes
        Those of its segments.
    observed_end : ObservedEnd or None
        Where the log ended when it was looked at; None where this handle is the one that writes.
    is_fetched : bool
        Bytes of segments come from elsewhere when they are read: no more are read than needed.
    """

    def __init__(  # noqa: PLR0913 - what a log consists of
        self,
        directory: Directory,
        context: SegmentContext,
        config: LogConfig,
        segments: Segments,
        log_end: LogOffsetMetadata,
        published: PublishedEnd,
        background: Scheduler,
        codecs: CodecTable,
        *,
        may_have_gaps: bool,
        checksum_sidecars: ChecksumSidecars | None = None,
        observed_end: ObservedEnd | None = None,
        lineage: Sequence[EpochEntry] = (),
        origins: Mapping[str, FileOrigin] = MappingProxyType({}),
    ) -> None:
        self.directory = directory
        self._origins = origins
        self.config = config
        self.segments = segments
        self.published = published
        published.log_end = log_end
        self.names_version = 1
        self._lone_indexes: tuple[int, list[int]] = (-1, [])
        self.generation = 0
        self.replacements_count = 0
        self.truncations = TruncationHistory()
        self.is_kafkas = context.kafka_profile and context.writable
        self.is_fetched = isinstance(directory.environment, FetchedFiles)
        self.written_order = WrittenOrder(
            directory, has_gaps=may_have_gaps, looks_away=self.is_kafkas, lineage=lineage
        )
        self.transaction_indexes = TransactionIndexes(directory)
        self.checksum_sidecars = checksum_sidecars
        self.observed_end = observed_end
        self._context = context
        self._codecs = codecs
        self._deletion = DelayedDeletion(directory, background)
        self._active = segments.active_segment
        self._max_segment_ms = self._draw_max_segment_ms()
        self._rolling_to: int | None = None
        self._is_sealing = False
        self._is_cutting = False
        self._being_deleted: tuple[Segment, ...] = ()
        self._replacement: SegmentReplacement | None = None

    def name_origin(self, error: SegstoreError) -> None:
        """Let an *error* about a file of the log name what holds the bytes."""
        if not self._origins or error.file is None:
            return
        origin = self._origins.get(error.file.removeprefix(f"{self.directory.path}/"))
        if origin is not None:
            origin.locate(error)

    @property
    def log_end(self) -> LogOffsetMetadata:
        """The next offset, and where it will be."""
        return self.published.log_end

    def _draw_max_segment_ms(self) -> int:
        return self.config.roll_ms - roll_jitter_ms(self.config)

    @property
    def context(self) -> SegmentContext:
        """For segments that are made from now on."""
        return self._context

    def use_config(self, config: LogConfig) -> None:
        """Go by other settings from the next decision on; segments keep their own [UNI-7]."""
        before = self._context
        self._context = segment_context(
            self.directory,
            self._codecs,
            config,
            writable=before.writable,
            kafka_profile=before.kafka_profile,
            heap_indexes=before.heap_indexes,
        )
        self.config = config
        self._max_segment_ms = self._draw_max_segment_ms()

    # ---- read ------------------------------------------------------------------------------------

    def fetch(  # noqa: PLR0913 - each by its name
        self,
        start_offset: int,
        max_length: int,
        bound: LogOffsetMetadata,
        *,
        min_one_message: bool,
        take: Callable[..., _FoundT | None],
        is_read: bool = True,
    ) -> tuple[LogOffsetMetadata, _FoundT | None]:
        """Find the bytes of one segment from the batch that holds *start_offset* on [LOC-6].

        Parameters
        ----------
        start_offset : int
            At or below the log end; the caller has compared it with the log start.
        max_length : int
            Bytes; a longer first batch comes whole when *min_one_message*.
        bound : LogOffsetMetadata
            Where visible data ends, with its place.
        min_one_message : bool
            See *max_length*.
        take : callable
            ``Segment.read``, or ``Segment.slice``, which leaves the bytes where they are.
        is_read : bool
            False = only the place is wanted: that of the next batch where records are missing.

        Returns
        -------
        LogOffsetMetadata
            Base offset of the first batch found and where it is.
        FetchedBytes, SegmentSlice or None
            None when nothing is visible there.

        Raises
        ------
        OffsetOutOfRangeError
            *start_offset* is above the log end, or in no segment that is here.
        CorruptLogError
            Bytes of a segment are no batch [DUR-79].
        """
        end = self.log_end
        segments = self.segments
        segment = segments.floor_segment(start_offset)
        if start_offset > end.message_offset or segment is None:
            first = segments.first_segment.base_offset
            raise out_of_range(start_offset, first, end.message_offset, self.directory)
        if start_offset == bound.message_offset:
            return bound, None
        if start_offset > bound.message_offset:
            return self.fetch(start_offset, 1, end, min_one_message=False, take=take)[0], None
        while segment is not None:
            max_position = self.max_position(segment, bound)
            if max_position == 0 and bound == end and not self.is_kafkas:
                break  # what lies there is no batch yet: zeros, or torn; Kafka makes the index here
            fetched = take(segment, start_offset, max_length, max_position, min_one_message)
            if fetched is not None:
                offset = self._first_offset(segment, fetched)
                self.check_within(segment, offset, fetched.position)
                if offset > start_offset:
                    self.written_order.check_first(
                        segment.path, fetched.position, start_offset, offset
                    )
                return LogOffsetMetadata(offset, segment.base_offset, fetched.position), fetched
            following = segments.higher_segment(segment.base_offset)
            if is_read:
                self.check_no_gap(segment, following)
            segment = following
        return self.log_end, None

    def _first_offset(self, segment: Segment, found: FetchedBytes | SegmentSlice) -> int:
        """Return where the first batch begins; an old compressed one tells when it is opened."""
        if found.first_batch_magic >= CURRENT_MAGIC:
            return found.base_offset
        data = self.directory.read_range(segment.name, found.position, found.first_batch_size)
        try:
            return base_offset_of(data, self._codecs)
        except SegstoreError as error:
            error.position = found.position
            error.locate(segment.path)
            raise

    def upper_bound_of_fetch(self, metadata: LogOffsetMetadata, size_bytes: int) -> int:
        """Return an offset that is certainly behind *size_bytes* from there on [LOC-9, OFX-6]."""
        segments, log_end = self.segments, self.log_end.message_offset
        segment = segments.floor_segment(metadata.segment_base_offset)
        if segment is None or segment.base_offset != metadata.segment_base_offset:
            return log_end
        position = metadata.relative_position_in_segment
        upper_bound_offset = segment.fetch_upper_bound_offset(position, size_bytes)
        if upper_bound_offset is not None:
            return upper_bound_offset
        following = segments.higher_segment(segment.base_offset)
        return log_end if following is None else following.base_offset

    @staticmethod
    def max_position(segment: Segment, bound: LogOffsetMetadata) -> int:
        """Return up to which byte of *segment* there is something to see [LOC-6.5, CON-5].

        All of what the cleaner made is visible by now. A bound may be of the time before: its place
        is one in a file that was replaced.
        """
        if bound.message_offset_only or segment.base_offset > bound.segment_base_offset:
            return NO_BYTES_VISIBLE
        if segment.base_offset == bound.segment_base_offset and not segment.is_cleaned:
            return bound.relative_position_in_segment
        return MAX_INT

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return *offset* with its place, offset-only where it is not in the log [HW-9, LOC-8].

        Like Kafka, an offset inside a batch gives that batch's base offset, and that of a missing
        record the next batch's.
        """
        try:
            return self.fetch(
                offset,
                1,
                self.log_end,
                min_one_message=False,
                take=Segment.read,
                is_read=False,
            )[0]
        except OffsetOutOfRangeError:
            return LogOffsetMetadata(offset)
        except CorruptRecordError as error:  # nobody asked for a record
            if self.is_kafkas:
                raise
            raise corrupt_log(error, salvage_hint(self.directory.path)) from error

    # ---- aborted transactions --------------------------------------------------------------------

    def collect_aborted_transactions(
        self,
        log_start_offset: int,
        base_offset: int,
        upper_bound_offset: int,
        *,
        in_order: bool = False,
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions in ``[log_start_offset, upper_bound_offset)`` [LOC-10].

        Those that the transaction indexes know, from the segment of *base_offset* on; one that is
        missing is empty. *in_order* believes that the entries of each ascend.

        Raises
        ------
        CorruptIndexError, UnsupportedFormatError
            An entry lies below its segment, or has another version.
        """
        return self.transaction_indexes.collect(
            self.segments, log_start_offset, base_offset, upper_bound_offset, in_order=in_order
        )

    def aborted_from(
        self, offset: int, upper_bound_offset: int, *, in_order: bool = False
    ) -> list[AbortedTransaction]:
        """Return what is known here of the aborted transactions of a range that may begin before.

        Kafka searches all local segments for a range that begins in remote storage [TIER-69]; one
        look at the segments says which is the first, as they may be deleted meanwhile.

        Raises
        ------
        CorruptIndexError, UnsupportedFormatError
            As `collect_aborted_transactions`.
        """
        segments = self.segments
        first = max(offset, segments.first_segment.base_offset)
        return self.transaction_indexes.collect(
            segments, offset, first, upper_bound_offset, in_order=in_order
        )

    def prepare_aborted(self) -> None:
        """Before an ABORT marker is written: what may lack space fails here [DUR-30].

        Kafka lets the line fail, behind the marker. Of several markers in one append, as a follower
        may get them, room is found for the first line; readers would see more of them.
        """
        if self._context.kafka_profile:
            return
        self.names_version += 1
        self.transaction_indexes.reserve(self._active.base_offset)

    def forget_aborted(self) -> None:
        """Undo `prepare_aborted`: there is no marker. No reader sees what cannot be undone."""
        if not self._context.kafka_profile:
            self.transaction_indexes.give_back(self._active.base_offset)

    def append_aborted(self, aborted: AbortedTransaction) -> None:
        """Add a line to the transaction index of the active segment [SEG-12]."""
        self.names_version += 1
        self.transaction_indexes.append(self._active.base_offset, aborted)

    # ---- the order of the segments ---------------------------------------------------------------

    def check_no_gap(self, segment: Segment, following: Segment | None) -> None:
        """Never step silently over records that are missing between two segments [DUR-79].

        Raises
        ------
        CorruptLogError
            *segment* ends before *following* begins, in a log that is contiguous there, where an
            index names records in between, or where a segment before has them.
        """
        if following is None or self.is_kafkas:
            return
        end, ends_clean = segment.read_next_offset()
        self.check_within(segment, end - 1)
        end, base = max(end, segment.base_offset), following.base_offset
        if end >= base:
            return
        contiguous_from = self.written_order.contiguous_from
        if not ends_clean and contiguous_from is not None and end >= contiguous_from:
            raise CorruptLogError(
                f"its batches end before offset {base}: what follows is no"
                f" batch, or missing; {salvage_hint(self.directory.path)}",
                file=segment.path,
                found="bytes that are no batch",
                expected=f"a batch from offset {end} on",
            )
        if missing_between(
            self.directory,
            segment.base_offset,
            end,
            base,
            contiguous_from,
            lone_bases=self._lone_index_bases(),
        ):
            raise CorruptLogError(
                f"{missing_records(end, base)} before it; {salvage_hint(self.directory.path)}",
                file=following.path,
                found=f"base offset {base}",
                expected=f"base offset {end}",
            )
        holder = self.segments.holding_beyond(segment, end, base)
        if holder is not None:
            raise CorruptLogError(
                f"{holder} has records of offsets {end} to {base - 1}, but a later segment begins"
                f" before them; {salvage_hint(self.directory.path)}",
                file=segment.path,
                found=f"a file that ends after offset {end - 1}",
                expected=f"a batch from offset {end} on",
            )

    def _lone_index_bases(self) -> list[int]:
        """Look for them once for each set of segments: a compacted log has a gap after each."""
        known, bases = self._lone_indexes
        serial_number = self.segments.serial_number
        if known != serial_number:
            bases = lone_index_bases(self.directory.segment_listing())
            self._lone_indexes = serial_number, bases
        return bases

    def missing_records(self, log_start_offset: int) -> list[MissingRecords]:
        """Return the gaps between segments in which records are missing, as `check_no_gap`."""
        return missing_of(
            self.directory,
            self.segments.as_tuple,
            self.written_order.contiguous_from,
            log_start_offset,
            self.segments.holding_beyond,
        )

    def end_of_segment(self, base_offset: int) -> int:
        """Return where the segment behind that of *base_offset* begins, 2^63-1 behind the last.

        To a broker also behind the others: it hands out what it finds. The segments behind the log
        end, which a handle that only reads leaves where they are, do not count.
        """
        end = self.log_end
        if self.is_kafkas or base_offset >= end.segment_base_offset:
            return MAX_LONG
        following = self.segments.higher_segment(base_offset)
        if following is None:
            return MAX_LONG
        if (
            following.base_offset == end.segment_base_offset
            and not end.relative_position_in_segment
        ):
            return max(end.message_offset, following.base_offset)
        return following.base_offset

    def check_within(self, segment: Segment, offset: int, position: int | None = None) -> None:
        """Never hand out a record with an offset that is another segment's [DUR-54, DUR-79].

        No CRC covers the base offset of a batch.

        Raises
        ------
        CorruptLogError
            A batch of *segment* has *offset*, at or above the base offset of the next one.
        """
        end = self.end_of_segment(segment.base_offset)
        if offset >= end:
            raise CorruptLogError(
                "the base offset of a batch is not what was written: the next segment begins below"
                f" its end; {salvage_hint(self.directory.path)}",
                file=segment.path,
                position=position,
                found=f"offset {offset}",
                expected=f"an offset below {end}",
            )

    # ---- what an interrupted call has left -------------------------------------------------------

    def reconcile(self) -> None:
        """Undo an interrupted roll, finish a deletion and a replacement; changes begin with this.

        A truncation makes new files where those of the deletion were.

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
        if self._being_deleted:
            self._finish_deletion()
        if self._replacement is not None:
            self._replace(self._replacement)

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
                self.published.log_end = log_end

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

    def sync_segment(self, segment: Segment, append_lock: AppendLock, *, indexes: bool) -> None:
        """Sync a segment and its transaction index, unless the segment was deleted meanwhile.

        Outside of *append_lock*. A truncation deletes files before the log is without them: where
        that makes a sync fail, its end is waited for.
        """
        try:
            segment.flush(Barrier.APPENDED_RECORDS, indexes=indexes)
            self.transaction_indexes.sync(segment.base_offset)
        except (ClosedError, IllegalStateError, LogNotFoundError):
            with append_lock:
                is_here = segment in self.segments.as_tuple
            if is_here:
                raise  # else nothing of it needs to be durable

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
        self.reconcile()
        end = self.log_end.message_offset
        expected = 0 if expected_next_offset is None else integer("offset", expected_next_offset)
        if may_leave_gap:
            return self._roll_at(max(expected, end))
        if expected > end:
            raise IllegalArgumentError(
                f"a segment at {expected_next_offset} would leave a gap after {end}",
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
            self._try_to_reconcile()
            raise
        self._publish(self.segments.with_segment(created), created, self.log_end.message_offset)
        if is_same:
            self.unlink_later(sealed.delete_files)
        return created

    def _try_to_reconcile(self) -> None:
        """Undo a roll whose error is told; where that fails the next change tries again."""
        try:
            self.reconcile()
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
        self.published.log_end = log_end
        self._is_sealing = False
        self._rolling_to = None

    # ---- truncate and delete ---------------------------------------------------------------------

    def end_of_data_below(self, offset: int) -> int:
        """Return the next offset of the records that a truncation to *offset* would leave.

        It is below *offset* where that lies inside a batch or in a gap.
        """
        segment = self.segments.floor_segment(offset)
        if segment is None:
            return offset
        cut = segment.translate_offset(offset)
        if cut is None:
            return segment.read_next_offset()[0]
        if cut.position == 0:
            return segment.base_offset
        before = segment.translate_offset(cut.base_offset - 1)
        if before is not None and before.position < cut.position:
            return cut.base_offset
        scan = segment.scan_result(end_position=cut.position, check_crc=False)
        return scan.next_offset

    def begin_truncation(self, offset: int | None) -> None:
        """Write what is to be written before `LocalLog.truncate_to`; None: before a full one.

        A full disk refuses it here, and nothing has changed [DUR-30].
        """
        last = None if offset is None else self.segments.floor_segment(offset)
        if self.checksum_sidecars is not None:
            self.checksum_sidecars.forget_from(-1 if last is None else last.base_offset)

    def truncate_to(self, offset: int) -> list[Segment]:
        """Cut the log so that *offset* is the next one; returns the segments that went [LOC-14].

        The recovery point is at or below *offset* on disk already [DUR-16]. A batch that holds
        *offset* goes whole [TRU-5].
        """
        removed = list(self.segments.higher_segments(offset))
        last = self.segments.floor_segment(offset)
        if last is None:
            raise IllegalStateError(f"no segment at or below {offset}", file=self.directory.path)
        cut = last.translate_offset(offset)
        position = last.size_bytes if cut is None else cut.position
        max_segment_ms = self._draw_max_segment_ms()
        log_end = LogOffsetMetadata(offset, last.base_offset, position)
        first_cut = offset if cut is None else min(offset, cut.base_offset)
        self.note_truncation(LogOffsetMetadata(first_cut, last.base_offset, position))
        self._is_cutting = True
        self._active = last
        self._max_segment_ms = max_segment_ms
        self.published.log_end = log_end
        if removed:
            self._take_out_from_the_end(removed)
            self.segments = self.segments.without(removed)
            self.directory.sync(Barrier.TRUNCATION_NAMES)
        last.truncate_to(offset)
        self._is_cutting = False
        self.truncations.finish()
        self.transaction_indexes.truncate(last.base_offset, offset)
        return removed

    def truncate_fully_and_start_at(self, offset: int) -> list[Segment]:
        """Take out everything and begin an empty log at *offset* [LOC-15, DUR-18]."""
        removed = list(self.segments)
        first_offset = removed[0].base_offset
        self.note_truncation(LogOffsetMetadata(first_offset, first_offset, 0))
        self._is_cutting = True
        first, *higher = removed
        if higher:  # while the first is there, what is left up to the first gap is a prefix
            self._take_out_from_the_end(higher)
            self.directory.sync(Barrier.EMPTYING_HIGHER)
        self._take_out([first])
        self.directory.sync(Barrier.EMPTYING_FIRST)
        created = self._create_segment(offset)
        self.directory.sync(Barrier.EMPTYING_CREATED)
        self._publish(self.segments.without(removed).with_segment(created), created, offset)
        self._is_cutting = False
        self.truncations.finish()
        return removed

    def note_truncation(self, place: LogOffsetMetadata) -> None:
        """Tell readers, before anything goes, what may not be the same any more [DUR-77]."""
        self.truncations.begin(place)
        self.generation += 1

    def show(
        self,
        segments: Segments,
        end: LogOffsetMetadata,
        observed_end: ObservedEnd,
        *,
        is_replaced: bool,
    ) -> None:
        """Show the log as its writer, another handle, has left it; `LogFollower` has looked.

        With *is_replaced* segments were compacted or split.
        Where it was cut, `note_truncation` comes first, and readers under way know it [DUR-77].
        """
        active = segments.active_segment
        if is_replaced:
            self.replacements_count += 1
        bound = min(self.log_end, end)
        self.published.log_end = bound  # holds for both lists of segments
        self.segments = segments
        self._active = active
        self.published.log_end = end
        self.observed_end = observed_end
        self.truncations.finish()

    @property
    def is_followed(self) -> bool:
        """Whether another handle, perhaps of another process, writes the files."""
        return self.observed_end is not None

    @property
    def truncation_counts(self) -> tuple[int, int]:
        """Truncations that began, and that came to their end, as this handle knows."""
        return self.generation, self.truncations.done

    def check_not_truncated(self, truncations_done: int, next_offset: int) -> None:
        """As `TruncationHistory` has it; also by the files where another handle writes."""
        if self.observed_end is not None:
            self.observed_end.check_not_truncated()
        # at last: then it is known which end it was
        self.truncations.check_not_truncated(truncations_done, next_offset)

    def check_not_changed(
        self, truncations_done: int, next_offset: int, error: SegstoreError | None = None
    ) -> None:
        """Raise when a cut, not damage, is why reading failed with *error* [DUR-77].

        Else segments may have been compacted or split, which the reader asks next: see
        `nothing_replaced`.

        Parameters
        ----------
        truncations_done, next_offset : int
            As in `TruncationHistory.check_not_truncated`: what this handle cut, or has seen to be
            cut.
        error : SegstoreError or None
            Tells which file is missing.

        Raises
        ------
        LogTruncatedError
            A read-only handle shows the log as it is now after `UnifiedLog.refresh`.
        OffsetOutOfRangeError
            The writer deleted what was read: a refresh shows what is there.
        """
        observed_end = self.observed_end
        self.truncations.check_not_truncated(truncations_done, next_offset)
        if observed_end is not None:
            observed_end.check_not_changed(error)
            self.truncations.check_not_truncated(
                truncations_done, next_offset
            )  # it was looked at again meanwhile

    def replaced_bound(self, bound: LogOffsetMetadata) -> LogOffsetMetadata:
        """Return where *bound* is after segments were replaced."""
        end = self.log_end
        if bound.message_offset >= end.message_offset:
            return end
        return self.offset_metadata(bound.message_offset)

    def delete_segments(self, segments: list[Segment]) -> None:
        """Take out *segments*, the oldest ones; their files go after ``file.delete.delay.ms``.

        Source: [DUR-19].
        """
        self._being_deleted = tuple(segments)
        self._finish_deletion()

    def _finish_deletion(self) -> None:
        going, refused = self._being_deleted, None
        try:
            self.segments = self.segments.without(going)
            for segment in going:
                try:
                    self._take_out([segment])
                except SegstoreError as error:  # the others go all the same [DUR-132]
                    refused = refused or error
            if self.checksum_sidecars is not None:
                self.checksum_sidecars.forget_deleted(segment.base_offset for segment in going)
            self.directory.sync(Barrier.DELETION_NAMES)
        except SegstoreError:  # what stays is removed by the next open [DUR-42]
            self._being_deleted = ()
            raise
        self._being_deleted = ()
        if refused is not None:
            raise refused

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        """Make an empty ``.cleaned`` segment with the settings in force [CLN-70]."""
        return new_cleaned_segment(base_offset, self.directory, self._context)

    def replace_segments(self, new: list[Segment], old: list[Segment]) -> SegmentReplacement:
        """Put ``.cleaned`` segments, all on stable storage, in the place of *old* [CLN-110].

        Readers that are under way keep the old ones, whose files go after ``file.delete.delay.ms``.
        The active segment is none of them. An error before the new ones count leaves the log as it
        was, without them.
        """
        replacement = SegmentReplacement(new, old, self.directory)
        if self.checksum_sidecars is not None:  # gone, durably, before the first rename [DUR-60]
            self.checksum_sidecars.forget_deleted(segment.base_offset for segment in old)
        self._replace(replacement)
        return replacement

    def delete_cleaned_segments(self, segments: Iterable[Segment]) -> None:
        """Remove ``.cleaned`` segments, unless they are replacing others already."""
        if self._replacement is None:
            delete_cleaned_segments(one for one in segments if one.suffix == CLEANED_FILE_SUFFIX)

    def delete_cleaned_files(self) -> None:
        """Remove every ``.cleaned`` file that an earlier pass has left; none may be under way."""
        for name in self.directory.names():
            if name.endswith(CLEANED_FILE_SUFFIX):
                self.directory.unlink(name, missing_ok=True)

    def take_over(self, segments: Segments, gone: Iterable[Segment]) -> None:
        """Go on with *segments*, whose files are in place; those of *gone* are unlinked later."""
        self.segments = segments
        self.names_version += 1
        self.replacements_count += 1
        for segment in gone:
            self.unlink_later(segment.delete_files)

    def _replace(self, replacement: SegmentReplacement) -> None:
        self._replacement = replacement
        try:
            replacement.commit()
        except FsyncFailedError:  # what counts is found out by the next open [DUR-35]
            raise
        except SegstoreError:
            self._replacement = None
            replacement.abandon()
            raise
        segments = replacement.applied_to(self.segments)
        self.segments = segments
        self.replacements_count += 1  # before a name means another file, and again when all do
        replacement.finish()
        self.take_over(segments, replacement.old)
        self._replacement = None

    def unlink_later(self, unlink: Callable[[], object]) -> None:
        """Call *unlink* after ``file.delete.delay.ms``, or when the log is closed [LOC-20]."""
        self._deletion.unlink_later(unlink, self.config.file_delete_delay_ms / 1000)

    def _take_out_from_the_end(self, segments: list[Segment]) -> None:
        """Mark the last segments of the log as deleted, of which a crash may leave a prefix only.

        The renames may reach the disk in any order: where no recovery would see that one in the
        midst is missing, each waits for the one before [DUR-2, DUR-18].
        """
        one_by_one = not (
            self.is_kafkas or self.written_order.is_contiguous_from(segments[0].base_offset)
        )
        self._take_out(reversed(segments), one_by_one=one_by_one)

    def _take_out(self, segments: Iterable[Segment], *, one_by_one: bool = False) -> None:
        """Rename to ``.deleted`` in the order given; unlink later [LOC-20].

        The caller syncs the directory. *one_by_one*: the next is not renamed before.
        """
        for number, segment in enumerate(segments):
            if number and one_by_one:
                self.directory.sync(Barrier.TRUNCATION_NAMES)
            if segment.suffix != DELETED_FILE_SUFFIX:  # by a deletion that was interrupted
                segment.change_suffix(DELETED_FILE_SUFFIX)
                self.names_version += 1
            self.unlink_later(segment.delete_files)

    # ---- close -----------------------------------------------------------------------------------

    def close(self, *, unlink: bool = True) -> None:
        """Close all segments and remove what awaited that; the first error is raised at the end.

        Without *unlink* files stay that were to be removed; the next open does it.

        Source: [MAP-8].
        """
        try:
            self._note_missing()
            close_segments(self.segments)
        finally:
            if unlink:
                self._deletion.unlink_now()

    def _note_missing(self) -> None:
        """Note what damaged indexes prove to be missing: the close builds them again [DUR-53].

        Where there is no room for a note, or an index cannot be read, the indexes stay as they are.
        """
        if self.is_kafkas or self.is_followed:
            return
        damaged = [segment for segment in self.segments if segment.index_damaged]
        for segment in damaged:
            following = self.segments.higher_segment(segment.base_offset)
            if following is None:
                continue
            try:
                note_missing(self.directory, segment, following, must_read=True)
            except SegstoreError:
                segment.close_quietly()

    def close_quietly(self) -> None:
        """Let go of all files and write nothing [SEG-52]."""
        close_segments_quietly(self.segments)


def nothing_replaced() -> bool:
    """Return that no other handle compacts the log or splits its segments: this one writes it.

    A handle that follows another one has `LogFollower.take_over_replaced` in its place. That looks
    for new segments, and returns whether there were any: then what failed can be read again. The
    readers have it, and not `LocalLog`, to which a `LogFollower` refers: a log that is dropped
    closes its files at once, and not when the garbage collector comes.
    """
    return False


def out_of_range(offset: int, first: int, last: int, directory: Directory) -> OffsetOutOfRangeError:
    """Return the error that names an offset and the range that can be read."""
    return OffsetOutOfRangeError(
        f"offset {offset} is not in the log, which has {first} to {last}",
        file=directory.path,
        found=str(offset),
        expected=f"{first} to {last}",
    )
