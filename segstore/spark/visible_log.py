"""A partition's log as one isolation level shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from segstore.types import Isolation, SpecialTimestamp

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from segstore.log.scan import LogScan
    from segstore.log.unified_log import Log
    from segstore.types import FileTimestampAndOffset, TopicPartition


class LogBounds(Protocol):
    """Where the records that may be seen begin and end."""

    @property
    def start_offset(self) -> int:
        """Offset of the first record that was not deleted."""
        ...

    @property
    def end_offset(self) -> int:
        """Offset behind the last record that may be seen."""
        ...

    @property
    def damage(self) -> str | None:
        """Why the log is known to lack records, None = it is not."""
        ...


class PlannedLog(LogBounds, Protocol):
    """What planning asks of a log."""

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The id in ``partition.metadata``, None without one."""
        ...

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose log it is."""
        ...

    def fetch_offset_by_timestamp(self, timestamp: int) -> FileTimestampAndOffset:
        """Find the first record at or after *timestamp*, in ms; offset -1 = there is none."""
        ...

    def first_offset_at(self, timestamp: int) -> int | None:
        """Return an offset below which nothing is at or after *timestamp*; None = nothing is."""
        ...

    def cuts(self, start_offset: int, end_offset: int, max_bytes: int) -> list[int]:
        """Return offsets that cut a range into parts of at most about *max_bytes* bytes."""
        ...


class VisibleLog(NamedTuple):
    """What planning and reading ask of a log; its end is that of what may be seen.

    Attributes
    ----------
    log : Log
        Open, for reading only.
    isolation : Isolation
        ``read_uncommitted``: up to the log end; ``read_committed``: up to the last stable offset
        and without aborted transactions; ``durable``: up to what is on stable storage.
    """

    log: Log
    isolation: Isolation

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose log it is."""
        return self.log.topic_partition

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The id in ``partition.metadata``, None without one."""
        return self.log.topic_id

    @property
    def start_offset(self) -> int:
        """Offset of the first record that was not deleted."""
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        """Offset behind the last record that may be seen."""
        return self.fetch_offset_by_timestamp(SpecialTimestamp.LATEST).offset

    @property
    def damage(self) -> str | None:
        """Why the log is known to lack records, None = it is not."""
        return self.log.report.damage_in(self.log.path)

    def fetch_offset_by_timestamp(self, timestamp: int) -> FileTimestampAndOffset:
        """Find the first record at or after *timestamp*, in ms; offset -1 = there is none."""
        return self.log.fetch_offset_by_timestamp(timestamp, self.isolation)

    def first_offset_at(self, timestamp: int) -> int | None:
        """Return the offset of the first record at or after *timestamp*, in ms."""
        return self.log.offset_for_timestamp(timestamp)

    def cuts(self, start_offset: int, end_offset: int, max_bytes: int) -> list[int]:
        """Return where batches begin that cut a range into parts of at most *max_bytes* bytes."""
        return self.scan(start_offset, end_offset, ("offset",)).cuts(max_bytes)

    def scan(  # noqa: PLR0913 - each by its name
        self,
        start_offset: int,
        end_offset: int,
        columns: Sequence[str],
        *,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        on_damage: Literal["raise", "skip"] = "raise",
    ) -> LogScan:
        """Return the records in ``[start_offset, end_offset)`` that may be seen.

        With timestamps, in ms, only those in ``[start_timestamp, end_timestamp)``.
        """
        return self.log.scan(
            start_offset,
            end_offset,
            columns=columns,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            isolation=self.isolation,
            on_damage=on_damage,
        )
