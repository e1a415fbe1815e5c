"""Storages of Kafka's ``LocalTieredStorage``: cut, damaged and strange ones."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    CorruptSnapshotError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.remote.storage.segment_files import STORAGE_FOLDER
from tests.kits.cli_process import run_segstore
from tests.kits.golden import packed_tiered

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.remote.tiered.tiered_partition import LeftOut

TOPIC = "payments"


@pytest.fixture
def storage(pytestconfig: pytest.Config, tmp_path: Path) -> Path:
    """A copy of a storage with transactions, to be damaged."""
    source = packed_tiered(pytestconfig) / "tiered-transactions" / "remote" / STORAGE_FOLDER
    shutil.copytree(source, tmp_path / STORAGE_FOLDER)
    return tmp_path / STORAGE_FOLDER


@pytest.fixture
def epochs(pytestconfig: pytest.Config, tmp_path: Path) -> Path:
    """A copy of a storage with segments of several leader epochs."""
    source = packed_tiered(pytestconfig) / "tiered-leader-epochs" / "remote" / STORAGE_FOLDER
    shutil.copytree(source, tmp_path / "epochs" / STORAGE_FOLDER)
    return tmp_path / "epochs" / STORAGE_FOLDER


def bucket_of(storage: Path, **options: Any) -> segstore.Bucket:
    spool = str(storage.parent / "spool")
    return segstore.open_bucket(storage, spool_directory=spool, **options)


def files_of(storage: Path, suffix: str) -> list[Path]:
    return sorted(storage.rglob(f"*.{suffix}"), key=lambda path: path.name)


def left_out(storage: Path, topic: str = TOPIC) -> LeftOut:
    (left,) = bucket_of(storage).left_out(topic, 0)
    return left


def offsets(storage: Path) -> list[int]:
    with bucket_of(storage).open(TOPIC, 0) as log:
        return [record.offset for record in log.scan()]


def test_a_storage_is_a_bucket(storage):
    """[TIER-95] Topics, ids and partitions; the log begins and ends as the copies do."""
    bucket = bucket_of(storage)

    assert bucket.topics() == [TOPIC]
    assert len(bucket.topic_ids(TOPIC)) == 1
    assert [str(one) for one in bucket.partitions()] == ["payments-0"]
    assert bucket.left_out(TOPIC, 0) == []
    with bucket.open(TOPIC, 0) as log:
        assert (log.log_start_offset, log.log_end_offset, log.last_stable_offset) == (0, 342, 332)
    assert bucket.verify(TOPIC, 0).ok


def test_a_storage_in_s3_reads_as_the_folder(storage, s3):
    """Where somebody has put it."""
    for path in storage.rglob("*"):
        if path.is_file():
            name = f"a/{STORAGE_FOLDER}/{path.relative_to(storage).as_posix()}"
            s3.objects[name] = path.read_bytes()
    remote = segstore.open_bucket(
        f"s3://bucket/a/{STORAGE_FOLDER}",
        spool_directory=str(storage.parent / "spool"),
        **s3.settings,
    )
    with remote.open(TOPIC, 0) as log:
        assert [record.offset for record in log.scan()] == offsets(storage)


def test_the_commands_read_a_storage(storage):
    """They know it by its name."""
    listed = run_segstore("ls", storage)
    assert listed.returncode == 0, listed.stderr
    assert b"payments          0      0  342" in listed.stdout
    assert run_segstore("verify", storage).returncode == 0


def test_a_storage_under_another_name_is_told(storage):
    """It looks like a bucket of Aiven's plug-in whose topics end in a number."""
    storage.rename(storage.with_name("other"))
    with pytest.raises(LogNotFoundError, match=f"name its folder {STORAGE_FOLDER}"):
        bucket_of(storage.with_name("other")).partitions()


def test_files_that_are_none_of_the_storage_change_nothing(storage):
    """Names as somebody's editor leaves them, and folders that are no partition's."""
    before = offsets(storage)
    (folder,) = storage.iterdir()
    (folder / "notes.txt").write_text("x")
    (folder / "00000000000000000000-short.log").write_text("x")
    (storage / "payments-1").mkdir()
    (storage / f"payments-9999999999-{folder.name[-22:]}").mkdir()
    (storage / f"a b-0-{folder.name[-22:]}").mkdir()

    assert offsets(storage) == before
    assert [str(one) for one in bucket_of(storage).partitions()] == ["payments-0"]


@pytest.mark.parametrize(
    "suffix", ["log", "index", "timeindex", "leader_epoch_checkpoint", "snapshot"]
)
def test_a_copy_without_one_of_its_files_is_left_out(storage, suffix):
    """[TIER-95] [SEL-1] The last one: what is below is read."""
    files_of(storage, suffix)[-1].unlink()
    left = left_out(storage)

    assert isinstance(left.reason, LogNotFoundError)
    assert "was not finished" in str(left.reason)
    assert len(offsets(storage)) > 250


@pytest.mark.parametrize("size", [0, 5, 9])
def test_a_copy_whose_snapshot_is_cut_is_left_out(storage, size):
    """It is copied last: what else is there may be cut too."""
    path = files_of(storage, "snapshot")[-1]
    path.write_bytes(path.read_bytes()[:size])

    assert isinstance(left_out(storage).reason, LogNotFoundError)
    assert str(path) in str(left_out(storage).reason)
    assert offsets(storage)[-1] == 340


