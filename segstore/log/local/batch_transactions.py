"""Which transactions were aborted, as the batches say: their headers, and the markers' one record.

A transactional record is aborted when the next marker of its producer is an ABORT. So a reader
needs the batches from its first offset on, up to where the transactions of its range have ended. It
needs no transaction index, and nothing that lies before. No more than that is gone through, and it
is remembered: a segment once from where the first reader began, and once from its beginning.

Source: [TXX-1, TXX-4, LOC-9, LOC-10, DUR-7, DUR-8].
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import (
    CorruptLogError,
    LogNotFoundError,
)
from segstore.log.files.recovery_advice import missing_records
from segstore.log.local.file_bytes import FileBytes
from segstore.log.local.local_log import out_of_range
from segstore.log.local.segment import WINDOW_BATCHES
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from segstore._core import BatchHeaders
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments

_ABORT, _COMMIT = 0, 1
_NONE = -1
_FIRST_BATCHES: Final = 256
"""That are gone through before it is asked whether they are enough; twice as many each time."""


class Damage(NamedTuple):
    """Where a log stops being batches, or one of its batches what was written."""

    offset: int
    """Nothing is known of records from here on."""
    file: str
    position: int
    reason: str
    is_gap: bool = False
    """Whole batches follow: it hides how transactions ended that were open before it."""

    def error(self) -> CorruptLogError:
        """Return a new error that says so."""
        return CorruptLogError(
            f"what is committed after offset {self.offset} is unknown: {self.reason}",
            file=self.file,
            position=self.position,
            found="damaged batches",
            expected="the ends of transactions",
        )


class Abort(NamedTuple):
    """An ABORT marker, and what it ends."""

    producer_id: int
    first_offset: int | None
    """Of the first batch of the transaction that was met; None without one: then it hides nothing,
    or what it hides lies before the place where the walk began."""
    marker: int
    previous_marker: int
    """Where the producer ended a transaction before; -1 where none was met."""
    last_stable_offset: int
    """Behind the marker: where the earliest other open transaction began, else the marker's end."""


class TransactionEnds:
    """The transactions of the batches that were gone through, of one segment or several in order.

    Attributes
    ----------
    start_offset : int
        Where it begins.
    next_offset, position : int
        How far that is; the position is in the last segment.
    open : dict of int to int
        Where the open transactions began, by producer id, the earliest first.
    first_ends : dict of int to tuple
        The first marker of each producer, by his id, and whether it is an ABORT: it also ends what
        he had begun before.
    last_ends : dict of int to int
        The last marker of each producer, by his id.
    aborts : tuple of Abort
        All ABORT markers of the last segment, ascending.
    damage : Damage or None
        Why it goes no further.
    """

    __slots__ = (
        "aborts",
        "damage",
        "first_ends",
        "last_ends",
        "next_offset",
        "open",
        "position",
        "start_offset",
    )

    def __init__(self, next_offset: int, position: int = 0) -> None:
        self.start_offset = self.next_offset = next_offset
        self.position = position
        self.open: dict[int, int] = {}
        self.first_ends: dict[int, tuple[int, bool]] = {}
        self.aborts: tuple[Abort, ...] = ()
        self.damage: Damage | None = None
        self.last_ends: dict[int, int] = {}

    def copy(self) -> Self:
        """Return one that goes on by itself."""
        new = type(self)(self.start_offset, self.position)
        new.next_offset = self.next_offset
        new.open, new.first_ends = self.open.copy(), self.first_ends.copy()
        new.aborts, new.last_ends = self.aborts, self.last_ends.copy()
        return new

    def begin_segment(self, segment: Segment) -> None:
        """Go on at the beginning of *segment*; what is open stays so."""
        self.position, self.aborts = 0, ()
        self.next_offset = max(self.next_offset, segment.base_offset)

    def go_through(
        self,
        segment: Segment,
        end_position: int,
        data_from: int = 0,
        is_enough: Callable[[TransactionEnds], bool] | None = None,
    ) -> None:
        """Take in the batches of *segment* up to a byte.

        Parameters
        ----------
        data_from : int
            Records below are no part of any transaction; markers there count.
        is_enough : callable or None
            Says whether it need go no further; None: it goes up to that byte.
        """
        stop, aborts = "limit", list(self.aborts)
        most = WINDOW_BATCHES
        if is_enough is not None:  # as many as are known, which were copied for that
            most = min(_FIRST_BATCHES + len(aborts) + len(self.last_ends), most)
        while stop == "limit":
            headers, ends, result = segment.scan_transactions(
                start_position=self.position,
                end_position=end_position,
                expected_offset=max(segment.base_offset, self.next_offset),
                data_from=data_from,
                max_batches=most,
            )
            self._take(headers, ends, aborts)
            self.position, self.next_offset = result.valid_bytes, result.next_offset
            stop = result.stop
            if is_enough is not None and is_enough(self):
                break
            most = min(2 * most, WINDOW_BATCHES)
        self.aborts = tuple(aborts)
        if stop != "limit" and self.position < end_position:
            why = f"bytes {self.position} to {end_position} are no batches"
            if result.why is not None:
                why = result.why.message
            self.damage = Damage(self.next_offset, segment.path, self.position, why)

    def _take(self, headers: BatchHeaders, ends: bytes, aborts: list[Abort]) -> None:
        rows = zip(
            ends, headers["producer_id"].tolist(), headers["base_offset"].tolist(), strict=True
        )
        is_open, last_ends = self.open, self.last_ends
        for end, producer_id, offset in rows:
            if end > _COMMIT:
                is_open.setdefault(producer_id, offset)
                continue
            first_offset = is_open.pop(producer_id, None)
            previous = last_ends.get(producer_id, _NONE)
            if previous == _NONE:
                self.first_ends[producer_id] = offset, end == _ABORT
            last_ends[producer_id] = offset
            if end == _ABORT:
                stable = next(iter(is_open.values()), offset + 1)
                aborts.append(Abort(producer_id, first_offset, offset, previous, stable))


