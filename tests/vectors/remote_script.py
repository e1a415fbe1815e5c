"""Scripts over one tiered log and its remote storage, run with segstore."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from segstore._core import Directory, scan_batches
from segstore.errors import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RetriableRemoteStorageError,
)
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.remote.log_manager.copy_task import CopyTask
from segstore.remote.log_manager.expiration_task import ExpirationTask
from segstore.remote.log_manager.follower_task import FollowerTask
from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
from segstore.remote.log_manager.remote_log_manager import RemoteLogManager
from segstore.remote.log_manager.remote_log_reader import RemoteStorageReader
from segstore.remote.log_manager.remote_log_stats import RemoteLogFigures
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.types import AppendOrigin, EpochEntry, TopicPartition
from tests.kits.mock_time import MockTime
from tests.kits.remote_log_kit import MemoryRemoteLogMetadata, MemoryRemoteStorage, new_parts
from tests.vectors.log_script import LogScript, _uuid, describe_place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from segstore.log.files.profile import Profile
    from segstore.log.remote_tier import RemoteRead
    from segstore.remote.log_manager.remote_log_task import RemoteLogTask
    from tests.vectors.vector_files import Case

NOT_ARGUMENTS = {
    *("op", "result", "error", "state", "metrics", "events", "faults", "better"),
    "scheduled_tasks_run",
}
FILE_NAMES = {
    "log": "log",
    IndexType.OFFSET: "offset_index",
    IndexType.TIMESTAMP: "time_index",
    IndexType.PRODUCER_SNAPSHOT: "producer_snapshot",
    IndexType.TRANSACTION: "transaction_index",
}
ERRORS = {
    "storage": RemoteStorageError,
    "after": RemoteStorageError,
    "retriable": RetriableRemoteStorageError,
    "not_found": RemoteResourceNotFoundError,
}
PRODUCER_ID_EXPIRATION_MS = 86_400_000
MAX_TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000


class InjectedError(Exception):
    """An error of a plugin that it does not document."""


class RemoteScript(LogScript):
    """A tiered log that is driven by the operations of one case."""

    def __init__(self, case: Case, path: Path, profile: Profile) -> None:
        config = case["config"]
        self.path = path
        self.profile = profile
        self.is_as_kafkas = True
        self.time = MockTime(config["time"])
        self.log = None
        self.properties = dict(config["log_config"])
        self.topic_id = _uuid(config["topic_id"])
        self.failures = None
        self.max_transaction_timeout_ms = MAX_TRANSACTION_TIMEOUT_MS
        self.producer_config = ProducerStateManagerConfig(
            PRODUCER_ID_EXPIRATION_MS, transaction_verification_enabled=False
        )
        assert self.topic_id is not None
        self.partition = TopicIdPartition(self.topic_id, TopicPartition("topic", 0))
        self.storage = MemoryRemoteStorage()
        self.metadata = MemoryRemoteLogMetadata()
        self.storage.intercept = self.metadata.intercept = self.intercept
        self.parts = new_parts(
            self.storage,
            self.metadata,
            lambda: self.time.now_ms,
            custom_metadata_max_bytes=config["custom_metadata_max_bytes"],
        )
        self.figures = RemoteLogFigures()
        self.new_tasks()
        self.events: list[Case] = []
        self.faults: list[Case] = []
        self.calls: Counter[str] = Counter()
        self.names: dict[UUID, str] = {}
        self.running: RemoteLogTask | None = None
        self.last_read: RemoteRead | None = None
        self.rules: set[str] = set()
        self.foreign_count = 0
        self.is_spinning = False
        directory = Directory(str(path.parent), self.time.environment, create=True)
        self.index_cache = RemoteIndexCache(
            directory,
            self.storage,
            clock_ms=lambda: self.time.now_ms,
            kafka_profile=self.profile.value == "kafka",
        )
        self.remote_log_reader = self.new_reader()

    def new_reader(self) -> RemoteStorageReader:
        """Return a reader that has fetched nothing: Kafka asks the storage at each read."""
        return RemoteStorageReader(
            self.storage, self.metadata, self.index_cache, lambda _: self.partition.topic_id
        )

    def do(self, operation: Case) -> Any:
        self.events, self.calls = [], Counter()
        self.faults = operation.get("faults", [])
        arguments = {key: value for key, value in operation.items() if key not in NOT_ARGUMENTS}
        try:
            return getattr(self, f"do_{operation['op']}")(arguments)
        finally:
            self.time.run_due()
            self.faults = []

    # ---- what stands between ---------------------------------------------------------------------

    def intercept(self, call: str, action: Callable[[], Any], about: Any) -> Any:
        """Note the call, and let it fail where the script says so."""
        name = f"update {about.state.name}" if call == "update" else call
        self.calls[name] += 1
        kind = next(
            (
                one["kind"]
                for one in self.faults
                if one["call"] == name and one["nth"] == self.calls[name]
            ),
            None,
        )
        event = self.describe(call, about)
        if event is not None:
            if kind is not None:
                event["fault"] = kind
            self.events.append(event)
        if kind is not None:
            return self.fail(kind, event, call, action, about)
        return self.perform(event, call, action, about)

    def perform(self, event: Case | None, call: str, action: Callable[[], Any], about: Any) -> Any:
        result = action()
        if call == "copy" and event is not None:
            metadata, data = about
            event["files"] = self.describe_files(metadata.segment_id.id)
            event["producer_snapshot_name"] = data.producer_snapshot_index.rpartition("/")[2]
        return result

    def fail(
        self, kind: str, event: Case | None, call: str, action: Callable[[], Any], about: Any
    ) -> Any:
        if kind in {"runtime", "future"}:
            raise InjectedError(kind)
        if kind in ERRORS:
            if kind == "after":
                self.perform(event, call, action, about)
            raise ERRORS[kind]("injected", found=kind, expected="nothing of it")
        if kind == "cancel":
            assert self.running is not None
            self.running.cancel()
        if kind == "expire":
            self.events.append({"call": "expiration run begins"})
            self.expiration_task.run(self.opened)
            self.events.append({"call": "expiration run ends"})
        self.perform(event, call, action, about)
        return b"x" * int(kind.partition(":")[2]) if kind.startswith("custom") else None

    def name_of(self, segment_id: UUID) -> str:
        return self.names.setdefault(segment_id, f"s{len(self.names) + 1}")

    def describe(self, call: str, about: Any) -> Case | None:
        if call in {"list", "list_epoch", "highest"} or call.startswith("fetch"):
            return None
        if call == "copy":
            return {"call": call, "segment": self.name_of(about[0].segment_id.id)}
        event: Case = {"call": call, "segment": self.name_of(about.segment_id.id)}
        if call == "delete":
            return event
        event["state"] = about.state.name
        event["event_timestamp"] = about.event_timestamp_ms
        if call == "add":
            return event | {
                "start_offset": about.start_offset,
                "end_offset": about.end_offset,
                "max_timestamp": about.max_timestamp_ms,
                "size": about.segment_size_bytes,
                "leader_epochs": [list(one) for one in about.segment_leader_epochs],
                "txn_index_empty": about.is_transaction_index_empty,
                "broker_id": about.broker_id,
            }
        custom = about.custom_metadata
        event["custom"] = None if custom is None else len(custom)
        return event

    def describe_files(self, segment_id: UUID) -> Case:
        files = self.storage.segments[segment_id]
        described: Case = {
            FILE_NAMES[name]: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
            if name in FILE_NAMES
        }
        described["producer_snapshot"]["sha256"] = None  # [PSM-51] the order is that of a hash map
        described["leader_epochs"] = files[IndexType.LEADER_EPOCH].decode()
        return described

    # ---- life ------------------------------------------------------------------------------------

    def do_open(self, arguments: Case) -> None:
        super().do_open(arguments)
        self.figures = RemoteLogFigures()
        self.new_tasks()
        log = self.opened
        update = log._note_remote_log_start

        def note(offset: int, generation: int) -> bool:
            self.events.append({"call": "update_log_start_offset", "offset": offset})
            return update(offset, generation)

        log._note_remote_log_start = note  # type: ignore[method-assign]

    def new_tasks(self) -> None:
        self.figures.retention_size_percent = self.figures.local_retention_size_percent = 0
        self.copy_task = CopyTask(self.parts, self.partition, self.figures)
        self.expiration_task = ExpirationTask(self.parts, self.partition, self.figures)
        self.follower_task = FollowerTask(self.parts, self.partition, self.figures)

    def do_become_leader(self, arguments: Case) -> None:
        self.opened.assign_epoch_start_offset(arguments["epoch"], self.opened.log_end_offset)
        self.new_tasks()

    def do_new_tasks(self, _: Case) -> None:
        self.new_tasks()

    # ---- tasks -----------------------------------------------------------------------------------

    def run(self, task: RemoteLogTask, arguments: Case) -> Case:
        self.metadata.ready = arguments.get("ready", True)
        self.running = task
        self.error = task.run(self.opened)
        self.running = None
        self.metadata.ready = True
        return {"cancelled": task.is_cancelled}

    def do_copy(self, arguments: Case) -> Case:
        return self.run(self.copy_task, arguments)

    def do_expire(self, arguments: Case) -> Case:
        return self.run(self.expiration_task, arguments)

    def do_follow(self, arguments: Case) -> None:
        self.run(self.follower_task, arguments)

    def do_read_remote(self, arguments: Case) -> Case:
        log = self.opened
        is_committed = arguments["isolation"] == "TXN_COMMITTED"
        self.last_read = None
        read = self.last_read = self.new_reader().read(
            self.partition.topic_partition,
            arguments["offset"],
            min(arguments["fetch_max_bytes"], arguments["partition_max_bytes"]),
            min_one_message=arguments["min_one_message"],
            leader_epochs=log.leader_epochs,
            is_committed=is_committed,
            local_aborted_transactions=log._local_log.aborted_from,
        )
        data = bytes(read.records)
        headers, _ = scan_batches(data, check_crc=False)
        aborted = read.aborted_transactions
        return {
            "fetch_offset_metadata": describe_place(read.offset_metadata),
            "first_entry_incomplete": False,
            "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "complete_batches": [
                [int(row["base_offset"]), int(row["last_offset"])] for row in headers
            ],
            "aborted_transactions": None
            if aborted is None
            else sorted([one.producer_id, one.first_offset] for one in aborted),
        }

    def do_stop_partition(self, arguments: Case) -> Case:
        manager = RemoteLogManager(
            self.storage,
            self.metadata,
            None,
            broker_id=1,
            clock_ms=lambda: self.time.now_ms,
            config=self.parts.config,
        )
        errors = manager.stop_partitions(
            [self.partition], delete_remote_log=arguments["delete_remote_log"]
        )
        percents = (self.figures.retention_size_percent, self.figures.local_retention_size_percent)
        self.figures = RemoteLogFigures()
        self.figures.retention_size_percent, self.figures.local_retention_size_percent = percents
        self.stop_errors = list(errors.values())
        left = {self.names.get(one, "?") for one in self.storage.segments}
        return {"errors": len(errors), "left_in_store": sorted(left, key=lambda one: int(one[1:]))}

    def do_foreign_segment(self, arguments: Case) -> None:
        started = RemoteLogSegmentMetadata(
            segment_id=RemoteLogSegmentId(self.partition, _new_id()),
            start_offset=arguments["start_offset"],
            end_offset=arguments["end_offset"],
            max_timestamp_ms=arguments["max_timestamp"],
            broker_id=2,
            event_timestamp_ms=self.time.now_ms,
            segment_size_bytes=arguments["size"],
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs=tuple(EpochEntry(*one) for one in arguments["leader_epochs"]),
        )
        self.foreign_count += 1
        segment_id = started.segment_id.id
        self.names[segment_id] = arguments["segment"]
        cache = self.metadata.cache(self.partition)
        cache.add_copy_in_progress_segment(started)
        self.storage.segments[segment_id] = {
            "log": base64.b64decode(arguments["log"]),
            IndexType.OFFSET: b"",
            IndexType.TIMESTAMP: b"",
            IndexType.TRANSACTION: b"",
            IndexType.PRODUCER_SNAPSHOT: b"",
            IndexType.LEADER_EPOCH: b"0\n0\n",
        }
        if arguments["finished"]:
            cache.update_remote_log_segment_metadata(
                RemoteLogSegmentMetadataUpdate(
                    segment_id=started.segment_id,
                    event_timestamp_ms=self.time.now_ms,
                    custom_metadata=None,
                    state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
                    broker_id=2,
                )
            )

    # ---- the log ---------------------------------------------------------------------------------

    def do_append(self, arguments: Case) -> Case:
        return self.do_append_as_leader(arguments)

    def do_append_marker(self, arguments: Case) -> Case:
        arguments = arguments | {"origin": AppendOrigin.COORDINATOR.name, "transaction_version": 0}
        return self.do_append_as_leader(arguments)

    def do_delete_records(self, arguments: Case) -> bool:
        return self.opened.maybe_increment_log_start_offset(arguments["offset"])

    def do_delete_producer_snapshot(self, arguments: Case) -> None:
        self.opened._producers.snapshots.delete(arguments["offset"])

    # ---- what can be seen ------------------------------------------------------------------------

    def state(self) -> Case:
        log = self.opened
        listed = self.metadata.cache(self.partition).list_remote_log_segments()
        return {
            "log_start_offset": log.log_start_offset,
            "local_log_start_offset": log.local_log_start_offset,
            "log_end_offset": log.log_end_offset,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "highest_offset_in_remote_storage": log.highest_offset_in_remote_storage,
            "size": sum(segment.size_bytes for segment in log.segments()),
            "only_local_size": log.only_local_log_segments_size,
            "only_local_count": log.only_local_log_segments_count,
            "segments": [[one.base_offset, one.size_bytes] for one in log.segments()],
            "leader_epochs": [list(entry) for entry in log.leader_epochs],
            "remote_segments": [
                [self.name_of(one.segment_id.id), one.start_offset, one.end_offset, one.state.name]
                for one in listed
            ],
        }

    def metrics(self) -> Case:
        counters, figures = self.parts.counters, self.figures
        return {
            "copy_lag_bytes": figures.copy_lag_bytes,
            "copy_lag_segments": figures.copy_lag_segments,
            "delete_lag_bytes": figures.delete_lag_bytes,
            "delete_lag_segments": figures.delete_lag_segments,
            "remote_log_size": figures.remote_log_size_bytes,
            "metadata_count": figures.metadata_count,
            "copy_requests": counters.copy_requests,
            "copy_bytes": counters.copy_bytes,
            "failed_copies": counters.failed_copies,
            "delete_requests": counters.delete_requests,
            "failed_deletes": counters.failed_deletes,
            "retention_size_percent": figures.retention_size_percent,
            "local_retention_size_percent": figures.local_retention_size_percent,
            "all_segments_valid": self.expiration_task.all_segments_valid,
        }


def _new_id() -> UUID:
    from uuid import uuid4

    return uuid4()
