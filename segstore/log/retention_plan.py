"""What retention deletes of a log and why, and what keeps the rest: values, to be printed.

Source: [RTN-2…RTN-15], Kafka ``SegmentDeletionReason``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class RetentionLimit(Enum):
    """The setting by which a segment goes."""

    LOG_START_OFFSET = "log_start_offset"
    """All of its records were deleted."""
    RETENTION_BYTES = "retention_bytes"
    """The log has more bytes than that without it."""
    RETENTION_MS = "retention_ms"
    """Its latest record is older than that."""


class DeletedSegment(NamedTuple):
    """A segment that retention deletes.

    Attributes
    ----------
    base_offset, next_offset : int
        The first offset that it may have, and the one behind its last.
    size_bytes : int
        Of its ``.log``.
    largest_timestamp : int or None
        Of its records, in ms; the time of the file where none has one. None where it was not
        read: it cannot be, or Kafka's profile does not need it for the limit.
    has_timestamp : bool
        Whether a record has that time, not only the file.
    limit : RetentionLimit
        The setting by which it goes.
    is_local : bool
        It was copied to remote storage, and its records stay there.
    """

    base_offset: int
    next_offset: int
    size_bytes: int
    largest_timestamp: int | None
    has_timestamp: bool
    limit: RetentionLimit
    is_local: bool

    def __str__(self) -> str:
        time = f"its latest record has the time {self.largest_timestamp}"
        if not self.has_timestamp:
            time = f"no record of it has a time, and its file has {self.largest_timestamp}"
        if self.largest_timestamp is None:
            time = "the time of its latest record is not known"
        return (
            f"offsets {self.base_offset} to {self.next_offset - 1}, {self.size_bytes} bytes, by"
            f" {'local_' if self.is_local else ''}{self.limit.value}; {time}"
        )


class HoldingReason(Enum):
    """Why the oldest segment that stays does."""

    HIGH_WATERMARK = "high_watermark"
    """It has records that are not known to be replicated, or not durable."""
    WITHIN_LIMITS = "within_limits"
    """No setting deletes it."""
    NOT_COPIED = "not_copied"
    """Remote storage does not have it yet."""
    DAMAGED = "damaged"
    """Damage may hide its latest record."""
    ACTIVE = "active"
    """It is the active segment, and has no record."""
    CLOCK = "clock"
    """The wall clock was set: nothing is deleted by time this once."""


class HoldingSegment(NamedTuple):
    """The oldest segment that stays: it keeps all behind it.

    Attributes
    ----------
    base_offset : int
        The first offset that it may have.
    size_bytes : int
        Of its ``.log``.
    largest_timestamp, has_timestamp : int or None, bool
        As of a `DeletedSegment`.
    reason : HoldingReason
        Why it stays.
    """

    base_offset: int
    size_bytes: int
    largest_timestamp: int | None
    has_timestamp: bool
    reason: HoldingReason


class RetentionPlan(NamedTuple):
    """What a pass deletes of a log, oldest first, and what keeps the rest."""

    deleted: tuple[DeletedSegment, ...]
    holding: HoldingSegment | None
    """None where every segment goes."""
