"""All partitions of a topic as one table, read lazily through the scans of their logs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from heapq import merge
from itertools import chain, islice
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, TypeVar

from segstore._core import ColumnDecoder
from segstore.arguments import integer, isolation_of, refuse_pickle
from segstore.errors import ArgumentTypeError, IllegalArgumentError, OffsetOutOfRangeError
from segstore.log.chunk_reader import CHUNK_BYTES
from segstore.log.scan import (
    LogQuery,
    check_range,
    checked_columns,
    skips_damage,
    timestamp_bounds,
)
from segstore.log.skipped_ranges import warn_of_skipped
from segstore.notebook import MOST_LINES, as_html, first_records
from segstore.number_limits import MAX_LONG
from segstore.records.arrow_rows import ArrowRows
from segstore.records.columns import (
    KAFKA_COLUMNS,
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
)
from segstore.records.compression import codec_table
from segstore.tables.read_ahead import ahead, in_order, reading_threads, threads_count
from segstore.tables.timestamp_order import LEAST_BATCH_BYTES, by_timestamp
from segstore.types import NO_TIMESTAMP, Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import Literal, NoReturn, TypeAlias, TypedDict

    from segstore._core import ArrowBatch, Record
    from segstore.log.record_dataset import BatchesOf, RecordDataset
    from segstore.log.recovery.salvage_report import LostRange
    from segstore.log.scan import LogScan
    from segstore.log.unified_log import Log
    from segstore.records.record_batch import RecordBatch
    from segstore.types import IsolationName

    Offsets: TypeAlias = int | Mapping[int, int]
    """One for all partitions, or some by partition."""
    Order: TypeAlias = Literal["partition", "timestamp"]
    OnDamage: TypeAlias = Literal["raise", "skip"]

    class UnorderedQuery(TypedDict, total=False):
        """What a dataset of a topic takes of a user; `LogManager.scan` describes it."""

        columns: Sequence[str] | None
        start_offset: Offsets | None
        end_offset: Offsets | None
        start_timestamp: int | datetime | None
        end_timestamp: int | datetime | None
        partitions: Iterable[int] | None
        isolation: Isolation | IsolationName
        on_damage: OnDamage

    class TopicQuery(UnorderedQuery, total=False):
        """What `scan_logs` takes of a user."""

        order: Order


_T = TypeVar("_T")

ORDERS: Final = ("partition", "timestamp")
PART_BYTES: Final = CHUNK_BYTES
"""Of stored batches: what a thread reads at once, more where larger Arrow batches are asked for.

