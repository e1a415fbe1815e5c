"""Metadata logs for tests: records by number and epoch, and snapshots of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from segstore._core import RecordsBuilder
from segstore.log.files.topic_names import METADATA_LOG
from segstore.log.log_environment import STANDALONE
from segstore.raft.metadata_log import MetadataLog, open_metadata_log
from segstore.raft.offset_and_epoch import OffsetAndEpoch
from segstore.raft.records_snapshot import RecordsSnapshotReader, RecordsSnapshotWriter
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.log.log_environment import LogEnvironment

TIMESTAMP = 1_000
LEAST_BATCHES = 2
"""Of a snapshot: header and footer."""


def raft_batch(offset: int, count: int = 1, epoch: int = 0, size: int = 8) -> bytes:
    """Return a batch of *count* records of *size* bytes each."""
    builder = RecordsBuilder(codec_table(), base_offset=offset, partition_leader_epoch=epoch)
    for number in range(offset, offset + count):
        builder.append(number, TIMESTAMP, None, str(number).zfill(size).encode())
    return builder.build()


def open_raft(
    folder: Path | str,
    recovery: Literal["safe", "kafka"] = "safe",
    *,
    log_environment: LogEnvironment = STANDALONE,
    **settings: int,
) -> MetadataLog:
    """Open a metadata log in *folder*; settings by Kafka's keys, with ``_`` for the dots."""
    return open_metadata_log(
        f"{folder}/{METADATA_LOG}",
        {key.replace("_", "."): str(value) for key, value in settings.items()},
        recovery=recovery,
        log_environment=log_environment,
    )


def append(log: MetadataLog, count: int, epoch: int = 0) -> None:
    """Append a batch of so many records as the leader of *epoch*."""
    log.append_as_leader(raft_batch(log.end_offset.message_offset, count, epoch), epoch)


def append_singly(log: MetadataLog, count: int, epoch: int = 0) -> None:
    """Append so many batches of one record."""
    for _ in range(count):
        append(log, 1, epoch)


def commit(log: MetadataLog, offset: int | None = None) -> None:
    """Set the high watermark; None = to the log end."""
    log.update_high_watermark(log.end_offset.message_offset if offset is None else offset)


def snapshot(
    log: MetadataLog, offset: int, epoch: int, *, records: int = 1, unchecked: bool = False
) -> OffsetAndEpoch:
    """Make a whole snapshot of so many records."""
    snapshot_id = OffsetAndEpoch(offset, epoch)
    new = log.create_new_snapshot_unchecked if unchecked else log.create_new_snapshot
    raw = new(snapshot_id)
    assert raw is not None
    with raw:
        writer = RecordsSnapshotWriter(raw, last_contained_log_timestamp=TIMESTAMP)
        for number in range(records):
            writer.append([str(number).encode()])
        writer.freeze()
    return snapshot_id


def begin_at_snapshot(log: MetadataLog, offset: int, epoch: int) -> None:
    """Let the log begin at a snapshot of the leader."""
    snapshot(log, offset, epoch, unchecked=True)
    assert log.truncate_to_latest_snapshot()


def offsets_of(log: MetadataLog) -> tuple[int, int, int, int]:
    """Log start, log end, high watermark, last epoch."""
    return (
        log.start_offset,
        log.end_offset.message_offset,
        log.high_watermark.message_offset,
        log.last_fetched_epoch(),
    )


def check_covered(log: MetadataLog) -> None:
    """[DUR-145] What is below the log start is in a whole snapshot; the rest is there, once."""
    start, end = log.start_offset, log.end_offset.message_offset
    latest = log.latest_snapshot()
    if start > 0:
        assert latest is not None
        assert latest.snapshot_id.offset >= start
    for snapshot_id in log.snapshot_ids:
        raw = log.read_snapshot(snapshot_id)
        assert raw is not None
        assert sum(1 for _ in RecordsSnapshotReader(raw)) >= LEAST_BATCHES
    offsets = [record.offset for record in log.log.scan()]
    assert offsets == list(range(start, end))
