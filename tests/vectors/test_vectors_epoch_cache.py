"""What Kafka's `LeaderEpochFileCache` answered, and its checkpoint after each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore._core import Directory
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

CALLS: dict[str, Callable[[LeaderEpochFileCache, Case], Any]] = {
    "assign": lambda cache, op: cache.assign(op["epoch"], op["start_offset"]),
    "truncate_from_end": lambda cache, op: cache.truncate_from_end(op["end_offset"]),
    "truncate_from_start": lambda cache, op: cache.truncate_from_start(op["start_offset"]),
    "clear": lambda cache, _: cache.clear(),
    "clear_and_flush": lambda cache, _: cache.clear_and_flush(),
    "end_offset_for": lambda cache, op: list(
        cache.end_offset_for(op["epoch"], op["log_end_offset"])
    ),
    "epoch_for_offset": lambda cache, op: cache.epoch_for_offset(op["offset"]),
    "previous_epoch": lambda cache, op: cache.previous_epoch(op["epoch"]),
    "next_epoch": lambda cache, op: cache.next_epoch(op["epoch"]),
    "latest_epoch": lambda cache, _: cache.latest_epoch,
    "epoch_entries_in_range": lambda cache, op: pairs(
        cache.epoch_entries_in_range(op["start_offset"], op["end_offset"])
    ),
}


def pairs(entries: tuple[tuple[int, int], ...]) -> list[list[int]]:
    return [list(entry) for entry in entries]


def opened(directory: Directory) -> LeaderEpochFileCache:
    """Read the cache, an empty one without a checkpoint."""
    return LeaderEpochFileCache.read(directory, writable=True) or LeaderEpochFileCache(directory)


def apply(cache: LeaderEpochFileCache, op: Case) -> None:
    call = CALLS[op["op"]]
    if "error" in op:
        check_refusal(op["error"], lambda: call(cache, op))
        return
    found = call(cache, op)
    if op["op"].startswith("truncate"):
        cache.flush()  # Kafka's scheduler has run [EPC-7]
    if "result" in op:
        assert found == op["result"], op


def check(case: Case, directory: Directory) -> None:
    cache = opened(directory)
    for op in case["ops"]:
        if op["op"] == "reload":
            cache = opened(directory)
        else:
            apply(cache, op)
        assert pairs(cache.entries) == op["entries"], op
        if directory.exists(LEADER_EPOCH_CHECKPOINT):
            assert directory.read_file(LEADER_EPOCH_CHECKPOINT).decode() == op["file"], op
        else:
            assert op["file"] == "", op  # Kafka makes the file when it opens it


def test_epoch_cache(vectors: Callable[[str], Cases], tmp_path: Path):
    """[EPC-1..EPC-13]; Kafka: LeaderEpochFileCache, LeaderEpochCheckpointFile."""

    def check_in_a_folder(case: Case) -> None:
        folder = tmp_path / case["id"]
        folder.mkdir()
        directory = Directory(str(folder))
        check(case, directory)
        directory.close()

    vectors("epoch_cache").check(check_in_a_folder)
