"""Where the logs of a read are: on a local disk, or at a URL; the same is asked of both."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, cast

from segstore.errors import NotALogError
from segstore.log.files.partition_directory import directory_name
from segstore.log.files.partition_metadata_file import check_same_topic
from segstore.log.lone_segment import open_segment
from segstore.log.open_log import open as open_log
from segstore.manager.partition_directories import partitions_with_logs
from segstore.remote.remote_logs import RemoteLogs, RemoteSettings
from segstore.spark.damaged_end import check_damaged_end
from segstore.spark.driver_warning import warn
from segstore.spark.files_planned_log import FilesPlannedLog
from segstore.spark.local_planned_log import leased_log, planned_log
from segstore.spark.offsets import check_no_data_loss, is_data_lost, what_is_left_out
from segstore.spark.remote_planned_log import RemotePlannedLog
from segstore.spark.visible_log import VisibleLog
from segstore.types import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from segstore.log.lone_segment import LoneSegment
    from segstore.log.unified_log import Log
    from segstore.remote.remote_logs import RemoteBounds
    from segstore.spark.directory_option import TieredLayout
    from segstore.spark.local_planned_log import LocalPlannedLog
    from segstore.spark.options import ConnectorOptions
    from segstore.spark.visible_log import LogBounds, PlannedLog
    from segstore.tables.offset_ranges import OffsetRange
    from segstore.types import TopicPartition

_MOST_STORES: Final = 16
"""A worker lives for long, and each new session token is another store."""


class LogSource(Protocol):
    """The log directory of one read, as its options choose and show it."""

    def check(self) -> None:
        """Raise LogNotFoundError or NotALogError when it is no log directory."""
        ...

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that hold a log now, sorted."""
        ...

    def open(self, partition: TopicPartition) -> PlannedLog:
        """Return what planning asks of the log of *partition*, as it is now."""
        ...

    def open_whole(self, partition: TopicPartition) -> AbstractContextManager[tuple[Log, str]]:
        """Open a whole log anew, and say where it lies."""
        ...

    def parts(self, offsets: OffsetRange) -> Iterator[tuple[VisibleLog, int, int]]:
        """Yield logs and ranges in them that together are the records of *offsets*.

        Raises
        ------
        ConnectorConditionError
            The log no longer holds all of them, and ``failOnDataLoss`` is true.
        CorruptLogError
            They go to where the log is damaged, and ``failOnDataLoss`` is true.
        InconsistentTopicIdError
            The topic was deleted and made again since *offsets* were planned.
        """
        ...


class LocalSource:
    """A log directory on a local disk; logs stay open in this process for who asks next."""

    def __init__(self, options: ConnectorOptions) -> None:
        self._options = options
        self._path = options.absolute_path

    def check(self) -> None:
        """See `LogSource`."""
        self.partitions()

    def partitions(self) -> list[TopicPartition]:
        """See `LogSource`."""
        return partitions_with_logs(self._path)

    def open(self, partition: TopicPartition) -> LocalPlannedLog:
        """See `LogSource`; nothing stays open for it."""
        return planned_log(self._path, partition, self._options.isolation)

    @contextmanager
    def open_whole(self, partition: TopicPartition) -> Iterator[tuple[Log, str]]:
        """See `LogSource`; anew, because an open log's epochs are as old as it."""
        path = f"{self._path}/{directory_name(partition)}"
        with open_log(path, read_only=True) as log:
            yield log, path

    def parts(self, offsets: OffsetRange) -> Iterator[tuple[VisibleLog, int, int]]:
        """See `LogSource`: one."""
        with self.part(offsets) as (log, start, end):
            if start < end:
                yield log, start, end

    @contextmanager
    def part(self, offsets: OffsetRange) -> Iterator[tuple[VisibleLog, int, int]]:
        """Lend the log of *offsets*, and say which of them it has; errors as those of `parts`."""
        with leased_log(self._path, offsets.topic_partition, self._options.isolation) as log:
            check_same_topic(log.log.path, offsets.topic_id, log.topic_id)
            _check_whole(self._options, offsets, log)
            start = max(offsets.from_offset, log.start_offset)
            yield log, start, max(start, min(offsets.until_offset, log.end_offset))


