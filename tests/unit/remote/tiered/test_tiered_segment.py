"""Segments of a bucket: which bytes are fetched, and what is refused."""

from __future__ import annotations

import json
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segstore.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    EncryptionKeyError,
    LimitExceededError,
    LogNotFoundError,
    LogTruncatedError,
    ReadIOError,
    SegstoreError,
)

pytest.importorskip("Crypto")

from segstore.remote.local_folder import LocalFolder
from segstore.remote.tiered import tiered_segment
from segstore.remote.tiered.key_ring import KeyRing
from segstore.remote.tiered.segment_manifest import MAX_MANIFEST_BYTES
from segstore.remote.tiered.tiered_segment import TieredSegment, read_manifest
from segstore.types import EpochEntry
from tests.fuzz.mutations import outcome
from tests.kits.golden_bucket import segment_files
from tests.kits.tiered_writer import (
    INDEXES,
    MAIN_KEY,
    chunk_sizes_block,
    object_path,
    write_key,
    write_object,
    write_segment,
)

SETTINGS = [(False, None), (True, None), (False, "k1"), (True, "k1")]
PLAIN = random.Random(1).randbytes(50) * 2 + bytes(200)


class Counting(LocalFolder):
    """A bucket that notes which ranges were asked for."""

    def __init__(self, path):
        super().__init__(path)
        self.asked = []

    def read_range(self, file, start, end):
        self.asked.append((file.path.rpartition(".")[2], start, end))
        return super().read_range(file, start, end)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    write_key(folder)
    return KeyRing(folder)


def opened(bucket, keys, store=None):
    store = store or LocalFolder(bucket)
    files = segment_files(store, MAIN_KEY)
    return TieredSegment(store, files, read_manifest(store, files.manifest), keys)


def change(bucket, suffix, position, value=1):
    path = object_path(bucket, suffix)
    data = bytearray(path.read_bytes())
    data[position] ^= value
    path.write_bytes(data)


@settings(max_examples=40)
@given(
    cut=st.tuples(st.binary(min_size=1, max_size=300), st.integers(1, 400)),
    how=st.sampled_from(SETTINGS),
    data=st.data(),
)
def test_any_range_is_that_of_the_plain_segment(tmp_path_factory, keys, cut, how, data):
    """[RDB-1] [CHK-1] [CHK-2] [CHK-3] [ENC-3] Also beyond its ends."""
    plain, chunk_size = cut
    bucket = tmp_path_factory.mktemp("bucket")
    write_segment(bucket, plain, chunk_size, compression=how[0], key_id=how[1])
    segment = opened(bucket, keys)

    assert segment.size_bytes == len(plain)
    assert segment.read(0, len(plain)) == plain
    for _ in range(4):
        start = data.draw(st.integers(0, len(plain) + 5))
        end = data.draw(st.integers(0, len(plain) + 5))
        assert segment.read(start, end) == plain[start:end]


@pytest.mark.parametrize(("compression", "key_id"), SETTINGS)
def test_a_range_fetches_its_chunks_by_one_request(tmp_path, keys, compression, key_id):
    """[RDB-1] [RDB-3] Neighbours together, and no other byte of the object."""
    write_segment(tmp_path, PLAIN, 50, compression=compression, key_id=key_id)
    store = Counting(tmp_path)
    segment = opened(tmp_path, keys, store)
    store.asked.clear()

    assert segment.read(60, 120) == PLAIN[60:120]
    first, last = segment.manifest.chunk_index.chunk(1), segment.manifest.chunk_index.chunk(2)
    end = last.stored_position + last.stored_bytes
    is_plain = not compression and key_id is None
    asked = (60, 120) if is_plain else (first.stored_position, end)
    assert store.asked == [("log", *asked)]
    assert segment.manifest.chunk_index.stored_range(60, 120) == (first.stored_position, end)
    assert segment.manifest.chunk_index.stored_range(9, 9) == (0, 0)


@pytest.mark.parametrize("limit", ["FETCH_BYTES", "FETCH_CHUNKS"])
def test_a_long_range_comes_in_requests_of_bounded_size(tmp_path, keys, monkeypatch, limit):
    """[CHK-2] A segment of a GiB is never in memory as a whole; nor are chunks of one byte."""
    monkeypatch.setattr(tiered_segment, limit, {"FETCH_BYTES": 120, "FETCH_CHUNKS": 2}[limit])
    write_segment(tmp_path, PLAIN, 30, key_id="k1")
    store = Counting(tmp_path)
    segment = opened(tmp_path, keys, store)
    store.asked.clear()

    assert [len(piece) for piece in segment.pieces(0, 300)] == [30] * 10
    assert store.asked == [("log", at, at + 116) for at in range(0, 580, 116)]


