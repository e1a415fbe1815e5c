"""Damage at an end of a log, or in its leader epochs, does not shorten it without a word."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("pyarrow")

import segstore
from segstore.errors import CorruptCheckpointError, CorruptLogError, SegstoreError
from segstore.remote.tiered.tiered_partition import TieredPartition
from tests.kits.tiered_writer import write_log


def write_bucket(folder, epochs):
    """Two partitions of two segments: offsets 0 to 135, and 136 to 294."""
    for number in (0, 1):
        name = f"orders-{number}"
        with segstore.open(folder / name) as log:
            for epoch, first, end in zip(epochs, (0, 136), (136, 295), strict=True):
                log.assign_epoch_start_offset(epoch, first)
                log.append([(None, b"%d" % offset) for offset in range(first, end)])
                log.roll()
        write_log(folder / name, folder / "bucket", 500)
    return folder / "bucket"


@pytest.fixture
def plain(tmp_path):
    """Of one leader."""
    return write_bucket(tmp_path, (0, 0))


def opened(bucket, tmp_path, **how):
    return segstore.open_bucket(bucket, keys={}, spool_directory=str(tmp_path / "spool"), **how)


def objects(bucket, suffix, partition="orders-*/0"):
    return sorted(bucket.rglob(f"{partition}/*.{suffix}"))


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def no_text(path):
    data = bytearray(path.read_bytes())
    data[30] = 0xFF
    path.write_bytes(data)


DAMAGES = {"rsm-manifest": no_text, "log": cut}


def offsets(bucket, tmp_path, **how):
    with opened(bucket, tmp_path, **how).open("orders", 0) as log:
        found = [record.offset for record in log.scan()]
        return found[0], found[-1], log.report.warnings


@pytest.mark.parametrize("suffix", DAMAGES)
@pytest.mark.parametrize(("number", "left"), [(-1, (0, 135)), (0, (136, 294))])
def test_a_damaged_first_or_last_segment_is_an_error(plain, tmp_path, suffix, number, left):
    """[SEL-1] [DUR-142] On request what is there is read, and the segment is named."""
    path = objects(plain, suffix)[number]
    DAMAGES[suffix](path)
    bucket = opened(plain, tmp_path)

    with pytest.raises(CorruptLogError, match=f"{path.stem}.*allow_gaps"):
        offsets(plain, tmp_path)
    with pytest.raises(CorruptLogError, match=path.stem):
        segstore.restore_bucket(plain, tmp_path / "data", topics="orders", partitions=0, keys={})
    assert not (tmp_path / "data" / "orders-0").exists()
    assert not bucket.verify("orders", 0).ok
    with bucket.open("orders", 1) as log:
        assert (log.log_start_offset, log.log_end_offset, log.report.warnings) == (0, 295, [])
    first, last, warnings = offsets(plain, tmp_path, allow_gaps=True)
    assert (first, last) == left
    assert [one for one in warnings if path.stem in one]


def test_a_damaged_segment_below_the_log_start_is_an_error_of_who_reads_there(plain, tmp_path):
    """[SEL-9] [DUR-142] Its records were deleted: others miss nothing, and are told."""
    with segstore.open(tmp_path / "orders-0") as log:
        log.delete_records(136)
    write_log(tmp_path / "orders-0", tmp_path / "later", 500)
    for suffix in ("log", "indexes", "rsm-manifest"):
        objects(plain, suffix)[-1].unlink()
        shutil.copy(objects(tmp_path / "later", suffix)[-1], objects(plain, suffix)[0].parent)
    assert offsets(plain, tmp_path) == (136, 294, [])
    assert offsets(plain, tmp_path, below_log_start=True) == (0, 294, [])
    damaged = objects(plain, "rsm-manifest")[0]
    no_text(damaged)

    with pytest.raises(CorruptLogError, match=f"{damaged.stem}.*before offset 136"):
        offsets(plain, tmp_path, below_log_start=True)
    first, last, warnings = offsets(plain, tmp_path)
    assert (first, last, len(warnings)) == (136, 294, 1)


def test_a_damaged_copy_of_records_that_another_segment_has_is_told(packed_buckets, tmp_path):
    """[SEL-2] [SEL-6] Nothing is missing."""
    shutil.copytree(packed_buckets / "leftovers", tmp_path / "case")
    bucket = tmp_path / "case" / "bucket"
    with opened(bucket, tmp_path).open("orders", 0) as log:
        bounds, warnings = (log.log_start_offset, log.log_end_offset), log.report.warnings
    _, second = objects(bucket, "rsm-manifest", "orders-2Met*/0")[-2:]
    no_text(second)

    with opened(bucket, tmp_path).open("orders", 0) as log:
        assert (log.log_start_offset, log.log_end_offset) == bounds == (157, 193)
        assert len(log.report.warnings) == len(warnings) + 1
        assert [one for one in log.report.warnings if second.stem in one]


def set_lineage(bucket, text):
    """Put another leader epoch index of the same size into the newest segment."""
    path = objects(bucket, "indexes")[-1]
    manifest = json.loads(path.with_suffix(".rsm-manifest").read_bytes())
    place = manifest["segmentIndexes"]["leaderEpoch"]
    data = bytearray(path.read_bytes())
    assert len(text) == place["size"]
    data[place["position"] : place["position"] + place["size"]] = text
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("text", [b"0\n1\n1 0\n", b"0\n1\n9 0\n"])
def test_a_lineage_without_the_epochs_of_its_segment_is_an_error(plain, tmp_path, text):
    """[SEL-3] [IXO-4] No empty log, and none that restores."""
    path = set_lineage(plain, text)

    with pytest.raises(CorruptCheckpointError, match=f"{path.name}.*contradicts the manifest"):
        offsets(plain, tmp_path)
    with pytest.raises(CorruptCheckpointError, match=path.name):
        segstore.restore_bucket(plain, tmp_path / "data", topics="orders", partitions=0, keys={})
    assert any("contradicts" in one for one in opened(plain, tmp_path).verify("orders", 0).problems)


def test_records_of_an_epoch_that_the_lineage_lacks_are_missing(tmp_path):
    """[SEL-5] [SEL-8] Before the first record that the lineage has: no retention leaves them."""
    bucket = write_bucket(tmp_path, (2, 3))
    assert offsets(bucket, tmp_path) == (0, 294, [])
    set_lineage(bucket, b"0\n2\n1 0\n3 136\n")

    with pytest.raises(CorruptLogError, match="a gap from offset 0 to 135") as raised:
        offsets(bucket, tmp_path)
    assert raised.value.missing == (0, 136)
    with pytest.raises(SegstoreError, match="a gap from offset 0 to 135"):
        segstore.restore_bucket(bucket, tmp_path / "data", partitions=0, keys={})
    assert not opened(bucket, tmp_path).verify("orders", 0).ok
    first, last, warnings = offsets(bucket, tmp_path, allow_gaps=True)
    assert (first, last) == (136, 294)
    assert "offsets 0 to 135" in warnings[0]


@pytest.mark.parametrize("how", [{}, {"allow_gaps": True}, {"below_log_start": True}])
@pytest.mark.parametrize("text", [b"0\n1\n0 150\n", b"0\n1\n0 290\n"])
def test_a_log_start_that_rose_while_the_segment_was_copied(tmp_path, how, text):
    """[SEL-3] A broker reads the manifest's epochs first, and the index later."""
    bucket = write_bucket(tmp_path, (0, 0))
    data, start = set_longer_lineage(bucket, text), int(text[6:])

    first, last, warnings = offsets(bucket, tmp_path, **how)
    assert (first, last, warnings) == (0 if "below_log_start" in how else start, 294, []), data
    segstore.restore_bucket(bucket, tmp_path / "data", topics="orders", partitions=0, keys={})
    with segstore.open(tmp_path / "data" / "orders-0", read_only=True) as log:
        assert (log.log_start_offset, log.log_end_offset) == (start, 295)
    assert opened(bucket, tmp_path).verify("orders", 0).ok


