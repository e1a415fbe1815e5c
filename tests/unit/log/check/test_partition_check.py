"""verify: every batch, every index entry; nothing is changed [DUR-50, DUR-53, DUR-54]."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import time
from pathlib import Path

import pytest

from segstore import _core
from segstore.log.check import segment_check
from segstore.log.findings.finding import FindingCode, Records
from tests.kits.log_kit import TIME, at

RECORD = b"x" * 20


@pytest.fixture
def path(new_log, tmp_path):
    log = new_log(internal_segment_bytes=600, index_interval_bytes=0)
    for number in range(15):
        log.append([(TIME + number, None, RECORD)])
    assert len(log.segments()) == 3
    log.close()
    return tmp_path / "topic-0"


def verified(new_log, path):
    """The report of a reader; no byte of the directory changes."""
    before = {f.name: hashlib.sha256(f.read_bytes()).digest() for f in Path(path).iterdir()}
    log = new_log(path, read_only=True)
    steps = []
    report = log.verify(lambda *step: steps.append(step))
    log.close()
    assert {f.name: hashlib.sha256(f.read_bytes()).digest() for f in Path(path).iterdir()} == before
    assert steps[-1][0] == "verify"
    assert steps[-1][1] == steps[-1][2] == report.size_bytes
    return report


def codes(report) -> set[FindingCode]:
    return {finding.code for finding in report.findings}


def change(file: Path, position: int, new: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(new)


def test_a_good_log(new_log, path):
    report = verified(new_log, path)
    assert report.ok
    assert (report.batches, report.records, len(report.segments)) == (15, 15, 3)
    assert report.size_bytes == sum(f.stat().st_size for f in path.glob("*.log"))
    assert [check.next_offset for check in report.segments] == [6, 12, 15]
    assert "all good" in str(report)
    as_values = report.to_dict()
    assert (as_values["ok"], as_values["problems"]) == (True, [])
    assert as_values["segments"][0]["valid_bytes"] == report.segments[0].size_bytes


@pytest.mark.parametrize("at_byte", [0, 8, 16, 17, 21, 61, 87])
def test_a_damaged_batch(new_log, path, at_byte):
    """[DUR-50] the problem names the segment; what is good before it is counted."""
    size = (path / f"{0:020d}.log").stat().st_size // 6
    change(path / f"{0:020d}.log", 2 * size + at_byte, b"\x7e")
    report = verified(new_log, path)
    assert not report.ok
    (found,) = report.findings
    assert (found.file, found.position, found.first_offset) == (f"{0:020d}.log", 2 * size, 2)
    assert found.code in {FindingCode.BATCH_CORRUPT, FindingCode.BATCH_OUT_OF_ORDER}
    assert found.lost == ((2, 2),)
    assert found.salvageable == ((3, 5),)
    assert report.segments[0].batches == 2
    assert report.segments[0].valid_bytes == 2 * size
    assert report.batches == 11
    assert "1 problems" in str(report)


def test_bytes_behind_the_last_batch(new_log, path):
    """[DUR-79]"""
    with (path / f"{0:020d}.log").open("ab") as file:
        file.write(bytes(40))
    (found,) = verified(new_log, path).findings
    assert (found.code, found.size_bytes, found.records) == (
        FindingCode.ZEROS_AT_END,
        40,
        Records.NONE,
    )


@pytest.mark.parametrize(
    ("kind", "change_entry", "first_wrong"),
    [
        ("index", (1, (9).to_bytes(4) + (0).to_bytes(4)), 2),
        ("index", (2, (1).to_bytes(4) + (88).to_bytes(4)), 2),
        ("index", (1, (2).to_bytes(4) + (100).to_bytes(4)), 1),
        ("timeindex", (1, (TIME + 1).to_bytes(8) + (4).to_bytes(4)), 1),
        ("timeindex", (1, (TIME + 9).to_bytes(8) + (2).to_bytes(4)), 2),
    ],
)
def test_an_index_entry_that_is_not_true(new_log, path, kind, change_entry, first_wrong):
    """[DUR-53, OFX-1, TMX-1]"""
    entry, new = change_entry
    change(path / f"{0:020d}.{kind}", entry * len(new), new)
    report = verified(new_log, path)
    (found,) = report.findings
    assert (found.code, found.file) == (FindingCode.INDEX_CORRUPT, f"{0:020d}.{kind}")
    assert found.position == first_wrong * len(new)


@pytest.mark.parametrize("is_marked", [True, False])
def test_the_clean_marker_says_that_no_record_was_behind_the_end(new_log, path, is_marked):
    """[DUR-7, DUR-24] What an index names there is no record that may be missing."""
    with (path / f"{12:020d}.index").open("ab") as index:
        index.write(struct.pack(">ii", 1000, 2**20))
    if not is_marked:
        (path / ".kafka_cleanshutdown").unlink()
        (path / "recovery-point-offset-checkpoint").unlink()

    (found,) = verified(new_log, path).findings

    assert found.code is FindingCode.INDEX_CORRUPT
    expected = (Records.NONE, ()) if is_marked else (Records.MAYBE_MISSING, ((15, 1012),))
    assert (found.records, found.lost) == expected


def test_a_segment_that_reaches_into_the_next(new_log, path):
    """[DUR-54]"""
    os.rename(path / f"{6:020d}.log", path / f"{4:020d}.log")  # noqa: PTH104
    report = verified(new_log, path)
    (found, *_) = report.findings
    assert (found.code, found.file) == (FindingCode.BATCH_OUT_OF_ORDER, f"{0:020d}.log")
    assert found.first_offset == 4


def test_a_writer_verifies_what_it_has_written(new_log):
    """Also the active segment, whose indexes are not trimmed yet."""
    log = new_log(index_interval_bytes=0)
    for number in range(10):
        log.append([(TIME - number, None, RECORD)])
        assert log.verify().ok
    assert log.verify().records == 10


EMPTY_CLAIM = 2**31 - 1


def test_records_of_compressed_message_sets_are_counted(new_log, golden_of, tmp_path):
    """[format.md 7] Their headers have no count: each is opened. Kafka's classes counted, too."""
    for partition in golden_of("message sets"):
        expected = partition.expected
        path = shutil.copytree(partition.directory, tmp_path / partition.name)
        log = new_log(path, read_only=True)
        report = log.verify()

        assert expected["batches_by_codec"].keys() > {"none"}
        assert codes(report) <= {FindingCode.INDEX_MISSING}
        assert report.records == len(list(log)) == expected["records_total"]
        assert report.batches == len(list(log.scan().batches())) == expected["batches"]
        assert report.uncounted_batches == 0


