"""A topic that was deleted and created again: one id is read, and all are told [SEL-12]."""

from __future__ import annotations

import os
import shutil
import uuid

import pytest

pytest.importorskip("pyarrow")

import segstore
from segstore.errors import ReadIOError
from segstore.remote.local_folder import LocalFolder
from segstore.remote.tiered.topic_choice import LatestCopy, choose_topic_id, latest_of

CURRENT = "2Metzk41TQatwGpeB-d-mQ"
ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def bucket(packed_buckets, tmp_path):
    """Two ids of the topic orders."""
    shutil.copytree(packed_buckets / "leftovers" / "bucket", tmp_path / "bucket")
    return tmp_path / "bucket"


def look(bucket, tmp_path):
    opened = segstore.open_bucket(bucket, keys={}, spool_directory=str(tmp_path / "spool"))
    with opened.open("orders", 0) as log:
        notes = [one for one in log.report.warnings if "created again" in one]
        return (log.log_start_offset, log.log_end_offset), notes


def manifests(bucket, *, current):
    found = sorted(bucket.rglob("*.rsm-manifest"))
    return [one for one in found if (CURRENT in str(one)) is current]


def test_the_choice_is_told(bucket, tmp_path):
    """By an open, a check and a restore."""
    bounds, (note,) = look(bucket, tmp_path)

    assert bounds == (157, 193)
    assert f"the topic id {CURRENT} is read" in note
    assert "(older)" in note
    opened = segstore.open_bucket(bucket, keys={}, spool_directory=str(tmp_path / "spool"))
    assert note in opened.verify("orders", 0).notes
    reports = segstore.restore_bucket(bucket, tmp_path / "data", keys={})
    assert [one.topic_note for one in reports] == [note, note]


def test_an_id_without_a_complete_copy_may_be_the_newest(bucket, tmp_path):
    """Records of a deleted topic are not served as the topic's without a word."""
    for path in manifests(bucket, current=True):
        path.unlink()
    _, (note,) = look(bucket, tmp_path)

    assert f"{CURRENT} (it has no complete copy, and may be the newest one)" in note


@pytest.mark.parametrize("current", [False, True])
def test_a_fault_of_another_id_hides_no_topic(bucket, tmp_path, monkeypatch, current):
    """[DUR-144] The store's times tell which one is newer; the fault of that one is an error."""
    for is_current in (False, True):
        for path in manifests(bucket, current=is_current):
            os.utime(path, (2_000 + is_current, 2_000 + is_current))
    bad = {path.name for path in manifests(bucket, current=current)}
    read_range = LocalFolder.read_range

    def fail(self, file, start, end):
        if file.name in bad:
            raise ReadIOError("the store failed", file=file.path)
        return read_range(self, file, start, end)

    monkeypatch.setattr(LocalFolder, "read_range", fail)
    if current:
        with pytest.raises(ReadIOError, match=CURRENT):
            look(bucket, tmp_path)
    else:
        bounds, (note,) = look(bucket, tmp_path)
        assert bounds == (157, 193)
        assert "its newest manifest cannot be read" in note
        assert "the store failed" in note


def test_one_manifest_of_each_partition_is_read(bucket, tmp_path, monkeypatch):
    """Of an id that is not opened; the choice costs no more."""
    read = []
    read_range = LocalFolder.read_range

    def note(self, file, start, end):
        read.append(file.path)
        return read_range(self, file, start, end)

    monkeypatch.setattr(LocalFolder, "read_range", note)
    look(bucket, tmp_path)
    old = [one for one in read if CURRENT not in one]
    folders = {one.rpartition("/")[0] for one in old}
    assert len(old) == len(folders)


def test_without_times_of_the_store_an_unknown_id_is_an_error():
    error = ReadIOError("failed", file="x")
    with pytest.raises(ReadIOError, match="failed"):
        choose_topic_id("t", {ONE: LatestCopy(7, None), TWO: LatestCopy(None, 3, error)})
    assert choose_topic_id("t", {ONE: None, TWO: LatestCopy(0, None)}).topic_id == TWO
    assert latest_of([None, LatestCopy(None, 4, error), LatestCopy(9, None)]) == (9, 4, error)
    assert latest_of([None]) is None
