"""Scripts over a metadata log, run with segstore: each operation and what can be seen after it."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from segstore.errors import SegstoreError
from segstore.log.log_environment import LogEnvironment
from segstore.raft.metadata_log import MetadataLog, open_metadata_log
from segstore.raft.offset_and_epoch import OffsetAndEpoch
from segstore.raft.raw_snapshot import snapshot_name
from segstore.raft.records_snapshot import RecordsSnapshotReader
from segstore.records.kraft_record import (
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
)
from segstore.types import Isolation
from tests.kits.mock_time import MockTime
from tests.vectors.log_script import (
    _uuid,
    describe_fetch,
    describe_place,
    run_tasks_of_a_roll_first,
)

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.log.files.profile import Profile
    from segstore.raft.raw_snapshot import RawSnapshotReader, RawSnapshotWriter
    from segstore.types import LogAppendInfo
    from tests.vectors.vector_files import Case

ISOLATIONS = {"COMMITTED": Isolation.HIGH_WATERMARK, "UNCOMMITTED": Isolation.LOG_END}
CONTROL_NAMES = {
    SnapshotHeader: "SNAPSHOT_HEADER",
    SnapshotFooter: "SNAPSHOT_FOOTER",
    KRaftVersion: "KRAFT_VERSION",
    KRaftVoters: "KRAFT_VOTERS",
    LeaderChange: "LEADER_CHANGE",
}
NOT_ARGUMENTS = {"op", "result", "error", "state", "files", "scheduled_tasks_run", "inconsistent"}


class RaftScript:
    """A metadata log that is driven by the operations of one case."""

    def __init__(self, case: Case, path: Path, profile: Profile) -> None:
        self.path = path
        self.profile = profile
        self.time = MockTime(case["config"]["time"])
        self.settings: dict[str, str] = case["config"]["settings"]
        self.topic_id = _uuid(case["config"]["topic_id"])
        self.log: MetadataLog | None = None
        self.lost_snapshots = False
        """A file was removed of which the log knows, and which Kafka may have open."""
        self.left: list[RawSnapshotWriter] = []

    def do(self, operation: Case) -> Any:
        """Do one operation, and then what is due; returns its result as the vectors have it."""
        arguments = {key: value for key, value in operation.items() if key not in NOT_ARGUMENTS}
        try:
            return getattr(self, f"do_{operation['op']}")(arguments)
        finally:
            self.time.run_due()

    @property
    def opened(self) -> MetadataLog:
        assert self.log is not None
        return self.log

    # ---- life ------------------------------------------------------------------------------------

    def do_open(self, _: Case) -> None:
        self.lost_snapshots = False
        assert self.topic_id is not None
        self.log = open_metadata_log(
            self.path,
            self.settings,
            recovery=self.profile.value,
            topic_id=self.topic_id,
            log_environment=LogEnvironment(
                environment=self.time.environment, background=self.time.scheduler
            ),
        )
        run_tasks_of_a_roll_first(self.opened.log, self.time)

    def do_close(self, _: Case) -> None:
        log, self.log = self.opened, None
        log.close()

    def do_crash(self, _: Case) -> None:
        log, self.log = self.opened, None
        log.close_quietly()

    def do_advance_time(self, arguments: Case) -> int:
        self.time.sleep(arguments["ms"])
        return self.time.now_ms

    def do_file(self, arguments: Case) -> None:
        file = self.path / arguments["name"].replace("<random>", "1")
        if arguments["what"] == "delete":
            file.unlink(missing_ok=True)
            known = () if self.log is None else map(snapshot_name, self.log.snapshot_ids)
            self.lost_snapshots |= file.name in known
        else:
            file.write_bytes(base64.b64decode(arguments["data"]))

    # ---- records ---------------------------------------------------------------------------------

    def do_append_as_leader(self, arguments: Case) -> Case:
        records = base64.b64decode(arguments["records"])
        return describe_append(self.opened.append_as_leader(records, arguments["epoch"]))

    def do_append_as_follower(self, arguments: Case) -> Case:
        records = base64.b64decode(arguments["records"])
        return describe_append(self.opened.append_as_follower(records, arguments["epoch"]))

    def do_read(self, arguments: Case) -> Case:
        fetched = self.opened.read(
            arguments["offset"], ISOLATIONS[arguments["isolation"]], arguments["max_bytes"]
        )
        found = describe_fetch(fetched)
        names = ("size", "sha256", "complete_batches")
        start = {"start_offset_metadata": found["fetch_offset_metadata"]}
        return start | {name: found[name] for name in names}

    def do_flush(self, arguments: Case) -> None:
        self.opened.flush(force_active_segment=arguments["force_active_segment"])

    # ---- offsets and epochs ----------------------------------------------------------------------

    def do_initialize_leader_epoch(self, arguments: Case) -> None:
        self.opened.initialize_leader_epoch(arguments["epoch"])

    def do_update_high_watermark(self, arguments: Case) -> None:
        self.opened.update_high_watermark(arguments["offset"])

    def do_end_offset_for_epoch(self, arguments: Case) -> Case:
        return self.opened.end_offset_for_epoch(arguments["epoch"])._asdict()

    def do_validate_offset_and_epoch(self, arguments: Case) -> Case:
        found = self.opened.validate_offset_and_epoch(arguments["offset"], arguments["epoch"])
        return {"kind": found.kind.name, **found.offset_and_epoch._asdict()}

    def do_truncate_to(self, arguments: Case) -> None:
        self.opened.truncate_to(arguments["offset"])

    def do_truncate_to_end_offset(self, arguments: Case) -> int:
        return self.opened.truncate_to_end_offset(id_of(arguments))

    def do_truncate_to_latest_snapshot(self, _: Case) -> bool:
        return self.opened.truncate_to_latest_snapshot()

    # ---- snapshots -------------------------------------------------------------------------------

    def do_create_new_snapshot(self, arguments: Case) -> Case | None:
        return self.write(self.opened.create_new_snapshot(id_of(arguments)), arguments)

    def do_create_new_snapshot_unchecked(self, arguments: Case) -> Case | None:
        return self.write(self.opened.create_new_snapshot_unchecked(id_of(arguments)), arguments)

    def write(self, writer: RawSnapshotWriter | None, arguments: Case) -> Case | None:
        if writer is None:
            return None
        data = base64.b64decode(arguments["content"])
        writer.append(data)
        result: Case = {"size": writer.size_bytes, "frozen_before": writer.is_frozen}
        match arguments["then"]:
            case "leave":
                self.left.append(writer)
                return result
            case "close":
                writer.close()
                return result
        writer.freeze()
        result["frozen"], result["size_after"] = writer.is_frozen, writer.size_bytes
        if arguments["then"] == "append_after_freeze":
            result["append_error"] = refusal(lambda: writer.append(data))
            result["freeze_error"] = refusal(writer.freeze)
        writer.close()
        return result

    def do_read_snapshot(self, arguments: Case) -> Case | None:
        return describe_snapshot(self.opened.read_snapshot(id_of(arguments)))

    def do_latest_snapshot(self, _: Case) -> Case | None:
        return describe_snapshot(self.opened.latest_snapshot())

    def do_read_snapshot_records(self, arguments: Case) -> list[Case]:
        raw = self.opened.read_snapshot(id_of(arguments))
        assert raw is not None
        return [
            {
                "base_offset": batch.base_offset,
                "records": len(batch.records),
                "control": [CONTROL_NAMES[type(one)] for one in batch.control_records],
            }
            for batch in RecordsSnapshotReader(raw, requires_footer=False)
        ]

    def do_delete_before_snapshot(self, arguments: Case) -> bool:
        return self.opened.delete_before_snapshot(id_of(arguments))

    def do_maybe_clean(self, _: Case) -> bool:
        return self.opened.maybe_clean()

    # ---- what can be seen ------------------------------------------------------------------------

    def state(self) -> Case:
        log = self.opened
        try:
            last_fetched_epoch: Any = log.last_fetched_epoch()
        except SegstoreError as error:
            last_fetched_epoch = error
        return {
            "start_offset": log.start_offset,
            "end_offset": describe_place(log.end_offset),
            "high_watermark": describe_place(log.high_watermark),
            "last_fetched_epoch": last_fetched_epoch,
            "leader_epochs": [list(entry) for entry in log.log.leader_epochs],
            "segments": [[one.base_offset, one.size_bytes] for one in log.log.segments()],
            "snapshots": [list(one) for one in log.snapshot_ids],
            "size": log.size_bytes,
        }

    def let_go(self) -> None:
        """End a case."""
        for writer in self.left:
            if writer._file is not None:
                writer._file.close()
        if self.log is not None:
            self.log.close_quietly()


def id_of(arguments: Case) -> OffsetAndEpoch:
    return OffsetAndEpoch(arguments["offset"], arguments["epoch"])


def describe_append(info: LogAppendInfo) -> Case:
    return {"first_offset": info.base_offset, "last_offset": info.last_offset}


def describe_snapshot(raw: RawSnapshotReader | None) -> Case | None:
    if raw is None:
        return None
    return {
        "id": raw.snapshot_id._asdict(),
        "size": raw.size_bytes,
        "sha256": hashlib.sha256(raw.read()).hexdigest(),
    }


def refusal(call: Any) -> str | None:
    """Class of the error that a call ends with."""
    try:
        call()
    except SegstoreError as error:
        return type(error).__name__.replace("Error", "Exception")  # as Kafka calls it
    return None
