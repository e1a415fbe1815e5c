"""A log that the cleaner may choose, with its numbers (Kafka ``LogToClean``) [CLN-34, CLN-36]."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from segstore.log.unified_log import UnifiedLog
    from segstore.types import TopicPartition


class LogToClean(NamedTuple):
    """What a pass would clean; names are Kafka's.

    Attributes
    ----------
    log : UnifiedLog
        The log.
    first_dirty_offset : int
        Where the dirty part begins.
    first_uncleanable_offset : int
        Where the pass has to end: the base offset of a segment.
    clean_bytes, cleanable_bytes : int
        Below the first dirty offset, and from there on. A segment that has both counts as both.
    compaction_delay_ms : int
        For how long the pass has been due by ``max.compaction.lag.ms``; 0 = it is not.
    generation : int
        Another number after each truncation of the log.
    """

    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    generation: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose it is."""
        return self.log.topic_partition

    @property
    def total_bytes(self) -> int:
        """Bytes of the clean part and of the cleanable part."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """The dirty part of all bytes, 0 to 1."""
        return self.cleanable_bytes / self.total_bytes

    @property
    def need_compaction_now(self) -> bool:
        """Whether records wait longer than ``max.compaction.lag.ms``."""
        return self.compaction_delay_ms > 0

    @property
    def is_eligible(self) -> bool:
        """Whether a pass is due [CLN-39]."""
        return (self.need_compaction_now and self.cleanable_bytes > 0) or (
            self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio
        )


class PreCleanStats(NamedTuple):
    """What was seen when a log was chosen (Kafka ``PreCleanStats``).

    Attributes
    ----------
    max_compaction_delay_ms : int
        The longest delay of all candidates.
    delayed_partitions : int
        How many have one.
    cleanable_partitions : int
        How many are eligible.
    max_dirty_ratio : float
        The largest dirty ratio of all candidates, eligible or not, 0 to 1 [CLN-41].
    """

    max_compaction_delay_ms: int = 0
    delayed_partitions: int = 0
    cleanable_partitions: int = 0
    max_dirty_ratio: float = 0.0

    @classmethod
    def of(cls, candidates: list[LogToClean]) -> PreCleanStats:
        """Return the numbers of these candidates, each of which has bytes."""
        delays = [one.compaction_delay_ms for one in candidates]
        return cls(
            max(delays, default=0),
            sum(delay > 0 for delay in delays),
            sum(one.is_eligible for one in candidates),
            max((one.cleanable_ratio for one in candidates), default=0.0),
        )
