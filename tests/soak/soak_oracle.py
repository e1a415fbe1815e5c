"""What must be in a log directory, by what its writer has acknowledged, and not by its own files.

The records are a function of their offsets (`Content`), so the oracle knows of a partition how far
it was acknowledged and when, and no more: it does not grow with the logs.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import segstore
from segstore.log.check.partition_check import check_partition
from tests.soak.soak_topics import (
    MOST_RECORDS,
    RETENTION_BYTES,
    RETENTION_MS,
    Content,
)

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.log.unified_log import Log

MARK_MS = 500
SLACK_MS = 4_000
"""Between the time of a record and that of its acknowledgement."""
FLEETING = (".deleted", ".cleaned", ".swap", ".tmp", "-delete")
"""Ends of names that are there for a moment alone."""


class Partition:
    """What was acknowledged of one partition."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self._marks: deque[tuple[int, int]] = deque([(0, 0)])
        """Times at which it ended there."""

    def note_append(self, first: int, count: int, when_ms: int) -> None:
        assert first <= self.end_offset + MOST_RECORDS, f"{first} after {self.end_offset}"
        self.end_offset = max(self.end_offset, first + count)
        if when_ms - self._marks[-1][0] >= MARK_MS:
            self._marks.append((when_ms, self.end_offset))
        while len(self._marks) > 1 and self._marks[1][0] < when_ms - 4 * RETENTION_MS:
            self._marks.popleft()

    def end_at(self, when_ms: float) -> int:
        """Return an offset at or above that of each record that is older."""
        return next((end for at_ms, end in self._marks if at_ms >= when_ms), self.end_offset)


class Topic:
    """What was acknowledged of one topic."""

    def __init__(self, partitions: int) -> None:
        self.topic_id: str | None = None
        self.partitions = partitions
        self.settings: dict[str, Any] = {}


