"""When retention looks at which log: a heap of due times, so that a pass touches no other log.

A log says when a run may delete something (`Retention.next_look_ms`). It may be too early: then
the log is looked at, and put off. What may bring the time forward is told by the log's watcher: the
first record of a segment, a roll, a setting, a log start, a truncation. Then the log is due at the
next pass. Appends to a segment with records tell nothing, and cost nothing.

A partition that is not open is opened when its topic has a limit, and not before.

Source: [RTN-1, RTN-3, MGR-30], Kafka ``LogManager.cleanupLogs``; DESIGN D18.
"""

from __future__ import annotations

import heapq
import logging
from typing import TYPE_CHECKING

from segstore.errors import ClosedError, LogNotFoundError, UnknownTopicOrPartitionError
from segstore.manager.maintenance_report import DeletionCounts, FailedTask, SegmentDeletion
from segstore.manager.retries import LONGEST_RETRY_MS, retry_delay_ms
from segstore.manager.topic_limits import is_left_to_compaction
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore.config.log_config import LogConfig
    from segstore.log.retention_plan import DeletedSegment
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.listed_topics import ListedTopics, TopicsNow
    from segstore.manager.maintenance_report import Findings

_log = logging.getLogger(__name__)


class RetentionSchedule:
    """The logs of one directory by the times at which retention looks at them.

    Parameters
    ----------
    topics : ListedTopics
        What there is in the log directory.
    open_log : callable
        Returns the log of a topic and a partition's number.
    cleans : bool
        Whether a cleaner deletes of compacted logs [CLN-7].
    interval_ms : int
        A log that fails is looked at again after that, then after twice as long, and so on.

    Attributes
    ----------
    changed : set of TopicPartition
        Those that are due at the next run; any thread adds to it.
    deletions : DeletionCounts
        What was deleted since the open.
    """

    def __init__(
        self,
        topics: ListedTopics,
        open_log: Callable[[str, int], UnifiedLog],
        interval_ms: int,
        *,
        cleans: bool,
    ) -> None:
        self.changed: set[TopicPartition] = set()
        self.deletions = DeletionCounts()
        self._topics = topics
        self._directory = topics.directory
        self._open_log = open_log
        self._interval_ms = interval_ms
        self._cleans = cleans
        self._due: dict[TopicPartition, int] = {}
        """When each is looked at again. It changes after the look: an interrupt loses none."""
        self._heap: list[tuple[int, TopicPartition]] = []
        """The same by time, among entries that no longer count."""
        self._is_heap_whole = True
        """False during a run, and after one that was interrupted."""
        self._attempts: dict[TopicPartition, int] = {}
        self._seen: TopicsNow | None = None
        self._configs: Mapping[str, LogConfig] = {}
        self._known: set[TopicPartition] = set()

    def run(self, now_ms: int | None, findings: Findings, is_over: Callable[[], bool]) -> None:
        """Look at each log that is due; an error of one keeps no other from it [DUR-131].

        Parameters
        ----------
        now_ms : int or None
            The time by which segments are old; None = now.
        findings : Findings
            Gets what was deleted, and what failed.
        is_over : callable
            Asked between two logs.
        """
        if not self._is_heap_whole or len(self._heap) > 2 * len(self._due):
            self._heap = [(due_ms, one) for one, due_ms in self._due.items()]
            heapq.heapify(self._heap)
        self._is_heap_whole = False
        self._look_at_directory()
        now = self._directory.wall_clock_ms() if now_ms is None else now_ms
        for topic_partition in [*self.changed]:
            self._put(topic_partition, 0)
            self.changed.discard(topic_partition)  # a note that came in between is looked at below
        for topic_partition in self._take_due(now):
            if is_over():
                return
            next_ms = self._look_at(topic_partition, now_ms, now, findings)
            self._put(topic_partition, next_ms)
        self._is_heap_whole = True

    def _take_due(self, now: int) -> dict[TopicPartition, None]:
        """Return the logs that are due, each once, the longest due first."""
        taken: dict[TopicPartition, None] = {}
        while self._heap and self._heap[0][0] <= now:
            due_ms, topic_partition = heapq.heappop(self._heap)
            if self._due.get(topic_partition) == due_ms:
                taken[topic_partition] = None
        return taken

    @property
    def failing(self) -> int:
        """How many logs retention has failed with, at its last look."""
        return len(self._attempts)

    def _put(self, topic_partition: TopicPartition, due_ms: int | None) -> None:
        if due_ms is None:
            self._due.pop(topic_partition, None)
        else:
            self._due[topic_partition] = due_ms
            heapq.heappush(self._heap, (due_ms, topic_partition))

    def _look_at(
        self,
        topic_partition: TopicPartition,
        now_ms: int | None,
        now: int,
        findings: Findings,
    ) -> int | None:
        """Let a log delete; return when it is looked at again, None = when it tells."""
        deleted: list[DeletedSegment] = []
        try:
            log = self._open_log(*topic_partition)
            if is_left_to_compaction(log.config, log.profile, cleans=self._cleans):
                next_ms = None
            else:
                next_ms = log._run_retention(deleted, now_ms)  # noqa: SLF001 - asked by its manager
        except (UnknownTopicOrPartitionError, LogNotFoundError):
            next_ms = None  # it was removed: the listing says so, or will
        except ClosedError:  # by its user, or with the directory
            next_ms = 0
        except Exception as error:  # noqa: BLE001 - one log stops no other [DUR-131]
            attempts = self._attempts[topic_partition] = self._attempts.get(topic_partition, 0) + 1
            next_ms = now + retry_delay_ms(self._interval_ms, attempts, LONGEST_RETRY_MS)
            failed = FailedTask("retention", topic_partition, error, attempts, next_ms)
            findings.failed.append(failed)
            _log.warning("%s: %s", self._directory.path, failed)
        else:
            self._attempts.pop(topic_partition, None)
        finally:
            self._report(topic_partition, deleted, findings)
        return next_ms

    def delete_of_compacted(
        self,
        topic_partition: TopicPartition,
        log: UnifiedLog,
        now_ms: int | None,
        findings: Findings,
    ) -> None:
        """Let a log delete that is left to the cleaner, for that [CLN-7]."""
        deleted: list[DeletedSegment] = []
        try:
            log._run_retention(deleted, now_ms)  # noqa: SLF001 - asked by its manager
        finally:
            self._report(topic_partition, deleted, findings)

    def _report(
        self, topic_partition: TopicPartition, deleted: list[DeletedSegment], findings: Findings
    ) -> None:
        for segment in deleted:
            deletion = SegmentDeletion(topic_partition, segment)
            findings.deleted.append(deletion)
            self.deletions.add(deletion)
            _log.info("%s: %s", self._directory.path, deletion)

    # ---- partitions that are not open ------------------------------------------------------------

    def _look_at_directory(self) -> None:
        """Know the partitions that are there, after a change, and what their topics were given.

        A file that cannot be read fails the run before anything goes by older settings [DUR-128].
        """
        now = self._topics.current()
        if now is self._seen:
            return
        known: set[TopicPartition] = set()
        for topic, numbers in now.listed.topics.items():
            config = now.configs[topic]
            is_new = self._configs.get(topic) != config
            for number in numbers:
                topic_partition = TopicPartition(topic, number)
                known.add(topic_partition)
                is_left = is_left_to_compaction(config, now.options.profile, cleans=self._cleans)
                is_due = config.is_limited and not is_left
                if is_due and (is_new or topic_partition not in self._known):
                    self._put(topic_partition, 0)
        for gone in self._known - known:
            self._put(gone, None)
            self._attempts.pop(gone, None)
        self._known, self._configs, self._seen = known, now.configs, now
