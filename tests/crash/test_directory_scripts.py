"""A power cut after any effect of a script of changes of topics and retention [DUR-11, DUR-6].

A manager runs through a script on a simulated disk that remembers every effect. Each crash point is
a disk of its own, opened by another manager: a topic is there whole or not at all, with the
settings of before or after the change, and without a loss of records that its limits keep. Every
other script has two log directories, between which partitions move.
"""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import pytest

from segstore.manager import partition_moves
from segstore.manager.log_manager import LogManager
from segstore.manager.topic_description import SettingSource
from tests.crash.barrier_scene import new_disk
from tests.crash.barrier_scenes_of_directories import abandon
from tests.crash.crash_check import Crash
from tests.crash.crash_script import START_MS
from tests.crash.failing_scenarios_of_managers import LOGS, TWO, living_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segstore._core import SimulatedDisk

HOUR = 3_600_000
FATES = ("lost", "kept", "seed", "seed", "killed")
TOPICS = ("a", "b")
CONFIGS: tuple[dict[str, int | None], ...] = (
    {"retention.ms": HOUR},
    {"retention.ms": None},
    {"retention.bytes": 400},
    {"retention.bytes": None, "flush.ms": 5},
)
OPERATIONS = 9
PARTS = 4


class Partition(NamedTuple):
    """What was appended to it, and how much of the end every reader has to find."""

    values: tuple[bytes, ...]
    kept: int


class Topic(NamedTuple):
    """What a topic was given, and its partitions by their numbers."""

    config: dict[str, str]
    partitions: dict[int, Partition]


class Step(NamedTuple):
    """An operation, where it began and ended, and the topics before and after it."""

    name: str
    begin: int
    end: int
    before: dict[str, Topic]
    after: dict[str, Topic]