class AbortedInRange(NamedTuple):
    """The aborted transactions of a range."""

    transactions: list[tuple[int, int, int]]
    """Producer id, first offset and marker."""
    walked: list[TransactionEnds]
    """Of the segments that were gone through, in order."""
    bound: LogOffsetMetadata | None = None
    """Where the range ends for a reader, when *damage* hides how its transactions end."""
    damage: Damage | None = None


class OpenAtEnd(NamedTuple):
    """What is open where a log ends, and from where on the next look goes."""

    transactions: dict[int, int]
    """Their first offsets by producer id."""
    end: LogOffsetMetadata
    """Of what is known: the log end, or where *damage* is."""
    damage: Damage | None
    start_offset: int
    """In the last segment."""
    open_at_start: dict[int, int]
    """What is open there."""


class BatchTransactions:
    """What is known of the segments of one log; any number of threads may ask.

    No segment is kept, so the files of those that are deleted or compacted are closed.

    Parameters
    ----------
    local_log : LocalLog
        The log.
    """

    def __init__(self, local_log: LocalLog) -> None:
        self._local_log = local_log
        self._known: dict[int, tuple[int, TransactionEnds]] = {}
        self._truncations = (0, 0)

    def between(
        self, segments: Segments, end: LogOffsetMetadata, offset: int, upper_bound_offset: int
    ) -> AbortedInRange:
        """Return what a reader of the offsets ``[offset, upper_bound_offset)`` leaves out.

        Parameters
        ----------
        segments, end : Segments, LogOffsetMetadata
            The log at one moment; a batch behind the end may be known all the same.

        Raises
        ------
        OffsetOutOfRangeError
            A segment of the range was deleted meanwhile.
        """
        still_open: dict[int, int] = {}
        found = AbortedInRange([], [])
        is_enough = partial(_are_known, still_open, upper_bound_offset)
        for segment, ends, damage in self._ends_from(
            segments, end, offset, is_enough, upper_bound_offset
        ):
            found.walked.append(ends)
            is_known = is_enough(ends)
            _go_on(still_open, ends, offset, upper_bound_offset, found.transactions)
            if is_known:
                break
            if damage is not None and (still_open or not damage.is_gap):
                return self._end_at(segment, ends.position, damage, still_open, found)
        return found

    def open_at_end(
        self, segments: Segments, end: LogOffsetMetadata, offset: int, still_open: dict[int, int]
    ) -> OpenAtEnd:
        """Return the transactions that are open where the log ends, or what is known of it.

        Parameters
        ----------
        offset, still_open : int, dict of int to int
            Where to begin, and the first offsets of the transactions that are open there, by
            producer id.
        """
        start = offset, still_open
        for segment, ends, damage in self._ends_from(segments, end, offset):
            start = max(offset, segment.base_offset), still_open
            last_ends = ends.last_ends
            still_open = {
                producer_id: begin
                for producer_id, begin in still_open.items()
                if last_ends.get(producer_id, _NONE) < begin
            }
            for producer_id, begin in ends.open.items():
                still_open.setdefault(producer_id, begin)
            if damage is not None and (still_open or not damage.is_gap):
                end = LogOffsetMetadata(damage.offset, segment.base_offset, ends.position)
                return OpenAtEnd(still_open, end, damage, *start)
        return OpenAtEnd(still_open, end, None, *start)

    def _ends_from(
        self,
        segments: Segments,
        end: LogOffsetMetadata,
        offset: int,
        is_enough: Callable[[TransactionEnds], bool] | None = None,
        upper_bound_offset: int | None = None,
    ) -> Iterator[tuple[Segment, TransactionEnds, Damage | None]]:
        """Yield the segments from that of *offset* on, and what is known; damage ends it."""
        first = segments.floor_segment(offset) or segments.first_segment
        of_range = segments.values(first.base_offset, end.segment_base_offset + 1)
        for segment, following in zip_longest(of_range, of_range[1:]):
            try:
                ends = self.ends_of(segment, end, offset, is_enough, upper_bound_offset)
                if ends.damage is not None and ends.next_offset <= offset and segment is first:
                    ends = _begin_at(segment, offset, end)
                    ends.go_through(segment, end_position_in(segment, end), is_enough=is_enough)
            except LogNotFoundError:
                self._check_is_there(segment, offset)
                raise
            damage, is_whole = ends.damage, ends.position >= end_position_in(segment, end)
            if damage is None and is_whole and following is not None:
                damage = self._gap_between(segment, ends, following)
            yield segment, ends, damage
            if damage is not None and not damage.is_gap:
                return

    def _gap_between(
        self, before: Segment, ends: TransactionEnds, segment: Segment
    ) -> Damage | None:
        if ends.next_offset >= segment.base_offset:
            return None
        try:
            self._local_log.check_no_gap(before, segment)
        except CorruptLogError as error:
            return Damage(ends.next_offset, before.path, ends.position, error.message)
        if not self._local_log.written_order.gaps_hide_markers:
            return None
        reason = f"{missing_records(ends.next_offset, segment.base_offset)} behind it"
        return Damage(ends.next_offset, before.path, ends.position, reason, is_gap=True)

    def _end_at(
        self,
        segment: Segment,
        position: int,
        damage: Damage,
        still_open: dict[int, int],
        found: AbortedInRange,
    ) -> AbortedInRange:
        known_below = min([damage.offset, *still_open.values()])
        if known_below == damage.offset:
            bound = LogOffsetMetadata(known_below, segment.base_offset, position)
        else:
            bound = self._local_log.offset_metadata(known_below)
            bound = bound._replace(message_offset=known_below)
        return found._replace(bound=bound, damage=damage)

    def _check_is_there(self, segment: Segment, offset: int) -> None:
        """Raise OffsetOutOfRangeError when *segment* was deleted while it was asked."""
        now = self._local_log.segments
        if now.get(segment.base_offset) is not segment:
            first, end = now.first_segment.base_offset, self._local_log.log_end.message_offset
            raise out_of_range(offset, first, end, self._local_log.directory)

    # ---- segments --------------------------------------------------------------------------------

    def ends_of(
        self,
        segment: Segment,
        end: LogOffsetMetadata,
        offset: int = 0,
        is_enough: Callable[[TransactionEnds], bool] | None = None,
        upper_bound_offset: int | None = None,
    ) -> TransactionEnds:
        """Return what is known of *segment*, up to the end of the log at least.

        Parameters
        ----------
        offset : int
            What lies before its batch need not be known.
        is_enough : callable or None
            Says whether that is enough, though it is not up to the end.
        upper_bound_offset : int or None
            Up to there it may be enough: where bytes are fetched, it is looked so far first.
        """
        truncations = self._local_log.truncation_counts
        if truncations != self._truncations:
            self._known, self._truncations = {}, truncations
        known = self._known
        there, ends = known.get(segment.base_offset, (-1, None))
        target = end_position_in(segment, end)
        if there != segment.serial_number:  # compacted since: its batches lie elsewhere
            ends = None
        if ends is None:
            ends = _begin_at(segment, offset, end)
        elif ends.start_offset > max(offset, segment.base_offset):
            ends = TransactionEnds(segment.base_offset)
        elif (
            ends.position >= target
            or ends.damage is not None
            or (is_enough is not None and is_enough(ends))
        ):
            return ends
        else:
            ends = ends.copy()
        near = self._position_behind(segment, end, upper_bound_offset)
        if ends.position < near:
            ends.go_through(segment, near, is_enough=is_enough)
        if ends.position < target and (is_enough is None or not is_enough(ends)):
            ends.go_through(segment, target, is_enough=is_enough)
        segments = self._local_log.segments
        if (
            self._local_log.truncation_counts == truncations
            and segments.get(segment.base_offset) is segment
        ):
            known[segment.base_offset] = segment.serial_number, ends
            if len(known) > 2 * len(segments):
                self._known = {base: one for base, one in known.items() if base in segments}
        return ends

    def _position_behind(
        self, segment: Segment, end: LogOffsetMetadata, upper_bound_offset: int | None
    ) -> int:
        """Return where the batches below an offset end in a segment that is fetched; 0 = anywhere.

        Behind it more would be fetched than the range needs.
        """
        if not self._local_log.is_fetched or upper_bound_offset is None:
            return 0
        if upper_bound_offset <= segment.base_offset:
            return 0
        max_position = end_position_in(segment, end)
        last = segment.translate_offset(upper_bound_offset - 1, max_position)
        return 0 if last is None else last.position + last.first_batch_size


