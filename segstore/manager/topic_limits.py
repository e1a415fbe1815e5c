"""What a log of a topic goes by, and whether retention leaves it to the cleaner.

In the safe profile deleting is asked for, never a default: a topic that was given no retention.ms
is kept for ever, and so is one whose settings cannot be read [RTN-2, DUR-128]. DESIGN D16.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.config.topic_config import topic_config
from segstore.log.files.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.config.log_config import LogConfig
    from segstore.log.open_options import OpenOptions


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

NOT_TIERED: Final[Mapping[str, str]] = MappingProxyType({"remote.storage.enable": "false"})
"""A cluster's topic that was given nothing else, whatever the directory was opened with.

Its broker would begin such a log at the first local record, and delete what is remote alone.
"""


class GivenSettings(NamedTuple):
    """What a topic was given, in Kafka's keys, as text; of a broker's topic also by its broker.

    Attributes
    ----------
    topic : mapping of str to str
        What the topic was given.
    broker : mapping of str to str
        What its broker, and all brokers, were given for topics that were not.
    metadata_log : str or None
        The metadata log that says so: Kafka's defaults count then. None = ``topics.json``.
    """

    topic: Mapping[str, str] = _NOTHING
    broker: Mapping[str, str] = _NOTHING
    metadata_log: str | None = None


def config_of_topic(options: OpenOptions, given: GivenSettings | None) -> LogConfig:
    """Return the settings of a topic's logs.

    Parameters
    ----------
    options : OpenOptions
        What the directory was opened with.
    given : GivenSettings or None
        What the topic was given; None = it cannot be read: nothing is deleted or compacted.

    Raises
    ------
    IllegalArgumentError
        A value has another type than its key, or is out of range.
    """
    if given is None:
        config = topic_config(options.config, options.given, {}, deletes_by_default=False)
        return config.with_changes(cleanup_policy="delete", retention_ms=None, retention_bytes=-1)
    defaults = _NOTHING if given.metadata_log is None else NOT_TIERED
    return topic_config(
        options.config,
        options.given,
        {**defaults, **given.broker, **given.topic},
        deletes_by_default=options.profile is Profile.KAFKA or given.metadata_log is not None,
    )


def is_left_to_compaction(config: LogConfig, profile: Profile, *, cleans: bool) -> bool:
    """Whether retention leaves a log to the cleaner, which deletes there [RTN-1, CLN-7].

    With *cleans* there is one; a broker leaves it such logs also where there is none.
    """
    return "compact" in config.cleanup_policies and (cleans or profile is Profile.KAFKA)
