"""Buckets that brokers wrote through Aiven's plug-in: each byte as the plug-in gives it."""

from __future__ import annotations

import base64
import json
import random

import pytest

import segstore
from segstore.errors import SegstoreError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.remote.metadata.remote_log_metadata_serde import parse_event
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata
from segstore.remote.tiered.custom_metadata import parse_custom_metadata
from segstore.remote.tiered.object_key import (
    SUFFIXES,
    format_main_key,
    object_key,
    parse_kafka_id,
    parse_object_key,
)
from segstore.remote.tiered.segment_manifest import check_key, parse_manifest
from segstore.remote.tiered.segment_states import read_segment_states
from segstore.remote.tiered.tiered_partition import list_partition
from segstore.types import EpochEntry
from tests.kits.golden_bucket import segment_files, sha256

pytest.importorskip("Crypto")


def test_every_key_is_parsed_and_made_again(bucket_case):
    """[BKT-1] [BKT-2] [BKT-3] [BKT-4] Prefix, topic and ids are those that the case names."""
    prefix = bucket_case.said["key_prefix"]
    parsed = {one["key"]: parse_object_key(one["key"]) for one in bucket_case.said["objects"]}
    segments = {segment["main_key"]: segment for segment in bucket_case.said["segments"]}

    assert parsed
    for text, key in parsed.items():
        said = segments[key.main_key]
        topic = key.folder.topic_after(prefix)
        ids = parse_kafka_id(said["topic_id"]), parse_kafka_id(said["segment_id"])
        assert key.suffix in SUFFIXES
        assert (topic, key.partition, key.start_offset) == (
            said["topic"],
            said["partition"],
            said["start_offset"],
        )
        assert (key.folder.topic_id, key.segment_id) == ids
        made = format_main_key(prefix, topic, ids[0], key.partition, key.start_offset, ids[1])
        assert object_key(made, key.suffix) == text


def test_every_segment_and_index_equals_what_the_plug_in_returned(
    bucket_case, bucket_place, golden_summary
):
    """[MAN-2] [MAN-3] [MAN-4] [MAN-5] [CHK-1] [CHK-2] [CHK-3] [ENC-3] [IXO-1] [IXO-2] [IXO-3]."""
    equal = 0
    for said in bucket_case.complete_segments:
        segment = bucket_place.segment(said["main_key"])
        plain = segment.read(0, segment.size_bytes)
        assert (len(plain), sha256(plain)) == (said["plain_size"], said["plain_sha256"])
        for name, index in said["indexes"].items():
            found = segment.read_index(name)
            told = None if found is None else {"size": len(found), "sha256": sha256(found)}
            assert told == index
        equal += 1
    golden_summary.add("segments of tiered buckets", equal, len(bucket_case.complete_segments))

    assert equal


def test_every_range_equals_what_the_plug_in_returned(bucket_case, bucket_place):
    """[RDB-1] `range_reads.json`."""
    main_keys = {each["segment_id"]: each["main_key"] for each in bucket_case.complete_segments}
    for said in bucket_case.range_reads:
        segment = bucket_place.segment(main_keys[said["segment_id"]])
        found = segment.read(said["start"], said["end_inclusive"] + 1)
        assert sha256(found) == said["sha256"]
    assert bucket_case.range_reads


def test_manifests_say_what_the_cluster_said(bucket_case):
    """[MAN-6] [MAN-7] [MAN-8] [IXO-4] Offsets, epochs and broker; the lineage ends in them."""
    for said in bucket_case.complete_segments:
        segment = bucket_case.segment(said["main_key"])
        metadata = segment.manifest.metadata
        epochs = sorted((int(epoch), start) for epoch, start in said["leader_epochs"].items())
        lineage = segment.lineage()

        assert metadata.topic_partition == (said["topic"], said["partition"])
        assert (metadata.start_offset, metadata.end_offset, metadata.broker_id) == (
            said["start_offset"],
            said["end_offset"],
            said["broker_id"],
        )
        assert metadata.leader_epochs == tuple(EpochEntry(*entry) for entry in epochs)
        assert metadata.leader_epochs[0].start_offset == metadata.start_offset
        assert {epoch for epoch, _ in epochs} <= {entry.epoch for entry in lineage}


