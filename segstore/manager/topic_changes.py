"""Changes of topics: made, altered, deleted, each as a whole; open logs go by them at once.

Source: [MGR-63, MGR-95, MGR-96, CFG-37…CFG-46].
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from segstore.arguments import callback, integer
from segstore.config.topic_properties import properties_of, refuse_unknown_keys
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
    import os
    import uuid
    from collections.abc import Callable, Mapping, Sequence

    from segstore.manager.log_directory import LogDirectory
    from segstore.manager.placement import Placement
    from segstore.manager.shared_topics import SharedTopics

MAX_PARTITIONS_OF_A_TOPIC: Final = 100_000


class TopicChanges:
    """Checks a change, has it written down, and lets open logs know; under the manager's mutex.

    Parameters
    ----------
    directories : sequence of LogDirectory
        The log directories, whose locks are held.
    placement : Placement
        Where new partitions go.
    topics : SharedTopics
        Makes and deletes partitions, and writes ``topics.json``.
    numbers_of : callable
        Returns the partitions of a topic, ascending; raises where there is no such topic.
    home_of : callable
        Returns the directory that a partition lies in; raises where it lies in several.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        placement: Placement,
        topics: SharedTopics,
        numbers_of: Callable[..., Sequence[int]],
        home_of: Callable[[TopicPartition], LogDirectory],
    ) -> None:
        self._directories = directories
        self._placement = placement
        self._topics = topics
        self._numbers_of = numbers_of
        self._home_of = home_of

    def create(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, object] | None,
        directories: Mapping[int, str | os.PathLike[str]],
        progress: Callable[[int, int], None] | None,
    ) -> list[TopicPartition]:
        """Make a topic; see `LogManager.create_topic`."""
        check_topic(name)
        count = checked_count(partitions)
        given = {} if config is None else properties_of(config)
        refuse_unknown_keys(given)
        properties = _given(given)
        self._directories[0].settings.check(properties, {})
        self._directories[0].settings.refuse_name_of_broker(name)
        self._topics.settle(name)
        self._topics.check_is_new(name)
        placement = self._placement.of(range(count), directories)
        self._topics.create(name, placement, properties, _counting(count, progress))
        return [TopicPartition(name, number) for number in range(count)]

    def alter(
        self,
        name: str,
        config: Mapping[str, object] | None,
        partitions: int | None,
        directories: Mapping[int, str | os.PathLike[str]],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Change a topic; see `LogManager.alter_topic`."""
        changes = {} if config is None else properties_of(config)
        count = None if partitions is None else checked_count(partitions)
        self._topics.settle(name)
        numbers = self._numbers_of(name)
        self.refuse_topic_of_broker(name)
        topic_id = self._topic_id_of(name, numbers)
        entry = self._topics.entry_of(name)
        if entry is None or not entry.counts_for(topic_id):
            entry = TopicEntry(topic_id, numbers[-1] + 1, TopicState.LIVE)
        # one that a later version wrote can be taken back: with it, no other change is taken
        refuse_unknown_keys(key for key in changes if key not in entry.config)
        properties = _given({**entry.config, **changes})
        self._directories[0].settings.check(properties, entry.config)
        then = entry._replace(config=properties)
        if count is None or count == len(numbers):
            self._topics.alter(name, then)
        else:
            check_no_gap(self._directories[0].directory, name, numbers)
            if count < len(numbers):
                raise IllegalArgumentError(
                    f"topic {name!r} has {len(numbers)} partitions, and cannot have fewer: records"
                    " would be lost",
                    found=str(count),
                    expected=f"more than {len(numbers)}",
                )
            now = entry._replace(partitions=len(numbers))
            placement = self._placement.of(range(len(numbers), count), directories)
            made = _counting(count - len(numbers), progress)
            self._topics.grow(name, now, then._replace(partitions=count), placement, made)
        try:
            self.update_open_logs(name)
        finally:
            for one in self._directories:
                one.ask_for_retention()

    def update_open_logs(self, name: str) -> None:
        """Let open logs go by the settings of their topic; one that fails keeps no other."""
        errors: list[SegstoreError] = []
        for topic_partition in (TopicPartition(name, number) for number in self._numbers_of(name)):
            for one in self._directories:
                log = one.logs.find_in_place(topic_partition)
                if log is None or one.error is not None:  # where the disk failed, none changes
                    continue
                was_compacted = "compact" in log.config.cleanup_policies
                try:
                    log.update_config(one.settings.config_of(topic_partition))
                except ClosedError:  # meanwhile: its next open reads them
                    continue
                except SegstoreError as error:
                    error.add_note(
                        f"topic {name!r} has the new settings; {topic_partition} goes by them after"
                        " its next open"
                    )
                    errors.append(error)
                if was_compacted and "compact" not in log.config.cleanup_policies:  # [MGR-96]
                    one.end_cleaning(topic_partition)
        if errors:
            raise errors[0]

    def _topic_id_of(self, name: str, numbers: Sequence[int]) -> uuid.UUID | None:
        ids = (one.settings.topic_id_of(name, numbers) for one in self._directories)
        return next((topic_id for topic_id in ids if topic_id is not None), None)

    def refuse_topic_of_broker(self, name: str) -> None:
        """Raise where a metadata log has the settings of a topic: a change here would not count."""
        for one in self._directories:
            if one.error is None:
                one.settings.refuse_topic_of_broker(name)

    def check_deletable(self, name: str, partition: int | None = None) -> None:
        """Raise where `delete`, or `delete_partition`, would refuse it; nothing is changed."""
        check_topic(name)
        self.refuse_topic_of_broker(name)
        if partition is None:
            self._topics.check_deletable(name)
        else:
            self._home_of(TopicPartition(name, partition)).check_writable()

    def delete(self, name: str) -> None:
        """Delete a topic; see `LogManager.delete_topic`."""
        check_topic(name)
        self.refuse_topic_of_broker(name)
        if not self._topics.settle(name):
            numbers = self._numbers_of(name, "")
            with ExitStack() as stack:  # before the deletion begins
                for one in self._directories:
                    stack.enter_context(one.logs.locking(TopicPartition(name, n) for n in numbers))
                self._topics.delete(name, numbers)

    def delete_partition(self, topic: str, partition: int) -> None:
        """Delete a partition; see `LogManager.delete_partition`."""
        self._topics.settle(topic)
        if partition not in self._numbers_of(topic, ""):
            raise UnknownTopicOrPartitionError(
                f"no partition {topic}-{partition} here",
                file=self._directories[0].path,
                found="no such directory",
            )
        topic_partition = TopicPartition(topic, partition)
        self._home_of(topic_partition)  # of two directories, none is guessed
        self.refuse_topic_of_broker(topic)
        self._topics.delete_partition(topic_partition)


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


def _counting(total: int, progress: Callable[[int, int], None] | None) -> Callable[[int], None]:
    """Return what is called with how many more are made; it reports how many are."""
    callback("progress", progress)
    done = 0

    def made(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    return made


def _given(properties: Mapping[str, str | None]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if text is not None}
