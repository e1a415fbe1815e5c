"""Import of one partition: the files of an export into its log, from where that ends."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore._core import rebuild_batches
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    IllegalArgumentError,
    InconsistentTopicIdError,
)
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import numbers_of
from segstore.records.columns import RECORD_COLUMNS
from segstore.records.compression import codec_table
from segstore.tables.batch_comparison import first_other_batch
from segstore.tables.parquet_files import COLUMNS, check_no_gaps
from segstore.tables.parquet_reader import ParquetReader
from segstore.tables.rebuilt_batches import batches_with_offsets, empty_batch, with_leader_epochs
from segstore.tables.row_comparison import first_difference
from segstore.tables.row_queue import RowQueue
from segstore.tables.unfinished_imports import check_log_start, open_log_to_fill
from segstore.types import CODEC_MASK, CURRENT_MAGIC, Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from segstore.log.unified_log import UnifiedLog
    from segstore.tables.batch_table import NotedBatches
    from segstore.tables.parquet_files import ExportedFile

ROWS_OF_AN_APPEND: Final = 20_000
BYTES_OF_AN_APPEND: Final = 4 * 1024 * 1024
EVERY_EPOCH: Final = 2**31 - 1


class PartitionImport(NamedTuple):
    """What is imported; travels pickled.

    Attributes
    ----------
    files : tuple of ExportedFile
        Those of one partition, ascending.
    directory : str
        Of its log.
    codec : Codec or None
        Of the batches; None = as they were.
    allow_gaps : bool
        Whether offsets may be in none of the files.
    verify : bool
        Compare the log with the files when all is written.
    """

    files: tuple[ExportedFile, ...]
    directory: str
    codec: Codec | None = None
    allow_gaps: bool = False
    verify: bool = False

    @property
    def first_offset(self) -> int:
        """Where the log is to begin."""
        return self.files[0].offsets.from_offset


class _Piece(NamedTuple):
    """Batches to be appended at once."""

    data: Buffer
    first_offset: int
    records: int


def import_partition(
    work: PartitionImport, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Append what the log does not hold yet, and close it durably.

    What it holds must be what the files say: records, and batches with their producers and
    transactions. The log stays valid wherever this is interrupted. `MarkedLogs` keeps others from
    opening one that is not whole.

    Parameters
    ----------
    progress : callable or None
        Gets the log end, and where it will be.

    Returns
    -------
    dict
        ``records`` that were written, and ``log_end_offset``.

    Raises
    ------
    AlreadyExistsError
        The log has other records or batches, or begins at another offset.
    CorruptLogError, IllegalArgumentError
        A file cannot be used, or offsets are in none of them; or what was written is not what the
        files say.
    """
    readers = checked_files(work)
    first_offset = work.first_offset
    with open_log_to_fill(work.directory) as log:
        check_log_start(log, first_offset)
        if log.log_end_offset < first_offset:
            log.truncate_fully_and_start_at(first_offset)
        resumed_at = log.log_end_offset
        _check_rows(log, readers, first_offset, resumed_at, is_written=False)
        _check_batches(log, readers, first_offset, resumed_at, work.codec, is_written=False)
        records = 0
        epochs = deque(one for one in readers[-1].leader_epochs if one[1] >= resumed_at)
        for reader in readers:
            for piece in _new_batches(reader, work.codec, log):
                _assign_epochs(log, epochs, piece.first_offset)
                data = with_leader_epochs(piece.data, log.latest_epoch or 0)
                log.append_as_follower(data, EVERY_EPOCH)
                records += piece.records
                if progress is not None:
                    progress(log.log_end_offset, readers[-1].offsets.until_offset)
        _append_end(log, readers[-1])
        _assign_epochs(log, epochs, log.log_end_offset)
        log.flush()
        if work.verify:
            end = log.log_end_offset
            _check_rows(log, readers, resumed_at, end, is_written=True)
            _check_batches(log, readers, resumed_at, end, work.codec, is_written=True)
        return {"records": records, "log_end_offset": log.log_end_offset}


def checked_files(work: PartitionImport) -> list[ParquetReader]:
    """Open the files of one partition; errors as of `import_partition`."""
    if not work.allow_gaps:
        check_no_gaps(work.files)
    return opened_files(work.files)


def checked_codec(compression: str | None) -> Codec | None:
    """Return the codec of that name; raises IllegalArgumentError where there is none."""
    if compression is None:
        return None
    if compression.upper() not in Codec.__members__:
        raise IllegalArgumentError(
            f"there is no compression {compression!r}",
            found=repr(compression),
            expected=", ".join(codec.name.lower() for codec in Codec),
        )
    return Codec[compression.upper()]


