"""The scripts of remote_copy_expire with the safe profile: no record is lost, whatever fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from segstore._core import iterate_records, scan_batches
from segstore.errors import IllegalStateError, SegstoreError
from segstore.log.files.profile import Profile
from segstore.records.compression import codec_table
from segstore.remote.log_manager.copy_task import CustomMetadataSizeLimitExceededError
from segstore.remote.log_manager.lineage import readable_segments
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState
from segstore.types import CONTROL_FLAG, CURRENT_MAGIC, TRANSACTIONAL_FLAG, Isolation
from tests.vectors.remote_script import RemoteScript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

ABORT = b"\0\0\0\0"
"""Key of the marker that ends an aborted transaction: version 0, type 0."""
CHANGES = {"append", "append_marker", "truncate_to", "open"}
LOSSES = {"truncate_to", "open", "copy", "expire", "delete_old_segments"}
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED


class Step(NamedTuple):
    """What an operation came to."""

    op: str
    arguments: Case
    result: Any
    error: Exception | None
    state: Case
    script: RemoteScript


class Records:
    """The batches that were appended and not cut since, by their first offsets."""

    def __init__(self) -> None:
        self.batches: dict[int, tuple[int, bytes]] = {}
        self.is_others = False
        """Another broker's segment of the same epoch has other records, which no log has."""

    def follow(self, script: RemoteScript) -> None:
        """Take in what is new in the local part, and forget what was cut."""
        log = script.opened
        end = log.log_end_offset
        self.batches = {base: one for base, one in self.batches.items() if one[0] < end}
        first = max(log.segments()[0].base_offset, log.local_log_start_offset)
        offset = max(first, *(last + 1 for last, _ in self.batches.values()), 0)
        while offset < end:
            fetched = log.read(offset, 1 << 20, Isolation.LOG_END)
            if not len(fetched.headers):  # a batch was cut in its middle, at the end
                return
            for row in fetched.headers:
                position, size = int(row["position"]), int(row["size_bytes"])
                data = bytes(fetched.records[position : position + size])
                base, offset = int(row["base_offset"]), int(row["last_offset"]) + 1
                self.batches[base] = offset - 1, data

    def check_read(self, script: RemoteScript) -> None:
        """[TIER-66, TIER-69, DUR-141] What was read is what was written, and aborts are named."""
        found = script.last_read
        others = script.foreign_count
        if found is None or not found.records:
            return
        data = memoryview(found.records)
        rows, _ = scan_batches(data, check_crc=False)
        for row in rows:
            position, base = int(row["position"]), int(row["base_offset"])
            batch = bytes(data[position : position + int(row["size_bytes"])])
            assert others or self.batches[base] == (int(row["last_offset"]), batch), base
        if found.aborted_transactions is None or not len(rows) or others:
            return
        named = {(one.producer_id, one.last_offset) for one in found.aborted_transactions}
        first, last = int(rows["base_offset"][0]), int(rows["last_offset"][-1])
        missing = [
            one
            for one in self.aborted()
            if one[2] >= first and one[1] <= last and (one[0], one[2]) not in named
        ]
        assert not missing, f"aborted transactions in {first} to {last} not named: {missing}"

    def aborted(self) -> Iterator[tuple[int, int, int]]:
        """Yield producer id, first offset and marker, as the batches say."""
        first_offsets: dict[int, int] = {}
        for base, (_, data) in sorted(self.batches.items()):
            headers, _ = scan_batches(data, check_crc=False)
            (row,) = headers
            producer_id = int(row["producer_id"])
            attributes = int(row["attributes"]) if row["magic"] >= CURRENT_MAGIC else 0
            if attributes & CONTROL_FLAG:
                (record,) = iterate_records(data, codec_table(), control=True)
                first = first_offsets.pop(producer_id, None)
                if record.key == ABORT and first is not None:
                    yield producer_id, first, base
            elif attributes & TRANSACTIONAL_FLAG:
                first_offsets.setdefault(producer_id, base)

    def check(self, script: RemoteScript) -> None:
        """[DUR-140, DUR-141] What is not here is whole in remote storage, in the log's lineage."""
        log = script.opened
        first_here = log.segments()[0].base_offset
        segments = readable_segments(log, script.metadata, script.partition)
        remote = [script.storage.segments[one.segment_id.id]["log"] for one in segments]
        parts = script.parts
        others = [one for one in segments if one.broker_id != parts.broker_id]
        others = [one for one in others if parts.are_whole.get(one.segment_id)]
        for base, (last, data) in self.batches.items():
            if last < log.log_start_offset or base >= first_here:
                continue
            if not any(data in one for one in remote):
                is_others = any(one.start_offset <= base <= one.end_offset for one in others)
                assert is_others, f"{base} to {last} is lost"
                self.is_others = True


