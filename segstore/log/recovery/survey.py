"""What an open reads of a partition's directory, each thing once; nothing is changed.

The names and the sizes of the segments are read at once, and all else when the judge first asks for
it: an open of 10,000 segments that were closed cleanly reads one of them.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import BatchTable, SegmentContext, SegmentListing, open_segments
from segstore.errors import (
    LogNotFoundError,
    NotALogError,
    ReadIOError,
    ResourceError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    LOG_STATE,
    RECOVERY_POINT_CHECKPOINT,
    SYNC_FAILED_MARK,
    LogState,
)
from segstore.log.files.checksum_sidecar import sidecar_base_offset
from segstore.log.files.kept_aside import is_unreadable_index, name_aside
from segstore.log.files.missing_records_file import note_warnings
from segstore.log.files.partition_directory import (
    DELETED_FILE_SUFFIX,
    INDEX_ENTRY_BYTES,
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    file_name,
    segment_files,
)
from segstore.log.local.batch_search import may_hold_batch
from segstore.log.local.file_bytes import FileBytes
from segstore.log.local.missing_records import (
    first_shown_before,
    lone_index_bases,
    lone_indexes,
    missing_between,
    named_behind,
)
from segstore.log.local.segment import Segment
from segstore.log.local.segments import floor_index, next_base_offset
from segstore.log.local.transaction_index import TRANSACTION_INDEX_ENTRY_BYTES
from segstore.log.recovery.epoch_changes import epoch_changes
from segstore.log.recovery.found_epochs import find_epochs, read_checkpoint
from segstore.log.recovery.leftovers import find_leftovers
from segstore.log.recovery.overflow_split import is_overflowed
from segstore.log.recovery.quarantine import Quarantine
from segstore.log.recovery.readable_batches import jumped_batch, unreadable_parts
from segstore.log.recovery.restart_marker import RestartMarker
from segstore.number_limits import MAX_LONG
from segstore.numpy_on_demand import np
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from segstore._core import BatchHeaders, Directory, ScanResult
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.missing_records import LoneIndex, MissingRecords
    from segstore.log.recovery.found_epochs import FoundEpochs
    from segstore.log.recovery.leftovers import Leftovers
    from segstore.log.recovery.readable_batches import UnreadableParts
    from segstore.log.recovery.salvage_report import LostRange
    from segstore.types import EpochEntry

_PIECE_BYTES: Final = 1024 * 1024
_SECTOR_BYTES: Final = 512  # what a disk writes whole, at least


class SmallFiles(NamedTuple):
    """Which of this library's own files are there, and what ``.segstore`` says."""

    has_state: bool
    state: LogState | None
    """None where it is not there, or is not what was written."""
    has_recovery_point: bool
    unreadable: SegstoreError | None = None
    """Why a reader cannot read ``.segstore``."""


class HowToScan(NamedTuple):
    """How a segment is scanned, to be repeated exactly when it is cut."""

    expected_offset: int
    contiguous: bool = False
    check_epochs: bool = False
    previous_epoch: int = -1
    next_segment_base_offset: int = MAX_LONG
    """Or an offset that a batch has jumped to: the scan ends before that batch."""


class ScannedSegment(NamedTuple):
    """A segment that was read to its end, or to what is no batch."""

    segment: Segment
    how: HowToScan
    result: ScanResult
    next_offset: int
    epochs: tuple[EpochEntry, ...]
    """Where the leader epoch changes in it."""
    has_producers: bool
    bytes_above: int
    """From the batch on that has the recovery point."""
    overlapping_epoch: int | None = None
    """Of its first batch that reaches into the next segment."""

    @property
    def is_cut(self) -> bool:
        """Whether the file has more than batches."""
        return self.result.stop != "complete"


class WholeScan(NamedTuple):
    """What a scan of a sealed segment found."""

    result: ScanResult
    is_overflowed: bool
    """Good batches do not fit its base offset: it is to be split."""
    ends_in_zeros: bool
    """Behind the batches are zeros up to the end of the file."""


class BadEnd(NamedTuple):
    """What is known of bytes that are no batch, or none that follows [DUR-50, DUR-63]."""

    is_overflowed: bool
    is_torn_or_copy: bool
    """Its first bytes went with their sector, or it is a batch from before once more."""


class LostLogs(NamedTuple):
    """What shows that there were records in a directory without a ``.log``."""

    deleted: str | None
    """A ``.log.deleted`` that holds records."""
    shown_by: str | None
    """Another file."""


