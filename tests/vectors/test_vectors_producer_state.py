"""Scripts of appends, snapshots, truncations and time: the state after each step [PSM-*]."""

from __future__ import annotations

import base64
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from segstore._core import Directory, iterate_raw_records, scan_batches
from segstore.log.producers.producer_batch import producer_batches
from segstore.log.producers.producer_snapshot import parse_snapshot
from segstore.log.producers.producer_state_manager import ProducerStateManager
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.records.compression import codec_table
from segstore.types import AppendOrigin, LogOffsetMetadata
from tests.vectors.kafka_errors import check_refusal
from tests.vectors.producer_description import describe_producer, describe_producers

if TYPE_CHECKING:
    from segstore.log.producers.producer_state_entry import BatchMetadata
    from tests.vectors.vector_files import Case

LATER_MS = 400_000


def offsets_of(batch: BatchMetadata | None) -> dict[str, int] | None:
    if batch is None:
        return None
    return {"first_offset": batch.first_offset, "last_offset": batch.last_offset}


class Script:
    """One script, applied to a state over a folder of its own."""

    def __init__(self, case: Case, folder: str) -> None:
        self.config = ProducerStateManagerConfig(
            case["producer_id_expiration_ms"], case["transaction_verification"]
        )
        self.max_transaction_timeout_ms = case["max_transaction_timeout_ms"]
        self.directory = Directory(folder)
        self.state = self.new_state()

    def new_state(self) -> ProducerStateManager:
        return ProducerStateManager(
            "topic-0",
            self.directory,
            self.config,
            max_transaction_timeout_ms=self.max_transaction_timeout_ms,
            kafka_profile=True,
        )

    def append(self, op: Case) -> None:
        data = base64.b64decode(op["batch"])
        (batch,) = producer_batches(scan_batches(data)[0])
        state = self.state
        if (wanted := op.get("verification_state_entry")) is not None:
            state.maybe_create_verification_state_entry(
                batch.producer_id,
                wanted["sequence"],
                wanted["epoch"],
                op["now"],
                supports_epoch_bump=wanted["supports_epoch_bump"],
            )
        known = state.last_entry(batch.producer_id)
        duplicate = None if known is None else known.find_duplicate_batch(batch)
        assert offsets_of(duplicate) == op["duplicate_of"]
        info = state.prepare_update(batch.producer_id, AppendOrigin[op["origin"]])

        def feed() -> Any:
            records = iterate_raw_records(data, codec_table())
            place = LogOffsetMetadata(batch.base_offset, 0, batch.base_offset * 10)
            return info.append(batch, place, op["transaction_version"], records)

        if "error" in op:
            check_refusal(op["error"], feed)
            return
        completed = feed()
        assert describe_producer(info.to_entry()) == op["entry"]
        started = [
            {"producer_id": one.producer_id, "first_offset": one.first_offset.message_offset}
            for one in info.started_transactions
        ]
        assert started == op["started_transactions"]
        state.update(info)
        assert (None if completed is None else completed._asdict()) == op.get("completed")
        if completed is not None:
            assert state.last_stable_offset(completed) == op["last_stable_offset"]
            state.complete_txn(completed)
        state.update_map_end_offset(batch.last_offset + 1)

    def on_high_watermark_updated(self, op: Case) -> None:
        self.state.on_high_watermark_updated(op["offset"])

    def take_snapshot(self, op: Case) -> None:
        file = self.state.take_snapshot()
        assert (None if file is None else file.name) == op["result"]

    def truncate_and_reload(self, op: Case) -> None:
        self.state.truncate_and_reload(op["log_start_offset"], op["log_end_offset"], op["now"])

    def delete_snapshots_before(self, op: Case) -> None:
        for offset in self.state.snapshots.offsets:
            if offset < op["offset"]:
                self.state.snapshots.delete(offset)

    def on_log_start_offset_incremented(self, op: Case) -> None:
        self.state.on_log_start_offset_incremented(op["offset"])

    def advance_time_and_remove_expired(self, op: Case) -> None:
        self.state.remove_expired_producers(op["now"])

    def truncate_fully_and_start_at(self, op: Case) -> None:
        self.state.truncate_fully_and_start_at(op["offset"])

    def has_late_transaction(self, op: Case) -> None:
        """Kafka was asked now or in 400 s, and the vectors do not say which."""
        asked = {self.state.has_late_transaction(op["now"] + later) for later in (0, LATER_MS)}
        assert op["result"] in asked

    def reload(self, op: Case) -> None:
        self.state.take_snapshot()
        self.state = self.new_state()
        self.truncate_and_reload(op)
        end = max(op["log_end_offset"], self.state.map_end_offset)
        self.state.update_map_end_offset(end)

    def check_state(self, op: Case) -> None:
        state = self.state
        unstable = state.first_unstable_offset
        assert state.map_end_offset == op["map_end_offset"]
        assert (None if unstable is None else unstable.message_offset) == op[
            "first_unstable_offset"
        ]
        assert state.first_undecided_offset == op["first_undecided_offset"]
        assert min(state.snapshots.offsets, default=None) == op["oldest_snapshot_offset"]
        assert state.latest_snapshot_offset == op["latest_snapshot_offset"]
        assert describe_producers(state.active_producers.values()) == op["producers"]
        assert state.producer_id_count == len(op["producers"])
        assert self.directory.names() == op["files"]


def check_files(expected: Case, folder: Path) -> None:
    """Kafka writes the producers in an order of its own: compare what is said of them."""
    assert sorted(path.name for path in folder.iterdir()) == sorted(expected)
    for name, file in expected.items():
        ours, theirs = (folder / name).read_bytes(), zlib.decompress(base64.b64decode(file["data"]))
        assert len(ours) == len(theirs) == file["size"], name
        first, second = (describe_producers(parse_snapshot(data)) for data in (ours, theirs))
        assert first == second, name


def check_script(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Script(case, folder)
        for number, op in enumerate(case["ops"]):
            try:
                getattr(script, op["op"])(op)
                script.check_state(op)
            except (AssertionError, pytest.fail.Exception) as error:
                pytest.fail(f"step {number}, {op['op']}: {error}")
        check_files(case["final_files"], Path(folder))
        script.directory.close()


def test_producer_state(vectors):
    """[PSM-1..PSM-60] Kafka: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry."""
    vectors("producer_state").check(check_script)
