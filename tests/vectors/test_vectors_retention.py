"""Scripts of appends, clocks and settings: which segments retention deletes, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segstore.errors import SegstoreError
from segstore.log.files.partition_directory import file_name
from segstore.log.files.profile import Profile
from segstore.log.retention_plan import DeletedSegment, RetentionLimit
from tests.kits.directory_files import files_of
from tests.kits.remote_kit import RemoteRecords
from tests.vectors.kafka_errors import expected_classes
from tests.vectors.log_script import LogScript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

NS_PER_MS = 1_000_000


class RetentionScript(LogScript):
    """A log whose deletions have reasons, and whose files have the times that the script sets."""

    def __init__(self, case: Case, path: Path) -> None:
        super().__init__({"exact_bytes": True, **case}, path, Profile.KAFKA)
        if case["config"]["remote_storage_system_enable"]:
            self.remote_log_reader = RemoteRecords()

    def do_delete_old_segments(self, _: Case) -> Case:
        deleted = self.opened.delete_old_segments()
        return {
            "deleted": len(deleted),
            "segments": [
                {"base_offset": one.base_offset, "reason": reason_of(one)} for one in deleted
            ],
        }

    def do_set_segment_file_times(self, arguments: Case) -> None:
        for base_offset, time_ms in arguments["times"]:
            time_ns = time_ms * NS_PER_MS
            os.utime(self.path / file_name(base_offset, "log"), ns=(time_ns, time_ns))

    def do_update_highest_offset_in_remote_storage(self, arguments: Case) -> None:
        self.opened.update_highest_offset_in_remote_storage(arguments["offset"])

    def do_update_log_start_offset_from_remote_tier(self, arguments: Case) -> None:
        self.opened.update_log_start_offset_from_remote_tier(arguments["offset"])

    def state(self) -> Case:
        log = self.opened
        return {
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "high_watermark": log.high_watermark,
            "recovery_point": log.recovery_point,
            "size": sum(segment.size_bytes for segment in log.segments()),
            "segments": [
                {
                    "base_offset": segment.base_offset,
                    "size": segment.size_bytes,
                    "largest_record_timestamp": None
                    if segment.largest_record_timestamp() < 0
                    else segment.largest_record_timestamp(),
                }
                for segment in log.segments()
            ],
            "leader_epochs": [list(entry) for entry in log._epochs.entries],
            "retention_size_in_percent": log.retention_size_in_percent,
        }


def reason_of(deleted: DeletedSegment) -> str:
    reason = f"local {deleted.limit.value}" if deleted.is_local else deleted.limit.value
    if deleted.limit is not RetentionLimit.RETENTION_MS:
        return reason
    return f"{reason}, {'record timestamp' if deleted.has_timestamp else 'file time'}"


def check_operation(script: RetentionScript, operation: Case) -> None:
    error = operation.get("error")
    try:
        result = script.do(operation)
    except SegstoreError as raised:
        if error is None or not isinstance(raised, expected_classes(error)):
            raise
    else:
        assert error is None, f"Kafka refuses: {error}"
        if operation["op"] in {"delete_old_segments", "update_high_watermark"}:
            assert result == operation["result"], f"{result}, expected {operation['result']}"
    if "state" in operation:
        state, expected = script.state(), operation["state"]
        different = {
            key: (state[key], expected[key]) for key in state if state[key] != expected[key]
        }
        assert not different, f"(found, expected): {different}"


def check(case: Case, path: Path) -> None:
    """Run one script; every difference names its operation."""
    script = RetentionScript(case, path)
    sizes: dict[str, int] = {}
    try:
        for number, operation in enumerate(case["ops"]):
            try:
                check_operation(script, operation)
                sizes = operation.get("files", sizes)
                if operation["op"] != "crash":
                    assert {name: len(data) for name, data in files_of(path).items()} == sizes
            except Exception as error:
                hidden = {"records", "state", "files"}
                shown = {key: value for key, value in operation.items() if key not in hidden}
                what = f"operation {number} {shown}: {type(error).__name__} {error}"
                raise AssertionError(what) from error
    finally:
        script.let_go()


def test_retention(vectors: Callable[[str], Cases], tmp_path: Path):
    """[RTN-2…RTN-15, RTN-20…RTN-22, RTN-29]; Kafka: UnifiedLog.deleteOldSegments."""
    vectors("retention").check(lambda case: check(case, tmp_path / case["id"] / "topic-0"))