def _begin_at(segment: Segment, offset: int, end: LogOffsetMetadata) -> TransactionEnds:
    """Return what is known before the batch of *offset*, which is nothing."""
    if offset <= segment.base_offset:
        return TransactionEnds(segment.base_offset)
    is_behind = offset >= end.message_offset
    place = None if is_behind else segment.translate_offset(offset)
    if place is None:
        return TransactionEnds(offset, end_position_in(segment, end))
    ends = TransactionEnds(place.base_offset, place.position)
    ends.start_offset = min(offset, place.base_offset)  # compaction may have left nothing between
    return ends


def aborts_by_segment(
    local_log: LocalLog, log_start_offset: int, end: LogOffsetMetadata
) -> Iterator[tuple[Segment, bool, TransactionEnds]]:
    """Go through all batches up to *end*, and yield each segment with the aborts in it.

    The walk starts over after damage and after a gap. Zeros up to the end of a segment are room
    that was allocated ahead, where the next one goes on.

    Yields
    ------
    segment, is_known, ends
        Whether it is known which transactions were open before the segment: nothing before it is
        damaged or missing.
    """
    segments = local_log.segments
    is_known = True
    ends = TransactionEnds(segments.first_segment.base_offset)
    before: Segment | None = None
    of_range = segments.values(ends.next_offset, end.segment_base_offset + 1)
    for segment, following in zip_longest(of_range, of_range[1:]):
        if ends.damage is not None or (
            before is not None and not _goes_on(local_log, before, ends, segment)
        ):
            is_known = False
            ends = TransactionEnds(segment.base_offset)
        ends.begin_segment(segment)
        try:
            ends.go_through(segment, end_position_in(segment, end), log_start_offset)
        except LogNotFoundError:
            if local_log.segments.get(segment.base_offset) is segment and not local_log.is_followed:
                raise
            continue  # deleted meanwhile
        goes_on = following is not None and ends.next_offset == following.base_offset
        if ends.damage is not None and goes_on and _is_zero(local_log, segment, ends.position):
            ends.damage = None
        yield segment, is_known, ends
        before = segment