def test_what_is_not_complete_is_refused_or_lacks_an_object(bucket_case):
    """[BKT-8] [BKT-9] [SEL-1] Only complete segments can be opened."""
    store = bucket_case.store
    for said in bucket_case.said["segments"]:
        if set(said["objects"]) != set(SUFFIXES):
            with pytest.raises(KeyError):
                segment_files(store, said["main_key"])
        elif not said["complete"]:
            with pytest.raises(SegstoreError, match=said["segment_id"]):
                bucket_case.segment(said["main_key"])


def test_fields_in_another_order_and_unknown_ones_change_nothing(bucket_case):
    """[MAN-1] And `txnIdxEmpty` need not be there [MAN-7]."""
    for said in bucket_case.complete_segments:
        files = segment_files(bucket_case.store, said["main_key"])
        data = bucket_case.store.read_range(files.manifest, 0, files.manifest.size_bytes)
        manifest = parse_manifest(data, files.manifest.path)
        check_key(manifest, parse_object_key(files.manifest.path), files.manifest.path)
        fields = json.loads(data)
        fields["remoteLogSegmentMetadata"].pop("txnIdxEmpty", None)
        reversed_fields = {"unknown": [1], **dict(reversed(fields.items()))}

        assert parse_manifest(json.dumps(reversed_fields, indent=1).encode(), "m") == manifest


def partition_of(place, name):
    """List a partition of the case, whose name is that of ``case.json``."""
    topic, _, number = name.rpartition("-")
    case = place.case
    topic_id = case.said["partitions"][name]["topic_id"]
    folder = f"{case.said['key_prefix']}{topic}-{topic_id}/{number}"
    return list_partition(place.store, folder, case.keys)


def test_the_plan_of_each_partition_is_that_of_the_cluster(bucket_case, bucket_place):
    """[SEL-3] [SEL-5] [SEL-6] [SEL-9] [SEL-10] [SEL-11] Start, end, stable end and epochs."""
    for name, said in bucket_case.said["partitions"].items():
        partition = partition_of(bucket_place, name)
        plan, whole = partition.plan(), partition.plan(0)
        epochs = [
            (offset, part["epoch"])
            for part in said["plan"]
            for offset in range(part["from"], part["to"] + 1)
        ]

        assert partition.lineage[0].start_offset == said["log_start_in_newest_segment"]
        assert plan.start_offset == max(
            said["log_start_in_newest_segment"], said["bucket_start_offset"]
        )
        assert whole.start_offset == said["bucket_start_offset"]
        assert plan.end_offset == whole.end_offset == said["bucket_end_offset"]
        assert plan.gaps == whole.gaps == ()
        assert partition.stable_end_offset() == said["bucket_stable_offset"]
        assert [
            (offset, part.epoch)
            for part in whole.ranges
            for offset in range(part.from_offset, part.to_offset + 1)
            if offset >= epochs[0][0]
        ] == epochs


def test_what_is_left_out_is_what_is_not_complete(bucket_case, bucket_place):
    """[SEL-1] [SEL-2] Complete copies that Kafka never noted are used like any other."""
    for name, said in bucket_case.said["partitions"].items():
        partition = partition_of(bucket_place, name)
        own = [
            one
            for one in bucket_case.said["segments"]
            if one["topic_id"] == said["topic_id"] and f"{one['topic']}-{one['partition']}" == name
        ]

        assert {one.main_key for one in partition.left_out} == {
            one["main_key"] for one in own if not one["complete"]
        }
        assert len(partition.segments) == sum(one["complete"] for one in own)


