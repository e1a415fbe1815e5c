"""Manifests: what is taken, and what is refused with its field."""

from __future__ import annotations

import copy
import json

import pytest

from segstore.errors import CorruptCheckpointError, LimitExceededError, UnsupportedFormatError

pytest.importorskip("Crypto")

from segstore.remote.tiered.object_key import parse_object_key
from segstore.remote.tiered.segment_manifest import MAX_MANIFEST_BYTES, check_key, parse_manifest
from segstore.types import EpochEntry
from tests.kits.tiered_writer import MAIN_KEY, write_segment

FILE = "bucket/a.rsm-manifest"


@pytest.fixture(scope="module")
def fields(tmp_path_factory):
    """The fields of a manifest of a compressed and encrypted segment."""
    bucket = tmp_path_factory.mktemp("bucket")
    return write_segment(bucket, bytes(100), 30, compression=True, key_id="k1")


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    """Those of a segment that was only encrypted."""
    return write_segment(tmp_path_factory.mktemp("bucket"), bytes(100), 30, key_id="k1")


def changed(fields, path, value):
    """Return the text with one field changed; no value: without it."""
    made = copy.deepcopy(fields)
    *parents, name = path.split(".")
    at = made
    for parent in parents:
        at = at[parent]
    at[name] = value
    if value is ...:
        del at[name]
    return json.dumps(made).encode()


def test_epochs_are_sorted_as_numbers(fields):
    """[MAN-7] 10 is above 9, and the fields have no order."""
    manifest = parse_manifest(json.dumps(fields).encode(), FILE)

    assert manifest.metadata.leader_epochs == (EpochEntry(0, 100), EpochEntry(10, 120))


@pytest.mark.parametrize("epochs", [{"3": 150}, {"1": 100, "3": 100}, {"1": 100, "7": 120}])
def test_epochs_that_may_be_are_not_refused(fields, epochs):
    """[MAN-8] A log start inside the segment, an epoch without records, epochs missing between."""
    text = changed(fields, "remoteLogSegmentMetadata.segmentLeaderEpochs", epochs)

    assert len(parse_manifest(text, FILE).metadata.leader_epochs) == len(epochs)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", ...),
        ("version", 1),
        ("compression", ...),
        ("compression", 1),
        ("compression", None),
        ("compression", False),
        ("chunkIndex", []),
        ("chunkIndex.type", "Fixed"),
        ("chunkIndex.originalChunkSize", 30.0),
        ("chunkIndex.originalChunkSize", True),
        ("chunkIndex.originalFileSize", "100"),
        ("chunkIndex.originalFileSize", 2**31),
        ("chunkIndex.transformedChunks", "KLUv*"),
        ("chunkIndex.transformedChunks", 5),
        ("segmentIndexes.offset", None),
        ("segmentIndexes.timestamp.position", 1),
        ("segmentIndexes.timestamp.size", 28),
        ("segmentIndexes.timestamp.size", -1),
        ("encryption.aad", "AAAA"),
        ("encryption.aad", ...),
        ("encryption.dataKey", ":AAAA"),
        ("encryption.dataKey", "a:b:AAAA"),
        ("encryption.dataKey", "k1:no base64"),
        ("remoteLogSegmentMetadata.remoteLogSegmentId.id", "short"),
        ("remoteLogSegmentMetadata.remoteLogSegmentId.topicIdPartition.topicId", None),
        (
            "remoteLogSegmentMetadata.remoteLogSegmentId.topicIdPartition.topicPartition.topic",
            "a/b",
        ),
        (
            "remoteLogSegmentMetadata.remoteLogSegmentId.topicIdPartition.topicPartition.partition",
            -1,
        ),
        ("remoteLogSegmentMetadata.startOffset", -1),
        ("remoteLogSegmentMetadata.endOffset", 99),
        ("remoteLogSegmentMetadata.maxTimestampMs", 2**63),
        ("remoteLogSegmentMetadata.brokerId", ...),
        ("remoteLogSegmentMetadata.segmentLeaderEpochs", {}),
        ("remoteLogSegmentMetadata.segmentLeaderEpochs", {"01": 100}),
        ("remoteLogSegmentMetadata.segmentLeaderEpochs", {"-1": 100}),
        ("remoteLogSegmentMetadata.segmentLeaderEpochs", {"2147483648": 100}),
        ("remoteLogSegmentMetadata.segmentLeaderEpochs", {"\ud800": 100}),
        ("remoteLogSegmentMetadata.segmentLeaderEpochs", {"1": 99}),
        ("remoteLogSegmentMetadata.segmentLeaderEpochs", {"1": 200}),
        ("remoteLogSegmentMetadata.segmentLeaderEpochs", {"1": 120, "2": 110}),
    ],
)
def test_a_wrong_field_is_named(fields, path, value):
    """[MAN-2] [MAN-7] [MAN-8] [ENC-2] [IXO-1] File, field, found and expected."""
    with pytest.raises(CorruptCheckpointError) as raised:
        parse_manifest(changed(fields, path, value), FILE)

    said = str(raised.value).encode().decode()
    assert FILE in said
    assert "found" in said
    assert "expected" in said
    if path != "compression" or value is not False:
        assert path.rpartition(".")[2].rstrip("s") in said


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("chunkIndex.transformedChunkSize", 30),
        ("chunkIndex.finalTransformedChunkSize", 10),
        ("chunkIndex.finalTransformedChunkSize", ...),
        ("chunkIndex.type", "variable"),
        ("compression", True),
        ("encryption", None),
    ],
)
def test_a_fixed_index_is_28_bytes_a_chunk_larger_with_encryption_alone(fixed, path, value):
    """[MAN-3] [CHK-4] Type and sizes follow from compression and encryption."""
    parse_manifest(json.dumps(fixed).encode(), FILE)

    with pytest.raises(CorruptCheckpointError):
        parse_manifest(changed(fixed, path, value), FILE)


