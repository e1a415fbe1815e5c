"""Metadata logs and snapshots that segstore wrote, opened by Kafka's own ``KafkaRaftLog``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from segstore.log.files.metadata_image_reader import read_metadata_image
from segstore.raft.offset_and_epoch import OffsetAndEpoch
from segstore.raft.records_snapshot import RecordsSnapshotWriter
from segstore.records.kraft_record import Endpoint, KRaftVoter, KRaftVoters
from tests.interop.kafka_classes import open_with_kafka_raft_log
from tests.interop.kafka_metadata import KafkaMetadata, tree_of
from tests.kits.metadata_kit import metadata_batch, metadata_record, topic_records
from tests.kits.raft_kit import append_singly, commit, offsets_of, open_raft

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.raft.metadata_log import MetadataLog

VOTER = KRaftVoter(1, UUID(int=9), [Endpoint("CONTROLLER", "localhost", 9093)], 0, 1)
FIRST = [metadata_record("FeatureLevelRecord", name="metadata.version", featureLevel=20)]
TOPICS = [topic_records(name, UUID(int=number << 64)) for number, name in ((21, "a"), (22, "b"))]


def write(log: MetadataLog) -> OffsetAndEpoch:
    """Append three batches in two epochs, and make a snapshot of the first two."""
    end = 0
    for epoch, values in ((1, FIRST), (1, TOPICS[0]), (2, TOPICS[1])):
        log.append_as_leader(metadata_batch(end, values, epoch), epoch)
        end += len(values)
    commit(log)
    raw = log.create_new_snapshot(OffsetAndEpoch(3, 1))
    assert raw is not None
    with raw:
        writer = RecordsSnapshotWriter(
            raw,
            last_contained_log_timestamp=1_000,
            kraft_version=1,
            voters=KRaftVoters([VOTER]),
        )
        writer.append(FIRST)
        writer.append(TOPICS[0])
        writer.freeze()
    return raw.snapshot_id


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_kafka_opens_our_log_and_snapshot(tmp_path: Path, recovery: str):
    """[RAFT-3, RAFT-20, RAFT-27, RAFT-47] And we open what Kafka has closed."""
    with open_raft(tmp_path, recovery) as log:  # type: ignore[arg-type]
        snapshot_id = write(log)
        ours = offsets_of(log)
    found = json.loads(open_with_kafka_raft_log(tmp_path, *snapshot_id))

    assert (found["start_offset"], found["end_offset"]) == ours[:2] == (0, 5)
    assert found["last_fetched_epoch"] == ours[3] == 2
    assert found["batches"] == [[0, 0, 1], [1, 2, 1], [3, 4, 2]]
    assert found["latest_snapshot"] == found["earliest_snapshot"] == [3, 1]
    (content,) = found["snapshots"]
    assert content["last_contained_log_timestamp"] == 1_000
    assert content["records"] == [one.hex() for one in (*FIRST, *TOPICS[0])]
    assert content["controls"] == [
        *("SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS", "SNAPSHOT_FOOTER")
    ]
    with open_raft(tmp_path, recovery) as log:  # type: ignore[arg-type]
        assert offsets_of(log)[:2] == (0, 5)
        assert log.snapshot_ids == (snapshot_id,)
        append_singly(log, 1, 3)


def test_kafka_begins_where_ours_begins(tmp_path: Path):
    """[RAFT-23, RAFT-31, RAFT-35] After records were deleted, and after a snapshot replaced all."""
    with open_raft(tmp_path, internal_metadata_log_segment_bytes=200) as log:
        snapshot_id = write(log)
        assert log.delete_before_snapshot(snapshot_id)
    found = json.loads(open_with_kafka_raft_log(tmp_path, *snapshot_id))
    assert (found["start_offset"], found["end_offset"]) == (3, 5)

    with KafkaMetadata() as kafka:
        directory = tmp_path / "__cluster_metadata-0"
        name = read_metadata_image(directory).snapshot
        assert kafka.image(directory, name) == tree_of(read_metadata_image(directory))
