"""From where to where each micro-batch goes: the driver's side of a streaming read.

The rules are those of the connector's ``KafkaMicroBatchStream``. Nothing is kept between two
runs but what Spark keeps: the offsets of its checkpoint.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import NotALogError, UnknownTopicOrPartitionError
from segstore.log.files.partition_metadata_file import made_again
from segstore.spark.conditions import condition_error, deleted_error, option_error
from segstore.spark.damaged_end import check_damaged_end
from segstore.spark.log_source import source_of
from segstore.spark.offsets import as_set, choose_partitions, cut_by_bytes, resolve_limit
from segstore.spark.ranges import EARLIEST, LATEST, split
from segstore.spark.rate_limit import TriggerDelay, share_out
from segstore.spark.topic_offsets import StreamOffsets
from segstore.tables.offset_ranges import OffsetRange

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Collection, Mapping

    from segstore.spark.conditions import ConnectorConditionError
    from segstore.spark.stream_options import StreamOptions
    from segstore.spark.visible_log import PlannedLog
    from segstore.types import TopicPartition

_WAITS_FOR_A_REMOVAL: Final = (0.01, 0.05, 0.25)
"""In s: of a directory that is being removed there is a part for a moment."""


class StreamPlan:
    """Plans the micro-batches of one run of a query.

    Parameters
    ----------
    options : StreamOptions
        What was asked.
    open_log : callable
        Gives the log of an existing partition, as it is now.
    warn : callable
        Told about lost data where ``failOnDataLoss`` is false.
    """

    def __init__(
        self,
        options: StreamOptions,
        open_log: Callable[[TopicPartition], PlannedLog],
        warn: Callable[[str], None],
    ) -> None:
        self._read = options.read
        self._limits = options.limits
        self._open = open_log
        self._warn = warn
        self._delay = TriggerDelay(options.limits)
        self._from_now: dict[TopicPartition, int] = {}
        self._is_first_batch = False
        self._available_now: StreamOffsets | None = None
        self.latest: StreamOffsets | None = None
        """Ends of the logs as last seen; None = not looked at yet."""

    def initial_offsets(self) -> StreamOffsets:
        """Return where a new query starts.

        Spark asks again when a run ended before its first batch was committed, and does not tell a
        source written in Python where its checkpoint is. Where the start is a matter of the moment
        (``latest``), the first batch is therefore kept empty: it ends where it started, so its
        repetition has nothing to lose.
        """
        logs = self._open_chosen()
        start = self._read.start
        if start.offsets is not None and set(start.offsets) != set(logs):
            raise option_error(
                "startingOffsets",
                as_set(start.offsets),
                f"the partitions that are read, {as_set(logs)}",
                "assertion failed: If startingOffsets contains specific offsets, you must specify "
                "all TopicPartitions.\nUse -1 for latest, -2 for earliest, if you don't care.\n"
                f"Specified: {as_set(start.offsets)} Assigned: {as_set(logs)}",
            )
        limits = resolve_limit(
            start,
            "start",
            logs,
            start.keyword if start.keyword is not None else EARLIEST,
            latest_when_no_match=self._read.latest_when_no_offset_matches,
        )
        offsets = {
            partition: {EARLIEST: log.start_offset, LATEST: log.end_offset}.get(
                limits[partition], limits[partition]
            )
            for partition, log in logs.items()
        }
        self._from_now = {
            partition: offset
            for partition, offset in offsets.items()
            if limits[partition] == LATEST or offset == logs[partition].end_offset
        }
        self._is_first_batch = True
        return StreamOffsets(offsets, _topic_ids(logs))

    def prepare_for_available_now(self) -> None:
        """Fix the end of the run: what comes later is for the next one."""
        self._available_now = self._ends()

    def latest_offsets(self, start: StreamOffsets, *, takes_all: bool) -> StreamOffsets:
        """Return where the batch that begins at *start* ends; *start* itself = wait.

        Parameters
        ----------
        start : StreamOffsets
            Where the last batch ended.
        takes_all : bool
            The trigger asks for everything, whatever the options say.
        """
        latest = self.latest = self._available_now or self._ends()
        end, topic_ids = dict(latest.by_partition), latest.topic_ids
        if self._is_first_batch:
            self._is_first_batch = False
            end.update(self._from_now)
        remade = _remade(start, latest)
        known = {key: at for key, at in start.by_partition.items() if key not in remade}
        if not takes_all:
            # the connector's minimum also ends a run of availableNow, with a rest left unread
            may_wait = self._available_now is None or self._read.connector_compatible
            waits = may_wait and not remade
            if waits and self._delay.holds_back(known, end):
                return start
            if self._limits.max_offsets is not None:
                begin = {
                    key: known[key] if key in known else self._open(key).start_offset for key in end
                }
                end = share_out(self._limits.max_offsets, begin, end)
        if end == known:
            return start  # also where the checkpoint is older than topic ids in it: nothing to do
        return StreamOffsets(end, topic_ids)

    def ranges(self, start: StreamOffsets, end: StreamOffsets) -> list[OffsetRange]:
        """Return what to read for the batch from *start* to *end*, sorted.

        Raises
        ------
        ConnectorConditionError
            A partition is gone, is new but does not begin at 0, went backwards, or is of a topic
            that was deleted and made again, and ``failOnDataLoss`` is true.
        """
        existing = frozenset(source_of(self._read).partitions())
        remade = _remade(start, end)
        if remade:
            self._report_remade(remade, existing, start, end)
        ends = end.by_partition
        begin = {key: at for key, at in start.by_partition.items() if key not in remade}
        for partition in sorted(ends.keys() - begin.keys()):
            if partition in existing:
                begin[partition] = self._open(partition).start_offset
                if begin[partition] != 0:
                    self._report_loss(
                        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                        topicPartition=partition,
                        startOffset=begin[partition],
                    )
        gone = sorted(
            partition
            for partition in begin.keys() | ends.keys()
            if (partition not in ends or partition not in existing)
        )
        if gone:
            self._report_loss("PARTITIONS_DELETED", partitions=as_set(gone))
        ranges = []
        for partition in sorted(ends.keys() - set(gone)):
            from_offset, until_offset = begin[partition], ends[partition]
            if until_offset < from_offset:
                if self._from_now.get(partition) != from_offset:
                    self._report_loss(
                        "PARTITION_OFFSET_CHANGED",
                        topicPartition=partition,
                        prevOffset=from_offset,
                        newOffset=until_offset,
                    )
                continue
            topic_id = end.topic_ids.get(partition)
            ranges.append(OffsetRange(*partition, from_offset, until_offset, topic_id))
        if self._read.max_bytes_per_partition is not None:
            logs = {one.topic_partition: self._open(one.topic_partition) for one in ranges}
            ranges = cut_by_bytes(ranges, logs, self._read.max_bytes_per_partition)
        return split(ranges, self._read.min_partitions, self._read.max_records_per_partition)

    def _open_chosen(self) -> dict[TopicPartition, PlannedLog]:
        """Open the partitions that are read; look again when one is removed in that moment."""
        waits = iter(_WAITS_FOR_A_REMOVAL)
        while True:
            existing = source_of(self._read).partitions()
            try:
                chosen = choose_partitions(self._read, existing, self._warn)
                return {partition: self._open(partition) for partition in chosen}
            except (FileNotFoundError, NotALogError, UnknownTopicOrPartitionError):
                wait = next(waits, None)
                if wait is None:
                    raise
                sleep(wait)

    def _ends(self) -> StreamOffsets:
        logs = self._open_chosen()
        for partition, log in logs.items():
            check_damaged_end(self._read, partition, log.end_offset, log, self._warn)
        ends = {partition: log.end_offset for partition, log in logs.items()}
        return StreamOffsets(ends, _topic_ids(logs))

    def _report_remade(
        self,
        partitions: Collection[TopicPartition],
        existing: Collection[TopicPartition],
        start: StreamOffsets,
        end: StreamOffsets,
    ) -> None:
        """Name both ids of each topic that was deleted and made again.

        Where the first batch is planned again, its start is of now and its *end* of before.
        """
        changes = set()
        for key in partitions:
            now = self._open(key).topic_id if key in existing else end.topic_ids.get(key)
            known = start.topic_ids[key]
            if known == now:
                known = end.topic_ids.get(key, known)
            changes.add(f"of {key.topic}, {made_again(known, now)}")
        self._raise_or_warn(deleted_error(as_set(partitions), "; ".join(sorted(changes))))

    def _report_loss(self, reason: str, **parameters: Any) -> None:
        self._raise_or_warn(condition_error(f"KAFKA_DATA_LOSS.{reason}", **parameters))

    def _raise_or_warn(self, error: ConnectorConditionError) -> None:
        if self._read.fail_on_data_loss:
            raise error
        self._warn(error.message)


def _topic_ids(logs: Mapping[TopicPartition, PlannedLog]) -> dict[TopicPartition, uuid.UUID]:
    """Return the ids of the topics that have one."""
    return {key: log.topic_id for key, log in logs.items() if log.topic_id is not None}


def _remade(start: StreamOffsets, end: StreamOffsets) -> set[TopicPartition]:
    """Return the partitions whose topic was deleted and made again between *start* and *end*."""
    return {
        key
        for key in end.by_partition
        if key in start.topic_ids and start.topic_ids[key] != end.topic_ids.get(key)
    }
