"""What a log directory holds, listed once and again after a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import UnknownTopicOrPartitionError
from segstore.log.files.parsed_file import SETTLED_NS
from segstore.manager.partition_directories import partition_of, read_with_topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segstore._core import Directory
    from segstore.manager.partition_directories import Unfinished
    from segstore.types import TopicPartition


class Listed(NamedTuple):
    """One listing; another object after each change of the directory. Never changed.

    Attributes
    ----------
    partitions : sequence of TopicPartition
        Sorted.
    topics : mapping of str to sequence of int
        The partitions of each topic, ascending.
    unfinished : Unfinished
        What is left out: its making or removal is not finished.
    """

    partitions: Sequence[TopicPartition]
    topics: Mapping[str, Sequence[int]]
    unfinished: Unfinished


def numbers_in(listed: Listed, topic: str, log_dir: str) -> Sequence[int]:
    """Return the partitions of a topic, ascending.

    Raises
    ------
    UnknownTopicOrPartitionError
        There is no such topic.
    """
    numbers = listed.topics.get(topic)
    if numbers is None:
        raise UnknownTopicOrPartitionError(
            f"no topic {topic!r} here: create_topic makes it", file=log_dir, found="no such topic"
        )
    return numbers


class PartitionListing:
    """The partitions of a log directory, as they are now.

    Others may add directories at any time, also where its lock is held. The system notes when a
    name in a directory was changed last: until that is another time, nothing is listed. A listing
    that is as young as the last change may lack another change of that very moment, and does not
    count the next time. Safe to use from several threads.

    Parameters
    ----------
    directory : Directory
        The log directory.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._last: tuple[tuple[int, int] | None, Listed] | None = None
        self._known: dict[str, TopicPartition] = {}  # by the names of the directories

    def current(self) -> Listed:
        """Return what is there now, but for what is not finished."""
        directory = self._directory
        info = directory.own_info()
        signature, last = (info.inode, info.changed_ns), self._last
        if last is not None and last[0] == signature:
            return last[1]
        is_settled = info.changed_ns + SETTLED_NS < directory.wall_clock_ms() * 1_000_000
        listed = self._listed()
        if last is not None and listed == last[1]:
            listed = last[1]  # the same object: nothing that was derived from it is made again
        self._last = (signature if is_settled else None, listed)
        return listed

    def _listed(self) -> Listed:
        """List the directory; what was a partition's directory before is not looked at again."""
        self._known, unfinished = read_with_topics(self._directory, self._partitions_by_name)
        now = self._known.values()
        partitions = sorted(one for one in now if not unfinished.hides(one))
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        return Listed(partitions, topics, unfinished)

    def _partitions_by_name(self) -> dict[str, TopicPartition]:
        directory, known = self._directory, self._known
        return {
            name: partition
            for name in directory.names(ordered=False)
            if (partition := known.get(name) or partition_of(directory, name)) is not None
        }
