"""Ranges of records that are known to be missing: the note of them, and reads across them."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Directory, FileBarrier, SimulatedDisk
from segstore.cli import main
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    NotALogError,
    ReadIOError,
)
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoints import (
    LOG_STATE,
    MISSING_RECORDS,
    RECOVERY_POINT_CHECKPOINT,
)
from segstore.log.files.missing_records_file import note_ranges
from segstore.log.findings.finding_text import advice, meaning
from segstore.log.local.local_log import LocalLog
from segstore.log.recovery.forecast import forecast_open
from segstore.records.memory_records import MemoryRecords
from segstore.types import AppendOrigin
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_damage import MARKER, changed
from tests.crash.failing_scenarios_of_doors import read_only
from tests.crash.failing_scenarios_of_missing_records import (
    DENSE,
    MISSING,
    missing,
    noted,
    shortened,
    written,
)
from tests.crash.failing_scenarios_of_opens import settled, without
from tests.crash.failing_scenarios_of_ways_on import sealed
from tests.kits.damaged_logs import batches_of
from tests.kits.directory_kit import fail_reads_of, name_of
from tests.kits.log_kit import at, batch, offsets, remove_segment, singleton, two_segments

if TYPE_CHECKING:
    from segstore.log.log_scan import LogScan


# ---- missing ranges and truncation ---------------------------------------------------------------
# ``.segstore.missing`` was cut before the truncation that it was cut for.
#
# A truncation that a full disk then refused had removed the only proof that records are missing:
# the log read on over the gap.


NOTE = ".segstore.missing"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Segments at 0, 20 and 40; the records from 30 to 39 are missing, and only a note says so."""
    path = tmp_path / "data" / "orders-0"
    path.parent.mkdir()
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in (20, 40):
                log.roll()
            log.append([(number, b"key", b"value %d" % number)])
    file = path / f"{20:020d}.log"
    os.truncate(file, batches_of(file)[10].position)
    (path / ".segstore").unlink()
    file.with_suffix(".index").unlink()
    segstore.open(path).close()
    assert b"missing 30 40" in (path / NOTE).read_bytes()
    return path


def noted_ranges(path: Path) -> list[bytes]:
    """Return the ranges in the note."""
    file = path / NOTE
    return file.read_bytes().splitlines()[1:-1] if file.exists() else []


@pytest.mark.parametrize(
    ("call", "offset"),
    [("truncate_to", 25), ("truncate_to", 35), ("truncate_fully_and_start_at", 100)],
)
def test_a_refused_truncation_keeps_the_proof(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, offset: int
) -> None:
    """[DUR-7, DUR-30] Nothing has changed, in this handle and in the next one."""
    before = noted_ranges(path)

    def refuse(*_: object) -> None:
        raise DiskFullError("no space")

    with segstore.open(path) as log:
        with monkeypatch.context() as patched:
            patched.setattr(LocalLog, "begin_truncation", refuse)
            with pytest.raises(DiskFullError):
                getattr(log, call)(offset)
        assert noted_ranges(path) == before
        assert not list(path.glob("*.tmp"))
        assert [one[:2] for one in log.missing_records()] == [(30, 40)]
        with pytest.raises(CorruptLogError, match="30 to 39"):
            list(log.scan())


@pytest.mark.parametrize(("offset", "left"), [(25, 0), (30, 0), (35, 1), (45, 1)])
def test_a_truncation_forgets_what_it_removes(path: Path, offset: int, left: int) -> None:
    """[TRU-1, DUR-7]"""
    with segstore.open(path) as log:
        log.truncate_to(offset)
    assert len(noted_ranges(path)) == left


@pytest.mark.parametrize(
    ("call", "offset"), [("truncate_to", 25), ("truncate_fully_and_start_at", 25)]
)
def test_a_crash_before_the_note_is_cut_leaves_no_stale_range(
    path: Path, call: str, offset: int
) -> None:
    """[TRU-1, DUR-36] The next open for writing removes the ranges above the log end."""
    before = (path / NOTE).read_bytes()
    with segstore.open(path) as log:
        getattr(log, call)(offset)
        crashed = shutil.copytree(path, path.parent.parent / "crashed" / "orders-0")
    (crashed / NOTE).write_bytes(before)

    with segstore.open(crashed) as log:
        assert log.log_end_offset == offset
        assert noted_ranges(crashed) == []
        assert log.missing_records() == []


