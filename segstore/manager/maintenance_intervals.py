"""How often a log directory does what for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from segstore.config.broker_keys import BROKER_KEYS

if TYPE_CHECKING:
    from segstore.config.broker_config import BrokerConfig


def _default_ms(name: str) -> int:
    return cast("int", BROKER_KEYS[name].default)


class MaintenanceIntervals(NamedTuple):
    """How often what is done, in ms.

    Attributes
    ----------
    retention_ms : int
        Kafka's ``log.retention.check.interval.ms``.
    recovery_points_ms : int
        Kafka's ``log.flush.offset.checkpoint.interval.ms``.
    log_starts_ms : int
        Kafka's ``log.flush.start.offset.checkpoint.interval.ms``.
    initial_delay_ms : int
        Threads begin so long after the open: ``log.initial.task.delay.ms``.
    high_watermarks_ms : int
        Kafka's ``replica.high.watermark.checkpoint.interval.ms``.
    flushes_ms : int
        Kafka's ``log.flush.scheduler.interval.ms``. In the safe profile each log has its own timer.
    """

    retention_ms: int = _default_ms("log.retention.check.interval.ms")
    recovery_points_ms: int = _default_ms("log.flush.offset.checkpoint.interval.ms")
    log_starts_ms: int = _default_ms("log.flush.start.offset.checkpoint.interval.ms")
    initial_delay_ms: int = _default_ms("log.initial.task.delay.ms")
    high_watermarks_ms: int = _default_ms("replica.high.watermark.checkpoint.interval.ms")
    flushes_ms: int = _default_ms("log.flush.scheduler.interval.ms")

    @classmethod
    def of_broker(cls, config: BrokerConfig) -> MaintenanceIntervals:
        """Return those of a broker's settings."""
        values = config.values
        return cls(
            values["log.retention.check.interval.ms"],
            max(1, values["log.flush.offset.checkpoint.interval.ms"]),
            max(1, values["log.flush.start.offset.checkpoint.interval.ms"]),
            values["log.initial.task.delay.ms"],
            max(1, values["replica.high.watermark.checkpoint.interval.ms"]),
            max(1, values["log.flush.scheduler.interval.ms"]),
        )