class Survey:
    """One directory, as it is or, where a compaction was interrupted, as it will be.

    Parameters
    ----------
    directory : Directory
        The partition's.
    context : SegmentContext
        Of the segments; one that writes makes no index file here.
    stored : StoredState
        Checkpoints and clean markers.
    listing : SegmentListing
        The names.
    bases : array of int
        Those of the ``.log`` files that count.
    is_for_writing : bool
        What the disk does not give out is an error [DUR-33]; a reader goes around it.

    Attributes
    ----------
    listing : SegmentListing
        The names, once the leftovers are gone.
    leftovers : Leftovers
        Of interrupted operations.
    segments : list of Segment
        Ascending.
    """

    def __init__(  # noqa: PLR0913 - what was found so far
        self,
        directory: Directory,
        context: SegmentContext,
        stored: StoredState,
        listing: SegmentListing,
        bases: array[int],
        *,
        is_for_writing: bool = True,
    ) -> None:
        self._directory = directory
        self._is_for_writing = is_for_writing
        self._unreadable: dict[int, UnreadableParts] = {}
        self._context = context
        self._ends: dict[int, tuple[int, bool] | SegstoreError] = {}
        self._whole: dict[int, WholeScan] = {}
        self._twins: dict[int, Segment] = {}
        self.path = directory.path
        self.stored = stored
        self.leftovers = find_leftovers(listing, context)
        self.listing = _listing_after(self.leftovers, listing, directory)
        self.segments = _open_segments(bases, self.leftovers, context)

    @cached_property
    def mark(self) -> RestartMarker:
        """Of an open that was setting all aside."""
        return RestartMarker(self._directory)

    @cached_property
    def small(self) -> SmallFiles:
        """The library's own files."""
        return read_small_files(self._directory, is_for_writing=self._is_for_writing)

    def note_warnings(self) -> list[str]:
        """Return what is to be said of notes of missing records that cannot be used."""
        return note_warnings(self._directory, self.listing.others)

    @cached_property
    def had_failed_sync(self) -> bool:
        """Whether the page cache may be ahead of the disk."""
        return self._directory.exists(SYNC_FAILED_MARK)

    @cached_property
    def sidecars(self) -> frozenset[int]:
        """Base offsets with a checksum sidecar."""
        found = map(sidecar_base_offset, self.listing.others)
        return frozenset(base for base in found if base is not None)

    @cached_property
    def _missing(self) -> dict[str, frozenset[int]]:
        """Base offsets that lack an index, by its kind; asked before any is made."""
        return {
            kind: frozenset(self.listing.base_offsets(LOG_FILE_SUFFIX, lacking=kind))
            for kind in INDEX_ENTRY_BYTES
        }

    @cached_property
    def lacks_indexes(self) -> frozenset[int]:
        """Base offsets that lack an index."""
        return frozenset[int]().union(*self._missing.values())

    def release(self) -> None:
        """Let go of what only reads: nothing more is asked."""
        for twin in self._twins.values():
            twin.close_quietly()
        self._twins.clear()

    def close(self) -> None:
        """Let go of the segments too."""
        self.release()
        for segment in self.segments:
            if not segment.closed:
                segment.close_quietly()

    # ---- where segments end ----------------------------------------------------------------------

    def end_of(self, segment: Segment) -> tuple[int, bool]:
        """Return the offset behind the last record, and whether nothing follows.

        For a reader, a log that ends in what the disk does not give out reaches to its recovery
        point. Of a sealed segment nothing is known then.

        Raises
        ------
        SegstoreError
            As at the first look.
        """
        base = segment.base_offset
        if base not in self._ends:
            self._ends[base] = self._look_for_end(segment)
        end = self._ends[base]
        if isinstance(end, SegstoreError):
            raise end
        return end

    def _look_for_end(self, segment: Segment) -> tuple[int, bool] | SegstoreError:
        try:
            return self._reader(segment).read_next_offset()
        except ReadIOError as error:
            if self._is_for_writing or self.following(segment) < MAX_LONG:
                return error
        except SegstoreError as error:
            return error
        found = self.unreadable_parts(segment)
        if found.ranges and found.ranges[-1].next_offset is None:
            return max(found.next_offset, self.stored.safe_below), False
        return found.next_offset, found.ends_clean

    def unreadable_parts(self, segment: Segment) -> UnreadableParts:
        """Return what of *segment* the disk does not give out; reads all of it."""
        base = segment.base_offset
        if base not in self._unreadable:
            self._unreadable[base] = unreadable_parts(self._bytes_of(segment), codec_table())
        return self._unreadable[base]

    def jumped_batch(
        self, segment: Segment, scan: ScanResult, state: LogState | None, begin: int = 0
    ) -> LostRange | None:
        """Return the first batch of those from byte *begin* on whose offset jumped ahead [DUR-50].

        Parameters
        ----------
        scan : ScanResult
            Of *segment*; what it ended at, or the next segment, shows that an offset is wrong.
        state : LogState or None
            From where on the log has no gap, where that is known.
        """
        is_bad = scan.stop == "order" and not self._repeats_earlier_batch(segment, scan.valid_bytes)
        if not is_bad and scan.next_offset <= self.following(segment):
            return None
        end, file = scan.valid_bytes, self._bytes_of(segment)
        jumped = jumped_batch(file, state, begin, end, codec_table())
        if jumped is None or (jumped.position and self._is_overlap(segment, jumped, end)):
            return None
        return jumped

    def _is_overlap(self, segment: Segment, found: LostRange, end: int) -> bool:
        """Whether a file goes on beyond the next one, as that of another replica does [DUR-54].

        More than one batch follows the others so, or that one is in a later file too.
        """
        if found.next_offset is not None:
            return False
        rows, _ = segment.scan(start_position=found.position, end_position=end, check_crc=False)
        if len(rows) != 1:
            return True
        offset = int(rows["base_offset"][0])
        later = self.segments[floor_index(self.segments, offset)]
        if later.base_offset == segment.base_offset:
            return False
        with suppress(ReadIOError):  # its reader reports it
            for headers, _ in later.scan_windows(check_crc=False):
                same = headers["base_offset"] == offset
                if (headers["crc"][same] == rows["crc"][0]).any():
                    return True
        return False

    def _bytes_of(self, segment: Segment) -> FileBytes:
        return FileBytes(
            self._directory,
            self._log_name(segment),
            segment.size_bytes,
            segment.base_offset,
            self.following(segment),
        )

    def following(self, segment: Segment) -> int:
        """Return the base offset of the next segment, 2^63-1 without one."""
        return next_base_offset(self.segments, floor_index(self.segments, segment.base_offset))

    def has_damaged_index(self, segment: Segment) -> bool:
        """Whether one of the two cannot be one, of a segment that lacks none."""
        segment.max_timestamp()
        return segment.index_damaged

    def _reader(self, segment: Segment) -> Segment:
        """Return *segment*, or one that makes no index file where one is missing: it is missed."""
        base = segment.base_offset
        if not (self._context.writable and (base in self.lacks_indexes or segment.suffix)):
            return segment
        if base not in self._twins:
            read = SegmentContext(self._directory, codec_table(), writable=False, heap_indexes=True)
            self._twins[base] = Segment(read, base, suffix=segment.suffix)
        return self._twins[base]

    def lost_indexes(self, segment: Segment) -> list[str]:
        """Return the names of index files that are missing, or have no size of one."""
        base = segment.base_offset
        if segment.size_bytes == 0:
            return []
        names = {file_name(base, kind): kind for kind in INDEX_ENTRY_BYTES}
        return [
            name
            for name, kind in names.items()
            if base in self._missing[kind] or not self._may_be_index(name, kind)
        ]

    def _may_be_index(self, name: str, kind: str) -> bool:
        size = self._directory.info(name).size
        return size <= self._context.most_index_bytes and size % INDEX_ENTRY_BYTES[kind] == 0

    def whole_scan(self, segment: Segment) -> WholeScan:
        """Read all of a sealed segment."""
        base = segment.base_offset
        if base not in self._whole:
            scan = segment.scan_result(check_order=True, expected_offset=base)
            self._whole[base] = WholeScan(
                scan,
                is_overflowed(segment, scan, self.following(segment)),
                scan.stop != "complete" and self.is_zero(segment, scan.valid_bytes),
            )
        return self._whole[base]

    def missing_between(self, segments: Sequence[Segment]) -> list[MissingRecords]:
        """Return what the indexes of *segments*, or what was noted, prove to be missing."""
        missing: list[MissingRecords] = []
        lone_bases = self._lone_index_bases
        for segment, following in pairwise(segments):
            try:
                end, _ = self.end_of(segment)
            except ResourceError:
                raise
            except SegstoreError:
                continue  # its reader reports it
            base = segment.base_offset
            end, next_base = max(end, base), following.base_offset
            missing += missing_between(self._directory, base, end, next_base, lone_bases=lone_bases)
        return missing

    @cached_property
    def _lone_index_bases(self) -> list[int]:
        return lone_index_bases(self.listing)

    def first_shown_before(self, first_offset: int, first_base_offset: int) -> int | None:
        """Return the first offset that a lone index before the first segment shows."""
        return first_shown_before(self._directory, first_offset, first_base_offset)

    def lone_indexes(self) -> list[LoneIndex]:
        """Return the indexes that list records, and whose ``.log`` is gone."""
        return lone_indexes(self._directory)

    def named_behind(self, segment: Segment, end_offset: int) -> int | None:
        """Return the last offset that the index of the last segment names behind its end."""
        base = segment.base_offset
        return named_behind(self._directory, base, end_offset, segment.size_bytes)

    # ---- epochs ----------------------------------------------------------------------------------

    def find_epochs(
        self,
        segments: Sequence[Segment],
        log_start_offset: int,
        is_marked: Callable[[EpochEntry | None], bool],
        *,
        is_for_writing: bool,
    ) -> FoundEpochs:
        """Do what `find_epochs` does."""
        return find_epochs(
            self._directory,
            lambda: self.small.state,
            [self._reader(one) for one in segments] if self.lacks_indexes else segments,
            log_start_offset,
            is_marked,
            is_for_writing=is_for_writing,
        )

    def checkpoint_entries(self, *, must_be_file: bool = False) -> tuple[EpochEntry, ...] | None:
        """Return the leader-epoch checkpoint's, None where it is lost.

        Raises
        ------
        NotALogError
            *must_be_file*, and something else stands in its place.
        """
        return read_checkpoint(self._directory, must_be_file=must_be_file)[0]

    # ---- from the recovery point on --------------------------------------------------------------

    def scan_tail(
        self,
        segments: Sequence[Segment],
        how: Callable[[int, int, int], HowToScan],
        log_start_offset: int,
        recovery_point: int,
        known: LogState | None,
    ) -> Iterator[ScannedSegment]:
        """Yield one segment after the other, each read when it is asked for.

        Parameters
        ----------
        how : callable
            Takes the base offset, the offset behind the segment before and its last epoch.
        known : LogState or None
            As `jumped_batch` takes it.
        """
        next_offset, epoch = segments[0].base_offset, -1
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            parts = (following, log_start_offset, recovery_point)
            scanned = _scan_segment(segment, how(segment.base_offset, next_offset, epoch), *parts)
            jumped = self.jumped_batch(segment, scanned.result, known)
            end = scanned.result.valid_bytes
            if jumped is not None and not self._is_overlap(segment, jumped, end):
                # that batch is the bad one, not the one after it
                rows, _ = segment.scan(start_position=jumped.position, max_batches=1)
                ended = scanned.how._replace(next_segment_base_offset=int(rows["last_offset"][0]))
                scanned = _scan_segment(segment, ended, *parts)
            next_offset, epoch = scanned.next_offset, scanned.result.last_epoch
            yield scanned

    def is_zero(self, segment: Segment, position: int) -> bool:
        """Whether the file has only zeros from there on."""
        return is_zero(self._directory, self._log_name(segment), position)

    def goes_on_after(self, segment: Segment, scan: ScanResult) -> bool:
        """Whether the next segment begins where *scan* ended, with at most zeros between them."""
        return scan.next_offset == self.following(segment) and (
            scan.stop == "complete" or self.is_zero(segment, scan.valid_bytes)
        )

    def bad_end(self, scanned: ScannedSegment, *, has_recovery_point: bool) -> BadEnd:
        """Look at what ended a scan."""
        segment, scan = scanned.segment, scanned.result
        if is_overflowed(segment, scan, self.following(segment)):
            return BadEnd(is_overflowed=True, is_torn_or_copy=False)
        is_explained = scan.stop == "order" and not has_recovery_point
        return BadEnd(False, is_explained and self._is_torn_or_copy(segment, scan))

    def _is_torn_or_copy(self, segment: Segment, scan: ScanResult) -> bool:
        is_torn = self._is_torn(segment, scan)
        return is_torn or self._repeats_earlier_batch(segment, scan.valid_bytes)

    def holds_only_later(self, scanned: ScannedSegment, following: Segment) -> bool:
        """Whether the file is that of a later segment, under this segment's name.

        No interrupted truncation leaves that. Two batches are looked at: no CRC covers the base
        offset, and one batch may have a wrong one.
        """
        is_explained = scanned.how.next_segment_base_offset < MAX_LONG  # by a batch that jumped
        is_suspect = scanned.result.stop == "order" or scanned.overlapping_epoch is not None
        if is_explained or not is_suspect:
            return False
        headers, _ = scanned.segment.scan(max_batches=2)
        return len(headers) > 0 and int(headers["base_offset"].min()) >= following.base_offset

    def may_hold_batch(self, segment: Segment, position: int) -> bool:
        """Whether a whole batch may follow the bytes at *position*."""
        return may_hold_batch(self._directory, segment, position)

    def first_epoch_of(self, segment: Segment) -> int:
        """Return the leader epoch of the first batch, -1 without one."""
        headers, _ = segment.scan(check_crc=False, max_batches=1)
        return int(headers["partition_leader_epoch"][0]) if len(headers) else -1

    def _is_torn(self, segment: Segment, scan: ScanResult) -> bool:
        """Whether a batch would fit, had its first bytes not been lost with the end of a sector.

        They are zero then. Its CRC does not cover the base offset, so a torn one looks whole.
        """
        position = scan.valid_bytes
        lost = -position % _SECTOR_BYTES
        expected = scan.next_offset.to_bytes(8)
        there = self._directory.read_range(self._log_name(segment), position, 8)
        return lost <= len(expected) and there == bytes(lost) + expected[lost:]

    def _repeats_earlier_batch(self, segment: Segment, position: int) -> bool:
        """Whether the batch at *position* is byte for byte one that came before [DUR-63]."""
        rows, _ = segment.scan(start_position=position, max_batches=1)
        if not len(rows):
            return False
        row = rows[0]
        size = int(row["size_bytes"])
        name = self._log_name(segment)
        content = self._directory.read_range(name, position, size)
        for headers, _ in segment.scan_windows(end_position=position, check_crc=False):
            same = headers[(headers["crc"] == row["crc"]) & (headers["size_bytes"] == size)]
            for earlier in same["position"]:
                if self._directory.read_range(name, int(earlier), size) == content:
                    return True
        return False

    def _log_name(self, segment: Segment) -> str:
        return f"{file_name(segment.base_offset, LOG_FILE_SUFFIX)}{segment.suffix}"

    # ---- names -----------------------------------------------------------------------------------

    def lost_logs(self) -> LostLogs:
        """Look for records of a directory that has no ``.log``."""
        deleted = [
            file.name
            for file in segment_files(self._directory.names())
            if file.kind == LOG_FILE_SUFFIX
            and file.suffix == DELETED_FILE_SUFFIX
            and self._directory.info(file.name).size > 0
        ]
        return LostLogs(deleted[0] if deleted else None, self._index_with_records())

    def _index_with_records(self) -> str | None:
        for kind in INDEX_FILE_SUFFIXES:
            for base_offset in self.listing.base_offsets(kind, lacking=LOG_FILE_SUFFIX):
                name = file_name(base_offset, kind)
                size = INDEX_ENTRY_BYTES.get(kind, TRANSACTION_INDEX_ENTRY_BYTES)
                size = min(size, self._directory.info(name).size)
                if self._directory.read_range(name, 0, size).strip(b"\0"):
                    return name
        return None

    def is_directory(self, name: str) -> bool:
        """Whether that is no file, and so not ours [LDR-1, DUR-42]."""
        try:
            return self._directory.info(name).is_directory
        except LogNotFoundError:
            return False

    def names(self) -> list[str]:
        """Return all names in the directory as it is."""
        return self._directory.names(ordered=False)

    def unreadable_indexes(self, names: Iterable[str]) -> list[str]:
        """Return those of *names* that the disk does not give out: they may prove a loss."""
        return [name for name in names if is_unreadable_index(self._directory, name)]

    def name_aside(self, name: str) -> str:
        """Return under which name an index that cannot be read would be kept."""
        return name_aside(self._directory, name)

    def names_of_kept_tail(
        self, segment: Segment, position: int, *, holds_batches: bool
    ) -> tuple[list[str], list[str]]:
        """Return in which files a tail would be kept, and warnings; reads all of the tail."""
        return Quarantine(self._directory).names_of_tail(
            self._log_name(segment), position, segment.size_bytes, holds_batches=holds_batches
        )


