"""Damaged directories, and what Kafka's loader made of them [LDR-*, T-10]."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

from segstore._core import Directory
from segstore.errors import SegstoreError
from segstore.log.partition_metadata_file import PartitionMetadataFile, inconsistent_topic_id
from tests.directory_files import check_files, expected_files, files_of, write_files
from tests.kafka_loading import (
    Settings,
    close_quietly,
    is_of_later_release,
    load_as_kafka,
)
from tests.vectors.kafka_errors import expected_classes
from tests.vectors.producer_description import describe_producers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore.log.loaded_log import LoadedLog
    from segstore.log.segment import Segment
    from tests.vectors.vector_files import Case, Cases

VERSION_ROW = "transaction index version"


def load(case: Case, folder: Path) -> LoadedLog:
    """Load as Kafka's ``UnifiedLog.create`` does, the topic's id included."""
    config = case["config"]
    settings = config["log_config"]
    loaded = load_as_kafka(
        folder,
        clean=case["clean_shutdown"],
        log_start_offset=case["log_start_offset"],
        recovery_point=case["recovery_point"],
        settings=Settings(
            index_interval_bytes=int(settings["index.interval.bytes"]),
            segment_index_bytes=int(settings["segment.index.bytes"]),
            segment_bytes=int(settings["internal.segment.bytes"]),
            preallocate=settings.get("preallocate") == "true",
            producer_id_expiration_ms=config["producer_id_expiration_ms"],
        ),
        now_ms=case["time_at_open"],
    )
    try:
        note_topic_id(PartitionMetadataFile(Directory(str(folder))), config["topic_id"])
    except SegstoreError:
        close_quietly(loaded)
        raise
    return loaded


def note_topic_id(file: PartitionMetadataFile, text: str | None) -> None:
    """[UNI-5] What opening does with the id of its caller."""
    topic_id = None if text is None else uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))
    if file.exists:
        found = file.read()
        assert found is not None
        if topic_id not in {None, found}:
            raise inconsistent_topic_id(file.path, found, topic_id)
    elif topic_id is not None:
        file.record(topic_id)
        file.maybe_flush()


def describe_segment(segment: Segment) -> dict[str, Any]:
    """Base offset, size, and the first batch with the largest timestamp."""
    largest: tuple[int | None, int | None] = -1, -1
    for headers, scan in segment.scan_windows(check_crc=False):
        for row in headers[["max_timestamp", "last_offset"]].tolist():
            largest = row if row[0] > largest[0] else largest
        if scan.stop == "corrupt":  # Kafka does not get to the end either
            largest = None, None
    return {
        "base_offset": segment.base_offset,
        "size": segment.size_bytes,
        "max_timestamp": largest[0],
        "offset_of_max_timestamp": largest[1],
    }


def describe(loaded: LoadedLog) -> dict[str, Any]:
    state = loaded.producer_state
    assert state is not None
    start = loaded.log_start_offset
    return {
        "log_start_offset": start,
        "log_end_offset": loaded.log_end.message_offset,
        "recovery_point": max(loaded.recovery_point, start),  # [UNI-3]
        "size": loaded.segments.size_in_bytes,
        "segments": [describe_segment(segment) for segment in loaded.segments],
        "leader_epochs": [list(entry) for entry in loaded.epochs.entries],
        "producers": describe_producers(state.active_producers.values()),
        "producer_state_end_offset": state.map_end_offset,
        "oldest_snapshot_offset": state.oldest_snapshot_offset,
        "latest_snapshot_offset": state.latest_snapshot_offset,
    }


def check(case: Case, folder: Path) -> bool:
    """Compare one case; False when we follow 4.4.0 in it."""
    write_files(folder, case["input_files"])
    before = files_of(folder)
    try:
        loaded = load(case, folder)
    except SegstoreError as error:
        if "error" not in case and is_of_later_release(error):
            return False
        if "error" not in case or not isinstance(error, expected_classes(case["error"])):
            raise
    else:
        assert "error" not in case, f"Kafka fails: {case['error']}"
        state = describe(loaded)
        close_quietly(loaded)
        expected = {key: case["state"][key] for key in state}
        assert state == expected | {
            "producers": sorted(expected["producers"], key=lambda one: one["producer_id"])
        }
    check_files(files_of(folder), expected_files(case["files"], before))
    return True


def test_loader(vectors: Callable[[str], Cases], tmp_path: Path):
    """[LDR-1..LDR-34, T-10, SEG-40..SEG-43, PSM-55..PSM-74, LOC-25, LOC-26] With Kafka's profile.

    State and files after loading, or the error and the files that it leaves.
    """
    cases = vectors("loader")

    def compare(case: Case) -> None:
        if not check(case, tmp_path / case["id"] / case["directory"]):
            cases.follows_4_4(case, VERSION_ROW)

    cases.check(compare)
