"""Changes of topics: made, altered, deleted, each as a whole; open logs go by them at once.

Source: [MGR-63, MGR-95, MGR-96, CFG-37…CFG-46].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.arguments import integer
from segstore.config.topic_properties import properties_of
from segstore.errors import (
    ClosedError,
    IllegalArgumentError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.partition_directory import check_topic
from segstore.log.files.topics_file import TopicEntry, TopicState
from segstore.manager.partition_directories import check_no_gap
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore._core import Directory
    from segstore.manager.current_logs import CurrentLogs
    from segstore.manager.topic_registry import TopicRegistry
    from segstore.manager.topic_settings import TopicSettings

MAX_PARTITIONS_OF_A_TOPIC: Final = 100_000


class TopicChanges:
    """Checks a change, has it written down, and lets open logs know; under the manager's mutex.

    Parameters
    ----------
    directory : Directory
        The log directory, whose ``.lock`` is held.
    settings : TopicSettings
        What is known of the topics.
    registry : TopicRegistry
        Makes and deletes partitions, and writes ``topics.json``.
    logs : CurrentLogs
        Those that are open.
    """

    def __init__(
        self,
        directory: Directory,
        settings: TopicSettings,
        registry: TopicRegistry,
        logs: CurrentLogs,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._registry = registry
        self._logs = logs

    def create(
        self, name: str, partitions: int, config: Mapping[str, object] | None
    ) -> list[TopicPartition]:
        """Make a topic; see `LogManager.create_topic`."""
        check_topic(name)
        count = checked_count(partitions)
        properties = _given({} if config is None else properties_of(config))
        self._settings.check(properties, {})
        self._settings.refuse_name_of_broker(name)
        self._registry.create(name, count, properties)
        return [TopicPartition(name, number) for number in range(count)]

    def alter(self, name: str, config: Mapping[str, object] | None, partitions: int | None) -> None:
        """Change a topic; see `LogManager.alter_topic`."""
        changes = {} if config is None else properties_of(config)
        count = None if partitions is None else checked_count(partitions)
        numbers = self._settings.numbers_of(name)
        self._settings.refuse_topic_of_broker(name)
        topic_id = self._settings.topic_id_of(name, numbers)
        entry = self._registry.entry_of(name)
        if entry is None or not entry.counts_for(topic_id):
            entry = TopicEntry(topic_id, numbers[-1] + 1, TopicState.LIVE)
        properties = _given({**entry.config, **changes})
        self._settings.check(properties, entry.config)
        then = entry._replace(config=properties)
        if count is None or count == len(numbers):
            self._registry.alter(name, then)
        else:
            check_no_gap(self._directory, name, numbers)
            if count < len(numbers):
                raise IllegalArgumentError(
                    f"topic {name!r} has {len(numbers)} partitions, and cannot have fewer: records"
                    " would be lost",
                    found=str(count),
                    expected=f"more than {len(numbers)}",
                )
            now = entry._replace(partitions=len(numbers))
            self._registry.grow(name, now, then._replace(partitions=count))
        self._update_open_logs(name)

    def _update_open_logs(self, name: str) -> None:
        """Let open logs go by settings that are written down; one that fails keeps no other."""
        errors: list[SegstoreError] = []
        for number in self._settings.numbers_of(name):
            topic_partition = TopicPartition(name, number)
            log = self._logs.find_in_place(topic_partition)
            if log is None:
                continue
            try:
                log.update_config(self._settings.config_of(topic_partition))
            except ClosedError:  # meanwhile: its next open reads them
                continue
            except SegstoreError as error:
                error.add_note(
                    f"topic {name!r} has the new settings; {topic_partition} goes by them after"
                    " its next open"
                )
                errors.append(error)
        if errors:
            raise errors[0]

    def delete(self, name: str) -> None:
        """Delete a topic; see `LogManager.delete_topic`."""
        check_topic(name)
        self._settings.refuse_topic_of_broker(name)
        if not self._registry.settle(name):
            self._registry.delete(name, self._settings.numbers_of(name))

    def delete_partition(self, topic: str, partition: int) -> None:
        """Delete a partition; see `LogManager.delete_partition`."""
        if partition not in self._settings.numbers_of(topic):
            raise UnknownTopicOrPartitionError(
                f"no partition {topic}-{partition} here",
                file=self._directory.path,
                found="no such directory",
            )
        self._settings.refuse_topic_of_broker(topic)
        self._registry.delete_partition(TopicPartition(topic, partition))


def checked_count(partitions: int) -> int:
    """Return how many partitions a topic is to have, where it can have so many."""
    count = integer("partitions", partitions)
    if not 1 <= count <= MAX_PARTITIONS_OF_A_TOPIC:
        raise IllegalArgumentError(
            f"a topic cannot have {count} partitions",
            found=str(count),
            expected=f"1 to {MAX_PARTITIONS_OF_A_TOPIC}",
        )
    return count


def _given(properties: Mapping[str, str | None]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if text is not None}