def is_zero(directory: Directory, name: str, position: int) -> bool:
    """Whether a file has only zeros from there on: room that was allocated ahead [DUR-1]."""
    while piece := directory.read_range(name, position, _PIECE_BYTES):
        if piece.strip(b"\0"):
            return False
        position += len(piece)
    return True


def index_names(segment: Segment) -> list[str]:
    """Return the names of both index files."""
    return [file_name(segment.base_offset, kind) for kind in INDEX_ENTRY_BYTES]


def read_small_files(directory: Directory, *, is_for_writing: bool = True) -> SmallFiles:
    """Read them; the recovery point is looked for first, as ``.segstore`` is made before it.

    Raises
    ------
    NotALogError, ReadIOError
        *is_for_writing*, and the disk does not give out ``.segstore``, or it is no file.
    """
    has_recovery_point = directory.exists(RECOVERY_POINT_CHECKPOINT)
    has_state = directory.exists(LOG_STATE)
    state = unreadable = None
    try:
        state = LogState.read(directory) if has_state else None
    except (NotALogError, ReadIOError) as error:
        if is_for_writing:
            raise
        unreadable = error
    return SmallFiles(has_state, state, has_recovery_point, unreadable)


def _listing_after(
    leftovers: Leftovers, listing: SegmentListing, directory: Directory
) -> SegmentListing:
    if not leftovers.has_swaps:
        return listing
    names = {*directory.names()} - {*leftovers.incomplete, *leftovers.worthless}
    names -= {file.name for file in (*leftovers.replaced, *leftovers.renamed)}
    names |= {file._replace(suffix="").name for file in leftovers.renamed}
    gone = {file.offset for file in leftovers.replaced}
    return SegmentListing(sorted(name for name in names if sidecar_base_offset(name) not in gone))


