"""A process of the soak that reads: ``python -m tests.soak.soak_reader SEED PAUSE DIRECTORY…``.

It has log directories open to read only, all the time, while their writers live, are killed and
come back. It takes no lock and gets no word from them. It sees what was written, in order, without
a gap that no policy has made; and of a deleted topic the error that says so [DUR-75…DUR-78].
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import segstore
from segstore.errors import (
    InconsistentTopicIdError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from tests.soak.soak_process import Counts, Threads, Warnings, tell, telling_faults, wait_until
from tests.soak.soak_topics import Content

if TYPE_CHECKING:
    import random
    import uuid

    from segstore import LogManager
    from segstore.log.unified_log import Log
    from segstore.types import TopicPartition

GONE = (LogNotFoundError, InconsistentTopicIdError, UnknownTopicOrPartitionError)
TAILED_RECORDS = 300
SECONDS_TO_NOTICE = 20
"""For the list of topics after a log was gone, and for a log after its topic was."""


class Reader:
    """Goes round all logs of one directory; each is read on where it was left."""

    def __init__(self, manager: LogManager, counts: Counts) -> None:
        self._manager = manager
        self._counts = counts
        self._positions: dict[TopicPartition, tuple[Content, uuid.UUID | None, int]] = {}

    def go_round(self, _: random.Random) -> None:
        """Read what is new in each log."""
        there = self._manager.partitions()
        self._positions = {one: self._positions[one] for one in there if one in self._positions}
        for topic_partition in there:
            topic_id = None
            try:
                log = self._manager.log(*topic_partition)
                topic_id = log.topic_id
                self._read_on(topic_partition, log)
            except GONE as error:
                self._require_deletion(topic_partition, topic_id, error)

    def _read_on(self, topic_partition: TopicPartition, log: Log) -> None:
        content, topic_id, position = self._positions.get(topic_partition, (None, None, -1))
        if content is None or topic_id != log.topic_id:
            content, position = Content(topic_partition.topic, log.topic_id, topic_partition[1]), -1
        is_committed = topic_partition.partition % 2 == 1
        isolation = "read_committed" if is_committed else "log_end"
        log.refresh()
        start = log.log_start_offset
        first = start if position < 0 else position
        try:
            records = log.scan(first, isolation=isolation)
            position = content.check(records, first, committed=is_committed)
            self._counts.add("records read", position - first)
        except OffsetOutOfRangeError:
            log.refresh()
            assert first < log.log_start_offset, f"{content.name}: {first} is out of range"
            position = -1
            self._counts.add("overtaken by retention")
        self._positions[topic_partition] = content, log.topic_id, position

    def tail(self, chooser: random.Random) -> None:
        """Follow one log, until it is deleted, or nothing new comes for some seconds."""
        there = self._manager.partitions()
        if not there:
            return
        topic_partition = chooser.choice(there)
        topic_id = None
        try:
            log = self._manager.log(*topic_partition)
            topic_id = log.topic_id
            content = Content(topic_partition.topic, topic_id, topic_partition[1])
            log.refresh()
            position = log.log_end_offset
            for record in islice(log.tail(position, timeout=4, poll_interval=0.1), TAILED_RECORDS):
                position = content.check([record], position)
                self._counts.add("records followed")
            if self._id_of(topic_partition) != topic_id:  # since it ended, or the tail was told
                wait_until(lambda: log.refresh() < 0, SECONDS_TO_NOTICE)
                raise AssertionError(f"{content.name} was deleted, and its log does not say so")
        except OffsetOutOfRangeError:
            self._counts.add("overtaken by retention")
        except GONE as error:
            self._require_deletion(topic_partition, topic_id, error)

    def _require_deletion(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID | None, error: Exception
    ) -> None:
        """The topic with that id is listed no more, now or after a moment."""
        is_gone = topic_id is None or wait_until(
            lambda: self._id_of(topic_partition) != topic_id, SECONDS_TO_NOTICE
        )
        assert is_gone, f"{topic_partition} of topic id {topic_id} is there: {error!r}"
        self._counts.add(f"deletions seen ({type(error).__name__})")

    def _id_of(self, topic_partition: TopicPartition) -> uuid.UUID | None:
        try:
            return self._manager.describe_topic(topic_partition.topic).topic_id
        except GONE:
            return None


def main(seed: int, pause_seconds: float, directories: list[str]) -> None:
    counts = Counts()
    threads = Threads(seed)
    Warnings(counts)
    managers = [segstore.open_dir(one, read_only=True) for one in directories]
    for manager in managers:
        reader = Reader(manager, counts)
        threads.start(reader.go_round, pause_seconds)
        threads.start(reader.tail, pause_seconds)
    tell("ready")
    threads.run_until_told(counts.copy)
    for manager in managers:
        manager.close()
    tell("closed")


if __name__ == "__main__":
    with telling_faults():
        main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
