"""Scripts over a whole `LogManager`, run with one manager over all log directories.

What is not built yet ends a script, by name: see `NotYetError`; and so does what is done otherwise
on purpose: see `OtherwiseError`. Until then, results, errors, logs,
settings, the files of the partitions and the checkpoints of the log directories are compared. High
watermarks begin at the log start: in a broker the replica layer keeps them, and no script has one.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import uuid
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import pytest

import segstore
from segstore.config.log_config import LogConfig
from segstore.errors import (
    IllegalStateError,
    LogDirectoryOfflineError,
    LogLockedError,
    LogReadOnlyError,
    ReadIOError,
)
from segstore.log.files.broker_metadata import UNREADABLE_METADATA
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from segstore.log.files.partition_directory import (
    directory_name,
    is_partition_directory_name,
    parse_directory_name,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.topics_file import TopicEntry, TopicState
from segstore.log.log_opener import open_partition
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.manager import current_logs, log_manager
from segstore.manager.cleaner_config import CleanerConfig
from segstore.manager.log_directory import LogDirectory
from segstore.manager.maintenance_report import Findings
from segstore.manager.partition_directories import has_unopened_logs
from segstore.types import TopicPartition
from tests.kits.directory_files import content
from tests.kits.manager_kit import abandon
from tests.kits.mock_time import MockTime
from tests.vectors.log_script import describe_append

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import NoReturn

    from segstore import LogManager, UnifiedLog
    from segstore.log.log_environment import LogEnvironment
    from segstore.log.open_options import OpenOptions
    from segstore.manager.maintenance import Maintenance
    from tests.vectors.vector_files import Case

CHECKPOINT_FILES: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
GONE: Final = "files that are gone take no directory offline [MGR-72, DUR-124]"
STARTS: Final = {"start", "construct"}
_CHECKPOINT = re.compile(rb"0\n[0-9]+\n(\S+ [0-9]+ [0-9]+\n)*", re.ASCII)
_LEFT_ALONE = re.compile(r"([^/]*/[^/]*-(?:delete|stray))/")
_NUMBERED = re.compile(r"\.<\d+>-(delete|stray|future)")
_ONLY_KAFKAS = re.compile(r"\S+-(?:\+[0-9]+|0[0-9]+)", re.ASCII)
_RANDOM = re.compile(r"\.[0-9a-f]{32}-(delete|stray|future)")


class NotYetError(Exception):
    """What a script needs next, and is not there."""


class OtherwiseError(Exception):
    """What is done otherwise here, by a rule that the text names; a script ends there."""


class PassedOverError(Exception):
    """An operation that changes nothing which is compared; it does not count as compared."""


class ManagerScript:
    """Managers that are driven by the operations of one case."""

    def __init__(self, case: Case, root: Path) -> None:
        config = self.config = case["config"]
        self.root = root
        self.dirs: list[str] = config["log_dirs"]
        self.defaults: dict[str, str] = dict(config["default_log_config"])
        self.topic_configs: dict[str, dict[str, str]] = dict(config["topic_configs"])
        self.time = MockTime(config["time"])
        self.producer_config = ProducerStateManagerConfig(
            config["producer_id_expiration_ms"], config["transaction_verification"]
        )
        self.max_transaction_timeout_ms = config["max_transaction_timeout_ms"]
        self.manager: LogManager | None = None
        self.failed_before: list[str] = []
        self.preferred: dict[TopicPartition, str] = {}
        self.initializing: dict[TopicPartition, bool] = {}
        self.starts = 0
        self.is_loaded = False
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.queued: dict[str, int] = {}
        self.has_strange_lines = False
        self.has_lost_files = False
        self.held_by_cleaner: Iterable[str] = ()
        for name in self.dirs:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, entry in case["input_files"].items():
            path = root / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(entry))

    def do(self, operation: Case) -> Any:
        """Do one operation, and what is due; returns its result as the vectors have it."""
        self.held_by_cleaner = operation.get("cleaning_states", self.held_by_cleaner)
        self._drop_future_logs(operation)
        method = getattr(self, f"do_{operation['op']}", None)
        if method is None:
            raise NotYetError(operation["op"])
        if operation.get("future"):
            self._leave_future_log(operation)
        try:
            return method(operation)
        finally:
            self.time.run_due()

    # ---- life ------------------------------------------------------------------------------------

    def do_start(self, operation: Case) -> Case:
        if "error" in operation:
            self._start_all_the_same(operation)
        no_directories = [one for one in self.dirs if (self.root / one).is_file()]
        failed = sorted({*no_directories}.union(operation["initial_offline_dirs"]))
        if operation.get("reported_offline", []) != failed:
            self._start_all_the_same(operation)
        self.failed_before = operation["initial_offline_dirs"]
        self._require_live_names()
        self._forget_high_watermarks()
        with self._opening():
            self.manager = self._open()
            for name in self.live_dirs():
                for partition in self.partitions_in(name):
                    self._load(operation, name, partition)
            self.starts += 1
            self.is_loaded = True
            for stray in operation["stray"]:
                name, _, log = stray.partition("/")
                if log.endswith("-future"):
                    shutil.rmtree(self.real_future(stray))
                elif is_partition_directory_name(log) and not log.startswith("__cluster_metadata"):
                    with self._keeping_checkpoints(name):
                        self._set_aside(name, parse_directory_name(log))
        self._schedule_tasks()
        if "kafka-delete-logs" in operation.get("tasks_run", {}):
            self.delete_logs()
        return {"previous_broker_epoch": self.manager.last_broker_epoch}

    def _load(self, operation: Case, log_dir: str, partition: TopicPartition) -> None:
        if partition.topic != "__cluster_metadata":  # [MGR-18]
            is_known = partition.topic in operation["topics"]
            given = self._given(operation, partition, is_known=is_known)
            self._open_log(log_dir, partition, given)

    def _require_live_names(self) -> None:
        for name in self.live_dirs():
            names = [path.name for path in (self.root / name).glob("*") if path.is_dir()]
            if any(_ONLY_KAFKAS.fullmatch(one) for one in names):
                raise OtherwiseError("a number that is written in another way [MGR-62, DUR-124]")

    def _forget_high_watermarks(self) -> None:
        for name in self.live_dirs():
            (self.root / name / HIGH_WATERMARK_CHECKPOINT).unlink(missing_ok=True)

    def _start_all_the_same(self, operation: Case) -> NoReturn:
        """One directory or file ends neither a start here nor a directory: all logs are there."""
        self.failed_before = operation["initial_offline_dirs"]
        self.manager = self._open()
        works = [one for one in self.dirs if (self.root / one).is_dir()]
        assert self.live_dirs() == [one for one in works if one not in self.failed_before]
        there = {one for name in self.live_dirs() for one in self.partitions_in(name)}
        assert {*self.manager.partitions()} == there
        raise OtherwiseError(
            "a start that Kafka refuses [MGR-18, MGR-22, MGR-23]"
            if "error" in operation
            else "a file that takes its directory from Kafka [DUR-124]"
        )

    def do_construct(self, operation: Case) -> Case:
        if "error" in operation:
            raise NotYetError("a constructor that Kafka refuses")
        self.failed_before = operation["initial_offline_dirs"]
        if any((self.root / one / CLEAN_SHUTDOWN_MARKER).exists() for one in self.live_dirs()):
            raise OtherwiseError("a manager that is made and not started [MGR-16, MGR-54]")
        self._forget_high_watermarks()
        self.manager = self._open()
        return {"previous_broker_epoch": self.manager.last_broker_epoch}

    def live_dirs(self) -> list[str]:
        """Return the names of the directories that work."""
        if self.manager is None:
            there = [name for name in self.dirs if not (self.root / name).is_file()]
            return [name for name in there if name not in self.failed_before]
        offline = self.manager.offline_directories()
        return [name for name in self.dirs if str(self.root / name) not in offline]

    def partitions_in(self, log_dir: str) -> list[TopicPartition]:
        """Return the partitions that have a directory there, by the order of their names."""
        paths = sorted((self.root / log_dir).iterdir())
        names = [path.name for path in paths if path.is_dir()]
        return [parse_directory_name(one) for one in names if is_partition_directory_name(one)]

    def directory_at(self, name: str) -> LogDirectory:
        """Return our part of a log directory."""
        assert self.manager is not None
        return self.manager._directory_at(self.root / name)

    def _schedule_tasks(self) -> None:
        """Let the tasks that a manager has for all its logs run when Kafka's do [MGR-27]."""
        for name, task in (
            ("retention_check_ms", self.retain),
            ("flush_check_ms", lambda: self._run_job("flushes")),
            ("recovery_point_checkpoint_ms", lambda: self._run_job("recovery points")),
            ("log_start_offset_checkpoint_ms", lambda: self._run_job("log starts")),
        ):
            first_ms = self.config["initial_task_delay_ms"]
            tasks = self.time.scheduler(name, None)
            tasks.repeat(task, self.config[name] / 1000, first_seconds=first_ms / 1000)

    def _run_job(self, name: str, log_dirs: Iterable[str] | None = None) -> None:
        findings = Findings()
        for log_dir in self.live_dirs() if log_dirs is None else log_dirs:
            maintenance = self.directory_at(log_dir).maintenance
            assert maintenance is not None
            job = next(one for one in maintenance._jobs if one.name == name)
            job.run(self.time.now_ms, findings)
        assert not findings.failed

    def _open(self) -> LogManager:
        with self.failing_directories():
            return segstore.open_dir(
                [self.root / name for name in self.dirs],
                recovery="kafka",
                durability="none",
                config=LogConfig.from_properties(self.defaults),
                producer_config=self.producer_config,
                cleaner=self.cleaner_config(),
            )

    def cleaner_config(self) -> CleanerConfig:
        """Return the script's, where each log directory has a cleaner of its own."""
        given = self.config["cleaner"]
        return CleanerConfig(
            threads=given["threads"],
            dedupe_buffer_size=given["dedupe_buffer_size"] * len(self.dirs),
            dedupe_buffer_load_factor=given["dedupe_buffer_load_factor"],
            io_buffer_size=given["io_buffer_size"],
            backoff_ms=given["backoff_ms"],
            enable=given["enable"],
        )

    @contextlib.contextmanager
    def failing_directories(self) -> Iterator[None]:
        """Let those fail at an open that the script says."""
        broken = {str(self.root / name) for name in self.failed_before}

        def opened(path: str, *given: Any, **settings: Any) -> LogDirectory:
            if path in broken:
                raise ReadIOError("as the script says", file=path)
            return LogDirectory(path, *given, **settings)

        with mock.patch.object(log_manager, "LogDirectory", opened):
            yield

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """Let logs have the clock and the tasks of the script."""

        def open_there(
            path: str, options: OpenOptions, log_environment: LogEnvironment
        ) -> UnifiedLog:
            there = log_environment._replace(
                environment=self.time.environment,
                background=self.time.scheduler,
                max_transaction_timeout_ms=self.max_transaction_timeout_ms,
            )
            return open_partition(path, options, there)  # type: ignore[return-value]

        with mock.patch.object(current_logs, "open_partition", open_there):
            yield

    def _given(
        self, operation: Case, partition: TopicPartition, *, is_known: bool = True
    ) -> dict[str, str]:
        """Return what a topic was given; of some, only the log's settings say so."""
        config = operation.get("log_configs", {}).get(str(partition), {})
        if not is_known:
            return {}
        given = dict(self.topic_configs.get(partition.topic, {}))
        for key in config.get("overridden", ()):
            if key not in given and key not in config:
                raise NotYetError("settings that the script does not tell")
            value = given.get(key, config.get(key))
            given[key] = ",".join(value) if isinstance(value, list) else str(value)
        return given

    def _open_log(
        self, log_dir: str, partition: TopicPartition, properties: dict[str, str]
    ) -> UnifiedLog:
        directory = self.directory_at(log_dir)
        entry = TopicEntry(None, 1, TopicState.LIVE, properties)
        directory.registry.put(partition.topic, entry)
        log = self.logs[partition] = directory.logs.find_or_open(partition)
        flusher = log._flusher
        sync_if_due = flusher.sync_if_due

        def run_due_first(offset: int, generation: int) -> None:
            self.time.run_due()
            sync_if_due(offset, generation)

        flusher.sync_if_due = run_due_first  # type: ignore[method-assign]
        return log

    def do_shutdown(self, operation: Case) -> None:
        assert self.manager is not None
        error = operation.pop("error", {"class": "ClosedChannelException"})  # [MGR-8]
        if error["class"] != "ClosedChannelException":
            raise NotYetError("a shutdown that Kafka refuses")
        if not self.is_loaded:
            raise OtherwiseError("a manager that is made and not started [MGR-16, MGR-54]")
        has_failed = any(one.error is not None for one in self.manager._directories)
        holds_back = any(
            has_unopened_logs(one.directory) or one.directory.exists("__cluster_metadata-0")
            for one in self.manager._directories
            if one.error is None and one.owned is not None and not one.owned._was_clean
        )
        with pytest.raises(LogReadOnlyError) if has_failed else contextlib.nullcontext():
            self.manager.close(operation["broker_epoch"])
        self._end()
        if holds_back:
            raise OtherwiseError(
                "no marker while an unclean directory has a log that is not opened [DUR-123]"
            )

    def do_crash(self, _: Case) -> None:
        if self.manager is not None:
            abandon(self.manager)
        self._end()

    def _end(self) -> None:
        live_dirs = self.live_dirs()
        self.failed_before = [name for name in self.dirs if name not in live_dirs]
        self.manager = None
        self.is_loaded = False
        self.logs.clear()
        self.preferred.clear()
        self.time = MockTime(self.time.now_ms)

    def let_go(self) -> None:
        """End a case in its middle."""
        with contextlib.suppress(Exception):
            self.do_crash({})

    # ---- topics ----------------------------------------------------------------------------------

    def do_get_or_create_log(self, operation: Case) -> Case:
        partition = _partition(operation)
        if partition in self.logs:
            log = self.logs[partition]
            log_dir = log.path.rpartition("/")[0].rpartition("/")[2]
            topic_id = _uuid(operation["topic_id"])
            if topic_id is not None and log.topic_id is not None:
                log.assign_topic_id(topic_id)
            return {"dir": f"{log_dir}/{directory_name(partition)}"}
        assert self.manager is not None
        if not operation["is_new"]:
            self.manager._topics.check_complete()
            if self.manager.offline_directories():
                raise LogDirectoryOfflineError("as check_complete")  # of one that failed since
        (first, *_), name = self._candidates(operation, partition), directory_name(partition)
        if "error" in operation:
            raise NotYetError("a log that Kafka cannot make")
        with self._opening(), self._keeping_checkpoints(first):
            log = self._open_log(first, partition, self._given(operation, partition))
        self.preferred.pop(partition, None)
        topic_id = _uuid(operation["topic_id"])
        if topic_id is not None:
            log.assign_topic_id(topic_id)
        return {"dir": f"{first}/{name}"}

    def _candidates(self, operation: Case, partition: TopicPartition) -> list[str]:
        """[MGR-77, MGR-78] Where a new log may go."""
        assert self.manager is not None
        if partition in self.preferred:
            return [self.preferred[partition]]
        asked = _uuid(operation["target_directory_id"])
        for name in self.live_dirs():
            if asked is not None and self.directory_at(name).directory_id == asked:
                return [name]
        return self.do_next_log_dirs(operation)

    def do_next_log_dirs(self, _: Case) -> list[str]:
        assert self.manager is not None
        placement = self.manager._placement
        return [one.path.rpartition("/")[2] for one in placement.next_directories()]

    def do_update_cordoned_log_dirs(self, operation: Case) -> None:
        assert self.manager is not None
        self.manager.cordon([self.root / name for name in operation["dirs"]])

    def do_is_log_dir_online(self, operation: Case) -> bool:
        assert self.manager is not None
        path = self.root / operation["dir"]
        with contextlib.suppress(LogDirectoryOfflineError):
            self.manager._directory_at(path)
        return str(path) not in self.manager.offline_directories()

    def do_maybe_update_preferred_log_dir(self, operation: Case) -> None:
        """[MGR-82] Nothing where the log lies there."""
        partition = _partition(operation)
        log = self.logs.get(partition)
        if log is None or log.path.split("/")[-2] != operation["dir"]:
            self.preferred[partition] = operation["dir"]

    def do_handle_log_dir_failure(self, operation: Case) -> None:
        """[MGR-71] The logs of the directory go out of use."""
        assert self.manager is not None
        path = str(self.root / operation["dir"])
        if path in self.manager._offline:
            return
        error = ReadIOError("as the script says", file=path)
        self.manager._failures.maybe_add_offline_log_dir(path, error)
        for partition, log in [*self.logs.items()]:
            if log.path.rpartition("/")[0] == path:
                log.close_quietly()
                del self.logs[partition]
        self.manager._check_writable()

    def do_async_delete(self, operation: Case) -> str | None:
        partition = _partition(operation)
        if partition not in self.logs:
            assert self.manager is not None
            if self.manager.offline_directories():  # also of one that has failed since
                raise LogDirectoryOfflineError("it may be there")
            return None
        log_dir = self._dir_of(self.logs[partition])
        if operation["checkpoint"]:
            self._delete(partition, is_stray=operation["stray"])
            self._write_checkpoints(log_dir)
        else:
            with self._keeping_checkpoints(log_dir):
                self._delete(partition, is_stray=operation["stray"])
        return operation.get("result")

    def do_async_delete_many(self, operation: Case) -> None:
        if operation.get("result") and operation["result"].get("errors"):
            raise OtherwiseError(GONE)
        partitions = [TopicPartition(*one) for one in operation["partitions"]]
        is_stray = operation["stray"]
        log_dirs = [self._delete(one, is_stray=is_stray) for one in partitions if one in self.logs]
        self._write_checkpoints(*log_dirs)

    def _set_aside(self, log_dir: str, partition: TopicPartition) -> None:
        assert self.manager is not None
        self.logs.pop(partition, None)
        self.manager.set_aside_partition(*partition, self.root / log_dir)

    def _delete(self, partition: TopicPartition, *, is_stray: bool) -> str:
        log_dir = self._dir_of(self.logs.pop(partition))
        if is_stray:
            self._set_aside(log_dir, partition)
            return log_dir
        directory = self.directory_at(log_dir)
        with directory.guard():
            directory.registry.doom([partition])
        return log_dir

    @contextlib.contextmanager
    def _keeping_checkpoints(self, log_dir: str) -> Iterator[None]:
        """Leave the lines of a partition that is gone, as Kafka does until its next write."""
        paths = [self.root / log_dir / name for name in CHECKPOINT_FILES]
        contents = {path: path.read_bytes() for path in paths if path.exists()}
        yield
        for path, found in contents.items():
            path.write_bytes(found)

    def _write_checkpoints(self, *log_dirs: str) -> None:
        """[MGR-63, MGR-65] As a broker does after a deletion."""
        self._run_job("recovery points", log_dirs)
        self._run_job("log starts", log_dirs)
        for name in log_dirs:
            maintenance = self.directory_at(name).maintenance
            assert maintenance is not None
            maintenance.cleaner_manager.update_checkpoints(str(self.root / name))

    def do_update_topic_config(self, operation: Case) -> None:
        topic = operation["topic"]
        self.topic_configs[topic] = operation["config"]
        assert self.manager is not None
        if topic in self.manager.topics():
            given = {one.name for one in self.manager.describe_topic(topic).settings}
            taken_back = dict.fromkeys(given - operation["config"].keys())
            with mock.patch.object(self.manager._topics, "check_complete"):  # they are elsewhere
                self.manager.alter_topic(topic, {**taken_back, **operation["config"]})

    def do_update_default_config(self, operation: Case) -> None:
        """[MGR-97] As a broker whose settings change: each log goes by them."""
        assert self.manager is not None
        self.defaults = dict(operation["config"])
        self.manager.reconfigure_default_log_config(LogConfig.from_properties(self.defaults))

    def do_store_topic_config(self, operation: Case) -> None:
        self.topic_configs[operation["topic"]] = operation["config"]

    def do_initializing_log(self, operation: Case) -> None:
        """[MGR-95] Here a log is made in one step: what changes meanwhile is taken at the end."""
        self.initializing[_partition(operation)] = False

    def do_topic_config_updated(self, operation: Case) -> None:
        for partition in self.initializing:
            self.initializing[partition] |= partition.topic == operation["topic"]

    def do_broker_config_updated(self, _: Case) -> None:
        self.initializing = dict.fromkeys(self.initializing, True)

    def do_finished_initializing_log(self, operation: Case) -> None:
        partition = _partition(operation)
        if self.initializing.pop(partition, False) and partition in self.logs:
            given = self.topic_configs.get(partition.topic, {})
            log = self.logs[partition]
            entry = TopicEntry(None, 1, TopicState.LIVE, given)
            self.directory_at(self._dir_of(log)).registry.put(partition.topic, entry)
            log.update_config(LogConfig.from_properties({**self.defaults, **given}))

    # ---- future logs -----------------------------------------------------------------------------

    def _leave_future_log(self, operation: Case) -> NoReturn:
        """[MGR-79, DUR-127] A copy of bytes is no log that anybody appends to; its name counts."""
        if operation["op"] == "get_or_create_log" and "error" not in operation:
            path = operation["result"]["dir"]
            name = _NUMBERED.sub(lambda found: f".{uuid.uuid4().hex}-{found[1]}", path)
            (self.root / name).mkdir(exist_ok=True)
            self.preferred.pop(_partition(operation), None)
        self._write_checkpoints_of_future_logs(operation)
        raise PassedOverError

    def _write_checkpoints_of_future_logs(self, operation: Case) -> None:
        """[MGR-63, MGR-86, MGR-87] Those of the directories where they lie."""
        if operation["op"] == "async_delete" and operation["checkpoint"] and operation["result"]:
            self._write_checkpoints(operation["result"]["dir"].partition("/")[0])
        for name in operation.get("checkpoints", {}) if operation["op"] != "async_delete" else ():
            if name.endswith(RECOVERY_POINT_CHECKPOINT):
                self._run_job("recovery points", [name.partition("/")[0]])

    def _drop_future_logs(self, operation: Case) -> None:
        """[MGR-64] A partition that is deleted loses its future log too."""
        if operation["op"] not in {"async_delete", "async_delete_many"}:
            return
        for name, log in operation.get("logs", {}).items():
            if name.endswith(" future") and log is None:
                for path in self.root.glob(f"*/{name.removesuffix(' future')}.*-future"):
                    shutil.rmtree(path)
                    if operation["op"] == "async_delete_many":
                        self._write_checkpoints(path.parent.name)  # [MGR-65]

    def do_replace_current_with_future_log(self, operation: Case) -> None:
        """[MGR-90] Nothing says there that the other log has caught up."""
        raise OtherwiseError(
            "a future log takes the place, whatever it has [MGR-90, DUR-127]"
            if "error" not in operation
            else "a future log that cannot take the place [MGR-90, MGR-91]"
        )

    def do_recover_abandoned_future_logs(self, operation: Case) -> None:
        """[MGR-92] No controller says here where a partition is to be."""
        if operation.get("logs") or "error" in operation:
            raise OtherwiseError("a future log that a controller has assigned [MGR-92]")
        raise PassedOverError

    # ---- logs ------------------------------------------------------------------------------------

    def log_of(self, operation: Case) -> UnifiedLog:
        partition = _partition(operation)
        if partition not in self.logs:
            raise NotYetError("a log that is not registered")
        return self.logs[partition]

    def do_append_as_leader(self, operation: Case) -> Case:
        records = base64.b64decode(operation["records"])
        log = self.log_of(operation)
        return describe_append(log.append_as_leader(records, operation["leader_epoch"]))

    def do_append_as_follower(self, operation: Case) -> Case:
        records = base64.b64decode(operation["records"])
        log = self.log_of(operation)
        return describe_append(log.append_as_follower(records, operation["leader_epoch"]))

    def do_update_high_watermark(self, operation: Case) -> int:
        return self.log_of(operation).update_high_watermark(operation["offset"])

    def do_roll(self, operation: Case) -> int:
        return self.log_of(operation).roll().base_offset

    def do_flush(self, operation: Case) -> None:
        force = operation.get("force_active_segment", False)
        self.log_of(operation).flush(force_active_segment=force)

    def do_maybe_increment_log_start_offset(self, operation: Case) -> bool:
        return self.log_of(operation).maybe_increment_log_start_offset(operation["offset"])

    def do_truncate_to(self, operation: Case) -> None:
        for name, offset in operation["offsets"].items():
            log = self.logs.get(parse_directory_name(name))
            if log is not None and log.truncate_to(offset):
                self._run_job("recovery points", [self._dir_of(log)])  # [MGR-86]

    @staticmethod
    def _dir_of(log: UnifiedLog) -> str:
        return log.path.split("/")[-2]

    def do_checkpoint_log_recovery_offsets(self, _: Case) -> None:
        self._run_job("recovery points")

    def do_checkpoint_log_start_offsets(self, _: Case) -> None:
        self._run_job("log starts")

    def do_truncate_fully_and_start_at(self, operation: Case) -> None:
        log_start = operation.get("log_start_offset")
        log = self.log_of(operation)
        log.truncate_fully_and_start_at(operation["offset"], log_start)
        self._run_job("recovery points", [self._dir_of(log)])  # [MGR-87]

    # ---- time ------------------------------------------------------------------------------------

    def do_advance_time(self, operation: Case) -> int:
        if operation.get("task_errors"):
            raise OtherwiseError("a task whose error ends what it has left to do [DUR-131]")
        self.time.sleep(operation["ms"])
        if "kafka-delete-logs" in operation.get("tasks_run", {}):
            self.delete_logs()
        return self.time.now_ms

    def retain(self) -> None:
        """[RTN-1] Once for each log that is not compacted."""
        for partition, log in self.logs.items():
            is_held = str(partition) in self.held_by_cleaner
            if "compact" not in log.config.cleanup_policies and not is_held:
                log.delete_old_segments()

    def delete_logs(self) -> None:
        """[MGR-66] By the clock of the script."""
        for name in self.live_dirs() if self.manager is not None else ():
            deleted = self.directory_at(name).deleted
            deleted._waiting = {name: self.deleted_at(name) for name in deleted.waiting}
            deleted.delete_due(self.time.now_ms)

    def deleted_at(self, name: str) -> int:
        """Return when Kafka has queued a directory of that partition."""
        plain = _RANDOM.sub("", name)
        return self.queued[plain]

    def note_queue(self, queue: list[list[Any]]) -> None:
        """Know when Kafka has queued each directory; a later one of the same name counts."""
        for path, at in queue:
            self.queued[_RANDOM.sub("", _NUMBERED.sub("", path)).rpartition("/")[2]] = at

    # ---- the disk --------------------------------------------------------------------------------

    def do_note(self, _: Case) -> None:
        """Read by people."""

    def do_write_file(self, operation: Case) -> None:
        path, data = self.real(operation["path"]), base64.b64decode(operation["data"])
        if path.name in CHECKPOINT_FILES and not _CHECKPOINT.fullmatch(data):
            self.has_strange_lines = True
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def do_truncate_file(self, operation: Case) -> None:
        with self.real(operation["path"]).open("r+b") as file:
            file.truncate(operation["size"])

    def do_rename(self, operation: Case) -> None:
        self.real(operation["from"]).rename(self.real(operation["to"]))

    def do_copy(self, operation: Case) -> None:
        source, target = self.real(operation["from"]), self.real(operation["to"])
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)

    def real(self, path: str) -> Path:
        """Return what a path is here, whose random part the script has numbered."""
        if "-future" in path:
            raise OtherwiseError("files of a future log that a script changes [MGR-79, DUR-127]")
        if "<" not in path:
            return self.root / path
        name = _NUMBERED.sub(r".*-\1", path.split("/")[1])
        found = [*(self.root / path.split("/", maxsplit=1)[0]).glob(name)]
        if len(found) != 1:
            raise NotYetError("several directories of one partition that are no live one")
        return found[0].joinpath(*path.split("/")[2:])

    def real_future(self, path: str) -> Path:
        """Return the directory that stands here for a future log."""
        log_dir, _, name = path.partition("/")
        (found,) = (self.root / log_dir).glob(_NUMBERED.sub(r".*-\1", name))
        return found

    def do_second_manager(self, operation: Case) -> None:
        del operation
        with pytest.raises(LogLockedError):
            self._open()
        raise IllegalStateError("as a second manager does")

    def do_clean(self, operation: Case) -> Case:
        """[CLN-3] Iterations in each directory, until one cleans nothing."""
        if "Duplicate key" in operation.get("error", {}).get("message", ""):
            raise OtherwiseError(
                "a partition in the cleaner checkpoints of two directories [CLN-26]"
            )
        count = self.clean_all()
        if "result" in operation and count != operation["result"]["logs_cleaned"]:
            where = {log.path.rpartition("/")[0] for log in self.logs.values()}
            if len(where) > 1:
                raise OtherwiseError("each log directory has a cleaner of its own [CLN-40]")
        return {"logs_cleaned": count}

    def clean_all(self) -> int:
        """Run iterations, and return how many have picked a log."""
        count, findings = 0, Findings()
        with self._opening():
            for maintenance in self._maintained():
                is_picked = True
                while is_picked:
                    maintenance._compacted.look(findings)
                    cleaner = maintenance._cleaner
                    is_picked = cleaner.try_clean_filthiest_log(self.time.now_ms, findings)
                    count += is_picked
        return count

    def _maintained(self) -> list[Maintenance]:
        """Return what cleans in the log directories; in Kafka there is one cleaner for all."""
        if not self.config["cleaner"]["enable"]:
            return []
        found = [self.directory_at(name).maintenance for name in self.live_dirs()]
        return [one for one in found if one is not None]

    def do_abort_and_pause_cleaning(self, operation: Case) -> None:
        for one in self._maintained():
            one.cleaner_manager.abort_and_pause_cleaning(_partition(operation))

    def do_abort_cleaning(self, operation: Case) -> None:
        for one in self._maintained():
            one.cleaner_manager.abort_cleaning(_partition(operation))

    def do_resume_cleaning(self, operation: Case) -> None:
        for one in self._maintained():
            one.cleaner_manager.resume_cleaning([_partition(operation)])

    def do_make_dir(self, operation: Case) -> None:
        self.real(operation["path"]).mkdir(parents=True, exist_ok=True)

    def do_remove(self, operation: Case) -> None:
        path = self.real(operation["path"])
        self.has_lost_files |= self.manager is not None and path.is_dir()
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def require_same_settings(self, partition: TopicPartition, overridden: list[str]) -> None:
        """[DUR-128] A metadata log of a broker may be where nothing can be read."""
        self.require_same_files()
        for name in self.live_dirs():
            try:
                self.directory_at(name).settings._metadata.get()
            except UNREADABLE_METADATA:
                raise OtherwiseError("settings that cannot be read [DUR-128]") from None
        if self.topic_configs.get(partition.topic, {}).keys() ^ set(overridden):
            raise OtherwiseError("partitions of a topic whose settings differ [MGR-95, MGR-97]")

    def require_same_files(self) -> None:
        """[MGR-72] A directory that is taken away from a manager is no disk that has failed."""
        if self.has_lost_files:
            raise OtherwiseError(GONE)

    def require_same_checkpoints(self, operation: Case) -> None:
        """What lines are there otherwise than Kafka's, on purpose."""
        self.require_same_files()
        if operation["op"].startswith("truncate_"):
            raise OtherwiseError("a line of a log start that a truncation lowers [DUR-16]")
        if self.has_strange_lines:
            raise OtherwiseError("lines of a checkpoint that cannot be read are kept [DUR-123]")
        of_logs = ("flush-log", "leader-epoch-cache-flush")
        tasks = operation.get("tasks_run", {})
        if "kafka-log-retention" in tasks and any(name.startswith(of_logs) for name in tasks):
            raise OtherwiseError("tasks that run in the middle of another one [MGR-27]")

    # ---- what can be seen ------------------------------------------------------------------------

    def describe_logs(self) -> Case:
        """Return what is known of each log, as the vectors have it."""
        found = {}
        for partition, log in self.logs.items():
            log_dir, _, name = log.path.rpartition("/")
            found[str(partition)] = {
                "dir": f"{log_dir.rpartition('/')[2]}/{name}",
                "topic_id": None if log.topic_id is None else topic_id_text(log.topic_id),
                "log_start_offset": log.log_start_offset,
                "log_end_offset": log.log_end_offset,
                "high_watermark": log.high_watermark,
                "recovery_point": log.recovery_point,
                "last_flush_time": log._flusher.last_flush_ms,  # type: ignore[union-attr]
                "segments": [[one.base_offset, one.size_bytes] for one in log.segments()],
            }
        return found

    def describe_checkpoints(self) -> dict[str, str]:
        """Return the text of the checkpoints of log directories, as the vectors have it."""
        found = {}
        for name in self.dirs:
            for file in (*CHECKPOINT_FILES, CLEAN_SHUTDOWN_MARKER):
                path = self.root / name / file
                if path.is_file():
                    lines = path.read_text().splitlines()
                    found[f"{name}/{file}"] = "\n".join([*lines[:2], *sorted(lines[2:])])
        return found

    def describe_files(self) -> dict[str, int]:
        """Return the sizes of the files of live partitions, and of those that are deleted."""
        found = {}
        for name in self.dirs:
            for path in sorted((self.root / name).glob("*/*")):
                if path.is_file() and path.name != ".lock":
                    found[str(path.relative_to(self.root))] = path.stat().st_size
        return self.comparable(without_random_names(found))

    def comparable(self, sizes: dict[str, int]) -> dict[str, int]:
        """[DUR-122] Kafka opens a deleted or stray directory at a start; here its name counts."""
        if self.starts < 2:
            return sizes
        return {
            name if found is None else found[1]: size if found is None else 0
            for name, size in sizes.items()
            for found in [_LEFT_ALONE.match(name)]
        }


def without_random_names(sizes: dict[str, int]) -> dict[str, int]:
    """Leave out the random part of names; of two directories with one name the sizes add up."""
    found: dict[str, int] = {}
    for name, size in sizes.items():
        plain = _RANDOM.sub(r"-\1", _NUMBERED.sub(r"-\1", name))
        found[plain] = found.get(plain, 0) + size
    return found


def description_of(operation: Case) -> str:
    """Return an operation in a line, for an error."""
    hidden = {"records", "files", "logs", "checkpoints", "data", "log_configs"}
    return json.dumps({key: value for key, value in operation.items() if key not in hidden})


def _partition(operation: Case) -> TopicPartition:
    return TopicPartition(operation["topic"], operation["partition"])


def _uuid(text: str | None) -> uuid.UUID | None:
    return None if text is None else uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))
