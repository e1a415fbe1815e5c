"""The settings of a log that is opened alone: ``topics.json`` of the directory above has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.config.topic_config import topic_config
from segstore.log.files.checkpoints import UNREADABLE_TO_READERS
from segstore.log.files.profile import Profile
from segstore.log.files.topics_file import UNREADABLE_TOPICS, read_topics

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.config.log_config import LogConfig
    from segstore.log.open_options import OpenOptions


def config_above(
    options: OpenOptions, log_directory: Directory, topic: str, warnings: list[str]
) -> LogConfig:
    """Return what a log goes by: what its caller has set, then what its topic was given.

    A file that cannot be read is a warning, and nothing is deleted by a default then [DUR-128].

    Parameters
    ----------
    options : OpenOptions
        Those that the log is opened with.
    log_directory : Directory
        Has ``topics.json``, or not.
    topic : str
        The topic of the log.
    warnings : list of str
        Gets a line for a file that cannot be read.
    """
    config, given = options.config, options.given
    unreadable = UNREADABLE_TO_READERS if options.read_only else UNREADABLE_TOPICS
    try:
        entry = read_topics(log_directory).get(topic)
    except unreadable as error:
        warnings.append(f"the settings of topic {topic!r} are unknown: {error}")
        properties = {}
    else:
        if entry is None:
            return config
        properties = {key: text for key, text in entry.config.items() if key not in given}
    deletes_by_default = options.profile is Profile.KAFKA
    return topic_config(config, given, properties, deletes_by_default=deletes_by_default)
