"""Jobs over many partitions, each a function here and a command of ``python -m segstore.spark``.

One Spark task works on one partition. You can repeat a job: finished work stays done.
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
        Session whose executors do the work.
    path : path
        The log directory.
    state : path or None
        A folder for results that driver and executors reach. A partition whose files have not
        changed since is not checked again. No result is kept for a partition that changes during
        its check. A folder with results of another log directory is an `IllegalArgumentError`.
    progress : callable or None
        ``progress("verify", done, total)``, in partitions.
    **topics
        ``subscribe``, ``subscribePattern`` or ``assign`` as for ``format("segstore")``. Default:
        all topics except internal ones.

    Returns
    -------
    JobReport
        ``ok``, and for each partition ``ok``, offsets, counts, ``problems`` and ``quarantined``.

    Raises
    ------
    ConnectorOptionError, UnknownTopicOrPartitionError, LogNotFoundError
        The topics or the path are wrong. Damage is a result, not an error.
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

    A second run finds clean logs and changes nothing. Parameters are those of `verify`, without
    *state*. Results are those of ``log.report``; ``ok`` means that no record bytes were cut or
    quarantined. A log that another process has open for writing is an error of that partition.
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
    """Count records, batches, bytes and codecs by batch headers; report offsets and times in ms.

    Parameters are those of `verify`. ``ok`` is False when the log ends at damage, which
    ``problems`` describes; only the part before the damage is counted.
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
    """Report what compaction by key would keep of each log; nothing is changed.

    Parameters are those of `verify`. The result for a partition has the range of offsets to
    compact: sealed segments, up to the first open transaction. It counts the records there, those
    that would stay, tombstones among these, records without a key (which are removed), and bytes of
    keys and values. ``ok`` and ``problems`` are those of `stats`.
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
