"""What the jobs `compact`, `retain` and `maintain` do with one partition, under its lock.

The log is opened alone: by the settings that the directory above has for its topic. How far it is
clean is in its own ``.segstore``, as for a pass of a manager, so tasks share no file [DUR-126].
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.errors import LogLockedError, SegstoreError
from segstore.log.cleaning.cleaner import DEFAULT_MAP_BYTES
from segstore.spark.partition_jobs import open_existing

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.cleaning.cleaner_stats import CleanerStats
    from segstore.log.retention_plan import DeletedSegment
    from segstore.log.unified_log import UnifiedLog

COMPACT: Final = "compact"
RETAIN: Final = "retain"
MAINTAIN: Final = "maintain"

MAINTENANCE_COLUMNS: Final = {
    "directory": "string",
    "topic": "string",
    "partition": "int",
    "ok": "boolean",
    "is_locked": "boolean",
    "cleanup_policy": "string",
    "log_start_offset": "bigint",
    "log_end_offset": "bigint",
    "size_bytes_before": "bigint",
    "size_bytes": "bigint",
    "segments_deleted": "int",
    "bytes_deleted": "bigint",
    "deleted": "array<struct<base_offset: bigint, next_offset: bigint, size_bytes: bigint,"
    " largest_timestamp: bigint, limit: string>>",
    "passes": "int",
    "end_offset": "bigint",
    "map_bytes_read": "bigint",
    "map_messages_read": "bigint",
    "bytes_read": "bigint",
    "messages_read": "bigint",
    "invalid_messages_read": "bigint",
    "bytes_written": "bigint",
    "messages_written": "bigint",
    "buffer_utilization": "double",
    "elapsed_index_secs": "double",
    "elapsed_secs": "double",
    "problems": "array<string>",
}
"""Type by name of what a task returns. Those of a pass are Kafka's, null where there was none."""

_SUMS: Final = (
    "map_bytes_read",
    "map_messages_read",
    "bytes_read",
    "messages_read",
    "invalid_messages_read",
    "bytes_written",
    "messages_written",
    "elapsed_index_secs",
    "elapsed_secs",
)
_SECONDS_OF_ANOTHER_ATTEMPT: Final = 600.0


class MaintenanceTask(NamedTuple):
    """What is done with one partition.

    Attributes
    ----------
    job : str
        ``compact``, ``retain`` or ``maintain``.
    directory, topic, partition : str, str, int
        The log directory, and which log of it.
    path : str
        The directory of the log.
    now_ms : int or None
        The time by which segments and records are old, in ms since 1970; None = now.
    min_dirty_ratio : float or None
        `compact` does nothing where less is dirty; None = it compacts whatever the ratio.
    memory_bytes : int
        For the keys of a pass.
    lock_timeout : float
        How long to wait for another writer, in seconds.
    is_speculative : bool
        Whether Spark may run a task twice at the same time.
    """

    job: str
    directory: str = ""
    topic: str = ""
    partition: int = 0
    path: str = ""
    now_ms: int | None = None
    min_dirty_ratio: float | None = None
    memory_bytes: int = DEFAULT_MAP_BYTES
    lock_timeout: float = 0.0
    is_speculative: bool = False


def maintain_partition(task: MaintenanceTask) -> dict[str, Any]:
    """Do what is due, and close the log cleanly; a log that another process writes is left alone.

    That is a finding where the task has waited in vain.

    Returns
    -------
    dict
        A value for each of `MAINTENANCE_COLUMNS`.
    """
    result = dict.fromkeys(MAINTENANCE_COLUMNS)
    result |= {"directory": task.directory, "topic": task.topic, "partition": task.partition}
    try:
        log = _open(task)
    except LogLockedError as error:
        if _is_copy(task):
            # a result, or an error that the job knows: Spark would take it, and kill the first one
            raise RuntimeError(
                f"another writer has {task.path}: an earlier attempt may work there"
            ) from error
        if task.lock_timeout > 0:  # the caller asked to wait: the work is not done
            problems = [f"{type(error).__name__}: {error}"]
            return {**result, "ok": False, "is_locked": True, "problems": problems}
        return {**result, "ok": True, "is_locked": True, "problems": []}
    with log:
        found = _maintain(log, task)
    return {**result, **found}


def _open(task: MaintenanceTask) -> UnifiedLog:
    """Open for writing; wait for the lock as long as the task may.

    A second attempt may run beside the first one, whose result Spark takes: it waits for that.
    """
    seconds = task.lock_timeout
    if _is_copy(task):
        seconds = max(seconds, _SECONDS_OF_ANOTHER_ATTEMPT)
    return open_existing(task.path, seconds)


def _is_copy(task: MaintenanceTask) -> bool:
    """Whether an earlier attempt may still work on the partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return task.is_speculative and context is not None and context.attemptNumber() > 0


def _maintain(log: UnifiedLog, task: MaintenanceTask) -> dict[str, Any]:
    deleted: list[DeletedSegment] = []
    passes: list[CleanerStats] = []
    problems: list[str] = []
    size_before = _size_of(log)

    def try_to(step: Callable[[], object]) -> None:
        try:
            step()
        except SegstoreError as error:  # the other step is done all the same [DUR-131]
            problems.append(f"{type(error).__name__}: {error}")

    if task.job != COMPACT:
        try_to(lambda: log._run_retention(deleted, task.now_ms))  # noqa: SLF001 - as a manager
    if task.job != RETAIN:
        try_to(lambda: passes.extend(_compact(log, task)))
    return {
        "ok": not problems,
        "is_locked": False,
        "cleanup_policy": log.config.cleanup_policy,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "size_bytes_before": size_before,
        "size_bytes": _size_of(log),
        "segments_deleted": len(deleted),
        "bytes_deleted": sum(one.size_bytes for one in deleted),
        "deleted": [
            {
                "base_offset": one.base_offset,
                "next_offset": one.next_offset,
                "size_bytes": one.size_bytes,
                "largest_timestamp": one.largest_timestamp,
                "limit": one.limit.value.replace("_", "."),
            }
            for one in deleted
        ],
        **_numbers_of(passes),
        "problems": problems,
    }


def _compact(log: UnifiedLog, task: MaintenanceTask) -> list[CleanerStats]:
    if "compact" not in log.config.cleanup_policies or log.remote_log_enabled:
        return []
    now_ms = time.time_ns() // 1_000_000 if task.now_ms is None else task.now_ms
    ratio = task.min_dirty_ratio
    if task.job == MAINTAIN:
        ratio = log.config.min_cleanable_dirty_ratio
    if ratio is not None and not log._dirty_part(now_ms).is_due(ratio):  # noqa: SLF001 - as above
        return []
    return log.compact(memory_bytes=task.memory_bytes, now_ms=task.now_ms)


def _numbers_of(passes: list[CleanerStats]) -> dict[str, Any]:
    if not passes:
        return {"passes": 0}
    return {
        "passes": len(passes),
        "end_offset": passes[-1].end_offset,
        **{name: sum(getattr(one, name) for one in passes) for name in _SUMS},
        "buffer_utilization": max(one.buffer_utilization for one in passes),
    }


def _size_of(log: UnifiedLog) -> int:
    return sum(segment.size_bytes for segment in log.segments())
