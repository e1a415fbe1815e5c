"""A log directory that a `LogManager` wrote by a seeded sequence of operations."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import segstore
from segstore.types import TopicPartition
from tests.interop.random_script import AN_HOUR_MS, KAFKA_KEYS, RandomScript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import LogManager, UnifiedLog

TOPICS: Final = ("orders", "clicks", "a.b_c-d")
CONFIGS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"retention.ms": AN_HOUR_MS // 2},
    {"retention.bytes": 3000},
)


class _Partition(RandomScript):
    """What is done to one partition; the manager opens and closes its log."""

    def __init__(self, folder: Path, seed: int, internal_segment_bytes: int) -> None:
        super().__init__(folder, seed)
        self.settings["internal_segment_bytes"] = internal_segment_bytes
        operations = self._operations()
        del operations[self._reopen]
        self._choices, self._weights = [*operations], [*operations.values()]

    def step(self, log: UnifiedLog) -> None:
        """Do one operation."""
        self._log = log
        (operation,) = self._rng.choices(self._choices, self._weights)
        operation()


class RandomDirectory:
    """Writes *folder*; the same seed gives the same operations.

    Attributes
    ----------
    settings : dict
        Of `segstore.open_dir`.
    is_closed : bool
        Whether the last manager is closed; else it ends as in a killed process.
    partitions : dict of TopicPartition
        Those that are there.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.directory = folder
        self._rng = random.Random(seed)
        pick = self._rng.choice
        self.settings: dict[str, Any] = {
            "internal_segment_bytes": pick((600, 1500, 4000)),
            "index_interval_bytes": pick((0, 200, 4096)),
            "segment_index_bytes": 4096,
        }
        self.is_closed = self._rng.random() < 0.7
        self.partitions: dict[TopicPartition, _Partition] = {}
        self._now = segstore._core.wall_clock_ms()
        self._logs: LogManager

    @property
    def kafka_config(self) -> dict[str, str]:
        """The same settings by Kafka's names."""
        return {KAFKA_KEYS[name]: str(value) for name, value in self.settings.items()}

    def open(self, path: Path) -> LogManager:
        """Open a directory with these settings."""
        return segstore.open_dir(
            path, durability="none", segment_ms=None, file_delete_delay_ms=0, **self.settings
        )

    def run(self, look: Callable[[UnifiedLog], str]) -> dict[str, str]:
        """Write the directory; return what *look* saw of each log at the end."""
        self._logs = self.open(self.directory)
        self._create()
        operations = {
            self._step: 30,
            self._create: 1,
            self._alter: 1,
            self._delete: 1,
            self._delete_partition: 1,
            self._maintain: 2,
            self._close: 1,
            self._kill: 1,
        }
        for operation in self._rng.choices([*operations], [*operations.values()], k=60):
            operation()
        self._maintain()  # a broker knows the log starts of the last checkpoints alone
        seen = {str(one): look(self._logs.log(*one)) for one in self.partitions}
        if self.is_closed:
            self._logs.close()
        else:
            self._end_at_once()
        return seen

    # ---- operations ------------------------------------------------------------------------------

    def _step(self) -> None:
        if self.partitions:
            topic_partition = self._rng.choice([*self.partitions])
            self.partitions[topic_partition].step(self._logs.log(*topic_partition))

    def _create(self) -> None:
        missing = [one for one in TOPICS if one not in self._logs.topics()]
        if missing:
            topic = self._rng.choice(missing)
            count = self._rng.randint(1, 3)
            self._add(self._logs.create_topic(topic, count, config=self._rng.choice(CONFIGS)))

    def _add(self, created: list[TopicPartition]) -> None:
        for one in created:
            seed, size = self._rng.randrange(2**32), self.settings["internal_segment_bytes"]
            self.partitions[one] = _Partition(self.directory, seed, size)

    def _alter(self) -> None:
        for topic, numbers in [*self._logs.topics().items()][:1]:
            more = None
            if numbers == [*range(len(numbers))]:
                more = len(numbers) + self._rng.randint(0, 1)
            self._logs.alter_topic(topic, self._rng.choice(CONFIGS), partitions=more)
            there = self._logs.topics()[topic]
            self._add([TopicPartition(topic, one) for one in there if one not in numbers])

    def _delete(self) -> None:
        if len(self._logs.topics()) > 1:
            topic = self._rng.choice([*self._logs.topics()])
            self._logs.delete_topic(topic)
            for one in [one for one in self.partitions if one.topic == topic]:
                del self.partitions[one]

    def _delete_partition(self) -> None:
        if len(self.partitions) > 1:
            one = self._rng.choice([*self.partitions])
            self._logs.delete_partition(*one)
            del self.partitions[one]

    def _maintain(self) -> None:
        self._now += AN_HOUR_MS // 6
        assert self._logs.maintain(self._now).failed == ()

    def _close(self) -> None:
        self._logs.close()
        self._logs = self.open(self.directory)

    def _kill(self) -> None:
        self._end_at_once()
        self._logs = self.open(self.directory)

    def _end_at_once(self) -> None:
        for log in self._logs._all_writable():
            log.close_quietly()
        self._logs._release()
