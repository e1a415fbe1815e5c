"""The scripts of managers with the safe profile: no acknowledged record is lost, none comes back.

A model knows what each partition has: what was appended, less what was truncated, deleted, or has
fallen to limits that its topic was given. Where a script changes the files of a partition itself,
that partition has no model until it is made again; an error tells what is wrong with it.
The weaknesses of Kafka are counted.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import segstore
from segstore.config.log_config import LogConfig
from segstore.errors import SegstoreError
from segstore.log.files.partition_directory import (
    is_partition_directory_name,
    parse_directory_name,
)
from segstore.types import TopicPartition
from tests.vectors.conftest import TALLY
from tests.vectors.manager_script import (
    CHECKPOINT_FILES,
    ManagerScript,
    NotYetError,
    OtherwiseError,
    PassedOverError,
    description_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pytest

    from segstore import LogManager, UnifiedLog
    from tests.vectors.vector_files import Case, Cases

DELETING = ("cleanup.policy", "retention.ms", "retention.bytes")
OF_THE_DISK = {"write_file", "truncate_file", "make_dir", "remove", "copy", "rename"}
REFUSED = (SegstoreError, OSError, NotYetError, OtherwiseError, PassedOverError)
"""What a script does that this profile, or this manager, does not: nothing has changed then."""


class Model:
    """The records of a partition, by offset."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.appends: dict[int, int] = {}
        """First and last offsets of appends: a truncation within one ends before that batch."""

    def truncate_to(self, offset: int, there: dict[int, Any]) -> None:
        cut = [first for first, last in self.appends.items() if first < offset <= last]
        whole = min(cut, default=offset)
        kept = {one: value for one, value in self.values.items() if one < offset}
        assert {one for one in kept if one < whole} <= there.keys() <= kept.keys()
        self.values = {one: value for one, value in kept.items() if one in there}

    def keep(self, start: int, end: int) -> None:
        self.values = {offset: one for offset, one in self.values.items() if start <= offset < end}


class SafeManagerScript(ManagerScript):
    """A script whose logs are compared with a model of each."""

    def __init__(self, case: Case, root: Path) -> None:
        self.models: dict[TopicPartition, Model] = {}
        super().__init__(case, root)
        self.defaults = without_limits(self.defaults)
        self.touched = {one for path in case["input_files"] for one in partition_named_in(path)}

    # ---- what is otherwise in this profile -------------------------------------------------------

    def _open(self) -> LogManager:
        with self.failing_directories():
            return segstore.open_dir(
                [self.root / name for name in self.dirs],
                durability="none",
                replicated=True,
                config=LogConfig.from_properties(self.defaults),
                producer_config=self.producer_config,
                cleaner=self.cleaner_config(),
            )

    def do_start(self, operation: Case) -> None:
        self.failed_before = operation["initial_offline_dirs"]
        with self._opening():
            self.manager = self._open()
            for name in self.live_dirs():
                for partition in self.partitions_in(name):
                    self._open_there(partition)
        for stray in operation["stray"]:
            name, _, log = stray.partition("/")
            if is_partition_directory_name(log):
                partition = parse_directory_name(log)
                with contextlib.suppress(SegstoreError):
                    self._set_aside(name, partition)
                    self.models.pop(partition, None)
        self._schedule_tasks()
        self.is_loaded = True
        for partition, log in self.logs.items():
            self.compare(partition, log)

    def _open_there(self, partition: TopicPartition) -> None:
        if partition.topic == "__cluster_metadata":
            return
        assert self.manager is not None
        try:
            self.logs[partition] = self.manager.log(*partition)
        except SegstoreError as error:
            if partition not in self.touched:
                raise AssertionError(f"{partition} cannot be opened: {error}") from error

    def _run_job(self, name: str, log_dirs: Iterable[str] | None = None) -> None:
        """What is durable is written down by each log itself."""

    def _keeping_checkpoints(self, _: str) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    def do_construct(self, operation: Case) -> None:
        self.failed_before = operation["initial_offline_dirs"]
        self.manager = self._open()

    def do_shutdown(self, operation: Case) -> None:
        assert self.manager is not None
        try:
            self.manager.close(operation["broker_epoch"])
        except SegstoreError:
            assert any(one.error is not None for one in self.manager._directories)
        self._end()

    def do_get_or_create_log(self, operation: Case) -> Case:
        partition = TopicPartition(operation["topic"], operation["partition"])
        assert self.manager is not None
        if partition not in self.logs:
            if self.manager.offline_directories():
                raise OtherwiseError("a topic that is made while a directory is offline")
            is_there = partition in self.manager.partitions()
            answer = super().do_get_or_create_log(operation)
            if not is_there:
                self.models[partition] = Model()
                self.touched.discard(partition)
            return answer
        return super().do_get_or_create_log(operation)

    def do_update_default_config(self, operation: Case) -> None:
        config = without_limits(operation["config"])
        super().do_update_default_config({**operation, "config": config})

    def do_clean(self, _: Case) -> None:
        """[DUR-126] Each key keeps its last value, and no other record comes."""
        self.clean_all()
        for partition, model in self.models.items():
            log = self.logs.get(partition)
            if log is not None and "compact" in log.config.cleanup_policies:
                model.keep(log.log_start_offset, log.log_end_offset)
                there = values_of(log)
                assert there.items() <= model.values.items(), f"{partition} has other records"
                last = {key: (at, value) for at, (key, value) in sorted(model.values.items())}
                for key, (at, value) in last.items():
                    if key is not None and value is not None:
                        assert there.get(at) == (key, value), f"{partition} has lost {key!r}"
                model.values = there

    def do_replace_current_with_future_log(self, operation: Case) -> None:
        """[DUR-127] The partition moves to where the future log is."""
        partition = TopicPartition(operation["topic"], operation["partition"])
        paths = [*self.root.glob(f"*/{partition}.*-future")]
        if len(paths) != 1:
            raise PassedOverError
        (path,) = paths
        path.rmdir()
        assert self.manager is not None
        with self._opening():
            self.manager.move_partition(*partition, path.parent)
            self.logs[partition] = self.manager.log(*partition)

    # ---- what the model knows --------------------------------------------------------------------

    def do(self, operation: Case) -> Any:
        name = operation["op"]
        self.note_queue(operation.get("waiting_for_deletion", []))
        if name in OF_THE_DISK:
            for key in ("path", "from", "to"):
                self.touch(operation.get(key, ""))
        answer = super().do(operation)
        if name in {"async_delete", "async_delete_many"}:
            for partition in [one for one in self.models if not [*self.root.glob(f"*/{one}")]]:
                del self.models[partition]
        if "topic" in operation and "partition" in operation:
            partition = TopicPartition(operation["topic"], operation["partition"])
            log, model = self.logs.get(partition), self.models.get(partition)
            if log is not None and model is not None:
                self.take(operation, model, log, answer)
        elif name == "truncate_to":
            for one, offset in operation["offsets"].items():
                partition = parse_directory_name(one)
                if partition in self.models and partition in self.logs:
                    self.models[partition].truncate_to(offset, values_of(self.logs[partition]))
        return answer

    def touch(self, path: str) -> None:
        """Know nothing of what a script changes itself; numbers in checkpoints are believed."""
        self.touched.update(partition_named_in(path), self.all_in(path))
        if path.endswith(CHECKPOINT_FILES):
            self.touched.update(self.models)
        for partition in self.touched & self.models.keys():
            del self.models[partition]

    def deleted_at(self, name: str) -> int:
        with contextlib.suppress(KeyError):
            return super().deleted_at(name)
        return self.time.now_ms

    def all_in(self, path: str) -> Iterable[TopicPartition]:
        """Return the partitions of a log directory that a script takes away as a whole."""
        return self.partitions_in(path) if path in self.dirs and (self.root / path).is_dir() else ()

    @staticmethod
    def take(operation: Case, model: Model, log: UnifiedLog, answer: Any) -> None:
        match operation["op"]:
            case "append_as_leader" | "append_as_follower":
                if answer["first_offset"] is not None:
                    model.appends[answer["first_offset"]] = answer["last_offset"]
                    model.values.update(values_of(log, answer["first_offset"]))
            case "truncate_fully_and_start_at":
                model.values.clear()
            case "maybe_increment_log_start_offset" if answer:
                model.keep(operation["offset"], log.log_end_offset)

    def retain(self) -> None:
        """[RTN-1, DUR-128] What is deleted without a limit of the topic's own is lost."""
        for partition, log in self.logs.items():
            before = log.log_start_offset
            log.delete_old_segments()
            entry = self.directory_at(self._dir_of(log)).registry.entry_of(partition.topic)
            if log.log_start_offset > before:
                given = {} if entry is None else entry.config
                assert given.keys() & set(DELETING), f"{partition} has no limit, and lost records"
                if partition in self.models:
                    self.models[partition].keep(log.log_start_offset, log.log_end_offset)

    def compare(self, partition: TopicPartition, log: UnifiedLog) -> None:
        """Compare all records of a log."""
        if partition in self.models:
            assert values_of(log) == self.models[partition].values, f"{partition} has other records"
        else:
            with contextlib.suppress(SegstoreError):
                values_of(log)

    def compare_all(self) -> None:
        for partition, log in self.logs.items():
            self.compare(partition, log)


