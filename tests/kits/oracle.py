"""The log as Python lists: what every operation must do, so plain that it is right at sight.

Nothing here calls the engine. Batches matter in one place only: a truncation takes whole ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class OracleRecord(NamedTuple):
    """One record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass
class OracleLog:
    """A log whose batches are lists of records, all in one list."""

    batches: list[list[OracleRecord]] = field(default_factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 0

    def append(self, batches: list[list[tuple[int, bytes | None, bytes | None]]]) -> None:
        """Append batches of (timestamp, key, value)."""
        for batch in batches:
            first = self.log_end_offset
            self.batches.append(
                [OracleRecord(first + i, *record) for i, record in enumerate(batch)]
            )
            self.log_end_offset += len(batch)

    def records(
        self, start_offset: int | None = None, end_offset: int | None = None
    ) -> list[OracleRecord]:
        """What a reader sees of a range."""
        start = self.log_start_offset if start_offset is None else start_offset
        end = self.log_end_offset if end_offset is None else end_offset
        visible = max(start, self.log_start_offset)
        return [
            record for batch in self.batches for record in batch if visible <= record.offset < end
        ]

    @property
    def data_end(self) -> int:
        """The offset behind the last record.

        A log that is opened again goes on there at the earliest.
        """
        return self.batches[-1][-1].offset + 1 if self.batches else self.log_start_offset

    def truncate_to(self, offset: int) -> bool:
        """Whole batches go, from the one that holds *offset* on [TRU-5]."""
        if offset >= self.log_end_offset:
            return False
        self.batches = [batch for batch in self.batches if batch[-1].offset < offset]
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.batches = []
        self.log_start_offset = self.log_end_offset = offset

    def delete_records(self, before_offset: int) -> int:
        self.log_start_offset = max(self.log_start_offset, before_offset)
        return self.log_start_offset

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        """The first record that can be read and is late enough."""
        late = (record for record in self.records() if record.timestamp >= timestamp)
        return next((record.offset for record in late), None)
