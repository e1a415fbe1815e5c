"""Deleting the oldest segments of a log: by log start, by size, by time [RET-*].

Source: Kafka ``UnifiedLog.deleteOldSegments``. When this runs is the manager's business [RET-10].
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final

from segstore.errors import DiskFullError, FsyncFailedError
from segstore.log.directory.profile import Profile
from segstore.log.tiered_log import TieredLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore.log.local.segment import Segment

_LARGEST_CLOCK_STEP_MS: Final = 3600 * 1000
_NS_PER_MS: Final = 1_000_000


class LogRetention(TieredLog):
    """What takes whole segments away at the old end."""

    _retention_size_in_percent = 0
    _last_clocks: tuple[int, int] | None = None
    """Wall clock and monotonic clock in ms, when time was last looked at."""

    def delete_old_segments(self) -> int:
        """Delete the segments that nobody needs to keep; returns how many [RET-1].

        Those below the log start, and by ``retention.bytes`` and ``retention.ms`` where the
        policy contains ``delete``. Only what lies below the high watermark goes. The log start
        moves first, durably; files are unlinked after ``file_delete_delay_ms`` [DUR-19].

        Of a log that is copied to remote storage, what goes has been uploaded, or lies below the
        log start; ``local.retention.bytes`` and ``local.retention.ms`` say when, and the local log
        start moves instead [RET-2, RET-4, RET-8].
        """
        self._require_writable()
        with self._append_lock:
            self._require_writable()
            self._begin_deletion()
            try:
                with self._flusher.poisoned_by(FsyncFailedError):
                    deleted = self._delete_while(self._is_below_log_start)
                    policies = self.config.cleanup_policies
                    if "delete" in policies or (self._is_copied and not policies):
                        deleted += self._delete_by_size() + self._delete_by_time()
            finally:
                self._note_retention_size()
        return deleted

    @property
    def retention_size_in_percent(self) -> int:
        """How much of ``retention.bytes`` the last run left in use; 0 without a limit [RET-11]."""
        return self._retention_size_in_percent

    def _note_retention_size(self) -> None:
        limit = 0 if self._is_copied else self.config.retention_bytes
        size = self._local_log.segments.size_in_bytes
        self._retention_size_in_percent = size * 100 // limit if limit > 0 else 0

    # ---- what goes -------------------------------------------------------------------------------

    @property
    def _is_copied(self) -> bool:
        """Whether sealed segments are uploaded, and go here then."""
        return self._tier is not None and self._tier.copies

    def _is_below_log_start(self, _: Segment, following: Segment | None) -> bool:
        start = self.local_log_start_offset  # the log start, of a log without a remote part
        return following is not None and following.base_offset <= start  # [RET-5]

    def _delete_by_size(self) -> int:
        """Keep at least ``retention.bytes`` [RET-6, RET-8]."""
        config = self.config
        limit = config.local_bytes if self._is_copied else config.retention_bytes
        surplus = self._local_log.segments.size_in_bytes - limit
        if limit < 0 or surplus < 0:
            return 0

        def is_surplus(segment: Segment, _: Segment | None) -> bool:
            nonlocal surplus
            if surplus < segment.size_bytes:
                return False
            surplus -= segment.size_bytes
            return True

        return self._delete_while(is_surplus)

    def _delete_by_time(self) -> int:
        """Delete what is older than ``retention.ms`` by its newest record [RET-7, RET-8]."""
        limit = self.config.local_ms if self._is_copied else self.config.retention_ms
        now_ms = self._now_ms()
        if limit is None or limit < 0 or not self._believes_clock(now_ms):
            return 0
        return self._delete_while(lambda segment, _: now_ms - segment.largest_timestamp() > limit)

    def _believes_clock(self, now_ms: int) -> bool:
        """Whether the wall clock went on as time did: one that was set deletes nothing [DUR-28]."""
        if self.profile is Profile.KAFKA:
            return True
        last = self._last_clocks
        clocks = self._last_clocks = now_ms, self._directory.monotonic_ns() // _NS_PER_MS
        if last is None:
            return True
        return abs((clocks[0] - last[0]) - (clocks[1] - last[1])) <= _LARGEST_CLOCK_STEP_MS

    def _delete_while(self, goes: Callable[[Segment, Segment | None], bool]) -> int:
        """Delete from the oldest on, up to the first that stays; returns how many [RET-2].

        An active segment that would go is rolled where there is remote storage: it can be uploaded
        then, and deleted later [RET-3].
        """
        chosen: list[Segment] = []
        segments, tier = self._local_log.segments.as_tuple, self._tier
        rolls_active = False
        for segment, following in zip_longest(segments, segments[1:]):
            end = self.log_end_offset if following is None else following.base_offset
            if self.high_watermark < end or not goes(segment, following):
                break
            if following is None and segment.size_bytes == 0:
                break
            rolls_active = tier is not None and following is None
            is_deleted = following is not None and following.base_offset <= self.log_start_offset
            if tier is not None and not is_deleted and not tier.lets_go(end):
                break
            chosen.append(segment)
        if rolls_active:
            self._roll()
        self._delete_segments(chosen)
        return len(chosen)

    def _segments_below_log_start(self) -> list[Segment]:
        """Return those that end at or below the log start; the active one stays [RET-5]."""
        start = self.log_start_offset
        pairs = pairwise(self._local_log.segments.as_tuple)
        return [one for one, following in pairs if following.base_offset <= start]

    # ---- how it goes -----------------------------------------------------------------------------

    def _delete_segments(self, chosen: list[Segment]) -> None:
        """Roll when all would go, move the log start, then take them out [RET-4].

        Where a full disk has no room for another segment, the last one stays.
        """
        local_log = self._local_log
        if not chosen:
            return
        if len(chosen) == len(local_log.segments):
            try:
                self._roll()
            except DiskFullError:
                if len(chosen) == 1 or self.profile is Profile.KAFKA:
                    raise
                chosen.pop()
        self._producers.sync_snapshots()  # older ones go with their segments
        following = local_log.segments.higher_segment(chosen[-1].base_offset)
        if following is not None:
            self._raise_start(following.base_offset)
        gone = [segment for segment in chosen if segment in local_log.segments.as_tuple]
        if self.profile is Profile.SAFE:  # after a crash there is the one behind them [DUR-54]
            self._flusher.sync_names(local_log.names_version)
        local_log.delete_segments(gone)
        self._delete_snapshots_of(gone)

    def _raise_start(self, offset: int) -> None:
        """Let the log begin at *offset*, or here, where the rest is uploaded; durably [DUR-19]."""
        tier = self._tier
        if tier is None or not tier.copies:
            self._increment_log_start(offset)
            return
        tier.raise_local_log_start(offset)
        state_file = self._state_file
        if state_file is not None and offset > state_file.state.local_log_start_offset:
            change = partial(state_file.change, local_log_start_offset=offset)
            self._with_room(change, offset)

    def _delete_snapshots_of(self, segments: Iterable[Segment]) -> None:
        """Mark the snapshots that went with *segments*, and unlink them as late [PSM-57]."""
        for segment in segments:
            file = self._producers.remove_and_mark_snapshot_for_deletion(segment.base_offset)
            if file is not None:
                self._local_log.unlink_later(file.delete_if_exists)
