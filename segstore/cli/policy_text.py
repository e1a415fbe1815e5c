"""What deletes records of a topic, in few words: its policy and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.cli.output import UsageError, human_bytes
from segstore.errors import SegstoreError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segstore.config.log_config import LogConfig
    from segstore.manager.log_manager import LogManager
    from segstore.types import TopicPartition

UNITS_MS = (("d", 24 * 3600 * 1000), ("h", 3600 * 1000), ("min", 60 * 1000), ("s", 1000))
KEPT = "keep"
UNKNOWN = "?"


def policy_of_topic(logs: LogManager, topic: str) -> str:
    """Return the words for a topic of a log directory; ``?`` where its settings cannot be read.

    What has no directory of a partition is deleted by nothing.
    """
    try:
        settings = logs.describe_topic(topic).settings
    except UnknownTopicOrPartitionError:
        return KEPT
    except SegstoreError:
        return UNKNOWN
    values = {one.name: one.value for one in settings}
    policies = values["cleanup.policy"]
    limits = {
        key: str(values[key])
        for key in ("retention.ms", "retention.bytes")
        if values[key] is not None
    }
    policy = ",".join(policies) if isinstance(policies, tuple) else "delete"
    return policy_text({"cleanup.policy": policy, **limits})


def strays_of(logs: LogManager) -> Mapping[TopicPartition, str]:
    """Return the stray partitions; none where the metadata log is unreadable."""
    try:
        return logs.stray_partitions()
    except SegstoreError:  # it was logged
        return {}


def stray_text(partition: str, reason: str) -> str:
    """Return a sentence about a stray partition."""
    return (
        f"{partition} is stray: {reason}. A broker that starts here renames its directory;"
        " segstore only shows it"
    )


def policy_text(properties: Mapping[str, str]) -> str:
    """Return ``delete 7d 1.0 GiB``, ``compact``, or ``keep`` where nothing deletes by itself."""
    policies = [one.strip() for one in properties.get("cleanup.policy", "delete").split(",")]
    words = ["compact"] if "compact" in policies else []
    if "delete" in policies:
        limits = [
            words_of(int(properties[key]))
            for key, words_of in (
                ("retention.ms", human_duration),
                ("retention.bytes", human_bytes),
            )
            if int(properties.get(key, -1)) >= 0
        ]
        words += ["delete", *limits] if limits else []
    return " ".join(words) or KEPT


def policy_of(config: LogConfig) -> str:
    """Return the same of the settings that a log goes by."""
    values = config.to_values()
    limits = {key: str(values[key]) for key in ("retention.ms", "retention.bytes")}
    return policy_text({"cleanup.policy": config.cleanup_policy, **limits})


def human_duration(duration_ms: int) -> str:
    """Return a time as a short text: ``7d``, ``90min``, ``1500ms``."""
    for unit, unit_ms in UNITS_MS:
        if duration_ms >= unit_ms and duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms}{unit}"
    return f"{duration_ms}ms"


def given_properties(texts: Iterable[str]) -> dict[str, str]:
    """Return what ``--config KEY=VALUE`` arguments say.

    Raises
    ------
    UsageError
        One of them has no ``=``.
    InvalidConfigurationError
        A topic has no such key.
    """
    from segstore.config.topic_properties import refuse_unknown_keys

    found = keys_and_values(texts)
    refuse_unknown_keys(found)
    return found


def keys_and_values(texts: Iterable[str]) -> dict[str, str]:
    """Return what ``--config KEY=VALUE`` arguments say, known or not.

    Raises
    ------
    UsageError
        One of them has no ``=``.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--config takes KEY=VALUE, such as retention.ms=604800000, not {text}"
            )
        found[key.strip()] = value
    return found
