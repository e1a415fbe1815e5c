"""Sorting records into partitions by key, as Kafka's clients do, before they are appended."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from segstore._core import Record, partitions_for_keys
from segstore.errors import (
    IllegalArgumentError,
    RecordTypeError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.interrupted_append import appended_since
from segstore.record_columns import BY_THEIR_NAMES
from segstore.record_rows import (
    check_row_type,
    counts_rows,
    no_record,
    record_timestamp,
    refuse_no_rows,
)
from segstore.records.arrow_numpy import array_of_numbers
from segstore.records.partitioner import partition_for_key
from segstore.types import LogAppendInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from segstore.log.unified_log import Log
    from segstore.record_columns import RecordColumns

RECORDS_IN_A_CHUNK: Final = 65536
"""How many records of an iterator are held at once; a list is taken whole."""

PAIR: Final = 2
TUPLE_LENGTHS: Final = frozenset({PAIR, 3})
"""(key, value) and (timestamp, key, value)."""

MOST_NUMBERS: Final = 20
"""So many partitions a note names."""

STICKY_BYTES: Final = 16384
"""Records without a key stay with one partition for so many bytes (the client's ``batch.size``)."""


class StickyPartitioner:
    """Chooses the partition of each record; one for a topic, kept between appends.

    Equal keys go to equal partitions, the one that Kafka's clients in every language choose:
    ``murmur2(key) & 0x7fffffff`` modulo their number. Records without a key stay together for
    some bytes, then the next partition gets its turn.

    Parameters
    ----------
    partitions_count : int
        Of the topic.
    sticky_bytes : int
        How many bytes of records without a key stay together.
    first : int
        The partition whose turn comes first.
    """

    def __init__(
        self, partitions_count: int, sticky_bytes: int = STICKY_BYTES, first: int = 0
    ) -> None:
        self.partitions_count = partitions_count
        self._sticky_bytes = sticky_bytes
        self._sticky = first - 1
        self._bytes_left = 0

    def without_key(self, size_bytes: int) -> int:
        """Return the partition whose turn it is for a record of *size_bytes* without a key."""
        if self._bytes_left <= 0:
            self._sticky = (self._sticky + 1) % self.partitions_count
            self._bytes_left = self._sticky_bytes
        self._bytes_left -= max(1, size_bytes)
        return self._sticky

    def without_keys(self, count: int, size_bytes: int) -> list[int]:
        """Return the partitions of *count* such records."""
        turns: list[int] = []
        while len(turns) < count:
            turns.append(self.without_key(size_bytes))
            more = -(-self._bytes_left // max(1, size_bytes))  # until it is the next one's turn
            more = max(0, min(more, count - len(turns)))
            turns += [turns[-1]] * more
            self._bytes_left -= more * max(1, size_bytes)
        return turns

    def begin_append(self) -> None:
        """Small appends, each of a record or two, are spread as well: a new one moves on."""
        self._bytes_left = 0


def chunks_of_records(records: object) -> Iterator[list[object]]:
    """Yield lists of records: a list or one `Record` whole, an iterator in bounded pieces."""
    if isinstance(records, Record):
        yield [records]
    elif isinstance(records, list):
        yield records
    else:
        refuse_no_rows(records)
        rows: Any = records
        iterator = iter(rows)
        while chunk := list(islice(iterator, RECORDS_IN_A_CHUNK)):
            yield chunk


def split_records(
    records: Iterable[object], partitioner: StickyPartitioner
) -> dict[int, list[object]]:
    """Return *records* by partition, in their order; nothing is returned when one is no record."""
    by_partition: dict[int, list[object]] = {}
    known: dict[bytes, list[object]] = {}  # keys repeat: each is hashed by murmur2 once
    for index, record in enumerate(records):
        key, value = _key_and_value(record, index)
        if key is None:
            number = partitioner.without_key(0 if value is None else len(value))
            by_partition.setdefault(number, []).append(record)
            continue
        part = known.get(key)
        if part is None:
            number = partition_for_key(key, partitioner.partitions_count)
            part = known[key] = by_partition.setdefault(number, [])
        part.append(record)
    for part in by_partition.values():
        _count_nothing(part)
    return by_partition


def _count_nothing(part: list[object]) -> None:
    """Let the log of a partition not ask again whether its records count rows.

    All records of the append are asked. Of those of one partition the timestamps may be 0, 1, 2 …
    by chance: the first becomes a `Record`, which counts nothing.
    """
    first = part[0]
    if isinstance(first, tuple) and counts_rows(first, 0):
        part[0] = Record(timestamp=int(first[0]), key=first[1], value=first[2])


def _key_and_value(record: object, index: int) -> tuple[bytes | None, bytes | None]:
    if isinstance(record, tuple) and len(record) in TUPLE_LENGTHS:
        if type(record) is not tuple:
            check_row_type(type(record), index)
        key, value = record[-2], record[-1]
        if type(key) is not bytes:
            key = _as_bytes(key, "key", index)
        if type(value) is not bytes:
            value = _as_bytes(value, "value", index)
        if len(record) > PAIR and record[0] is not None and type(record[0]) is not int:
            record_timestamp(record[0], None, f"record {index}: ")
        return key, value
    if isinstance(record, Record):
        return record.key, record.value
    raise no_record(record, index)


def _as_bytes(part: object, name: str, index: int) -> bytes | None:
    if part is None:
        return None
    if not isinstance(part, bytes | bytearray | memoryview):
        hint = ": encode it" if isinstance(part, str) else ""
        raise _wrong_part(part, name, index, f"bytes or None{hint}")
    return bytes(part)


def _wrong_part(part: object, name: str, index: int, expected: str) -> RecordTypeError:
    found = type(part).__name__
    return RecordTypeError(
        f"record {index}: the {name} is a {found}, not {expected}", found=found, expected=expected
    )


# ---- Arrow ---------------------------------------------------------------------------------------


def joined_rows(pieces: Iterable[dict[int, pa.RecordBatch]]) -> dict[int, pa.Table]:
    """Return the rows of all *pieces* by partition, in their order."""
    import pyarrow as pa

    together: dict[int, list[pa.RecordBatch]] = {}
    for by_partition in pieces:
        for number, rows in by_partition.items():
            together.setdefault(number, []).append(rows)
    return {number: pa.Table.from_batches(batches) for number, batches in together.items()}


def split_batch(
    batch: pa.RecordBatch,
    partitioner: StickyPartitioner,
    columns: RecordColumns = BY_THEIR_NAMES,
) -> dict[int, pa.RecordBatch]:
    """Return the rows of *batch* by partition, in their order, without an object for each."""
    if batch.num_rows == 0:
        return {}
    batch = _takeable(batch)
    if columns.partition is None:
        return rows_by_number(batch, partitions_of_rows(batch, partitioner, columns.key))
    numbers = _numbers_in_column(batch, partitioner, columns)
    return rows_by_number(batch.drop_columns([columns.partition]), numbers)


def rows_by_number(batch: pa.RecordBatch, numbers: Any) -> dict[int, pa.RecordBatch]:
    """Return the rows of *batch* by their number, a small one for each, in their order."""
    import numpy as np

    counts = np.bincount(numbers)
    present = np.flatnonzero(counts)
    if len(present) == 1:
        return {int(present[0]): batch}
    if len(counts) <= 1 << 16:
        numbers = numbers.astype(np.uint16)  # sorted by radix, several times as fast
    rows = batch.take(array_of_numbers(np.argsort(numbers, kind="stable")))
    ends = np.cumsum(counts)
    return {
        int(number): rows.slice(int(ends[number] - counts[number]), int(counts[number]))
        for number in present
    }


def partitions_of_rows(
    batch: pa.RecordBatch, partitioner: StickyPartitioner, key: str | None = None
) -> Any:
    """Partition of each row by the column *key*, as numbers of 32 bits."""
    import numpy as np

    key = "key" if key is None else key
    if key in batch.schema.names:
        rows = partitions_for_keys(batch.column(key), partitioner.partitions_count)
        without_key = np.flatnonzero(rows < 0)
    else:
        rows = np.empty(batch.num_rows, np.int32)
        without_key = np.arange(batch.num_rows)
    if len(without_key):
        size_bytes = max(1, batch.nbytes // batch.num_rows)
        rows[without_key] = partitioner.without_keys(len(without_key), size_bytes)
    return rows


def _numbers_in_column(
    batch: pa.RecordBatch, partitioner: StickyPartitioner, columns: RecordColumns
) -> Any:
    """Return the partitions that a column has; where it is null, the key chooses [SPK]."""
    import numpy as np
    import pyarrow as pa

    name = columns.partition
    column = batch.column(name)
    if not pa.types.is_integer(column.type):
        raise IllegalArgumentError(
            f"column {name} has the Arrow type {column.type}, expected integers: the partitions",
            found=str(column.type),
            expected="integers",
        )
    count = partitioner.partitions_count
    numbers = np.array(column.fill_null(0))
    wrong = np.flatnonzero((numbers < 0) | (numbers >= count))
    if len(wrong):
        found = int(numbers[wrong[0]])
        raise UnknownTopicOrPartitionError(
            f"row {wrong[0]}: column {name} names partition {found}, and the topic has {count}",
            found=f"partition {found}",
            expected=f"0 to {count - 1}",
        )
    numbers = numbers.astype(np.int32)
    if column.null_count:
        by_key = partitions_of_rows(batch, partitioner, columns.key)
        numbers = np.where(np.array(column.is_null()), by_key, numbers)
    return numbers


def _takeable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make views plain, whose rows pyarrow cannot gather."""
    import pyarrow as pa

    names = batch.schema.names
    return pa.RecordBatch.from_arrays([_plain(column) for column in batch.columns], names)


def _plain(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _plain(column.dictionary))
    plain = _plain_type(column.type)
    return column if plain == column.type else column.cast(plain)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return *kind* with the views in it, also those of headers, made large and plain."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_plain_type(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return kind


def joined(first: LogAppendInfo, second: LogAppendInfo) -> LogAppendInfo:
    """What two appends to one partition did together."""
    if second.base_offset < 0:
        return first
    return LogAppendInfo(
        base_offset=first.base_offset if first.base_offset >= 0 else second.base_offset,
        last_offset=second.last_offset,
        max_timestamp=max(first.max_timestamp, second.max_timestamp),
        log_append_time=second.log_append_time,
        log_start_offset=second.log_start_offset,
        records_count=first.records_count + second.records_count,
        size_bytes=first.size_bytes + second.size_bytes,
        durable_offset=second.durable_offset,
    )


class AppendedRecords:
    """What an append to several partitions has stored so far.

    Ctrl-C may come when a partition has its records and the call that appended them has not
    returned. So the partition whose turn it was is asked for its end. What other threads appended
    to it since is counted too: then the note says how many records there are at most. An error of
    the append itself says that its partition got none of them.

    Attributes
    ----------
    infos : dict of int to LogAppendInfo
        The results of the calls that have returned, by partition.
    """

    def __init__(self) -> None:
        self.infos: dict[int, LogAppendInfo] = {}
        self._current: tuple[int, Log] | None = None
        self._end_before = 0

    def begin(self, number: int, log: Log) -> None:
        """Note the end of a partition that gets records now."""
        self._end_before = log.log_end_offset
        self._current = number, log

    def noting(self, append: Callable[[Any], LogAppendInfo]) -> Callable[[Any], LogAppendInfo]:
        """Return *append*, which also notes its log: after a move it is called with another one."""

        def noted(log: Log) -> LogAppendInfo:
            if self._current is not None:
                self._current = self._current[0], log
            return append(log)

        return noted

    def add(self, number: int, info: LogAppendInfo) -> None:
        """Note what the partition has got."""
        earlier = self.infos.get(number)
        self.infos[number] = info if earlier is None else joined(earlier, info)
        self._current = None

    def note(self, error: BaseException, topic: str) -> None:
        """Say in the error of the append which partitions have got records before it."""
        at_most = ""
        if isinstance(error, SegstoreError):
            if self.infos:
                error.appended = self.infos
        elif self._add_current(error):
            at_most = "up to "
        if not self.infos:
            return
        numbers = sorted(self.infos)
        shown = ", ".join(map(str, numbers[:MOST_NUMBERS]))
        rest = len(numbers) - MOST_NUMBERS
        count = sum(info.records_count for info in self.infos.values())
        error.add_note(
            f"{at_most}{count} records of this append were appended to topic {topic!r} before the"
            " error, and stay there: in partitions"
            f" {shown}{f' and {rest} more' if rest > 0 else ''}"
        )

    def _add_current(self, error: BaseException) -> bool:
        """Count what the partition whose turn it is has got since; return whether it has."""
        if self._current is None:
            return False
        number, log = self._current
        noted = self.infos.get(number)  # of this call too, if Ctrl-C came inside `add`
        first = self._end_before if noted is None else max(self._end_before, noted.last_offset + 1)
        stored = appended_since(error, log, first)
        if stored is None:
            return False
        first, end = stored
        start, durable = log.log_start_offset, log.durable_offset
        self.add(number, LogAppendInfo(first, end - 1, -1, -1, start, end - first, 0, durable))
        return True
