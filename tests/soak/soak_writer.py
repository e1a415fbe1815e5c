"""The process of the soak that writes a log directory: ``python -m tests.soak.soak_writer``.

It opens the directory with background work, checks each log as `segstore verify` does, and appends,
reads, follows and changes topics in threads. Each effect is noted when it is acknowledged; a change
of topics also before it begins. A kill may come at any time.
"""

from __future__ import annotations

import json
import struct
import sys
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import segstore
from segstore._core import wall_clock_ms
from segstore.errors import (
    ClosedError,
    IllegalStateError,
    LogNotFoundError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    WriteError,
)
from segstore.types import AppendOrigin
from tests.kits.records_kit import build
from tests.soak.soak_process import Counts, Threads, Warnings, tell, telling_faults
from tests.soak.soak_topics import (
    BRIEF,
    CYCLE,
    KEPT_BYTES,
    KINDS,
    MOST_RECORDS,
    Content,
    kind_of,
)

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Iterator

    from segstore import LogManager, UnifiedLog
    from segstore.types import LogAppendInfo

SHORT_INTERVALS = {
    "log.retention.check.interval.ms": 700,
    "log.cleaner.backoff.ms": 400,
    "log.initial.task.delay.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 1_500,
    "log.flush.start.offset.checkpoint.interval.ms": 1_100,
    "log.segment.delete.delay.ms": 600,
    "log.cleaner.dedupe.buffer.size": 2 << 20,
}
READERS, TAILS = 2, 2
MOST_PARTITIONS = 3
"""Each number of a partition has its appender."""
MOST_BRIEF = 4
CHANGES = {"create": 30, "delete": 30, "alter": 30, "grow": 8, "make again": 2}
"""How often a topic is changed in which way."""
READ_RECORDS = 150
PRODUCER_ID = 1000
COMMIT, ABORT = 1, 0
GONE = (UnknownTopicOrPartitionError, LogNotFoundError, ClosedError, IllegalStateError)
"""What a call may raise whose topic is deleted beside it."""