def rows_of(path):
    """Return the records of a file, none without it."""
    if not path.exists():
        return []
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [
        (one["offset"], one["timestamp"], one["key"], one["value"], one["headers"]) for one in lines
    ]


def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


def rows_read(records):
    return [
        (
            record.offset,
            record.timestamp,
            encoded(record.key),
            encoded(record.value),
            [[name, encoded(value)] for name, value in record.headers],
        )
        for record in records
    ]


def test_a_log_of_the_bucket_has_the_records_of_the_broker(
    bucket_case, bucket_place, tmp_path, golden_summary
):
    """[SEL-4] [SEL-7] [SEL-11] [SEL-12] [DUR-141] All records, and the committed view.

    Where an unclean election left a lost branch, Kafka 4.3.1's consumer got its records; the log
    has those of the last leader.
    """
    bucket = bucket_place.open(tmp_path / "spool")
    said = bucket_case.said["partitions"]
    assert {str(one) for one in bucket.partitions()} == set(said)
    for name, told in said.items():
        topic, _, number = name.rpartition("-")
        records = bucket_case.directory / "records"
        before = rows_of(records / f"{name}.before_log_start.jsonl")
        after = rows_of(records / f"{name}.jsonl")
        start = max(told["log_start_in_newest_segment"], told["bucket_start_offset"])
        committed = records / f"{name}.read_committed.jsonl"
        with bucket.open(topic, int(number)) as log:
            found = rows_read(log.scan())
            stable = rows_read(log.scan(isolation="read_committed"))
            ends = log.log_start_offset, log.log_end_offset, log.last_stable_offset

        assert found == [row for row in before + after if row[0] >= start]
        assert ends == (start, told["bucket_end_offset"], told["bucket_stable_offset"])
        expected = rows_of(committed) if committed.exists() else after
        assert [row for row in stable if row[0] >= told["log_start_offset"]] == expected
        differs = rows_of(records / f"{name}.consumer_differs.jsonl")
        assert not set(map(str, differs)) & set(map(str, found))
    golden_summary.add("logs of tiered buckets", len(said), len(said))


def events_of(case):
    """Return the events of the case's topic, in their order."""
    (path,) = (case.directory / "remote_log_metadata").glob("__remote_log_metadata-*")
    with segstore.open(path, read_only=True) as log:
        records = list(log.scan())
    assert all(record.key is None for record in records)
    return [parse_event(record.value) for record in records]


def said_of(event):
    """Return an event in the form of ``remote_log_metadata.jsonl``."""
    is_added = isinstance(event, RemoteLogSegmentMetadata)
    topic_id, (topic, partition) = event.topic_id_partition
    said = {
        "event": "add" if is_added else "update",
        "state": event.state.name,
        "topic": topic,
        "topic_id": topic_id_text(topic_id),
        "partition": partition,
        "segment_id": topic_id_text(event.segment_id.id),
        "broker_id": event.broker_id,
        "event_timestamp_ms": event.event_timestamp_ms,
    }
    if not is_added:
        return said | {"custom_metadata": encoded(event.custom_metadata)}
    return said | {
        "start_offset": event.start_offset,
        "end_offset": event.end_offset,
        "max_timestamp_ms": event.max_timestamp_ms,
        "segment_size": event.segment_size_bytes,
        "leader_epochs": {str(epoch): start for epoch, start in event.segment_leader_epochs},
        "txn_index_empty": event.is_transaction_index_empty,
    }


def test_every_event_is_what_kafkas_classes_decode(bucket_case, golden_summary):
    """[RLM-1] [RLM-2] [RLM-3] Records without a key, through the library's own log reader."""
    told = (bucket_case.directory / "remote_log_metadata.jsonl").read_text(encoding="utf-8")
    expected = [json.loads(line) for line in told.splitlines()]

    assert [said_of(event) for event in events_of(bucket_case)] == expected
    golden_summary.add("events of remote log segments", len(expected), len(expected))