def _is_zero(local_log: LocalLog, segment: Segment, position: int) -> bool:
    """Whether *segment* has only zeros from there on."""
    file = FileBytes(local_log.directory, segment.name, segment.size_bytes)
    return file.is_zero(position, segment.size_bytes - position)


def _goes_on(local_log: LocalLog, before: Segment, ends: TransactionEnds, segment: Segment) -> bool:
    if ends.next_offset < segment.base_offset:
        try:
            local_log.check_no_gap(before, segment)
        except (CorruptLogError, LogNotFoundError):
            return False
    return True


def end_position_in(segment: Segment, end: LogOffsetMetadata) -> int:
    """Return the byte of *segment* up to which it is part of a log that ends there."""
    is_last = segment.base_offset == end.segment_base_offset
    return end.relative_position_in_segment if is_last else segment.size_bytes


def _are_known(still_open: dict[int, int], upper_bound_offset: int, ends: TransactionEnds) -> bool:
    """Whether *ends* tells how all ends that was begun below the upper bound, or before *ends*."""
    return (
        ends.next_offset >= upper_bound_offset
        and next(iter(ends.open.values()), upper_bound_offset) >= upper_bound_offset
        and not any(
            begin < upper_bound_offset and producer_id not in ends.first_ends
            for producer_id, begin in still_open.items()
        )
    )


def _go_on(
    still_open: dict[int, int],
    ends: TransactionEnds,
    offset: int,
    upper_bound_offset: int,
    found: list[tuple[int, int, int]],
) -> None:
    """Let the transactions of a segment follow those that were open before it."""
    spanning = set()
    if still_open:
        for producer_id in [one for one in still_open if one in ends.first_ends]:
            begin = still_open.pop(producer_id)
            marker, is_abort = ends.first_ends[producer_id]
            if is_abort and marker >= offset and begin < upper_bound_offset:
                found.append((producer_id, begin, marker))
                spanning.add(marker)
    aborts = ends.aborts
    for number in range(bisect_left(aborts, offset, key=_marker_of), len(aborts)):
        abort = aborts[number]
        begins = abort.first_offset
        if begins is not None and begins < upper_bound_offset and abort.marker not in spanning:
            found.append((abort.producer_id, begins, abort.marker))
        if abort.last_stable_offset >= upper_bound_offset:
            break  # those behind it begin at the upper bound or above it [TXX-4]
    for producer_id, first_offset in ends.open.items():
        still_open.setdefault(producer_id, first_offset)


def _marker_of(abort: Abort) -> int:
    return abort.marker
