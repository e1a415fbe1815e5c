"""Scripts over a whole log, run with segstore: each operation and what can be seen after it."""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import TYPE_CHECKING, Any

from segstore._core import base_offset_of
from segstore.config.log_config import LogConfig
from segstore.errors import SegstoreError
from segstore.log.durability import Durability
from segstore.log.files.profile import Profile
from segstore.log.files.stored_state import StoredState
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import OpenOptions
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.log.producers.verification_state_entry import VerificationGuard
from segstore.records.compression import codec_table
from segstore.types import CURRENT_MAGIC, NO_TIMESTAMP, AppendOrigin, Isolation, LogOffsetMetadata
from tests.kits.mock_time import MockTime
from tests.vectors.kafka_errors import expected_classes
from tests.vectors.producer_description import describe_producers

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import UnifiedLog
    from segstore.log.local.segment import Segment
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.remote_tier import RemoteLogReader
    from segstore.records.fetch_data_info import FetchDataInfo
    from segstore.types import LogAppendInfo
    from tests.vectors.vector_files import Case

ISOLATIONS = {
    "LOG_END": Isolation.LOG_END,
    "HIGH_WATERMARK": Isolation.HIGH_WATERMARK,
    "TXN_COMMITTED": Isolation.READ_COMMITTED,
}


