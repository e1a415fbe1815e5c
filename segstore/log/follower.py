"""A reader's view of a log that another process writes: looking again.

Replication from a leader (`append_as_follower`) is in `appender` and `producer_input`.

Not the leader epochs: they stay as they were when the log was opened.

Source: [DUR-71, DUR-75..DUR-78, DUR-81, UNI-5].
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from contextlib import closing, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Directory, is_any_replaced, open_segments
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    InconsistentTopicIdError,
    LogNotFoundError,
    LogTruncatedError,
    NotALogError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    PARTITION_METADATA,
    UNREADABLE_TO_READERS,
    read_topic_id,
)
from segstore.log.files.log_state_file import uncut_generation
from segstore.log.files.partition_directory import (
    LOG_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    list_during_writes,
)
from segstore.log.files.partition_lock import removed_while_read
from segstore.log.files.partition_metadata_file import check_same_topic, topic_id_words
from segstore.log.local.observed_end import EndState, ObservedEnd
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments
from segstore.log.local.truncation_history import UNKNOWN_PLACE
from segstore.number_limits import MAX_LONG
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Sequence

    from segstore._core import FileInfo, SegmentListing
    from segstore.log.files.stored_state import StoredState
    from segstore.log.log_parts import LogParts

_NEWEST_COUNT: Final = 16
"""How many sealed segments are looked at again."""
_FEW: Final = 4
"""Of how many known segments it is asked whether their files are still those of their names."""
_LOOKS: Final = 8
_PAUSE_SECONDS: Final = 0.001
_DAMAGE: Final = (CorruptRecordError, CorruptLogError)
_CHANGED_MEANWHILE: Final = (LogNotFoundError, LogTruncatedError, *_DAMAGE)
"""What a look fails with while files are cut, renamed and made anew."""
_CHANGED: Final = (EndState.TRUNCATED, EndState.REPLACED)
_NO_TOPIC_ID: Final = (LogNotFoundError, *UNREADABLE_TO_READERS)
"""What ``partition.metadata`` fails with where it says nothing of the topic."""


class _View(NamedTuple):
    """What a look has found."""

    segments: Segments
    end: LogOffsetMetadata
    observed_end: ObservedEnd
    is_cut: bool
    is_replaced: bool = False
    """Segments were compacted or split; none of the log was truncated."""


class LogFollower:
    """Keeps a read-only handle up to date; nothing on disk is changed, no file is locked.

    Attributes
    ----------
    recovery_point : int
        The writer's, from its checkpoint.
    """

    def __init__(self, parts: LogParts, observed_end: ObservedEnd) -> None:
        self.recovery_point = parts.loaded.recovery_point
        # of a directory that is gone it cannot be asked
        self._identity = parts.checkpoint_store.directory.identity
        self._topic_id = parts.loaded.topic_id
        self._topic_id_is_of: FileInfo | None = None
        self._offsets = parts.offsets
        self._remote = parts.remote
        self._local_log = parts.local_log
        self._checkpoint_store = parts.checkpoint_store
        self._context = parts.context
        self._lock = threading.Lock()
        self._swaps = {one.name + one.suffix for one in parts.local_log.segments if one.suffix}
        self._observed_end = observed_end
        self._generation: int | None = None

    @property
    def durable(self) -> LogOffsetMetadata:
        """Where a durable read ends: at the writer's recovery point [DUR-81]."""
        local_log = self._local_log
        end = local_log.log_end
        if self.recovery_point >= end.message_offset:
            return end
        return local_log.offset_metadata(self.recovery_point)

    def refresh(self) -> None:
        """Take over new segments, new bytes, a new log start.

        Raises
        ------
        LogTruncatedError
            The log ends below what was seen, or other records stand where its last batch was. The
            handle shows the log as it is from then on.
        LogNotFoundError
            The directory was removed.
        InconsistentTopicIdError
            The topic was deleted, and another one of its name was made, in the same directory or in
            a new one. The handle stays with the records that it has seen.
        """
        with self._lock:
            self._require_same_topic()
            try:
                self._refresh()
            except (LogNotFoundError, LogTruncatedError):  # a look does not say why files are gone
                self._require_in_place()
                raise

    def take_over_replaced(self) -> bool:
        """Take over segments that the writer compacted or split; returns whether there were any.

        For a read that met them. Nothing is taken over where the log may have been truncated.
        """
        with self._lock, suppress(SegstoreError):
            directory, known = self._checkpoint_store.directory, self._local_log.segments
            for _ in range(_LOOKS):
                if not self._observed_end.is_uncut():
                    return False
                found = self._checkpoint_store.read()
                _, bases = list_during_writes(directory)
                if self._is_loss(found, bases):
                    return False
                view = self._read_replaced(bases) if bases else None
                if view is not None:
                    is_news = view.is_replaced and (
                        is_any_replaced(known) or _shapes(view.segments) != _shapes(known)
                    )
                    if is_news:
                        self._publish(found, view)
                    return is_news
                time.sleep(_PAUSE_SECONDS)
        return False

    def is_in_place(self) -> bool:
        """Whether the log's directory is at its path yet, and of the same topic."""
        try:
            with self._lock:
                self._require_same_topic()
                self._require_in_place()
        except (LogNotFoundError, InconsistentTopicIdError):
            return False
        return True

    def _require_in_place(self) -> None:
        """Raise when the directory that was opened was removed: another may be at its path."""
        directory = self._checkpoint_store.directory
        try:
            found = Directory(directory.path, directory.environment)
        except (LogNotFoundError, NotALogError) as error:
            raise removed_while_read(directory.path) from error
        with closing(found):
            if found.identity == self._identity:
                return
            topic_id = None
            with suppress(*_NO_TOPIC_ID):
                topic_id = read_topic_id(found)
        check_same_topic(directory.path, self._topic_id, topic_id)
        raise LogNotFoundError(
            "the directory of the log was removed while the log was open, and another one is at its"
            " path: open that one",
            file=directory.path,
            found=f"another directory, {topic_id_words(topic_id)}",
            expected="the directory that was opened",
        )

    def _require_same_topic(self) -> None:
        """Raise when ``partition.metadata`` has another id; it is read again when it changes.

        Of a directory that has none at this moment the bytes are all that can be compared.
        """
        directory = self._checkpoint_store.directory
        try:
            info = directory.info(PARTITION_METADATA)
            if info == self._topic_id_is_of:
                return
            found = read_topic_id(directory)
        except _NO_TOPIC_ID:
            return
        if found is not None:
            check_same_topic(directory.path, self._topic_id, found)
            self._topic_id, self._topic_id_is_of = found, info

    def _refresh(self) -> None:
        directory = self._checkpoint_store.directory
        why: SegstoreError | None = None
        for _ in range(_LOOKS):
            try:
                self._take_generation()
                found = self._checkpoint_store.read()
                listing = directory.segment_listing()
                if not self._swaps.isdisjoint(listing.others):
                    return  # which a writer gives their names before anything else
                bases = listing.base_offsets(LOG_FILE_SUFFIX)
                if bases != self._local_log.segments.base_offsets:
                    listing, bases = list_during_writes(directory)
                view = self._look(found, bases) if bases else None
            except _CHANGED_MEANWHILE as error:
                why = error
            else:
                if view is not None:
                    self._require_same_topic()  # all that was looked at is of this one
                    self._publish(found, view)
                    return
                if not bases and listing.others:
                    return  # a writer who begins anew leaves other files where they are
                if not bases:
                    raise removed_while_read(directory.path)
                why = None
            time.sleep(_PAUSE_SECONDS)
        self._give_up(why)

    def _take_generation(self) -> None:
        """Take it before anything else is looked at, where it is not known."""
        self._generation = self._observed_end.generation
        if self._generation is None:
            self._generation = uncut_generation(self._checkpoint_store.directory)

    def _give_up(self, why: SegstoreError | None) -> None:
        """End a refresh whose looks have all met a change, the last one *why*."""
        if isinstance(why, _DAMAGE) and self._observed_end.end_state() is not EndState.TRUNCATED:
            raise why
        if self._observed_end.is_uncut():
            return  # segments get other names at this moment: the next refresh shows them
        raise LogTruncatedError(
            "the log's writer truncates it, or deletes from it, again and again while it is read",
            file=self._checkpoint_store.directory.path,
            found=f"another change in each of {_LOOKS} looks",
            expected="a look without a change",
        ) from why

    def _look(self, found: StoredState, bases: array[int]) -> _View | None:
        """Return what is there now, None when it changed meanwhile."""
        local_log, observed_end = self._local_log, self._observed_end
        known, seen = local_log.segments, local_log.log_end
        is_stable = self._is_stable(known, seen, bases)
        end_state = observed_end.end_state()
        # a truncation takes the newest: where the end is in its file, the segments before it are in
        # theirs, unless the descriptor of the end was given back in between
        if end_state is EndState.TRUNCATED or self._restarted(found, known, bases):
            return self._read_again(bases, is_cut=True)
        if (
            end_state is EndState.REPLACED
            or is_any_replaced(known.as_tuple[-_FEW:])
            or (self._lacks_segments(found, known, bases) and not self._is_loss(found, bases))
        ):
            return self._read_replaced(bases)
        if self._swaps:
            return self._read_again(bases, is_cut=False)
        if is_stable and end_state is EndState.UNCHANGED:
            observed_end.generation = self._generation
            return _View(known, seen, observed_end, is_cut=False)
        return self._read_on(bases)

    def _read_on(self, bases: array[int]) -> _View | None:
        """Return what came after the end that was seen, None when it changed meanwhile."""
        local_log, observed_end = self._local_log, self._observed_end
        known, seen = local_log.segments, local_log.log_end
        intact_below = _intact_below(known.base_offsets, bases, seen.segment_base_offset)
        there = set(bases)
        kept = [
            segment
            for segment in known
            if segment.base_offset in there and segment.base_offset < intact_below
        ]
        kept = self._without_rewritten(kept)
        segments, end = self._look_from(seen, kept, bases)
        new_observed_end = self._new_observed_end(segments, end)
        # all that was read behind the first check is of one log, or it is looked at again; what is
        # cut from here on differs from what the new one has seen
        if (
            observed_end.end_state() in _CHANGED
            or new_observed_end.end_state() in _CHANGED
            or is_any_replaced(segments.as_tuple[max(len(kept) - _FEW, 0) :])
        ):
            return None
        is_cut = end.message_offset < seen.message_offset
        return _View(segments, end, new_observed_end, is_cut=is_cut)

    def _restarted(self, found: StoredState, known: Segments, bases: array[int]) -> bool:
        """Whether the log begins before what was seen of it: only a truncation takes it back.

        Both its first segment and its log start do; files that deletion left may lie there, too.
        """
        return (
            bases[0] < known.base_offsets[0]
            and found.log_start_offset < self._offsets.log_start_offset
        )

    def _lacks_segments(self, found: StoredState, known: Segments, bases: array[int]) -> bool:
        """Whether segments are gone, or others between them, that no deletion and roll explains.

        The writer raises the log start before it deletes. Without its generation nothing is told.
        """
        if self._observed_end.generation is None or bases == known.base_offsets:
            return False
        there, start = set(bases), found.log_start_offset
        for base, following in pairwise(known.base_offsets):
            if following > start and base not in there:
                return True
        last = known.base_offsets[-1]
        return last not in there or any(
            known.base_offsets[0] < base < last and base not in known for base in bases
        )

    def _is_loss(self, found: StoredState, bases: array[int]) -> bool:
        """Whether files are gone, and no other segment has taken their place.

        One that takes it has the base offset of the first of those that it replaces.
        """
        directory, known = self._checkpoint_store.directory, self._local_log.segments
        listing = directory.segment_listing()
        if _has_swaps(listing.others) or not _begins_with(listing, bases):
            return False  # names change at this moment
        there = set(bases)
        for base, following in pairwise([*known.base_offsets, MAX_LONG]):
            if base in there or following <= found.log_start_offset:
                continue
            place = bisect_right(bases, base) - 1
            old = known.get(bases[place]) if place >= 0 else None
            if place < 0 or (
                old is not None
                and not is_any_replaced([old])
                and directory.info(old.name).size == old.size_bytes
            ):
                return True
        return False

    def _read_replaced(self, bases: array[int]) -> _View | None:
        """Return what is there now; of sealed segments before the end the names are enough.

        A truncation where the writer does not say that there was none.
        """
        directory, seen = self._checkpoint_store.directory, self._local_log.log_end
        if not self._observed_end.is_uncut():
            return self._read_again(bases, is_cut=True)
        last = bases[max(bisect_right(bases, seen.segment_base_offset) - 1, 0)]
        fresh = open_segments(Segment, self._context, bases)
        kept = [segment for segment in fresh if segment.base_offset < last]
        segments, end = self._look_from(LogOffsetMetadata(last, last, 0), kept, bases)
        observed_end = self._new_observed_end(segments, end)
        listing = directory.segment_listing()
        if (
            not self._observed_end.is_uncut()
            or observed_end.end_state() is not EndState.UNCHANGED
            or is_any_replaced(segments)
            or _has_swaps(listing.others)
            or not _begins_with(listing, bases)
        ):
            return None
        before = {one.base_offset: one for one in self._local_log.segments}
        for segment in segments:
            if segment.base_offset <= seen.segment_base_offset and segment.base_offset < bases[-1]:
                old = before.get(segment.base_offset)
                segment.is_cleaned = (
                    old is None
                    or old.is_cleaned
                    or old.size_bytes != segment.size_bytes
                    or is_any_replaced([old])
                )
        return _View(segments, end, observed_end, is_cut=False, is_replaced=True)

    def _is_stable(self, known: Segments, seen: LogOffsetMetadata, bases: array[int]) -> bool:
        """Whether names and size are those that were seen."""
        if bases != known.base_offsets:
            return False
        active = known.active_segment
        size = seen.relative_position_in_segment
        return (
            active.base_offset == seen.segment_base_offset
            and active.size_bytes == size
            and self._checkpoint_store.directory.info(active.name).size == size
        )

    def _read_again(self, bases: array[int], *, is_cut: bool) -> _View | None:
        """Return what is there behind a cut, or new names: of what is known, no segment stays.

        Only the end is looked for; segments that have their size still are not read for that.
        """
        seen = self._local_log.log_end
        fresh = open_segments(Segment, self._context, bases)
        kept = []
        for segment, before in zip(fresh, self._local_log.segments, strict=False):
            is_alike = (segment.base_offset, segment.size_bytes) == (
                before.base_offset,
                before.size_bytes,
            )
            if not is_alike or segment.base_offset >= min(seen.segment_base_offset, bases[-1]):
                break
            kept.append(segment)
        base = seen.segment_base_offset
        segments, end = self._look_from(LogOffsetMetadata(base, base, 0), kept, bases)
        observed_end = self._new_observed_end(segments, end)
        if observed_end.end_state() is EndState.TRUNCATED or is_any_replaced(segments):
            return None
        return _View(segments, end, observed_end, is_cut=is_cut)

    def _new_observed_end(self, segments: Segments, end: LogOffsetMetadata) -> ObservedEnd:
        return ObservedEnd(self._checkpoint_store, self._context, segments, end, self._generation)

    def _publish(self, found: StoredState, view: _View) -> None:
        """Show the log as it was found; readers under way learn first that it was cut [DUR-77]."""
        local_log, (segments, end, observed_end, is_cut, is_replaced) = self._local_log, view
        seen, self._swaps = local_log.log_end, set()
        if is_cut:
            local_log.note_truncation(UNKNOWN_PLACE)
            observed_end.generation = None  # it was asked for before the cut, perhaps
        # first, so that whoever misses a segment is told that it lies before the log start
        tier, first = self._remote.tier, segments.base_offsets[0]
        log_start_offset = found.log_start_offset if tier else max(found.log_start_offset, first)
        if not is_cut:  # it goes up only, also where its checkpoint cannot be read now [DUR-5]
            log_start_offset = max(log_start_offset, self._offsets.log_start_offset)
        self._offsets.reset_log_start_offset(log_start_offset)
        if tier is not None:
            tier.restart_at(max(log_start_offset, first))
        local_log.show(segments, end, observed_end, is_replaced=is_replaced)
        self._observed_end = observed_end
        recovery_point = found.recovery_point
        self.recovery_point = min(
            end.message_offset, self.recovery_point if recovery_point is None else recovery_point
        )
        if end.message_offset < seen.message_offset:
            raise LogTruncatedError(
                f"the log ends at {end.message_offset} now, it was read to {seen.message_offset}",
                file=self._checkpoint_store.directory.path,
                found=str(end.message_offset),
                expected=f"at least {seen.message_offset}",
            )
        if is_cut:
            raise LogTruncatedError(
                f"the log was read to {seen.message_offset}, then truncated below that, and"
                f" appended to: it ends at {end.message_offset} now",
                file=self._checkpoint_store.directory.path,
                found="another last batch",
                expected="the one that was read",
            )

    def _without_rewritten(self, kept: list[Segment]) -> list[Segment]:
        """Leave out what a truncation cut and new batches filled up to the old base of the next.

        A sealed segment has its size for ever, and a truncation takes the newest ones.
        """
        directory = self._checkpoint_store.directory
        for index in range(max(len(kept) - _NEWEST_COUNT, 0), len(kept)):
            try:
                if directory.info(kept[index].name).size != kept[index].size_bytes:
                    return kept[:index]
            except LogNotFoundError:
                return kept[:index]
        return kept

    def _look_from(
        self, seen: LogOffsetMetadata, kept: list[Segment], bases: Sequence[int]
    ) -> tuple[Segments, LogOffsetMetadata]:
        """Read headers and checksums of what came behind *seen*; *kept* lies before it."""
        segments = list(kept)
        last_kept = kept[-1].base_offset if kept else -1
        end = LogOffsetMetadata(bases[0], bases[0], 0)
        for base in bases:
            if base <= last_kept:
                continue
            segment = Segment(self._context, base)
            # one that is written again has other batches at the places that are known
            segment.is_cleaned = base < seen.segment_base_offset
            expected, position = base, 0
            if base == seen.segment_base_offset:
                expected, position = self._where_to_go_on(segment, seen)
                before = self._local_log.segments.get(base)
                if position > 0 and before is not None:  # it has grown
                    segment.serial_number = before.serial_number
            elif (
                segments
                and base < end.message_offset
                and end.segment_base_offset == segments[-1].base_offset
            ):
                break  # a writer is in the middle of a truncation
            scan = segment.scan_result(
                start_position=position, check_order=True, expected_offset=max(expected, base)
            )
            segments.append(segment)
            next_offset = scan.next_offset if scan.batches_count else max(expected, base)
            end = LogOffsetMetadata(next_offset, base, scan.valid_bytes)
            if scan.stop != "complete":
                break  # a batch that is being written: the end for now [DUR-76]
        return Segments(segments), end

    def _where_to_go_on(self, segment: Segment, seen: LogOffsetMetadata) -> tuple[int, int]:
        """Return offset and byte behind which bytes are new; 0 when the segment was cut meanwhile.

        Source: [DUR-77].
        """
        position = seen.relative_position_in_segment
        if position in {0, segment.size_bytes}:
            return seen.message_offset, position
        if position < segment.size_bytes:
            try:
                rows, _ = segment.scan(start_position=position, max_batches=1)
            except (CorruptRecordError, CorruptLogError):
                rows = None
            if (
                rows is not None
                and len(rows)
                and int(rows["base_offset"][0]) >= seen.message_offset
            ):
                return seen.message_offset, position
            # a batch that is being written, or bytes of others: does the position still end one?
            try:
                before = segment.scan_result(end_position=position, check_crc=False)
            except ReadIOError:  # of what was seen already, whose last bytes are the same
                return seen.message_offset, position
            if (before.valid_bytes, before.next_offset) == (position, seen.message_offset):
                return seen.message_offset, position
        return segment.base_offset, 0


def _has_swaps(names: Iterable[str]) -> bool:
    """Whether a compaction or a split is giving segments their names at this moment."""
    return any(name.endswith(SWAP_FILE_SUFFIX) for name in names)


def _begins_with(listing: SegmentListing, bases: array[int]) -> bool:
    """Whether these are still the first segments; a roll adds another one."""
    return listing.base_offsets(LOG_FILE_SUFFIX)[: len(bases)] == bases


def _shapes(segments: Segments) -> list[tuple[int, int]]:
    """Return base offset and size of all but the last one, which grows."""
    return [(one.base_offset, one.size_bytes) for one in segments.as_tuple[:-1]]


def _intact_below(known: Sequence[int], bases: Sequence[int], seen_base: int) -> int:
    """Return the base offset of the first segment that may have been cut since it was seen.

    A truncation takes the segments behind the one that it cuts; new ones may have come instead.
    """
    were_there = set(known)
    strange = [base for base in bases if base < seen_base and base not in were_there]
    if not strange and seen_base in bases:
        return seen_base
    first_changed = strange[0] if strange else seen_base
    return max((base for base in bases if base < first_changed), default=seen_base)
