"""What the logs of a topic go by: the settings of the topic over those of its directory.

Deleting is asked for. In the safe profile, what no user has set deletes nothing [DUR-128]; DESIGN
D16.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from segstore.config.log_config import LogConfig, key_name
from segstore.config.topic_keys import NO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from segstore.config.config_key import ConfigValue

NOT_DELETING: Final[Mapping[str, ConfigValue]] = MappingProxyType(
    {"cleanup.policy": ("delete",), "retention.ms": NO_LIMIT, "retention.bytes": NO_LIMIT}
)
"""The keys that delete records, each with a value by which none goes."""


def given_keys(config: LogConfig | None, settings: Iterable[str]) -> frozenset[str]:
    """Return the keys that a caller has set, as fields of *config* or by keywords."""
    keywords = frozenset(map(key_name, settings))
    if config is None:
        return keywords
    defaults, values = LogConfig().to_values(), config.to_values()
    return keywords | {key for key, value in values.items() if value != defaults[key]}


def topic_config(
    directory: LogConfig,
    given: Collection[str],
    properties: Mapping[str, str],
    *,
    deletes_by_default: bool,
) -> LogConfig:
    """Return what the logs of a topic go by.

    Parameters
    ----------
    directory : LogConfig
        What counts where the topic was given nothing.
    given : collection of str
        The keys of *directory* that a user has set.
    properties : mapping of str to str
        What the topic was given.
    deletes_by_default : bool
        Kafka's defaults of the keys that delete records count, as in Kafka's profile.

    Raises
    ------
    IllegalArgumentError
        A value has another type than its key, or is out of range.
    """
    config = directory.with_properties(properties)
    if deletes_by_default:
        return config
    not_set = {key: NOT_DELETING[key] for key in NOT_DELETING.keys() - given - properties.keys()}
    return LogConfig.from_values({**config.to_values(), **not_set}) if not_set else config
