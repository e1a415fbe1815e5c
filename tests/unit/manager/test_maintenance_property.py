"""Passes that touch only what is due delete what a run over every log deletes [RTN-1, RTN-5].

The model keeps a second directory with the same calls, where every log is asked at each pass.
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
from segstore.manager.maintenance_intervals import MaintenanceIntervals
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.retention_plan import DeletedSegment
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.log_manager import LogManager

HOUR = 3_600_000
CHECK = MaintenanceIntervals().retention_ms
TOPICS = ("a", "b")
PARTITIONS = st.sampled_from([TopicPartition(topic, 0) for topic in TOPICS])
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "retention.ms": st.sampled_from([HOUR, 3 * HOUR, 0, -1, None]),
        "retention.bytes": st.sampled_from([400, 1200, 0, -1, None]),
        "cleanup.policy": st.sampled_from(["delete", "delete", "compact,delete"]),
    },
)
LIMITS = [{"retention.ms": HOUR}, {"retention.ms": 3 * HOUR, "retention.bytes": 700}]
"""What the topics begin with; a log without a limit has nothing to delete."""
AGES_MINUTES = st.integers(-30, 200)


class Maintained(RuleBasedStateMachine):
    """A directory that is maintained, and one whose logs are all asked."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="segstore-maintained-"))
        self.now = time.time_ns() // 1_000_000
        self.last_pass_ms = self.passes = 0
        self.is_asked = False
        self.ours = self.open("ours")
        self.models = self.open("model")

    def open(self, name: str) -> LogManager:
        return segstore.open_dir(
            self.folder / name,
            durability="none",
            cleaner=segstore.CleanerConfig(enable=False),  # retention alone is compared
            internal_segment_bytes=300,
            message_timestamp_after_max_ms=10**15,
        )

    def teardown(self) -> None:
        self.ours.close()
        self.models.close()
        shutil.rmtree(self.folder)

    def both(self, name: TopicPartition) -> tuple[UnifiedLog, UnifiedLog]:
        return self.ours.log(*name), self.models.log(*name)

    @initialize(limits=st.permutations(LIMITS))
    def create(self, limits) -> None:
        for topic, config in zip(TOPICS, limits, strict=True):
            for logs in (self.ours, self.models):
                logs.create_topic(topic, config=config)
        self.maintain()

    @rule(name=PARTITIONS, age=AGES_MINUTES, count=st.integers(1, 5))
    def append(self, name, age, count) -> None:
        timestamp = self.now - age * 60_000 if age % 5 else -1
        for log in self.both(name):
            for _ in range(count):
                log.append([(timestamp, b"k", b"x" * 30)])

    @rule(name=PARTITIONS, age=AGES_MINUTES, count=st.integers(1, 5))
    def append_and_maintain(self, name, age, count) -> None:
        self.append(name, age, count)
        self.maintain_when_due(CHECK + 60_000)

    @rule(name=PARTITIONS)
    def roll(self, name) -> None:
        for log in self.both(name):
            log.roll()

    @rule(topic=st.sampled_from(TOPICS), config=CONFIGS)
    def alter(self, topic, config) -> None:
        for logs in (self.ours, self.models):
            logs.alter_topic(topic, config)
        self.is_asked = True

    @rule(name=PARTITIONS, count=st.integers(1, 4))
    def truncate(self, name, count) -> None:
        for log in self.both(name):
            log.truncate_to(max(log.log_start_offset, log.log_end_offset - count))

    @rule(name=PARTITIONS, count=st.integers(1, 4))
    def move_log_start(self, name, count) -> None:
        for log in self.both(name):
            offset = min(log.log_start_offset + count, log.log_end_offset)
            log.maybe_increment_log_start_offset(offset)

    @precondition(lambda self: self.passes > 12)
    @rule()
    def reopen(self) -> None:
        self.ours.close()
        self.models.close()
        self.ours, self.models = self.open("ours"), self.open("model")
        self.last_pass_ms = self.passes = 0
        self.maintain()

    @rule(later=st.integers(CHECK + 60_000, HOUR))  # more: the clock of the directory runs on
    def maintain_when_due(self, later) -> None:
        self.now = max(self.now, self.last_pass_ms + later)
        self.maintain()

    @rule(later=st.integers(0, CHECK // 4))
    def maintain_too_early(self, later) -> None:
        self.now += later
        if self.now - self.last_pass_ms < CHECK:
            self.maintain()

    def maintain(self) -> None:
        report = self.ours.maintain(self.now)
        assert report.failed == ()
        ours: dict[TopicPartition, list[DeletedSegment]] = {}
        for deletion in report.deleted:
            ours.setdefault(deletion.topic_partition, []).append(deletion.segment)
        expected: dict[TopicPartition, list[DeletedSegment]] = {}
        if self.last_pass_ms == 0 or self.now - self.last_pass_ms >= CHECK or self.is_asked:
            self.is_asked = False
            for topic in TOPICS:
                deleted: list[DeletedSegment] = []
                self.models.log(topic, 0)._run_retention(deleted, self.now)
                if deleted:
                    expected[TopicPartition(topic, 0)] = deleted
            self.last_pass_ms = self.now
            self.passes += 1
        assert {key: [placed(one) for one in value] for key, value in ours.items()} == {
            key: [placed(one) for one in value] for key, value in expected.items()
        }

    @invariant()
    def the_logs_are_the_same(self) -> None:
        for topic in TOPICS:
            if topic in self.ours.topics():
                one, other = self.both(TopicPartition(topic, 0))
                assert [s.base_offset for s in one.segments()] == [
                    s.base_offset for s in other.segments()
                ]
                assert one.log_start_offset == other.log_start_offset


def placed(segment: DeletedSegment) -> DeletedSegment:
    """Without the time of a file, which is that of its directory."""
    return segment if segment.has_timestamp else segment._replace(largest_timestamp=None)


def test_any_sequence(few_or_many: Callable[[int, int], int]):
    """[RTN-1, RTN-5] Both directories have deleted the same."""
    run_state_machine_as_test(
        Maintained,
        settings=settings(max_examples=few_or_many(15, 60), stateful_step_count=60, deadline=None),
    )
