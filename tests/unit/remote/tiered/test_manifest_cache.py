"""What is kept of manifests between two listings, and what is not."""

from __future__ import annotations

import pytest

from segstore.errors import CorruptCheckpointError
from segstore.remote.remote_file import RemoteFile
from segstore.remote.tiered.chunk_index import fixed_chunk_index
from segstore.remote.tiered.manifest_cache import MOST_BYTES, ManifestCache
from segstore.remote.tiered.segment_manifest import SegmentManifest


def manifest_of(plain_bytes=10, chunk_bytes=10):
    last = plain_bytes % chunk_bytes or chunk_bytes
    index = fixed_chunk_index(chunk_bytes, plain_bytes, chunk_bytes, last, overhead_bytes=0)
    return SegmentManifest(index, {}, is_compressed=False, encryption=None, metadata=None)


def file_of(name="a", size=1000, identity="1"):
    return (RemoteFile(name, size, identity, None),)


def test_the_same_object_is_read_once():
    """[RDB-3] Another size or entity tag is another object."""
    cache = ManifestCache()
    first = cache.read(file_of(), manifest_of)

    assert cache.read(file_of(), manifest_of) is first
    assert cache.read(file_of(identity="2"), manifest_of) is not first
    assert cache.read(file_of(size=999), manifest_of) is not first


def test_an_object_without_identity_is_read_each_time():
    cache = ManifestCache()
    first = cache.read(file_of(identity=None), manifest_of)
    assert cache.read(file_of(identity=None), manifest_of) is not first


def test_an_error_is_not_kept():
    cache = ManifestCache()

    def bad():
        raise CorruptCheckpointError("bad", file="a", found="x", expected="y")

    with pytest.raises(CorruptCheckpointError):
        cache.read(file_of(), bad)
    assert cache.read(file_of(), manifest_of)


@pytest.mark.parametrize(("size", "chunks"), [(MOST_BYTES // 4, 1), (1000, MOST_BYTES // 32)])
def test_what_was_used_last_is_kept_within_the_limit(size, chunks):
    """By the stored bytes, and by the chunks: a small manifest may have very many."""
    cache, made = ManifestCache(), manifest_of(chunks, 1)
    asked = []

    def read(name):
        cache.read(file_of(name, size), lambda: asked.append(name) or made)

    for name in ("a", "b", "a", "c", "a", "d", "a", "b"):
        read(name)
    assert asked == ["a", "b", "c", "d", "b"]
