"""Import of an export: the same records at the same offsets, in a new log directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    IllegalArgumentError,
    InconsistentTopicIdError,
    LogNotFoundError,
)
from segstore.log.files.partition_directory import directory_name
from segstore.log.open_log import open as open_log
from segstore.spark.directory_option import local_directory_path
from segstore.spark.job_runner import JobItem, JobReport, run_job
from segstore.spark.parquet_files import COLUMNS, check_no_gaps, exported_files, origin_of
from segstore.spark.rebuilt_batches import batches_with_offsets
from segstore.types import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from segstore.log.unified_log import UnifiedLog
    from segstore.spark.job_runner import Progress
from segstore.spark.parquet_files import ExportedFile

ROWS_AT_ONCE: Final = 20_000
EVERY_EPOCH: Final = 2**31 - 1


class PartitionImport(NamedTuple):
    """What one task does: the files of one partition, ascending, into its directory."""

    files: tuple[ExportedFile, ...]
    directory: str
    codec: Codec
    allow_gaps: bool = False


def import_parquet(  # noqa: PLR0913 - from where, to where, how
    spark: SparkSession,
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    compression: str = "none",
    allow_gaps: bool = False,
    progress: Progress | None = None,
) -> JobReport:
    """Create logs from the files of `export_parquet`; a Spark task writes one partition.

    Offsets, timestamps and their types, leader epochs, keys, values and headers are restored.
    Batches, producers and markers are not: they are not records. After a killed run, a second one
    goes on at the end of each log. After a finished run there is nothing to do.

    Parameters
    ----------
    spark : SparkSession
        Session whose executors do the work.
    source : path
        The folder of the export.
    path : path
        The log directory, one for driver and executors; created if missing.
    compression : str
        Compression of the batches: ``none``, ``gzip``, ``snappy``, ``lz4``, ``zstd``.
    allow_gaps : bool
        Whether offsets may be missing between the names of two files. If not, such a partition is
        not imported, because later files could not be inserted.
    progress : callable or None
        ``progress("import", done, total)``, in partitions.

    Returns
    -------
    JobReport
        For each partition ``records``, written by this run, and ``log_end_offset``. A log with
        other records is an error of its partition, and so is an unfinished export.

    Raises
    ------
    LogNotFoundError, CorruptLogError, IllegalArgumentError
        There is no export, two of its files have the same offsets, or the compression is unknown.
    """
    folder = os.path.abspath(source)  # noqa: PTH100 - links stay as they are
    root = local_directory_path({"path": os.fspath(path)}, "an import needs")
    if compression.upper() not in Codec.__members__:
        raise IllegalArgumentError(
            f"there is no compression {compression!r}",
            found=repr(compression),
            expected=", ".join(codec.name.lower() for codec in Codec),
        )
    files = exported_files(folder)
    if not files:
        raise LogNotFoundError(
            "there is no export in this folder",
            file=folder,
            found="no file <topic>-<partition>-<from>-<until>.parquet",
            expected="files of an export",
        )
    Path(root).mkdir(parents=True, exist_ok=True)
    by_name: dict[str, list[ExportedFile]] = {}
    for file in files:
        by_name.setdefault(directory_name(file.partition), []).append(file)
    codec = Codec[compression.upper()]
    items = [
        JobItem(name, PartitionImport(tuple(own), f"{root}/{name}", codec, allow_gaps))
        for name, own in by_name.items()
    ]
    return run_job(spark, "import", items, import_partition, progress=progress)


def import_partition(work: PartitionImport) -> dict[str, Any]:
    """Append what the log does not hold yet, and close it durably."""
    if not work.allow_gaps:
        check_no_gaps(work.files)
    _check_origins(work.files)
    first_offset = work.files[0].offsets.from_offset
    records = 0
    with open_log(work.directory, durability="none") as log:
        if log.log_start_offset == log.log_end_offset and log.log_end_offset < first_offset:
            log.truncate_fully_and_start_at(first_offset)
        if log.log_start_offset != first_offset:
            raise AlreadyExistsError(
                f"the log begins at offset {log.log_start_offset}, the export at {first_offset}: "
                "they are not of one log",
                file=work.directory,
                found=str(log.log_start_offset),
                expected=str(first_offset),
            )
        resumed_at = log.log_end_offset
        for rows in _rows_of(work.files):
            new = _without_known(log, rows, resumed_at)
            if not new.num_rows:
                continue
            for data in batches_with_offsets(new, work.codec, lambda: log.latest_epoch or 0):
                log.append_as_follower(data, EVERY_EPOCH)
            records += new.num_rows
        log.flush()
        return {"records": records, "log_end_offset": log.log_end_offset}


def _rows_of(files: Sequence[ExportedFile]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files:
        try:
            with pq.ParquetFile(file.path) as opened:
                yield from opened.iter_batches(ROWS_AT_ONCE, columns=list(COLUMNS))
        except pa.ArrowException as error:
            raise CorruptLogError(
                f"the file cannot be read: {error}",
                file=file.path,
                found="damaged Parquet",
                expected="a file of an export",
            ) from error


def _without_known(log: UnifiedLog, rows: pa.RecordBatch, end_offset: int) -> pa.RecordBatch:
    """Leave out the rows below *end_offset*; the last of them must be what the log has there."""
    import pyarrow.compute as pc

    known = pc.sum(pc.less(rows.column("offset"), end_offset)).as_py() or 0
    if known:
        row = rows.slice(known - 1, 1).to_pylist()[0]
        scan = log.scan(row["offset"], row["offset"] + 1)
        found = [(one.offset, one.key, one.value) for one in scan]
        if found != [(row["offset"], row["key"], row["value"])]:
            raise AlreadyExistsError(
                f"the log has another record at offset {row['offset']} than the export",
                file=log.path,
                found="another record" if found else "no record",
                expected="the export's",
            )
    return rows.slice(known)


def _check_origins(files: Sequence[ExportedFile]) -> None:
    """Refuse a renamed file, which is looked for by its name, and files of two exports."""
    first: dict[str, Any] | None = None
    for file in files:
        origin = origin_of(file.path)
        offsets = file.offsets
        names = ("topic", "partition", "fromOffset", "untilOffset")
        found = tuple(origin.get(name) for name in names)
        expected = (offsets.topic, offsets.partition, offsets.from_offset, offsets.until_offset)
        if found != expected:
            raise CorruptLogError(
                "the file has another name than it was written under",
                file=file.path,
                found=str(found),
                expected=str(expected),
            )
        first = first or origin
        if None not in (ids := {origin.get("topicId"), first.get("topicId")}) and len(ids) > 1:
            raise InconsistentTopicIdError(
                "the files of the partition are of two topics: one was deleted and made again",
                file=file.path,
                found=f"topic id {origin['topicId']}",
                expected=f"topic id {first['topicId']}, as in the first file",
            )
        if origin.get("isolation") != first.get("isolation"):
            raise CorruptLogError(
                f"the file was read with isolation.level {origin.get('isolation')}, the first of "
                f"its partition with {first.get('isolation')}",
                file=file.path,
                found=str(origin.get("isolation")),
                expected=str(first.get("isolation")),
            )
