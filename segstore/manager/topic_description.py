"""A topic as it is: its id, its partitions, each setting and where that comes from.

Source: [CFG-50, CFG-52], DESIGN D16.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from segstore.config.topic_config import NOT_DELETING
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.config.topic_properties import values_of
from segstore.log.files.profile import Profile
from segstore.manager.topic_limits import NOT_TIERED
from segstore.notebook import as_html

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator, Mapping

    from segstore.config.config_key import ConfigValue
    from segstore.manager.topic_limits import GivenSettings


class SettingSource(Enum):
    """Where the value of a setting comes from."""

    TOPIC = "topic"
    """The topic was given it."""
    METADATA_LOG = "metadata log"
    """The topic was given it in its cluster, as the broker's metadata log says."""
    BROKER = "broker"
    """Its broker was given it while it ran, as the broker's metadata log says."""
    DIRECTORY = "directory"
    """The directory was opened with it."""
    DEFAULT = "default"
    """Kafka's default."""
    NOT_SET = "not set"
    """Nothing: the safe profile has no default that deletes records."""


class TopicSetting(NamedTuple):
    """A setting of a topic.

    Attributes
    ----------
    name : str
        Kafka's key.
    value : bool, int, float, str, tuple of str or None
        None where it is not set.
    source : SettingSource
        Where the value comes from.
    documentation : str
        What it does.
    """

    name: str
    value: ConfigValue
    source: SettingSource
    documentation: str


class TopicDescription(NamedTuple):
    """A topic as it is.

    Attributes
    ----------
    name : str
        Its name.
    topic_id : uuid.UUID or None
        Its id; None where no file says it.
    partitions : tuple of int
        The numbers of its partitions, ascending.
    settings : tuple of TopicSetting
        All of them, by name.
    """

    name: str
    topic_id: uuid.UUID | None
    partitions: tuple[int, ...]
    settings: tuple[TopicSetting, ...]

    @as_html
    def _repr_html_(self) -> Iterator[tuple[str, object]]:
        yield "topic id", self.topic_id
        yield "partitions", len(self.partitions)
        usual = (SettingSource.DEFAULT, SettingSource.NOT_SET)
        given = [one for one in self.settings if one.source not in usual]
        yield (
            "settings that were given",
            [
                {"setting": one.name, "value": one.value, "source": one.source.value}
                for one in given
            ],
        )
        yield "other settings", len(self.settings) - len(given)

    def __repr__(self) -> str:
        return (
            f"TopicDescription({self.name!r}, {len(self.partitions)} partitions,"
            f" {len(self.settings)} settings)"
        )


def settings_of(
    given: GivenSettings, directory: Mapping[str, ConfigValue], profile: Profile
) -> Iterator[TopicSetting]:
    """Yield each setting of a topic.

    Parameters
    ----------
    given : GivenSettings
        What the topic was given.
    directory : mapping
        What the directory was opened with, where the caller has set it.
    profile : Profile
        In the safe one nothing deletes by default, but for a broker's topics.
    """
    values = values_of({**given.broker, **given.topic})
    is_of_broker = given.metadata_log is not None
    own = SettingSource.METADATA_LOG if is_of_broker else SettingSource.TOPIC
    for name, key in TOPIC_KEYS.items():
        if name in given.topic:
            value, source = values[name], own
        elif name in given.broker:
            value, source = values[name], SettingSource.BROKER
        elif name in directory and not (is_of_broker and name in NOT_TIERED):
            value, source = directory[name], SettingSource.DIRECTORY
        elif name in NOT_DELETING and profile is Profile.SAFE and not is_of_broker:
            value, source = None, SettingSource.NOT_SET
        else:
            value, source = key.default, SettingSource.DEFAULT
        if not key.is_internal or source is own:
            yield TopicSetting(name, value, source, key.documentation)
