"""What a pass of the cleaner did, as values (Kafka ``CleanerStats``) [CLN-122]."""

from __future__ import annotations

from typing import NamedTuple


class CleanerStats(NamedTuple):
    """The numbers of one pass; names are Kafka's.

    Attributes
    ----------
    end_offset : int
        The log is clean below it: the first dirty offset of the next pass [CLN-62].
    map_bytes_read, map_messages_read : int
        While the map was built. A control batch counts as one message.
    bytes_read, messages_read : int
        While segments were copied.
    invalid_messages_read : int
        Records without a key, which are dropped.
    bytes_written, messages_written : int
        What was kept.
    buffer_utilization : float
        Part of the map's slots that were used, 0 to 1.
    elapsed_index_secs, elapsed_secs : float
        Seconds for the map, and for all.
    """

    end_offset: int
    map_bytes_read: int
    map_messages_read: int
    bytes_read: int
    messages_read: int
    invalid_messages_read: int
    bytes_written: int
    messages_written: int
    buffer_utilization: float
    elapsed_index_secs: float
    elapsed_secs: float

    def __str__(self) -> str:
        read, written = self.bytes_read, self.bytes_written
        saved = 100 * (1 - written / read) if read else 0
        return (
            f"clean up to offset {self.end_offset}: {read:,} bytes read, {written:,} kept"
            f" ({saved:.1f} % smaller), {self.messages_read:,} records read,"
            f" {self.messages_written:,} kept, in {self.elapsed_secs:.1f} s"
        )
