"""Counters and figures of the remote part of logs (Kafka ``BrokerTopicStats``, its remote metrics).

Source: [TIER-43, TIER-54, TIER-70].
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RemoteLogCounters:
    """What all tasks and reads have done since the manager was made; numbers only grow.

    Attributes
    ----------
    copy_requests, failed_copies : int
        Segments that the remote storage was asked to copy, and runs that failed at it.
    copy_bytes : int
        Sizes of the segments that were copied as a whole.
    delete_requests, failed_deletes : int
        Segments that the remote storage was asked to delete, and those that it did not.
    fetch_requests, failed_fetches : int
        Reads from remote storage, and those that failed; an offset that is not there is no failure.
    fetch_bytes : int
        Bytes of records that reads returned.
    """

    copy_requests: int = 0
    copy_bytes: int = 0
    failed_copies: int = 0
    delete_requests: int = 0
    failed_deletes: int = 0
    fetch_requests: int = 0
    fetch_bytes: int = 0
    failed_fetches: int = 0


@dataclass(slots=True)
class RemoteLogFigures:
    """Where the remote part of one log stands, as of the last run of each of its tasks.

    Attributes
    ----------
    copy_lag_bytes, copy_lag_segments : int
        Of sealed segments that are not copied [TIER-43].
    delete_lag_bytes, delete_lag_segments : int
        Of remote segments that the run wants to delete, and has not yet.
    remote_log_size_bytes : int
        Of all remote segments that are whole.
    metadata_count : int
        Remote segments of any state.
    retention_size_percent, local_retention_size_percent : int
        How much of ``retention.bytes`` and ``local.retention.bytes`` is in use, 0 without a limit.
    size_computation_ms : int
        How long the last count of the remote size took.
    last_error : str or None
        Why the last run of a task failed; None after one that did not.
    """

    copy_lag_bytes: int = 0
    copy_lag_segments: int = 0
    delete_lag_bytes: int = 0
    delete_lag_segments: int = 0
    remote_log_size_bytes: int = 0
    metadata_count: int = 0
    retention_size_percent: int = 0
    local_retention_size_percent: int = 0
    size_computation_ms: int = 0
    last_error: str | None = None