class DirectoryScript:
    """Runs random operations, and notes what each promises."""

    def __init__(self, seed: int) -> None:
        self.disk = new_disk()
        self.steps: list[Step] = []
        self._random = random.Random(seed)
        self.paths = TWO if seed % 2 else (LOGS,)
        self._topics: dict[str, Topic] = {}
        self._now = START_MS
        self._count = 0
        enough_bytes = self._random.choice([1, 1024 * 1024])
        with (
            living_on(self.disk),
            mock.patch.object(partition_moves, "_ENOUGH_BYTES", enough_bytes),
        ):
            self._logs = open_manager(self.paths)
            for _ in range(OPERATIONS):
                self._do()
            abandon(self._logs)

    def _do(self) -> None:
        choice = self._random
        name = choice.choice(TOPICS)
        topic = self._topics.get(name)
        before, begin = copy.deepcopy(self._topics), self.disk.effects
        if topic is None:
            what = "create"
        else:
            moves = ["move"] * 3 * (len(self.paths) - 1)
            what = choice.choice(
                ["append", "append", "append", "alter", "grow", "delete", "delete one", "maintain",
                 "maintain", "reopen", *moves]
            )  # fmt: skip
        getattr(self, f"_{what.replace(' ', '_')}")(name)
        after = copy.deepcopy(self._topics)
        self.steps.append(Step(f"{what} {name}", begin, self.disk.effects, before, after))

    def _create(self, name: str) -> None:
        count = self._random.choice([1, 2])
        config = {**self._random.choice(CONFIGS)}
        given = {key: value for key, value in config.items() if value is not None}
        self._logs.create_topic(name, count, config=given)
        partitions = {number: Partition((), 0) for number in range(count)}
        self._topics[name] = Topic({key: str(value) for key, value in given.items()}, partitions)

    def _append(self, name: str) -> None:
        partitions = self._topics[name].partitions
        number = self._random.choice([*partitions])
        for _ in range(self._random.choice([1, 4])):
            self._count += 1
            value = b"%d" % self._count
            self._logs.append(name, [(self._now, None, value * 20)], partition=number)
            values, kept = partitions[number]
            partitions[number] = Partition((*values, value * 20), kept + 1)

    def _alter(self, name: str) -> None:
        config = self._random.choice(CONFIGS)
        self._logs.alter_topic(name, config)
        given = self._topics[name].config
        for key, value in config.items():
            given.pop(key, None)
            if value is not None:
                given[key] = str(value)

    def _grow(self, name: str) -> None:
        partitions = self._topics[name].partitions
        count = len(partitions) + 1
        self._logs.alter_topic(name, {"flush.ms": count}, partitions=count)
        self._topics[name].config["flush.ms"] = str(count)
        partitions[count - 1] = Partition((), 0)

    def _delete(self, name: str) -> None:
        self._logs.delete_topic(name)
        del self._topics[name]

    def _delete_one(self, name: str) -> None:
        partitions = self._topics[name].partitions
        if len(partitions) > 1:
            number = len(partitions) - 1
            self._logs.delete_partition(name, number)
            del partitions[number]

    def _move(self, name: str) -> None:
        number = self._random.choice([*self._topics[name].partitions])
        here = self._logs.log(name, number).path
        (there,) = (path for path in self.paths if not here.startswith(f"{path}/"))
        self._logs.move_partition(name, number, there)

    def _maintain(self, _name: str) -> None:
        self._now += self._random.choice([HOUR // 2, 2 * HOUR])
        report = self._logs.maintain(self._now)
        assert not report.failed, report.failed
        for deletion in report.deleted:
            topic, number = deletion.topic_partition
            count = deletion.segment.next_offset - deletion.segment.base_offset
            values, kept = self._topics[topic].partitions[number]
            self._topics[topic].partitions[number] = Partition(values, kept - count)

    def _reopen(self, _name: str) -> None:
        self._logs.close()
        self._logs = open_manager(self.paths)


def open_manager(paths: Sequence[str]) -> LogManager:
    logs = LogManager(
        paths,
        durability="sync",
        segment_ms=None,
        internal_segment_bytes=300,
        message_timestamp_after_max_ms=10**15,
    )
    for directory in logs._directories:
        assert directory.maintenance is not None
        directory.maintenance._pool._pool._thread_count = 0  # calls come in order
    return logs


def observed(disk: SimulatedDisk, paths: Sequence[str]) -> dict[str, Topic]:
    """Open the directories for writing, and read all of them."""
    found: dict[str, Topic] = {}
    with living_on(disk):
        logs = open_manager(paths)
        assert logs.unopened_directories() == []
        homes = [one for directory in logs._directories for one in directory.listed().partitions]
        assert sorted(homes) == logs.partitions()  # each in one of them [DUR-127]
        for name, numbers in logs.topics().items():
            described = logs.describe_topic(name)
            config = {
                one.name: str(one.value)
                for one in described.settings
                if one.source is SettingSource.TOPIC
            }
            partitions = {}
            for number in numbers:
                log = logs.log(name, number)
                assert log.topic_id == described.topic_id
                values = tuple(bytes(record.value or b"") for record in log.scan())
                partitions[number] = Partition(values, len(values))
            found[name] = Topic(config, partitions)
        abandon(logs)
    return found


def fits(found: dict[str, Topic], topics: dict[str, Topic], later: dict[str, Topic]) -> bool:
    """Whether a crash may leave this of *topics*, when a change to *later* had begun."""
    if {name: topic.config for name, topic in found.items()} != {
        name: topic.config for name, topic in topics.items()
    }:
        return False
    for name, topic in topics.items():
        if found[name].partitions.keys() != topic.partitions.keys():
            return False
        for number, (values, kept) in topic.partitions.items():
            most = later.get(name, topic).partitions.get(number, topic.partitions[number])
            there = found[name].partitions[number].values
            least = min(kept, most.kept)
            longest = most.values if len(most.values) >= len(values) else values
            ends = range(len(values), len(longest) + 1)
            if not any(
                len(there) >= min(least, end) and there == longest[end - len(there) : end]
                for end in ends
            ):
                return False
    return True


def check(script: DirectoryScript, crash: Crash) -> None:
    image = crash.image(script.disk)
    found = observed(image, script.paths)
    possible = [
        (topics, step.after)
        for step in script.steps
        if step.begin <= crash.effects <= step.end
        for topics in (step.before, step.after)
    ]
    if not possible:  # in the middle of the first open
        possible = [({}, {})]
    assert any(fits(found, topics, later) for topics, later in possible), (found, possible)
    if crash.effects % 5 == 0:  # another open finds the same
        assert observed(image, script.paths) == found


@pytest.mark.parametrize("part", range(PARTS))
def test_topics_and_retention_survive_a_crash_at_any_point(
    part: int, pytestconfig: pytest.Config, few_or_many: Callable[[int, int], int]
):
    """[DUR-6, DUR-11, DUR-121, DUR-127, DUR-128] Five images a script; the long run has 100,000."""
    scripts = (pytestconfig.getoption("--crash-scripts") or few_or_many(40, 160)) // PARTS
    for seed in range(part * scripts, (part + 1) * scripts):
        script, choice = DirectoryScript(seed), random.Random(seed)
        for _ in range(5):
            crash = Crash(
                choice.randint(0, script.disk.effects), choice.choice(FATES), choice.getrandbits(32)
            )
            try:
                check(script, crash)
            except Exception as error:
                steps = ", ".join(f"{s.name} [{s.begin}..{s.end}]" for s in script.steps)
                message = f"script {seed}: {steps}\n{crash}"
                raise AssertionError(message) from error


def test_the_check_sees_a_loss():
    """A topic, a setting, a partition or a record that is missing is no possible state."""
    whole = {"a": Topic({"retention.ms": "5"}, {0: Partition((b"1", b"2"), 1)})}

    def with_values(*values: bytes) -> dict[str, Topic]:
        return {"a": Topic({"retention.ms": "5"}, {0: Partition(values, 0)})}

    assert fits(with_values(b"1", b"2"), whole, whole)
    assert fits(with_values(b"2"), whole, whole)
    assert not fits(with_values(), whole, whole)
    assert not fits(with_values(b"1"), whole, whole)
    assert not fits({}, whole, whole)
    assert not fits({"a": whole["a"]._replace(config={})}, whole, whole)
    assert not fits({"a": whole["a"]._replace(partitions={})}, whole, whole)
