"""Failing reads around a gap made its missing records, or the way on, disappear."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest

from segstore._core import Directory, FileBarrier, SimulatedDisk
from segstore.errors import CorruptRecordError, NotALogError, ReadIOError
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoints import MISSING_RECORDS
from segstore.log.files.missing_records_file import note_ranges
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_doors import read_only
from tests.crash.failing_scenarios_of_missing_records import (
    DENSE,
    MISSING,
    missing,
    noted,
    shortened,
)
from tests.crash.failing_scenarios_of_ways_on import sealed
from tests.kits.directory_kit import fail_reads_of, name_of


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
