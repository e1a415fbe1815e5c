"""Work on many partitions, a Spark task each: results, errors, progress, and what is done already.

A partition that fails is a line of the report and stops no other. With a folder for the state of a
job, results are kept there as they come (`job_state`): a job that was killed goes on with the
partitions that have none, or that have changed since.
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import LongType, StringType, StructField, StructType

from segstore.errors import SegstoreError
from segstore.spark.job_state import JobState, directory_signature

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    Progress = Callable[[str, int, int], None]

POLL_SECONDS: Final = 0.5
_SCHEMA: Final = StructType(
    [
        StructField("number", LongType()),
        StructField("result", StringType()),
        StructField("error", StringType()),
    ]
)


class JobItem(NamedTuple):
    """What one task does.

    Attributes
    ----------
    key : str
        Name of the partition, such as ``orders-0``; part of a file name.
    argument : object
        Travels pickled.
    directory : str or None
        Directory of the partition, if changes of its files mean that the work is done again.
    """

    key: str
    argument: Any
    directory: str | None = None


class ItemResult(NamedTuple):
    """The result of one item.

    Attributes
    ----------
    key : str
        Key of the item.
    result : dict or None
        Plain values, for JSON.
    error : str or None
        Class and text of the error that ended it.
    was_done : bool
        True: an earlier run of the job made the result.
    """

    key: str
    result: dict[str, Any] | None
    error: str | None
    was_done: bool


@dataclass(frozen=True, slots=True)
class JobReport:
    """The results of a job, in the order of its items."""

    name: str
    items: tuple[ItemResult, ...]

    @property
    def ok(self) -> bool:
        """Whether no item failed and no result reports a finding."""
        return all(
            one.error is None and one.result is not None and one.result.get("ok", True)
            for one in self.items
        )

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """Results by key, without failed items."""
        return {one.key: one.result for one in self.items if one.result is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"job": self.name, "ok": self.ok, "items": [one._asdict() for one in self.items]}

    def __str__(self) -> str:
        lines = []
        for one in self.items:
            told = one.error if one.result is None else _words(one.result)
            lines.append(f"{one.key}: {told}{' (done before)' if one.was_done else ''}")
        return "\n".join(lines)


def run_job(  # noqa: PLR0913 - what is done, for whom, who is told
    spark: SparkSession,
    name: str,
    items: Sequence[JobItem],
    task: Callable[[Any], dict[str, Any]],
    *,
    state: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> JobReport:
    """Do *task* for each item in the executors.

    Parameters
    ----------
    spark : SparkSession
        Whose executors work.
    name : str
        Of the job.
    items : sequence of JobItem
        One task each.
    task : callable
        Given an item's argument, returns plain values; a function of a module.
    state : path or None
        A folder that driver and executors reach under this path; made if it is not there.
    progress : callable or None
        ``progress(name, done, total)``, in items, from another thread.
    """
    kept = None if state is None else JobState(state, name)
    done = {} if kept is None else _done_before(kept, items)
    wanted = [(number, one) for number, one in enumerate(items) if number not in done]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield _row_of(wanted[index], task, kept)

    found: dict[int, tuple[str | None, str | None]] = {}
    try:
        if wanted:
            numbers = spark.range(0, len(wanted), 1, len(wanted))
            with _reporting_progress(spark, name, len(done), len(items), progress):
                rows = numbers.mapInArrow(run, _SCHEMA).collect()
            found = {row["number"]: (row["result"], row["error"]) for row in rows}
    finally:
        if kept is not None:
            kept.remove_parts()
    if progress is not None:
        progress(name, len(items), len(items))
    return JobReport(
        name,
        tuple(
            ItemResult(one.key, done[number], None, was_done=True)
            if number in done
            else _result(one.key, *found[number])
            for number, one in enumerate(items)
        ),
    )


def _done_before(state: JobState, items: Sequence[JobItem]) -> dict[int, dict[str, Any]]:
    """Return the results that are there and still hold, by the item's number."""
    done = {}
    for number, item in enumerate(items):
        result = None if item.directory is None else state.read(item.key, item.directory)
        if result is not None:
            done[number] = result
    return done


def _row_of(
    numbered: tuple[int, JobItem],
    task: Callable[[Any], dict[str, Any]],
    state: JobState | None,
) -> pa.RecordBatch:
    import pyarrow as pa

    number, item = numbered
    result = error = None
    try:
        if state is None or item.directory is None:
            result = json.dumps(task(item.argument))
        else:
            before = directory_signature(item.directory)
            found = task(item.argument)
            result = json.dumps(found)
            if before == directory_signature(item.directory):  # nobody has written meanwhile
                state.keep(item.key, item.directory, before, found)
    except (SegstoreError, OSError, MemoryError, pa.ArrowException) as problem:
        error = f"{type(problem).__name__}: {problem}"
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array([number], pa.int64()),
            "result": pa.array([result], pa.string()),
            "error": pa.array([error], pa.string()),
        }
    )


def _result(key: str, result: str | None, error: str | None) -> ItemResult:
    return ItemResult(key, None if result is None else json.loads(result), error, was_done=False)


def _words(values: dict[str, Any]) -> str:
    """Return plain values as a line; lists of them behind it."""
    line = ", ".join(
        f"{name} {value}"
        for name, value in values.items()
        if value not in ([], None) and not isinstance(value, list | dict)
    )
    more = [str(entry) for value in values.values() if isinstance(value, list) for entry in value]
    return "\n  ".join([line, *more])


# ---- progress ------------------------------------------------------------------------------------


@contextmanager
def _reporting_progress(
    spark: SparkSession, name: str, done: int, total: int, progress: Progress | None
) -> Iterator[None]:
    """Tell *progress* how many tasks Spark has completed, now and then."""
    if progress is None:
        yield
        return
    context = spark.sparkContext
    group = f"segstore-{name}-{uuid.uuid4().hex}"
    context.setJobGroup(group, f"segstore {name}")
    stopped = threading.Event()

    def tell() -> None:
        tracker = context.statusTracker()
        while not stopped.wait(POLL_SECONDS):
            stages = [
                tracker.getStageInfo(stage)
                for job in tracker.getJobIdsForGroup(group)
                if (info := tracker.getJobInfo(job)) is not None
                for stage in info.stageIds
            ]
            completed = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            progress(name, min(done + completed, total), total)

    thread = threading.Thread(target=tell, name=group, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        nothing: Any = None
        context.setLocalProperty("spark.jobGroup.id", nothing)
        context.setLocalProperty("spark.job.description", nothing)