def test_the_last_state_of_each_segment_is_that_of_the_cluster(bucket_case):
    """[RLM-4] Also of segments that no event is of."""
    states = read_segment_states(bucket_case.directory / "remote_log_metadata")
    for said in bucket_case.said["segments"]:
        copies = {
            topic_id_text(copy.segment_id.id): copy.state.name
            for copy in states.copies(parse_kafka_id(said["topic_id"]), said["partition"])
        }

        assert copies.get(said["segment_id"], "none") == said["remote_state"]


def test_custom_metadata_name_the_size_and_the_key_of_the_objects(bucket_case):
    """[RLM-5] [RLM-6] The key under which a broker would look for ``.log`` and ``.indexes``."""
    sizes = {one["key"]: one["size"] for one in bucket_case.said["objects"]}
    for event in events_of(bucket_case):
        if event.custom_metadata is None:
            continue
        said = parse_custom_metadata(event.custom_metadata)
        keys = [f"{said.key_prefix}{said.main_key}.{suffix}" for suffix in SUFFIXES]

        assert said.key_prefix == bucket_case.said["key_prefix"]
        assert sum(sizes[key] for key in keys) == said.remote_size_bytes


def test_with_the_topic_only_finished_segments_are_read(bucket_case, bucket_place, tmp_path):
    """[SEL-13] [SEL-2] [RLM-4] The same log, of the segments that Kafka has finished alone."""
    bucket = bucket_place.open(
        tmp_path / "spool", remote_log_metadata=bucket_case.directory / "remote_log_metadata"
    )
    said = bucket_case.said["partitions"]
    for name, told in said.items():
        topic, _, number = name.rpartition("-")
        records = rows_of(bucket_case.directory / "records" / f"{name}.jsonl")
        start = max(told["log_start_in_newest_segment"], told["plan"][0]["from"])
        not_finished = {
            one["main_key"]
            for one in bucket_case.said["segments"]
            if one["topic_id"] == told["topic_id"]
            and f"{one['topic']}-{one['partition']}" == name
            and (one["remote_state"] != "COPY_SEGMENT_FINISHED" or not one["complete"])
        }
        left_out = {one.main_key for one in bucket.left_out(topic, int(number))}
        with bucket.open(topic, int(number)) as log:
            found = rows_read(log.scan())
            ends = log.log_start_offset, log.log_end_offset, log.last_stable_offset

        assert ends == (start, told["bucket_end_offset"], told["bucket_stable_offset"])
        assert [row for row in found if row[0] >= told["log_start_offset"]] == records
        assert {key.rpartition("/")[2] for key in left_out} == {
            key.rpartition("/")[2] for key in not_finished
        }
    assert said


def test_kafka_serves_records_of_a_lost_branch_where_the_log_does_not(
    bucket_case, bucket_place, tmp_path
):
    """[SEL-7] [DUR-141] Both outcomes, record by record, where an unclean election left a branch.

    Kafka 4.3.1 follows the segment to its end: its consumer got the lost branch. The log follows
    the lineage. Elsewhere both give the same.
    """
    bucket = bucket_place.open(tmp_path / "spool")
    for name, told in bucket_case.said["partitions"].items():
        topic, _, number = name.rpartition("-")
        differs = rows_of(bucket_case.directory / "records" / f"{name}.consumer_differs.jsonl")
        assert [row[0] for row in differs] == told.get("consumer_differs_at", [])
        if not differs:
            continue
        with bucket.open(topic, int(number)) as log:
            served = {row[0]: row for row in rows_read(log.scan())}
        lost = {row[0]: row for row in differs}
        own = {row[0]: row for row in rows_of(bucket_case.directory / "records" / f"{name}.jsonl")}

        assert all(served[offset] == own[offset] for offset in lost)
        assert all(served[offset] != lost[offset] for offset in lost)
        # What the broker did: it read on in the segment that had served the record below.
        below = [
            one
            for one in partition_of(bucket_place, name).segments
            if one.start_offset < min(lost) <= max(lost) == one.end_offset
        ]
        path = tmp_path / "segment.log"
        path.write_bytes(below[0].read(0, below[0].size_bytes))
        with segstore.open_segment(path) as segment:
            in_segment = {row[0]: row for row in rows_read(segment)}
        assert {offset: in_segment[offset] for offset in lost} == lost


