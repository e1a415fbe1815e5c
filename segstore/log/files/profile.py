"""Which rules a handle follows where safety and Kafka's behaviour part [DUR-62]."""

from __future__ import annotations

from enum import StrEnum


class Profile(StrEnum):
    """The value of ``recovery=`` in `segstore.open`, for all that the handle does."""

    SAFE = "safe"
    """The rules of durability.md: nothing that was acknowledged is lost, damage is reported."""
    KAFKA = "kafka"
    """A broker's behaviour, its losses included; no file but Kafka's beside the segments."""
