"""Listings of a million objects: gone through page by page, and not kept."""

from __future__ import annotations

import random
import shutil
import tracemalloc

import pytest

pytest.importorskip("Crypto")

from segstore.remote.local_folder import LocalFolder
from segstore.remote.object_store import ObjectStore
from segstore.remote.remote_file import RemoteFile
from segstore.remote.tiered import tiered_partition
from segstore.remote.tiered.key_ring import KeyRing
from segstore.remote.tiered.tiered_partition import list_partition
from tests.kits.tiered_writer import MAIN_KEY, TOPIC_ID, write_segment

FOLDER = MAIN_KEY.rpartition("/")[0]
MILLION = 1_000_000


class LargeFolder(LocalFolder):
    """The folder's own files, then a million that are not there."""

    def __init__(self, path, name, count=MILLION) -> None:
        super().__init__(path)
        self._name, self._count = name, count

    def iter_files(self, folder):
        yield from super().iter_files(folder)
        for number in range(self._count):
            yield RemoteFile(f"{folder}/{self._name.format(number)}", 1, f"tag {number}", 0)


@pytest.fixture
def bucket(tmp_path):
    write_segment(tmp_path, bytes(1000), 100)
    return tmp_path


def peak_of(list_it):
    tracemalloc.start()
    try:
        found = list_it()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("x{:020d}.tmp", 0),
        (f"01{{:018d}}-{TOPIC_ID}.log", tiered_partition.MOST_LEFT_OUT + 1),
    ],
    ids=["others", "unfinished copies"],
)
def test_a_million_objects_take_no_memory_each(bucket, name, left_out):
    """[SEL-1] [SEL-14] Copies that are not read are told up to a number, then counted."""
    store = LargeFolder(bucket, name, MILLION if not left_out else MILLION // 10)
    found, peak = peak_of(lambda: list_partition(store, FOLDER, KeyRing({})))

    assert len(found.segments) == 1
    assert len(found.left_out) == left_out
    assert peak < 40_000_000
    if left_out:
        assert "90000 more copies" in str(found.left_out[-1].reason)


def test_a_listing_in_any_order_gives_the_same(packed_buckets):
    """Some stores list so."""
    case = packed_buckets / "leftovers" / "bucket"

    class Shuffled(LocalFolder):
        def iter_files(self, folder):
            files = list(super().iter_files(folder))
            random.Random(1).shuffle(files)
            yield from files

    folders = {path.parent.relative_to(case).as_posix() for path in case.rglob("*.log")}
    for folder in folders:
        expected = list_partition(LocalFolder(case), folder, KeyRing({}))
        found = list_partition(Shuffled(case), folder, KeyRing({}))
        assert [one.log_name for one in found.segments] == [
            one.log_name for one in expected.segments
        ]
        assert [one.main_key for one in found.left_out] == [
            one.main_key for one in expected.left_out
        ]
    assert folders


def test_an_object_store_lists_page_by_page(bucket, s3, monkeypatch):
    """[BKT-5] What lies deeper, or in a folder of a longer name, is none of it."""
    root = bucket / FOLDER
    for number in range(25):
        shutil.copy(next(root.glob("*.log")), root / f"a{number:02}")
    for path in bucket.rglob("*"):
        if path.is_file():
            s3.objects[f"logs/{path.relative_to(bucket).as_posix()}"] = path.read_bytes()
    s3.objects[f"logs/{FOLDER}/deeper/x"] = b"x"
    s3.objects[f"logs/{FOLDER}0/x"] = b"x"
    monkeypatch.setattr("segstore.remote.object_store.PAGE_OBJECTS", 7)
    store = ObjectStore("s3://bucket/logs", s3.settings)

    found = list(store.iter_files(FOLDER))
    assert found == sorted(store.list_folder(FOLDER).files.values())
    assert len(found) == 28
    assert list(store.iter_files("absent")) == []
