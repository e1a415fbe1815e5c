"""Buckets that brokers wrote through Aiven's plug-in: each byte as the plug-in gives it."""

from __future__ import annotations

import json

import pytest

from segstore.errors import SegstoreError
from segstore.remote.tiered.object_key import (
    SUFFIXES,
    format_main_key,
    object_key,
    parse_kafka_id,
    parse_object_key,
)
from segstore.remote.tiered.segment_manifest import check_key, parse_manifest
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


def test_every_segment_and_index_equals_what_the_plug_in_returned(bucket_case, golden_summary):
    """[MAN-2] [MAN-3] [MAN-4] [MAN-5] [CHK-1] [CHK-2] [CHK-3] [ENC-3] [IXO-1] [IXO-2] [IXO-3]."""
    equal = 0
    for said in bucket_case.complete_segments:
        segment = bucket_case.segment(said["main_key"])
        plain = segment.read(0, segment.size_bytes)
        assert (len(plain), sha256(plain)) == (said["plain_size"], said["plain_sha256"])
        for name, index in said["indexes"].items():
            found = segment.read_index(name)
            told = None if found is None else {"size": len(found), "sha256": sha256(found)}
            assert told == index
        equal += 1
    golden_summary.add("segments of tiered buckets", equal, len(bucket_case.complete_segments))

    assert equal


def test_every_range_equals_what_the_plug_in_returned(bucket_case):
    """[RDB-1] `range_reads.json`."""
    main_keys = {each["segment_id"]: each["main_key"] for each in bucket_case.complete_segments}
    for said in bucket_case.range_reads:
        segment = bucket_case.segment(main_keys[said["segment_id"]])
        found = segment.read(said["start"], said["end_inclusive"] + 1)
        assert sha256(found) == said["sha256"]
    assert bucket_case.range_reads


def test_manifests_say_what_the_cluster_said(bucket_case):
    """[MAN-6] [MAN-7] [MAN-8] [IXO-4] Offsets, epochs and broker; the lineage ends in them."""
    for said in bucket_case.complete_segments:
        segment = bucket_case.segment(said["main_key"])
        metadata = segment.manifest.metadata
        epochs = sorted((int(epoch), start) for epoch, start in said["leader_epochs"].items())
        lineage = segment.leader_epochs()

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
