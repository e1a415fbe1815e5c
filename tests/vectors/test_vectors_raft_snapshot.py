"""What snapshots of the metadata hold: bytes written, batches read, and values by offset."""

from __future__ import annotations

import base64
import contextlib
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from segstore._core import Directory, scan_headers
from segstore.errors import CorruptLogError, IllegalStateError, SegstoreError
from segstore.raft.log_history import LogHistory
from segstore.raft.offset_and_epoch import OffsetAndEpoch
from segstore.raft.raw_snapshot import RawSnapshotWriter
from segstore.raft.records_snapshot import RecordsSnapshotReader, RecordsSnapshotWriter
from segstore.records.kraft_record import (
    Endpoint,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    SnapshotFooter,
    SnapshotHeader,
)
from segstore.types import CONTROL_FLAG, Codec
from tests.kits.mock_time import MockTime
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases


ANY_ID = OffsetAndEpoch(10, 1)


class MemorySnapshot:
    """The bytes of a snapshot, to be read."""

    path = "snapshot"

    def __init__(self, data: bytes, snapshot_id: OffsetAndEpoch = ANY_ID) -> None:
        self.data, self.snapshot_id, self.size_bytes = data, snapshot_id, len(data)

    def slice(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]


def uuid_of(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))


def voters_of(described: Case | None) -> KRaftVoters | None:
    if described is None:
        return None
    return KRaftVoters(
        [
            KRaftVoter(
                one["voter_id"],
                uuid_of(one["directory_id"]),
                [Endpoint(*each) for each in one["endpoints"]],
                one["min_supported_version"],
                one["max_supported_version"],
            )
            for one in described["voters"]
        ],
        described["version"],
    )


def id_of(case: Case) -> OffsetAndEpoch:
    return OffsetAndEpoch(case["snapshot_id"]["offset"], case["snapshot_id"]["epoch"])


# ---- written -------------------------------------------------------------------------------------


def check_written(case: Case, folder: Path) -> None:
    folder.mkdir()
    time = MockTime(case["time"])
    directory = Directory(str(folder), time.environment)
    raw = RawSnapshotWriter(directory, id_of(case), lambda _: None, lambda _: None)
    if case["raw_writer_not_empty"]:
        raw.append(b"bytes")

    def begin() -> RecordsSnapshotWriter:
        return RecordsSnapshotWriter(
            raw,
            last_contained_log_timestamp=case["last_contained_log_timestamp"],
            kraft_version=case["kraft_version"],
            voters=voters_of(case["voters"]),
            max_batch_bytes=case["max_batch_size"],
            codec=Codec[case["compression"].upper()],
        )

    with contextlib.closing(raw):
        if "error" in case:
            check_refusal(case["error"], begin)
            return
        writer = begin()
        for operation in case["ops"]:
            if operation["op"] == "advance_time":
                time.sleep(operation["ms"])
            elif "error" in operation:
                check_refusal(operation["error"], lambda: do(writer, operation))  # noqa: B023
            else:
                do(writer, operation)
            if "size" in operation and case["exact_bytes"]:
                assert raw.size_bytes == operation["size"], operation["op"]
        assert raw.is_frozen == case["frozen"]
        data = (folder / raw.path.rpartition("/")[2]).read_bytes()
    if case["exact_bytes"]:
        assert data == base64.b64decode(case["bytes"])
    assert values_of(data) == values_of(base64.b64decode(case["bytes"]))
    assert attributes_of(data) == attributes_of(base64.b64decode(case["bytes"]))


def do(writer: RecordsSnapshotWriter, operation: Case) -> None:
    if operation["op"] == "append":
        writer.append([base64.b64decode(one) for one in operation["records"]])
    else:
        writer.freeze()


def values_of(data: bytes) -> list[object]:
    """All records in their order, whatever batches they are in."""
    batches = RecordsSnapshotReader(MemorySnapshot(data))
    return [one for batch in batches for one in (*batch.control_records, *batch.records)]


