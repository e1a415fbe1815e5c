"""One pass over a log that keeps the last record of each key (Kafka ``Cleaner``).

A pass builds a map from each key of the dirty part to its last offset, then copies the segments up
to where the map reaches, without the records that a later one replaces. Each group of segments is
replaced by what was copied of it before the next group is begun, so an interruption at any place
leaves a valid log: some groups are cleaned, the others are as they were.

The groups go in the order of their offsets. So a tombstone goes only after every older value of its
key in the clean part has gone, durably [DUR-126].

Source: [CLN-55..CLN-122, DUR-125, DUR-126].
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from segstore._core import OffsetMap, SegmentCleaner
from segstore.arguments import integer_within
from segstore.errors import (
    IllegalArgumentError,
    LimitExceededError,
    LogCleaningAbortedError,
    RecordLimitExceededError,
    SegstoreError,
)
from segstore.log.cleaning.cleaner_stats import CleanerStats
from segstore.log.cleaning.segment_groups import group_segments_by_size
from segstore.log.files.profile import Profile
from segstore.log.local.cleaned_output import CleanedOutput
from segstore.number_limits import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore._core import CodecTable
    from segstore.config.log_config import LogConfig
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment

BYTES_PER_KEY: Final = 24
"""Of the map: 16 bytes of hash and the offset."""
DEFAULT_MAP_BYTES: Final = 128 * 1024 * 1024
"""Kafka ``log.cleaner.dedupe.buffer.size``."""
DEFAULT_IO_BUFFER_BYTES: Final = 512 * 1024
"""Kafka ``log.cleaner.io.buffer.size``."""
DEFAULT_LOAD_FACTOR: Final = 0.9
"""Kafka ``log.cleaner.io.buffer.load.factor``."""


def map_bytes_for(offsets: int, most_bytes: int, load_factor: float = DEFAULT_LOAD_FACTOR) -> int:
    """Return the memory for the keys of so many offsets: each has one record at most."""
    return min(most_bytes, int((offsets + 2) / load_factor) * BYTES_PER_KEY)


class CleanableLog(Protocol):
    """What a pass needs of a log; `Compaction` is one."""

    @property
    def local_log(self) -> LocalLog:
        """Its segments."""

    @property
    def codecs(self) -> CodecTable:
        """To read compressed batches."""

    def begin(self, first_dirty_offset: int, first_uncleanable_offset: int) -> int:
        """Check the range, bring it to stable storage; return its end, a base offset."""

    def check_not_changed(self, sources: Iterable[Segment]) -> None:
        """Raise when a change of the log, not damage, is why *sources* cannot be read."""

    def aborted_transactions(
        self, start_offset: int, upper_bound_offset: int
    ) -> Iterable[tuple[int, int, int, int]]:
        """Return the aborted transactions that overlap the range, as in a transaction index."""

    def last_records(self) -> list[tuple[int, int, int]]:
        """Return producer id, last data offset or -1, and epoch of the active producers."""

    def replace(self, new: Sequence[Segment], old: Sequence[Segment], next_offset: int) -> bool:
        """Put *new* in the place of *old*, below *next_offset*; False where *old* is gone."""

    def discard(self, new: Sequence[Segment]) -> None:
        """Remove *new*, unless it is replacing others already."""

    def split(self, segment: Segment) -> None:
        """Split a segment whose offsets do not fit its base offset."""


class Cleaner:
    """The memory of a cleaner, and how it works; one pass at a time.

    Parameters
    ----------
    offset_map_bytes : int
        For the map, 24 bytes a key; 24 to 2^31-1. A pass ends early when it is full.
    io_buffer_bytes : int
        About as much is read at once; a larger batch is read as a whole.
    load_factor : float
        The part of the map's slots that is filled, above 0 and at most 1.
    profile : Profile
        ``Profile.KAFKA`` uses Kafka's hash, MD5. ``Profile.SAFE`` uses a hash with a secret: nobody
        can choose keys of which one would lose its last value [DUR-126].
    throttle : callable or None
        Called with the number of bytes after each read and each write; it may sleep. An error that
        it raises ends the pass.
    check_done : callable or None
        Called before each piece is read; an error that it raises ends the pass [CLN-19].

    Raises
    ------
    IllegalArgumentError
        The map has no slot to fill [CLN-2].
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        *,
        offset_map_bytes: int = DEFAULT_MAP_BYTES,
        io_buffer_bytes: int = DEFAULT_IO_BUFFER_BYTES,
        load_factor: float = DEFAULT_LOAD_FACTOR,
        profile: Profile = Profile.SAFE,
        throttle: Callable[[int], None] | None = None,
        check_done: Callable[[], None] | None = None,
    ) -> None:
        secret = os.urandom(16) if profile is Profile.SAFE else None
        self.offset_map = OffsetMap(offset_map_bytes, secret)
        self.max_entries = int(self.offset_map.slots * load_factor)
        if not (0 < load_factor <= 1 and self.offset_map.slots * load_factor > 1):
            raise IllegalArgumentError(
                f"a map of {self.offset_map.slots} slots, of which {load_factor:g} are filled, has"
                " no room for a key and another one: give it more memory",
                found=f"{offset_map_bytes} bytes",
                expected="48 bytes or more",
            )
        self._io_buffer_bytes = integer_within("io_buffer_bytes", io_buffer_bytes, 1, MAX_INT)
        self._profile = profile
        self._throttle = throttle
        self._check_done = check_done

    def clean(
        self,
        log: CleanableLog,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        now_ms: int | None = None,
    ) -> CleanerStats:
        """Clean the part of *log* below *first_uncleanable_offset*, or as much as fits the map.

        Parameters
        ----------
        log : CleanableLog
            `UnifiedLog.clean` gives itself.
        first_dirty_offset : int
            Below it each key has one record at most: an earlier pass ended there, and the records
            are those that it left. The log start where that is not known [DUR-126].
        first_uncleanable_offset : int
            Only whole segments below it are cleaned. No open transaction begins below it, nor does
            the active segment.
        now_ms : int or None
            For tombstones and transaction markers; None = the wall clock.
        """
        limit = log.begin(first_dirty_offset, first_uncleanable_offset)
        now = log.local_log.directory.wall_clock_ms() if now_ms is None else now_ms
        run = _Pass(self, log, first_dirty_offset, limit, now)
        return run.run()

    # ---- for the pass ----------------------------------------------------------------------------

    @property
    def is_safe(self) -> bool:
        """Whether batches are checked before anything is left out."""
        return self._profile is Profile.SAFE

    @property
    def io_buffer_bytes(self) -> int:
        """How much is read at once."""
        return self._io_buffer_bytes

    def check_done(self) -> None:
        """Raise when the pass is to end."""
        if self._check_done is not None:
            self._check_done()

    def note_bytes(self, count: int) -> None:
        """Let the throttle know."""
        if self._throttle is not None and count:
            self._throttle(count)