With more, the memory that threads fill comes from the system again and again, above all that of
compressed batches, and page faults cost as much as the decoding; with less, the steps in Python
between the parts do, which wait for the GIL.
"""
MOST_SHOWN: Final = 20
"""So many partitions are named in a message."""


class TopicScan(ArrowRows):
    """The records of a topic, in the order that was asked for; `LogManager.scan` returns one.

    It can be read any number of times while the logs are open, and gives the same records: those
    appended after it was created are not in it. It is Arrow data: ``polars.DataFrame(scan)`` reads
    it. In the order of partitions an Arrow batch has rows of one; in the order of timestamps the
    batches are those of pyarrow.

    Attributes
    ----------
    topic : str
        Its name.
    partitions : tuple of int
        Those that are read, ascending.
    order : str
        ``partition`` or ``timestamp``.
    columns : tuple of str
        Columns of the Arrow methods, as in `LogScan`; ``partition`` says where a row is from.
    start_offsets, end_offsets : dict of int to int
        The range of each partition.
    """

    __slots__ = ("_scans", "columns", "order", "topic")

    def __init__(
        self,
        topic: str,
        scans: Mapping[int, LogScan],
        columns: Sequence[str] | None = None,
        order: Order = "partition",
    ) -> None:
        self.order: Order = order
        self.topic = topic
        self._scans = scans
        ColumnDecoder(codec_table(), columns)  # a column that does not exist is an error here
        self.columns: tuple[str, ...] = tuple(KAFKA_COLUMNS if columns is None else columns)

    def _hold(self, owner: object) -> None:
        """Keep *owner* as long as there is a scan of this one's logs, or of a part of them."""
        for scan in self._scans.values():
            scan._owner = owner  # noqa: SLF001 - a part of this one

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that are read."""
        return tuple(self._scans)

    @property
    def start_offsets(self) -> dict[int, int]:
        """The first offset of each partition."""
        return {number: scan.start_offset for number, scan in self._scans.items()}

    @property
    def end_offsets(self) -> dict[int, int]:
        """One more than the last offset of each partition."""
        return {number: scan.end_offset for number, scan in self._scans.items()}

    def __iter__(self) -> Iterator[Record]:
        """Yield the records, each with its partition; control records are left out.

        Raises
        ------
        CorruptRecordError, CorruptLogError
            Where a log is damaged, after the records before it.
        LogTruncatedError
            Records of the range were cut off since the scan was made [DUR-77].
        """
        if self.order == "timestamp":
            return merge(*self._scans.values(), key=_timestamp_of)
        return chain.from_iterable(self._scans.values())

    def __len__(self) -> int:
        """Return the number of records: gaps, markers and what is left out do not count."""
        return sum(map(len, self._scans.values()))

    def __bool__(self) -> bool:
        """Whether there is a record; the first one is looked for."""
        return any(self._scans.values())

    def count(self, *, by_headers: bool = False) -> int:
        """Return the number of records; by default the records themselves are counted.

        Parameters
        ----------
        by_headers : bool
            True: trust the batch headers, as in `LogScan.count`.
        """
        if by_headers:
            return sum(scan.count(by_headers=True) for scan in self._scans.values())
        return sum(batch.rows_count for batch in self._of_partitions(("offset",)))

    @property
    def skipped(self) -> tuple[LostRange, ...]:
        """What the last pass has left out so far, as `LogScan.skipped`; each names its file."""
        return tuple(chain.from_iterable(scan.skipped for scan in self._scans.values()))

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the stored batches that overlap the range, control batches too.

        Partition after partition, in any *order*.
        """
        for scan in self._scans.values():
            yield from scan.batches()

    # ---- Arrow -----------------------------------------------------------------------------------

    def _arrow_batches(
        self,
        columns: Sequence[str],
        rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        *,
        microseconds: bool = False,
    ) -> Iterator[ArrowBatch]:
        if self.order == "timestamp" and columns:
            return self._merged_batches(columns, rows, max_bytes, microseconds=microseconds)
        return self._of_partitions(columns, rows, max_bytes, microseconds=microseconds)

    def _of_partitions(
        self,
        columns: Sequence[str],
        rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        *,
        microseconds: bool = False,
    ) -> Iterator[ArrowBatch]:
        """Yield the rows of one partition after the other, in whatever order was asked for."""
        options = {"columns": columns, "rows": rows, "max_bytes": max_bytes}
        batches_of = methodcaller("_arrow_batches", **options, microseconds=microseconds)
        of_usual = max(1, max_bytes // MAX_BATCH_BYTES)
        return in_sequence(self._scans.values(), batches_of, of_usual)

    def _has_undecided(self) -> bool:
        return any(scan._has_undecided() for scan in self._scans.values())  # noqa: SLF001 - the same of each log

    def _merged_batches(
        self, columns: Sequence[str], rows: int, max_bytes: int, *, microseconds: bool
    ) -> Iterator[Any]:
        named = tuple(columns)
        needed = named if "timestamp" in named else (*named, "timestamp")
        size = max(LEAST_BATCH_BYTES, max_bytes // max(len(self._scans), 1))
        partitions = [
            scan._arrow_batches(needed, rows, size, microseconds=microseconds)  # noqa: SLF001 - the same of each log
            for scan in self._scans.values()
        ]
        threads = threads_count() if len(partitions) > 1 else 0
        with reading_threads(threads) if threads else nullcontext() as pool:
            if pool is not None:
                partitions = [ahead(each, pool) for each in partitions]
            for batch in by_timestamp(partitions, rows, max_bytes):
                yield batch.select(named) if needed != named else batch

    def dataset(self) -> RecordDataset:
        """Return the rows as a dataset of pyarrow, as `LogManager.dataset`; the ranges stay.

        Raises
        ------
        IllegalArgumentError
            The scan has an order by timestamps, which a dataset has not.
        """
        _refuse_order(self.order, "a dataset")
        return dataset_of(self.columns, lambda: self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(
            f"a scan of topic {self.topic!r}",
            "pass the path of the log directory and the offsets, and scan it there; to_arrow()"
            " gives rows that can be passed",
        )

    @as_html
    def _repr_html_(self) -> Iterator[tuple[str, object]]:
        yield (
            "partitions",
            [
                {"partition": number, "offsets": f"{scan.start_offset} to {scan.end_offset}"}
                for number, scan in self._scans.items()
            ],
        )
        yield "columns", ", ".join(self.columns)
        yield "order", self.order
        first = {number: scan._first() for number, scan in islice(self._scans.items(), MOST_LINES)}  # noqa: SLF001 - the same of each log
        yield (
            "first records",
            first_records(
                TopicScan(self.topic, first, order=self.order), ["partition", *self.columns]
            ),
        )

    def __repr__(self) -> str:
        return f"TopicScan({self.topic!r}, {len(self._scans)} partitions)"


def scan_logs(  # noqa: PLR0913 - the parts of a query
    topic: str,
    logs: Mapping[int, Log],
    *,
    columns: Sequence[str] | None = None,
    start_offset: Offsets | None = None,
    end_offset: Offsets | None = None,
    start_timestamp: int | datetime | None = None,
    end_timestamp: int | datetime | None = None,
    isolation: Isolation | IsolationName = Isolation.LOG_END,
    order: Order = "partition",
    on_damage: OnDamage = "raise",
) -> TopicScan:
    """Return a scan of the logs of a topic; `LogManager.scan` describes the parameters.

    Parameters
    ----------
    logs : mapping of int to Log
        By the numbers of their partitions, ascending.
    """
    _check_order(order)
    skips_damage(on_damage, check_crcs=True)
    starts, ends = _offset_bounds(logs, start_offset, end_offset)
    low, high = timestamp_bounds(start_timestamp, end_timestamp)
    query = partial(
        _scan_log,
        is_of_all=not isinstance(start_offset, Mapping),
        columns=columns,
        start_timestamp=low,
        end_timestamp=high,
        isolation=isolation,
        on_damage=on_damage,
    )
    scans = {
        number: query(log, starts.get(number), ends.get(number)) for number, log in logs.items()
    }
    return TopicScan(topic, scans, columns, order)


def checked_query(  # noqa: PLR0913 - the parts of a query
    numbers: Collection[int],
    *,
    columns: Sequence[str] | None = None,
    start_offset: Offsets | None = None,
    end_offset: Offsets | None = None,
    start_timestamp: int | datetime | None = None,
    end_timestamp: int | datetime | None = None,
    partitions: Iterable[int] | None = None,
    isolation: Isolation | IsolationName = Isolation.LOG_END,
    on_damage: OnDamage = "raise",
    order: Order = "partition",
) -> UnorderedQuery:
    """Return a query for later, checked as far as no log need be asked.

    Parameters
    ----------
    numbers : collection of int
        The partitions that are read.
    """
    _check_order(order)
    _refuse_order(order, "a dataset or a lazy frame")
    skips_damage(on_damage, check_crcs=True)
    _offset_bounds(numbers, start_offset, end_offset)
    low, high = timestamp_bounds(start_timestamp, end_timestamp)
    return {
        "columns": checked_columns(columns),
        "start_offset": dict(start_offset) if isinstance(start_offset, Mapping) else start_offset,
        "end_offset": dict(end_offset) if isinstance(end_offset, Mapping) else end_offset,
        "start_timestamp": low,
        "end_timestamp": high,
        "partitions": partitions,
        "isolation": isolation_of(isolation),
        "on_damage": on_damage,
    }


def _check_order(order: str) -> None:
    if order not in ORDERS:
        raise IllegalArgumentError(
            f"order must be 'partition' or 'timestamp', not {order!r}",
            found=repr(order),
            expected="partition or timestamp",
        )


def _refuse_order(order: str, what: str) -> None:
    """Refuse another order than that of partitions for what engines read."""
    if order != "partition":
        raise IllegalArgumentError(
            f"{what} has no order: let the engine sort its rows",
            found=f"order={order!r}",
            expected="order='partition'",
        )


def _offset_bounds(
    numbers: Collection[int], start: Offsets | None, end: Offsets | None
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the first offsets and the ends of partitions, checked."""
    starts = offsets_by_partition("start_offset", start, numbers)
    ends = offsets_by_partition("end_offset", end, numbers)
    for number in numbers:
        check_range(starts.get(number), ends.get(number), "offset")
    return starts, ends


def dataset_of(columns: Sequence[str] | None, scan: Callable[[], TopicScan]) -> RecordDataset:
    """Return a dataset of the rows that *scan*, called for each query, has in any order."""
    from segstore.log.record_dataset import RecordDataset, RecordSource

    def scans() -> list[LogScan]:
        return [*scan()._scans.values()]  # noqa: SLF001 - asked by its own module

    return RecordDataset(RecordSource(checked_columns(columns), scans, in_sequence))


def read_whole(scan: TopicScan, read: Callable[[TopicScan], _T]) -> _T:
    """Return what *read* makes of a scan, and warn of what was left out as damaged."""
    result = read(scan)
    warn_of_skipped(scan.skipped)
    return result


def in_sequence(
    scans: Iterable[LogScan], batches_of: BatchesOf, of_usual: int = 1
) -> Iterator[ArrowBatch]:
    """Yield the rows of one scan after the other; threads read ahead where there are cores.

    Parameters
    ----------
    batches_of : callable
        Reads a scan, or a part of it.
    of_usual : int
        A thread reads so many times `PART_BYTES` at once.
    """
    threads = threads_count()
    parts = chain.from_iterable(
        scan._parts(PART_BYTES * of_usual) if threads else (scan,)  # noqa: SLF001 - see below
        for scan in scans
    )
    return in_order(map(batches_of, parts), threads)


def _timestamp_of(record: Record) -> int:
    """Return the timestamp as columns have it."""
    return NO_TIMESTAMP if record.timestamp is None else record.timestamp


def first_offset_to_read(log: Log) -> int:
    """Return where reads of a log may begin: in remote storage too, where it was opened with it."""
    if log.log_start_offset == log.local_log_start_offset:
        return log.log_start_offset
    return log.scan().start_offset


def _scan_log(
    log: Log, start: int | None, end: int | None, *, is_of_all: bool, **query: Any
) -> LogScan:
    """Return the scan of one log; of a bound for all partitions it takes what it has."""
    goes_on = query["on_damage"] == "skip" and log.report.damage is not None
    while is_of_all:
        first, behind = first_offset_to_read(log), log.log_end_offset
        most = MAX_LONG if goes_on else behind  # records behind the damage are read too
        low = None if start is None or start <= first else min(start, most)
        high = None if end is None else max(end, first if low is None else low)
        try:
            return log._scan(LogQuery.of(low, high, **query), to_known_end=True)  # noqa: SLF001 - a query
        except OffsetOutOfRangeError:  # records were deleted, or cut off, meanwhile
            if (first, behind) == (first_offset_to_read(log), log.log_end_offset):
                raise
    return log._scan(LogQuery.of(start, end, **query), to_known_end=True)  # noqa: SLF001 - a query


def offsets_by_partition(
    name: str, value: Offsets | None, partitions: Collection[int]
) -> dict[int, int]:
    """Return the offset of each partition for which *value* has one.

    Raises
    ------
    ArgumentTypeError
        It is neither an integer nor a mapping of integers.
    IllegalArgumentError
        It names a partition that is not read.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        try:
            return dict.fromkeys(partitions, integer(name, value))
        except ArgumentTypeError as error:
            raise ArgumentTypeError(
                f"{name} must be an integer, or a dict by partition, not {error.found}",
                found=error.found,
                expected="an integer, or a dict by partition",
            ) from None
    found = {
        integer(f"a partition of {name}", number): integer(f"{name} of partition {number}", offset)
        for number, offset in value.items()
    }
    for number in found:
        if number not in partitions:
            raise IllegalArgumentError(
                f"{name} names partition {number}, which is not read",
                found=f"partition {number}",
                expected=f"some of {shown_partitions(partitions)}",
            )
    return found


def shown_partitions(partitions: Collection[int]) -> str:
    """Return their numbers for a message; of many the first ones."""
    first = ", ".join(map(str, islice(partitions, MOST_SHOWN)))
    return f"{first} …" if len(partitions) > MOST_SHOWN else first
