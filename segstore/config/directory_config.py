"""Settings of a log directory in Kafka's keys: those of its broker, and the defaults of its topics.

Source: [CFG-49, CFG-52, CFG-62…CFG-66, CFG-68…CFG-75], Kafka's ``KafkaConfig`` and
``CleanerConfig``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from segstore.config.broker_config import BrokerConfig, topic_properties_of
from segstore.config.broker_keys import BROKER_KEYS
from segstore.config.log_config import LogConfig
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.config.topic_properties import properties_of, refuse_keys_outside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.config.log_config import LogSettings

CLEANER_KEYS: Final = (
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.enable",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
)
"""How logs are compacted."""
INTERVAL_KEYS: Final = (
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "log.initial.task.delay.ms",
    "log.retention.check.interval.ms",
    "replica.high.watermark.checkpoint.interval.ms",
)
"""How often what is done."""
REMOTE_KEYS: Final = (
    "remote.log.index.file.cache.total.size.bytes",
    "remote.log.index.file.cache.ttl.ms",
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.copy.quota.window.num",
    "remote.log.manager.copy.quota.window.size.seconds",
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.fetch.quota.window.num",
    "remote.log.manager.fetch.quota.window.size.seconds",
    "remote.log.manager.task.interval.ms",
    "remote.log.manager.task.retry.backoff.max.ms",
    "remote.log.manager.task.retry.backoff.ms",
    "remote.log.metadata.custom.metadata.max.bytes",
)
"""How remote storage is used."""
DIRECTORY_KEYS: Final = frozenset(
    {*TOPIC_KEYS, *CLEANER_KEYS, *INTERVAL_KEYS, *REMOTE_KEYS}.union(
        synonym for key in TOPIC_KEYS.values() for synonym in key.synonyms
    )
)
"""All keys that a log directory can be given."""


class DirectoryConfig(NamedTuple):
    """What the settings of a log directory say.

    Attributes
    ----------
    defaults : LogSettings
        Of topics that were not given a setting, as keywords of `open_dir`.
    broker : BrokerConfig
        The rest.
    is_of_cleaner : bool
        Whether one of `CLEANER_KEYS` was given.
    """

    defaults: LogSettings
    broker: BrokerConfig
    is_of_cleaner: bool


def directory_config(config: Mapping[str, object]) -> DirectoryConfig:
    """Return what settings in Kafka's keys say.

    Parameters
    ----------
    config : mapping of str to str, int, float or bool
        Keys of a topic, which count before the broker's keys for the same setting; keys that give a
        broker's topics their defaults; `CLEANER_KEYS` and `INTERVAL_KEYS`. None = not given.

    Raises
    ------
    ArgumentTypeError
        It is no mapping, a key is no text, or a value is of another type.
    InvalidConfigurationError
        A key is unknown, or none that a log directory goes by.
    IllegalArgumentError
        A value has another type than its key, or is out of range; or it does not go with another.
    """
    given = {key: text for key, text in properties_of(config).items() if text is not None}
    refuse_keys_outside(DIRECTORY_KEYS, given, "a log directory")
    of_broker = {key: text for key, text in given.items() if key in BROKER_KEYS}
    of_topics = {key: text for key, text in given.items() if key in TOPIC_KEYS}
    broker = BrokerConfig.from_properties(of_broker)
    properties = topic_properties_of(of_broker) | of_topics
    log_config = LogConfig.from_properties(properties)
    fields = (name.replace(".", "_") for name in properties)
    names = [name for name in fields if hasattr(log_config, name)]  # no log goes by the others
    defaults = cast("LogSettings", {name: getattr(log_config, name) for name in names})
    return DirectoryConfig(defaults, broker, not given.keys().isdisjoint(CLEANER_KEYS))