def opened_files(files: Sequence[ExportedFile]) -> list[ParquetReader]:
    """Open the files of one partition.

    Raises
    ------
    CorruptLogError, InconsistentTopicIdError
        A file of an export has another name than it was written under, or they are of two exports.
    """
    readers = [ParquetReader(one.path) for one in files]
    for file, reader in zip(files, readers, strict=True):
        if reader.offsets != file.offsets:
            raise CorruptLogError(
                "the file has another name than it was written under",
                file=file.path,
                found=str(reader.offsets),
                expected=str(file.offsets),
            )
        first = readers[0]
        if None not in (ids := {reader.topic_id, first.topic_id}) and len(ids) > 1:
            raise InconsistentTopicIdError(
                "the files of the partition are of two topics: one was deleted and made again",
                file=file.path,
                found=f"topic id {reader.topic_id}",
                expected=f"topic id {first.topic_id}, as in the first file",
            )
        if reader.isolation != first.isolation:
            raise CorruptLogError(
                f"the file was read with isolation.level {reader.isolation}, the first of its "
                f"partition with {first.isolation}",
                file=file.path,
                found=str(reader.isolation),
                expected=str(first.isolation),
            )
    return readers


def _assign_epochs(log: UnifiedLog, epochs: deque[tuple[int, int]], offset: int) -> None:
    """Note the leader epochs that begin up to *offset*, also those without a batch."""
    while epochs and epochs[0][1] <= offset:
        epoch, start_offset = epochs.popleft()
        if log.latest_epoch is None or log.latest_epoch < epoch:
            log.assign_epoch_start_offset(epoch, start_offset)


# ---- what is appended ----------------------------------------------------------------------------


def _new_batches(reader: ParquetReader, codec: Codec | None, log: UnifiedLog) -> Iterator[_Piece]:
    """Yield batches from the end of *log* on, and how many records each piece has."""
    start = log.log_end_offset
    if reader.offsets.until_offset <= start:
        return
    rows = RowQueue(_rows_from(reader, start))
    if not reader.keeps_batches:
        while at_hand := rows.fill(ROWS_OF_AN_APPEND, BYTES_OF_AN_APPEND):
            yield from _by_rows(rows.take(min(at_hand, ROWS_OF_AN_APPEND)), codec, log)
        return
    epochs_begin = np.array([one[1] for one in reader.leader_epochs], np.int64)
    for batches in reader.batches():
        for part in _parts(batches, start, epochs_begin, rows):
            yield from _by_batches(part, rows, codec, log, reader)
    if rows.fill():
        raise _unfit(reader, f"rows from offset {rows.first_offset} on are of no batch")


def _append_end(log: UnifiedLog, reader: ParquetReader) -> None:
    """Let the log end where that of the export did, also where rows alone are known.

    Markers may be the last in it. A position of a consumer after them stays within the log.
    """
    end = reader.offsets.until_offset
    if not reader.keeps_batches and log.log_end_offset < end:
        data = with_leader_epochs(empty_batch(end - 1), log.latest_epoch or 0)
        log.append_as_follower(data, EVERY_EPOCH)


def _rows_from(reader: ParquetReader, start: int) -> Iterator[pa.RecordBatch]:
    for rows in reader.rows():
        offsets = numbers_of(rows.column("offset"))
        known = int(np.searchsorted(offsets, start))
        if known < len(offsets):
            yield rows.slice(known)


def _by_rows(rows: pa.RecordBatch, codec: Codec | None, log: UnifiedLog) -> Iterator[_Piece]:
    """Yield new batches of *rows*, where it is not known which ones they were of."""
    chosen = Codec.NONE if codec is None else codec
    for data, run in batches_with_offsets(rows, chosen, lambda: log.latest_epoch or 0):
        yield _Piece(data, int(run.column("offset")[0].as_py()), run.num_rows)


def _parts(
    batches: NotedBatches, start: int, epochs_begin: NDArray[np.int64], rows: RowQueue
) -> Iterator[NotedBatches]:
    """Yield the batches from *start* on, in pieces to be appended at once; raw ones apart.

    A piece ends where a leader epoch begins, which is noted first: it may have no batch. The caller
    takes the *rows* of a piece before it asks for the next one. They say how large it is: stored
    batches can be compressed a thousandfold.
    """
    headers = batches.headers
    first = int(np.searchsorted(headers["last_offset"], start))
    is_raw = np.array([one is not None for one in batches.raw], bool)
    is_old = ~is_raw & (headers["magic"] != CURRENT_MAGIC)
    kind = is_raw + 2 * is_old
    while first < len(headers):
        at_hand = min(rows.fill(ROWS_OF_AN_APPEND, BYTES_OF_AN_APPEND), ROWS_OF_AN_APPEND)
        counts = np.cumsum(headers["records_count"][first:], dtype=np.int64)
        sizes = np.cumsum(headers["size_bytes"][first:], dtype=np.int64)
        others = np.flatnonzero(kind[first:] != kind[first])
        base = int(headers["base_offset"][first])
        later = epochs_begin[epochs_begin > base]
        limit = int(later.min()) if len(later) else MAX_LONG
        count = max(
            1,
            min(
                int(np.searchsorted(counts, at_hand, "right")),
                int(np.searchsorted(sizes, BYTES_OF_AN_APPEND, "right")),
                # of what fits one segment
                int(np.searchsorted(headers["last_offset"][first:] - base, MAX_INT, "right")),
                int(np.searchsorted(headers["base_offset"][first:], limit)),
                int(others[0]) if len(others) else len(headers),
            ),
        )
        yield type(batches)(headers[first : first + count], batches.raw[first : first + count])
        first += count