class RemoteSource:
    """A log directory at a URL."""

    def __init__(self, options: ConnectorOptions, logs: RemoteLogs) -> None:
        self._options = options
        self._logs = logs

    def check(self) -> None:
        """See `LogSource`."""
        self._logs.check()

    def partitions(self) -> list[TopicPartition]:
        """See `LogSource`; only what the read may choose is looked into."""
        return self._logs.partitions(self._options.choice.may_mean)

    def open(self, partition: TopicPartition) -> RemotePlannedLog:
        """See `LogSource`; only its ends were looked at."""
        bounds = self._logs.bounds(partition, self._options.isolation)
        return RemotePlannedLog(self._logs, partition, self._options.isolation, bounds)

    @contextmanager
    def open_whole(self, partition: TopicPartition) -> Iterator[tuple[Log, str]]:
        """See `LogSource`."""
        with self._logs.open_whole(partition) as log:
            yield log, self._logs.url_of(partition)

    def parts(self, offsets: OffsetRange) -> Iterator[tuple[VisibleLog, int, int]]:
        """See `LogSource`: one for each segment."""

        def check(bounds: RemoteBounds) -> None:
            _check_whole(self._options, offsets, bounds)

        for part, start in self._logs.parts(
            offsets.topic_partition,
            offsets.from_offset,
            offsets.until_offset,
            self._options.isolation,
            check,
            offsets.topic_id,
        ):
            yield VisibleLog(part.log, part.isolation), start, part.end_offset


class FilesSource:
    """Files alone, of one partition; each process opens them anew."""

    def __init__(self, options: ConnectorOptions) -> None:
        self._options = options

    def _open(self) -> LoneSegment:
        return open_segment(self._options.files, as_=self._options.as_partition)

    def check(self) -> None:
        """See `LogSource`."""
        self.partitions()

    def partitions(self) -> list[TopicPartition]:
        """See `LogSource`: one."""
        with self._open() as segment:
            return [segment.topic_partition]

    def open(self, partition: TopicPartition) -> FilesPlannedLog:  # noqa: ARG002 - there is one
        """See `LogSource`; the files are read for it, and what they lack is told."""
        with self._open() as segment:
            for first, following in segment.holes:
                warn(
                    f"{self._options.absolute_path}: no file has a record of offsets {first} to "
                    f"{following - 1}: a segment is missing, or compaction has removed them"
                )
            is_committed = self._options.isolation is Isolation.READ_COMMITTED
            return FilesPlannedLog(
                self._options.files,
                segment.topic_partition,
                self._options.isolation,
                segment.log_start_offset,
                segment.last_stable_offset if is_committed else segment.log_end_offset,
                segment.damaged_end,
                self._options.as_partition,
            )

    def open_whole(self, partition: TopicPartition) -> AbstractContextManager[tuple[Log, str]]:
        """See `LogSource`; they are no whole log."""
        raise NotALogError(
            f"the metadata of {partition} is in its directory: give that, or the one above it; "
            "`segstore dump` prints a file",
            file=self._options.absolute_path,
            found="files",
            expected="a directory",
        )

    def parts(self, offsets: OffsetRange) -> Iterator[tuple[VisibleLog, int, int]]:
        """See `LogSource`: one."""
        with self._open() as segment:
            yield (
                VisibleLog(cast("Log", segment), self._options.isolation),  # a task only scans it
                offsets.from_offset,
                offsets.until_offset,
            )


def _check_whole(options: ConnectorOptions, offsets: OffsetRange, log: LogBounds) -> None:
    """Raise, or say, that *log* does not hold what was planned."""
    if options.fail_on_data_loss:
        check_damaged_end(options, offsets.topic_partition, offsets.until_offset, log)
        check_no_data_loss(offsets, log)
        return
    if is_data_lost(offsets, log):
        warn(what_is_left_out(offsets, log))


def source_of(options: ConnectorOptions) -> LogSource:
    """Return the source of a read; connections to stores are kept in this process.

    Raises
    ------
    ImportError, IllegalArgumentError, LogPermissionError
        A URL that cannot be read here, see `RemoteLogs`.
    """
    if options.files:
        return FilesSource(options)
    if not options.is_remote:
        return LocalSource(options)
    settings = options.remote
    logs = _remote_logs(
        os.getpid(),  # a fork makes its own
        options.absolute_path,
        tuple(sorted(settings.store.items())),
        settings.spool_directory,
        settings.spool_max_bytes,
        options.tiered,
    )
    return RemoteSource(options, logs)


@lru_cache(_MOST_STORES)
def _remote_logs(  # noqa: PLR0913 - what tells two of them apart
    process_id: int,  # noqa: ARG001 - tells them apart
    url: str,
    store: tuple[tuple[str, str], ...],
    spool_directory: str | None,
    spool_max_bytes: int | None,
    tiered: TieredLayout | None,
) -> RemoteLogs:
    settings = RemoteSettings(dict(store), spool_directory, spool_max_bytes)
    if tiered is None:
        return RemoteLogs(url, settings)
    from segstore.remote.bucket import open_tiered_store

    shown = open_tiered_store(
        url, tiered.keys, tiered.key_prefix, None, settings.store, reading=tiered.reading
    )
    return RemoteLogs(shown.url, settings, shown)
