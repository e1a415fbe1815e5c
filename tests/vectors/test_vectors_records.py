"""Batches built, control batches, and edits in place [format.md 4, 6, 7, 10]."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from segstore._core import (
    RecordsBuilder,
    batch_header_dtype,
    encode_empty_batch,
    encode_end_transaction_marker,
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
)
from segstore.records.compression import codec_table
from segstore.records.control_batch import build_kraft_batch
from segstore.records.kraft_record import (
    Endpoint,
    KRaftValue,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    LeaderChange,
    LeaderChangeVoter,
    SnapshotFooter,
    SnapshotHeader,
    parse_kraft_record,
)
from segstore.types import Codec
from tests.vectors.batch_description import describe_batches, without
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.vectors.vector_files import Case

DEFAULT_LEVEL = -(2**31)
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


def data_of(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def uuid_of(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def check_batches(data: bytes, case: Case) -> None:
    """Bytes where nothing was compressed, what they say everywhere."""
    if case["exact_bytes"]:
        assert data == base64.b64decode(case["bytes"])
    found = describe_batches(data)
    expected: list[dict[str, Any]] = case["batches"]
    for batch in expected:
        for record in batch["records"]:
            record.get("control", {}).pop("text", None)  # compared in `check_control`
    if not case["exact_bytes"]:
        found, expected = without(found, "size", "crc"), without(expected, "size", "crc")
        # the same with Kafka's own bytes, where nothing is left out
        assert describe_batches(base64.b64decode(case["bytes"])) == case["batches"]
    assert found == expected


def build(build: dict[str, Any]) -> bytes:
    builder = RecordsBuilder(
        codec_table(),
        magic=build["magic"],
        codec=Codec[build["compression"].upper()],
        level=DEFAULT_LEVEL if build["level"] is None else build["level"],
        timestamp_type=-1 if build["magic"] == 0 else TIMESTAMP_TYPES[build["timestamp_type"]],
        base_offset=build["base_offset"],
        log_append_time=build["log_append_time"],
        producer_id=build["producer_id"],
        producer_epoch=build["producer_epoch"],
        base_sequence=build["base_sequence"],
        transactional=build["transactional"],
        control=build["control"],
        partition_leader_epoch=build["partition_leader_epoch"],
        delete_horizon_ms=build["delete_horizon_ms"],
    )
    for append in build["appends"]:
        builder.append(
            append["offset"],
            append["timestamp"],
            data_of(append["key"]),
            data_of(append["value"]),
            [(name, data_of(value)) for name, value in append["headers"]],
        )
    return builder.build()


def check_built(case: Case) -> None:
    if "error" in case:
        check_refusal(case["error"], lambda: build(case["build"]))
    else:
        check_batches(build(case["build"]), case)


# ---- control batches ----


def leader_change(arguments: dict[str, Any]) -> KRaftValue:
    sides = [
        [LeaderChangeVoter(voter[0], *map(uuid_of, voter[1:])) for voter in arguments[name]]
        for name in ("voters", "granting_voters")
    ]
    return LeaderChange(arguments["leader_id"], *sides, version=arguments["version"])


def voters(arguments: dict[str, Any]) -> KRaftValue:
    return KRaftVoters(
        [
            KRaftVoter(
                voter["voter_id"],
                uuid_of(voter["directory_id"]),
                [Endpoint(*endpoint) for endpoint in voter["endpoints"]],
                *voter["kraft_version"],
            )
            for voter in arguments["voters"]
        ],
        arguments["version"],
    )


KRAFT_VALUES: dict[str, Callable[[dict[str, Any]], KRaftValue]] = {
    "withLeaderChangeMessage": leader_change,
    "withSnapshotHeaderRecord": lambda a: SnapshotHeader(
        a["last_contained_log_timestamp"], a["version"]
    ),
    "withSnapshotFooterRecord": lambda a: SnapshotFooter(a["version"]),
    "withKRaftVersionRecord": lambda a: KRaftVersion(a["kraft_version"], a["version"]),
    "withVotersRecord": voters,
}


def empty_batch(arguments: dict[str, Any]) -> bytes:
    header = np.zeros(1, batch_header_dtype())
    attributes = 0x08 if arguments["timestamp_type"] == "LogAppendTime" else 0
    attributes |= 0x10 if arguments["transactional"] else 0
    attributes |= 0x20 if arguments["control"] else 0
    names = ("producer_id", "producer_epoch", "base_sequence", "base_offset", "last_offset")
    for name in (*names, "partition_leader_epoch"):
        header[name] = arguments[name]
    header["max_timestamp"] = arguments["timestamp"]
    header["attributes"] = attributes
    return encode_empty_batch(header[0])


def control_batch(arguments: dict[str, Any]) -> bytes:
    call = arguments["call"].rpartition(".")[2]
    if call == "writeEmptyHeader":
        return empty_batch(arguments)
    offset, timestamp = arguments["initial_offset"], arguments["timestamp"]
    epoch = arguments["partition_leader_epoch"]
    if call == "withEndTransactionMarker":
        return encode_end_transaction_marker(
            offset,
            timestamp,
            epoch,
            arguments["producer_id"],
            arguments["producer_epoch"],
            commit=arguments["type"] == "COMMIT",
            coordinator_epoch=arguments["coordinator_epoch"],
        )
    return build_kraft_batch(offset, timestamp, epoch, KRAFT_VALUES[call](arguments))


def check_control(case: Case) -> None:
    arguments = case["build"]
    if "error" in case:
        check_refusal(case["error"], lambda: control_batch(arguments))
        return
    data = control_batch(arguments)
    call = arguments["call"].rpartition(".")[2]
    if call in KRAFT_VALUES:
        (record,) = case["batches"][0]["records"]
        parsed = parse_kraft_record(data_of(record["key"]), data_of(record["value"]))
        assert parsed == KRAFT_VALUES[call](arguments)
    check_batches(data, case)


# ---- edits in place ----

EDITS: dict[str, Callable[[bytearray, dict[str, Any]], None]] = {
    "set_last_offset": lambda data, edit: set_last_offset(data, edit["offset"]),
    "set_partition_leader_epoch": lambda data, edit: set_partition_leader_epoch(
        data, edit["epoch"]
    ),
    "set_max_timestamp": lambda data, edit: set_max_timestamp(
        data, TIMESTAMP_TYPES[edit["timestamp_type"]], edit["timestamp"]
    ),
}


def check_edited(case: Case) -> None:
    data = bytearray(base64.b64decode(case["before"]))
    for edit in case["edits"]:
        apply = EDITS[edit["op"]]
        if "error" in edit:
            check_refusal(edit["error"], lambda edit=edit, apply=apply: apply(data, edit))
        else:
            apply(data, edit)
        assert data == base64.b64decode(edit["after"]), edit["op"]
    if "batches" in case:
        assert describe_batches(data) == case["batches"]


CHECKS = {"build": check_built, "control": check_control, "edit": check_edited}


def test_records(vectors):
    """Kafka: MemoryRecordsBuilder, MemoryRecords.with..., DefaultRecordBatch."""
    vectors("records").check(lambda case: CHECKS[case["kind"]](case))
