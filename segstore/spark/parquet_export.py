"""Export to Parquet: records with their offsets, timestamps, headers and leader epochs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import IllegalArgumentError, InconsistentTopicIdError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.spark.directory_option import local_directory_path
from segstore.spark.job_runner import JobItem, JobReport, run_job
from segstore.spark.log_source import LocalSource
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.offsets import cut_by_bytes
from segstore.spark.parquet_files import (
    COLUMNS,
    exported_files,
    file_name_of,
    origin_of,
    what_is_missing,
    with_origin,
)
from segstore.spark.whole_file import new_run, remove_parts, whole_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from segstore.spark.job_runner import Progress
    from segstore.spark.options import ConnectorOptions
    from segstore.spark.ranges import OffsetRange
    from segstore.spark.visible_log import VisibleLog

DEFAULT_BYTES_OF_A_FILE: Final = 256 * 1024 * 1024


def export_parquet(
    spark: SparkSession,
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    compression: str = "zstd",
    progress: Progress | None = None,
    **options: Any,
) -> JobReport:
    """Write records to Parquet files, one for each partition or part of it.

    The columns are topic, partition, offset, timestamp (ms), timestampType, leaderEpoch, key, value
    and headers; `import_parquet` restores the log from them. A second run writes the missing
    offsets: the rest of a killed run, and records appended since.

    Parameters
    ----------
    spark : SparkSession
        Session whose executors do the work.
    path : path
        The log directory.
    target : path
        A folder that driver and executors reach under this path; created if missing.
    compression : str
        Compression of the Parquet files: ``zstd``, ``snappy``, ``none`` …
    progress : callable or None
        ``progress("export", done, total)``, in files.
    **options
        Options of ``format("segstore")``. ``maxBytesPerPartition``, 256 MiB by default, is the
        size of a part in stored batches.

    Returns
    -------
    JobReport
        For each file ``records`` and ``size_bytes``.

    Raises
    ------
    IllegalArgumentError
        The folder has an export with another isolation, or offsets that the log does not have.
    InconsistentTopicIdError
        The folder has records of a topic that was deleted and created again since.
    ConnectorOptionError, UnknownTopicOrPartitionError, LogNotFoundError
        As in a read with these options.
    CorruptLogError
        A log is damaged at the end of the range to export.
    """
    root = local_directory_path({"path": os.fspath(path)}, "an export needs")
    checked = options_of_call(root, options)
    folder = os.path.abspath(target)  # noqa: PTH100 - links stay as they are
    Path(folder).mkdir(parents=True, exist_ok=True)
    plain = replace(
        checked, min_partitions=None, max_records_per_partition=None, max_bytes_per_partition=None
    )
    wanted = ranges_of(plain)
    there = exported_files(folder)
    for one in there:
        _check_isolation(one.path, checked)
    source = LocalSource(checked)
    logs = {one.topic_partition: source.open(one.topic_partition) for one in wanted}
    missing: list[OffsetRange] = []
    for offsets in wanted:
        files = [one for one in there if one.partition == offsets.topic_partition]
        for one in files:
            _check_topic(one.path, offsets)
        own = [one.offsets for one in files]
        if own and own[-1].until_offset > logs[offsets.topic_partition].log_end_offset:
            raise IllegalArgumentError(
                f"{folder} holds records of {offsets.topic_partition} up to offset "
                f"{own[-1].until_offset}: it is an export of another log",
                file=folder,
                found=str(own[-1].until_offset),
                expected=f"up to {logs[offsets.topic_partition].log_end_offset}",
            )
        missing += what_is_missing(offsets, own)
    size = checked.max_bytes_per_partition or DEFAULT_BYTES_OF_A_FILE
    parts = cut_by_bytes(missing, logs, size)
    task = ExportTask(checked, folder, compression)
    items = [JobItem(file_name_of(offsets), offsets) for offsets in parts]
    try:
        return run_job(spark, "export", items, task, progress=progress)
    finally:
        remove_parts(folder, task.run)


class ExportTask:
    """Writes one file; travels pickled to the executors."""

    def __init__(self, options: ConnectorOptions, folder: str, compression: str) -> None:
        self._options = options
        self._folder = folder
        self._compression = compression
        self.run = new_run()

    def __call__(self, offsets: OffsetRange) -> dict[str, Any]:
        """Write the file of *offsets*; it appears when it is whole and on stable storage."""
        with LocalSource(self._options).part(offsets) as (log, start, end):
            return self._write(offsets, log, start, end)

    def _write(self, offsets: OffsetRange, log: VisibleLog, start: int, end: int) -> dict[str, Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        scan = log.scan(start, end, COLUMNS)
        records = 0
        file = Path(self._folder) / file_name_of(offsets)
        empty = log.scan(start, start, COLUMNS).to_arrow().schema
        schema = with_origin(empty, offsets, self._options.isolation)
        with (
            whole_file(file, self.run) as part,
            part.open("wb") as opened,
            pq.ParquetWriter(opened, schema, compression=self._compression) as writer,
        ):
            for batch in scan.arrow_batches():
                read = pa.record_batch(batch)
                writer.write_batch(read.replace_schema_metadata(schema.metadata))
                records += read.num_rows
        return {"records": records, "size_bytes": file.stat().st_size}


def _check_topic(path: str, offsets: OffsetRange) -> None:
    """Refuse to add the records of a topic to those of one of the same name that was deleted."""
    known = origin_of(path).get("topicId")
    found = None if offsets.topic_id is None else topic_id_text(offsets.topic_id)
    if known in {None, found}:
        return
    raise InconsistentTopicIdError(
        f"the export holds records of a topic {offsets.topic!r} that was deleted and made again: "
        "export to another folder",
        file=path,
        found=f"records of topic id {known}",
        expected=f"topic id {found}, as in the log directory",
    )


def _check_isolation(path: str, options: ConnectorOptions) -> None:
    found = origin_of(path).get("isolation")
    if found != str(options.isolation):
        raise IllegalArgumentError(
            f"the folder holds an export with isolation.level {found}, not {options.isolation}",
            file=path,
            found=str(found),
            expected=str(options.isolation),
        )