def set_longer_lineage(bucket, text):
    """Append another leader epoch index to the indexes of the newest segment."""
    path = objects(bucket, "indexes")[-1]
    manifest = json.loads(path.with_suffix(".rsm-manifest").read_bytes())
    data = path.read_bytes()
    place = manifest["segmentIndexes"]["leaderEpoch"]
    at, end = place["position"], place["position"] + place["size"]
    grown = len(text) - place["size"]
    path.write_bytes(data[:at] + text + data[end:])
    for one in manifest["segmentIndexes"].values():
        if one is not None and one["position"] > at:
            one["position"] += grown
    place["size"] = len(text)
    path.with_suffix(".rsm-manifest").write_text(json.dumps(manifest))
    return data


def add_copy(bucket, start, end, epoch=0):
    """Put a copy of the newest segment under other offsets, whose .log is cut."""
    newest = objects(bucket, "rsm-manifest")[-1]
    fields = json.loads(newest.read_bytes())
    metadata = fields["remoteLogSegmentMetadata"]
    segment_id = metadata["remoteLogSegmentId"]["id"][:-2] + "cA"
    metadata["remoteLogSegmentId"]["id"] = segment_id
    metadata |= {"startOffset": start, "endOffset": end, "segmentLeaderEpochs": {epoch: start}}
    copy = newest.with_name(f"{start:020}-{segment_id}.rsm-manifest")
    copy.write_text(json.dumps(fields))
    for suffix in (".indexes", ".log"):
        shutil.copy(newest.with_suffix(suffix), copy.with_suffix(suffix))
    cut(copy.with_suffix(".log"))
    return copy


def test_a_damaged_copy_whose_records_others_hold_is_told(plain, tmp_path):
    """[SEL-6] [DUR-142] Its manifest says where it ends."""
    copy = add_copy(plain, 200, 294)

    first, last, warnings = offsets(plain, tmp_path)
    assert (first, last) == (0, 294)
    assert [one for one in warnings if copy.stem in one]


@pytest.mark.parametrize(("end", "epoch"), [(295, 0), (250, 1)])
def test_a_damaged_copy_of_later_records_is_an_error(plain, tmp_path, end, epoch):
    """[DUR-142] By its end, or by its leader, which may have begun another history there."""
    copy = add_copy(plain, 200, end, epoch)

    with pytest.raises(CorruptLogError, match=copy.stem):
        offsets(plain, tmp_path)


def test_a_manifest_that_is_being_written_is_looked_at_again(plain, tmp_path, monkeypatch):
    """[SEL-14] A copy in a folder is seen before it is whole."""
    path = objects(plain, "rsm-manifest")[-1]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    check_ends = TieredPartition.check_ends

    def finished(*given, **options):
        try:
            check_ends(*given, **options)
        finally:
            path.write_bytes(whole)

    monkeypatch.setattr(TieredPartition, "check_ends", finished)
    assert offsets(plain, tmp_path) == (0, 294, [])
