"""Partitions of buckets as a broker's directories: killed, on full disks, of damaged buckets."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segstore
from segstore import cli
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    DiskFullError,
    EncryptionKeyError,
    IllegalArgumentError,
    LogLockedError,
    LogNotFoundError,
    NotALogError,
    ReadIOError,
    UnknownTopicOrPartitionError,
)
from segstore.log.producers.producer_snapshot import format_snapshot
from segstore.remote.bucket import open_tiered_store
from segstore.remote.bucket_restore import restore_partitions
from segstore.remote.tiered.partition_restore import with_new_epoch
from segstore.types import EpochEntry
from tests.kits.cli_process import run_segstore
from tests.kits.golden_bucket import BucketCase
from tests.kits.records_kit import build
from tests.kits.small_disk import small_disk
from tests.kits.tiered_writer import INDEXES, METADATA, write_segment

if TYPE_CHECKING:
    from tests.kits.s3_server import Handler, Store
    from tests.kits.small_disk import SmallDisk

pytest.importorskip("Crypto")

__all__ = ["small_disk"]

GUIDE = Path(__file__).parents[3] / "docs" / "guide.md"
STEPS_OF = ("partition_restore.py", "bucket_restore.py", "log_directory_checkpoints.py")
NAME = "epochs-0"


@pytest.fixture
def case(packed_buckets: Path, tmp_path: Path) -> BucketCase:
    """A copy of an encrypted and compressed bucket with two partitions."""
    shutil.copytree(packed_buckets / "compressed-encrypted", tmp_path / "case")
    return BucketCase(tmp_path / "case")


@pytest.fixture
def plain(packed_buckets: Path, tmp_path: Path) -> BucketCase:
    """A copy of a bucket without any cipher or codec of the plug-in; of two topic ids."""
    shutil.copytree(packed_buckets / "leftovers", tmp_path / "plain")
    return BucketCase(tmp_path / "plain")


def restored(case: BucketCase, target: Path, **options: Any) -> list[segstore.RestoreReport]:
    """Restore all that the case has."""
    folder = case.directory / "bucket" / case.said["key_prefix"].rpartition("/")[0]
    keys = case.directory / "keys"
    given = {"keys": keys if keys.is_dir() else {}} | options
    return segstore.restore_bucket(folder, target, **given)


def tree(directory: Path) -> dict[str, bytes]:
    """All files by their names, without locks; the lines of checkpoints have no order [CKP-16]."""

    def bytes_of(path: Path) -> bytes:
        data = path.read_bytes()
        is_checkpoint = path.name.endswith("-offset-checkpoint")
        return b"\n".join(sorted(data.splitlines())) if is_checkpoint else data

    return {
        path.relative_to(directory).as_posix(): bytes_of(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock") and path.name != "ballast"
    }


def objects_of(case: BucketCase, partition: int, suffix: str) -> list[Path]:
    """The objects of one partition, by their start offsets."""
    found = (case.directory / "bucket").rglob(f"*.{suffix}")
    return sorted((one for one in found if one.parent.name == str(partition)), key=lambda p: p.name)


def change_byte(path: Path, position: int) -> None:
    """Turn one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


# ---- what a restore writes -----------------------------------------------------------------------


def test_a_restored_partition_is_a_log(case, tmp_path):
    """[SEL-9] [CKP-10] [CKP-11] Offsets, checkpoints, topic id; nothing but a broker's files."""
    reports = restored(case, tmp_path / "data")
    said = case.said["partitions"]

    for report in reports:
        name = Path(report.path).name
        start = max(said[name]["log_start_in_newest_segment"], said[name]["bucket_start_offset"])
        with segstore.open(report.path, read_only=True) as log:
            assert log.log_start_offset == report.log_start_offset == start
            assert log.log_end_offset == report.log_end_offset == said[name]["bucket_end_offset"]
            assert log.topic_id is not None
        assert report.written_bytes > 0
        assert report.error is None
    starts = (tmp_path / "data" / "log-start-offset-checkpoint").read_text().splitlines()
    assert sorted(starts[2:]) == ["epochs 0 164", "epochs 1 140"]
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert names - {".lock", ".segstore.lock"} == {
        "epochs-0",
        "epochs-1",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
    }


