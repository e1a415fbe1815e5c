"""The sides of a log that whoever moves its segments to remote storage uses.

Source: [UNI-6, LST-1, LST-3, LST-6, LST-7]; Kafka ``UnifiedLog``, as its ``RemoteLogManager`` calls
it. Nothing here copies a record: see `RemoteTier`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.arguments import integer
from segstore.errors import IllegalArgumentError
from segstore.log.directory.profile import Profile
from segstore.log.local.local_log import out_of_range
from segstore.log.log_watermarks import LogWatermarks
from segstore.log.remote_tier import NOTHING_UPLOADED, RemoteTier, is_remote_log_enabled

if TYPE_CHECKING:
    from segstore.config import LogConfig
    from segstore.log.local.segment import Segment
    from segstore.log.remote_tier import RemoteOffsetReader

_log = logging.getLogger(__name__)


class TieredLog(LogWatermarks):
    """A log whose older part may be in remote storage alone."""

    _remote_offset_reader: RemoteOffsetReader | None = None
    _keeps_remote_part = False
    """An earlier handle left records in remote storage alone: without a reader, or settings that
    say so, too, they stay the log's until ``remote_log_delete_on_disable`` [DUR-26, CFG-46]."""

    @property
    def remote_log_enabled(self) -> bool:
        """Whether the log has a part in remote storage [UNI-6]."""
        return self._tier is not None

    @property
    def local_log_start_offset(self) -> int:
        """Where the log begins here; the log start where nothing is in remote storage [UNI-2]."""
        tier = self._tier
        return self.log_start_offset if tier is None else tier.local_log_start_offset

    @property
    def highest_offset_in_remote_storage(self) -> int:
        """The last offset that is known to be in remote storage, -1 for none."""
        tier = self._tier
        return NOTHING_UPLOADED if tier is None else tier.highest_offset

    @property
    def only_local_log_segments_count(self) -> int:
        """Number of the segments that are not in remote storage [LST-7]."""
        return len(self._only_local())

    @property
    def only_local_log_segments_size(self) -> int:
        """Bytes of the segments that are not in remote storage [LST-7]."""
        return sum(segment.size_bytes for segment in self._only_local())

    def _only_local(self) -> list[Segment]:
        self._require_open()
        tier, segments = self._tier, self._local_log.segments
        return list(segments) if tier is None else tier.only_local(segments)

    def update_highest_offset_in_remote_storage(self, offset: int) -> None:
        """Note that everything up to *offset* is in remote storage: it may be deleted here [LST-6].

        A lower one than before changes nothing; nor does any, with a warning, in a log that has no
        remote part. It is not written down: after an open the embedder says it again.

        Raises
        ------
        IllegalArgumentError
            No record has it: the log ends there or below, or it is below -1. What is appended later
            would count as uploaded, and be deleted [DUR-26]. Kafka's profile takes any.
        """
        self._require_writable()
        offset = integer("offset", offset)
        with self._append_lock:
            self._require_writable()
            if self._tier is None:
                self._warn_of("the highest offset in remote storage", offset)
                return
            last = self.log_end_offset - 1
            if self.profile is Profile.SAFE and not NOTHING_UPLOADED <= offset <= last:
                raise IllegalArgumentError(
                    f"{offset} cannot be the last offset in remote storage: the log ends at"
                    f" {last + 1}, which is no record yet",
                    file=self.path,
                    found=str(offset),
                    expected=f"{NOTHING_UPLOADED} to {last}",
                )
            self._tier.raise_highest_offset(offset)

    def update_log_start_offset_from_remote_tier(self, offset: int) -> bool:
        """Move the log start to what remote storage still has, durably; returns whether it moved.

        As `maybe_increment_log_start_offset`; a log that has no remote part stays as it is, with a
        warning [LST-6].
        """
        self._require_writable()
        offset = integer("offset", offset)
        with self._append_lock:
            self._require_writable()
            if self._tier is not None:
                return self._increment_log_start(offset)
            self._warn_of("the log start of remote storage", offset)
            return False

    def maybe_increment_local_log_start_offset(self, offset: int) -> None:
        """Let the local part begin at *offset*, unless it begins above that [LST-3].

        Nothing else moves and no file goes: the next `delete_old_segments` deletes what is
        uploaded. A log that has no remote part stays as it is, with a warning.

        Raises
        ------
        OffsetOutOfRangeError
            It is above the high watermark, as a log start cannot be [LST-5]. Kafka's profile takes
            any.
        """
        self._require_writable()
        offset = integer("offset", offset)
        with self._append_lock:
            self._require_writable()
            if self._tier is None:
                self._warn_of("the local log start", offset)
                return
            last = self.high_watermark
            if offset > last and self.profile is Profile.SAFE:
                raise out_of_range(offset, self.local_log_start_offset, last, self._directory)
            self._tier.raise_local_log_start(offset)

    def _warn_of(self, what: str, offset: int) -> None:
        _log.warning("%s: %s is not %d: the log has no remote part", self.path, what, offset)

    # ---- settings --------------------------------------------------------------------------------

    def _check_remote_storage(self, config: LogConfig) -> None:
        """Refuse settings that contradict each other, or forget what is in remote storage.

        Source: [CFG-43..CFG-46].
        """
        if self._remote_offset_reader is None:
            return
        config.check_local_retention()
        if self._tier is None or self._is_tiered_by(config):
            return
        if config.remote_storage_enable:
            raise IllegalArgumentError(
                "a log in remote storage is not compacted: remote_storage_enable goes off first, or"
                " with it",
                file=self.path,
                found=f"cleanup_policy {config.cleanup_policy!r}",
                expected="one without compact",
            )
        if not config.remote_log_delete_on_disable:
            raise IllegalArgumentError(
                "remote_storage_enable goes off with remote_log_delete_on_disable=True only: what"
                " is in remote storage alone is deleted then. remote_log_copy_disable=True keeps"
                " it and uploads no more",
                file=self.path,
                found="remote_log_delete_on_disable False",
                expected="remote_log_delete_on_disable True",
            )

    def _leave_remote_storage(self, config: LogConfig) -> None:
        """Before *config* ends the remote part: the log begins where it does here."""
        tier = self._tier
        if tier is not None and not self._is_tiered_by(config):
            self._increment_log_start(min(tier.local_log_start_offset, self.high_watermark))

    def _use_remote_storage(self, config: LogConfig) -> None:
        """Begin, change or end the remote part as *config* says [UNI-2, UNI-6]."""
        if not self._is_tiered_by(config):
            self._tier, self._keeps_remote_part = None, False
            return
        copies = self._keeps_remote_part or not config.remote_log_copy_disable
        if self._tier is not None:
            self._tier.copies = copies
            return
        first = self._local_log.segments.first_segment.base_offset
        start = max(self.log_start_offset, first)
        self._tier = RemoteTier(self._remote_offset_reader, start, copies=copies)
        self._offsets.raise_high_watermark(start)
        self._flusher.raise_recovery_point(start)

    def _is_tiered_by(self, config: LogConfig) -> bool:
        if self._keeps_remote_part and not config.remote_log_delete_on_disable:
            return True
        return is_remote_log_enabled(
            config,
            self.topic_partition.topic,
            system_enabled=self._remote_offset_reader is not None,
        )
