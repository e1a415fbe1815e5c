"""One segment of a log: the core's ``LogSegment``, and when it rolls [SEG-13..SEG-16]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segstore._core import LogSegment, SegmentContext
from segstore.arguments import refuse_pickle
from segstore.log.files.partition_directory import file_name
from segstore.number_limits import MAX_INT, MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from segstore._core import BatchHeaders, BatchTable, CodecTable, Directory, ScanResult
    from segstore.config.log_config import LogConfig

WINDOW_BATCHES: Final = 131_072
"""Of one header table: 10 MiB."""
FIRST_BATCHES: Final = 64
"""Of the first part of so many bytes: nobody knows yet how large a batch is."""


class Segment(LogSegment):
    """A ``.log`` file with its indexes (Kafka ``LogSegment``).

    Attributes
    ----------
    told_max_timestamp : int
        The largest timestamp of its records, in ms, if a store has said it.
    """

    __slots__ = ("told_max_timestamp",)

    told_max_timestamp: int

    @property
    def name(self) -> str:
        """Name of the ``.log`` file."""
        return file_name(self.base_offset, "log")

    def __repr__(self) -> str:
        return f"<Segment {self.name}, {self.size_bytes} bytes>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(f"the segment {self.path}", "pass its path or its base offset")

    @property
    def path(self) -> str:
        """Path of the ``.log`` file, for messages."""
        return f"{self.directory_path}/{self.name}"

    def can_hold(self, offset: int) -> bool:
        """Whether the indexes can store *offset* relative to the base offset [IDX-12]."""
        return 0 <= offset - self.base_offset <= MAX_INT

    def time_waited_for_roll(self, now_ms: int, message_timestamp: int) -> int:
        """Return the segment's age in ms, by its first batch's timestamp or the clock [SEG-14].

        Negative when the message has no timestamp, or one older than the first batch.
        """
        first = self.first_batch_timestamp()
        return message_timestamp - first if first >= 0 else now_ms - self.created_ms

    def rolling_timestamp(self) -> int:
        """Return the timestamp of the first batch; 2^63-1 when there is none [SEG-16].

        Kafka ``getFirstBatchTimestamp``.
        """
        first = self.first_batch_timestamp()
        return first if first >= 0 else MAX_LONG

    def should_roll(  # noqa: PLR0913 - Kafka's RollParams
        self,
        max_segment_ms: int,
        max_segment_bytes: int,
        max_timestamp: int,
        max_offset: int,
        messages_bytes: int,
        now_ms: int,
    ) -> bool:
        """Whether a new segment must begin before these messages are appended [SEG-13].

        Parameters
        ----------
        max_segment_ms, max_segment_bytes : int
            Age in ms, with the jitter subtracted, and size in bytes at which a segment is full.
        max_timestamp, max_offset, messages_bytes : int
            Largest timestamp, last offset and size of the messages to append.
        now_ms : int
            Wall clock in ms since 1970.
        """
        size = self.size_bytes
        is_old = size > 0 and self.time_waited_for_roll(now_ms, max_timestamp) > max_segment_ms
        if is_old or size > max_segment_bytes - messages_bytes:
            return True
        return self.indexes_full() or not self.can_hold(max_offset)

    def scan_windows(self, **how: Any) -> Iterator[tuple[BatchHeaders, ScanResult]]:
        """As `scan_tables`, with an array of the headers."""
        for table, result in self.scan_tables(**how):
            yield table.array, result

    def scan_tables(
        self,
        *,
        start_position: int = 0,
        expected_offset: int = 0,
        previous_epoch: int = -1,
        window_bytes: int | None = None,
        **how: Any,
    ) -> Iterator[tuple[BatchTable, ScanResult]]:
        """Scan the batches; yield the batch-header table in parts of bounded size [DUR-61].

        Arguments are those of ``scan_table``. Each result covers one part; the last one says where
        the scan ended, and why. With *window_bytes* a part has about that many bytes of batches.
        """
        stop, most = "limit", WINDOW_BATCHES if window_bytes is None else FIRST_BATCHES
        while stop == "limit":
            table, result = self.scan_table(
                start_position=start_position,
                expected_offset=expected_offset,
                previous_epoch=previous_epoch,
                max_batches=most,
                **how,
            )
            yield table, result
            if window_bytes is not None:
                most = max(1, most * window_bytes // max(1, result.valid_bytes - start_position))
            start_position, stop = result.valid_bytes, result.stop
            expected_offset, previous_epoch = result.next_offset, result.last_epoch

    def largest_timestamp(self) -> int:
        """Return the largest timestamp of the records, or the file's time without one.

        Source: [SEG-4].
        """
        largest = self.largest_record_timestamp()
        return self.modified_ms() if largest < 0 else largest

    def largest_record_timestamp(self) -> int:
        """Return the largest timestamp of the readable records, -1 without one.

        A damaged time index is ignored [DUR-8, DUR-53].
        """
        return self.max_timestamp().timestamp

    def may_hide_times(self) -> bool:
        """Whether damage may hide the largest timestamp of the records [DUR-79]."""
        return self.max_timestamp().is_partial

    def latest_possible_timestamp(self) -> int:
        """Return the largest timestamp that a record may have: 2^63-1 if damage may hide one.

        A lookup by time then reads the segment, and reports the damage [DUR-79]. Without damage, as
        `largest_timestamp`. What a store has said may be wrong: the last entry of the time index
        counts too, and that of a segment which takes no more appends is the largest [SEG-50].
        """
        if hasattr(self, "told_max_timestamp"):
            return max(self.told_max_timestamp, self.time_index_lookup(MAX_LONG).timestamp)
        return MAX_LONG if self.may_hide_times() else self.largest_timestamp()

    def check_times(self, max_position: int) -> None:
        """Raise the error of damage before *max_position* that may hide the largest timestamp."""
        if self.may_hide_times():
            self.find_offset_by_timestamp(MAX_LONG, self.base_offset, max_position)


def open_named_segment(
    directory: Directory, context: SegmentContext, base_offset: int, suffix: str = ""
) -> Segment:
    """Open a segment whose ``.log`` was seen, perhaps under another spelling of the number.

    Kafka makes the file that it means, when it is not there [SEG-2].
    """
    name = f"{file_name(base_offset, 'log')}{suffix}"
    if not directory.exists(name):
        directory.make_file(name)
    return Segment(context, base_offset, suffix=suffix)


def roll_jitter_ms(config: LogConfig) -> int:
    """Draw what is taken off ``segment.ms`` for one segment, so that logs do not roll together.

    Source: [SEG-15].
    """
    bound = min(config.segment_jitter_ms, config.roll_ms)
    if bound <= 0:
        return 0
    from random import randrange

    return randrange(bound)  # noqa: S311 - spreads load, no secret


def segment_context(  # noqa: PLR0913 - what the segments of a log share
    directory: Directory,
    codecs: CodecTable,
    config: LogConfig,
    *,
    writable: bool,
    kafka_profile: bool,
    heap_indexes: bool,
) -> SegmentContext:
    """Return the context for segments that are made, or opened, with these settings [SEG-1].

    A segment keeps its own when the settings change [UNI-7]. A reader's indexes are in memory in
    any case: another process may cut their files [DUR-27].
    """
    return SegmentContext(
        directory,
        codecs,
        writable=writable,
        heap_indexes=heap_indexes or not writable,
        preallocate=config.preallocate,
        index_interval_bytes=config.index_interval_bytes,
        max_index_bytes=config.segment_index_bytes,
        segment_bytes=config.roll_bytes,
        kafka_profile=kafka_profile,
    )