class Oracle:
    """Takes the notes of the writers of one directory, and checks it when none is alive."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._topics: dict[str, Topic] = {}
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._deleted: deque[str | None] = deque(maxlen=100)
        """The ids of the last topics that were deleted."""
        self._under_way: list[Any] | None = None
        self.last_sent: dict[str, tuple[int, int]] = {}
        """By producer, its last append that is acknowledged."""
        self.appended = 0
        self.checks = 0

    def take(self, note: list[Any]) -> None:
        """Take one note of the writer."""
        what, *values = note
        if what == "appended":
            topic_id, partition, first, count, when_ms = values
            if topic_id in self._deleted:  # beside the deletion, and told after it
                return
            self._partition(topic_id, partition).note_append(first, count, when_ms)
            self.last_sent[f"{topic_id}/{partition}"] = first, count
            self.appended += count
        elif what == "opened":
            topic_id, partition, start, end = values
            self._require(self._partition(topic_id, partition), start, end, str(note))
        elif what == "begin":
            self._under_way = values
        elif what == "done":
            self._change(*values)

    def _partition(self, topic_id: str, number: int) -> Partition:
        return self._partitions.setdefault((topic_id, number), Partition())

    def _change(self, what: str, name: str, *more: Any) -> None:
        """The change under way is acknowledged."""
        begun = self._under_way
        assert begun is not None
        assert begun[:2] == [what, name]
        self._apply(begun)
        if what == "create":
            self._topics[name].topic_id = more[0]
        self._under_way = None

    def _apply(self, change: list[Any]) -> None:
        what, name, *values = change
        if what == "create":
            assert name not in self._topics
            self._topics[name] = Topic(values[0])
        elif what == "delete":
            self._forget(self._topics.pop(name))
        elif what == "grow":
            self._topics[name].partitions = values[0]
        else:
            self._topics[name].settings[values[0]] = values[1]

    def _forget(self, topic: Topic) -> None:
        self._deleted.append(topic.topic_id)
        for key in [one for one in self._partitions if one[0] == topic.topic_id]:
            del self._partitions[key]
        for sent in [one for one in self.last_sent if one.startswith(f"{topic.topic_id}/")]:
            del self.last_sent[sent]

    # ---- checks ----------------------------------------------------------------------------------

    def check(self, *, is_closed: bool) -> None:
        """Check all of the directory, which no process writes; after a kill, or a clean close."""
        with segstore.open_dir(self.directory, read_only=True) as logs:
            found = logs.topics()
            self._settle_change(logs, found)
            there = {name: len(numbers) for name, numbers in found.items()}
            known = {name: topic.partitions for name, topic in self._topics.items()}
            assert there == known, f"{self.directory}: {there}, known: {known}"
            for name, topic in self._topics.items():
                described = logs.describe_topic(name)
                topic_id = str(described.topic_id)
                assert topic.topic_id in {None, topic_id}, f"{name} is of another creation"
                topic.topic_id = topic_id
                settings = {one.name: one.value for one in described.settings}
                different = {
                    key: (value, settings[key])
                    for key, value in topic.settings.items()
                    if settings[key] != value
                }
                assert not different, f"{name}: {different}"
                for number in found[name]:
                    content = Content(name, topic_id, number)
                    acknowledged = self._partition(topic_id, number)
                    self._check_log(logs.log(name, number), content, acknowledged)
                    self._judge(self.directory / f"{name}-{number}", is_closed=is_closed)
        if is_closed:
            self._require_nothing_fleeting()
        self.checks += 1

    def _settle_change(self, logs: segstore.LogManager, found: dict[str, list[int]]) -> None:
        """A change that a kill has interrupted was made as a whole, or not at all."""
        if self._under_way is None:
            return
        what, name, *values = self._under_way
        change, self._under_way = self._under_way, None
        is_made = {
            "create": lambda: name in found,
            "delete": lambda: name not in found,
            "grow": lambda: len(found[name]) == values[0],
            "alter": lambda: (
                values[1]
                in [
                    one.value for one in logs.describe_topic(name).settings if one.name == values[0]
                ]
            ),
        }[what]()
        if is_made:
            self._apply(change)

    def _require(self, known: Partition, start: int, end: int, name: str) -> None:
        """Nothing acknowledged is missing at the end, and the start never goes back."""
        assert end >= known.end_offset, f"{name}: ends at {end}, acknowledged: {known.end_offset}"
        assert end <= known.end_offset + MOST_RECORDS, (
            f"{name}: ends at {end}, acknowledged: {known.end_offset}"
        )
        assert start >= known.start_offset, f"{name}: starts at {start}: {known.start_offset}"
        known.start_offset, known.end_offset = start, end

    def _check_log(self, log: Log, content: Content, known: Partition) -> None:
        log.refresh()
        start, end = log.log_start_offset, log.log_end_offset
        self._require(known, start, end, content.name)
        stable = content.last_stable_offset(end)
        assert log.last_stable_offset == stable, f"{content.name}: {log.last_stable_offset}"
        self._check_start(content, known, start)
        if content.kind.is_compacted:
            self._check_compacted(log, content, start, end)
            return
        assert content.check(log.scan(), start) >= end - 1, f"{content.name} ends early"
        position = content.check(log.scan(isolation="read_committed"), start, committed=True)
        assert content.next_visible(position, committed=True) >= stable, (
            f"{content.name}: {position}"
        )

    def _check_start(self, content: Content, known: Partition, start: int) -> None:
        """Retention deletes only by limits of the topic, of which none was ever stricter."""
        settings = content.kind.settings
        if "retention.ms" in settings:
            newest = known.end_at(time.time() * 1000 - RETENTION_MS + SLACK_MS)
            assert start <= newest, f"{content.name}: starts at {start}, which is too young"
        elif "retention.bytes" in settings and start > 0:
            topic_partition = content.name.partition(" ")[0]
            files = (self.directory / topic_partition).glob("*.log")
            size = sum(one.stat().st_size for one in files)
            assert size >= RETENTION_BYTES, f"{content.name}: {size} bytes are left"
        else:
            assert start == 0, f"{content.name}: starts at {start}"

    def _check_compacted(self, log: Log, content: Content, start: int, end: int) -> None:
        """The last value of each key is there, and none that a tombstone has deleted [DUR-126]."""
        there: dict[bytes, list[tuple[int, bool]]] = {}

        def noted() -> Any:
            for record in log.scan(isolation="read_committed"):
                there.setdefault(record.key, []).append((record.offset, record.value is None))
                yield record

        content.check(log.scan(), start)
        content.check(noted(), start, committed=True)
        last = content.last_offsets(start, end)
        assert there.keys() <= last.keys(), f"{content.name}: unknown keys"
        for key, offset in last.items():
            found = there.get(key)
            is_tombstone = content.value_at(offset) is None
            if found is None:
                assert is_tombstone, f"{content.name}: {key!r} at {offset} is gone"
            else:
                assert found[-1] == (offset, is_tombstone), (
                    f"{content.name}: the last one of {key!r} is {found[-1]}, not {offset}"
                )

    def _judge(self, path: Path, *, is_closed: bool) -> None:
        """Ask what `segstore verify` says: of a killed writer's log, that no record is lost."""
        report = check_partition(str(path))
        if is_closed:
            assert report.ok, str(report)
        lost = [one for one in report.findings if one.lost]
        assert not lost, str(report)

    def _require_nothing_fleeting(self) -> None:
        left = [str(one) for one in self.directory.rglob("*") if one.name.endswith(FLEETING)]
        assert not left, f"they are left: {left}"


def fleeting_names(directory: Path) -> set[str]:
    """Return the names that are there for a moment alone, as of now."""
    names = set()
    for path in directory.iterdir():
        names.add(path.name)
        if path.is_dir():
            try:
                names.update(f"{path.name}/{one.name}" for one in path.iterdir())
            except FileNotFoundError:
                continue
    return {one for one in names if one.endswith(FLEETING)}