def claiming(count: int, last_offset_delta: int, content: bytes = b"") -> bytes:
    """A batch of magic 2 with a right CRC and a wrong count."""
    body = struct.pack(">hiqqqhii", 0, last_offset_delta, TIME, TIME, -1, -1, -1, count) + content
    head = struct.pack(">qiibI", 0, len(body) + 9, 0, 2, _core.crc32c(body))
    return head + body


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (claiming(EMPTY_CLAIM, EMPTY_CLAIM - 1, b"abc"), 0),
        (claiming(EMPTY_CLAIM, 0), 0),
        (claiming(-5, 0), 0),
        (claiming(2, 0, b"\x0c\0\0\0\x01\x01\0"), 0),
    ],
)
def test_records_that_do_not_fit_their_batch_are_damage(new_log, tmp_path, data, records):
    """[DUR-87] Told at once; nothing is counted that is not there."""
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / f"{0:020d}.log").write_bytes(data)
    began = time.monotonic()
    report = new_log(path, read_only=True).verify()

    assert time.monotonic() - began < 5
    assert (report.ok, report.records, report.uncounted_batches) == (False, records, 1)
    found, *indexes = report.findings
    assert (found.code, found.position) == (FindingCode.RECORDS_CORRUPT, 0)
    assert {one.code for one in indexes} == {FindingCode.INDEX_MISSING}


def test_a_batch_that_cannot_be_opened_is_said_to_be_uncounted(new_log, packed, tmp_path):
    """A library that is missing is no damage."""
    path = shutil.copytree(packed / "legacy-v1" / "data" / "older-0", tmp_path / "older-0")
    log = new_log(path, read_only=True)
    whole = log.verify()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_check, "codec_table", lambda: _core.CodecTable({}))
        report = log.verify()

    assert codes(report) <= {FindingCode.INDEX_MISSING}
    assert 0 < report.records < whole.records
    assert report.uncounted_batches == sum(one.codec != 0 for one in log.scan().batches())
    assert report.to_dict()["segments"][0]["uncounted_batches"] > 0


SIZE = len(at(0))


def in_epochs(new_log, tmp_path, *epochs):
    """Return the directory of a log with three batches a segment, in these epochs."""
    log = new_log(internal_segment_bytes=3 * SIZE, index_interval_bytes=0)
    for offset, epoch in enumerate(epochs):
        log.append_as_follower(at(offset, epoch=epoch), epoch)
    log.close()
    return tmp_path / "topic-0"


@pytest.mark.parametrize(
    ("flipped", "told"),
    [
        ((2, 1), (2, 2)),
        ((3, 1), (3, 0)),
        ((4, 99), (5, 2)),
        ((5, 99), (6, 0)),
    ],
)
@pytest.mark.parametrize("look", ["verify", "scrub"])
def test_a_flipped_leader_epoch(new_log, tmp_path, look, flipped, told):
    """[DUR-50, DUR-60, DUR-64] No CRC covers it: the batch behind it, by offset and number."""
    path = in_epochs(new_log, tmp_path, 2, 2, 2, 2, 3, 4, 4, 4)
    assert verified(new_log, path).ok
    offset, epoch = flipped
    base = offset - offset % 3
    change(path / f"{base:020d}.log", (offset - base) * SIZE + 12, epoch.to_bytes(4))

    report = getattr(new_log(path, read_only=True), look)()
    (found,) = report.findings
    assert found.code == FindingCode.BATCH_OUT_OF_ORDER
    assert (found.first_offset, found.position) == (told[0], told[1] * SIZE)
    assert report.records == 8


def test_epochs_that_the_log_does_not_vouch_for(new_log, tmp_path):
    """[DUR-64] Where a broker of old formats wrote, epochs may go down.

    The checkpoint has what a rebuild gives: there is nothing to repair in it.
    """
    path = in_epochs(new_log, tmp_path, 2, 2, 3, 3)
    change(path / f"{0:020d}.log", SIZE + 12, (1).to_bytes(4))
    (path / ".segstore").unlink()
    (path / ".kafka_cleanshutdown").unlink()
    assert codes(verified(new_log, path)) == {FindingCode.STATE_MISSING}


def test_records_that_are_missing_between_two_batches(new_log, tmp_path):
    """[DUR-50, DUR-64] As a read that comes there, verify says so."""
    path = in_epochs(new_log, tmp_path, 2, 2, 2, 2)
    file = path / f"{0:020d}.log"
    content = file.read_bytes()
    file.write_bytes(content[:SIZE] + content[2 * SIZE :])
    found = verified(new_log, path).findings[0]
    assert (found.code, found.position) == (FindingCode.RECORDS_MISSING, SIZE)
    assert found.lost == ((1, 1),)
