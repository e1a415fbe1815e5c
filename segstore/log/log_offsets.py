"""Where a log begins, and up to where each kind of reader sees it [HW-*, LSO-*, UNI-3].

Kafka keeps these in ``UnifiedLog``: log start offset, high watermark, first unstable offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import IllegalArgumentError, IllegalStateError
from segstore.log.damage_errors import DAMAGE
from segstore.log.files.profile import Profile
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.local.local_log import LocalLog
    from segstore.log.producers.producer_state_manager import ProducerStateManager


class LogOffsetSnapshot(NamedTuple):
    """The offsets of a log at one moment (Kafka ``LogOffsetSnapshot``) [LSO-4]."""

    log_start_offset: int
    log_end_offset: LogOffsetMetadata
    high_watermark: LogOffsetMetadata
    last_stable_offset: LogOffsetMetadata


class LogOffsets:
    """The offsets of one log; changed under its append lock, read without it.

    Each attribute is one immutable value: a reader takes it with one attribute read [CON-3].

    Parameters
    ----------
    local_log : LocalLog
        Knows the log end, and turns offsets into places.
    producers : ProducerStateManager or None
        Knows where the first open transaction begins; a log that is only read needs none.
    log_start_offset : int
        As loaded.
    replicated : bool
        The high watermark is moved by the caller, who knows what the replicas have; it begins at
        the log start [UNI-4]. Without replicas it is the log end, always.
    profile : Profile
        Where an offset inside a batch is: Kafka goes down to that batch's base, and forgets it.

    Attributes
    ----------
    log_start_offset : int
        The first offset that can be read.
    replicated : bool
        See above.
    """

    def __init__(
        self,
        local_log: LocalLog,
        producers: ProducerStateManager | None,
        log_start_offset: int,
        *,
        replicated: bool,
        profile: Profile,
    ) -> None:
        self.log_start_offset = log_start_offset
        self.replicated = replicated
        self._local_log = local_log
        self._producers = producers
        self._keeps_offsets = profile is Profile.SAFE
        self._high_watermark = LogOffsetMetadata(log_start_offset)
        self._first_unstable: LogOffsetMetadata | None = None
        self._listener: Callable[[int], None] | None = None

    # ---- high watermark --------------------------------------------------------------------------

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark, with its place where that is known."""
        return self._high_watermark if self.replicated else self._local_log.log_end

    @property
    def high_watermark(self) -> int:
        """What a consumer sees is below it."""
        return self.high_watermark_metadata.message_offset

    def listen(self, listener: Callable[[int], None] | None) -> None:
        """Call *listener* with every high watermark from now on, under the append lock [LIS-1]."""
        self._listener = listener

    def update_high_watermark(self, metadata: LogOffsetMetadata) -> int:
        """Move it between log start and log end, also backwards; returns where it is [HW-2]."""
        self._require_replicated()
        log_end = self._local_log.log_end
        if metadata.message_offset < self.log_start_offset:
            metadata = LogOffsetMetadata(self.log_start_offset)
        elif metadata.message_offset >= log_end.message_offset:
            metadata = log_end
        self._publish(metadata)
        return metadata.message_offset

    def maybe_increment_high_watermark(
        self, metadata: LogOffsetMetadata
    ) -> LogOffsetMetadata | None:
        """Move it forwards, the way of a leader; returns the old one, None if it stayed [HW-4].

        Raises
        ------
        IllegalArgumentError
            *metadata* is above the log end.
        """
        self._require_replicated()
        log_end = self._local_log.log_end
        if metadata.message_offset > log_end.message_offset:
            raise IllegalArgumentError(
                f"a high watermark of {metadata.message_offset} is above the log end",
                found=str(metadata.message_offset),
                expected=f"at most {log_end.message_offset}",
            )
        old = self.fetch_high_watermark_metadata()
        moves = old.message_offset < metadata.message_offset or (
            old.message_offset == metadata.message_offset and old.on_older_segment(metadata)
        )
        if not moves:
            return None
        self._publish(metadata)
        return old

    def cut_to_log_end(self, *, always: bool = False) -> None:
        """Come down to the log end after a truncation below the high watermark [TRU-3, TRU-4].

        A log without replicas, whose high watermark is the log end, looks for its transactions
        again in any case.
        """
        if self.replicated:
            log_end = self._local_log.log_end
            if always or self._high_watermark.message_offset >= log_end.message_offset:
                self.update_high_watermark(log_end)
        else:
            self.update_first_unstable_offset()

    def follow_log_end(self) -> None:
        """Take over the log end's place where the high watermark is there, or beyond [HW-7]."""
        log_end = self._local_log.log_end
        if self.replicated and self._high_watermark.message_offset >= log_end.message_offset:
            self._publish(log_end)

    def fetch_high_watermark_metadata(self) -> LogOffsetMetadata:
        """Return it with its place, looked up and kept when it was not known [HW-6]."""
        metadata = self.high_watermark_metadata
        if metadata.message_offset_only:
            metadata = self._place_of(metadata.message_offset)
            self._publish(metadata)
        return metadata

    def _publish(self, metadata: LogOffsetMetadata) -> None:
        offset = metadata.message_offset
        if offset < 0:
            raise IllegalArgumentError(
                f"a high watermark of {offset} is negative", found=str(offset), expected="0 or more"
            )
        self._high_watermark = metadata
        if self._producers is not None:
            self._producers.on_high_watermark_updated(offset)
        if self._listener is not None:
            self._listener(offset)
        self.update_first_unstable_offset()

    def _require_replicated(self) -> None:
        if not self.replicated:
            raise IllegalStateError(
                "the high watermark of a log without replicas is its end: open the log with"
                " replicated=True to move it",
                file=self._local_log.directory.path,
            )

    # ---- last stable offset ----------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open, or ended above the high watermark."""
        first = self._first_unstable
        return None if first is None else first.message_offset

    @property
    def last_stable_offset(self) -> int:
        """Where committed data ends: never above the high watermark [LSO-2, LSO-3]."""
        return self.last_stable_offset_metadata.message_offset

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """The same, with its place where that is known."""
        high_watermark = self.high_watermark_metadata  # first: what is below it was noted by then
        first = self._first_unstable
        if first is None or first.message_offset >= high_watermark.message_offset:
            return high_watermark
        return first

    def fetch_last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """Return it with its place [LSO-2]."""
        high_watermark = self.fetch_high_watermark_metadata()
        first = self._first_unstable
        if first is None or first.message_offset >= high_watermark.message_offset:
            return high_watermark
        if first.message_offset_only:
            first = self._first_unstable = self._place_of(first.message_offset)
        return first

    def note_transactional_append(self, first: LogOffsetMetadata) -> None:
        """Hold the last stable offset at *first* before the bytes of a transaction are visible.

        In a log with replicas the high watermark does so.
        """
        if not self.replicated and self._first_unstable is None:
            self._first_unstable = first

    def update_first_unstable_offset(self) -> None:
        """Take it from the producer state, with its place, not below the log start [LSO-1]."""
        if self._producers is None:
            return
        if not self.replicated or self._keeps_offsets:  # those read again may be decided [TRU-6]
            self._producers.on_high_watermark_updated(self.high_watermark)
        first = self._producers.first_unstable_offset
        if first is not None and (
            first.message_offset_only or first.message_offset < self.log_start_offset
        ):
            offset = max(first.message_offset, self.log_start_offset)
            try:
                first = self._place_of(offset)
            except DAMAGE:  # a read up to there meets it too, and says where it is
                if not self._keeps_offsets:
                    raise
                first = LogOffsetMetadata(offset)
        self._first_unstable = first

    # ---- all -------------------------------------------------------------------------------------

    def update_log_start_offset(self, offset: int) -> None:
        """Move the log start, and the high watermark with it when it is below [UNI-3]."""
        self.log_start_offset = offset
        self.raise_high_watermark(offset)

    def reset_log_start_offset(self, offset: int) -> None:
        """Set the log start of a log that was cut, or that another process writes.

        The high watermark stays: a truncation moves it afterwards.
        """
        self.log_start_offset = offset

    def raise_high_watermark(self, offset: int) -> None:
        """Move it to *offset* when it is below: what is here of the log begins there [UNI-3]."""
        if self.replicated and self._high_watermark.message_offset < offset:
            self.update_high_watermark(LogOffsetMetadata(offset))

    def snapshot(self) -> LogOffsetSnapshot:
        """Return all of them, with places [LSO-4]."""
        last_stable = self.fetch_last_stable_offset_metadata()
        return LogOffsetSnapshot(
            self.log_start_offset,
            self._local_log.log_end,
            self.fetch_high_watermark_metadata(),
            last_stable,
        )

    def _place_of(self, offset: int) -> LogOffsetMetadata:
        """Return *offset* with its place, offset-only where it is not held here [HW-9].

        Inside a batch, Kafka's answer is the base offset of that batch [HW-6, LSO-1].
        """
        found = self._local_log.offset_metadata(offset)
        return found._replace(message_offset=offset) if self._keeps_offsets else found
