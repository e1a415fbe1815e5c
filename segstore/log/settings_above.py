"""The settings of a log that is opened alone: the directory above has them.

They are in the metadata log of a broker, where there is one that knows the topic, else in
``topics.json``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from segstore.config.topic_config import topic_config
from segstore.errors import IllegalArgumentError, InvalidConfigurationError, LogNotFoundError
from segstore.log.files.broker_metadata import UNREADABLE_METADATA, find_broker_metadata
from segstore.log.files.checkpoints import UNREADABLE_TO_READERS, read_topic_id
from segstore.log.files.profile import Profile
from segstore.log.files.topic_names import CLUSTER_METADATA_TOPIC
from segstore.log.files.topics_file import TOPICS_FILE, UNREADABLE_TOPICS, read_topics

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping

    from segstore._core import Directory
    from segstore.config.log_config import LogConfig
    from segstore.log.open_options import OpenOptions

REFUSED_SETTINGS: Final = (IllegalArgumentError, InvalidConfigurationError)
"""What says of a setting in ``topics.json`` that this version does not take it."""


def id_of_partition(directory: Directory) -> uuid.UUID | None:
    """Return the topic id of a partition's directory; None where no file says it."""
    with suppress(LogNotFoundError, *UNREADABLE_TO_READERS):
        return read_topic_id(directory)
    return None


def config_above(
    options: OpenOptions,
    log_directory: Directory,
    topic: str,
    partition: Directory,
    warnings: list[str],
) -> LogConfig:
    """Return what a log goes by: what its caller has set, then what its topic was given.

    A file that cannot be read is a warning, and so is a setting that this version does not take:
    nothing is deleted by a default then [DUR-128].

    Parameters
    ----------
    options : OpenOptions
        Those that the log is opened with.
    log_directory : Directory
        Has a broker's metadata log, or ``topics.json``, or neither.
    topic : str
        The topic of the log.
    partition : Directory
        That of the log; has the topic's id.
    warnings : list of str
        Gets a line for a file that cannot be read.
    """
    if topic == CLUSTER_METADATA_TOPIC:  # its records go with snapshots alone [RAFT-41]
        return _config(options, {}, deletes_by_default=False)
    unreadable = UNREADABLE_TO_READERS if options.read_only else UNREADABLE_TOPICS
    try:
        metadata = find_broker_metadata(log_directory)
        if metadata is not None and metadata.gives_settings(topic, id_of_partition(partition)):
            return _config(options, metadata.properties_of(topic), deletes_by_default=True)
    except UNREADABLE_METADATA as error:
        warnings.append(
            f"the settings of topic {topic!r} are unknown, and nothing is deleted by a default: the"
            f" metadata log cannot be used: {error}"
        )
        return _config(options, {}, deletes_by_default=False)
    try:
        entry = read_topics(log_directory).get(topic)
        if entry is not None and not entry.counts_for(id_of_partition(partition)):
            warnings.append(older_settings(topic))
            entry = None
        own = {} if entry is None else entry.config
        return _config(options, own, deletes_by_default=options.profile is Profile.KAFKA)
    except (*unreadable, *REFUSED_SETTINGS) as error:
        warnings.append(f"the settings of topic {topic!r} are unknown: {error}")
    return _config(options, {}, deletes_by_default=False)


def _config(
    options: OpenOptions, properties: Mapping[str, str], *, deletes_by_default: bool
) -> LogConfig:
    given = options.given
    own = {key: text for key, text in properties.items() if key not in given}
    return topic_config(options.config, given, own, deletes_by_default=deletes_by_default)


def older_settings(topic: str) -> str:
    """Return the warning about a topic that was made again."""
    return (
        f"the settings of topic {topic!r} in {TOPICS_FILE} do not count: they are those of a topic"
        " with another id, and this one was made since"
    )