def test_a_second_restore_checks_what_is_there(case, tmp_path):
    """Nothing is written, and nothing changes."""
    restored(case, tmp_path / "data")
    before = tree(tmp_path / "data")
    again = restored(case, tmp_path / "data")

    assert [one.written_bytes for one in again] == [0, 0]
    assert tree(tmp_path / "data") == before


def test_one_topic_or_partition_is_restored_alone(plain, tmp_path):
    """Its id may be that of another cluster."""
    topic_id = uuid.uuid4()
    (report,) = restored(
        plain, tmp_path / "data", topics="orders", partitions=1, topic_ids={"orders": topic_id}
    )

    assert Path(report.path).name == "orders-1"
    with segstore.open(report.path, read_only=True) as log:
        assert log.topic_id == topic_id
    assert not (tmp_path / "data" / "orders-0").exists()


def test_batches_of_a_topic_of_another_cluster_have_epochs_of_it(case, tmp_path):
    """[APP-4.3] Leader epoch 0 everywhere; records, sizes and indexes are the same."""
    restored(case, tmp_path / "data")
    restored(case, tmp_path / "new", topic_ids={"epochs": uuid.uuid4()})
    for name in ("epochs-0", "epochs-1"):
        with (
            segstore.open(tmp_path / "data" / name, read_only=True) as log,
            segstore.open(tmp_path / "new" / name, read_only=True) as other,
        ):
            start = log.log_start_offset
            assert [tuple(one) for one in other.leader_epochs] == [(0, start)]
            assert other.verify().ok
            records = [record.offset for record in log.scan()]
            assert [record.offset for record in other.scan()] == records
            assert {record.leader_epoch for record in other.scan()} == {0}
            assert len({record.leader_epoch for record in log.scan()}) > 1
        changed = tree(tmp_path / "new" / name)
        for path, data in tree(tmp_path / "data" / name).items():
            if path.endswith((".index", ".timeindex", ".snapshot")):
                assert changed[path] == data
            if path.endswith(".log"):
                assert len(changed[path]) == len(data)


@given(st.data())
def test_epochs_are_changed_wherever_the_pieces_are_cut(data):
    """The oracle walks over whole batches."""
    lengths = data.draw(st.lists(st.integers(50, 90), min_size=1, max_size=5))
    batches, expected, offset = b"", b"", 10
    for length in lengths:
        body = struct.pack(">b", 2) + bytes([length]) * (length - 5)
        batches += struct.pack(">qii", offset, length, 3) + body
        expected += struct.pack(">qii", offset, length, 0) + body
        offset += 1
    cuts = sorted(data.draw(st.sets(st.integers(0, len(batches)), max_size=8)))
    ends = [*cuts, len(batches)]
    pieces = [batches[start:end] for start, end in zip([0, *cuts], ends, strict=True)]

    assert b"".join(with_new_epoch(pieces, [EpochEntry(3, 0)], "file")) == expected
    with pytest.raises(CorruptLogError, match=r"file, position 0: .*found leader epoch 3"):
        list(with_new_epoch(pieces, [EpochEntry(2, 0)], "file"))


