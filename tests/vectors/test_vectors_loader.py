"""Damaged directories: what Kafka's loader made of them, and the log that comes of it [LDR-*]."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

from segstore._core import Environment
from segstore.config.log_config import LogConfig
from segstore.errors import SegstoreError
from segstore.log.files.stored_state import StoredState
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.kits.directory_files import check_files, expected_files, files_of, write_files
from tests.kits.kafka_loading import is_of_later_release
from tests.kits.log_scheduler import HeldScheduler
from tests.vectors.kafka_errors import check_refusal, expected_classes, is_careless
from tests.vectors.producer_description import describe_producers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore.log.local.segment import Segment
    from segstore.log.unified_log import UnifiedLog
    from tests.vectors.vector_files import Case, Cases

VERSION_ROW = "transaction index version"
APPEND_EPOCH = 50


def open_as_kafka(case: Case, folder: Path, scheduler: HeldScheduler) -> UnifiedLog:
    """Open as Kafka's ``UnifiedLog.create`` was called."""
    config = case["config"]
    text = config["topic_id"]
    options = open_options(
        durability="none",
        recovery="kafka",
        config=LogConfig.from_properties(config["log_config"]),
        topic_id=None if text is None else uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}==")),
    )
    log_environment = LogEnvironment(
        found=StoredState(
            case["log_start_offset"], case["recovery_point"], case["clean_shutdown"], None
        ),
        environment=Environment.with_wall_clock(case["time_at_open"]),
        background=scheduler,
    )
    log = open_partition(folder, options, log_environment)
    scheduler.run_due()
    return log


def describe_segment(segment: Segment) -> dict[str, Any]:
    """Base offset, size, and the first batch with the largest timestamp."""
    largest: tuple[int | None, int | None] = -1, -1
    for headers, scan in segment.scan_windows(check_crc=False):
        for row in headers[["max_timestamp", "last_offset"]].tolist():
            largest = row if row[0] > largest[0] else largest
        # Kafka does not get to the end either, nor at the header of a negative magic
        if scan.stop == "corrupt" or (headers["magic"] < 0).any():
            largest = None, None
    return {
        "base_offset": segment.base_offset,
        "size": segment.size_bytes,
        "max_timestamp": largest[0],
        "offset_of_max_timestamp": largest[1],
    }


def describe(log: UnifiedLog) -> dict[str, Any]:
    """What the vectors say of a log."""
    producers = log._producers
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "first_unstable_offset": log._offsets.first_unstable_offset,
        "recovery_point": log.recovery_point,
        "size": log._local_log.segments.size_in_bytes,
        "segments": [describe_segment(segment) for segment in log.segments()],
        "leader_epochs": [list(entry) for entry in log._epochs.entries],
        "producers": describe_producers(producers.active_producers.values()),
        "producer_state_end_offset": producers.map_end_offset,
        "oldest_snapshot_offset": min(producers.snapshots.offsets, default=None),
        "latest_snapshot_offset": producers.latest_snapshot_offset,
    }


def append(case: Case, log: UnifiedLog) -> None:
    """Append one batch: the log works, or fails as Kafka's."""
    batch, expected = base64.b64decode(case["append"]), case["append_result"]
    if "error" in expected:
        check_refusal(expected["error"], lambda: log.append_as_leader(batch, APPEND_EPOCH))
        return
    info = log.append_as_leader(batch, APPEND_EPOCH)
    found = {
        "first_offset": info.base_offset,
        "last_offset": info.last_offset,
        "max_timestamp": info.max_timestamp,
        "log_append_time": info.log_append_time,
        "log_start_offset": info.log_start_offset,
        "num_messages": info.records_count,
        "valid_bytes": info.size_bytes,
    }
    assert found == {key: expected[key] for key in found}


def check(case: Case, folder: Path) -> bool:
    """Compare one case; False when we follow 4.4.0 in it."""
    write_files(folder, case["input_files"])
    before = files_of(folder)
    scheduler = HeldScheduler()
    try:
        log = open_as_kafka(case, folder, scheduler)
    except SegstoreError as error:
        kafkas = expected_classes(case["error"]) if "error" in case else ()
        is_meant = isinstance(error, kafkas) and not is_careless(case["error"])
        if not is_meant and is_of_later_release(error):
            return False
        if not isinstance(error, kafkas):
            raise
        check_files(files_of(folder), expected_files(case["files"], before))
        return True
    assert "error" not in case, f"Kafka fails: {case['error']}"
    try:
        state, expected = describe(log), case["state"]
        expected["producers"].sort(key=lambda producer: producer["producer_id"])
        assert state == {key: expected[key] for key in state}
        loaded = expected_files(case["files"], before)
        check_files(files_of(folder), loaded)
        append(case, log)
        scheduler.run_due()
        assert case["close_error"] is None
    finally:
        log.close()
    check_files(files_of(folder), expected_files(case["files_after_close"], loaded))
    return True


def test_loader(vectors: Callable[..., Cases], tmp_path: Path):
    """[LDR-1..LDR-34, T-10, SEG-40..SEG-43, PSM-55..PSM-74, LOC-25, LOC-26] With Kafka's profile.

    State and files after loading, one append, and the files of a clean close; or the error and the
    files that it leaves.
    """
    cases = vectors("loader")

    def compare(case: Case) -> None:
        if not check(case, tmp_path / case["id"] / case["directory"]):
            cases.follows_4_4(case, VERSION_ROW)

    cases.check(compare)
