"""Jobs over many partitions, each a function here and a command of ``python -m segstore.spark``.

A Spark task works on one partition, or on several small ones. You can repeat a job: finished work
stays done.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from segstore.arguments import integer, seconds, timestamp
from segstore.errors import IllegalArgumentError
from segstore.log.cleaning.cleaner import DEFAULT_MAP_BYTES
from segstore.log.files.partition_directory import directory_name
from segstore.manager.log_directory import distinct_paths
from segstore.manager.log_manager import open_dir
from segstore.manager.partition_directories import partitions_with_logs
from segstore.spark.compaction_plan import plan_compaction_of
from segstore.spark.directory_option import local_directory_path
from segstore.spark.driver_warning import warn
from segstore.spark.job_runner import ItemResult, JobItem, JobReport, run_job, stored_bytes
from segstore.spark.maintenance_jobs import (
    COMPACT,
    MAINTAIN,
    MAINTENANCE_COLUMNS,
    RETAIN,
    MaintenanceTask,
    maintain_partition,
)
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.offsets import choose_partitions
from segstore.spark.parquet_export import export_parquet
from segstore.spark.parquet_import import import_parquet
from segstore.spark.partition_jobs import recover_partition, stats_of_partition, verify_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from pyspark.sql import SparkSession

    from segstore.manager.log_directory import PathOrPaths
    from segstore.spark.job_runner import Progress
    from segstore.types import TopicPartition

    Path = str | os.PathLike[str]

__all__ = [
    "ItemResult",
    "JobReport",
    "compact",
    "export_parquet",
    "import_parquet",
    "maintain",
    "plan_compaction",
    "recover",
    "retain",
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


# ---- maintenance ---------------------------------------------------------------------------------


def compact(  # noqa: PLR0913 - keywords of users
    spark: SparkSession,
    path: PathOrPaths,
    *,
    now: int | datetime | None = None,
    min_dirty_ratio: float | None = None,
    memory_bytes: int = DEFAULT_MAP_BYTES,
    lock_timeout: float = 0.0,
    progress: Progress | None = None,
    **topics: str,
) -> JobReport:
    """Keep the last record of each key, in topics whose ``cleanup.policy`` has ``compact``.

    A task opens one partition at a time, under its lock, and does what ``log.compact()`` does. It
    goes by the settings that the directory has for the topic. Programs go on with all other
    partitions meanwhile. A partition that another process writes is left alone: ``is_locked``.

    A second run finds nothing to do. A task that is killed leaves a whole log, and is repeated by
    Spark. The passes that it has finished are then missing in the report.

    Parameters
    ----------
    spark : SparkSession
        Session whose executors do the work.
    path : path or sequence of paths
        The log directory, or several.
    now : int, datetime or None
        For tests: the time, in ms since 1970. None = the clock of each executor.
    min_dirty_ratio : float or None
        A log is compacted when more than this part of it is dirty, 0 to 1, or when
        ``max.compaction.lag.ms`` are over. None = whatever the ratio.
    memory_bytes : int
        For the keys of a pass, 24 bytes each. With more keys there are several passes.
    lock_timeout : float
        How long a task waits for a partition that another process writes, in seconds.
    progress : callable or None
        ``progress("compact", done, total)``, in partitions.
    **topics
        As for `verify`. A topic that is named and is not compacted is left out, with a warning.

    Returns
    -------
    JobReport
        For each partition ``is_locked``, offsets, sizes, the numbers of its passes by Kafka's
        names, ``problems``. `JobReport.to_dataframe` has them as columns. ``ok`` is False where a
        partition failed, or has problems.

    Raises
    ------
    ConnectorOptionError, UnknownTopicOrPartitionError, LogNotFoundError
        The topics or a path are wrong.
    CorruptCheckpointError, UnsupportedFormatError, CorruptLogError
        The settings of a directory's topics cannot be read: nothing is done [DUR-128].

    Source: [CLN-30…CLN-40, DUR-125, DUR-126].
    """
    if min_dirty_ratio is not None and not 0 <= min_dirty_ratio <= 1:
        raise IllegalArgumentError(
            "min_dirty_ratio is a part of a log, 0 to 1",
            found=str(min_dirty_ratio),
            expected="0 to 1",
        )
    template = _task(COMPACT, now, lock_timeout)._replace(
        min_dirty_ratio=min_dirty_ratio, memory_bytes=integer("memory_bytes", memory_bytes)
    )
    return _run_maintenance(spark, path, template, progress, topics)


def retain(
    spark: SparkSession,
    path: PathOrPaths,
    *,
    now: int | datetime | None = None,
    lock_timeout: float = 0.0,
    progress: Progress | None = None,
    **topics: str,
) -> JobReport:
    """Delete the segments that ``retention.ms`` and ``retention.bytes`` of topics do not keep.

    Topics without a limit lose nothing. Parameters, results and errors are those of `compact`.
    ``deleted`` lists the segments, each with the ``limit`` by which it went.

    Source: [RTN-2…RTN-15].
    """
    return _run_maintenance(spark, path, _task(RETAIN, now, lock_timeout), progress, topics)


def maintain(  # noqa: PLR0913 - keywords of users
    spark: SparkSession,
    path: PathOrPaths,
    *,
    now: int | datetime | None = None,
    memory_bytes: int = DEFAULT_MAP_BYTES,
    lock_timeout: float = 0.0,
    progress: Progress | None = None,
    **topics: str,
) -> JobReport:
    """Do retention, then compaction, where the settings of topics say that it is due.

    As `LogManager.maintain` does it, for directories that no process owns. A log is compacted when
    more than ``min.cleanable.dirty.ratio`` of it is dirty, or ``max.compaction.lag.ms`` are over.
    Parameters, results and errors are those of `compact` and `retain`.

    Source: [RTN-2…RTN-15, CLN-39].
    """
    template = _task(MAINTAIN, now, lock_timeout)._replace(
        memory_bytes=integer("memory_bytes", memory_bytes)
    )
    return _run_maintenance(spark, path, template, progress, topics)


def _task(job: str, now: int | datetime | None, lock_timeout: float) -> MaintenanceTask:
    now_ms = None if now is None else timestamp("now", now)
    return MaintenanceTask(job, now_ms=now_ms, lock_timeout=seconds("lock_timeout", lock_timeout))


def _run_maintenance(
    spark: SparkSession,
    path: PathOrPaths,
    template: MaintenanceTask,
    progress: Progress | None,
    topics: dict[str, str],
) -> JobReport:
    is_speculative = spark.conf.get("spark.speculation", "false") == "true"
    template = template._replace(is_speculative=is_speculative)
    items = [*_maintenance_items(path, template, topics)]
    return run_job(
        spark,
        template.job,
        items,
        maintain_partition,
        progress=progress,
        columns=MAINTENANCE_COLUMNS,
    )


def _maintenance_items(
    path: PathOrPaths, template: MaintenanceTask, topics: dict[str, str]
) -> Iterator[JobItem]:
    """Yield the partitions of the topics that the job is for, by what they were given."""
    paths = [path] if isinstance(path, str | os.PathLike) else path
    roots = distinct_paths(
        [local_directory_path({"path": os.fspath(one)}, "this job needs") for one in paths]
    )
    found = {root: partitions_with_logs(root) for root in roots}
    options = options_of_call(roots[0], topics)
    chosen = set(choose_partitions(options, {one for ones in found.values() for one in ones}, warn))
    for root, partitions in found.items():
        there = [one for one in partitions if one in chosen]
        wanted = _topics_to_maintain(root, template.job, {one.topic for one in there})
        if options.choice.pattern is None:
            for topic in {one.topic for one in there} - wanted:
                warn(f"nothing in topic {topic!r} of {root} to {template.job}, by its settings")
        for partition in there:
            if partition.topic in wanted:
                yield _maintenance_item(root, partition, template, is_alone=len(roots) == 1)


def _maintenance_item(
    root: str, partition: TopicPartition, template: MaintenanceTask, *, is_alone: bool
) -> JobItem:
    name = directory_name(partition)
    path = f"{root}/{name}"
    task = template._replace(
        directory=root, topic=partition.topic, partition=partition.partition, path=path
    )
    return JobItem(name if is_alone else path, task, size_bytes=stored_bytes(path))


def _topics_to_maintain(root: str, job: str, topics: set[str]) -> set[str]:
    """Return the topics whose settings say that there may be something to do."""
    wanted = set()
    with closing(open_dir(root, read_only=True)) as logs:
        for topic in topics:
            values = {one.name: one.value for one in logs.describe_topic(topic).settings}
            policies = values["cleanup.policy"]
            policies = policies if isinstance(policies, tuple) else ("delete",)
            limits = [values[key] for key in ("retention.ms", "retention.bytes")]
            is_limited = "delete" in policies and any(
                isinstance(one, int) and one >= 0 for one in limits
            )
            is_compacted = "compact" in policies
            if (is_limited and job != COMPACT) or (is_compacted and job != RETAIN):
                wanted.add(topic)
    return wanted


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
    "compact": compact,
    "retain": retain,
    "maintain": maintain,
    "export": export_parquet,
    "import": import_parquet,
}
"""Function by the name of the command."""
