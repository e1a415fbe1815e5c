"""The segments of one log as one sequence of offsets: append, read, roll, truncate [LOC-*]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from segstore._core import Barrier, base_offset_of, close_segments, close_segments_quietly
from segstore.config import MAX_INT
from segstore.errors import (
    CorruptRecordError,
    IllegalStateError,
    OffsetOutOfRangeError,
    SegstoreError,
)
from segstore.log.directory.partition_directory import DELETED_FILE_SUFFIX
from segstore.log.directory.ways_out import corrupt_log, salvage_hint
from segstore.log.local.segment import Segment
from segstore.log.local.segment_order import SegmentOrder
from segstore.log.local.transaction_index import (
    truncate_transaction_index,
)
from segstore.types import CURRENT_MAGIC, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore._core import Directory, FetchedBytes, SegmentSlice
    from segstore.log.local.seen_end import SeenEnd

NO_BYTES_VISIBLE: Final = -1


class LocalLog(SegmentOrder):
    """Kafka ``LocalLog``: the active segment, the log end, and everything that changes them.

    ``segments`` and ``log_end`` are immutable objects that are replaced: a reader takes each with
    one attribute read. Changes come from the thread that holds the append lock of `UnifiedLog`.

    Attributes
    ----------
    segments : Segments
        Never empty while the log is open.
    log_end : LogOffsetMetadata
        The next offset, and the segment and byte where it will be; published after the bytes.
    generation : int
        Raised whenever bytes or names that were written may be gone again [DUR-13].
    cuts : Cuts
        Its truncations.
    seen_end : SeenEnd or None
        Where the log ended when it was looked at; None where this handle is the one that writes.
    """

    seen_end: SeenEnd | None = None
    _going: tuple[Segment, ...] = ()
    """What `delete_segments` has begun to take out."""

    # ---- read ------------------------------------------------------------------------------------

    def fetch(
        self,
        start_offset: int,
        max_length: int,
        bound: LogOffsetMetadata,
        *,
        min_one_message: bool,
        take: Callable[..., Any] = Segment.read,
    ) -> tuple[LogOffsetMetadata, FetchedBytes | None]:
        """Return bytes of one segment from the batch that holds *start_offset* on [LOC-6].

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
            ``Segment.read``; `slice` gives another one.

        Returns
        -------
        LogOffsetMetadata
            Base offset of the first batch found and where it is.
        FetchedBytes or None
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
            return self.fetch(start_offset, 1, end, min_one_message=False)[0], None
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
            self.check_no_gap(segment, following)
            segment = following
        return self.log_end, None

    def _first_offset(self, segment: Segment, found: FetchedBytes | SegmentSlice) -> int:
        """Return where the first batch begins; an old compressed one tells when it is opened."""
        if found.first_batch_magic >= CURRENT_MAGIC:
            return found.base_offset
        data = self.directory.read_range(segment.name, found.position, found.first_batch_size)
        return base_offset_of(data, self._codecs)

    def slice(
        self, start_offset: int, max_length: int, bound: LogOffsetMetadata, *, min_one_message: bool
    ) -> tuple[LogOffsetMetadata, SegmentSlice | None]:
        """As `fetch`, with the bytes left where they are."""
        found = self.fetch(
            start_offset, max_length, bound, min_one_message=min_one_message, take=Segment.slice
        )
        return cast("tuple[LogOffsetMetadata, SegmentSlice | None]", found)

    @staticmethod
    def max_position(segment: Segment, bound: LogOffsetMetadata) -> int:
        """Return up to which byte of *segment* there is something to see [LOC-6.5, CON-5]."""
        if bound.message_offset_only or segment.base_offset > bound.segment_base_offset:
            return NO_BYTES_VISIBLE
        if segment.base_offset == bound.segment_base_offset:
            return bound.relative_position_in_segment
        return MAX_INT

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return *offset* with its place, offset-only where it is not in the log [HW-9, LOC-8].

        Like Kafka, an offset inside a batch gives that batch's base offset.
        """
        try:
            return self.fetch(offset, 1, self.log_end, min_one_message=False)[0]
        except OffsetOutOfRangeError:
            return LogOffsetMetadata(offset)
        except CorruptRecordError as error:  # nobody asked for a record
            if self.is_kafkas:
                raise
            raise corrupt_log(error, salvage_hint(self.directory.path)) from error

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
        _, scan = segment.scan(end_position=cut.position, check_crc=False, table=False)
        return scan.next_offset

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
        self.note_cut(LogOffsetMetadata(first_cut, last.base_offset, position))
        self._is_cutting = True
        self._active = last
        self._max_segment_ms = max_segment_ms
        self.log_end = log_end
        if removed:
            self._take_out_from_the_end(removed)
            self.segments = self.segments.without(removed)
            self.directory.sync(Barrier.TRUNCATION_NAMES)
        last.truncate_to(offset)
        self._is_cutting = False
        self.cuts.finish()
        truncate_transaction_index(self.directory, last.base_offset, offset)
        self._transaction_index = None
        return removed

    def truncate_fully_and_start_at(self, offset: int) -> list[Segment]:
        """Take out everything and begin an empty log at *offset* [LOC-15, DUR-18]."""
        removed = list(self.segments)
        first_offset = removed[0].base_offset
        self.note_cut(LogOffsetMetadata(first_offset, first_offset, 0))
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
        self.cuts.finish()
        self._transaction_index = None
        return removed

    def note_cut(self, place: LogOffsetMetadata) -> None:
        """Tell readers, before anything goes, what may not be the same any more [DUR-77]."""
        self.cuts.note(place)
        self.generation += 1

    @property
    def is_followed(self) -> bool:
        """Whether another handle, perhaps of another process, writes the files."""
        return self.seen_end is not None

    def check_not_cut(self, cuts_done: int, next_offset: int) -> None:
        """As `Cuts.check_not_cut`; of a log that another handle writes its files are asked too."""
        if self.seen_end is not None:
            self.seen_end.check_not_cut()
        self.cuts.check_not_cut(
            cuts_done, next_offset
        )  # at last: then it is known which end it was

    def check_not_torn(
        self, cuts_done: int, next_offset: int, error: SegstoreError | None = None
    ) -> None:
        """Raise when a cut, not damage, is why reading failed with *error* [DUR-77].

        Parameters
        ----------
        cuts_done, next_offset : int
            As in `Cuts.check_not_cut`: what this handle cut, or has seen to be cut.
        error : SegstoreError or None
            Tells which file is missing.

        Raises
        ------
        LogTruncatedError
            A read-only handle shows the log as it is now after `UnifiedLog.refresh`.
        OffsetOutOfRangeError
            The writer deleted what was read: a refresh shows what is there.
        """
        seen_end = self.seen_end
        self.cuts.check_not_cut(cuts_done, next_offset)
        if seen_end is not None:
            seen_end.check_not_torn(error)
            self.cuts.check_not_cut(cuts_done, next_offset)  # it was looked at again meanwhile

    def delete_segments(self, segments: list[Segment]) -> None:
        """Take out *segments*, the oldest ones; their files go after ``file.delete.delay.ms``.

        Source: [DUR-19].
        """
        self._going = tuple(segments)
        self._finish_deletion()

    def settle(self) -> None:
        """Besides, finish a deletion: a truncation makes new files where the old ones were."""
        super().settle()
        if self._going:
            self._finish_deletion()

    def _finish_deletion(self) -> None:
        going = self._going
        try:
            self.segments = self.segments.without(going)
            self._take_out(going)
            if self.checksum_sidecars is not None:
                self.checksum_sidecars.forget_deleted(segment.base_offset for segment in going)
            self.directory.sync(Barrier.DELETION_NAMES)
        except SegstoreError:  # what stays is removed by the next open [DUR-42]
            self._going = ()
            raise
        self._going = ()

    def _take_out_from_the_end(self, segments: list[Segment]) -> None:
        """Mark the last segments of the log as deleted, of which a crash may leave a prefix only.

        The renames may reach the disk in any order: where no recovery would see that one in the
        midst is missing, each waits for the one before [DUR-2, DUR-18].
        """
        one_by_one = not (self.is_kafkas or self.is_contiguous_from(segments[0].base_offset))
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
            self._unlink_later(segment)

    # ---- close -----------------------------------------------------------------------------------

    def close(self, *, unlink: bool = True) -> None:
        """Close all segments and remove what awaited that; the first error is raised at the end.

        Without *unlink* files stay that were to be removed; the next open does it.

        Source: [MAP-8].
        """
        try:
            close_segments(self.segments)
        finally:
            if unlink:
                for task in list(self._awaiting_deletion.values()):
                    task()

    def close_quietly(self) -> None:
        """Let go of all files and write nothing [SEG-52]."""
        close_segments_quietly(self.segments)


def out_of_range(offset: int, first: int, last: int, directory: Directory) -> OffsetOutOfRangeError:
    """Return the error that names an offset and the range that can be read."""
    return OffsetOutOfRangeError(
        f"offset {offset} is not in the log, which has {first} to {last}",
        file=directory.path,
        found=str(offset),
        expected=f"{first} to {last}",
    )
