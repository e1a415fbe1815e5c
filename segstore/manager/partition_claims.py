"""Who works on the remote part of a partition: one thread at a time, and changes come first."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from threading import Condition, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from segstore.types import TopicPartition


class PartitionClaims:
    """Partitions that one thread works on each; any thread may call it.

    A pass tries one partition after another. A change of a topic waits for what runs for its
    partitions, which it cancels, and for nothing else.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._owners: dict[TopicPartition, int] = {}
        self._wanted: Counter[TopicPartition] = Counter()

    def is_wanted(self, topic_partition: TopicPartition) -> bool:
        """Whether a change waits for it: what is not begun is not to begin."""
        return self._wanted[topic_partition] > 0

    @contextmanager
    def trying(self, topic_partition: TopicPartition) -> Iterator[bool]:
        """Claim a partition in the block if no thread has it or waits for it; yield whether."""
        with self._changed:
            is_free = topic_partition not in self._owners and not self.is_wanted(topic_partition)
            if is_free:
                self._owners[topic_partition] = get_ident()
        try:
            yield is_free
        finally:
            if is_free:
                self._release([topic_partition])

    @contextmanager
    def taking(
        self, topic_partitions: Iterable[TopicPartition], cancel: Callable[[], object]
    ) -> Iterator[None]:
        """Claim partitions in the block, after *cancel* has ended what others do for them.

        Raises
        ------
        RuntimeError
            This thread has one of them: it would wait for itself.
        """
        taken = list(topic_partitions)
        with self._changed:
            if any(self._owners.get(one) == get_ident() for one in taken):
                raise RuntimeError(
                    "a partition cannot be deleted, and its remote part cannot, by a call from"
                    " within a pass over that part"
                )
            self._wanted.update(taken)
        try:
            cancel()
            with self._changed:
                self._changed.wait_for(lambda: not any(one in self._owners for one in taken))
                self._owners.update(dict.fromkeys(taken, get_ident()))
        finally:
            with self._changed:
                self._wanted -= Counter(taken)
        try:
            yield
        finally:
            self._release(taken)

    def _release(self, topic_partitions: Iterable[TopicPartition]) -> None:
        with self._changed:
            for one in topic_partitions:
                del self._owners[one]
            self._changed.notify_all()
