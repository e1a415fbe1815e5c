"""Jobs over many partitions, each a function here and a command of ``python -m segstore.spark``.

A Spark task works on one partition. All of them may be repeated: what is done stays done.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from segstore.log.files.partition_directory import directory_name
from segstore.manager.partition_directories import partitions_with_logs
from segstore.spark.compaction_plan import plan_compaction_of
from segstore.spark.directory_option import local_directory_path
from segstore.spark.driver_warning import warn
from segstore.spark.job_runner import ItemResult, JobItem, JobReport, run_job
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.offsets import choose_partitions
from segstore.spark.parquet_export import export_parquet
from segstore.spark.parquet_import import import_parquet
from segstore.spark.partition_jobs import recover_partition, stats_of_partition, verify_partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from segstore.spark.job_runner import Progress

    Path = str | os.PathLike[str]

__all__ = [
    "ItemResult",
    "JobReport",
    "export_parquet",
    "import_parquet",
    "plan_compaction",
    "recover",
    "stats",
    "verify",
]


def verify(
    spark: SparkSession,
    path: Path,
    *,
    state: Path | None = None,
    progress: Progress | None = None,
    **topics: str,
) -> JobReport:
    """Check every batch and every index entry; writes nothing to the logs.

    Parameters
    ----------
    spark : SparkSession
        Whose executors do it.
    path : path
        The log directory.
    state : path or None
        A folder, reachable by all, that keeps results: a partition whose files have not changed
        since is not checked again. Of one that somebody writes meanwhile nothing is kept. A folder
        with results of another log directory is an `IllegalArgumentError`.
    progress : callable or None
        ``progress("verify", done, total)``, in partitions.
    **topics
        ``subscribe``, ``subscribePattern`` or ``assign`` as of ``format("segstore")``; none: all
        but internal topics.

    Returns
    -------
    JobReport
        ``ok``, and by partition ``ok``, offsets, counts, ``problems`` and ``quarantined`` files.

    Raises
    ------
    ConnectorOptionError, UnknownTopicOrPartitionError, LogNotFoundError
        The choice of topics, or the path; damage is a result.
    """
    items = _items(path, topics)
    return run_job(spark, "verify", items, verify_partition, state=state, progress=progress)


def recover(
    spark: SparkSession,
    path: Path,
    *,
    progress: Progress | None = None,
    **topics: str,
) -> JobReport:
    """Open every log for writing, which repairs what a crash left, and close it cleanly.

    A second run opens clean logs, which is nothing. Parameters as those of `verify`, but it keeps
    no results. They are those of ``log.report``; ``ok`` says that no bytes
    of records were cut or set aside. A log that somebody writes is an error of that partition.
    """
    items = _items(path, topics)
    return run_job(spark, "recover", items, recover_partition, progress=progress)


def stats(
    spark: SparkSession,
    path: Path,
    *,
    state: Path | None = None,
    progress: Progress | None = None,
    **topics: str,
) -> JobReport:
    """Count records, batches, bytes, codecs by batch headers; tell offsets and timestamps in ms.

    Parameters as those of `verify`. ``ok`` is false where the log ends at damage, which
    ``problems`` says: what is counted is what lies before.
    """
    items = _items(path, topics)
    return run_job(spark, "stats", items, stats_of_partition, state=state, progress=progress)


def plan_compaction(
    spark: SparkSession,
    path: Path,
    *,
    state: Path | None = None,
    progress: Progress | None = None,
    **topics: str,
) -> JobReport:
    """Say what compaction by key would leave of each log; a plan, nothing is changed.

    Parameters as those of `verify`. By partition: the range of offsets that would be compacted
    (sealed segments, up to the first open transaction), its records and those of them that would
    stay, tombstones among these, records without a key (which go), and bytes of keys and values;
    ``ok`` and ``problems`` as those of `stats`.
    """
    items = _items(path, topics)
    return run_job(
        spark, "plan_compaction", items, plan_compaction_of, state=state, progress=progress
    )


def _items(path: Path, topics: dict[str, str]) -> list[JobItem]:
    root = local_directory_path({"path": os.fspath(path)}, "this job needs")
    options = options_of_call(root, topics)
    chosen = choose_partitions(options, partitions_with_logs(root), warn)
    directories = [directory_name(partition) for partition in chosen]
    return [JobItem(name, f"{root}/{name}", f"{root}/{name}") for name in directories]


COMMANDS: dict[str, Callable[..., Any]] = {
    "verify": verify,
    "recover": recover,
    "stats": stats,
    "plan-compaction": plan_compaction,
    "export": export_parquet,
    "import": import_parquet,
}
"""Function by the name of the command."""
