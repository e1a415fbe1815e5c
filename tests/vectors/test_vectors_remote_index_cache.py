"""What Kafka's `RemoteIndexCache` found, fetched and left in its directory."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

from segstore._core import Directory
from segstore.errors import RemoteResourceNotFoundError, RemoteStorageError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.remote.log_manager.remote_index_cache import DELETE_DELAY_MS, RemoteIndexCache
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.remote.tiered.object_key import parse_kafka_id
from tests.kits.remote_storage import MemoryRemoteStorage, segment_metadata
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore.remote.log_manager.remote_index_cache import RemoteIndexEntry
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata
    from tests.vectors.vector_files import Case, Cases

OBJECTS = {
    "offset_index": IndexType.OFFSET,
    "time_index": IndexType.TIMESTAMP,
    "transaction_index": IndexType.TRANSACTION,
}


class Script:
    """One cache directory, and what is done to it."""

    cache: RemoteIndexCache  # once it was opened

    def __init__(self, case: Case, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder / "remote-log-index-cache"
        self.case = case
        self.now_ms = 0
        self.storage = MemoryRemoteStorage()
        self.segments = [self.segment(one) for one in case["segments"]]
        self.above = Directory(str(folder))
        self.held: dict[int, RemoteIndexEntry] = {}
        self.max_size = case["max_size"]

    def segment(self, said: Case) -> RemoteLogSegmentMetadata:
        key = parse_kafka_id(said["id"])
        assert key is not None
        self.storage.objects[key] = {
            kind: base64.b64decode(said[name])
            for name, kind in OBJECTS.items()
            if said[name] is not None
        }
        start = said["start_offset"]
        return segment_metadata(start, said["end_offset"], epochs=((0, start),), segment_id=key)

    def open(self, _: Case) -> None:
        self.cache = RemoteIndexCache(
            self.above,
            self.storage,
            max_size_bytes=self.max_size,
            ttl_ms=self.case["ttl_ms"],
            clock_ms=lambda: self.now_ms,
            kafka_profile=True,
        )

    def close(self, _: Case) -> None:
        self.cache.close()

    def lookup_offset(self, op: Case) -> int:
        return self.cache.lookup_offset(self.segments[op["segment"]], op["offset"])

    def lookup_timestamp(self, op: Case) -> int:
        metadata = self.segments[op["segment"]]
        return self.cache.lookup_timestamp(metadata, op["timestamp"], op["starting_offset"])

    def get_index_entry(self, op: Case) -> Case:
        entry = self.held[op["segment"]] = self.cache.index_entry(self.segments[op["segment"]])
        names = [entry.offset_index.name, entry.time_index.name, entry.transaction_index.name]
        return {
            "offset_index_entries": len(entry.offset_index),
            "time_index_entries": len(entry.time_index),
            "size": entry.size_bytes,
            "files": names,
        }

    def lookup_on_held_entry(self, op: Case) -> Case:
        entry = self.held[op["segment"]]
        found = {
            "marked_for_cleanup": entry.is_marked_for_cleanup,
            "clean_started": entry.is_cleaned_up,
            "position": entry.position_of_offset(op["offset"]),
        }
        return {key: found[key] for key in op["result"]}

    def remove(self, op: Case) -> None:
        self.cache.remove(self.segments[op["segment"]].segment_id.id)

    def remove_all(self, op: Case) -> None:
        self.cache.remove_all(self.segments[one].segment_id.id for one in op["segments"])

    def resize(self, op: Case) -> None:
        self.max_size = op["max_size"]
        self.cache.resize(self.max_size)

    def clock(self, op: Case) -> None:
        self.now_ms += op["ms"]

    def delay_passes(self, _: Case) -> int:
        """Ten seconds of the scheduler's clock, which is another than that of `clock`."""
        return self.cache.delete_due(self.now_ms + DELETE_DELAY_MS)

    def file(self, op: Case) -> None:
        if op["what"] == "write":
            (self.folder / op["name"]).write_bytes(base64.b64decode(op["data"]))
        elif op["what"] == "delete":
            (self.folder / op["name"]).unlink(missing_ok=True)
        else:
            for path in self.folder.iterdir():
                path.unlink()

    def fail_as_said(self, op: Case) -> None:
        """The storage fails once for one kind of index."""
        self.storage.before = None
        if "fault" in op:
            kind, _, how = op["fault"].partition(" ")

            def fail(what: str) -> None:
                if what == IndexType[kind]:
                    self.storage.before = None
                    if how == "not_found":
                        raise RemoteResourceNotFoundError("injected")
                    raise RemoteStorageError("injected")

            self.storage.before = fail

    def run(self) -> None:
        for number, op in enumerate(self.case["ops"]):
            self.fail_as_said(op)
            self.storage.asked.clear()
            call = getattr(self, op["op"])
            where = f"op {number}: {op}"
            if "error" in op:
                check_refusal(op["error"], lambda call=call, op=op: call(op))
                if op["op"] == "open":
                    continue
            else:
                found = call(op)
                if op["op"] != "file":
                    assert found == op["result"], where
            if op["op"] not in {"close", "file"}:
                self.check(op, where)
        if "final_files" in self.case:
            found = {path.name: path.read_bytes() for path in self.folder.iterdir()}
            assert found == {
                name: zlib.decompress(base64.b64decode(said["data"]))
                for name, said in self.case["final_files"].items()
            }

    def check(self, op: Case, where: str) -> None:
        self.cache.expire()
        if op.get("within_bound"):
            assert self.cache.size_bytes <= self.max_size
            return
        assert [kind.name for kind in IndexType if self.storage.asked[kind]] == op.get(
            "fetched", []
        ), where
        state: dict[str, Any] = {
            "cached": sorted(topic_id_text(one) for one in self.cache.segment_ids),
            "weight": self.cache.size_bytes,
            "pending_deletions": self.cache.pending_deletions,
        }
        assert state == {key: op[key] for key in state}, where
        if "files" in op:
            found = {path.name: path.stat().st_size for path in self.folder.iterdir()}
            assert found == op["files"], where


def test_remote_index_cache(vectors: Callable[..., Cases], tmp_path: Path):
    """[TIER-80..TIER-88] In the conformance profile."""
    vectors("remote_index_cache").check(lambda case: Script(case, tmp_path / case["id"]).run())