def attributes_of(data: bytes) -> set[tuple[int, int]]:
    """Codecs and epochs; ours has no control batch that is compressed [DUR-95]."""
    table, _ = scan_headers(data, check_crc=True)
    rows = map(table.__getitem__, range(len(table)))
    return {
        (
            CONTROL_FLAG if row.attributes & CONTROL_FLAG else row.attributes,
            row.partition_leader_epoch,
        )
        for row in rows
    }


# ---- read ----------------------------------------------------------------------------------------


def check_read(case: Case) -> None:
    data = base64.b64decode(case["bytes"])
    reader = RecordsSnapshotReader(
        MemorySnapshot(data, id_of(case)), check_crcs=case["check_crc"], requires_footer=False
    )
    assert reader.last_contained_log_offset == case["last_contained_log_offset"]
    assert reader.last_contained_log_epoch == case["last_contained_log_epoch"]
    found: list[Case] = []

    def read() -> None:
        if case["timestamp_asked_first"]:
            ask_timestamp()
        found.extend(describe(batch) for batch in reader)
        if not case["timestamp_asked_first"]:
            ask_timestamp()

    def ask_timestamp() -> None:
        expected = case.get("last_contained_log_timestamp")
        if expected is not None and case["batches"]:
            assert reader.last_contained_log_timestamp == expected

    error = case.get("error")
    if error is None:
        read()
    elif error["class"] == "NoSuchElementException":  # an empty snapshot has no timestamp
        with pytest.raises(IllegalStateError):
            reader.last_contained_log_timestamp  # noqa: B018
    elif error["class"] != "RuntimeException":  # Kafka's buffer is as small as its argument
        check_refusal(error, read)
    if error is None or error["class"] != "RuntimeException":
        assert found == [described(batch) for batch in case["batches"]]
    check_end(data, case)


def check_end(data: bytes, case: Case) -> None:
    """[DUR-145] A snapshot is read to its footer, or refused."""
    reader = RecordsSnapshotReader(MemorySnapshot(data), check_crcs=case["check_crc"])
    batches = []
    error: SegstoreError | None = None
    try:
        batches.extend(reader)
    except SegstoreError as raised:
        error = raised
    last = batches[-1].control_records[-1:] if batches else ()
    is_whole = last == (SnapshotFooter(),) and sum(one.size_bytes for one in batches) == len(data)

    assert (error is None) == is_whole
    if error is not None and "error" not in case:
        assert isinstance(error, CorruptLogError)


def describe(batch: Any) -> Case:
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "epoch": batch.epoch,
        "append_timestamp": batch.append_timestamp,
        "size": batch.size_bytes,
        "records": [base64.b64encode(value).decode() for value in batch.records],
        "control": [control_text(value) for value in batch.control_records],
    }


def described(batch: Case) -> Case:
    return {**batch, "control": [one["text"].partition("(")[0] for one in batch["control"]]}


def control_text(value: object) -> str:
    names: dict[type, str] = {
        SnapshotHeader: "SnapshotHeaderRecord",
        SnapshotFooter: "SnapshotFooterRecord",
        KRaftVersion: "KRaftVersionRecord",
        KRaftVoters: "VotersRecord",
    }
    return names[type(value)]


# ---- values by offset ----------------------------------------------------------------------------


def check_history(case: Case) -> None:
    history: LogHistory[int] = LogHistory()
    for operation in case["ops"]:
        arguments = [
            value for key, value in operation.items() if key in {"offset", "value"} or "_o" in key
        ]

        def call() -> object:
            return getattr(history, operation["op"])(*arguments)  # noqa: B023

        if "error" in operation:
            check_refusal(operation["error"], call)
        else:
            result = call()
            if "result" in operation:
                assert result == operation["result"], operation
        last = history.last_entry()
        assert (None if last is None else list(last)) == operation["last_entry"], operation


def test_raft_snapshot(vectors: Callable[[str], Cases], tmp_path: Path):
    """[RAFT-27, RAFT-45, RAFT-47, RAFT-48]"""
    cases = vectors("raft_snapshot")

    def compare(case: Case) -> None:
        match case["kind"]:
            case "write":
                check_written(case, tmp_path / case["id"])
            case "read":
                check_read(case)
            case "history":
                check_history(case)

    cases.check(compare)
