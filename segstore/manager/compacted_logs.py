"""The compacted logs of one log directory, opened for the cleaner (`LogPool`).

A partition is opened when its topic is compacted, and not before. Source: [CLN-30].
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import ClosedError, LogNotFoundError, UnknownTopicOrPartitionError
from segstore.log.files.partition_directory import directory_name
from segstore.manager.maintenance_report import FailedTask
from segstore.manager.partition_listing import NOTHING_LISTED
from segstore.manager.retention_schedule import (
    LONGEST_RETRY_MS,
    retry_delay_ms,
    signature_of_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Iterable, Mapping

    from segstore._core import Directory
    from segstore.config.log_config import LogConfig
    from segstore.log.open_options import OpenOptions
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.maintenance_report import Findings
    from segstore.manager.partition_listing import Listed, PartitionListing
    from segstore.types import TopicPartition

_GONE = (ClosedError, LogNotFoundError, UnknownTopicOrPartitionError)
_log = logging.getLogger(__name__)


class _Failed(NamedTuple):
    attempts: int
    retry_ms: int


class CompactedLogs:
    """The logs, as they were at the last look; several threads may look.

    Parameters
    ----------
    directory : Directory
        The log directory.
    listing : PartitionListing
        Its partitions.
    options : OpenOptions
        What it goes by; see `options` below.
    configs_of : callable
        Takes names of topics, returns what the logs of each go by.
    open_log : callable
        Returns the log of a topic and a partition's number.
    timer_ms : callable
        The clock of waits.
    interval_ms : int
        A log that cannot be opened is tried again after that, then after twice as long, and so on.

    Attributes
    ----------
    options : OpenOptions
        With others, the settings of all topics are read again.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        directory: Directory,
        listing: PartitionListing,
        options: OpenOptions,
        configs_of: Callable[[Iterable[str]], Mapping[str, LogConfig]],
        open_log: Callable[[str, int], UnifiedLog],
        timer_ms: Callable[[], int],
        interval_ms: int,
    ) -> None:
        self.options = options
        self._directory = directory
        self._path = directory.path
        self._listing = listing
        self._configs_of = configs_of
        self._open_log = open_log
        self._timer_ms = timer_ms
        self._interval_ms = interval_ms
        self._known: tuple[Listed, frozenset[TopicPartition]] = NOTHING_LISTED, frozenset()
        self._seen: tuple[Listed, OpenOptions, tuple[int, ...] | None] | None = None
        self._compacted: list[TopicPartition] = []
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._failed: dict[TopicPartition, _Failed] = {}

    def look(self, findings: Findings) -> None:
        """Open the logs of compacted topics; one that cannot be opened keeps no other [DUR-131].

        No lock of the cleaner's is held: an open takes the manager's.

        Raises
        ------
        SegstoreError
            The settings of topics cannot be read: nothing goes by older ones [DUR-128].
        """
        self._read_settings()
        logs: dict[TopicPartition, UnifiedLog] = {}
        for topic_partition in self._compacted:
            log = self._open(topic_partition, findings)
            if log is not None:
                logs[topic_partition] = log
        self._failed = {one: failed for one, failed in self._failed.items() if one in self}
        self._logs = logs

    def _read_settings(self) -> None:
        """Know which topics are compacted, after a change of what is there or of settings."""
        listed, options = self._listing.current(), self.options
        signature = signature_of_settings(self._directory)
        if self._seen is not None:
            before = self._seen
            if before[0] is listed and before[1] is options and before[2] == signature:
                return
        self._seen = None  # what cannot be read now is read again
        configs = self._configs_of(listed.topics)
        self._compacted = [
            one for one in listed.partitions if "compact" in configs[one.topic].cleanup_policies
        ]
        self._seen = listed, options, signature

    def _open(self, topic_partition: TopicPartition, findings: Findings) -> UnifiedLog | None:
        before = self._failed.get(topic_partition)
        now_ms = self._timer_ms()
        if before is not None and before.retry_ms > now_ms:
            return None
        try:
            log = self._open_log(*topic_partition)
        except _GONE:
            return None
        except Exception as error:  # noqa: BLE001 - one log stops no other [DUR-131]
            attempts = 1 if before is None else before.attempts + 1
            retry_ms = now_ms + retry_delay_ms(self._interval_ms, attempts, LONGEST_RETRY_MS)
            self._failed[topic_partition] = _Failed(attempts, retry_ms)
            failed = FailedTask("cleaning", topic_partition, error, attempts, retry_ms)
            findings.failed.append(failed)
            _log.warning("%s: %s", self._path, failed)
            return None
        self._failed.pop(topic_partition, None)
        is_here = log.path.rpartition("/")[0] == self._path  # it may have moved
        return None if log.read_only or log.remote_log_enabled or not is_here else log

    @property
    def failing(self) -> int:
        """How many logs could not be opened."""
        return len(self._failed)

    def add(self, log: UnifiedLog) -> None:
        """Know an open log before the next look."""
        self._logs = {**self._logs, log.topic_partition: log}

    # ---- what the cleaner's manager asks for -----------------------------------------------------

    def __contains__(self, topic_partition: object) -> bool:
        listed = self._listing.current()
        if self._known[0] is not listed:
            self._known = listed, frozenset(listed.partitions)
        return topic_partition in self._known[1]

    def get(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Return a compacted log; None where it is not open."""
        return self._logs.get(topic_partition)

    def items(self) -> ItemsView[TopicPartition, UnifiedLog]:
        """Return the compacted logs that take changes, and are not deleted by now [DUR-121]."""
        return {
            one: log
            for one, log in self._logs.items()
            if not log.closed and log.path == f"{self._path}/{directory_name(one)}"
        }.items()
