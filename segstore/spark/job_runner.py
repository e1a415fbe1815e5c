"""Work on many partitions in Spark tasks: results, errors, progress, and what is done already.

A partition that fails is a line of the report and stops no other. With a folder for the state of a
job, results are kept there as they come (`job_state`): a job that was killed goes on with the
partitions that have none, or that have changed since.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import LongType, StringType, StructField, StructType

from segstore.errors import SegstoreError
from segstore.notebook import text_as_html
from segstore.spark.job_state import JobState, directory_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Progress = Callable[[str, int, int], None]

POLL_SECONDS: Final = 0.5
TASKS_A_CORE: Final = 4
MOST_BYTES_OF_A_TASK: Final = 1024 * 1024 * 1024
"""Eight times Spark's for files: a task costs 50 ms of CPU time before it does anything."""
OPEN_COST_BYTES: Final = 4 * 1024 * 1024
"""What the open of a partition counts as; Spark's default for files."""
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
    size_bytes : int or None
        How much work it is; items with a size may share a task. None = it has a task of its own.
    """

    key: str
    argument: Any
    directory: str | None = None
    size_bytes: int | None = None


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
    """The results of a job, in the order of its items.

    Attributes
    ----------
    name : str
        The job.
    items : tuple of ItemResult
        One for each partition.
    columns : mapping of str to str or None
        Spark's type by name of a result; None = results of this job have other names each.
    """

    name: str
    items: tuple[ItemResult, ...]
    columns: Mapping[str, str] | None = None

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

    def to_dataframe(self, spark: SparkSession) -> DataFrame:
        """Return a row for each partition: ``key``, ``error``, ``was_done``, and its result.

        The result is in the columns of `columns`, or else JSON in the column ``result``.
        """
        columns = self.columns or {"result": "string"}
        types = {"key": "string", "error": "string", "was_done": "boolean", **columns}
        rows = []
        for one in self.items:
            values = one.result or {}
            if self.columns is None:
                values = {"result": None if one.result is None else json.dumps(one.result)}
            rows.append((one.key, one.error, one.was_done, *(values.get(name) for name in columns)))
        schema = ", ".join(f"`{name}` {type_}" for name, type_ in types.items())
        return spark.createDataFrame(rows, schema)

    _repr_html_ = text_as_html

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
    columns: Mapping[str, str] | None = None,
) -> JobReport:
    """Do *task* for each item in the executors.

    Parameters
    ----------
    spark : SparkSession
        Whose executors work.
    name : str
        Of the job.
    items : sequence of JobItem
        One task each, but for small ones (`packed_items`).
    task : callable
        Given an item's argument, returns plain values; a function of a module.
    state : path or None
        A folder that driver and executors reach under this path; made if it is not there.
    progress : callable or None
        ``progress(name, done, total)``, in items, from another thread. Items that share a task
        count in equal parts.
    columns : mapping of str to str or None
        See `JobReport`.
    """
    kept = None if state is None else JobState(state, name)
    done = {} if kept is None else _done_before(kept, items)
    wanted = [(number, one) for number, one in enumerate(items) if number not in done]
    tasks: list[list[tuple[int, JobItem]]] = []
    if wanted:  # with nothing to do no session is asked
        tasks = packed_items(wanted, cores=spark.sparkContext.defaultParallelism)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for numbered in tasks[index]:
                    yield _row_of(numbered, task, kept)

    found: dict[int, tuple[str | None, str | None]] = {}
    try:
        if tasks:
            numbers = spark.range(0, len(tasks), 1, len(tasks))
            a_task = len(wanted) / len(tasks)
            with _reporting_progress(spark, name, len(done), len(items), a_task, progress):
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
        columns,
    )


def stored_bytes(directory: str) -> int:
    """Return the bytes of a partition's ``.log`` files, as a `JobItem` has them."""
    size = 0
    with suppress(FileNotFoundError), os.scandir(directory) as entries:  # its writer deletes
        for one in entries:
            size += one.stat().st_size if one.name.endswith(".log") else 0
    return size


def packed_items(
    items: Sequence[tuple[int, JobItem]],
    *,
    cores: int,
    most_bytes: int = MOST_BYTES_OF_A_TASK,
    open_cost_bytes: int = OPEN_COST_BYTES,
) -> list[list[tuple[int, JobItem]]]:
    """Return the items of each task: the largest first, small ones together.

    A task gets items up to *most_bytes*, or less where each core would have fewer than four tasks.
    Each item counts *open_cost_bytes* more than it has.

    Source: Spark's ``FilePartition.getFilePartitions``.
    """
    tasks = [[one] for one in items if one[1].size_bytes is None]
    costs = [
        (item.size_bytes + open_cost_bytes, (n, item))
        for n, item in items
        if item.size_bytes is not None
    ]
    costs.sort(key=lambda one: -one[0])
    a_task = sum(cost for cost, _ in costs) // (cores * TASKS_A_CORE)
    target = min(most_bytes, max(open_cost_bytes, a_task))
    room = 0
    for cost, one in costs:
        if cost > room:
            tasks.append([])
            room = target
        tasks[-1].append(one)
        room -= cost
    return tasks


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
    more = [
        _words(entry) if isinstance(entry, dict) else str(entry)
        for value in values.values()
        if isinstance(value, list)
        for entry in value
    ]
    return "\n  ".join([line, *more])


# ---- progress ------------------------------------------------------------------------------------


@contextmanager
def _reporting_progress(  # noqa: PLR0913 - what is counted, who is told
    spark: SparkSession,
    name: str,
    done: int,
    total: int,
    a_task: float,
    progress: Progress | None,
) -> Iterator[None]:
    """Tell *progress* now and then how many items, *a_task* each, Spark has completed."""
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
            progress(name, min(done + int(completed * a_task), total), total)

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
