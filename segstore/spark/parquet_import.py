"""Import of an export: the same records at the same offsets, in a new log directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from segstore.spark.directory_option import local_directory_path
from segstore.spark.job_runner import JobItem, JobReport, run_job
from segstore.tables.parquet_transfer import imports_of, topics_of
from segstore.tables.partition_import import checked_codec, import_partition
from segstore.tables.unfinished_imports import MarkedLogs, begins_with_import

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from segstore.spark.job_runner import Progress


def import_parquet(  # noqa: PLR0913 - from where, to where, how
    spark: SparkSession,
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    compression: str | None = None,
    allow_gaps: bool = False,
    progress: Progress | None = None,
) -> JobReport:
    """Create logs from the files of `export_parquet`; a Spark task writes one partition.

    Records come back at their offsets, in the batches that they were in, with producers and
    transaction markers. An export with ``read_committed``, or of an older version, has records
    alone: new batches are made of them. After a killed run, a second one goes on at the end of each
    log. Until then no log of a topic that begins with the import can be opened. After a finished
    run there is nothing to do. `segstore.import_parquet` does it without Spark.

    Parameters
    ----------
    spark : SparkSession
        Session whose executors do the work.
    source : path
        The folder of the export.
    path : path
        The log directory, one for driver and executors; created if missing.
    compression : str or None
        Of the batches: ``none``, ``gzip``, ``snappy``, ``lz4``, ``zstd``. None = as they were.
    allow_gaps : bool
        Whether the export may lack partitions, or offsets of them. Offsets that were passed over
        could not be inserted later.
    progress : callable or None
        ``progress("import", done, total)``, in partitions.

    Returns
    -------
    JobReport
        For each partition ``records``, written by this run, and ``log_end_offset``. A log with
        other records is an error of its partition.

    Raises
    ------
    LogNotFoundError, CorruptLogError, IllegalArgumentError
        There is no export, it is not whole, two of its files have the same offsets, or the
        compression is unknown.
    """
    folder = os.path.abspath(source)  # noqa: PTH100 - links stay as they are
    root = local_directory_path({"path": os.fspath(path)}, "an import needs")
    imports = imports_of(folder, root, checked_codec(compression), allow_gaps=allow_gaps)
    Path(root).mkdir(parents=True, exist_ok=True)
    items = [JobItem(name, work) for name, work in imports.items()]
    new = {name: work for name, work in imports.items() if begins_with_import(work.directory)}
    marked = {}
    failed = {*imports}
    try:
        for topic in topics_of(new):
            starts = {work.directory: work.first_offset for work in topic.values()}
            marked[frozenset(topic)] = MarkedLogs(starts)
        report = run_job(spark, "import", items, import_partition, progress=progress)
        failed = {one.key for one in report.items if one.error is not None}
    finally:
        for names, logs in marked.items():
            if names.isdisjoint(failed):
                logs.finish()
            else:
                logs.give_up()
    return report