def test_a_clean_open_keeps_the_ranges_below_the_log_end(path: Path) -> None:
    """[DUR-7]"""
    before = noted_ranges(path)
    for _ in range(2):
        segstore.open(path).close()
    assert noted_ranges(path) == before


# ---- missing ranges of another epoch -------------------------------------------------------------
# A range in ``.segstore.missing`` was tied to nothing.
#
# A broker that took the directory over could truncate the log, fetch the records again from another
# leader and compact them: the range was stale, and no read went past the gap of a healthy log.


def write_compacted(path: Path, epochs: tuple[int, int, int]) -> None:
    """Write segments at 0, 20 and 40; only an index says that 30 to 39 are missing.

    The records have the first epoch below 25, then the second one, and from 40 on the third.
    """
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in (20, 40):
                log.roll()
            epoch = epochs[(number >= 25) + (number >= 40)]
            log.append_as_leader(singleton(b"value %d" % number), leader_epoch=epoch)
    file = path / f"{20:020d}.log"
    os.truncate(file, batches_of(file)[10].position)
    (path / ".segstore").unlink()
    file.with_suffix(".timeindex").unlink()


@pytest.fixture
def note(tmp_path: Path) -> bytes:
    """Return the note of a log whose records from 30 to 39 a time index proves to be missing."""
    path = tmp_path / "noted" / "orders-0"
    write_compacted(path, (0, 3, 3))
    segstore.open(path).close()
    data = (path / NOTE).read_bytes()
    assert b"missing 30 40 3\n" in data
    return data