def test_a_first_copy_whose_snapshot_is_cut_is_no_partition_yet(storage):
    """Its topic reads as one that has nothing."""
    for path in storage.rglob("*"):
        if path.is_file() and not path.name.startswith("0" * 20):
            path.unlink()
    files_of(storage, "snapshot")[0].write_bytes(b"")

    assert bucket_of(storage).count(TOPIC) == 0


@pytest.mark.parametrize("number", [0, -1])
def test_a_damaged_snapshot_at_an_end_is_an_error(storage, number):
    """[DUR-142] All of it is there, so the copy was finished."""
    path = files_of(storage, "snapshot")[number]
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)

    assert isinstance(left_out(storage).reason, CorruptSnapshotError)
    with pytest.raises(CorruptLogError, match=path.name):
        offsets(storage)


@pytest.mark.parametrize("cut", [1, 40])
def test_a_log_that_is_cut_is_left_out(storage, cut):
    """Its end is not the end of a batch."""
    path = files_of(storage, "log")[-1]
    path.write_bytes(path.read_bytes()[:-cut])
    left = left_out(storage)

    assert isinstance(left.reason, CorruptLogError)
    assert str(path) in str(left.reason)


def test_an_empty_log_is_left_out(storage):
    """It has no end."""
    files_of(storage, "log")[-1].write_bytes(b"")
    files_of(storage, "index")[-1].write_bytes(b"")
    assert "no batch" in str(left_out(storage).reason)


def test_a_segment_that_begins_elsewhere_is_left_out(storage):
    """Its name says more than its batches."""
    for path in storage.rglob("00000000000000000005-*"):
        path.rename(path.with_name(f"{10**15:020}{path.name[20:]}"))
    assert "from its start offset on" in str(left_out(storage).reason)
    with pytest.raises(CorruptLogError, match="a gap from offset 5 to 51"):
        offsets(storage)


@pytest.mark.parametrize("text", ["", "0\n0\n", "1\n0\n", "0\n2\n1 5\n0 7\n", "0\n1\n0 x\n"])
def test_damaged_leader_epochs_leave_a_copy_out(storage, text):
    """[TIER-36] As Kafka reads the file."""
    files_of(storage, "leader_epoch_checkpoint")[-1].write_text(text)
    left = left_out(storage)

    assert isinstance(left.reason, CorruptCheckpointError)
    assert "leader_epoch_checkpoint" in str(left.reason)


def test_leader_epochs_above_the_segment_leave_a_copy_out(storage):
    """None of them has records of it."""
    files_of(storage, "leader_epoch_checkpoint")[-1].write_text("0\n1\n0 100000\n")
    assert "no leader epoch of the checkpoint" in str(left_out(storage).reason)


def test_epochs_of_a_segment_are_those_within_it(epochs):
    """[TIER-35] [MAN-8] The first one begins where the segment does."""
    store = bucket_of(epochs)._store
    partition = store.partition(store.partitions()[0])

    for segment in partition.segments:
        starts = [entry.start_offset for entry in segment.leader_epochs]
        assert starts[0] == segment.start_offset
        assert starts == sorted(set(starts))
        assert starts[-1] <= segment.end_offset


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex", "txnindex", "snapshot"])
def test_a_changed_byte_is_found_or_changes_nothing(storage, suffix):
    """[RDB-4] By the check of the bucket; reads raise, or give the records of the broker."""
    before = offsets(storage)
    path = max(files_of(storage, suffix)[1:-1], key=lambda one: one.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    bucket = bucket_of(storage)

    error = None
    try:
        assert offsets(storage) == before
    except SegstoreError as raised:
        error = raised
    assert error is None or path.name[:20] in str(error) or "a gap" in str(error)
    if suffix != "txnindex":  # the markers count
        assert not bucket.verify(TOPIC, 0).ok


def test_an_index_position_behind_the_segment_is_no_place(storage):
    """[IDX-2] The end is found from the last place within it."""
    path = max(files_of(storage, "index"), key=lambda one: one.stat().st_size)
    path.write_bytes(path.read_bytes() + struct.pack(">ii", 2**31 - 1, 2**31 - 1))
    assert bucket_of(storage).left_out(TOPIC, 0) == []


def test_a_file_that_vanishes_is_an_error_of_the_listing(storage):
    """[DUR-144] [RDB-5] Gone between the listing and the read."""
    from segstore.remote.local_folder import LocalFolder
    from segstore.remote.tiered.key_ring import KeyRing
    from segstore.remote.tiered.local_tiered_layout import LocalTieredLayout

    class Vanishing(LocalFolder):
        def list_folder(self, folder: str) -> Any:
            listed = super().list_folder(folder)
            if folder:
                files_of(storage, "snapshot")[0].unlink(missing_ok=True)
            return listed

    layout = LocalTieredLayout(Vanishing(storage), KeyRing({}), None)
    (topic_id,) = layout.topic_ids()[TOPIC]
    with pytest.raises(LogNotFoundError, match="was gone when it was read"):
        layout.partition(TOPIC, topic_id, 0)