def test_a_log_whose_records_were_all_deleted_goes_on_where_it_ended(tmp_path):
    """[SEL-9] The log start lies above all that the bucket has."""
    pytest.importorskip("zstandard")
    indexes = INDEXES | {
        "producerSnapshot": format_snapshot([]),
        "leaderEpoch": b"0\n1\n10 240\n",
    }
    write_segment(tmp_path / "bucket", bytes(range(100)), 50, indexes=indexes)
    archive = tmp_path / "bucket" / "archive"
    (report,) = segstore.restore_bucket(archive, tmp_path / "data")
    bucket = segstore.open_bucket(archive, spool_directory=str(tmp_path / "spool"))
    (partition,) = bucket.partitions()
    with bucket.open(*partition) as shown:
        assert (shown.log_start_offset, shown.log_end_offset) == (240, 240)
        assert list(shown.scan()) == []

    assert (report.log_start_offset, report.log_end_offset) == (240, 240)
    assert report.stable_end_offset == 240
    with segstore.open(report.path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (240, 240)
        log.append([(None, b"more")])
        assert [record.offset for record in log.scan()] == [240]


def test_the_broker_may_go_on_where_the_log_is_written(case, tmp_path):
    """A writer opens it without a repair, and appends."""
    (report, _) = restored(case, tmp_path / "data")
    with segstore.open(report.path) as log:
        assert not log.report.warnings
        log.append([(None, b"more")])
        assert log.log_end_offset == report.log_end_offset + 1


# ---- what a restore refuses ----------------------------------------------------------------------


def test_a_partition_that_no_restore_wrote_is_not_changed(case, tmp_path):
    """It is refused, and the other partition is restored."""
    with segstore.open(tmp_path / "data" / NAME) as log:
        log.append([(None, b"mine")])
    before = tree(tmp_path / "data" / NAME)

    with pytest.raises(AlreadyExistsError, match=rf"{NAME}.*no restore wrote it") as raised:
        restored(case, tmp_path / "data")
    assert tree(tmp_path / "data" / NAME) == before
    assert (tmp_path / "data" / "epochs-1").is_dir()
    assert raised.value.__notes__ == ["1 other partitions were restored"]


def test_a_restored_partition_that_was_used_is_not_changed(case, tmp_path):
    """Its log has another end; of a damaged one the check says so."""
    restored(case, tmp_path / "data")
    with segstore.open(tmp_path / "data" / NAME) as log:
        log.append([(None, b"more")])
    with pytest.raises(AlreadyExistsError, match="used or damaged since"):
        restored(case, tmp_path / "data")


def test_a_damaged_restored_partition_is_told(case, tmp_path):
    """The sizes are as they were: only the check of the batches finds it."""
    (report, _) = restored(case, tmp_path / "data")
    log = max(Path(report.path).glob("*.log"), key=lambda path: path.stat().st_size)
    change_byte(log, log.stat().st_size // 2)

    with pytest.raises(AlreadyExistsError, match=f"used or damaged since.*{log.name}"):
        restored(case, tmp_path / "data")


def test_another_topic_id_is_another_partition(case, tmp_path):
    """The one that is there stays as it is."""
    restored(case, tmp_path / "data")
    with pytest.raises(AlreadyExistsError, match="with another topic id"):
        restored(case, tmp_path / "data", topic_ids={"epochs": uuid.uuid4()})


def test_names_and_ids_that_are_none_are_refused(case, tmp_path):
    """Before anything is made."""
    with pytest.raises(UnknownTopicOrPartitionError, match=r"nothing of this topic.*found topics"):
        restored(case, tmp_path / "data", topics=["absent"])
    with pytest.raises(UnknownTopicOrPartitionError, match="expected partition 7"):
        restored(case, tmp_path / "data", partitions=[7])
    with pytest.raises(UnknownTopicOrPartitionError, match="not restored"):
        restored(case, tmp_path / "data", topic_ids={"other": uuid.uuid4()})
    with pytest.raises(IllegalArgumentError, match="no topic id for epochs"):
        restored(case, tmp_path / "data", topic_ids={"epochs": "short"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic of a tiered bucket here"):
        segstore.restore_bucket(tmp_path / "empty", tmp_path / "data")
    assert not (tmp_path / "data").exists()
    restored(case, tmp_path / "data", partitions=0)
    with pytest.raises(NotALogError):
        restored(case, tmp_path / "data" / NAME)


def test_a_directory_in_use_is_refused(case, tmp_path):
    """As long as a manager, or a broker, has it."""
    with segstore.open_dir(tmp_path / "data"), pytest.raises(LogLockedError, match="stop it"):
        restored(case, tmp_path / "data")


def test_a_missing_key_is_told_for_each_partition(case, tmp_path):
    """[ENC-7] Nothing is written."""
    with pytest.raises(EncryptionKeyError, match="'k1'") as raised:
        restored(case, tmp_path / "data", keys={})
    assert "not restored either" in raised.value.__notes__[0]
    assert tree(tmp_path / "data") == {}


# ---- damaged buckets -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["log", "indexes"])
def test_a_changed_byte_of_an_object_hides_no_other_partition(case, tmp_path, suffix):
    """[ENC-3] [DUR-144] The object is named; the partition does not appear."""
    path = objects_of(case, 0, suffix)[-1]
    change_byte(path, path.stat().st_size // 2)
    reports = {Path(one.path).name: one for one in _reports(case, tmp_path / "data")}

    assert isinstance(reports["epochs-0"].error, CorruptLogError)
    assert path.name in str(reports["epochs-0"].error)
    assert reports["epochs-1"].error is None
    assert not (tmp_path / "data" / NAME).exists()


def test_a_changed_record_of_a_plain_bucket_is_found(plain, tmp_path):
    """[RDB-4] The batch's CRC; after the object was mended the same call goes on."""
    path = objects_of(plain, 1, "log")[2]
    change_byte(path, path.stat().st_size // 2)
    with pytest.raises(CorruptLogError, match=re.escape(path.name)):
        restored(plain, tmp_path / "data", partitions=1)
    assert not (tmp_path / "data" / "orders-1").exists()

    change_byte(path, path.stat().st_size // 2)
    (report,) = restored(plain, tmp_path / "data", partitions=1)
    assert report.written_bytes > 0


@pytest.mark.parametrize("options", [{}, {"topic_ids": {"orders": uuid.UUID(int=7)}}])
def test_a_batch_of_another_leader_is_found(plain, tmp_path, options):
    """[SEL-4] [DUR-141] No CRC covers the leader epoch; also where all get a new one."""
    path = objects_of(plain, 1, "log")[2]
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 12, struct.unpack_from(">i", data, 12)[0] + 1)
    path.write_bytes(data)

    with pytest.raises(CorruptLogError, match=f"{re.escape(path.name)}.*another leader epoch"):
        restored(plain, tmp_path / "data", partitions=1, **options)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_have_no_leader_epoch(tmp_path, magic):
    """[RDB-4] [SEL-4] They are restored as they are read."""
    pytest.importorskip("zstandard")
    times = [(offset, 1735871068137 - 199 + offset, b"k", b"v") for offset in range(100, 200)]
    indexes = INDEXES | {
        "producerSnapshot": format_snapshot([]),
        "leaderEpoch": b"0\n1\n3 0\n",
        "timestamp": b"",
    }
    metadata = METADATA | {"segmentLeaderEpochs": {"3": 100}}
    written = build(times, magic)
    write_segment(tmp_path / "bucket", written, 500, indexes=indexes, metadata=metadata)
    (report,) = segstore.restore_bucket(tmp_path / "bucket" / "archive", tmp_path / "data")

    with segstore.open(report.path, read_only=True) as log:
        assert [one.offset for one in log.scan()] == [*range(100, 200)]


def test_a_gap_is_told_and_hides_no_other_partition(case, tmp_path):
    """[SEL-8] A segment in the middle is gone."""
    objects_of(case, 0, "log")[1].unlink()
    first, second = _reports(case, tmp_path / "data")

    assert "a gap from offset" in str(first.error)
    assert second.error is None


def test_an_index_that_does_not_fit_is_found(plain, tmp_path):
    """[IXO-3] Its bytes are none of a batch: the check compares each entry with the batches."""
    path = objects_of(plain, 1, "indexes")[2]
    change_byte(path, 7)

    with pytest.raises(CorruptLogError, match="the check of what was fetched failed"):
        restored(plain, tmp_path / "data", partitions=1)


def _reports(case: BucketCase, target: Path) -> list[segstore.RestoreReport]:
    folder = case.directory / "bucket" / case.said["key_prefix"].rpartition("/")[0]
    store = open_tiered_store(folder, case.directory / "keys", "", None, {})
    return list(restore_partitions(store, target))


# ---- interruptions -------------------------------------------------------------------------------


class Steps:
    """Counts lines of the code that restores, in all threads, and kills the process at one."""

    def __init__(self, last: int | None) -> None:
        self.count, self._last = 0, last

    def __call__(self, frame: Any, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.endswith(STEPS_OF):
            return None
        if event == "line":
            self.count += 1
            if self.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def in_child(case: BucketCase, target: Path, last: int | None) -> int:
    """Restore in a child that is killed at line *last*; return its status."""
    child = os.fork()
    if child == 0:
        steps = Steps(last)
        threading.settrace(steps)
        sys.settrace(steps)
        try:
            restored(case, target)
            (target.parent / "steps").write_text(str(steps.count))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - told by the status
            os._exit(1)
    return os.waitpid(child, 0)[1]


@pytest.fixture
def leaders(packed_buckets: Path, tmp_path: Path) -> BucketCase:
    """Segments that are cut: their indexes are made here."""
    shutil.copytree(packed_buckets / "leaders", tmp_path / "leaders")
    return BucketCase(tmp_path / "leaders")


def check_kills(case: BucketCase, tmp_path: Path, runs: int) -> None:
    """Kill restores at random lines, each some times, until one ends; compare the files."""
    assert in_child(case, tmp_path / "whole", None) == 0
    whole = tree(tmp_path / "whole")
    steps = int((tmp_path / "steps").read_text())
    chosen = random.Random(0)
    kills = 0
    for number in range(runs):
        target = tmp_path / str(number)
        while status := in_child(case, target, chosen.randint(1, steps + steps // 4)):
            assert os.WTERMSIG(status) == signal.SIGKILL
            kills += 1
            for found in target.glob("*-[0-9]"):  # what has its name is whole
                assert tree(found) == {
                    name.partition("/")[2]: data
                    for name, data in whole.items()
                    if name.startswith(f"{found.name}/")
                }
        assert tree(target) == whole
        shutil.rmtree(target)
    assert kills > runs // 2


def test_killed_restores_go_on(case, tmp_path):
    """What has a partition's name is whole at every moment; the files are always the same."""
    check_kills(case, tmp_path, 5)


def test_killed_restores_of_cut_segments_go_on(leaders, tmp_path):
    """The same with indexes that are made here."""
    check_kills(leaders, tmp_path, 3)


@pytest.mark.long
def test_many_killed_restores_go_on(case, leaders, tmp_path):
    """The same, many times."""
    for number, one in enumerate((case, leaders)):
        folder = tmp_path / f"many-{number}"
        folder.mkdir()
        check_kills(one, folder, 100)


def test_an_interrupt_leaves_finished_partitions(case, tmp_path):
    """Ctrl-C in the second one."""

    def interrupt(name: str, done: int, total: int) -> None:
        if name == "epochs-1" and done > total // 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restored(case, tmp_path / "data", progress=interrupt)
    assert (tmp_path / "data" / NAME).is_dir()
    assert not (tmp_path / "data" / "epochs-1").exists()

    first, second = restored(case, tmp_path / "data")
    assert first.written_bytes == 0
    assert second.written_bytes > 0


def test_whole_files_are_not_fetched_again(case, tmp_path):
    """After an interruption near the end."""

    def interrupt(name: str, done: int, total: int) -> None:
        if name == NAME and done > total // 2:  # all is written, and is checked now
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restored(case, tmp_path / "data", progress=interrupt)
    (left,) = (tmp_path / "data").glob("*-stray")
    before = {path.name: path.stat().st_ino for path in left.glob("*.log")}
    (report, _) = restored(case, tmp_path / "data")

    after = {path.name: path.stat().st_ino for path in Path(report.path).glob("*.log")}
    assert after == before
    assert report.written_bytes == 0


def test_progress_ends_at_its_total(case, tmp_path):
    """And never goes back."""
    seen: dict[str, list[tuple[int, int]]] = {}
    restored(
        case,
        tmp_path / "data",
        progress=lambda name, done, total: seen.setdefault(name, []).append((done, total)),
    )
    assert seen.keys() == {"epochs-0", "epochs-1"}
    for steps in seen.values():
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]


# ---- stores --------------------------------------------------------------------------------------


def put(case: BucketCase, s3: Store) -> None:
    """Put the case's bucket into a store."""
    root = case.directory / "bucket"
    for path in root.rglob("*"):
        if path.is_file():
            s3.objects[f"logs/{path.relative_to(root).as_posix()}"] = path.read_bytes()


def restored_from(s3: Store, case: BucketCase, target: Path) -> list[segstore.RestoreReport]:
    """Restore from the store."""
    folder = case.said["key_prefix"].rpartition("/")[0]
    keys = case.directory / "keys"
    return segstore.restore_bucket(f"s3://bucket/logs/{folder}", target, keys=keys, **s3.settings)


def test_a_restore_from_s3_gives_the_same_files(case, tmp_path, s3):
    """[BKT-7]."""
    put(case, s3)
    restored_from(s3, case, tmp_path / "data")
    restored(case, tmp_path / "other")
    assert tree(tmp_path / "data") == tree(tmp_path / "other")


def test_a_store_that_fails_is_an_error_of_that_partition(case, tmp_path, s3):
    """[DUR-144] [RDB-5] The object is named; the same call goes on when the store is well again."""
    put(case, s3)
    lost = max(key for key in s3.objects if "/0/" in key and key.endswith(".log"))

    def refuse(handler: Handler, key: str) -> bool:
        if key == lost:
            handler.answer(500, b"not now")
        return key == lost

    s3.fault = refuse
    with pytest.raises(ReadIOError, match=re.escape(lost.rpartition("/")[2])):
        restored_from(s3, case, tmp_path / "data")
    assert not (tmp_path / "data" / NAME).exists()
    assert (tmp_path / "data" / "epochs-1").is_dir()

    s3.fault = None
    s3.gets.clear()
    restored_from(s3, case, tmp_path / "data")
    restored(case, tmp_path / "other")
    assert tree(tmp_path / "data") == tree(tmp_path / "other")
    assert [key for key in s3.gets if key.endswith(".log")] == [lost]


def test_an_object_that_vanishes_is_told(case, tmp_path, s3):
    """[SEL-14] [RDB-5] Retention has deleted it since the listing."""
    put(case, s3)
    lost = min(key for key in s3.objects if "/0/" in key and key.endswith(".log"))

    def vanish(handler: Handler, key: str) -> bool:
        if key == lost:
            handler.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return key == lost

    s3.fault = vanish
    with pytest.raises(LogNotFoundError, match=re.escape(lost.rpartition("/")[2])):
        restored_from(s3, case, tmp_path / "data")


# ---- disks ---------------------------------------------------------------------------------------


def test_a_disk_without_room_is_told_before_anything_is_written(case, small_disk: SmallDisk):
    """With what is needed, and what is free."""
    small_disk.fill(leave=64 * 1024)
    with pytest.raises(DiskFullError, match="nothing was written"):
        restored(case, small_disk.path / "data")
    assert tree(small_disk.path / "data") == {}


def test_a_disk_that_fills_up_meanwhile_keeps_what_is_whole(case, tmp_path, small_disk: SmallDisk):
    """The same call goes on when there is room."""
    target = small_disk.path / "data"

    def fill(_: str, done: int, total: int) -> None:
        if not small_disk.ballast.exists() and done > total // 4:
            small_disk.fill(leave=8192)

    with pytest.raises(DiskFullError):
        restored(case, target, progress=fill)
    assert not list(target.glob("*-[0-9]"))
    small_disk.free()
    restored(case, target)
    restored(case, tmp_path / "whole")

    assert tree(target) == tree(tmp_path / "whole")


# ---- the command ---------------------------------------------------------------------------------


def command(case: BucketCase, *arguments: str | Path) -> tuple[int, list[str], str]:
    """Run ``segstore restore-bucket`` on the case."""
    folder = case.directory / "bucket" / case.said["key_prefix"].rpartition("/")[0]
    done = run_segstore("restore-bucket", folder, *arguments)
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode()


def test_the_command_restores_and_reports(case, tmp_path):
    """A line for each partition; a second run says that they are there."""
    keys = ("--keys", case.directory / "keys", "-q")
    code, lines, errors = command(case, tmp_path / "data", *keys)

    assert (code, errors) == (0, "")
    assert lines[0].endswith("epochs-0: restored; offsets 164 to 517, 4 segments, 61.0 KiB written")
    code, lines, errors = command(case, tmp_path / "data", *keys, "-t", "epochs", "-p", "1")
    assert (code, errors, len(lines)) == (0, "", 1)
    assert "was restored before, and is the same" in lines[0]


def test_the_command_says_what_it_could_not_restore(case, tmp_path):
    """Exit code 1; the other partition is restored."""
    path = objects_of(case, 0, "log")[-1]
    change_byte(path, 100)
    code, lines, errors = command(case, tmp_path / "data", "--keys", case.directory / "keys")

    assert code == 1
    assert len(lines) == 1
    assert "epochs-1: restored" in lines[0]
    assert path.name in errors
    assert "1 partition could not be restored" in errors
    assert command(case, tmp_path / "data", "--topic-id", "x")[0] == 2
    assert command(case, tmp_path / "data", "-t", "absent")[0] == 2


def test_an_interrupted_command_says_how_to_go_on(case, tmp_path, monkeypatch, capsys):
    """Exit code 130; what was restored before stays."""

    def interrupt(_: object, name: str, done: int, total: int) -> None:
        if name == "epochs-1" and done > total // 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("segstore.cli.output.Progress.__call__", interrupt)
    folder = case.directory / "bucket" / case.said["key_prefix"].rpartition("/")[0]
    keys = ("--keys", str(case.directory / "keys"))
    code = cli.main(["restore-bucket", str(folder), str(tmp_path / "data"), *keys])

    assert code == 130
    printed = capsys.readouterr()
    assert "epochs-0: restored" in printed.out
    assert "interrupted: the same command goes on" in printed.err
    monkeypatch.undo()
    assert command(case, tmp_path / "data", *keys)[0] == 0


def test_the_command_names_what_it_left_out(plain, tmp_path):
    """[SEL-1] Unfinished copies and deletions: they are none of the log."""
    code, lines, errors = command(plain, tmp_path / "data")
    (report, _) = restored(plain, tmp_path / "data")

    assert (code, len(lines)) == (0, 2)
    assert report.left_out
    for main_key, _ in report.left_out:
        assert f"orders-0: left out: {plain.directory}/bucket/{main_key}" in errors


def test_with_kafka_s_own_notes_only_finished_copies_are_restored(plain, tmp_path):
    """[SEL-13] A complete copy that Kafka never noted is named, and its records are elsewhere."""
    notes = plain.directory / "remote_log_metadata"
    found = command(plain, tmp_path / "noted", "--remote-log-metadata", notes)
    noted = restored(plain, tmp_path / "noted", remote_log_metadata=notes)
    every = restored(plain, tmp_path / "every")

    assert found[0] == 0
    assert "does not say that the segment is finished" in found[2]
    assert [one.written_bytes for one in noted] == [0, 0]
    assert sum(len(one.left_out) for one in noted) > sum(len(one.left_out) for one in every)


def test_the_command_says_where_committed_reads_end(packed_buckets, tmp_path):
    """[SEL-11] A transaction whose marker is not in the bucket; `abort-transaction` ends it."""
    case = BucketCase(packed_buckets / "encrypted")
    code, lines, errors = command(case, tmp_path / "data", "--keys", case.directory / "keys")

    assert (code, len(lines)) == (0, 2)
    assert "a transaction is open from offset 416 on" in errors
    partition = tmp_path / "data" / "payments-0"
    ended = run_segstore("abort-transaction", partition, "--producer-id", "0")
    assert ended.returncode == 0, ended.stderr
    with segstore.open(partition, read_only=True) as log:
        assert log.last_stable_offset == log.log_end_offset


def test_the_piece_of_the_guide_runs(case, tmp_path):
    """It prints what it says; and so does the command."""
    section = GUIDE.read_text(encoding="utf-8").partition("### Restore a tiered bucket")[2]
    section = section.partition("\n##")[0]
    (piece,) = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
    (shown,) = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    shutil.move(case.directory / "bucket" / "team a", tmp_path / "bucket")
    shutil.move(case.directory / "keys", tmp_path / "keys")
    printed = subprocess.run(
        [sys.executable, "-c", piece], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert printed == re.findall(r"^ *print\(.*\)  # (.*)$", piece, re.MULTILINE)

    shutil.rmtree(tmp_path / "data")
    typed, *lines = shown.splitlines()
    done = run_segstore(*typed.split()[2:], cwd=tmp_path)
    found = [one.removeprefix(f"{tmp_path}/") for one in done.stdout.decode().splitlines()]
    assert found == lines
