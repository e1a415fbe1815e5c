"""Topics and partitions are made, changed, moved, deleted and maintained in any order.

[MGR-63, MGR-90, MGR-95]
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import segstore
from segstore.errors import AlreadyExistsError, UnknownTopicOrPartitionError
from segstore.manager.topic_description import SettingSource
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3_600_000
NAMES = st.sampled_from(["a", "a-0", "b"])
CONFIGS = st.dictionaries(
    st.sampled_from(["retention.ms", "flush.messages"]),
    st.sampled_from([HOUR, 9 * HOUR]),
    max_size=2,
)
CHANGES = st.dictionaries(
    st.sampled_from(["retention.ms", "flush.messages"]),
    st.sampled_from([HOUR, 9 * HOUR, None]),
    max_size=2,
)


class Topics(RuleBasedStateMachine):
    """One or two directories, and what was done with them as dictionaries.

    ``values`` has what was appended to each partition; retention may have deleted its beginning,
    where the topic has ``retention.ms``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="segstore-topics-"))
        self.now = time.time_ns() // 1_000_000
        self.configs: dict[str, dict[str, int]] = {}
        self.values: dict[TopicPartition, list[bytes]] = {}
        self.limited: set[str] = set()
        self.count = 0

    @initialize(directories=st.integers(1, 2))
    def begin(self, directories) -> None:
        self.paths = [self.folder / name for name in "xy"[:directories]]
        self.logs = self.open()

    def open(self) -> segstore.LogManager:
        return segstore.open_dir(
            self.paths,
            durability="none",
            internal_segment_bytes=300,
            message_timestamp_after_max_ms=10**15,
        )

    def teardown(self) -> None:
        self.logs.close()
        shutil.rmtree(self.folder)

    def numbers_of(self, name: str) -> list[int]:
        return sorted(one.partition for one in self.values if one.topic == name)

    @rule(name=NAMES, count=st.integers(1, 3), config=CONFIGS)
    def create(self, name, count, config) -> None:
        if name in self.configs:
            try:
                self.logs.create_topic(name, count, config=config)
            except AlreadyExistsError:
                return
            raise AssertionError(name)
        self.logs.create_topic(name, count, config=config)
        self.configs[name] = {**config}
        self.note_limit(name)
        self.values |= {TopicPartition(name, number): [] for number in range(count)}

    def note_limit(self, name: str) -> None:
        if "retention.ms" in self.configs[name]:
            self.limited.add(name)

    @precondition(lambda self: self.configs)
    @rule(data=st.data(), count=st.integers(1, 4))
    def append(self, data, count) -> None:
        topic, number = data.draw(st.sampled_from(sorted(self.values)))
        for _ in range(count):
            self.count += 1
            value = b"%d" % self.count * 20
            self.logs.append(topic, [(self.now, None, value)], partition=number)
            self.values[TopicPartition(topic, number)].append(value)

    @rule(name=NAMES, config=CHANGES, more=st.integers(0, 2))
    def alter(self, name, config, more) -> None:
        numbers = self.numbers_of(name)
        count = len(numbers) + more if numbers == [*range(len(numbers))] and more else None
        try:
            self.logs.alter_topic(name, config, partitions=count)
        except UnknownTopicOrPartitionError:
            assert name not in self.configs
            return
        for key, value in config.items():
            self.configs[name].pop(key, None)
            if value is not None:
                self.configs[name][key] = value
        self.note_limit(name)
        for number in range(len(numbers), count or 0):
            self.values[TopicPartition(name, number)] = []

    @rule(name=NAMES)
    def delete(self, name) -> None:
        try:
            self.logs.delete_topic(name)
        except UnknownTopicOrPartitionError:
            assert name not in self.configs
            return
        del self.configs[name]
        self.limited.discard(name)
        self.values = {one: found for one, found in self.values.items() if one.topic != name}

    @precondition(lambda self: self.configs)
    @rule(data=st.data())
    def delete_partition(self, data) -> None:
        one = data.draw(st.sampled_from(sorted(self.values)))
        if len(self.numbers_of(one.topic)) > 1:
            self.logs.delete_partition(*one)
            del self.values[one]

    @precondition(lambda self: self.configs and len(self.paths) > 1)
    @rule(data=st.data())
    def move_partition(self, data) -> None:
        one = data.draw(st.sampled_from(sorted(self.values)))
        log = self.logs.log(*one)
        (there,) = (path for path in self.paths if path != Path(log.path).parent)
        assert self.logs.move_partition(*one, there) == self.logs.log(*one).path
        assert log.closed

    @rule(later=st.integers(1, 20 * HOUR))
    def maintain(self, later) -> None:
        self.now += later
        report = self.logs.maintain(self.now)
        assert report.failed == ()
        for deletion in report.deleted:
            assert deletion.topic_partition in self.values
            assert "retention.ms" in self.configs[deletion.topic_partition.topic]
            timestamp = deletion.segment.largest_timestamp
            limit = self.configs[deletion.topic_partition.topic]["retention.ms"]
            assert timestamp is not None
            assert timestamp < self.now - limit

    @rule()
    def reopen(self) -> None:
        self.logs.close()
        self.logs = self.open()
        assert not [*self.folder.glob("*/*-delete")]
        assert not [*self.folder.glob("*/*-future")]

    @invariant()
    def all_is_there(self) -> None:
        expected: dict[str, list[int]] = {}
        for topic, number in sorted(self.values):
            expected.setdefault(topic, []).append(number)
        assert self.logs.topics() == expected
        for name, config in self.configs.items():
            found = self.logs.describe_topic(name).settings
            given = {one.name: one.value for one in found if one.source is SettingSource.TOPIC}
            assert given == config
        for one, values in self.values.items():
            log = self.logs.log(*one)
            there = [record.value for record in log.scan()]
            assert there == values[len(values) - len(there) :]
            assert one.topic in self.limited or len(there) == len(values)
            assert log.config.retention_ms == self.configs[one.topic].get("retention.ms")


def test_any_sequence(few_or_many: Callable[[int, int], int]):
    """[MGR-63, MGR-90, MGR-95] What is there is what was done, and opens again."""
    run_state_machine_as_test(
        Topics,
        settings=settings(max_examples=few_or_many(15, 30), stateful_step_count=30, deadline=None),
    )