def test_a_missing_transaction_index_is_none(fields):
    """[IXO-1] Null, and left out."""
    null = parse_manifest(json.dumps(fields).encode(), FILE)
    absent = parse_manifest(changed(fields, "segmentIndexes.transaction", ...), FILE)

    assert "transaction" not in null.indexes
    assert absent == null


@pytest.mark.parametrize("version", ["2", "", "1.0"])
def test_an_unknown_version_is_refused_as_such(fields, version):
    """[MAN-2] [RDB-5] [VER-1]."""
    with pytest.raises(UnsupportedFormatError, match="expected version '1'"):
        parse_manifest(changed(fields, "version", version), FILE)


@pytest.mark.parametrize(
    ("path", "value", "until"),
    [
        ("segmentIndexes", ..., "2023-10-10"),
        ("remoteLogSegmentMetadata", ..., "2023-09-07"),
        ("encryption.dataKey", "AAAA", "2023-07-18"),
    ],
)
def test_manifests_of_old_builds_are_told_apart(fields, path, value, until):
    """[VER-2] [VER-3] From 2023-11-16 on the format is one."""
    with pytest.raises(UnsupportedFormatError, match=until):
        parse_manifest(changed(fields, path, value), FILE)


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (b"", 0),
        (b"{", 1),
        (b'{"version":"1"', 14),
        (b"\xff{}", 0),
        (b"[]", None),
        (b"1", None),
        (b"[" * 100000, None),
        (b'{"version":' + b"9" * 10000 + b"}", None),
        ('{"ä":'.encode(), 6),
    ],
)
def test_what_is_no_json_object_is_refused(data, position):
    """[MAN-1] A cut manifest, as a folder can hold it [BKT-7]; hostile ones."""
    with pytest.raises(CorruptCheckpointError, match="damaged or was cut") as raised:
        parse_manifest(data, FILE)
    assert raised.value.position == position


def test_a_manifest_has_a_limit():
    """[MAN-1] [MAN-4]."""
    with pytest.raises(LimitExceededError):
        parse_manifest(bytes(MAX_MANIFEST_BYTES + 1), FILE)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("orders", "payments", "topic"),
        ("MNLa-lFfSKy8CJMN7PSmCg", "ywNGp7RQSYSZHOkzcztCrQ", "topic id"),
        ("/0/", "/1/", "partition"),
        ("00100", "00101", "start offset"),
        ("ywNGp7RQSYSZHOkzcztCrQ", "MNLa-lFfSKy8CJMN7PSmCg", "segment id"),
    ],
)
def test_a_manifest_under_another_key_is_refused(fields, old, new, named):
    """[SEL-1] It must agree with its key."""
    manifest = parse_manifest(json.dumps(fields).encode(), FILE)
    check_key(manifest, parse_object_key(f"{MAIN_KEY}.rsm-manifest"), FILE)

    key = parse_object_key(f"{MAIN_KEY}.rsm-manifest".replace(old, new))
    with pytest.raises(CorruptCheckpointError, match=f"another {named} than its key"):
        check_key(manifest, key, FILE)