class LogScript:
    """A log that is driven by the operations of one case."""

    def __init__(self, case: Case, path: Path, profile: Profile) -> None:
        config = case["config"]
        self.path = path
        self.is_exact: bool = case["exact_bytes"]
        self.profile = profile
        self.is_as_kafkas = True  # until a rule of the safe profile has made it another log
        self.time = MockTime(config["time"])
        self.log: UnifiedLog | None = None
        self.properties = dict(config["log_config"])
        self.topic_id = _uuid(config["topic_id"])
        self.remote_log_reader: RemoteLogReader | None = None
        self.failures: LogDirFailureChannel | None = None
        self.max_transaction_timeout_ms = config["max_transaction_timeout_ms"]
        self.producer_config = ProducerStateManagerConfig(
            config["producer_id_expiration_ms"], config["transaction_verification"]
        )

    def do(self, operation: Case) -> Any:
        """Do one operation, and then what is due; returns its result as the vectors have it."""
        arguments = {
            key: value
            for key, value in operation.items()
            if key not in {"op", "result", "error", "state", "files", "scheduled_tasks_run"}
        }
        try:
            return getattr(self, f"do_{operation['op']}")(arguments)
        finally:
            self.time.run_due()

    @property
    def opened(self) -> UnifiedLog:
        assert self.log is not None
        return self.log

    # ---- life ------------------------------------------------------------------------------------

    def do_open(self, arguments: Case) -> None:
        options = OpenOptions(
            durability=Durability(),
            profile=self.profile,
            config=LogConfig.from_properties(self.properties),
            given=frozenset(self.properties),
            replicated=True,
            topic_id=self.topic_id,
            remote_log_reader=self.remote_log_reader,
            index_mode="mmap" if self.profile is Profile.KAFKA else "heap",
        )
        found = StoredState(
            arguments["log_start_offset"],
            arguments["recovery_point"],
            arguments["clean_shutdown"],
            None,
        )
        log_environment = LogEnvironment(
            environment=self.time.environment,
            background=self.time.scheduler,
            found=found if self.profile is Profile.KAFKA else None,
            producer_config=self.producer_config,
            max_transaction_timeout_ms=self.max_transaction_timeout_ms,
            failures=self.failures,
        )
        self.log = open_partition(self.path, options, log_environment)
        run_tasks_of_a_roll_first(self.opened, self.time)

    def do_close(self, _: Case) -> None:
        log, self.log = self.opened, None
        log.close()

    def do_crash(self, _: Case) -> None:
        log, self.log = self.opened, None
        log.close_quietly()

    def do_advance_time(self, arguments: Case) -> int:
        self.time.sleep(arguments["ms"])
        return self.time.now_ms

    def do_update_config(self, arguments: Case) -> None:
        self.properties[arguments["name"]] = arguments["value"]
        self.opened.update_config(LogConfig.from_properties(self.properties))

    # ---- append ----------------------------------------------------------------------------------

    def do_append_as_leader(self, arguments: Case) -> Case:
        guard = VerificationGuard.SENTINEL
        if "verification" in arguments:
            guard = self.start_verification(arguments)
        return describe_append(
            self.opened.append_as_leader(
                base64.b64decode(arguments["records"]),
                arguments["leader_epoch"],
                origin=AppendOrigin[arguments.get("origin", "CLIENT")],
                verification_guard=guard,
                transaction_version=arguments.get("transaction_version", -1),
            )
        )

    def start_verification(self, arguments: Case) -> VerificationGuard:
        """Ask for the guard; where Kafka refuses, its script goes on without one."""
        asked, expected = arguments["verification"], arguments.get("verification_error")
        try:
            guard = self.opened.maybe_start_transaction_verification(
                asked["producer_id"],
                asked["sequence"],
                asked["producer_epoch"],
                supports_epoch_bump=asked["supports_epoch_bump"],
            )
        except SegstoreError as error:
            if self.is_as_kafkas and not isinstance(error, expected_classes(expected or {})):
                raise
            return VerificationGuard.SENTINEL
        if self.is_as_kafkas:
            assert expected is None, f"Kafka refuses to verify: {expected}"
            is_sentinel = guard is VerificationGuard.SENTINEL
            assert is_sentinel == arguments["verification_guard_is_sentinel"]
        return guard

    def do_append_as_follower(self, arguments: Case) -> Case:
        records = base64.b64decode(arguments["records"])
        return describe_append(self.opened.append_as_follower(records, arguments["leader_epoch"]))

    # ---- read ------------------------------------------------------------------------------------

    def do_read(self, arguments: Case) -> Case:
        fetched = self.opened.read(
            arguments["offset"],
            arguments["max_length"],
            ISOLATIONS[arguments["isolation"]],
            min_one_message=arguments["min_one_message"],
        )
        return describe_fetch(fetched)  # type: ignore[arg-type]

    def do_fetch_offset_by_timestamp(self, arguments: Case) -> Case | None:
        found = self.opened.fetch_offset_by_timestamp(arguments["timestamp"])
        if (found.timestamp, found.offset, found.leader_epoch) == (NO_TIMESTAMP, -1, None):
            return None
        return found._asdict()

    def do_end_offset_for_epoch(self, arguments: Case) -> Case | None:
        found = self.opened.end_offset_for_epoch(arguments["epoch"])
        return None if found is None else {"epoch": found[0], "offset": found[1]}

    def do_collect_aborted_transactions(self, arguments: Case) -> list[list[int]]:
        found = self.opened.collect_aborted_transactions(
            arguments["start_offset"], arguments["upper_bound_offset"]
        )
        return [list(one) for one in found]

    # ---- offsets ---------------------------------------------------------------------------------

    def do_update_high_watermark(self, arguments: Case) -> int:
        return self.opened.update_high_watermark(arguments["offset"])

    def do_maybe_update_high_watermark(self, arguments: Case) -> int | None:
        return self.opened.maybe_update_high_watermark(arguments["offset"])

    def do_maybe_increment_high_watermark(self, arguments: Case) -> Case | None:
        offset = LogOffsetMetadata(arguments["offset"])
        old = self.opened.maybe_increment_high_watermark(offset)
        return None if old is None else describe_place(old)

    def do_maybe_convert_to_offset_metadata(self, arguments: Case) -> Case:
        return describe_place(self.opened.maybe_convert_to_offset_metadata(arguments["offset"]))

    def do_fetch_offset_snapshot(self, _: Case) -> Case:
        start, *places = self.opened.fetch_offset_snapshot()
        names = ("log_end_offset", "high_watermark", "last_stable_offset")
        described = dict(zip(names, map(describe_place, places), strict=True))
        return {"log_start_offset": start, **described}

    def do_maybe_increment_log_start_offset(self, arguments: Case) -> bool:
        return self.opened.maybe_increment_log_start_offset(arguments["offset"])

    def do_assign_epoch_start_offset(self, arguments: Case) -> None:
        self.opened.assign_epoch_start_offset(arguments["epoch"], arguments["start_offset"])

    # ---- segments --------------------------------------------------------------------------------

    def do_roll(self, arguments: Case) -> int:
        return self.opened.roll(arguments.get("expected_next_offset")).base_offset

    def do_flush(self, arguments: Case) -> None:
        self.opened.flush(force_active_segment=arguments["force_active_segment"])

    def do_flush_upto_offset_exclusive(self, arguments: Case) -> None:
        self.opened.flush_up_to_offset_exclusive(arguments["offset"])

    def do_truncate_to(self, arguments: Case) -> bool:
        return self.opened.truncate_to(arguments["offset"])

    def do_truncate_fully_and_start_at(self, arguments: Case) -> None:
        log_start = arguments.get("log_start_offset")
        self.opened.truncate_fully_and_start_at(arguments["offset"], log_start)

    def do_delete_old_segments(self, _: Case) -> int:
        return len(self.opened.delete_old_segments())

    # ---- producers -------------------------------------------------------------------------------

    def do_remove_expired_producers(self, _: Case) -> None:
        self.opened.remove_expired_producers()

    def do_take_producer_snapshot(self, _: Case) -> None:
        self.opened.take_producer_snapshot()

    def do_has_late_transaction(self, arguments: Case) -> bool:
        return self.opened.has_late_transaction(arguments["now"])

    # ---- what can be seen ------------------------------------------------------------------------

    def state(self) -> Case:
        log = self.opened
        producers = log._producers
        return {
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "first_unstable_offset": log.first_unstable_offset,
            "recovery_point": log.recovery_point,
            "size": sum(segment.size_bytes for segment in log.segments()),
            "segments": [describe_segment(segment) for segment in log.segments()],
            "leader_epochs": [list(entry) for entry in log._epochs.entries],
            "producers": describe_producers(producers.active_producers.values()),
            "producer_state_end_offset": producers.map_end_offset,
            "oldest_snapshot_offset": min(producers.snapshots.offsets, default=None),
            "latest_snapshot_offset": producers.latest_snapshot_offset,
        }

    def let_go(self) -> None:
        """End a case that failed."""
        if self.log is not None:
            try:
                self.log.close_quietly()
            except SegstoreError:
                self.log = None


