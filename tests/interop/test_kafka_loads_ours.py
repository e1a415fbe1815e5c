"""Directories that segstore wrote, loaded by Kafka's own ``UnifiedLog`` [D1, DUR-24, LDR-*]."""

from __future__ import annotations

import hashlib
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from tests.interop.kafka_loader import KafkaLoader
from tests.interop.random_script import RandomScript, checkpointed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex")

_BATCH = struct.Struct(">qqbbbbiqqhi")
_RECORD = struct.Struct(">qq")


def digest_of_records(log: segstore.UnifiedLog) -> str:
    """Of all batches and records in the form of LoadWithKafka.java."""
    digest = hashlib.sha256()
    for batch in log.scan().batches():
        flags = batch.is_transactional + 2 * batch.is_control
        digest.update(
            _BATCH.pack(
                batch.base_offset,
                batch.last_offset,
                batch.magic,
                batch.codec,
                batch.timestamp_type,
                flags,
                batch.partition_leader_epoch,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
            )
        )
        for record in batch:
            timestamp = -1 if record.timestamp is None else record.timestamp
            digest.update(_RECORD.pack(record.offset, timestamp))
            digest.update(sized(record.key) + sized(record.value))
            digest.update(struct.pack(">i", len(record.headers)))
            for name, value in record.headers:
                digest.update(sized(name.encode()) + sized(value))
    return digest.hexdigest()


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def state(log: segstore.UnifiedLog) -> dict[str, Any]:
    """What LoadWithKafka.java tells of a log."""
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "segments": [
            [segment.base_offset, segment.size_bytes, segment.largest_record_timestamp()]
            for segment in log.segments()
        ],
        "leader_epochs": [list(entry) for entry in log._epochs.entries],
        "producers": producers(log),
        "records_sha256": digest_of_records(log),
    }


def files(directory: Path, first: int = 0) -> dict[str, bytes]:
    """Return the segments' files by name, from that of base offset *first* on.

    A transaction index without an entry says no more than none.
    """
    return {
        file.name: file.read_bytes()
        for file in directory.iterdir()
        if file.name.endswith(SEGMENT_FILES)
        and int(file.stem) >= first
        and not (file.name.endswith(".txnindex") and file.stat().st_size == 0)
    }


def last_snapshot(directory: Path) -> str:
    """Return the name of what a load would begin with; older ones may differ [PSM-55]."""
    return max((file.name for file in directory.glob("*.snapshot")), default="")


def producers(log: segstore.UnifiedLog) -> list[dict[str, Any]]:
    """Return the producers with the last batch of each, as LoadWithKafka.java tells them.

    A snapshot has no more than that one: who begins with an older snapshot knows more batches.
    """
    return [
        {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "last_timestamp": entry.last_timestamp,
            "current_txn_first_offset": (
                -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset
            ),
            "batches": [
                [one.first_seq, one.last_seq, one.first_offset, one.last_offset]
                for one in [*entry.batch_metadata][-1:]
            ],
        }
        for _, entry in sorted(log._producers.active_producers.items())
    ]


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Return the names of files that are missing or different in one of two directories."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def run_and_compare(kafka: KafkaLoader, script: RandomScript) -> None:
    """Write a directory, load it with Kafka, and a copy of it with segstore."""
    script.directory.parent.mkdir()
    written = script.run(digest_of_records)
    directory = script.directory
    copy = directory.parent / "copy" / directory.name
    shutil.copytree(directory, copy)
    before, is_clean = files(directory), script.is_clean

    found = kafka.load(
        directory,
        clean=is_clean,
        log_start_offset=checkpointed(directory, LOG_START_OFFSET_CHECKPOINT),
        recovery_point=checkpointed(directory, RECOVERY_POINT_CHECKPOINT),
        config=script.kafka_config,
    )

    with segstore.open(copy, durability="none", segment_ms=None, **script.settings) as log:
        assert log.report.clean == is_clean
        ours = state(log)
    # What lies below the log start goes at our open; Kafka leaves that to its retention [DUR-18].
    first = ours["segments"][0][0]
    for producer in found["producers"]:
        producer["batches"] = [batch[:4] for batch in producer["batches"][-1:]]
    found["segments"] = [segment for segment in found["segments"] if segment[0] >= first]
    assert {name: found[name] for name in ours} == ours
    if script.ending in {"closed", "killed"}:
        assert found["records_sha256"] == written
    after = files(directory, first)
    assert differing(after, files(copy, first)) == []
    assert last_snapshot(directory) == last_snapshot(copy)
    if is_clean and ours["log_end_offset"] > ours["log_start_offset"]:
        assert differing(after, {name: before[name] for name in after if name in before}) == []
        # The indexes of the active segment get room for appends; the epochs are cut at the log
        # start and written, whether that changes them or not [LDR-8, EPC-7].
        active = f"{found['segments'][-1][0]:020d}"
        changed = {name for name in found["changed_files"] if not name.endswith(".snapshot")}
        assert changed <= {f"{active}.index", f"{active}.timeindex", LEADER_EPOCH_CHECKPOINT}


def test_kafka_loads_what_random_scripts_wrote(
    tmp_path: Path, few_or_many: Callable[[int, int], int]
):
    """The same state and the same files.

    Nothing is recovered after a close; after a kill, or with a torn or dirty tail, Kafka's recovery
    and ours of a copy have one result, the producers and their transactions too. [DUR-24, DUR-51,
    LDR-20, LDR-28, PSM-70]
    """
    with KafkaLoader() as kafka:
        for seed in range(few_or_many(25, 500)):
            script = RandomScript(tmp_path / str(seed), seed)
            try:
                run_and_compare(kafka, script)
            except Exception as error:
                error.add_note(f"seed {seed}, {script.ending}, {script.settings}")
                raise
            shutil.rmtree(script.directory.parent)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "recovered"])
def test_kafka_loads_a_directory_with_checksum_sidecars(tmp_path: Path, *, clean: bool):
    """[DUR-60, DUR-98] It looks at none of them and leaves them; here they are still true."""
    directory = tmp_path / "topic-0"
    settings = {"durability": "none", "internal_segment_bytes": 2000, "segment_ms": None}
    with segstore.open(directory, checksum_sidecar=True, **settings) as log:
        for number in range(60):
            log.append([(1_700_000_000_000 + number, b"key", b"value %d" % number)])
        log.write_checksum_sidecars()
        expected, end, sealed = digest_of_records(log), log.log_end_offset, len(log.segments()) - 1
    (directory / f"{0:020d}.segsum.tmp").write_bytes(b"left by a crash")
    sidecars = {file.name: file.read_bytes() for file in directory.glob("*.segsum*")}
    assert len(sidecars) == sealed + 1 > 2

    with KafkaLoader() as kafka:
        found = kafka.load(
            directory,
            clean=clean,
            log_start_offset=0,
            recovery_point=end if clean else 0,
            config={"internal.segment.bytes": "2000"},
        )

    assert (found["log_end_offset"], found["records_sha256"]) == (end, expected)
    assert len(found["segments"]) == sealed + 1
    assert {name: (directory / name).read_bytes() for name in sidecars} == sidecars
    with segstore.open(directory, **settings) as log:
        report = log.scrub()
        assert report.ok
        assert report.sidecars == sealed
        assert not list(directory.glob("*.tmp"))