def test_any_offset_and_any_time_are_found(bucket_place, tmp_path):
    """[RDB-2] From each offset, and from each timestamp; a batch may begin below the offset."""
    bucket = bucket_place.open(tmp_path / "spool")
    for topic, partition in bucket.partitions():
        with bucket.open(topic, partition) as log:
            rows = [(record.offset, record.timestamp) for record in log.scan()]
            times = sorted({timestamp for _, timestamp in rows})
            offsets = {offset for offset, _ in rows}
            for offset in range(log.log_start_offset, log.log_end_offset, 7):
                first = next((row[0] for row in rows if row[0] >= offset), None)
                found = next(iter(log.scan(offset)), None)
                assert (None if found is None else found.offset) == first
            for timestamp in [times[0] - 1, *times[::9], times[-1], times[-1] + 1]:
                later = next((offset for offset, at in rows if at >= timestamp), None)
                found = log.offset_for_timestamp(timestamp)
                is_of_a_marker = found not in offsets and found is not None
                assert found == later or (is_of_a_marker and (later is None or found < later))


def test_any_range_of_offsets_is_that_of_the_broker(bucket_place, tmp_path):
    """[RDB-1] [RDB-2] As rows, and as Arrow."""
    case = bucket_place.case
    bucket = bucket_place.open(tmp_path / "spool")
    chosen = random.Random(str(case))
    for topic, partition in bucket.partitions():
        rows = rows_of(case.directory / "records" / f"{topic}-{partition}.jsonl")
        with bucket.open(topic, partition) as log:
            begin = max(log.log_start_offset, rows[0][0])
            for _ in range(20):
                start, end = sorted(chosen.choices(range(begin, log.log_end_offset + 1), k=2))
                expected = [row for row in rows if start <= row[0] < end]
                table = log.to_arrow(start, end, columns=["offset"])

                assert rows_read(log.scan(start, end)) == expected
                assert table.column("offset").to_pylist() == [row[0] for row in expected]


def test_deleted_records_that_segments_still_hold_are_read_on_request(bucket_case, tmp_path):
    """[SEL-4] [SEL-9] From the lowest offset on, along the lineage extended downwards."""
    folder, _, prefix = bucket_case.said["key_prefix"].rpartition("/")
    keys = bucket_case.directory / "keys"
    bucket = segstore.open_bucket(
        bucket_case.directory / "bucket" / folder,
        keys=keys if keys.is_dir() else {},
        key_prefix=prefix,
        below_log_start=True,
        spool_directory=str(tmp_path / "spool"),
    )
    records = bucket_case.directory / "records"
    for name, told in bucket_case.said["partitions"].items():
        topic, _, number = name.rpartition("-")
        expected = rows_of(records / f"{name}.before_log_start.jsonl")
        expected += rows_of(records / f"{name}.jsonl")
        with bucket.open(topic, int(number)) as log:
            assert rows_read(log.scan()) == expected
            assert log.log_start_offset == told["bucket_start_offset"]
            assert log.log_end_offset == told["bucket_end_offset"]
            chance = random.Random(name)
            for _ in range(20):
                ends = sorted(
                    chance.randrange(log.log_start_offset, log.log_end_offset + 1) for _ in "ab"
                )
                part = [row for row in expected if ends[0] <= row[0] < ends[1]]
                assert rows_read(log.scan(*ends)) == part
                assert log.scan(*ends).count() == len(part)