def play(case: Case, path: Path, records: Records | None = None) -> Iterator[Step]:
    """Run a script; the errors of its operations are results."""
    script = RemoteScript(case, path / "topic-0", Profile.SAFE)
    records = Records() if records is None else records
    try:
        for number, operation in enumerate(case["ops"]):
            error: Exception | None = None
            script.error = script.last_read = result = None
            try:
                result = script.do(operation)
            except SegstoreError as raised:
                error = raised
            if script.log is None:
                continue
            try:
                if operation["op"] in CHANGES:
                    records.follow(script)
                if operation["op"] in LOSSES:
                    records.check(script)
                    check_copies(script, operation)
                records.check_read(script)
            except AssertionError as wrong:
                shown = {key: operation[key] for key in ("op", "faults") if key in operation}
                raise AssertionError(f"operation {number} {shown}: {wrong}") from wrong
            error = error or script.error
            yield Step(operation["op"], operation, result, error, script.state(), script)
    finally:
        script.let_go()


def check_copies(script: RemoteScript, operation: Case) -> None:
    """[DUR-142, DUR-143] A run without a failure leaves no copy that was only begun."""
    if operation["op"] != "copy" or operation.get("faults") or script.error is not None:
        return
    if not operation.get("ready", True) or script.copy_task.is_cancelled:
        return
    begun = [
        one.start_offset
        for one in script.metadata.cache(script.partition).list_remote_log_segments()
        if one.state is STARTED and one.broker_id == script.parts.broker_id
    ]
    is_waiting = script.copy_task._next_run_ms > script.time.now_ms
    assert is_waiting or not begun, f"copies from {begun} on were begun, and are left"


@pytest.fixture
def better(vectors: Callable[[str, str], Cases], tmp_path: Path) -> Callable[..., list[Step]]:
    """Play the case whose ``about`` has these words; *settings* have other values where given."""

    def steps(about: str, **settings: str) -> list[Step]:
        (case,) = (
            one
            for one in vectors("remote_copy_expire", "remote_copy_expire better")
            if about in one["about"]
        )
        assert case["better"]
        for operation in case["ops"]:
            if operation["op"] == "update_config":
                name = operation["name"].replace(".", "_")
                operation["value"] = settings.get(name, operation["value"])
        return list(play(case, tmp_path))

    return steps


def states(steps: list[Step], op: str) -> list[Any]:
    return [one.state for one in steps if one.op == op]


def test_what_was_truncated_and_written_again_is_not_uploaded(better: Callable[..., list[Step]]):
    """[DUR-140, TIER-3, RTN-8] Kafka deletes records that no remote segment has."""
    steps = better("truncated below the remote end")

    deleted = states(steps, "delete_old_segments")[0]
    assert deleted["local_log_start_offset"] == 4
    assert deleted["highest_offset_in_remote_storage"] == 3


def test_a_gap_in_remote_storage_is_copied(better: Callable[..., list[Step]]):
    """[DUR-140, DUR-143, TIER-32, TIER-40] Kafka moves the log start over records that are here."""
    steps = better("a gap in the remote chain")

    (copied,) = states(steps, "copy")
    assert copied["log_start_offset"] == 0
    finished = [one[1:3] for one in copied["remote_segments"]]
    assert finished == [[0, 3], [4, 7], [8, 11], [8, 11]]  # the other broker's has no byte
    assert copied["highest_offset_in_remote_storage"] == 11


