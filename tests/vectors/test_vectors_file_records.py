"""What Kafka's `FileRecords` found in one file: offsets, timestamps, slices, and a truncation."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from segstore._core import DataFile, Directory, LogSegment, SegmentContext
from segstore.cli.batch_file import BatchFile
from segstore.log.files.partition_directory import file_name
from segstore.records.compression import codec_table
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

NAME = file_name(0, "log")


def search_for_offset(segment: LogSegment, op: Case) -> dict[str, int] | None:
    found = segment.translate_offset(op["offset"], start_position=op["position"])
    if found is None:
        return None
    return {
        "offset": found.base_offset,
        "position": found.position,
        "size": found.first_batch_size,
    }


def search_for_timestamp(segment: LogSegment, op: Case) -> dict[str, Any] | None:
    found = segment.search_for_timestamp(op["timestamp"], op["position"], op["starting_offset"])
    return None if found is None else found._asdict()


SEARCHES: dict[str, Callable[[LogSegment, Case], Any]] = {
    "search_for_offset_from_position": search_for_offset,
    "search_for_timestamp": search_for_timestamp,
    "largest_timestamp_after": lambda segment, op: segment.largest_timestamp_after(
        op["position"]
    )._asdict(),
}


def check_slice(op: Case, path: Path) -> None:
    """A slice, and a slice of that."""
    with BatchFile(str(path)) as file:
        if "error" in op and "size_in_bytes" not in op:
            check_refusal(op["error"], lambda: file.slice(op["position"], op["size"]))
            return
        part = file.slice(op["position"], op["size"])
        assert part.size_bytes == op["size_in_bytes"]
        if "error" in op:
            check_refusal(op["error"], lambda: part.slice(op["inner_position"], op["inner_size"]))
        else:
            inner = part.slice(op["inner_position"], op["inner_size"])
            assert inner.size_bytes == op["inner_size_in_bytes"]


def check_truncation(op: Case, directory: Directory) -> None:
    with DataFile(directory, NAME) as file:
        if "error" in op:
            check_refusal(op["error"], lambda: file.truncate(op["size"]))
        else:
            assert file.truncate(op["size"]) == op["result"]
            assert file.size == op["size_in_bytes"]


def check(case: Case, folder: Path) -> None:
    data = base64.b64decode(case["bytes"])
    path = folder / NAME
    path.write_bytes(data)
    directory = Directory(str(folder))
    context = SegmentContext(directory, codec_table(), writable=False, kafka_profile=True)
    segment = LogSegment(context, 0)
    headers, _ = segment.scan(check_crc=False)
    assert set(case["batch_positions"]) <= set(headers["position"].tolist())
    for op in case["ops"]:
        if op["op"] == "slice":
            check_slice(op, path)
        elif op["op"] == "truncate_to":
            check_truncation(op, directory)
        else:
            assert SEARCHES[op["op"]](segment, op) == op["result"], op
    assert path.read_bytes() == base64.b64decode(case["file_after"])
    segment.close_quietly()


def test_file_records(vectors: Callable[[str], Cases], tmp_path: Path):
    """[SEG-17, SEG-18, SEG-23, SEG-26, format.md 9.4]; Kafka: FileRecords."""

    def check_in_a_folder(case: Case) -> None:
        folder = tmp_path / case["id"]
        folder.mkdir()
        check(case, folder)

    vectors("file_records").check(check_in_a_folder)
