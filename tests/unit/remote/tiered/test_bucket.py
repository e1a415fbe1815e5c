"""A bucket as topics, partitions and logs, from a folder and from S3; and damaged ones."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from segstore.errors import (
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    EncryptionKeyError,
    LogNotFoundError,
    LogReadOnlyError,
    ReadIOError,
    SegstoreError,
    UnknownTopicOrPartitionError,
    UnsupportedFormatError,
)

pytest.importorskip("Crypto")

import segstore
from segstore.remote.block_reader import BlockFile
from segstore.remote.local_folder import LocalFolder
from tests.kits.cli_process import run_segstore
from tests.kits.golden_bucket import BucketCase

GUIDE = Path(__file__).parents[4] / "docs" / "guide.md"


@pytest.fixture
def case(packed_buckets, tmp_path):
    """A copy of an encrypted and compressed bucket, to be damaged."""
    shutil.copytree(packed_buckets / "compressed-encrypted", tmp_path / "case")
    return BucketCase(tmp_path / "case")


@pytest.fixture
def leftovers(packed_buckets, tmp_path):
    """A copy of a bucket with what accidents left."""
    shutil.copytree(packed_buckets / "leftovers", tmp_path / "leftovers")
    return BucketCase(tmp_path / "leftovers")


def opened(case, tmp_path, **options):
    folder = case.directory / "bucket" / case.said["key_prefix"].rpartition("/")[0]
    keys = case.directory / "keys"
    given = {"keys": keys if keys.is_dir() else {}, "spool_directory": str(tmp_path / "spool")}
    return segstore.open_bucket(folder, **(given | options))


def offsets(bucket, topic, partition):
    with bucket.open(topic, partition) as log:
        return [record.offset for record in log.scan()]


def objects_of(case, partition, suffix):
    """The objects of one partition, by their keys."""
    return sorted(
        path
        for path in (case.directory / "bucket").rglob(f"*.{suffix}")
        if path.parent.name == str(partition)
    )


def test_a_bucket_says_what_it_holds(case, tmp_path):
    """[BKT-5] [BKT-10] Without a key, and without a manifest."""
    bucket = opened(case, tmp_path, keys={})

    assert bucket.topics() == ["epochs"]
    assert [str(one) for one in bucket.partitions()] == ["epochs-0", "epochs-1"]
    assert len(bucket.topic_ids("epochs")) == 1
    assert bucket.topic_ids("absent") == []
    assert repr(bucket) == f"Bucket({bucket.url!r})"


def test_a_log_of_a_bucket_is_read_as_any_log(case, tmp_path):
    """Columns, look-up by time, a slice; and it takes no record."""
    with opened(case, tmp_path).open("epochs", 1) as log:
        records = list(log.scan())
        found = log.offset_for_timestamp(records[10].timestamp)

        assert log.to_arrow(columns=["offset"]).num_rows == len(records)
        assert found is not None
        assert found <= records[10].offset
        assert [record.offset for record in log[150:153]] == [150, 151, 152]
        with pytest.raises(LogReadOnlyError):
            log.append([(None, b"")])


def test_a_scan_looks_at_no_segment_but_those_that_it_reads(case, tmp_path, monkeypatch):
    """[SEL-14] A listing does not change: a reader need not look again and again where it ends."""
    read_into, asked = BlockFile.read_into, []

    def noted(self, target, position):
        asked.append(self.file.name)
        return read_into(self, target, position)

    with opened(case, tmp_path).open("epochs", 1) as log:
        bases = [one.base_offset for one in log.segments()]
        monkeypatch.setattr(BlockFile, "read_into", noted)
        assert [one.offset for one in log.scan(150, 153)] == [150, 151, 152]
        log.read(150, 1000)
        log.refresh()

    assert asked
    assert {int(name.partition(".")[0]) for name in asked} == {bases[0]}


def test_a_bucket_in_s3_reads_as_the_folder(case, tmp_path, s3):
    """[BKT-7] Keys with a space; the same bytes."""
    root = case.directory / "bucket"
    for path in root.rglob("*"):
        if path.is_file():
            s3.objects[f"logs/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    remote = segstore.open_bucket(
        "s3://bucket/logs/team a",
        keys=case.directory / "keys",
        spool_directory=str(tmp_path / "spool"),
        **s3.settings,
    )
    local = opened(case, tmp_path)

    assert remote.partitions() == local.partitions()
    for topic, partition in remote.partitions():
        assert offsets(remote, topic, partition) == offsets(local, topic, partition)


def test_a_prefix_without_a_slash_is_an_argument(case, tmp_path):
    """[BKT-2] [BKT-4]."""
    root = case.directory / "bucket" / "team a"
    (folder,) = root.iterdir()
    folder.rename(root / f"tier-{folder.name}")

    bucket = opened(case, tmp_path, key_prefix="tier-")
    assert bucket.topics() == ["epochs"]
    assert len(offsets(bucket, "epochs", 0)) == 353
    with pytest.raises(LogNotFoundError, match=r"no topic .* with the prefix 'other-'"):
        opened(case, tmp_path, key_prefix="other-").topics()
    with pytest.raises(LogNotFoundError):  # each manifest is of another topic
        offsets(opened(case, tmp_path), "tier-epochs", 0)


def test_a_missing_key_is_an_error_of_the_open(case, tmp_path):
    """[RDB-5] [ENC-7] It names the manifest and the key's id."""
    with pytest.raises(EncryptionKeyError, match=r"epochs-.*rsm-manifest.*'k1'"):
        offsets(opened(case, tmp_path, keys={}), "epochs", 0)