def test_a_plain_range_is_cut_at_the_size_of_a_request(tmp_path, keys, monkeypatch):
    """[CHK-2] [RDB-1] Chunks of what was not transformed are of no concern."""
    monkeypatch.setattr(tiered_segment, "FETCH_BYTES", 120)
    write_segment(tmp_path, PLAIN, 290)
    store = Counting(tmp_path)
    segment = opened(tmp_path, keys, store)
    store.asked.clear()

    assert b"".join(segment.pieces(10, 999)) == PLAIN[10:300]
    assert store.asked == [("log", 10, 130), ("log", 130, 250), ("log", 250, 300)]


def test_indexes_are_the_brokers_files(tmp_path, keys):
    """[IXO-1] [IXO-2] [IXO-4] Empty ones are not encrypted; one that was not there is None."""
    write_segment(tmp_path, PLAIN, 50, key_id="k1")
    store = Counting(tmp_path)
    segment = opened(tmp_path, keys, store)
    store.asked.clear()

    assert {name: segment.read_index(name) for name in INDEXES} == INDEXES
    assert [asked[0] for asked in store.asked] == ["indexes"] * 3
    assert segment.lineage() == (EpochEntry(0, 0), EpochEntry(10, 120))


@pytest.mark.parametrize(
    "lineage",
    [
        b"",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\n5 -1\n",
        b"0\n2\n5 10\n5 20\n",
        b"0\n2\n5 10\n6 9\n",
        b"\xff",
    ],
)
def test_a_lineage_that_does_not_ascend_is_refused(tmp_path, keys, lineage):
    """[IXO-4]."""
    write_segment(tmp_path, PLAIN, 50, indexes=INDEXES | {"leaderEpoch": lineage})

    with pytest.raises(CorruptCheckpointError, match=r"\.indexes"):
        opened(tmp_path, keys).lineage()


@pytest.mark.parametrize("compression", [False, True])
def test_every_changed_byte_of_an_encrypted_segment_is_refused(tmp_path, keys, compression):
    """[ENC-1] [ENC-3] Each byte of `.log` and `.indexes`; the error names the object."""
    write_segment(tmp_path, PLAIN, 50, compression=compression, key_id="k1")
    names = [name for name, index in INDEXES.items() if index]
    for suffix in ("log", "indexes"):
        for position in range(object_path(tmp_path, suffix).stat().st_size):
            change(tmp_path, suffix, position)
            segment = opened(tmp_path, keys)
            with pytest.raises(CorruptLogError, match=rf"\.{suffix}.*position"):  # noqa: PT012
                segment.read(0, len(PLAIN))
                for name in names:
                    segment.read_index(name)
            change(tmp_path, suffix, position)
    assert opened(tmp_path, keys).read(0, len(PLAIN)) == PLAIN


def test_a_changed_byte_of_a_manifest_gives_the_same_bytes_or_an_error(tmp_path, keys):
    """[ENC-1] It is not encrypted: who is named as the broker cannot be proved, bytes can."""
    write_segment(tmp_path, PLAIN, 50, compression=True, key_id="k1")

    def everything():
        segment = opened(tmp_path, keys)
        return segment.read(0, 10**9), {name: segment.read_index(name) for name in INDEXES}

    refused = 0
    size = object_path(tmp_path, "rsm-manifest").stat().st_size
    for position in range(size):
        change(tmp_path, "rsm-manifest", position)
        found, error = outcome(everything, SegstoreError)
        if error is None:
            assert found == (PLAIN, INDEXES)
        else:
            refused += 1
            assert MAIN_KEY in str(error)
        change(tmp_path, "rsm-manifest", position)

    assert refused > size // 2


def test_chunks_of_equal_size_that_changed_places_are_not_seen_here(tmp_path, keys):
    """[ENC-8] All chunks share key and AAD: offsets and CRCs of batches are the guard."""
    write_segment(tmp_path, PLAIN, 50, key_id="k1")
    stored = object_path(tmp_path, "log").read_bytes()
    write_object(tmp_path, "log", stored[78:156] + stored[:78] + stored[156:])

    assert opened(tmp_path, keys).read(0, 100) == PLAIN[50:100] + PLAIN[:50]


