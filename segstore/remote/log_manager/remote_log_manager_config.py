"""The settings of a `RemoteLogManager` (Kafka ``RemoteLogManagerConfig``) [CFG-81]."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from segstore.config.remote_log_keys import REMOTE_LOG_KEYS
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS: Final = {key.name: key for key in REMOTE_LOG_KEYS}
_NAMES: Final = {
    "copy_max_bytes_per_second": "remote.log.manager.copy.max.bytes.per.second",
    "copy_quota_window_num": "remote.log.manager.copy.quota.window.num",
    "copy_quota_window_size_seconds": "remote.log.manager.copy.quota.window.size.seconds",
    "fetch_max_bytes_per_second": "remote.log.manager.fetch.max.bytes.per.second",
    "fetch_quota_window_num": "remote.log.manager.fetch.quota.window.num",
    "fetch_quota_window_size_seconds": "remote.log.manager.fetch.quota.window.size.seconds",
    "task_interval_ms": "remote.log.manager.task.interval.ms",
    "task_retry_backoff_ms": "remote.log.manager.task.retry.backoff.ms",
    "task_retry_backoff_max_ms": "remote.log.manager.task.retry.backoff.max.ms",
    "custom_metadata_max_bytes": "remote.log.metadata.custom.metadata.max.bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogManagerConfig:
    """Names, defaults and bounds are those of Kafka's broker settings.

    Attributes
    ----------
    copy_max_bytes_per_second, fetch_max_bytes_per_second : int
        Limits of all logs together.
    copy_quota_window_num, copy_quota_window_size_seconds : int
        How many samples of how many seconds the rate of copying is measured over; the same for
        fetches.
    task_interval_ms : int
        How often each task is due.
    task_retry_backoff_ms, task_retry_backoff_max_ms : int
        First and longest wait of a task after a failure; each next one is twice as long.
    custom_metadata_max_bytes : int
        Most bytes that a remote storage may note of a segment [TIER-39].
    """

    copy_max_bytes_per_second: int = MAX_LONG
    copy_quota_window_num: int = 11
    copy_quota_window_size_seconds: int = 1
    fetch_max_bytes_per_second: int = MAX_LONG
    fetch_quota_window_num: int = 11
    fetch_quota_window_size_seconds: int = 1
    task_interval_ms: int = 30_000
    task_retry_backoff_ms: int = 500
    task_retry_backoff_max_ms: int = 30_000
    custom_metadata_max_bytes: int = 128

    def __post_init__(self) -> None:
        for field in fields(self):
            _KEYS[_NAMES[field.name]].parse(str(getattr(self, field.name)))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> RemoteLogManagerConfig:
        """Return the settings of a broker's values, by Kafka's keys; other keys are ignored.

        Raises
        ------
        IllegalArgumentError
            A value is out of range.
        """
        return cls(**{ours: values[key] for ours, key in _NAMES.items() if key in values})
