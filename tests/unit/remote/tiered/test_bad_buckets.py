"""What is wrong with one object is named, and hides no other partition [RDB-5, DUR-144]."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from functools import partial

import pytest

from segstore.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    EncryptionKeyError,
    LogNotFoundError,
    SegstoreError,
    UnsupportedFormatError,
)

pytest.importorskip("Crypto")

from tests.fuzz.mutations import outcome
from tests.kits.golden_bucket import BucketCase, BucketPlace


@pytest.fixture
def case(packed_buckets, tmp_path):
    """A copy of an encrypted and compressed bucket with two partitions, to be damaged."""
    shutil.copytree(packed_buckets / "compressed-encrypted", tmp_path / "case")
    return BucketCase(tmp_path / "case")


@pytest.fixture
def bucket(case, tmp_path):
    """As a user opens it."""
    return BucketPlace(case, str(case.directory / "bucket"), {}).open(tmp_path / "spool")


def object_of(case, suffix, number=-2):
    """An object of partition 0: by default not of its last segment, so that it is needed."""
    found = sorted((case.directory / "bucket").rglob(f"0/*.{suffix}"))
    return found[number]


def read(bucket, partition):
    with bucket.open("epochs", partition) as log:
        return [record.offset for record in log.scan()]


def change(path, place=0.5):
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 0x10
    path.write_bytes(data)


def change_all_indexes(path):
    """The offset index may not be needed, the leader epochs of the newest segment are."""
    data = bytearray(path.read_bytes())
    data[::20] = bytes(byte ^ 1 for byte in data[::20])
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def field(path, name, value):
    fields = json.loads(path.read_bytes())
    fields[name] = value
    path.write_bytes(json.dumps(fields).encode())


SEGMENT_DAMAGE = {
    "a changed byte of .log": ("log", change, CorruptLogError),
    "a changed byte of .indexes": ("indexes", change_all_indexes, CorruptLogError),
    "bytes lost at the end of .log": ("log", cut, CorruptLogError),
    "bytes lost at the end of .indexes": ("indexes", cut, CorruptLogError),
    "a manifest that was cut": ("rsm-manifest", cut, CorruptCheckpointError),
    "an empty manifest": ("rsm-manifest", lambda path: path.write_bytes(b""), SegstoreError),
    "another version": (
        "rsm-manifest",
        lambda path: field(path, "version", "2"),
        UnsupportedFormatError,
    ),
    "another kind of chunk index": (
        "rsm-manifest",
        lambda path: field(path, "chunkIndex", {"type": "zigzag"}),
        SegstoreError,
    ),
    "a key that the ring does not have": (
        "rsm-manifest",
        lambda path: path.write_bytes(path.read_bytes().replace(b'"k1:', b'"k9:')),
        EncryptionKeyError,
    ),
}


@pytest.mark.parametrize("name", SEGMENT_DAMAGE)
def test_damage_of_one_segment_is_named_and_hides_no_other_partition(case, bucket, name):
    """[RDB-5] [SEL-1] [ENC-7] By the object: in the error, or in the reason for a gap."""
    suffix, damage, kind = SEGMENT_DAMAGE[name]
    path = object_of(case, suffix, -1 if damage is change_all_indexes else -2)
    damage(path)
    with pytest.raises(SegstoreError) as raised:
        read(bucket, 0)
    reasons = [raised.value, *(one.reason for one in bucket.left_out("epochs", 0))]

    named = [one for one in reasons if re.search(re.escape(path.stem), str(one))]
    assert [one for one in named if isinstance(one, kind)]
    assert len(read(bucket, 1)) == 429
    assert {str(one) for one in bucket.partitions()} == {"epochs-0", "epochs-1"}


def test_a_wrong_key_is_named_with_its_id_and_its_file(case, tmp_path):
    """[ENC-4] [ENC-7] A key of another pair opens no segment."""
    from Crypto.PublicKey import RSA

    path = case.directory / "keys" / "k1.private.pem"
    path.write_bytes(RSA.generate(2048).export_key(pkcs=8))
    bucket = BucketPlace(case, str(case.directory / "bucket"), {}).open(tmp_path / "spool")
    with pytest.raises(EncryptionKeyError, match=r"rsm-manifest.*'k1'") as raised:
        read(bucket, 0)
    assert "BEGIN" not in str(raised.value)


def test_a_partition_of_bad_segments_alone_says_so(case, bucket):
    """[SEL-1] [DUR-144] Not an empty log, and no topic without it: records would be missing."""
    for path in (case.directory / "bucket").rglob("0/*.rsm-manifest"):
        field(path, "version", "7")
    with pytest.raises(LogNotFoundError, match=r"epochs-0: no segment .* can be read.*version '7'"):
        read(bucket, 0)
    with pytest.raises(LogNotFoundError, match=r"epochs-0: no segment .* can be read.*version '7'"):
        bucket.to_arrow("epochs")
    assert bucket.to_arrow("epochs", partitions=[1]).num_rows == 429


def test_a_partition_of_unfinished_copies_alone_has_no_records(case, bucket):
    """[SEL-1] [DUR-142] The first copy is on its way: the topic is read without it."""
    for path in (case.directory / "bucket").rglob("0/*.rsm-manifest"):
        path.unlink()
    with pytest.raises(LogNotFoundError, match=r"no segment .* can be read.*an unfinished copy"):
        read(bucket, 0)
    assert bucket.to_arrow("epochs").num_rows == 429


def test_a_changed_byte_of_each_object_is_refused(packed_buckets, tmp_path):
    """[ENC-3] [DUR-144] Or nothing of it was needed, as of a segment below the log start."""
    case = BucketCase(packed_buckets / "compressed-encrypted")
    refused = 0
    for number, path in enumerate(sorted((case.directory / "bucket").rglob("0/*"))):
        if path.suffix == ".rsm-manifest":
            continue
        place = tmp_path / str(number)
        shutil.copytree(case.directory, place)
        change(place / path.relative_to(case.directory), zlib.crc32(path.name.encode()) / 2**32)
        bucket = BucketPlace(BucketCase(place), str(place / "bucket"), {}).open(place / "spool")
        found, error = outcome(partial(read, bucket, 0), SegstoreError)
        assert found == list(range(164, 517)) if error is None else path.stem in str(error)
        refused += error is not None
        shutil.rmtree(place)
    assert refused