def test_a_missing_producer_snapshot_is_known_before_a_copy_begins(
    better: Callable[..., list[Step]],
):
    """[TIER-37, DUR-142] Kafka leaves one more begun copy at each run."""
    steps = better("the producer snapshot at the end of a segment is missing")

    copies = [one for one in steps if one.op == "copy"]
    assert isinstance(copies[0].error, IllegalStateError)
    assert "00000000000000000004.snapshot" in str(copies[0].error)
    assert all(one.state["remote_segments"] == [] for one in copies)


def test_custom_metadata_that_are_too_long_stop_one_run(better: Callable[..., list[Step]]):
    """[TIER-39] Kafka copies nothing until another broker leads."""
    steps = better("custom metadata too long")

    copies = [one for one in steps if one.op == "copy"]
    assert isinstance(copies[0].error, CustomMetadataSizeLimitExceededError)
    assert copies[0].state["remote_segments"] == []
    assert not copies[0].script.copy_task.is_cancelled


def test_the_log_start_is_durable_before_remote_segments_go(better: Callable[..., list[Step]]):
    """[DUR-143, TIER-56] Kafka begins at 0 again, where nothing is."""
    steps = better("log start lost")

    last_open = states(steps, "open")[-1]
    assert last_open["log_start_offset"] == states(steps, "expire")[-1]["log_start_offset"] == 4


@pytest.mark.parametrize(
    ("limit", "log_start"),
    [
        pytest.param(700, 16, id="less than what is here, as Kafka"),
        pytest.param(1300, 8, id="more than what is here"),
    ],
)
def test_a_size_limit_counts_remote_segments_with_copying_off(
    better: Callable[..., list[Step]], limit: int, log_start: int
):
    """[RTN-8, RTN-15, TIER-60, DUR-143] The oldest go, and no more of both parts than is too much.

    Local retention alone counts what is here; where that is too much, so is all that is remote.
    """
    steps = better("copying switched off", retention_bytes=str(limit))

    state = states(steps, "expire")[-1]
    assert state["log_start_offset"] == log_start
    segments = 7 - log_start // 4  # of 28 offsets in segments of 4, and 314 bytes
    assert (segments - 1) * 314 < limit <= segments * 314
    remote = [one[1] for one in state["remote_segments"]]
    here = [base_offset for base_offset, _ in state["segments"]]
    assert sorted({*remote, *here}) == list(range(log_start, 28, 4))


def test_a_look_up_by_time_goes_on_to_the_next_remote_segment(better: Callable[..., list[Step]]):
    """[TIER-71, TIER-72] Kafka goes on here, past records of that time in remote storage."""
    steps = better("look-up by time where the log start lies inside a remote segment")

    looked = [one for one in steps if one.op == "fetch_offset_by_timestamp"]
    found = {
        one.arguments["timestamp"] - 1_700_000_000_000: (
            one.result["offset"],
            one.arguments["result"]["offset"],
        )
        for one in looked
        if one.arguments["timestamp"] > 0 and one.result is not None
    }
    assert found[20] == (5, 31)
    assert found[30] == (7, 31)
    assert found[100] == (17, 31)
    assert found[1030] == (23, 31)
    assert found[0] == (2, 2)


def test_no_script_loses_a_record(vectors: Callable[[str, str], Cases], tmp_path: Path):
    """[DUR-140…DUR-144, TIER-65…TIER-71] Whatever the order of operations, failures and crashes."""
    cases = vectors("remote_copy_expire", "remote_copy_expire safe")

    def compare(case: Case) -> None:
        records = Records()
        for _ in play(case, tmp_path / case["id"], records):
            pass
        if records.is_others:
            cases.differs(case, "a whole segment of another broker, of one epoch, is believed")

    cases.check(compare)
