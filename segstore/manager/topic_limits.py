"""What a log of a topic goes by, and whether retention may delete anything of it by itself.

In the safe profile deleting is asked for, never a default: a topic that was given no retention.ms
is kept for ever, and so is one whose settings cannot be read [RTN-2, DUR-128]. DESIGN D16.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.config.topic_config import topic_config
from segstore.log.files.profile import Profile
from segstore.log.settings_above import REFUSED_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.config.log_config import LogConfig
    from segstore.log.open_options import OpenOptions


_log = logging.getLogger(__name__)


def limits_of_topic(
    options: OpenOptions, topic: str, properties: Mapping[str, str] | None
) -> LogConfig:
    """Return `config_of_topic`; where this version refuses a setting, as if none could be read."""
    try:
        return config_of_topic(options, properties)
    except REFUSED_SETTINGS as error:
        _log.warning("the settings of topic %r are unknown: %s", topic, error)
    return config_of_topic(options, None)


def config_of_topic(options: OpenOptions, properties: Mapping[str, str] | None) -> LogConfig:
    """Return the settings of a topic's logs.

    Parameters
    ----------
    options : OpenOptions
        What the directory was opened with.
    properties : mapping of str to str, or None
        What the topic was given; None = it cannot be read.
    """
    config = topic_config(
        options.config,
        options.given,
        {} if properties is None else properties,
        deletes_by_default=options.profile is Profile.KAFKA,
    )
    if properties is None:
        return config.with_changes(retention_ms=None, retention_bytes=-1)
    return config


def is_left_to_compaction(config: LogConfig, profile: Profile) -> bool:
    """Whether retention leaves a log to the cleaner: a broker's cleaner deletes there [RTN-1]."""
    return profile is Profile.KAFKA and "compact" in config.cleanup_policies


def is_limited(config: LogConfig) -> bool:
    """Whether retention deletes by size or by age [RTN-2]."""
    has_age = config.retention_ms is not None and config.retention_ms >= 0
    has_limit = has_age or config.retention_bytes >= 0
    return "delete" in config.cleanup_policies and has_limit
