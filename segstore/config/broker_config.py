"""The settings of a broker, as a log directory goes by them.

Source: [CFG-48, CFG-49, CFG-52, CFG-84], Kafka's ``AbstractKafkaConfig``, ``LogManager.apply``,
``CleanerConfig`` and ``DynamicLogConfig``.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from segstore.config.broker_keys import BROKER_KEYS, UNIT_MS
from segstore.config.config_key import ConfigValue, parsed
from segstore.config.topic_keys import NO_LIMIT, TOPIC_KEYS
from segstore.config.topic_properties import check_lags, check_local_limits, default_values
from segstore.errors import IllegalArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_DIRECTORIES: Final = "*"
LEAST_DEDUPE_BYTES: Final = 1024 * 1024
"""A thread of compaction needs more memory for keys than this."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What a broker's properties say.

    Attributes
    ----------
    values : mapping
        The value of each key of `BROKER_KEYS`.
    topic_defaults : mapping
        The value of each key of a topic that was given none.
    """

    values: Mapping[str, Any]
    topic_defaults: Mapping[str, ConfigValue]

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Return the settings for a broker's properties; unknown keys are left out.

        Raises
        ------
        IllegalArgumentError
            A value has another type than its key, or is out of range; or it does not go with
            another one (Kafka ``ConfigException``, ``IllegalArgumentException``).
        """
        given = parsed(BROKER_KEYS, properties)
        values: dict[str, Any] = {name: key.default for name, key in BROKER_KEYS.items()}
        values.update(given)
        topic_defaults = _topic_defaults(given)
        _check_times(topic_defaults)
        _check_memory(values)
        config = cls(MappingProxyType(values), MappingProxyType(topic_defaults))
        config._check_cordoned()
        for name, value in topic_defaults.items():
            _check_as_topic(name, value)
        check_lags(topic_defaults)
        if values["remote.log.storage.system.enable"]:
            check_local_limits(topic_defaults)
        return config

    def check_dynamic_change(self) -> None:
        """Check that these values may be set while logs are open [CFG-48].

        Raises
        ------
        IllegalArgumentError
            A limit of the local part is above that of the whole log.
        """
        check_local_limits(self.topic_defaults, "log.")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The log directories, in their order [CFG-60]."""
        values = self.values
        dirs: tuple[str, ...] = values["log.dir" if values["log.dirs"] is None else "log.dirs"]
        return dirs

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """Those that get no new partition [CFG-84]."""
        cordoned: tuple[str, ...] = self.values["cordoned.log.dirs"]
        return self.log_dirs if cordoned == (ALL_DIRECTORIES,) else cordoned

    def _check_cordoned(self) -> None:
        cordoned = self.values["cordoned.log.dirs"]
        if ALL_DIRECTORIES in cordoned and len(cordoned) > 1:
            raise IllegalArgumentError(
                "cordoned.log.dirs has * and other values",
                found=",".join(cordoned),
                expected="* alone, or log directories",
            )
        missing = [one for one in self.cordoned_log_dirs if one not in self.log_dirs]
        if missing:
            raise IllegalArgumentError(
                f"cordoned.log.dirs names {', '.join(missing)}, which is no log directory",
                found=",".join(cordoned),
                expected=", ".join(self.log_dirs),
            )


def topic_properties_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what a broker's properties set for its topics, as if topics were given it [CFG-52].

    Keys that are not set are left out, and so are those that are no default of topics.

    Raises
    ------
    IllegalArgumentError
        A value has another type than its key, or is out of range.
    """
    values = _set_for_topics(parsed(BROKER_KEYS, properties))
    for name, value in values.items():
        _check_as_topic(name, value)
    return {name: _text(value) for name, value in values.items()}


def _text(value: ConfigValue) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _topic_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a topic gets that was given nothing."""
    return {**default_values(), **_set_for_topics(given)}


def _set_for_topics(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is set: of several keys for one setting, the strongest counts [CFG-52]."""
    values: dict[str, Any] = {}
    for name, key in TOPIC_KEYS.items():
        for synonym in key.synonyms:
            if given.get(synonym) is not None:
                values[name] = (
                    given[synonym] * UNIT_MS[synonym] if synonym in UNIT_MS else given[synonym]
                )
                break
    if values.get("retention.ms", 0) < 0:
        values["retention.ms"] = NO_LIMIT
    return values


def _check_times(values: Mapping[str, Any]) -> None:
    """Check what no range of one key says [CFG-49]."""
    for name, least in (("segment.ms", 1), ("segment.jitter.ms", 0)):
        if values[name] < least:
            raise _out_of_range(name, values[name], f"{least} or more")
    if values["retention.ms"] == 0:
        raise _out_of_range("retention.ms", 0, "-1, or 1 or more")


def _check_memory(values: Mapping[str, Any]) -> None:
    """Each thread of compaction has memory for keys [CFG-49]."""
    threads, size = values["log.cleaner.threads"], values["log.cleaner.dedupe.buffer.size"]
    if threads == 0 or size // threads <= LEAST_DEDUPE_BYTES:
        raise IllegalArgumentError(
            f"log.cleaner.dedupe.buffer.size is {size} and log.cleaner.threads {threads}",
            found=f"{size} bytes for {threads} threads",
            expected=f"one thread or more, and more than {LEAST_DEDUPE_BYTES} bytes for each",
        )


def _check_as_topic(name: str, value: Any) -> None:
    """Check the lower bound that the topic's key has, where the broker's has none."""
    key = TOPIC_KEYS[name]
    if key.low is not None and value < key.low and value != key.also:
        raise _out_of_range(name, value, key.valid_values)


def _out_of_range(name: str, value: ConfigValue, expected: str) -> IllegalArgumentError:
    broker_name = TOPIC_KEYS[name].synonyms[0]
    return IllegalArgumentError(
        f"{broker_name} cannot be {value}: it must be {expected}",
        found=str(value),
        expected=expected,
    )
