"""Which of a log's oldest segments retention deletes, and what keeps the rest; nothing changes.

Source: [RET-1…RET-8, RTN-2…RTN-15]; Kafka ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from segstore.errors import SegstoreError
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX
from segstore.log.files.profile import Profile
from segstore.log.retention_plan import (
    DeletedSegment,
    HoldingReason,
    HoldingSegment,
    RetentionLimit,
    RetentionPlan,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore.config.log_config import LogConfig
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.log_offsets import LogOffsets
    from segstore.log.log_parts import LogParts
    from segstore.log.remote_part import RemotePart

    _Goes = Callable[[Segment, Segment | None], bool]
    """Takes a segment and the next one; says whether it goes."""

_LARGEST_CLOCK_STEP_MS: Final = 3600 * 1000
_NS_PER_MS: Final = 1_000_000


class RetentionPlanner:
    """Decides for a log that is read or written; a writer asks under the append lock."""

    def __init__(self, parts: LogParts) -> None:
        self._local_log = parts.local_log
        self._offsets = parts.offsets
        self._profile = parts.options.profile
        self._remote = parts.remote
        self._last_clocks: tuple[int, int] | None = None  # wall and monotonic, in ms

    def plan(self, config: LogConfig) -> RetentionPlan:
        """Return what a run deletes now, by these settings [RET-1]."""
        chosen, last_clocks = self.nothing_chosen(), self._last_clocks
        for limit, goes in self.limits(chosen, config):
            chosen.take_while(limit, goes)
        self._last_clocks = last_clocks  # a clock that was set keeps the next run, not this look
        return RetentionPlan(tuple(chosen.values), chosen.holding())

    def nothing_chosen(self) -> ChosenSegments:
        """Return the choice to begin with."""
        return ChosenSegments(
            self._local_log, self._offsets, self._remote, self._profile, is_copied=self.is_copied
        )

    @property
    def is_copied(self) -> bool:
        """Whether sealed segments are uploaded, and go here then."""
        tier = self._remote.tier
        return tier is not None and tier.copies

    def limits(
        self, chosen: ChosenSegments, config: LogConfig, now_ms: int | None = None
    ) -> Iterator[tuple[RetentionLimit, _Goes]]:
        """Yield what decides: log start, then size, then time, each of what the one before left.

        *now_ms* is the time by which segments are old; None = the wall clock, where believed.
        """
        tier = self._remote.tier
        start = self._offsets.log_start_offset if tier is None else tier.local_log_start_offset
        yield (
            RetentionLimit.LOG_START_OFFSET,
            lambda _, following: following is not None and following.base_offset <= start,
        )
        policies = config.cleanup_policies
        if "delete" not in policies and not (self.is_copied and not policies):
            return
        gone = self._gone()
        limit_bytes = config.local_bytes if self.is_copied else config.retention_bytes
        if limit_bytes >= 0:
            yield RetentionLimit.RETENTION_BYTES, _is_surplus(chosen.rest(), gone, limit_bytes)
        limit_ms = config.local_ms if self.is_copied else config.retention_ms
        is_given = now_ms is not None
        now_ms = self._local_log.directory.wall_clock_ms() if now_ms is None else now_ms
        if limit_ms is not None and limit_ms >= 0:
            if is_given or self._believes_clock(now_ms):
                yield RetentionLimit.RETENTION_MS, _is_old(chosen, gone, now_ms, limit_ms)
            else:
                chosen.hold(HoldingReason.CLOCK)

    def _gone(self) -> frozenset[Segment]:
        """Return the sealed segments whose ``.log`` another program has removed [DUR-132].

        They count as deleted where a limit deletes the oldest segments: nothing of them is read.
        """
        if self._profile is Profile.KAFKA:
            return frozenset()
        listing = self._local_log.directory.segment_listing()
        there = set(listing.base_offsets(LOG_FILE_SUFFIX))
        sealed = self._local_log.segments.as_tuple[:-1]
        return frozenset(segment for segment in sealed if segment.base_offset not in there)

    def _believes_clock(self, now_ms: int) -> bool:
        """Whether the wall clock went on as time did: one that was set deletes nothing [DUR-28]."""
        if self._profile is Profile.KAFKA:
            return True
        last, monotonic_ns = self._last_clocks, self._local_log.directory.monotonic_ns()
        clocks = self._last_clocks = now_ms, monotonic_ns // _NS_PER_MS
        if last is None:
            return True
        return abs((clocks[0] - last[0]) - (clocks[1] - last[1])) <= _LARGEST_CLOCK_STEP_MS


def _is_surplus(segments: tuple[Segment, ...], gone: frozenset[Segment], limit_bytes: int) -> _Goes:
    """Keep at least ``retention.bytes``, of files that are there [RET-6, RET-8]."""
    surplus = sum(one.size_bytes for one in segments if one not in gone) - limit_bytes

    def goes(segment: Segment, _: Segment | None) -> bool:
        nonlocal surplus
        if segment in gone:
            return True
        if surplus < segment.size_bytes:
            return False
        surplus -= segment.size_bytes
        return True

    return goes


def _is_old(chosen: ChosenSegments, gone: frozenset[Segment], now_ms: int, limit_ms: int) -> _Goes:
    """Delete what has no record within the last *limit_ms* [RET-7, RET-8].

    A sealed segment with a time in the future is noted: it keeps all after it [RTN-14]. One whose
    latest record damage may hide stays, with all behind it, and the damage is raised [DUR-79].
    """

    def goes(segment: Segment, following: Segment | None) -> bool:
        if segment in gone:
            return True
        try:
            latest = segment.largest_timestamp()
        except SegstoreError as error:
            chosen.unread.append(error)
            return False
        if latest >= now_ms - limit_ms:
            if latest > now_ms and following is not None:
                chosen.of_the_future.append((segment, latest))
            return False
        if segment.may_hide_times():
            chosen.undecided.append(segment)
            return False
        return True

    return goes


class ChosenSegments:
    """The segments that go, in their order, up to the first that stays; an active one may be last.

    An active segment that would go is rolled where there is remote storage: it can be uploaded
    then, and deleted later [RET-3].
    """

    def __init__(
        self,
        local_log: LocalLog,
        offsets: LogOffsets,
        remote: RemotePart,
        profile: Profile,
        *,
        is_copied: bool,
    ) -> None:
        self.segments: list[Segment] = []
        self.values: list[DeletedSegment] = []
        self.undecided: list[Segment] = []
        """Old enough, if damage does not hide a later record."""
        self.of_the_future: list[tuple[Segment, int]] = []
        """The first that stays, with its largest timestamp, where that is later than now."""
        self.unread: list[SegstoreError] = []
        """Why the age of the first that stays cannot be read."""
        self.rolls_active = False
        self._local_log = local_log
        self._offsets = offsets
        self._profile = profile
        self._tier = remote.tier
        self._is_copied = is_copied
        self._reason = HoldingReason.WITHIN_LIMITS

    def begin_again(self) -> None:
        """Forget those that were deleted."""
        self.segments, self.values, self.rolls_active = [], [], False

    def rest(self) -> tuple[Segment, ...]:
        """Return those that stay so far."""
        return self._local_log.segments.as_tuple[len(self.segments) :]

    def hold(self, reason: HoldingReason) -> None:
        """Note why the first of the rest stays."""
        self._reason = reason

    def holding(self) -> HoldingSegment | None:
        """Return the first that stays."""
        for segment in self.rest()[:1]:
            time, has_time = _largest_time(segment)
            base, size = segment.base_offset, segment.size_bytes
            return HoldingSegment(base, size, time, has_time, self._reason)
        return None

    def take_while(self, limit: RetentionLimit, goes: _Goes) -> None:
        """Take more of them, up to the first that stays [RET-2]."""
        if not self.rolls_active:
            for segment, following in zip_longest(self.rest(), self.rest()[1:]):
                reason = self._take(limit, goes, segment, following)
                if reason is not None:
                    self._reason = reason
                    return

    def _take(
        self, limit: RetentionLimit, goes: _Goes, segment: Segment, following: Segment | None
    ) -> HoldingReason | None:
        """Take one more, or return why it stays."""
        offsets, tier = self._offsets, self._tier
        end = self._local_log.log_end.message_offset if following is None else following.base_offset
        if offsets.high_watermark < end:
            return HoldingReason.HIGH_WATERMARK
        if not goes(segment, following):
            is_hidden = segment in self.undecided or bool(self.unread)
            return HoldingReason.DAMAGED if is_hidden else HoldingReason.WITHIN_LIMITS
        if following is None and segment.size_bytes == 0:
            return HoldingReason.ACTIVE
        if tier is not None:
            self.rolls_active = following is None
            is_deleted = following is not None and end <= offsets.log_start_offset
            if not is_deleted and not tier.allows_deletion(end):
                return HoldingReason.NOT_COPIED
        self.segments.append(segment)
        time, has_time = None, False
        # Kafka makes an index at its first use, and reads none for the other limits
        if limit is RetentionLimit.RETENTION_MS or self._profile is Profile.SAFE:
            time, has_time = _largest_time(segment)
        base, size = segment.base_offset, segment.size_bytes
        self.values.append(DeletedSegment(base, end, size, time, has_time, limit, self._is_copied))
        return None


def _largest_time(segment: Segment) -> tuple[int | None, bool]:
    """Return the largest time of a segment, and whether a record has it."""
    with suppress(SegstoreError):
        recorded = segment.largest_record_timestamp()
        return (segment.modified_ms() if recorded < 0 else recorded), recorded >= 0
    return None, False