@pytest.mark.parametrize(
    ("epochs", "missing"),
    [
        ((0, 3, 3), [(30, 40)]),
        ((0, 3, 5), [(30, 40)]),
        ((0, 0, 3), [(30, 40)]),
        ((0, 5, 5), []),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_range_counts_up_to_its_epoch(
    tmp_path: Path,
    note: bytes,
    epochs: tuple[int, int, int],
    missing: list[tuple[int, int]],
    *,
    read_only: bool,
) -> None:
    """[DUR-7, DUR-64] Compaction leaves an earlier epoch before the gap, another leader a later."""
    path = tmp_path / "data" / "orders-0"
    write_compacted(path, epochs)
    (path / f"{20:020d}.index").unlink()
    (path / NOTE).write_bytes(note)

    with segstore.open(path, read_only=read_only) as log:
        assert [one[:2] for one in log.missing_records()] == missing
        if not missing:
            assert [one.offset for one in log.scan()] == [*range(30), *range(40, 60)]
    report = segstore.salvage(path, tmp_path / "salvaged" / path.name)
    assert [(one.first_offset, one.next_offset) for one in report.lost] == missing


def test_a_new_proof_counts_beside_a_stale_range(tmp_path: Path, note: bytes) -> None:
    """[DUR-7] The range has the later epoch then."""
    path = tmp_path / "data" / "orders-0"
    write_compacted(path, (0, 5, 5))
    (path / NOTE).write_bytes(note)

    for _ in range(2):
        with segstore.open(path) as log:
            assert [one[:2] for one in log.missing_records()] == [(30, 40)]
    assert b"missing 30 40 5\n" in (path / NOTE).read_bytes()


def test_each_range_in_a_gap_is_a_loss(tmp_path: Path) -> None:
    """[DUR-7] The first one alone was reported."""
    path = tmp_path / "data" / "orders-0"
    write_compacted(path, (0, 0, 0))
    (path / f"{20:020d}.index").unlink()
    with segstore.open(path) as log:
        note_ranges(log._local_log.directory, [(31, 32), (35, 36)])
        assert [one[:2] for one in log.missing_records()] == [(31, 32), (35, 36)]
        found = [one for one in log.verify().findings if one.code.value == "RECORDS_MISSING"]
        assert [one.lost for one in found] == [((31, 31), (35, 35))]


# ---- what cannot be read of a gap ----------------------------------------------------------------
# Failing reads around a gap made its missing records, or the way on, disappear.


def test_a_note_that_cannot_be_read_is_an_error():
    """[DUR-7] `missing_records` called the gap one of compaction."""
    disk = noted()
    with closing(read_only(disk)) as log:
        fail_reads_of(disk, MISSING_RECORDS)
        with pytest.raises(ReadIOError):
            missing(log)
        disk.watch(None)
        assert missing(log) == [MISSING]


def test_a_directory_in_the_place_of_the_note_is_an_error_and_a_finding():
    """[DUR-7, DUR-79] A scan read on over the gap."""
    disk = noted(MISSING_RECORDS)
    Directory(f"{PATH}/{MISSING_RECORDS}", disk, create=True).close()

    with closing(read_only(disk)) as log, pytest.raises(NotALogError):
        list(log.scan())
    codes = {one.code for one in check_partition(PATH, environment=disk).findings}
    assert "FILE_IS_NO_FILE" in codes


@pytest.mark.parametrize("data", [b"", b"version 0\n", b"version 1\ncrc 0\n", bytes(60)])
def test_a_damaged_note_is_a_finding(data: bytes):
    """[DUR-7] It counts as none: a check said that the log was clean."""
    disk = noted()
    with closing(Directory(PATH, disk)) as directory:
        assert not any(one.file == MISSING_RECORDS for one in findings_of(disk))
        directory.write_file_atomically(MISSING_RECORDS, data, FileBarrier.LOG_STATE)

    (finding,) = (one for one in findings_of(disk) if one.file == MISSING_RECORDS)
    assert (finding.code, finding.records) == ("CHECKPOINT_CORRUPT", "MAYBE_MISSING")
    assert not finding.repaired


def findings_of(disk):
    return check_partition(PATH, environment=disk).findings


def test_an_index_that_cannot_be_read_hides_no_missing_record():
    """[DUR-8] The segment itself can be read."""
    disk = noted()
    with closing(read_only(disk)) as log:
        fail_reads_of(disk, ".index")
        assert missing(log) == [MISSING]
        disk.watch(None)


@pytest.mark.parametrize("damage", [bytes(4), b"?" * 4, b"?" * 60])
def test_cuts_behind_damage_end(damage: bytes):
    """[DUR-79] The same offset was returned without end."""
    with closing(read_only(sealed(damage))) as log:
        for start in range(9):
            with suppress(CorruptRecordError):
                cuts = log.scan(start).cuts(1)
                assert cuts == sorted({*cuts})


DAMAGED = b"version 0\ngarbage\n"
KEPT = f"{MISSING_RECORDS}.quarantine-1"


def with_note(disk: SimulatedDisk, data: bytes) -> SimulatedDisk:
    """Put *data* in the place of the note."""
    with closing(Directory(PATH, disk)) as directory:
        directory.write_file_atomically(MISSING_RECORDS, data, FileBarrier.LOG_STATE)
    return disk


def notes_that_are_findings(disk: SimulatedDisk) -> list[str]:
    findings = findings_of(disk)
    assert all(one.code == "CHECKPOINT_CORRUPT" for one in findings if MISSING_RECORDS in one.file)
    return [one.file for one in findings if one.file.startswith(MISSING_RECORDS)]


def warned_of(log) -> list[str]:
    warnings = [one for one in log.report.warnings if one.startswith(MISSING_RECORDS)]
    return [one.partition(" ")[0] for one in warnings]


def test_opens_warn_of_a_damaged_note():
    """[DUR-7] Only verify, recover and salvage did."""
    disk = with_note(noted(), DAMAGED)

    with closing(read_only(disk)) as log:
        assert warned_of(log) == [MISSING_RECORDS]
    with closing(DENSE.open(disk)) as log:
        assert warned_of(log) == [MISSING_RECORDS]


def test_an_open_to_read_warns_of_a_note_that_cannot_be_read():
    """[DUR-7] It goes on: reads that reach the gap raise."""
    disk = noted()
    fail_reads_of(disk, MISSING_RECORDS)

    with closing(read_only(disk)) as log:
        assert warned_of(log) == [MISSING_RECORDS]
    disk.watch(None)


def test_a_damaged_note_is_kept_when_the_next_loss_is_noted():
    """[DUR-7, DUR-59] The new note took its place, and the finding was gone."""
    disk = with_note(shortened(name_of(3, "timeindex")), DAMAGED)
    with closing(DENSE.open(disk)) as log:
        assert missing(log) == [MISSING]

    for image in (disk, disk.crash_image(fate="lost")):
        with closing(Directory(PATH, image)) as directory:
            assert directory.read_file(KEPT, 100) == DAMAGED
        assert notes_that_are_findings(image) == [KEPT]
        with closing(read_only(image)) as log:
            assert (warned_of(log), missing(log)) == ([KEPT], [MISSING])


def test_each_damaged_note_has_its_own_name():
    """[DUR-59] The second one does not replace the first."""
    disk = with_note(noted(), DAMAGED)
    with closing(Directory(PATH, disk)) as directory:
        note_ranges(directory, [(20, 30)])
        with_note(disk, b"")
        note_ranges(directory, [(20, 30)])

    assert notes_that_are_findings(disk) == [KEPT, f"{MISSING_RECORDS}.quarantine-2"]


# ---- indexes that cannot be read -----------------------------------------------------------------
# An open for writing put another index in the place of one that the disk does not give out, and
# removed one without a ``.log``. Either may be the only proof that records are missing.


def fail_first_reads_of(disk: SimulatedDisk, name: str) -> None:
    """Let each read of the file fail that has the name now; it may be renamed."""
    renamed = []

    def watch(call: str, file: str) -> None:
        if call == "rename" and file.endswith(name):
            renamed.append(file)
        elif call == "read_at" and file.endswith(name) and not renamed:
            disk.fail(call, 1, errno.EIO)

    disk.watch(watch)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("kept_before", [0, 2])
def test_an_open_keeps_an_index_that_cannot_be_read(kind, kept_before):
    """[DUR-7, DUR-59] Only `segstore recover` did."""
    disk, name = shortened(), name_of(3, kind)
    kept = f"{name}.quarantine-{kept_before + 1}"
    with closing(Directory(PATH, disk)) as directory:
        content = directory.read_file(name)
        for number in range(kept_before):
            directory.make_file(f"{name}.quarantine-{number + 1}")
    fail_first_reads_of(disk, name)

    with closing(DENSE.open(disk)) as log:
        assert log.report.quarantined == [kept]

    disk.watch(None)
    with closing(Directory(PATH, disk)) as directory:
        assert directory.read_file(kept) == content
        assert directory.exists(name)


def with_a_lone_index(kind: str) -> tuple[SimulatedDisk, str]:
    """Return a log whose middle segment has lost all but one index."""
    lost = {"log", "index", "timeindex"} - {kind}
    disk = without(written(), LOG_STATE, *(name_of(3, one) for one in lost))
    return settled(disk), name_of(3, kind)


def doubted(disk: SimulatedDisk) -> list[tuple[str, tuple[tuple[int, int | None], ...]]]:
    found = [one for one in findings_of(disk) if one.code == "RECORDS_MAYBE_MISSING"]
    return [(one.file, one.lost) for one in found if one.file.endswith(".log")]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_open_keeps_an_index_without_a_log_that_cannot_be_read(kind):
    """[DUR-7, DUR-59] It was removed, and no check said a word."""
    disk, name = with_a_lone_index(kind)
    kept = f"{name}.quarantine-1"
    fail_first_reads_of(disk, name)
    expected = [(name_of(3), ((3, 5),))]
    assert doubted(disk) == expected
    assert kept in forecast_open(PATH, environment=disk).report.quarantined

    with closing(DENSE.open(disk)) as log:
        assert kept in log.report.quarantined
        assert name not in log.report.removed

    disk.watch(None)
    assert doubted(disk) == expected
    with closing(Directory(PATH, disk)) as directory:
        directory.unlink(kept)  # by an operator
    assert doubted(disk) == []


def test_an_index_that_may_not_be_opened_beside_a_lost_one_is_kept():
    """[DUR-7, DUR-59] The close of the log removed it, and the dry run said that it was kept."""
    disk = settled(without(written(), name_of(3, "index")))
    name, renamed = name_of(3, "timeindex"), []

    def watch(call: str, file: str) -> None:
        if call == "rename":
            renamed.append(file)
        elif call == "open_file" and file.endswith(name) and not renamed:
            disk.fail(call, 1, errno.EACCES)

    with closing(Directory(PATH, disk)) as directory:
        content = directory.read_file(name)
    disk.watch(watch)
    kept = f"{name}.quarantine-1"
    assert kept in check_partition(PATH, environment=disk).repair.quarantined

    with closing(DENSE.open(disk)) as log:
        assert kept in log.report.quarantined

    disk.watch(None)
    with closing(Directory(PATH, disk)) as directory:
        assert directory.read_file(kept) == content
        assert directory.exists(name)


def test_the_last_index_is_ahead_of_its_log():
    """[DUR-7] The open rebuilt it, and said nothing; verify said that no record is lost."""
    disk = settled(without(written(), MARKER, RECOVERY_POINT_CHECKPOINT))
    changed(disk, name_of(6), lambda content: content[: len(content) // 2])

    found = {one.file: one for one in findings_of(disk)}[name_of(6, "index")]
    assert (found.code, found.records, found.lost) == ("INDEX_CORRUPT", "MAYBE_MISSING", ((7, 7),))
    assert "may be missing" in meaning(found)
    with closing(DENSE.open(disk)) as log:
        (warning,) = (one for one in log.report.warnings if "may be missing" in one)
        assert warning.startswith("the log ends at offset 7, ")


def test_recover_keeps_an_index_that_is_ahead_of_its_log(tmp_path, capsys):
    """[DUR-7, DUR-59] It was removed before the open: where that failed, nothing was left."""
    path = tmp_path / "topic-0"
    with segstore.open(path, index_interval_bytes=0) as log:
        for number in range(6):
            log.append([(None, b"%d" % number)])
    for name in (MARKER, RECOVERY_POINT_CHECKPOINT):
        (path / name).unlink(missing_ok=True)
    index, file = path / name_of(0, "index"), path / name_of(0)
    proof = index.read_bytes()
    os.truncate(file, file.stat().st_size // 2)

    assert main(["recover", "-q", str(path)]) == 1
    assert f"{index.name}.quarantine-1" in capsys.readouterr().out
    assert Path(f"{index}.quarantine-1").read_bytes() == proof


@pytest.mark.parametrize("kept_bytes", [0, 1])
def test_a_salvage_names_what_the_last_index_names(tmp_path, capsys, kept_bytes):
    """[DUR-7, DUR-62] It said that nothing was lost; verify said that records may be missing."""
    path = tmp_path / "topic-0"
    with segstore.open(path, index_interval_bytes=0) as log:
        for number in range(6):
            log.append([(None, b"%d" % number)])
            if number == 2:
                log.roll()
    for name in (LOG_STATE, MARKER, RECOVERY_POINT_CHECKPOINT):
        (path / name).unlink(missing_ok=True)
    file = path / name_of(3)
    os.truncate(file, kept_bytes * file.stat().st_size // 3)
    end = 3 + kept_bytes

    (target := tmp_path / "new").mkdir()
    report = segstore.salvage(path, target / "topic-0")
    assert (report.maybe_lost, report.log_end_offset) == ([(end, 6)], 6)
    assert main(["salvage", "-q", str(path), str(target / "topic-1")]) == 1

    assert main(["recover", "-q", str(path)]) == 1
    said = f"{name_of(3, 'index')}.quarantine-1: an index that was kept; it names offsets up to 5"
    capsys.readouterr()
    assert main(["verify", "-q", str(path)]) == 0
    assert said in capsys.readouterr().out
    warnings = segstore.salvage(path, target / "topic-2").warnings
    assert any(one.startswith(said) for one in warnings)


def test_a_clean_marker_says_that_the_last_index_is_wrong(tmp_path):
    """[DUR-7] It says where the log ended: no record was behind it."""
    path = tmp_path / "topic-0"
    with segstore.open(path, index_interval_bytes=0) as log:
        log.append([(None, b"0")])
        log.append([(None, b"1")])
    size = (path / name_of(0)).stat().st_size
    with (path / name_of(0, "index")).open("ab") as index:
        index.write(struct.pack(">ii", 9, size))

    report = segstore.salvage(path, tmp_path / "new" / "topic-0")
    assert (report.maybe_lost, report.log_end_offset) == ([], 2)


def test_a_kept_note_says_how_its_finding_ends():
    """[DUR-59] It counted as damage for ever, and was to be restored from a copy."""
    disk = with_note(shortened(name_of(3, "timeindex")), DAMAGED)
    DENSE.open(disk).close()

    (found,) = (one for one in findings_of(disk) if one.file == KEPT)
    assert f"then remove {KEPT}" in advice(found, PATH)
    with closing(Directory(PATH, disk)) as directory:
        directory.unlink(KEPT)
    assert notes_that_are_findings(disk) == []


# ---- scan over missing records -------------------------------------------------------------------
# Batches that are gone from the middle of a segment: a fetch refused, a scan went on behind.


SIZE = len(at(0))


@pytest.fixture
def damaged(new_log, tmp_path):
    """A log of two segments; of the first, 0 to 5, the batches 2 and 3 are gone."""
    two_segments(new_log).close()
    file = tmp_path / "topic-0" / f"{0:020d}.log"
    content = file.read_bytes()
    file.write_bytes(content[: 2 * SIZE] + content[4 * SIZE :])
    return new_log(read_only=True)


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_a_scan_hands_out_what_comes_before_and_says_what_is_missing(damaged, start):
    """[DUR-50, DUR-79] Whether the range begins before the records that are missing, or in them."""
    found = []
    with pytest.raises(CorruptLogError) as refused:
        found.extend(record.offset for record in damaged.read(start))
    assert found == list(range(start, 2))
    error = refused.value
    assert error.file.endswith(f"{0:020d}.log")
    assert (error.position, error.found) == (2 * SIZE, "base offset 4")
    assert error.expected == f"base offset {max(start, 2)}"


def test_columns_and_counts_say_so_too(damaged):
    """[DUR-79] No way around it."""
    with pytest.raises(CorruptLogError, match="records before it are missing"):
        damaged.scan().to_arrow()
    with pytest.raises(CorruptLogError, match="records before it are missing"):
        damaged.scan().count()


def test_what_is_behind_can_be_read(damaged):
    """[DUR-51]"""
    assert offsets(damaged.read(4)) == [4, 5, 6, 7]
    assert offsets(damaged.scan(0, 2)) == [0, 1]


# ---- what a skipping scan reports ----------------------------------------------------------------
# ``scan(on_damage="skip")`` reports each loss of the range that it was asked for, and no other.
#
# Records that an index proves to be missing were left out silently where no ``.segstore`` was
# there. With ``read_committed`` it reported transactions outside the range.


END = 60


def skipped(scan: LogScan) -> list[tuple[int, int | None, str]]:
    """Read all of a scan, and return what it left out."""
    scan.count()
    return [(one.first_offset, one.next_offset, one.code.value) for one in scan.skipped]


@pytest.fixture(params=[True, False])
def gap(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Segments at 0, 20 and 40, of which 30 to 39 are missing; with and without ``.segstore``."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(END):
            if number in (20, 40):
                log.roll()
            log.append([(number, b"key", b"value %d" % number)])
    file = path / f"{20:020d}.log"
    os.truncate(file, batches_of(file)[10].position)
    if not request.param:
        (path / ".segstore").unlink()
    return path


@pytest.mark.parametrize(
    ("start", "end", "lost"),
    [
        (None, None, [(30, 40)]),
        (0, 30, []),
        (0, 35, [(30, 35)]),
        (35, None, [(35, 40)]),
        (33, 36, [(33, 36)]),
        (40, None, []),
    ],
)
@pytest.mark.parametrize("isolation", ["high_watermark", "read_committed"])
def test_proven_losses_are_reported(
    gap: Path, start: int | None, end: int | None, lost: list[tuple[int, int]], isolation: str
) -> None:
    """[DUR-7, DUR-79] As far as they lie in the range."""
    with segstore.open(gap, read_only=True) as log:
        scan = log.scan(start, end, on_damage="skip", isolation=isolation)
        given = [record.offset for record in scan]
        assert skipped(scan) == [(*one, "RECORDS_MISSING") for one in lost]
        there = [*range(30), *range(40, END)]
        assert given == [
            one for one in there if (start or 0) <= one < (END if end is None else end)
        ]


def test_a_gap_without_proof_is_not_reported(gap: Path) -> None:
    """[DUR-64] Compaction may have left it."""
    (gap / ".segstore").unlink(missing_ok=True)
    for kind in ("index", "timeindex"):
        (gap / f"{20:020d}.{kind}").unlink()
    with segstore.open(gap, read_only=True) as log:
        assert skipped(log.scan(on_damage="skip")) == []


@pytest.mark.parametrize(
    ("start", "end", "undecided"),
    [
        (0, None, [(20, 25)]),
        (0, 10, []),
        (0, 20, []),
        (0, 22, [(20, 22)]),
        (22, None, [(22, 25)]),
        (25, None, []),
    ],
)
def test_transactions_outside_the_range_are_not_reported(
    tmp_path: Path, start: int, end: int | None, undecided: list[tuple[int, int]]
) -> None:
    """[DUR-79] Their end may be among what is damaged, but no record of them was asked for."""
    path = tmp_path / "orders-0"
    with segstore.open(path) as log:
        for _ in range(20):
            log.append([(None, b"before")])
        for sequence in range(5):
            log.append_as_leader(
                batch(
                    [(None, b"in a transaction")],
                    producer_id=7,
                    producer_epoch=0,
                    base_sequence=sequence,
                    transactional=True,
                ),
                leader_epoch=0,
            )
        log.append([(None, b"damaged")])
        marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=True, coordinator_epoch=0)
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)
        log.append([(None, b"behind")])
    file = path / f"{0:020d}.log"
    data = file.read_bytes()
    file.write_bytes(data.replace(b"damaged", b"Damaged"))

    with segstore.open(path, read_only=True) as log:
        scan = log.scan(start, end, isolation="read_committed", on_damage="skip")
        found = [one for one in skipped(scan) if one[2] == "RECORDS_MAYBE_MISSING"]
    assert found == [(*one, "RECORDS_MAYBE_MISSING") for one in undecided]


# ---- .segstore beside an open handle -------------------------------------------------------------
# Reads passed over missing records in silence once the disk did not give out `.segstore`.


def test_a_segstore_that_cannot_be_read_any_more_hides_no_gap(tmp_path):
    """[DUR-7, DUR-33, DUR-79] The open has used the file: without it no read knows of a gap."""
    path = tmp_path / "topic-0"
    with segstore.open(path) as log:
        for number in range(9):
            log.append([(None, b"%d" % number)])
            if number % 3 == 2:
                log.roll()
    remove_segment(path, 3)
    with segstore.open(path, read_only=True) as log:
        (path / LOG_STATE).unlink()
        (path / LOG_STATE).mkdir()
        for read in (lambda: list(log.scan()), log.missing_records):
            with pytest.raises(segstore.SegstoreError, match=LOG_STATE):
                read()
