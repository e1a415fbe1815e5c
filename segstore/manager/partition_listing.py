"""What a log directory holds, listed once and again after a change."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.log.files.parsed_file import SETTLED_NS
from segstore.manager.partition_directories import Unfinished, partition_of, read_with_topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segstore._core import Directory
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


NOTHING_LISTED: Final = Listed((), {}, Unfinished(frozenset(), {}))
"""Of a directory that has failed before it was listed."""


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

    @property
    def last(self) -> Listed | None:
        """What was there at the last look; None before the first."""
        return None if self._last is None else self._last[1]

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


class CombinedListing:
    """The partitions of several log directories; of one, its own listing.

    A topic whose change is not finished in one directory is not finished.
    """

    def __init__(self) -> None:
        self._parts: tuple[Listed, ...] = ()
        self._combined = NOTHING_LISTED

    def is_of(self, parts: Sequence[Listed]) -> bool:
        """Whether these were combined last."""
        return len(parts) == len(self._parts) and all(map(is_, parts, self._parts))

    def of(self, parts: Sequence[Listed]) -> Listed:
        """Return them as one; the same object while none of them is another one."""
        if len(parts) == 1:
            return parts[0]
        if not self.is_of(parts):
            self._combined = _combined(parts)
            self._parts = tuple(parts)
        return self._combined


def _combined(parts: Sequence[Listed]) -> Listed:
    hidden = frozenset().union(*(part.unfinished.topics for part in parts))
    added: dict[str, range] = {}
    for part in parts:
        for topic, numbers in part.unfinished.added.items():
            first, last = added.get(topic, numbers), numbers
            added[topic] = range(min(first.start, last.start), max(first.stop, last.stop))
    unfinished = Unfinished(hidden, added)
    everywhere = {one for part in parts for one in part.partitions}
    partitions = sorted(one for one in everywhere if not unfinished.hides(one))
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return Listed(partitions, topics, unfinished)