def _by_batches(
    batches: NotedBatches,
    rows: RowQueue,
    codec: Codec | None,
    log: UnifiedLog,
    reader: ParquetReader,
) -> Iterator[_Piece]:
    """Yield *batches* as they were; all of them are raw, or none is."""
    count = int(np.maximum(batches.headers["records_count"], 0).sum())
    if rows.fill(count) < count:
        raise _unfit(reader, f"the batches have {count - rows.fill(count)} more records than rows")
    taken = rows.take(count) if count else None
    first_offset = int(batches.headers["base_offset"][0])
    stored = [one for one in batches.raw if one is not None]
    if stored:
        yield _Piece(b"".join(stored), first_offset, count)
    elif taken is not None and batches.headers["magic"][0] != CURRENT_MAGIC:
        yield from _by_rows(taken, codec, log)
    elif taken is not None:
        headers = batches.headers.copy()
        if codec is not None:
            headers["attributes"] = (headers["attributes"] & ~CODEC_MASK) | codec
        offsets = np.ascontiguousarray(numbers_of(taken.column("offset")))
        data = rebuild_batches(taken.select(RECORD_COLUMNS), offsets, headers, codec_table())
        yield _Piece(data, first_offset, count)


def _unfit(reader: ParquetReader, found: str) -> CorruptLogError:
    return CorruptLogError(
        "the rows of the file are not those that were exported: export the records again, or "
        "remove its metadata, so that new batches are made of the rows",
        file=reader.path,
        found=found,
        expected="a row for each record of the batches that the file knows",
    )


# ---- what is there -------------------------------------------------------------------------------


def _check_rows(
    log: UnifiedLog,
    readers: Sequence[ParquetReader],
    start: int,
    end: int,
    *,
    is_written: bool,
) -> None:
    """Compare the records of a range with those of the files."""
    if start >= end:
        return
    import pyarrow as pa

    scan = log.scan(start, end, columns=COLUMNS)
    found = (pa.record_batch(batch) for batch in scan.arrow_batches())
    difference = first_difference(_within(readers, start, end), found)
    if difference is None:
        return
    if is_written:
        raise CorruptLogError(
            f"the record at offset {difference} is not the one that was written: check the disk",
            file=log.path,
            found="another record",
            expected="the file's",
        )
    end_of_files = readers[-1].offsets.until_offset
    if difference >= end_of_files:
        raise AlreadyExistsError(
            "the log has all records of the export, and others after them: there is nothing to "
            "import",
            file=log.path,
            found=f"a record at offset {difference}",
            expected=f"a log end up to {end_of_files}, where the export ends",
        )
    raise AlreadyExistsError(
        f"the log has another record at offset {difference} than the export",
        file=log.path,
        found=f"another record, or none, at offset {difference}",
        expected="the export's, up to the log end",
    )


def _within(readers: Sequence[ParquetReader], start: int, end: int) -> Iterator[pa.RecordBatch]:
    wanted = (one for one in readers if one.offsets.until_offset > start)
    for rows in chain.from_iterable(_rows_from(one, start) for one in wanted):
        offsets = numbers_of(rows.column("offset"))
        count = int(np.searchsorted(offsets, end))
        if count:
            yield rows.slice(0, count)
        if count < len(offsets):
            return


def _check_batches(  # noqa: PLR0913 - what, where, with what it may differ
    log: UnifiedLog,
    readers: Sequence[ParquetReader],
    start: int,
    end: int,
    codec: Codec | None,
    *,
    is_written: bool,
) -> None:
    """Compare the batches of a range with those that the files know.

    What was there before may have another codec than the files, and than this import.
    """
    for reader in readers:
        first, until = max(start, reader.offsets.from_offset), min(end, reader.offsets.until_offset)
        if first >= until or not reader.keeps_batches:
            continue
        difference = first_other_batch(
            log.scan(first, until),
            reader.batches(),
            ignores_codec=codec is not None or not is_written,
            is_source=False,
        )
        if difference is None:
            continue
        if is_written:
            raise CorruptLogError(
                f"the batch at offset {difference} is not the one that was written: check the disk",
                file=log.path,
                found="another batch",
                expected=f"that of {reader.path}",
            )
        raise AlreadyExistsError(
            f"the log has the export's records, and another batch at offset {difference}: "
            "producers, transactions or the ends of batches are not those of the export",
            file=log.path,
            found=f"another batch, or none, at offset {difference}",
            expected=f"that of {reader.path}",
        )