def change_byte(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_a_changed_byte_is_refused_and_hides_no_other_partition(case, tmp_path):
    """[ENC-3] [DUR-144] The error names the object."""
    path = objects_of(case, 0, "log")[-1]
    change_byte(path, path.stat().st_size // 2)
    bucket = opened(case, tmp_path)

    with pytest.raises(CorruptLogError, match=re.escape(path.name)):
        offsets(bucket, "epochs", 0)
    assert len(offsets(bucket, "epochs", 1)) == 429


def test_a_damaged_chunk_hides_no_other_segment(case, tmp_path):
    """[RDB-5] [DUR-144] The error says where a reader goes on, and names no file of the spool."""
    first, second = objects_of(case, 1, "log")[:2]
    change_byte(first, first.stat().st_size - 100)
    with opened(case, tmp_path).open("epochs", 1) as log:
        following = int(second.name[:20])
        for read in (lambda: list(log.scan()), log.to_arrow, lambda: len(log)):
            with pytest.raises(CorruptLogError, match=re.escape(first.name)) as raised:
                read()
            assert raised.value.next_readable_offset == following
            assert str(raised.value).endswith(f"the next segment begins at offset {following}")
            assert "spool" not in str(raised.value)
        assert next(iter(log.scan(following))).offset == following


@pytest.mark.parametrize("name", ["offset", "timestamp", "producerSnapshot", "leaderEpoch"])
def test_a_changed_byte_of_an_index_is_refused_where_it_is_needed(case, tmp_path, name):
    """[IXO-2] [DUR-144] A look-up by time needs them all; a scan reads only what it needs."""
    path = objects_of(case, 0, "indexes")[-1]
    main_key = path.relative_to(case.directory / "bucket").as_posix().removesuffix(".indexes")
    manifest = case.segment(main_key).manifest
    place = manifest.indexes[name]
    change_byte(path, place.position + place.size // 2)
    bucket = opened(case, tmp_path)

    with (
        pytest.raises(CorruptLogError, match=re.escape(path.name)),
        bucket.open("epochs", 0) as log,
    ):
        log.offset_for_timestamp(manifest.metadata.max_timestamp_ms)
    assert len(offsets(bucket, "epochs", 1)) == 429


def test_chunks_that_changed_places_are_found_by_their_batches(leftovers, tmp_path):
    """[ENC-8] [RDB-4] No cipher sees it: offsets and CRCs of batches do."""
    path = objects_of(leftovers, 1, "log")[1]
    main_key = path.relative_to(leftovers.directory / "bucket").as_posix().removesuffix(".log")
    size = leftovers.segment(main_key).manifest.chunk_index.original_chunk_size
    data = path.read_bytes()
    path.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])

    with pytest.raises(SegstoreError):
        offsets(opened(leftovers, tmp_path), "orders", 1)


@pytest.mark.parametrize("place", [0, 23])
def test_damage_at_the_end_is_no_shorter_log(leftovers, tmp_path, place):
    """[DUR-144, SEL-10] Nothing was torn there: a broker copies what is whole."""
    with opened(leftovers, tmp_path).open("orders", 0) as log:
        end, last = log.log_end_offset, log.segments()[-1]
        newest = next(one for one in objects_of(leftovers, 0, "log") if is_of(one, last))
    data = bytearray(newest.read_bytes())
    at = last_batch(data)
    data[at + place] ^= 1
    newest.write_bytes(data)
    bucket = opened(leftovers, tmp_path)
    with pytest.raises(CorruptLogError, match=f"from .* to {end - 1}") as caught:
        offsets(bucket, "orders", 0)
    assert caught.value.file == str(newest)
    found = offsets(opened(leftovers, tmp_path, allow_gaps=True), "orders", 0)
    assert 0 < len(found) < end


def is_of(object_file, segment):
    return object_file.name.startswith(f"{segment.base_offset:020}")


def last_batch(data):
    """Return where the last batch of a segment begins."""
    at = following = 0
    while following < len(data):
        at, following = (
            following,
            following + 12 + int.from_bytes(data[following + 8 : following + 12]),
        )
    return at


def test_damage_in_a_batch_names_the_bucket_and_a_command_that_goes_on(leftovers, tmp_path):
    """[RDB-4] And no file of the spool."""
    path = objects_of(leftovers, 1, "log")[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    bucket = opened(leftovers, tmp_path)
    where = f"{leftovers.directory}/bucket/orders-1"
    for read in (
        lambda: offsets(bucket, "orders", 1),
        lambda: list(bucket.scan("orders", partitions=[1])),
        lambda: bucket.count("orders"),
        lambda: bucket.to_arrow("orders"),
    ):
        with pytest.raises(CorruptRecordError) as caught:
            read()
        check_names(caught.value, path, where)
    with bucket.open("orders", 1) as log, pytest.raises(CorruptRecordError) as caught:
        log.to_arrow()
    check_names(caught.value, path, where)


def check_names(error, path, where):
    """Says where the damage is, by names that exist while no log is open."""
    assert str(error).startswith(f"{path}, position ")
    assert f"`segstore cat --skip-damaged {where}`" in str(error)
    assert "views" not in str(error)


def test_a_gap_is_an_error_that_names_its_offsets(case, tmp_path):
    """[SEL-8] A segment in the middle was deleted by hand."""
    path = objects_of(case, 0, "log")[1]
    first = int(path.name[:20])
    following = int(objects_of(case, 0, "log")[2].name[:20])
    path.unlink()
    bucket = opened(case, tmp_path)

    with pytest.raises(CorruptLogError, match=f"a gap from offset {first} to") as raised:
        offsets(bucket, "epochs", 0)
    assert raised.value.missing == (first, following)
    assert len(offsets(bucket, "epochs", 1)) == 429


def test_what_is_left_out_is_told_with_its_reason(leftovers, tmp_path):
    """[SEL-1] [SEL-12] [BKT-8] [BKT-9] [BKT-11] [DUR-142]."""
    bucket = opened(leftovers, tmp_path)
    said = {name: bucket.left_out("orders", name) for name in (0, 1)}

    assert len(bucket.topic_ids("orders")) == 2
    assert len(said[0]) == 1
    assert "a deletion that was not finished" in str(said[0][0].reason)
    assert any("an unfinished copy" in str(one.reason) for one in said[1])


def test_a_manifest_of_an_unknown_version_is_left_out(case, tmp_path):
    """[MAN-2] [VER-1] [RDB-5] With an error of its own; the last segment is not there then."""
    path = objects_of(case, 0, "rsm-manifest")[-1]
    path.write_bytes(path.read_bytes().replace(b'"version":"1"', b'"version":"2"'))
    bucket = opened(case, tmp_path)

    (left,) = bucket.left_out("epochs", 0)
    assert isinstance(left.reason, UnsupportedFormatError)
    with pytest.raises(CorruptLogError, match=path.stem):
        offsets(bucket, "epochs", 0)
    bucket = opened(case, tmp_path, allow_gaps=True)
    assert offsets(bucket, "epochs", 0)[-1] == int(path.name[:20]) - 1


def test_a_segment_that_vanishes_is_listed_again(case, tmp_path, monkeypatch):
    """[SEL-14] [RDB-5] Deleted between listing and reading: no corruption, and no endless retry."""
    last = objects_of(case, 0, "log")[-1]
    read_range = LocalFolder.read_range

    def vanish(self, file, start, end):
        if file.path.endswith(".log"):
            last.unlink(missing_ok=True)
        return read_range(self, file, start, end)

    monkeypatch.setattr(LocalFolder, "read_range", vanish)
    assert offsets(opened(case, tmp_path), "epochs", 0)[-1] == int(last.name[:20]) - 1

    def gone(self, file, start, end):
        if file.path.endswith(".log"):
            raise LogNotFoundError("gone", file=file.path, found="no file", expected="a file")
        return read_range(self, file, start, end)

    monkeypatch.setattr(LocalFolder, "read_range", gone)
    with pytest.raises(LogNotFoundError, match=r"\.log"):
        offsets(opened(case, tmp_path, spool_directory=str(tmp_path / "other")), "epochs", 1)


def end_of_scan(bucket):
    return bucket.scan("epochs", partitions=[0]).end_offsets[0]


@pytest.mark.parametrize(
    ("suffix", "end_of"),
    [
        ("rsm-manifest", lambda bucket: offsets(bucket, "epochs", 0)[-1] + 1),
        ("indexes", lambda bucket: offsets(bucket, "epochs", 0)[-1] + 1),
        ("rsm-manifest", end_of_scan),
        ("indexes", end_of_scan),
        ("rsm-manifest", lambda bucket: bucket.verify("epochs", 0).log_end_offset),
        ("rsm-manifest", lambda bucket: bucket.left_out("epochs", 0) or end_of_scan(bucket)),
    ],
    ids=["open", "open-indexes", "scan", "scan-indexes", "verify", "left_out"],
)
def test_an_object_that_vanishes_while_a_partition_is_listed(
    case, tmp_path, monkeypatch, suffix, end_of
):
    """[SEL-14] [RDB-5] The partition is listed again, at most four times."""
    last = [objects_of(case, 0, one)[-1] for one in ("log", "indexes", "rsm-manifest")]
    read_range = LocalFolder.read_range

    def vanish(self, file, start, end):
        if file.path.endswith(f"{last[0].stem}.{suffix}"):
            for path in last:
                path.unlink(missing_ok=True)
        return read_range(self, file, start, end)

    monkeypatch.setattr(LocalFolder, "read_range", vanish)
    assert end_of(opened(case, tmp_path)) == int(last[0].name[:20])


def test_a_manifest_that_is_listed_and_never_there_is_an_error(case, tmp_path, monkeypatch):
    """[RDB-5] No endless retry; other partitions are read."""
    read_range, asked = LocalFolder.read_range, []

    def gone(self, file, start, end):
        if file.path.endswith(f"/0/{last.name}"):
            asked.append(file.path)
            raise LogNotFoundError("gone", file=file.path, found="no file", expected="a file")
        return read_range(self, file, start, end)

    last = objects_of(case, 0, "rsm-manifest")[-1]
    monkeypatch.setattr(LocalFolder, "read_range", gone)
    bucket = opened(case, tmp_path)
    with pytest.raises(LogNotFoundError, match=re.escape(last.name)):
        offsets(bucket, "epochs", 0)
    assert len(asked) == 4 + 4  # then for the reason
    assert offsets(bucket, "epochs", 1)


def test_what_is_not_there_is_an_error(case, tmp_path):
    with pytest.raises(LogNotFoundError, match="no such folder"):
        segstore.open_bucket(tmp_path / "absent", keys={})
    for topic, partition in (("epochs", 7), ("absent", 0)):
        with pytest.raises(LogNotFoundError, match=f"{topic}-{partition}"):
            offsets(opened(case, tmp_path), topic, partition)


def test_the_spool_holds_no_key(case, tmp_path):
    """Decrypted segments, for this user alone."""
    bucket = opened(case, tmp_path)
    offsets(bucket, "epochs", 0)
    spool = tmp_path / "spool"
    files = [path for path in spool.rglob("*") if path.is_file()]

    assert spool.stat().st_mode & 0o77 == 0
    assert files
    assert not any(b"PRIVATE KEY" in path.read_bytes() for path in files)


def test_a_partly_written_segment_of_a_folder_is_left_out(case, tmp_path):
    """[BKT-7] As a crash of a broker with the folder backend leaves it."""
    path = objects_of(case, 0, "log")[-1]
    path.write_bytes(path.read_bytes()[:100])
    (left,) = opened(case, tmp_path).left_out("epochs", 0)

    assert "another size than its manifest says" in str(left.reason)
    assert left.main_key.endswith(path.stem)


def test_a_topic_is_read_as_a_table(case, tmp_path):
    """What a `LogManager` does with a topic, by the same scans."""
    pa = pytest.importorskip("pyarrow")
    with opened(case, tmp_path) as bucket:
        scan = bucket.scan("epochs", start_offset=200)
        assert scan.start_offsets == {0: 200, 1: 200}
        assert bucket.count("epochs") == bucket.count("epochs", by_headers=True) == 353 + 429
        assert [record.offset for record in bucket.scan("epochs", partitions=[0])] == offsets(
            bucket, "epochs", 0
        )
        table = bucket.to_arrow("epochs", columns=["partition", "timestamp"], order="timestamp")
        ordered = [
            (record.partition, record.timestamp)
            for record in bucket.scan("epochs", order="timestamp")
        ]
        assert table["partition"].to_pylist() == [partition for partition, _ in ordered]
        assert table["timestamp"].cast(pa.int64()).to_pylist() == [time for _, time in ordered]
        rows = bucket.dataset("epochs", columns=["partition", "offset"]).to_table()
        assert rows.num_rows == 353 + 429
        assert bucket.to_pandas("epochs", partitions=[1]).shape[0] == 429
        reports = bucket.export_parquet("epochs", tmp_path / "parquet", verify=True)
        assert [report.records for report in reports] == [353, 429]
        with pytest.raises(UnknownTopicOrPartitionError, match=r"absent.*expected epochs"):
            bucket.scan("absent")
        with pytest.raises(LogNotFoundError, match="epochs-7"):
            bucket.scan("epochs", partitions=[7])


def test_a_topic_is_read_as_the_bucket_is_now(case, tmp_path):
    """A segment that was copied meanwhile is in the next scan; that of before stays as it was."""
    last = [objects_of(case, 0, suffix)[-1] for suffix in ("rsm-manifest", "indexes", "log")]
    contents = [path.read_bytes() for path in last]
    for path in last:
        path.unlink()
    with opened(case, tmp_path) as bucket:
        before = bucket.scan("epochs", partitions=[0])
        assert bucket.scan("epochs", partitions=[0]).end_offsets == before.end_offsets
        for path, data in zip(last, contents, strict=True):
            path.write_bytes(data)
        after = bucket.scan("epochs", partitions=[0])

        assert after.end_offsets == {0: 517}
        assert before.end_offsets == {0: int(last[0].name[:20])}
        assert len(list(after)) - len(list(before)) == 517 - before.end_offsets[0]


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_logs_that_nothing_reads_are_closed_when_the_bucket_changed(case, tmp_path):
    """Whole reads end; what a scan was made of stays open. One log a partition is kept."""
    pytest.importorskip("pyarrow")
    last = objects_of(case, 0, "rsm-manifest")[-1]

    def change(number):
        os.utime(last, ns=(10**18 + number, 10**18 + number))

    with opened(case, tmp_path) as bucket:
        bucket.to_arrow("epochs")
        before = descriptors()
        for number in range(6):
            change(number)
            assert bucket.count("epochs") == bucket.to_arrow("epochs").num_rows == 782
            assert descriptors() <= before
        scan = bucket.scan("epochs")
        for number in range(6, 9):
            change(number)
            bucket.export_parquet("epochs", tmp_path / f"parquet {number}")
        assert descriptors() < 2 * before
        assert len(list(scan)) == 782
    assert descriptors() < before


def test_logs_are_closed_when_no_scan_or_dataset_reads_them_any_more(case, tmp_path):
    """A part of a scan counts as the scan: it can be read when the scan is gone."""
    pytest.importorskip("pyarrow")
    last = objects_of(case, 0, "rsm-manifest")[-1]
    with opened(case, tmp_path) as bucket:
        dataset = bucket.dataset("epochs")
        assert dataset.count_rows() == 782
        before = descriptors()
        for number in range(6):
            os.utime(last, ns=(10**18 + number, 10**18 + number))
            assert dataset.count_rows() == dataset.to_table().num_rows == 782
            assert len(list(bucket.scan("epochs"))) == 782
            assert descriptors() <= before
        rows = iter(bucket.scan("epochs"))
        batches = dataset.scanner(batch_size=100).to_batches()
        first = next(batches).num_rows
        assert next(rows).topic == "epochs"
        for number in range(6, 9):
            os.utime(last, ns=(10**18 + number, 10**18 + number))
            bucket.count("epochs")
        assert first + sum(one.num_rows for one in batches) == 782
        assert len(list(rows)) == 781


def test_a_partition_whose_first_copy_is_not_finished_has_no_records_yet(case, tmp_path):
    """[SEL-1] It is left out of a topic; who names it gets an error."""
    for path in objects_of(case, 1, "rsm-manifest"):
        path.unlink()
    bucket = opened(case, tmp_path)

    assert bucket.scan("epochs").partitions == (0,)
    with pytest.raises(LogNotFoundError):
        bucket.scan("epochs", partitions=[1])


def test_lazy_frames_of_polars(case, tmp_path, monkeypatch):
    """Of a bucket that is open, and of a path: then keys come from the environment."""
    pl = pytest.importorskip("polars")
    import segstore.polars

    keys = case.directory / "keys"
    monkeypatch.setenv("SEGSTORE_TIERED_KEYS", str(keys))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = case.directory / "bucket" / "team a"
    with opened(case, tmp_path) as bucket:
        for where in (bucket, folder, str(folder)):
            topic = segstore.polars.scan_topic(where, "epochs").filter(pl.col("offset") < 170)
            assert topic.select(pl.len()).collect().item() == 6 + 30
    one = segstore.polars.scan_log(folder / "epochs-0").filter(pl.col("offset") < 170)
    assert one.collect()["offset"].to_list() == [*range(164, 170)]
    with pytest.raises(Exception, match="no partition of a tiered bucket"):
        segstore.polars.scan_log("memory://bucket/orders-0").collect()


def test_the_commands_of_the_guide_run(case, tmp_path):
    section = GUIDE.read_text(encoding="utf-8").partition("### Read a tiered bucket")[2]
    (piece,) = re.findall(r"```sh\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    shutil.move(case.directory / "bucket" / "team a", tmp_path / "bucket")
    shutil.move(case.directory / "keys", tmp_path / "keys")
    lines = [shlex.split(line, comments=True)[1:] for line in piece.splitlines()]
    ran = [run_segstore(*line, cwd=tmp_path) for line in lines]

    assert [one.returncode for one in ran] == [0] * len(lines)
    assert len(list((tmp_path / "exported").iterdir())) == 2


def test_the_piece_of_the_guide_runs(case, tmp_path):
    """It prints what it says, beside a bucket and its keys."""
    section = GUIDE.read_text(encoding="utf-8").partition("### Read a tiered bucket")[2]
    (piece,) = re.findall(r"```py\n(.*?)```", section.partition("\n##")[0], re.DOTALL)
    shutil.move(case.directory / "bucket" / "team a", tmp_path / "bucket")
    shutil.move(case.directory / "keys", tmp_path / "keys")
    printed = subprocess.run(
        [sys.executable, "-c", piece], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert printed == re.findall(r"^ *print\(.*\)  # (.*)$", piece, re.MULTILINE)


def test_an_error_of_a_fetch_is_the_error_of_a_later_read(packed_buckets, tmp_path):
    """[DUR-144] The short way of a read leaves the error of a fetch as it is."""
    shutil.copytree(packed_buckets / "leftovers", tmp_path / "case")
    case = BucketCase(tmp_path / "case")
    with opened(case, tmp_path).open("orders", 1) as log:
        last = log.log_end_offset - 1
        for offset in (last, last - 1, last):
            assert log[offset].offset == offset
        for one in (tmp_path / "case" / "bucket").rglob("*.log"):
            one.unlink()
        first = log.log_start_offset
        for call in (lambda: log[first], lambda: log.read(first, 100)):
            with pytest.raises(ReadIOError, match="not there any more"):
                call()


def test_a_closed_bucket_reads_nothing(case, tmp_path):
    """As a closed manager: what was opened then would never be closed."""
    bucket = opened(case, tmp_path)
    with bucket:
        assert bucket.count("epochs") == 782
    assert bucket.closed
    for call in (
        bucket.topics,
        lambda: bucket.count("epochs"),
        lambda: bucket.open("epochs", 0).__enter__(),
        lambda: bucket.verify("epochs", 0),
    ):
        with pytest.raises(ClosedError, match="the bucket is closed"):
            call()
    bucket.close()


@pytest.mark.parametrize("unknown", [("nope", 0), ("epochs", 7)])
def test_what_the_bucket_does_not_have_is_told_with_what_it_has(case, tmp_path, unknown):
    """A folder has no URL, and a number of files helps nobody."""
    bucket = opened(case, tmp_path)
    for call in (
        lambda: bucket.open(*unknown).__enter__(),
        lambda: bucket.left_out(*unknown),
        lambda: bucket.verify(*unknown),
    ):
        with pytest.raises(LogNotFoundError, match=r"nothing of this .*epochs-0, epochs-1"):
            call()


def test_a_segment_that_lacks_objects_says_which(leftovers, tmp_path):
    """[SEL-1] Whether Kafka or a person deleted them, nobody can tell."""
    path = objects_of(leftovers, 1, "log")[0]
    path.unlink()
    reasons = [str(one.reason) for one in opened(leftovers, tmp_path).left_out("orders", 1)]
    (said,) = [one for one in reasons if path.stem in one]
    assert "it has no .log: a deletion that was not finished, or another process has" in said