class Writer:
    """The steps of the threads."""

    def __init__(self, manager: LogManager, acknowledged: dict[str, tuple[int, int]]) -> None:
        self._manager = manager
        self._acknowledged = acknowledged
        """By producer, the offset and the count of its last append that the oracle knows."""
        self.counts = Counts()

    def open_all(self) -> None:
        """Open each log; it has to be whole [DUR-1…DUR-5]."""
        for topic, partition in self._manager.partitions():
            log = self._manager.log(topic, partition)
            report = log.verify()
            assert report.ok, str(report)
            self._send_again(log)
            tell("opened", str(log.topic_id), partition, log.log_start_offset, log.log_end_offset)
        tell("ready")

    def all_counts(self) -> Counter[str]:
        stats = self._manager.stats()
        found = self.counts.copy()
        for metric in stats.metrics:
            name = metric.name.rpartition("name=")[2]
            if name in {"DeletedSegments", "DeletedBytes"}:
                found[name] += metric.value
        return found

    # ---- appends ---------------------------------------------------------------------------------

    def append(self, number: int, chooser: random.Random) -> None:
        """Append to the partition of that number of a topic."""
        mine = [one for one in self._manager.partitions() if one.partition == number]
        if not mine:
            return
        topic, partition = chooser.choice(mine)
        with self._beside_deletions(topic):
            log = self._manager.log(topic, partition)
            content = Content(topic, log.topic_id, partition)
            first = log.log_end_offset
            try:
                if content.is_marker(first):
                    info = self._end_transaction(log, content)
                else:
                    count = chooser.randint(1, MOST_RECORDS)
                    if content.kind.is_transactional:
                        count = min(count, CYCLE - 1 - first % CYCLE)
                    info = self._send(log, content, first, count)
            except WriteError:  # a busy disk: the sync is later than was promised [DUR-14]
                self.counts.add("syncs that were late")
                return
            count = info.last_offset + 1 - first
            assert info.base_offset == first, f"{content.name}: {first} became {info}"
            assert log.log_end_offset == first + count, f"{content.name}: {info}"
            tell("appended", str(log.topic_id), partition, first, count, wall_clock_ms())
            self.counts.add("appends")
            self.counts.add("bytes appended", info.size_bytes)
            if content.kind.is_idempotent:
                self._acknowledged[f"{log.topic_id}/{partition}"] = first, count
                if chooser.random() < 0.1:
                    self._send_again(log)

    def _send(self, log: UnifiedLog, content: Content, first: int, count: int) -> LogAppendInfo:
        rows = content.rows(first, count)
        kind, partition = content.kind, log.topic_partition.partition
        if not (kind.is_idempotent or kind.is_transactional):
            return log.append(rows)
        now_ms = wall_clock_ms()
        batch = build(
            [(number, now_ms, *row) for number, row in enumerate(rows)],
            codec=kind.codec,
            producer_id=PRODUCER_ID + partition,
            producer_epoch=0,
            base_sequence=content.sequence(first),
            transactional=kind.is_transactional,
        )
        return log.append_as_leader(batch)

    def _end_transaction(self, log: UnifiedLog, content: Content) -> LogAppendInfo:
        offset = log.log_end_offset
        kind = ABORT if content.is_aborted(offset) else COMMIT
        marker = build(
            [(0, wall_clock_ms(), struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))],
            control=True,
            producer_id=PRODUCER_ID + log.topic_partition.partition,
            producer_epoch=0,
            transactional=True,
        )
        self.counts.add("transactions")
        return log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)

    def _send_again(self, log: UnifiedLog) -> None:
        """The last batch of a producer is not appended again, also after a kill [APP-24].

        Of those before it a log that was opened again knows nothing.
        """
        topic, partition = log.topic_partition
        content = Content(topic, log.topic_id, partition)
        known = self._acknowledged.get(f"{log.topic_id}/{partition}")
        end = log.log_end_offset
        if known is None or not content.kind.is_idempotent or sum(known) != end:
            return
        info = self._send(log, content, *known)
        assert info.base_offset == known[0], f"{content.name}: {known} was appended as {info}"
        assert log.log_end_offset == end, f"{content.name}: {known} was appended again: {info}"
        self.counts.add("batches sent again")

    # ---- reads -----------------------------------------------------------------------------------

    def read(self, chooser: random.Random) -> None:
        """Read a part of a log in one of several ways."""
        there = self._manager.partitions()
        if not there:
            return
        topic, partition = chooser.choice(there)
        way = chooser.choice(["scan", "committed", "fetch", "latest", "time"])
        with self._beside_deletions(topic):
            log = self._manager.log(topic, partition)
            content = Content(topic, log.topic_id, partition)
            start, end = log.log_start_offset, log.log_end_offset
            first = chooser.randint(start, end)
            position = first
            try:
                if way == "scan":
                    last = min(end, first + READ_RECORDS)
                    position = content.check(log.scan(first, last), first)
                elif way == "committed":
                    stable = log.last_stable_offset
                    first = position = min(first, stable)
                    found = log.scan(first, first + READ_RECORDS, isolation="read_committed")
                    position = content.check(found, first, committed=True)
                elif way == "fetch" and not content.kind.is_compacted:
                    fetched = [one for one in log.read(first, 8_000) if one.offset >= first]
                    position = content.check(fetched, first)
                elif way == "latest" and content.kind.is_compacted:
                    self._read_latest(topic)
                elif way == "time":
                    self._read_by_time(log, content, chooser)
            except OffsetOutOfRangeError:  # retention deleted it meanwhile
                assert log.log_start_offset > first, f"{content.name}: {first} is out of range"
                return
            self.counts.add("records read", position - first)
            self.counts.add("reads")

    def _read_latest(self, topic: str) -> None:
        """The values of all keys, which a compaction or retention beside it may overtake."""
        try:
            table = self._manager.latest(topic, columns=["key", "value", "offset", "partition"])
            rows = [row for batch in table.arrow_batches() for row in _rows(batch)]
        except (IllegalStateError, LogTruncatedError):
            self.counts.add("reads of latest values overtaken")
            return
        except OffsetOutOfRangeError:  # of any partition
            assert kind_of(topic).has_retention, f"{topic}: a last value is out of range"
            self.counts.add("reads of latest values overtaken")
            return
        contents: dict[int, Content] = {}
        for key, value, offset, partition in rows:
            if partition not in contents:
                log = self._manager.log(topic, partition)
                contents[partition] = Content(topic, log.topic_id, partition)
            content = contents[partition]
            made = content.key_at(offset), content.value_at(offset)
            assert value is not None, f"{content.name}: a tombstone at {offset}"
            assert (key, value) == made, f"{content.name}: {offset} is {key, value}, not {made}"
        assert len({(row[0], row[3]) for row in rows}) == len(rows), f"{topic}: a key twice"
        self.counts.add("reads of latest values")

    def _read_by_time(self, log: UnifiedLog, content: Content, chooser: random.Random) -> None:
        when = wall_clock_ms() - chooser.randint(0, 10_000)
        offset = log.offset_for_timestamp(when)
        if offset is None:
            return
        for record in log.scan(offset, min(offset + 3, log.log_end_offset)):
            content.check([record], record.offset)
            assert record.timestamp >= when, f"{content.name}: {record.offset} is before {when}"
            return

    def follow(self, chooser: random.Random) -> None:
        """Follow a log for some seconds."""
        there = self._manager.partitions()
        if not there:
            return
        topic, partition = chooser.choice(there)
        with self._beside_deletions(topic):
            log = self._manager.log(topic, partition)
            content = Content(topic, log.topic_id, partition)
            position = log.log_end_offset
            isolation = chooser.choice(["log_end", "read_committed"])
            is_committed = isolation == "read_committed"
            position = content.last_stable_offset(position) if is_committed else position
            try:
                tail = log.tail(position, timeout=2, poll_interval=0.1, isolation=isolation)
                for record in islice(tail, READ_RECORDS):
                    position = content.check([record], position, committed=is_committed)
                    self.counts.add("records followed")
            except OffsetOutOfRangeError:
                assert log.log_start_offset > position, f"{content.name}: {position} out of range"

    # ---- topics ----------------------------------------------------------------------------------

    def change(self, chooser: random.Random) -> None:
        """Make, change or delete a topic."""
        manager = self._manager
        for name in sorted(KINDS.keys() - manager.topics().keys()):
            self.create(name, chooser.randint(1, 2))
        topics = manager.topics()
        large = [one for one in KINDS if self._size(one) > KEPT_BYTES * len(topics[one])]
        brief = [one for one in topics if one.startswith(BRIEF)]
        if large:
            self._delete(large[0])
            return
        what = chooser.choices([*CHANGES], [*CHANGES.values()])[0]
        if what == "create" and len(brief) < MOST_BRIEF:
            while (name := f"{BRIEF}-{chooser.randrange(1000)}") in topics:
                pass
            self.create(name, chooser.randint(1, 3))
        elif what == "delete" and brief:
            self._delete(chooser.choice(brief))
        elif what == "make again":
            self._delete(chooser.choice([*KINDS]))
        elif what == "grow":
            name = chooser.choice([*topics])
            count = len(topics[name]) + 1
            if count <= MOST_PARTITIONS:
                tell("begin", "grow", name, count)
                manager.alter_topic(name, partitions=count)
                self._done("grow", name)
        elif what == "alter":
            name = chooser.choice([*topics])
            key, values = chooser.choice([*kind_of(name).changes.items()])
            value = chooser.choice(values)
            tell("begin", "alter", name, key, value)
            manager.alter_topic(name, {key: value})
            self._done("alter", name)

    def _size(self, topic: str) -> int:
        log_of = self._manager.log
        return sum(int(log_of(topic, one).stats()["size"]) for one in self._manager.topics()[topic])

    def create(self, name: str, partitions: int) -> None:
        tell("begin", "create", name, partitions)
        self._manager.create_topic(name, partitions, config=kind_of(name).config)
        self._done("create", name, str(self._manager.describe_topic(name).topic_id))

    def _delete(self, name: str) -> None:
        tell("begin", "delete", name)
        self._manager.delete_topic(name)
        self._done("delete", name)

    def _done(self, what: str, name: str, *more: object) -> None:
        tell("done", what, name, *more)
        self.counts.add(f"topic changes: {what}")

    @contextmanager
    def _beside_deletions(self, topic: str) -> Iterator[None]:
        """A deletion of the topic meanwhile is no fault, if there was one."""
        before = self._topic_id(topic)
        try:
            yield
        except GONE:
            if before is not None and self._topic_id(topic) == before:
                raise
            self.counts.add("calls overtaken by a deletion")

    def _topic_id(self, topic: str) -> object:
        try:
            return self._manager.describe_topic(topic).topic_id
        except UnknownTopicOrPartitionError:
            return None


def _rows(batch: object) -> list[tuple[bytes, bytes | None, int, int]]:
    import pyarrow as pa

    table = pa.record_batch(batch)
    return [*zip(*(column.to_pylist() for column in table.columns), strict=True)]


def main(directory: str, seed: int, records_per_second: float, durability: str) -> None:
    acknowledged = json.loads(sys.stdin.readline())
    threads = Threads(seed)
    with segstore.open_dir(
        directory, background=True, durability=durability, config=SHORT_INTERVALS
    ) as manager:
        writer = Writer(manager, acknowledged)
        Warnings(writer.counts)
        writer.open_all()
        pause = MOST_PARTITIONS * (MOST_RECORDS / 2) / records_per_second
        threads.start(writer.change, 0.8)
        for number in range(MOST_PARTITIONS):
            threads.start(lambda chooser, one=number: writer.append(one, chooser), pause)
        for _ in range(READERS):
            threads.start(writer.read, pause * READERS)
        for _ in range(TAILS):
            threads.start(writer.follow, 0.2)
        threads.run_until_told(writer.all_counts)
    tell("closed")


if __name__ == "__main__":
    with telling_faults():
        main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
