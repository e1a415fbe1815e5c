"""Small text files beside a log, good and bad, as Kafka's classes read and write them."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

from segstore._core import Directory
from segstore.log.files.checkpoints import (
    PARTITION_METADATA,
    format_leader_epoch_checkpoint,
    format_offset_checkpoint,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from segstore.log.files.partition_metadata_file import PartitionMetadataFile, topic_id_text
from segstore.types import EpochEntry, TopicPartition
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases


def topic_id_of(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))


def read_offset_checkpoint(data: bytes) -> dict[str, int]:
    found = parse_offset_checkpoint(data)
    return {f"{topic} {partition}": offset for (topic, partition), offset in found.items()}


def read_leader_epoch_checkpoint(data: bytes) -> list[list[int]]:
    return [list(entry) for entry in parse_leader_epoch_checkpoint(data)]


def read_partition_metadata(data: bytes) -> dict[str, Any]:
    return {"topic_id": topic_id_text(parse_partition_metadata(data))}


READERS = {
    "offset_checkpoint": read_offset_checkpoint,
    "leader_epoch_checkpoint": read_leader_epoch_checkpoint,
    "partition_metadata": read_partition_metadata,
}


def check_read(case: Case, _: Directory) -> None:
    data = case["content"].encode()
    expected = case["result"]
    read = READERS[case["kind"]]
    if "error" in expected:
        if expected["error"]["class"] == "IllegalArgumentException":  # of Kafka's Uuid class
            expected = {"error": {"class": "KafkaStorageException"}}
        check_refusal(expected["error"], lambda: read(data))
        return
    if case["kind"] == "partition_metadata":  # nobody needs the version
        expected = {"topic_id": expected["topic_id"]}
    assert read(data) == expected


def check_written(case: Case, directory: Directory) -> None:
    kind, content = case["kind"], case["content"].encode()
    if kind == "offset_checkpoint":
        offsets = {TopicPartition(t, number): offset for t, number, offset in case["entries"]}
        assert format_offset_checkpoint(offsets) == content
    elif kind == "leader_epoch_checkpoint":
        assert format_leader_epoch_checkpoint(EpochEntry(*e) for e in case["entries"]) == content
    else:
        file = PartitionMetadataFile(directory)
        topic_id = topic_id_of(case["topic_id"])
        assert topic_id.hex == case["topic_id_hex"]
        file.record(topic_id)
        file.maybe_flush()
        assert directory.read_file(PARTITION_METADATA) == content
        again = topic_id_of(case["record_again"])
        assert case["record_again_result"] is None  # what was written is not looked at
        file.record(again)


CHECKS = {"read": check_read, "write": check_written}


def test_checkpoints(vectors: Callable[[str], Cases], tmp_path: Path):
    """[format.md 15]; Kafka: OffsetCheckpointFile, LeaderEpochCheckpointFile and the like."""

    def check(case: Case) -> None:
        folder = tmp_path / case["id"]
        folder.mkdir()
        directory = Directory(str(folder))
        CHECKS[case["operation"]](case, directory)
        directory.close()

    vectors("checkpoints").check(check)
