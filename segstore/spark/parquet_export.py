"""Export to Parquet: records with their offsets, timestamps, headers and leader epochs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from segstore.log.files.partition_directory import directory_name
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.directory_option import local_directory_path
from segstore.spark.job_runner import JobItem, JobReport, run_job, stored_bytes
from segstore.spark.log_source import LocalSource
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.offsets import cut_by_bytes
from segstore.tables.parquet_files import (
    COLUMNS,
    exported_files,
    file_name_of,
    what_is_missing,
)
from segstore.tables.parquet_transfer import check_same_export
from segstore.tables.partition_export import export_range, make_folder
from segstore.tables.whole_file import new_run, remove_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from segstore.spark.job_runner import Progress
    from segstore.spark.options import ConnectorOptions
    from segstore.tables.offset_ranges import OffsetRange

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

    Small ones share a task of Spark, as in `compact`.

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
        The folder is a file, or has an export with another isolation, or offsets that the log does
        not have.
    InconsistentTopicIdError
        The folder has records of a topic that was deleted and created again since.
    ConnectorOptionError, UnknownTopicOrPartitionError, LogNotFoundError
        As in a read with these options.
    CorruptLogError
        A log is damaged at the end of the range to export.
    """
    root = local_directory_path({"path": os.fspath(path)}, "an export needs")
    checked = options_of_call(root, options)
    if checked.files:
        raise ConnectorOptionError(
            "an export on Spark is of a log directory, and path names files alone: "
            "`segstore export` takes them",
            found=root,
            expected="a log directory",
        )
    folder = os.path.abspath(target)  # noqa: PTH100 - links stay as they are
    make_folder(Path(folder))
    plain = replace(
        checked, min_partitions=None, max_records_per_partition=None, max_bytes_per_partition=None
    )
    wanted = ranges_of(plain)
    there = exported_files(folder)
    source = LocalSource(checked)
    logs = {one.topic_partition: source.open(one.topic_partition) for one in wanted}
    missing: list[OffsetRange] = []
    for offsets in wanted:
        files = [one for one in there if one.partition == offsets.topic_partition]
        log_end_offset = logs[offsets.topic_partition].log_end_offset
        check_same_export(files, offsets, str(checked.isolation), log_end_offset)
        if not files and not offsets.size:  # a log without records is one too
            missing.append(offsets)
        missing += what_is_missing(offsets, [one.offsets for one in files])
    size = checked.max_bytes_per_partition or DEFAULT_BYTES_OF_A_FILE
    parts = cut_by_bytes(missing, logs, size)
    task = ExportTask(checked, folder, compression, wanted)
    stored = {one: stored_bytes(f"{root}/{directory_name(one)}") for one in logs}
    items = [
        JobItem(file_name_of(one), one, size_bytes=min(size, stored[one.topic_partition]))
        for one in parts
    ]
    try:
        return run_job(spark, "export", items, task, progress=progress)
    finally:
        remove_parts(folder, task.run)


class ExportTask:
    """Writes one file; travels pickled to the executors."""

    def __init__(
        self,
        options: ConnectorOptions,
        folder: str,
        compression: str,
        planned: Sequence[OffsetRange] = (),
    ) -> None:
        self._planned = planned
        self._options = options
        self._folder = folder
        self._compression = compression
        self.run = new_run()

    def __call__(self, offsets: OffsetRange) -> dict[str, Any]:
        """Write the file of *offsets*; it appears when it is whole and on stable storage."""
        with LocalSource(self._options).part(offsets) as (log, start, end):
            done = export_range(
                log.scan(start, end, COLUMNS),
                Path(self._folder) / file_name_of(offsets),
                self.run,
                offsets,
                str(self._options.isolation),
                planned=[one for one in self._planned if one.topic == offsets.topic],
                leader_epochs=log.log.leader_epochs,
                compression=self._compression,
            )
        return {"records": done.records, "size_bytes": done.size_bytes}
