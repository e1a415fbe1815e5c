"""The compacted logs of one log directory, opened for the cleaner (`LogPool`).

A partition is opened when its topic is compacted, and not before. Source: [CLN-30].
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.errors import ClosedError, LogNotFoundError, UnknownTopicOrPartitionError
from segstore.log.files.partition_directory import directory_name
from segstore.manager.log_cleaner_manager import parent_dir
from segstore.manager.maintenance_report import FailedTask
from segstore.manager.partition_listing import NOTHING_LISTED
from segstore.manager.retries import next_retry

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView

    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.listed_topics import ListedTopics, TopicsNow
    from segstore.manager.maintenance_report import Findings
    from segstore.manager.partition_listing import Listed
    from segstore.manager.retries import Retry
    from segstore.types import TopicPartition

_GONE = (ClosedError, LogNotFoundError, UnknownTopicOrPartitionError)
_log = logging.getLogger(__name__)


class CompactedLogs:
    """The logs, as they were at the last look; several threads may look.

    Parameters
    ----------
    topics : ListedTopics
        What there is in the log directory.
    open_log : callable
        Returns the log of a topic and a partition's number.
    timer_ms : callable
        The clock of waits.
    interval_ms : int
        A log that cannot be opened is tried again after that, then after twice as long, and so on.

    Attributes
    ----------
    interval_ms : int
        As above; it may change.
    """

    def __init__(
        self,
        topics: ListedTopics,
        open_log: Callable[[str, int], UnifiedLog],
        timer_ms: Callable[[], int],
        interval_ms: int,
    ) -> None:
        self._topics = topics
        self._path = topics.directory.path
        self._open_log = open_log
        self._timer_ms = timer_ms
        self.interval_ms = interval_ms
        self._known: tuple[Listed, frozenset[TopicPartition]] = NOTHING_LISTED, frozenset()
        self._seen: TopicsNow | None = None
        self._compacted: list[TopicPartition] = []
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._failed: dict[TopicPartition, Retry] = {}

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
        now = self._topics.current()
        if now is not self._seen:
            self._compacted = [
                one
                for one in now.listed.partitions
                if "compact" in now.configs[one.topic].cleanup_policies
            ]
            self._seen = now

    def _open(self, topic_partition: TopicPartition, findings: Findings) -> UnifiedLog | None:
        before = self._failed.get(topic_partition)
        now_ms = self._timer_ms()
        if before is not None and before.due_ms > now_ms:
            return None
        try:
            log = self._open_log(*topic_partition)
        except _GONE:
            return None
        except Exception as error:  # noqa: BLE001 - one log stops no other [DUR-131]
            retry = self._failed[topic_partition] = next_retry(before, now_ms, self.interval_ms)
            failed = FailedTask("cleaning", topic_partition, error, *retry)
            findings.failed.append(failed)
            _log.warning("%s: %s", self._path, failed)
            return None
        self._failed.pop(topic_partition, None)
        is_here = parent_dir(log) == self._path  # it may have moved
        return None if log.read_only or log.remote_log_enabled or not is_here else log

    @property
    def failing(self) -> int:
        """How many logs could not be opened."""
        return len(self._failed)

    # ---- what the cleaner's manager asks for -----------------------------------------------------

    def __contains__(self, topic_partition: object) -> bool:
        listed = self._topics.listing.current()
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