def _uuid(text: str | None) -> uuid.UUID | None:
    return None if text is None else uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))


def describe_append(info: LogAppendInfo) -> Case:
    """Return what Kafka's ``LogAppendInfo`` has in common with ours."""
    return {
        "first_offset": info.base_offset,
        "last_offset": info.last_offset,
        "max_timestamp": info.max_timestamp,
        "log_append_time": info.log_append_time,
        "log_start_offset": info.log_start_offset,
    }


def describe_place(place: LogOffsetMetadata) -> Case:
    return {
        "offset": place.message_offset,
        "segment_base_offset": place.segment_base_offset,
        "position": place.relative_position_in_segment,
    }


def describe_fetch(fetched: FetchDataInfo) -> Case:
    headers = fetched.headers
    aborted = fetched.aborted_transactions
    if aborted is not None:
        aborted = [{"producer_id": one[0], "first_offset": one[1]} for one in aborted]
    return {
        "fetch_offset_metadata": describe_place(fetched.fetch_offset_metadata),
        "first_entry_incomplete": fetched.first_entry_incomplete,
        "size": fetched.size_bytes,
        "sha256": hashlib.sha256(fetched.records).hexdigest(),
        "complete_batches": [
            [base_offset(fetched, row), int(row["last_offset"])] for row in headers
        ],
        "aborted_transactions": aborted,
    }


def base_offset(fetched: FetchDataInfo, row: Any) -> int:
    """First offset of a batch; an old compressed one is opened for it."""
    if row["magic"] >= CURRENT_MAGIC:
        return int(row["base_offset"])
    begin = int(row["position"])
    whole = fetched.records[begin : begin + int(row["size_bytes"])]
    return base_offset_of(bytes(whole), codec_table())


def describe_segment(segment: Segment) -> Case:
    """Base offset, size, and the first batch with the largest timestamp."""
    largest = -1, -1
    for headers, _ in segment.scan_windows(check_crc=False):
        for row in headers[["max_timestamp", "last_offset"]].tolist():
            largest = row if row[0] > largest[0] else largest
    return {
        "base_offset": segment.base_offset,
        "size": segment.size_bytes,
        "max_timestamp": largest[0],
        "offset_of_max_timestamp": largest[1],
    }


def run_tasks_of_a_roll_first(log: UnifiedLog, time: MockTime) -> None:
    """Flush inside the append that rolled, before it looks again, as Kafka's scheduler does."""
    flusher = log._flusher
    sync_if_due = flusher.sync_if_due

    def run_due_first(offset: int, generation: int) -> None:
        time.run_due()
        sync_if_due(offset, generation)

    flusher.sync_if_due = run_due_first  # type: ignore[method-assign]