def without_limits(config: dict[str, str]) -> dict[str, str]:
    """Leave out what would delete in each topic: a topic's own limits are looked at here."""
    return {key: value for key, value in config.items() if key not in DELETING}


def values_of(log: UnifiedLog, start: int | None = None) -> dict[int, Any]:
    table = log.to_arrow(start, columns=["offset", "key", "value"])
    rows = zip(*(table[name].to_pylist() for name in ("key", "value")), strict=True)
    return dict(zip(table["offset"].to_pylist(), rows, strict=True))


def partition_named_in(path: str) -> list[TopicPartition]:
    """Return the live partition whose directory a path names."""
    _, _, inner = path.partition("/")
    name = inner.partition("/")[0]
    return [parse_directory_name(name)] if is_partition_directory_name(name) else []


def test_the_scripts_of_managers_with_the_safe_profile(
    vectors: Callable[[str], Cases], tmp_path: Path, request: pytest.FixtureRequest
):
    """[DUR-120…DUR-124, DUR-127, DUR-128, DUR-129, DUR-131]"""
    cases = vectors("manager", "manager, nothing lost in the safe profile")
    weaknesses = Counter({True: 0, False: 0})

    def check(case: Case) -> None:
        script = SafeManagerScript(case, tmp_path / case["id"])
        weaknesses[False] += case.get("weakness_of_kafka", False)
        try:
            for number, operation in enumerate(case["ops"]):
                try:
                    script.do(operation)
                except REFUSED:
                    continue
                except Exception as error:
                    what = f"operation {number} {description_of(operation)}: {error!r}"
                    raise AssertionError(what) from error
            script.compare_all()
            script.do_crash({})
            script.do_start({"initial_offline_dirs": [], "stray": []})
        finally:
            script.let_go()
        weaknesses[True] += case.get("weakness_of_kafka", False)

    try:
        cases.check(check)
    finally:
        row = ["manager, weaknesses of Kafka without the loss", weaknesses[True], weaknesses[False]]
        request.node.user_properties.append((TALLY, row))
