"""Work on ranges of logs through ``mapInArrow``.

The other door beside the data source: Spark counts no rows on the way, so it is faster, and what is
to be read is an argument. A task gets its ranges by number, from a list that travels with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.driver_warning import warn
from segstore.spark.log_source import source_of
from segstore.spark.metadata_schema import RECORDS, kind_of
from segstore.spark.offsets import plan_ranges, tasks_of
from segstore.spark.option_names import READ_OPTIONS, refuse_unknown_options
from segstore.spark.options import files_at_path, parse_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from segstore.spark.options import ConnectorOptions
    from segstore.spark.visible_log import PlannedLog
    from segstore.tables.offset_ranges import OffsetRange

_CHOICES: Final = frozenset({"subscribe", "subscribepattern", "assign"})


def options_of_call(path: str, options: Mapping[str, Any]) -> ConnectorOptions:
    """Check what a function was given: options by keyword, numbers and booleans as they are.

    Without ``subscribe``, ``subscribePattern`` and ``assign`` it is every topic but internal ones.

    Raises
    ------
    ConnectorOptionError
        Also for a name that is no option: a choice of topics that is misspelt would be none.
    """
    refuse_unknown_options(options, READ_OPTIONS)
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
    kind = kind_of(given)
    if kind != RECORDS:
        raise ConnectorOptionError(
            f"kind={kind} is for spark.read.format('segstore'): this function is for records",
            found=kind,
            expected=RECORDS,
        )
    is_chosen = {name.lower() for name in given} & _CHOICES
    if not is_chosen and not files_at_path({"path": str(path)}):
        given["subscribePattern"] = ".*"
    parsed = parse_options({**given, "path": str(path)})
    for text in parsed.warnings:
        warn(text)
    return parsed


def ranges_of(
    options: ConnectorOptions,
    narrow: Callable[[OffsetRange, PlannedLog], OffsetRange | None] | None = None,
) -> list[OffsetRange]:
    """Fix the offsets to read; *narrow* leaves out what is not wanted, before ranges are cut."""
    source = source_of(options)
    return plan_ranges(options, source.partitions(), source.open, warn, narrow)


def map_ranges(
    spark: SparkSession,
    options: ConnectorOptions,
    ranges: Sequence[OffsetRange],
    task: Callable[[OffsetRange], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """Return what *task* yields for each of *ranges*; it runs in the executors, pickled.

    The *options* say how many of them share a Spark task.
    """
    wanted = tasks_of(options, ranges)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for offsets in wanted[number]:
                    yield from task(offsets)

    numbers = spark.range(0, len(wanted), 1, max(1, len(wanted)))
    return numbers.mapInArrow(run, schema)