class _Pass:
    """One run of `Cleaner.clean`."""

    def __init__(
        self,
        cleaner: Cleaner,
        log: CleanableLog,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        now_ms: int,
    ) -> None:
        self._cleaner = cleaner
        self._log = log
        self._local_log = log.local_log
        self._config: LogConfig = log.local_log.config
        self._first_dirty_offset = first_dirty_offset
        self._limit = first_uncleanable_offset
        self._now_ms = now_ms
        self._core = SegmentCleaner(cleaner.offset_map, log.codecs)
        self._noted_bytes = 0

    def run(self) -> CleanerStats:
        started = time.monotonic()
        self._core.begin_pass(
            first_dirty_offset=self._first_dirty_offset,
            max_entries=self._cleaner.max_entries,
            now_ms=self._now_ms,
            delete_retention_ms=self._config.delete_retention_ms,
            read_bytes=self._cleaner.io_buffer_bytes,
            check=self._cleaner.is_safe,
        )
        end_offset = self._build_offset_map()
        indexed = time.monotonic()
        utilization = self._cleaner.offset_map.utilization
        self._copy(end_offset)
        return CleanerStats(
            end_offset,
            *self._core.counts,
            buffer_utilization=utilization,
            elapsed_index_secs=indexed - started,
            elapsed_secs=time.monotonic() - started,
        )

    def _note_bytes(self) -> None:
        """Charge what was read and written since the last call [CLN-9, CLN-64]."""
        counts = self._core.counts
        total = counts.map_bytes_read + counts.bytes_read + counts.bytes_written
        self._cleaner.note_bytes(total - self._noted_bytes)
        self._noted_bytes = total

    def _fail(self, error: SegstoreError, sources: Iterable[Segment]) -> NoReturn:
        """Raise *error*, or that the log was changed beside the pass, which is why."""
        if not isinstance(error, LogCleaningAbortedError):
            self._log.check_not_changed(sources)
        if isinstance(error, LimitExceededError):  # [CLN-105] Kafka InvalidRecordException
            raise RecordLimitExceededError(*error.args).like(error) from None
        raise error

    # ---- the map ---------------------------------------------------------------------------------

    def _build_offset_map(self) -> int:
        """Put the keys of the dirty part into the map; return where it ends [CLN-55..CLN-62]."""
        first_dirty, limit = self._first_dirty_offset, self._limit
        dirty = self._local_log.segments.values(first_dirty, limit) if limit > first_dirty else ()
        if not dirty:
            return first_dirty
        offset_map = self._cleaner.offset_map
        self._core.add_aborted(self._log.aborted_transactions(first_dirty, limit))
        bounds = [*(segment.base_offset for segment in dirty[1:]), limit]
        for segment, next_offset in zip(dirty, bounds, strict=True):
            self._cleaner.check_done()
            position = self._first_position(segment) if segment is dirty[0] else 0
            self._core.begin_source(segment, position=position, next_base_offset=next_offset)
            while not self._core.is_done:
                self._cleaner.check_done()
                try:
                    is_full = self._core.map_piece(segment)
                except SegstoreError as error:
                    self._fail(error, [segment])
                self._note_bytes()
                if is_full:
                    return max(offset_map.latest_offset + 1, first_dirty)
            offset_map.latest_offset = next_offset - 1
        return offset_map.latest_offset + 1

    def _first_position(self, segment: Segment) -> int:
        """Return where the first dirty batch begins; Kafka goes by the index alone [CLN-56]."""
        if not self._cleaner.is_safe:
            return segment.offset_index_lookup(self._first_dirty_offset).position
        found = segment.translate_offset(self._first_dirty_offset)
        return segment.size_bytes if found is None else found.position

    # ---- the copy --------------------------------------------------------------------------------

    def _copy(self, end_offset: int) -> None:
        """Clean every group of the segments up to where the map ends [CLN-65, CLN-71]."""
        segments = self._local_log.segments.values(0, min(end_offset, self._limit))
        clean = self._local_log.segments.values(0, self._first_dirty_offset)
        self._legacy_horizon_ms = (
            clean[-1].modified_ms() - self._config.delete_retention_ms if clean else 0
        )
        if not segments:
            return
        groups = group_segments_by_size(
            segments, self._config.roll_bytes, self._config.segment_index_bytes, self._limit
        )
        bounds = [*(group[0].base_offset for group in groups[1:]), self._end_of(segments)]
        self._core.begin_copy()
        for group, next_offset in zip(groups, bounds, strict=True):
            self._clean_group(group, next_offset)

    def _end_of(self, segments: Sequence[Segment]) -> int:
        """Return where the segment after the last one begins."""
        following = self._local_log.segments.higher_segment(segments[-1].base_offset)
        return self._limit if following is None else following.base_offset

    def _clean_group(self, group: list[Segment], next_offset: int) -> None:
        """Copy what is kept of *group*, and replace it with that [CLN-70..CLN-78]."""
        self._core.begin_group(self._log.last_records(), self._kept_last_offset(group))
        output = CleanedOutput(self._local_log, group[0].base_offset)
        try:
            bounds = [*(segment.base_offset for segment in group[1:]), next_offset]
            for source, bound in zip(group, bounds, strict=True):
                self._clean_into(output, source, bound, is_last=source is group[-1])
            output.finish(group[-1].modified_ms())
        except SegstoreError as error:
            output.delete()
            self._fail(error, group)
        except BaseException:
            output.delete()
            raise
        try:
            is_replaced = self._log.replace(output.segments, group, next_offset)
        except BaseException:
            self._log.discard(output.segments)
            raise
        if not is_replaced:
            output.delete()

    def _kept_last_offset(self, group: list[Segment]) -> int:
        """Return the last offset of the batch that stays even when it is empty [CLN-82].

        Kafka keeps the last one of the round. Here it is that of every group: so the offsets of
        what replaces a group reach as far as the group's. After a crash in the middle of the
        renames an open sees by them which old segments are replaced; one of those that came back
        alone could bring back a deleted key [DUR-126].
        """
        if not self._cleaner.is_safe:
            return self._limit - 1
        return max(segment.read_next_offset()[0] for segment in group) - 1

    def _clean_into(
        self, output: CleanedOutput, source: Segment, bound: int, *, is_last: bool
    ) -> None:
        upper_bound = source.read_next_offset()[0] if is_last else bound
        self._core.add_aborted(
            self._log.aborted_transactions(source.base_offset, max(upper_bound, source.base_offset))
        )
        self._core.begin_source(
            source,
            next_base_offset=bound,
            retain_legacy_deletes=source.modified_ms() > self._legacy_horizon_ms,
        )
        while not self._core.is_done:
            self._cleaner.check_done()
            begins_at = self._core.copy_piece(source, output.segment)
            output.note_aborted(self._core.take_aborted())
            self._note_bytes()
            if begins_at is None:
                continue
            if not (self._cleaner.is_safe and output.segment.size_bytes):  # [CLN-75]
                self._log.split(source)
                raise LogCleaningAbortedError(
                    "a segment whose offsets do not fit its base offset was split: the next pass"
                    " cleans what it became",
                    file=source.path,
                )
            output.begin_next(begins_at)