def test_a_chunk_of_another_segment_is_refused(tmp_path, keys):
    """[ENC-1] It has another key, of the same size."""
    write_segment(tmp_path / "other", PLAIN, 50, key_id="k1")
    write_segment(tmp_path / "own", PLAIN, 50, key_id="k1")
    write_object(tmp_path / "own", "log", object_path(tmp_path / "other", "log").read_bytes())

    with pytest.raises(CorruptLogError, match="another segment"):
        opened(tmp_path / "own", keys).read(0, 1)


@pytest.mark.parametrize("suffix", ["log", "indexes"])
@pytest.mark.parametrize("by", [-1, 1])
def test_an_object_of_another_size_is_refused_before_it_is_read(tmp_path, keys, suffix, by):
    """[MAN-5] [IXO-1] [RDB-5]."""
    write_segment(tmp_path, PLAIN, 50)
    path = object_path(tmp_path, suffix)
    os.truncate(path, path.stat().st_size + by)

    with pytest.raises(CorruptLogError, match=rf"\.{suffix}: the object has another size"):
        opened(tmp_path, keys)


def test_a_frame_of_another_size_than_its_chunk_is_refused(tmp_path, keys):
    """[CHK-3] The plain length is checked; a bomb is stopped by it."""
    import base64

    import zstandard

    fields = write_segment(tmp_path, PLAIN, 50, compression=True)
    for content, message in [
        (PLAIN[:49], "chunk 0 has another size"),
        (bytes(10**7), "chunk 0 cannot be decompressed"),
    ]:
        frames = [zstandard.compress(content)]
        frames += [zstandard.compress(PLAIN[at : at + 50]) for at in range(50, 300, 50)]
        block = zstandard.compress(chunk_sizes_block([len(frame) for frame in frames]))
        fields["chunkIndex"]["transformedChunks"] = base64.b64encode(block).decode()
        write_object(tmp_path, "rsm-manifest", json.dumps(fields).encode())
        write_object(tmp_path, "log", b"".join(frames))
        segment = opened(tmp_path, keys)

        with pytest.raises(CorruptLogError, match=rf"\.log, position 0: {message}"):
            segment.read(0, 10)
        assert segment.read(50, 100) == PLAIN[50:100]


def test_a_changed_byte_of_a_compressed_chunk_is_an_error_or_seen_later(tmp_path, keys):
    """[CHK-3] zstd has no checksum here: what is not a frame of that size is refused."""
    write_segment(tmp_path, PLAIN, 300, compression=True)
    for position in range(object_path(tmp_path, "log").stat().st_size):
        change(tmp_path, "log", position, 0x40)
        found, error = outcome(lambda: opened(tmp_path, keys).read(0, 300), CorruptLogError)
        assert error.position == 0 if found is None else len(found) == 300
        change(tmp_path, "log", position, 0x40)


def test_errors_of_a_read_are_told_apart(tmp_path, keys):
    """[RDB-5] [SEL-14] [DUR-144] Gone, changed, cut, without a key."""
    write_segment(tmp_path, PLAIN, 50, key_id="k1")
    with pytest.raises(EncryptionKeyError, match="rsm-manifest"):
        opened(tmp_path, KeyRing({})).read(0, 1)

    segment = opened(tmp_path, keys)
    data = object_path(tmp_path, "log").read_bytes()
    write_object(tmp_path, "log", data + b"more")
    with pytest.raises(LogTruncatedError, match=r"\.log"):
        segment.read(0, 1)
    object_path(tmp_path, "log").unlink()
    with pytest.raises(LogNotFoundError, match=r"\.log"):
        segment.read(0, 1)
    assert segment.read_index("timestamp") == bytes(12)


def test_a_manifest_that_is_too_large_is_not_fetched(tmp_path, keys):
    """[MAN-1] By its listed size."""
    write_segment(tmp_path, PLAIN, 50)
    os.truncate(object_path(tmp_path, "rsm-manifest"), MAX_MANIFEST_BYTES + 1)
    store = Counting(tmp_path)

    with pytest.raises(LimitExceededError, match="rsm-manifest"):
        opened(tmp_path, keys, store)
    assert store.asked == []


def test_a_store_that_fails_is_an_error_of_that_read(tmp_path, keys, monkeypatch):
    """[DUR-144] The next read works."""
    write_segment(tmp_path, PLAIN, 50)
    segment = opened(tmp_path, keys)

    def fail(*_arguments):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("os.pread", fail)
        with pytest.raises(ReadIOError, match=r"\.log"):
            segment.read(0, 1)
    assert segment.read(0, 1) == PLAIN[:1]
