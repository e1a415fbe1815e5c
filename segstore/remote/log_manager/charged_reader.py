"""Reads from remote storage that go by a limit of bytes a second, and are counted.

Source: [TIER-70], KIP-956, Kafka ``RemoteLogReader``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from segstore.errors import ClosedError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.log.remote_tier import RemoteLogReader, RemoteRead
    from segstore.remote.log_manager.remote_log_stats import RemoteLogCounters
    from segstore.remote.log_manager.remote_quota import RemoteQuota
    from segstore.types import EpochEntry, FileTimestampAndOffset, TopicPartition


class ChargedReader:
    """Reads by another reader; fulfils `RemoteLogReader`. Any thread may call it.

    A read waits while those before were too many bytes: a broker answers it without records, and
    its consumer comes again. Searches are free, as in Kafka.

    Parameters
    ----------
    reader : RemoteLogReader
        Reads.
    quota : RemoteQuota
        Limit of all reads together; a read is charged afterwards, one that failed with 0 bytes.
    counters : RemoteLogCounters
        Where reads are counted, and by this reader alone.
    closed : Event
        Ends a wait.
    """

    def __init__(
        self,
        reader: RemoteLogReader,
        quota: RemoteQuota,
        counters: RemoteLogCounters,
        closed: threading.Event,
    ) -> None:
        self._reader = reader
        self._quota = quota
        self._counters = counters
        self._closed = closed
        self._lock = threading.Lock()

    def read(  # noqa: PLR0913 - as that of `RemoteLogReader`
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        max_bytes: int,
        *,
        min_one_message: bool,
        leader_epochs: Sequence[EpochEntry],
        is_committed: bool,
        local_aborted_transactions: Callable[[int, int], Iterable[AbortedTransaction]],
    ) -> RemoteRead:
        """See `RemoteLogReader`.

        Raises
        ------
        ClosedError
            What is read from was closed, perhaps during the wait.
        """
        if not self._quota.wait(self._closed.is_set, self._closed.wait):
            raise ClosedError(f"the remote storage of {topic_partition} is closed")
        size_bytes, is_failed = 0, True
        try:
            found = self._reader.read(
                topic_partition,
                start_offset,
                max_bytes,
                min_one_message=min_one_message,
                leader_epochs=leader_epochs,
                is_committed=is_committed,
                local_aborted_transactions=local_aborted_transactions,
            )
            size_bytes, is_failed = memoryview(found.records).nbytes, False
        except OffsetOutOfRangeError:
            is_failed = False
            raise
        finally:
            self._count(size_bytes, is_failed)
        if found.lane is not None and self._quota.is_limited:
            return found._replace(lane=None)
        if found.lane is not None:
            found.lane.charge = self._charge
        return found

    def _charge(self, size_bytes: int) -> bool:
        """Count a read that the core has done by itself, unless it may have to wait."""
        if self._quota.is_limited or self._closed.is_set():
            return False
        self._count(size_bytes, False)
        return True

    def _count(self, size_bytes: int, is_failed: bool) -> None:  # noqa: FBT001 - a number to add
        self._quota.record(size_bytes)
        with self._lock:
            self._counters.fetch_requests += 1
            self._counters.fetch_bytes += size_bytes
            self._counters.failed_fetches += is_failed

    def aborted_transactions(
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        end_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> Iterable[AbortedTransaction]:
        """See `RemoteLogReader`."""
        return self._reader.aborted_transactions(
            topic_partition, start_offset, end_offset, leader_epochs
        )

    def find_offset_by_timestamp(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        starting_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> FileTimestampAndOffset | None:
        """See `RemoteLogReader`."""
        return self._reader.find_offset_by_timestamp(
            topic_partition, timestamp, starting_offset, leader_epochs
        )
