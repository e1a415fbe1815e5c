"""Logs and topics as lazy frames of polars, of which a query reads what it needs.

``segstore.polars.scan_log("data/orders-0")`` is a ``polars.LazyFrame``. Before a query is collected
nothing is read, and no file is open. Then the log is opened read-only, as it is at that moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager, nullcontext
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import segstore
from segstore._core import ArrowStream, ColumnDecoder
from segstore.arguments import partition_numbers, path_text
from segstore.errors import NotALogError
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.lone_files import Paths, absolute_paths
from segstore.log.lone_segment import open_to_read
from segstore.log.matching_parts import ArrowFilter
from segstore.log.scan import LogQuery, checked_columns
from segstore.records.columns import MAX_BATCH_ROWS
from segstore.records.compression import codec_table
from segstore.remote.bucket import Bucket
from segstore.remote.bucket_path import find_bucket
from segstore.remote.urls import is_url, shown_url
from segstore.tables.topic_scan import checked_query

try:
    import polars as pl
    import pyarrow as pa
    from polars.io.plugins import register_io_source
    from pyarrow import dataset
except ImportError as error:
    message = "lazy frames need polars and pyarrow: pip install 'segstore[polars]'"
    raise ImportError(message) from error

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Unpack

    from segstore.log.lone_segment import LoneSegment
    from segstore.log.record_dataset import RecordDataset
    from segstore.log.scan import LogQueryOptions
    from segstore.log.unified_log import Log
    from segstore.manager.log_manager import LogManager
    from segstore.tables.topic_scan import UnorderedQuery

__all__ = ["scan_log", "scan_topic"]


def scan_log(
    path: Paths, *, as_: str | None = None, **query: Unpack[LogQueryOptions]
) -> pl.LazyFrame:
    """Return the records of one partition as a lazy frame.

    A filter on ``offset`` or ``timestamp`` decides which part of the log is read; columns that the
    query does not use are not decoded; ``head`` ends the reading. The rest of a filter is applied
    to each batch of rows by polars. ``explain()`` shows what was pushed down.

    Parameters
    ----------
    path : path, or sequence of paths
        The directory of a partition, ``<topic>-<number>``; or ``.log`` files, a pattern or an
        archive, as for `segstore.open_segment`. Or a partition of a tiered bucket, as
        ``s3://bucket/prefix/orders-0``: its keys and settings come from the environment.
    as_ : str or None
        Name ``<topic>-<partition>`` for the records, as for `segstore.open_segment`.
    **query
        As for `Log.scan`: columns, bounds, isolation, check_crcs, on_damage.

    Returns
    -------
    polars.LazyFrame
        Each ``collect`` opens the log read-only, and sees what is there then.

    Raises
    ------
    IllegalArgumentError
        A reversed range, or an unknown column.
    NotALogError
        *as_* is not the name of a partition.
    ImportError
        When polars or pyarrow is not installed.
    SegstoreError
        From ``collect``: what `segstore.open` and `Log.scan` raise. Polars 1 gives its text in an
        error of its own.
    """
    paths = [path] if isinstance(path, str) and is_url(path) else absolute_paths(path)
    if as_ is not None:
        parse_directory_name(as_)
    query["columns"] = columns = checked_columns(query.get("columns"))
    LogQuery.of(**query)

    @contextmanager
    def opened() -> Iterator[RecordDataset]:
        with _partition(paths, as_) as log:
            yield log.dataset(**query)

    return _lazy_frame(columns, opened)


def scan_topic(
    directory: str | os.PathLike[str] | Bucket, topic: str, **query: Unpack[UnorderedQuery]
) -> pl.LazyFrame:
    """Return the records of a topic, of all its partitions, as a lazy frame.

    As `scan_log`. A filter on ``partition`` decides which logs are read.

    Parameters
    ----------
    directory : path or Bucket
        The log directory, which has the directories of the partitions. Or a tiered bucket: from
        `segstore.open_bucket`, or by its folder or URL, and keys and settings come from the
        environment.
    topic : str
        Its name.
    **query
        As for `LogManager.scan`: columns, bounds, partitions, isolation, on_damage.

    Returns
    -------
    polars.LazyFrame
        Each ``collect`` opens the directory read-only, and sees what is there then.

    Raises
    ------
    IllegalArgumentError
        A reversed range, or an unknown column.
    ImportError
        When polars or pyarrow is not installed.
    SegstoreError
        From ``collect``: what `segstore.open_dir` and `LogManager.scan` raise.
    """
    where = directory if isinstance(directory, Bucket) else path_text("directory", directory)
    query["columns"] = columns = checked_columns(query.get("columns"))
    bounds = (query.get("start_offset"), query.get("end_offset"))
    numbers = {0, *(number for bound in bounds if isinstance(bound, Mapping) for number in bound)}
    partitions = query.get("partitions")
    if partitions is not None:
        query["partitions"] = numbers = {*partition_numbers(partitions)}
    checked = checked_query(numbers, **query)

    @contextmanager
    def opened() -> Iterator[RecordDataset]:
        with _logs(where) as logs:
            yield logs.dataset(topic, **checked)

    return _lazy_frame(columns, opened)


def _partition(paths: list[str], as_: str | None) -> AbstractContextManager[Log | LoneSegment]:
    """Open what the paths are, or one partition of a bucket."""
    found = find_bucket(paths[0]) if len(paths) == 1 else None
    bucket, partition = found or (None, None)
    if bucket is not None and partition is not None:
        return bucket.open(*partition)
    if is_url(paths[0]):
        raise NotALogError(
            "at this URL is no partition of a tiered bucket",
            file=shown_url(paths[0]),
            found="no folder <topic>-<topic id> in the one above",
            expected="a URL as s3://bucket/prefix/orders-0",
        )
    return open_to_read(paths, as_=as_)


def _logs(where: str | Bucket) -> AbstractContextManager[LogManager | Bucket]:
    """Open a log directory, or a bucket; a bucket of a user stays open."""
    if isinstance(where, Bucket):
        return nullcontext(where)
    found = find_bucket(where)
    return segstore.open_dir(where, read_only=True) if found is None else found[0]


def _lazy_frame(
    columns: tuple[str, ...], opened: Callable[[], AbstractContextManager[RecordDataset]]
) -> pl.LazyFrame:
    """Return a lazy frame over the rows of a dataset that is opened for each query."""

    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        with opened() as records:
            yield from _frames(records, with_columns or [*columns], predicate, n_rows, batch_size)

    nothing = ArrowStream(ColumnDecoder(codec_table(), columns), iter(()))
    return register_io_source(frames, schema=pl.DataFrame(nothing).schema, is_pure=True)


def _frames(
    records: RecordDataset,
    columns: list[str],
    predicate: pl.Expr | None,
    n_rows: int | None,
    batch_size: int | None,
) -> Iterator[pl.DataFrame]:
    """Yield the rows of one query.

    Polars means the first *n_rows* that there are, and the predicate is about them.
    """
    rows = min(one for one in (batch_size, n_rows, MAX_BATCH_ROWS) if one is not None)
    left = n_rows
    where = None
    needed = columns
    if predicate is not None:
        needed = [*dict.fromkeys([*columns, *predicate.meta.root_names()])]
        where = _arrow_filter(records.schema, predicate) if n_rows is None else None
    batches, _ = records.source.read(needed, where, max(rows, 1))
    for batch in batches if left != 0 else ():
        frame = pl.DataFrame(batch)
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        if predicate is not None:
            matches = frame.select(predicate).to_series()
            frame = frame if matches.all(ignore_nulls=False) else frame.filter(matches)
        yield frame.select(columns)
        if left == 0:
            return


class _FilterOfPolars(dataset.InMemoryDataset):  # type: ignore[misc] # of a library without types
    """A dataset without rows that notes which filter polars gives it.

    Polars makes a filter of Arrow from what it can of a predicate; it has no public call for that,
    but it hands one to each dataset.
    """

    expression: Any = None

    def scanner(self, *, filter: Any = None, **options: Any) -> Any:  # noqa: A002 - pyarrow's name
        """Note the filter."""
        self.expression = filter
        return super().scanner(**options)


def _arrow_filter(schema: Any, predicate: pl.Expr) -> ArrowFilter | None:
    """Return a filter of Arrow that rows pass for which *predicate* is true, if there is one."""
    whole = _converted(schema, predicate)
    if whole is not None:
        return whole
    # polars 1 makes nothing of what has one part of which Arrow knows nothing
    parts = [_converted(schema, part) for part in _conjuncts(predicate)]
    expressions = [part.expression for part in parts if part is not None]
    return ArrowFilter(schema, reduce(and_, expressions)) if expressions else None


def _conjuncts(predicate: pl.Expr) -> list[pl.Expr]:
    """Return what *predicate* joins by ``&``."""
    parts = predicate.meta.pop()
    for first, second in (parts, parts[::-1]) if len(parts) == 2 else ():  # noqa: PLR2004 - of "and"
        if (first & second).meta.eq(predicate):
            return [*_conjuncts(first), *_conjuncts(second)]
    return [predicate]


def _converted(schema: Any, predicate: pl.Expr) -> ArrowFilter | None:
    """Return what polars makes of *predicate* for Arrow, None where it does not."""
    asked = _FilterOfPolars(schema.empty_table())
    try:
        pl.scan_pyarrow_dataset(asked).filter(predicate).collect()
        return None if asked.expression is None else ArrowFilter(schema, asked.expression)
    except (pa.ArrowException, pl.exceptions.PolarsError):  # Arrow has no such function
        return None
