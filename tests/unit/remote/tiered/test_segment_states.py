"""The states of copies by the events, and what a bucket shows by them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from uuid import UUID

import pytest

pytest.importorskip("Crypto")

import segstore
from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    LogNotFoundError,
    UnsupportedFormatError,
)
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from segstore.remote.tiered.object_key import parse_kafka_id
from segstore.remote.tiered.segment_states import SegmentStates, read_segment_states
from segstore.types import TopicPartition
from tests.kits.golden_bucket import BucketCase
from tests.kits.remote_log_events import event_bytes, write_topic
from tests.kits.remote_metadata_kit import DELETED, DELETING, FINISHED, STARTED, added, updated

TOPIC_ID = UUID(int=7)
ADDED = added(0, 9, partition=TopicIdPartition(TOPIC_ID, TopicPartition("orders", 0)))


def update(state, custom_metadata=None):
    return updated(ADDED, state, custom_metadata)


def states_after(*events):
    states = SegmentStates()
    for event in events:
        states.apply(event)
    return [copy.state for copy in states.copies(TOPIC_ID, 0)]


def test_an_update_replaces_custom_bytes_and_state():
    """[RLM-4] [TIER-25] Offsets and epochs stay; bytes may be taken away."""
    states = SegmentStates()
    for event in (ADDED, update(FINISHED, b"custom"), update(DELETING)):
        states.apply(event)

    assert states.copies(TOPIC_ID, 0) == [ADDED.with_update(update(DELETING))]
    assert states.copies(TOPIC_ID, 1) == []


@pytest.mark.parametrize("before", RemoteLogSegmentState)
@pytest.mark.parametrize("after", RemoteLogSegmentState)
def test_a_state_follows_only_where_kafka_allows_it(before, after):
    """[RLM-4] [TIER-23] [TIER-30] Others are dropped, as a broker does."""
    way = {STARTED: [], FINISHED: [FINISHED], DELETING: [DELETING], DELETED: [DELETING, DELETED]}
    allowed = {
        *((state, state) for state in RemoteLogSegmentState),
        (STARTED, FINISHED),
        (STARTED, DELETING),
        (FINISHED, DELETING),
        (DELETING, DELETED),
    }
    found = states_after(ADDED, *map(update, way[before]), update(after))

    assert found == [after if (before, after) in allowed else before]


def test_an_update_of_a_copy_that_never_began_is_dropped():
    """[TIER-30] And so is a first event in a later state."""
    assert states_after(update(FINISHED)) == []
    assert states_after(replace(ADDED, state=FINISHED)) == []


@pytest.fixture
def case(packed_buckets, tmp_path):
    """A copy of a bucket with its topic."""
    shutil.copytree(packed_buckets / "leftovers", tmp_path / "case")
    return BucketCase(tmp_path / "case")


@pytest.fixture
def epochs(packed_buckets, tmp_path):
    """A copy of a bucket with one topic id."""
    shutil.copytree(packed_buckets / "compressed-encrypted", tmp_path / "epochs")
    return BucketCase(tmp_path / "epochs")


def opened(case, metadata, **how):
    keys = case.directory / "keys"
    return segstore.open_bucket(
        case.directory / "bucket" / case.said["key_prefix"],
        keys=keys if keys.is_dir() else {},
        remote_log_metadata=metadata,
        spool_directory=str(case.directory / "spool"),
        **how,
    )


def test_partitions_of_the_topic_may_be_given_one_by_one(case, tmp_path):
    """[RLM-1] Of two copies of one, a replica that is behind, the longer one counts."""
    own = case.directory / "remote_log_metadata"
    behind = write_topic(tmp_path / "behind", [event_bytes(ADDED)])
    for given in (
        own,
        str(own / "__remote_log_metadata-0"),
        [behind, own],
        [own, behind / "__remote_log_metadata-0"],
    ):
        bucket = opened(case, given)
        with bucket.open("orders", 1) as log:
            assert log.log_end_offset == 376


def test_events_of_several_partitions_of_the_topic_are_read(case, tmp_path):
    """[RLM-1] Those of a partition of a user lie in one of them."""
    own = case.directory / "remote_log_metadata"
    write_topic(tmp_path / "other", [event_bytes(ADDED)], partition=1)
    states = read_segment_states([own, tmp_path / "other"])
    topic_id = parse_kafka_id(case.said["partitions"]["orders-0"]["topic_id"])

    assert len(states.copies(TOPIC_ID, 0)) == 1
    assert states.copies(topic_id, 0)


def test_a_topic_without_events_of_the_partition_is_told(epochs, tmp_path):
    """[SEL-13] Not an empty log: another broker may hold that partition of the topic."""
    bucket = opened(epochs, write_topic(tmp_path / "other", [event_bytes(ADDED)]))
    reasons = [str(one.reason) for one in bucket.left_out("epochs", 1)]

    assert reasons
    assert all("another broker's log directory may hold" in one for one in reasons)
    with pytest.raises(LogNotFoundError, match="another broker's"), bucket.open("epochs", 1):
        pass
    with pytest.raises(LogNotFoundError, match="another broker's"):
        bucket.to_arrow("epochs")


def test_finished_segments_that_the_bucket_lacks_are_told(case):
    """[SEL-13] [RLM-4] The newest one was deleted by hand: without the topic it is not missed."""
    last = max(
        (case.directory / "bucket").rglob("1/*.rsm-manifest"), key=lambda path: path.name[:20]
    )
    end = int(last.name[:20])
    for path in last.parent.glob(f"{last.name.partition('.')[0]}.*"):
        path.unlink()
    bucket = opened(case, case.directory / "remote_log_metadata")
    (lost,) = (one for one in bucket.left_out("orders", 1) if "does not hold" in str(one.reason))

    assert lost.main_key.endswith(last.name.removesuffix(".rsm-manifest"))
    assert lost.main_key in str(lost.reason)
    assert lost.reason.missing[0] == end
    with (
        pytest.raises(CorruptLogError, match=f"{lost.main_key}.*from offset {end} on"),
        bucket.open("orders", 1),
    ):
        pass
    bucket = opened(case, case.directory / "remote_log_metadata", allow_gaps=True)
    with bucket.open("orders", 1) as log:
        assert log.log_end_offset <= end
        assert any(lost.main_key in one for one in log.report.warnings)


def test_the_key_that_the_plug_in_noted_is_told(tmp_path):
    """[RLM-5] [RLM-6] Where a broker would look, after a change of the prefix."""
    noted = bytes([2, 1, 5, 5]) + b"old/" + bytes([2, 4, 4]) + b"key"
    directory = tmp_path / "bucket" / "orders-AAAAAAAAAAAAAAAAAAAABw" / "0"
    directory.mkdir(parents=True)
    values = [event_bytes(ADDED), event_bytes(update(FINISHED, noted))]
    bucket = segstore.open_bucket(
        tmp_path / "bucket", keys={}, remote_log_metadata=write_topic(tmp_path / "data", values)
    )
    (lost,) = bucket.left_out("orders", 0)

    assert "with the key old/key" in str(lost.reason)
    for other in (b"\xff" * 9, None):
        values = [event_bytes(ADDED), event_bytes(update(FINISHED, other))]
        name = f"data{len(other or b'')}"
        bucket = segstore.open_bucket(
            tmp_path / "bucket", keys={}, remote_log_metadata=write_topic(tmp_path / name, values)
        )
        (lost,) = bucket.left_out("orders", 0)
        assert "three objects)" in str(lost.reason)


def test_a_partition_that_is_being_deleted_has_no_log(epochs, tmp_path):
    """[RLM-3] Kind 2 says it of all of its segments."""
    topic_id = parse_kafka_id(epochs.said["partitions"]["epochs-1"]["topic_id"])
    state = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
    deletion = RemotePartitionDeleteMetadata(
        topic_id_partition=TopicIdPartition(topic_id, TopicPartition("epochs", 1)),
        state=state,
        event_timestamp_ms=2,
        broker_id=1,
    )
    bucket = opened(epochs, write_topic(tmp_path / "data", [event_bytes(deletion)]))
    reasons = [str(one.reason) for one in bucket.left_out("epochs", 1)]

    assert reasons
    assert all("DELETE_PARTITION_STARTED for the whole partition" in one for one in reasons)


def test_what_holds_no_topic_is_refused(case, tmp_path):
    for given in (tmp_path / "absent", case.directory, case.directory / "case.json"):
        with pytest.raises(LogNotFoundError, match="__remote_log_metadata"):
            opened(case, given)
    with pytest.raises(IllegalArgumentError, match="directories of this machine"):
        opened(case, "s3://bucket/logs")


def test_a_record_that_is_no_event_is_named(case, tmp_path):
    """[RLM-2] Directory and offset."""
    good = event_bytes(ADDED)
    with pytest.raises(CorruptLogError, match=r"__remote_log_metadata-0: .*offset 1 "):
        opened(case, write_topic(tmp_path / "cut", [good, good[:-5]]))
    with pytest.raises(UnsupportedFormatError, match="offset 0 "):
        opened(case, write_topic(tmp_path / "new", [b"\1\7\0", good]))
