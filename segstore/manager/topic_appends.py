"""Appends to topics: records sorted into partitions, and each part appended to its log.

A log that was moved or closed meanwhile is asked for again. What has been appended is noted, for
the error of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator as IteratorType
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from segstore.arguments import columns_of_frame, integer
from segstore.errors import ClosedError, IllegalArgumentError, InvalidRecordError
from segstore.manager.partition_records import (
    AppendedRecords,
    StickyPartitioner,
    chunks_of_records,
    joined_rows,
    split_batch,
    split_records,
)
from segstore.record_rows import refuse_counted_rows
from segstore.records.frames import FrameReader, frame_of, is_in_memory, require_frame
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from segstore._core import AppendLock
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.partition_listing import Listed
    from segstore.manager.partition_moves import PartitionMoves
    from segstore.record_columns import RecordColumns
    from segstore.records.record_builder import Records
    from segstore.types import LogAppendInfo


class TopicAppends:
    """Appends records to the topics of a manager; any number of threads may.

    Parameters
    ----------
    mutex : AppendLock
        The manager's; held while records are sorted.
    moves : PartitionMoves
        Wait for an append that they have interrupted.
    check_writable : callable
        Raises after `close`, in a fork, and where nothing can be written.
    listed : callable
        Returns what partitions there are; the same object while they are the same.
    keyed_partitions : callable
        Returns over how many partitions of a topic keys are spread; raises where some are missing.
    logs_to_write : callable
        Returns the logs of partitions of a topic, open for writing.
    """

    def __init__(  # noqa: PLR0913 - what it asks of its manager
        self,
        mutex: AppendLock,
        moves: PartitionMoves,
        check_writable: Callable[[], None],
        listed: Callable[[], Listed],
        keyed_partitions: Callable[[str], int],
        logs_to_write: Callable[[str, Sequence[int]], list[UnifiedLog]],
    ) -> None:
        self._mutex = mutex
        self._moves = moves
        self._check_writable = check_writable
        self._listed = listed
        self._keyed_partitions = keyed_partitions
        self._logs_to_write = logs_to_write
        self._partitioners: dict[str, tuple[Listed, StickyPartitioner]] = {}

    def append(  # noqa: PLR0913 - as `LogManager.append`
        self,
        topic: str,
        records: Records,
        partition: int | str | None,
        *,
        timestamp: int | datetime | str | None,
        key: str | None,
        value: str | Sequence[str] | None,
        headers: str | None,
    ) -> dict[int, LogAppendInfo]:
        """Do what `LogManager.append` says."""
        appended = AppendedRecords()
        try:
            if partition is not None and not isinstance(partition, str):
                names = {"timestamp": timestamp, "key": key, "value": value, "headers": headers}
                log = self._log_to_write(topic, partition)
                append = appended.noting(methodcaller("append", records, **names))
                is_used_up = isinstance(records, IteratorType)
                appended.begin(partition, log)
                info = self._call(log, topic, partition, append, once=is_used_up)
                return {partition: info}
            default, columns = columns_of_frame(timestamp, key, value, headers, partition)
            partitioner = self._partitioner(topic)
            for appends in self._appends(topic, records, partitioner, default, columns):
                for number in [*appends]:
                    log, append = appends.pop(number)  # its records are freed when they are stored
                    appended.begin(number, log)
                    appended.add(number, self._call(log, topic, number, appended.noting(append)))
            return appended.infos  # noqa: TRY300 - Ctrl-C may come here too
        except BaseException as error:
            appended.note(error, topic)
            raise

    def _call(
        self,
        log: UnifiedLog,
        topic: str,
        partition: int,
        call: Callable[[UnifiedLog], Any],
        *,
        once: bool = False,
    ) -> Any:
        """Call a method of a log; where it was moved or closed before, that of what it is now."""
        try:
            return call(log)
        except ClosedError as error:
            if once:
                raise
            closed: ClosedError = error
        with self._moves.going_first(TopicPartition(topic, partition)):
            while True:
                before, log = log, self._log_to_write(topic, partition)
                if log is before:
                    raise closed
                try:
                    return call(log)
                except ClosedError as error:
                    closed = error

    def _appends(
        self,
        topic: str,
        records: Any,
        partitioner: StickyPartitioner,
        default: int | None,
        columns: RecordColumns,
    ) -> Iterator[dict[int, tuple[UnifiedLog, methodcaller]]]:
        """Yield what to call of the log of each partition, piece by piece of the records."""
        with self._mutex:
            partitioner.begin_append()
        frame = frame_of(records)
        if frame is None:
            require_frame(records, columns)
            for by_partition in self._split(records, partitioner):
                logs = self._logs_to_write(topic, [*by_partition])
                yield {
                    number: (log, methodcaller("append", part, timestamp=default))
                    for log, (number, part) in zip(logs, by_partition.items(), strict=True)
                }
            return
        reader = FrameReader(frame, columns)
        names = reader.columns._replace(partition=None)
        pieces = (self._split_batch(batch, partitioner, reader.columns) for batch in reader)
        for rows in [joined_rows(pieces)] if is_in_memory(frame) else pieces:
            logs = self._logs_to_write(topic, [*rows])
            appends = {}
            for log, number in zip(logs, [*rows], strict=True):
                build = methodcaller("_build", rows.pop(number), default, names)
                try:
                    built = self._call(log, topic, number, build)
                except (IllegalArgumentError, InvalidRecordError) as error:
                    if is_in_memory(frame):  # raise it with the number of the row in the frame
                        log._build(records, default, columns)  # noqa: SLF001 - as above
                    error.add_note(f"rows are counted among those of partition {number}")
                    raise
                appends[number] = log, methodcaller("_append_built", built)
            yield appends

    def _split_batch(
        self, batch: Any, partitioner: StickyPartitioner, columns: RecordColumns
    ) -> dict[int, Any]:
        with self._mutex:
            return split_batch(batch, partitioner, columns)

    def _split(
        self, records: Any, partitioner: StickyPartitioner
    ) -> Iterator[dict[int, list[object]]]:
        for number, chunk in enumerate(chunks_of_records(records)):
            with self._mutex:
                by_partition = split_records(chunk, partitioner)
            if number == 0:
                refuse_counted_rows(chunk)
            yield by_partition

    def _log_to_write(self, topic: str, partition: int) -> UnifiedLog:
        self._check_writable()
        return self._logs_to_write(topic, [integer("partition", partition)])[0]

    def _partitioner(self, topic: str) -> StickyPartitioner:
        with self._mutex:
            self._check_writable()  # while we waited
            listed = self._listed()
            known = self._partitioners.get(topic)
            if known is not None and known[0] is listed:
                return known[1]
            count = self._keyed_partitions(topic)
            if known is None or known[1].partitions_count != count:
                known = listed, StickyPartitioner(count)
            self._partitioners[topic] = listed, known[1]
            return known[1]
