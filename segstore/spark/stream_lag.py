"""``segstore.spark.progress_listener``: the lag of streams, by query and partition.

PySpark has no hook by which a source in Python gives metrics of its own (4.0 to 4.3). So a listener
compares the offsets in the progress of a query with the logs, after each micro-batch.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from segstore.errors import SegstoreError
from segstore.spark.log_source import source_of
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.topic_offsets import from_topic_offsets

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from segstore.spark.log_source import LogSource
    from segstore.spark.topic_offsets import StreamOffsets
    from segstore.types import TopicPartition

_KAFKA: Final = "Kafka"
"""So the description of a Kafka source begins, such as ``KafkaV2[Subscribe[orders]]``."""
_log = logging.getLogger(__name__)


class StreamLag(NamedTuple):
    """The lag of one query after a micro-batch.

    Attributes
    ----------
    query : str
        Name of the query; its id, where it has no name.
    batch_id : int
        The micro-batch that ended.
    by_partition : dict of TopicPartition to int
        Offsets from the end of what was read to the end of the log. Gaps and markers count.
    """

    query: str
    batch_id: int
    by_partition: dict[TopicPartition, int]

    @property
    def total(self) -> int:
        """Of all partitions."""
        return sum(self.by_partition.values())

    def __str__(self) -> str:
        behind = ", ".join(f"{key} {lag}" for key, lag in self.by_partition.items() if lag)
        text = f"{self.query}: a lag of {self.total} offsets after batch {self.batch_id}"
        return f"{text}: {behind}" if behind else text


def progress_listener(
    path: str | os.PathLike[str],
    report: Callable[[StreamLag], object] | None = None,
    **options: Any,
) -> ProgressListener:
    """Return a listener that reports the lag of streams over a log directory.

    ``spark.streams.addListener(segstore.spark.progress_listener("data", print))``

    Parameters
    ----------
    path : path
        The log directory that the streams read. Queries over other sources are left alone.
    report : callable or None
        Called with a `StreamLag` after each micro-batch. Default: a line for `logging`, level INFO,
        logger ``segstore.spark.stream_lag``.
    **options
        Of the source: ``**{"isolation.level": "read_committed"}`` compares with the end of
        committed records, as a stream with that option reads them.

    Returns
    -------
    ProgressListener
        Its ``lag`` is a dict by query and partition, as of the last micro-batch of each query.

    Raises
    ------
    ConnectorOptionError
        An option that there is not.
    """
    return ProgressListener(source_of(options_of_call(str(path), options)), report)


class ProgressListener(StreamingQueryListener):
    """A listener for ``spark.streams.addListener``; `progress_listener` returns one.

    An error in it is logged, and never reaches a query.

    Attributes
    ----------
    lag : dict of str to dict of TopicPartition to int
        Offsets that each query has not read yet, in each partition.
    """

    def __init__(self, source: LogSource, report: Callable[[StreamLag], object] | None) -> None:
        self.lag: dict[str, dict[TopicPartition, int]] = {}
        self._source = source
        self._report = _log_lag if report is None else report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Look at the ends of the logs that a micro-batch has read."""
        try:
            progress = event.progress
            lags = [self._lag_of(one) for one in _offsets_of(progress.sources)]
            found = {key: lag for one in lags for key, lag in one.items()}
            if found:
                query = progress.name or str(progress.id)
                self.lag[query] = found
                self._report(StreamLag(query, progress.batchId, found))
        except Exception:  # noqa: BLE001 - also of what a user gave: no query may end by it
            _log.exception("the lag of a stream could not be reported; the stream goes on")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: no micro-batch was due."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: what was known last stays known."""

    def _lag_of(self, offsets: StreamOffsets) -> dict[TopicPartition, int]:
        """Return the lag of partitions of this directory: those of the same topic ids."""
        found = {}
        for partition, offset in sorted(offsets.by_partition.items()):
            with suppress(SegstoreError, FileNotFoundError):  # deleted, or of another source
                log = self._source.open(partition)
                if log.topic_id == offsets.topic_ids.get(partition):
                    found[partition] = max(0, log.end_offset - offset)
        return found


def _offsets_of(sources: Iterable[Any]) -> Iterable[StreamOffsets]:
    """Yield what the sources of a query have read up to, where that are offsets of partitions.

    Those of Spark's Kafka source look the same, but for the topic ids, which not all logs have.
    """
    for one in sources:
        if str(one.description).startswith(_KAFKA):
            continue
        with suppress(SegstoreError, ValueError, TypeError):
            yield from_topic_offsets(json.loads(one.endOffset))


def _log_lag(lag: StreamLag) -> None:
    _log.info("%s", lag)
