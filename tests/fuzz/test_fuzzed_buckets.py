"""A bucket of strangers may hold any bytes in any object of a segment.

Each read gives bytes that fit the manifest, or an error of ours that names the object.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segstore.errors import SegstoreError
from tests.fuzz.mutations import anything_like, changed, outcome

pytest.importorskip("Crypto")

from segstore.remote.bucket import open_bucket
from segstore.remote.local_folder import LocalFolder
from segstore.remote.tiered.chunk_index import variable_chunk_index
from segstore.remote.tiered.key_ring import KeyRing
from segstore.remote.tiered.object_key import SUFFIXES, parse_object_key
from segstore.remote.tiered.segment_manifest import INDEX_NAMES, parse_manifest
from segstore.remote.tiered.tiered_segment import TieredSegment, read_manifest
from segstore.remote.tiered.zstd_chunk import undo_zstd
from tests.kits.golden_bucket import BucketCase, segment_files

MOST_OF_AN_ERROR = 1000


@pytest.fixture(scope="module")
def packed_case(packed_buckets: Path) -> BucketCase:
    """An encrypted and compressed case: an input that was found is the same in every run."""
    return BucketCase(packed_buckets / "compressed-encrypted")


@pytest.fixture(scope="module")
def objects(packed_case: BucketCase) -> dict[str, bytes]:
    """The objects of one segment."""
    main_key = packed_case.complete_segments[0]["main_key"]
    return {
        suffix: (packed_case.directory / "bucket" / f"{main_key}.{suffix}").read_bytes()
        for suffix in SUFFIXES
    }


@given(data=st.data())
def test_any_manifest_is_parsed_or_refused(objects, data):
    """[MAN-1] [MAN-2] What is parsed has a size that its chunks have together."""
    text = data.draw(anything_like(st.just(objects["rsm-manifest"])))
    manifest, error = outcome(lambda: parse_manifest(text, "bucket/m"), SegstoreError)
    if error is not None:
        assert "bucket/m" in str(error)
        assert len(str(error)) < MOST_OF_AN_ERROR
        return
    index = manifest.chunk_index
    count = index.chunk_count
    assert count == -(-index.original_file_size // index.original_chunk_size)
    assert manifest.indexes_bytes == max(
        (one.position + one.size for one in manifest.indexes.values()), default=0
    )


@given(data=st.data(), chunk_size=st.integers(1, 2**30), file_size=st.integers(0, 2**31 - 1))
def test_any_chunk_index_is_taken_or_refused(objects, data, chunk_size, file_size):
    """[MAN-4] [MAN-5]."""
    good = objects["log"][:200]
    block = data.draw(anything_like(st.just(good)))
    index, error = outcome(
        lambda: variable_chunk_index(chunk_size, file_size, block), SegstoreError
    )
    assert (index is None) != (error is None)


@given(data=st.binary(max_size=300), limit=st.integers(0, 1000))
def test_any_frame_is_undone_or_refused(data, limit):
    """[CHK-3] Never more than was asked for."""
    content, error = outcome(lambda: undo_zstd(data, limit), SegstoreError)
    assert error is not None or len(content) <= limit


@settings(max_examples=60)
@given(data=st.data())
def test_any_objects_give_their_own_bytes_or_an_error(packed_case, objects, data):
    """[ENC-1] [RDB-5] [IXO-1] One object changed: what is read equals the good one."""
    main_key = packed_case.complete_segments[0]["main_key"]
    good = packed_case.segment(main_key)
    whole = good.read(0, good.size_bytes)
    suffix = data.draw(st.sampled_from(SUFFIXES))
    place = Path(tempfile.mkdtemp())
    try:
        for name, content in objects.items():
            path = place / f"{main_key}.{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            changed_or_not = data.draw(changed(st.just(content))) if name == suffix else content
            path.write_bytes(changed_or_not)
        store = LocalFolder(place)

        def read():
            files = segment_files(store, main_key)
            segment = TieredSegment(
                store, files, read_manifest(store, files.manifest), packed_case.keys
            )
            return segment.read(0, segment.size_bytes), [
                segment.read_index(name) for name in INDEX_NAMES
            ]

        found, error = outcome(read, SegstoreError)
        if error is not None:
            assert main_key in str(error)
        else:
            assert found == (whole, [good.read_index(name) for name in INDEX_NAMES])
    finally:
        shutil.rmtree(place)


@given(key=st.text(max_size=120))
def test_any_key_is_parsed_or_none_of_ours(key):
    """[BKT-3] [BKT-4]."""
    parsed = parse_object_key(key)
    assert parsed is None or f"{parsed.main_key}.{parsed.suffix}" == key


def test_a_missing_key_is_an_error_of_the_read(packed_case):
    """[ENC-7] It names the object."""
    main_key = packed_case.complete_segments[0]["main_key"]
    store = packed_case.store
    files = segment_files(store, main_key)
    segment = TieredSegment(store, files, read_manifest(store, files.manifest), KeyRing({}))
    _, error = outcome(lambda: segment.read(0, 1), SegstoreError)

    assert main_key in str(error)


@pytest.fixture(scope="module")
def plain_bucket(packed_buckets: Path, tmp_path_factory: pytest.TempPathFactory):
    """One partition without encryption, and its records."""
    case = BucketCase(packed_buckets / "leftovers")
    folder = f"orders-{case.said['partitions']['orders-1']['topic_id']}/1"
    root = tmp_path_factory.mktemp("plain") / "bucket"
    shutil.copytree(case.directory / "bucket" / folder, root / folder)
    return root, records_of(root, root.parent / "spool")


def records_of(root: Path, spool: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    bucket = open_bucket(root, keys={}, spool_directory=str(spool))
    with bucket.open("orders", 1) as log:
        return [(record.offset, record.key, record.value) for record in log.scan()]


@settings(max_examples=60)
@given(data=st.data())
def test_a_plain_bucket_with_one_changed_object_gives_no_wrong_record(plain_bucket, data):
    """[IXO-3] [IXO-4] [MAN-5] [RDB-5] Plain indexes and manifests prove nothing: batches do.

    What is read are records of the log in their order, or the error names the partition.
    """
    root, whole = plain_bucket
    names = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    name = data.draw(st.sampled_from(names))
    place = Path(tempfile.mkdtemp())
    try:
        shutil.copytree(root, place / "bucket")
        path = place / "bucket" / name
        path.write_bytes(data.draw(changed(st.just(path.read_bytes()))))
        found, error = outcome(lambda: records_of(place / "bucket", place / "spool"), SegstoreError)
        if error is not None:
            assert str(place / "bucket") in str(error)
            assert len(str(error)) < MOST_OF_AN_ERROR
        else:
            there = dict.fromkeys(whole)
            assert [row for row in found if row not in there] == []
            assert found == sorted(found, key=lambda row: row[0])
            assert len({row[0] for row in found}) == len(found)
    finally:
        shutil.rmtree(place)