def _open_segments(
    bases: array[int], leftovers: Leftovers, context: SegmentContext
) -> list[Segment]:
    """Look up the sizes of all segments; no file is opened."""
    if not leftovers.ranges:
        return open_segments(Segment, context, bases)
    replaced = {file.offset for file in leftovers.replaced}
    plain = array("q", [base for base in bases if base not in replaced])
    swapped = [Segment(context, base, suffix=SWAP_FILE_SUFFIX) for base, _ in leftovers.ranges]
    segments = open_segments(Segment, context, plain) + swapped
    return sorted(segments, key=lambda segment: segment.base_offset)


def survey_log(directory: Directory, context: SegmentContext, stored: StoredState) -> Survey:
    """Survey a directory that nobody else changes."""
    listing = directory.segment_listing()
    bases = listing.base_offsets(LOG_FILE_SUFFIX)
    return Survey(directory, context, stored, listing, bases)


def _scan_segment(
    segment: Segment,
    how: HowToScan,
    following: int | None,
    log_start_offset: int,
    recovery_point: int,
) -> ScannedSegment:
    epochs: list[EpochEntry] = []
    highest, overlapping, has_producers, above = how.previous_epoch, None, False, None
    for headers, scan in segment.scan_windows(check_order=True, **how._asdict()):  # noqa: B007
        changes = epoch_changes(BatchTable(headers), highest, log_start_offset)
        highest = changes[-1].epoch if changes else highest
        has_producers |= bool((headers["producer_id"] >= 0).any())
        epochs += changes
        if following is not None and overlapping is None:
            overlapping = _epoch_of_first(headers, following)
        if above is None:
            row = int(np.searchsorted(headers["last_offset"], recovery_point))
            above = int(headers["position"][row]) if row < len(headers) else None
    return ScannedSegment(
        segment,
        how,
        scan,
        max(scan.next_offset, segment.base_offset),
        tuple(epochs),
        has_producers,
        0 if above is None else scan.valid_bytes - above,
        overlapping,
    )


def _epoch_of_first(headers: BatchHeaders, offset: int) -> int | None:
    """Return the leader epoch of the first batch that reaches *offset*, None without one."""
    reaching = headers["partition_leader_epoch"][headers["last_offset"] >= offset]
    return int(reaching[0]) if len(reaching) else None
