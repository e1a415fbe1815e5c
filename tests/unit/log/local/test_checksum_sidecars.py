"""Checksum sidecars of sealed segments: when they come and go, and their file [DUR-60]."""

from __future__ import annotations

import errno
import os

import pytest

from segstore._core import SimulatedDisk, crc32c
from segstore.errors import (
    ArgumentTypeError,
    CorruptCheckpointError,
    IllegalArgumentError,
    LogReadOnlyError,
)
from segstore.log.files.checksum_sidecar import (
    BLOCK_BYTES,
    MAX_SIDECAR_BYTES,
    ChecksumSidecar,
    sidecar_name,
)
from segstore.log.findings.finding import FindingCode
from tests.crash.crash_script import ManualScheduler, Settings
from tests.kits.damaged_logs import batches_of, flip_bit
from tests.kits.log_kit import bases
from tests.kits.sidecar_kit import VALUE, log, path_of, sidecars

__all__ = ["log"]


@pytest.mark.parametrize("with_option", [True, False])
@pytest.mark.parametrize("offset", [24, 20, 16, 8, 3, 0])
def test_a_truncation_removes_those_of_what_it_cuts(log, new_log, offset, with_option):
    """Also in a handle without the option: what is there is true."""
    log.close()
    log = new_log(checksum_sidecar=with_option, internal_segment_bytes=8 * VALUE + 4000)
    log.truncate_to(offset)
    assert sidecars(log) == [base for base in bases(log)[:-1] if base < offset]
    assert log.scrub().ok

    while log.log_end_offset < 40:  # other batches, in segments of the same bases and sizes
        log.append([(None, os.urandom(VALUE))])
    log._background.wait_until_idle()
    report = log.scrub()
    assert report.ok
    assert len(report.segments) == 5
    assert report.sidecars == (4 if with_option else len([b for b in (8, 16, 24) if b <= offset]))


def test_a_full_truncation_removes_all(log):
    log.truncate_fully_and_start_at(100)
    assert sidecars(log) == []


def test_they_go_with_the_segments(log):
    log.delete_records(17)
    assert sidecars(log) == [16]
    assert log.scrub().sidecars == 1


def test_one_of_no_segment_or_of_the_active_one_is_removed_by_the_next_open(log, new_log, tmp_path):
    data = path_of(tmp_path, log, 0, "segsum").read_bytes()
    log.close()
    for base in (24, 1000):
        (tmp_path / "topic-0" / sidecar_name(base)).write_bytes(data)
    (tmp_path / "topic-0" / f"{sidecar_name(16)}.tmp").write_bytes(data[:10])
    (tmp_path / "topic-0" / "7.segsum").write_bytes(b"not ours")

    log = new_log()

    assert sidecars(log) == [0, 8, 16]
    assert not list((tmp_path / "topic-0").glob("*.tmp"))
    assert (tmp_path / "topic-0" / "7.segsum").read_bytes() == b"not ours"


def test_a_directory_of_that_name_is_in_nobodys_way(log, new_log, tmp_path):
    """[DUR-42]"""
    folder = tmp_path / "topic-0"
    log.close()
    for base in (8, 24):
        (folder / sidecar_name(base)).unlink(missing_ok=True)
        (folder / sidecar_name(base)).mkdir()
    log = new_log()
    assert any("is no file" in warning for warning in log.report.warnings)
    (found, *_) = log.scrub().findings
    assert (found.code, found.file) == (FindingCode.FILE_IS_NO_FILE, sidecar_name(8))
    log.truncate_to(9)
    assert log.log_end_offset == 9


def test_what_a_torn_tail_is_cut_from_loses_its_sidecar(log, new_log, tmp_path):
    """[DUR-50] A segment that a recovery makes the active one."""
    log.close_quietly()
    folder = tmp_path / "topic-0"
    (folder / "recovery-point-offset-checkpoint").write_text("0\n1\ntopic 0 10\n")
    file = folder / f"{16:020d}.log"
    flip_bit(file, batches_of(file)[2].position + 100)

    log = new_log()

    assert log.log_end_offset == 18
    assert sidecars(log) == [0, 8]
    assert log.verify().ok


def test_one_that_is_being_made_while_its_segment_is_cut_is_not_written(monkeypatch):
    """The truncation comes between reading the segment and writing the file."""
    scheduler = ManualScheduler()
    settings = Settings(segment_bytes=500, checksum_sidecar=True)
    disk = SimulatedDisk()
    log = settings.open(disk, scheduler)
    for _ in range(8):
        log.append([(None, b"x" * 100)])
    assert len(log.segments()) > 1
    sidecars = log._local_log.checksum_sidecars
    make = sidecars.make

    def cut_then(segment):
        made = make(segment)
        monkeypatch.setattr(sidecars, "make", make)
        log.truncate_to(1)
        for _ in range(8):
            log.append([(None, b"y" * 100)])
        return made

    monkeypatch.setattr(sidecars, "make", cut_then)
    assert log._flusher.write_checksum_sidecar(log._local_log.segments.first_segment) is False
    assert log.verify().sidecars == 0
    scheduler.run()
    report = log.verify()
    assert report.ok
    assert report.sidecars == len(log.segments()) - 1
    log.close_quietly()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_one_that_cannot_be_written_is_in_nobodys_way(error):
    """[DUR-41] As a snapshot: told, and nothing else."""
    scheduler, disk = ManualScheduler(), SimulatedDisk()
    log = Settings(segment_bytes=500, checksum_sidecar=True).open(disk, scheduler)
    for _ in range(8):
        log.append([(None, b"x" * 100)])
    scheduler.run()
    before = log.verify().sidecars
    log.roll()
    log.flush()
    sidecars = log._local_log.checksum_sidecars
    segment = log.segments()[-2]
    made = sidecars.make(log._local_log.segments.get(segment.base_offset))
    disk.fail("write_at", 1, error)
    with pytest.raises(OSError, match="segsum"):
        sidecars.publish(made)
    scheduler.run()
    log.append([(None, b"goes on")])
    report = log.verify()
    assert report.ok
    assert report.sidecars == before + 1
    log.close_quietly()


def test_a_sync_that_fails_ends_writing():
    """[DUR-35] As any other of the directory."""
    scheduler, disk = ManualScheduler(), SimulatedDisk()
    log = Settings(segment_bytes=500, checksum_sidecar=True).open(disk, scheduler)
    for _ in range(8):
        log.append([(None, b"x" * 100)])
    log.flush()
    disk.fail("sync_directory", 1, errno.EIO, for_ever=True)
    scheduler.run()
    with pytest.raises(LogReadOnlyError):
        log.append([(None, b"refused")])
    log.close_quietly()


@pytest.mark.parametrize("settings", [{"read_only": True}, {"recovery": "kafka"}])
def test_who_makes_no_files_has_no_such_option(new_log, settings):
    """[DUR-62, DUR-71]"""
    new_log().close()
    with pytest.raises(IllegalArgumentError, match="checksum_sidecar"):
        new_log(checksum_sidecar=True, **settings)


def test_the_option_is_a_flag(new_log):
    with pytest.raises(ArgumentTypeError, match="checksum_sidecar"):
        new_log(checksum_sidecar="yes")


def test_the_file_is_as_it_is_described():
    """The format is ours, and fixed."""
    sidecar = ChecksumSidecar(7, BLOCK_BYTES + 1, 9, (0x01020304, 0xFFFFFFFF))
    data = sidecar.format()
    assert data[:-4].hex(" ", 4) == (
        "53454753 554d0000 00010000 00000000 00000007 00000000"
        " 00010001 00000000 00000009 01020304 ffffffff"
    )
    assert int.from_bytes(data[-4:]) == crc32c(data[:-4])
    assert ChecksumSidecar.parse(data, 7) == sidecar


def test_the_largest_has_the_size_that_is_read():
    blocks = (2**31 - 1) // BLOCK_BYTES + 1
    data = ChecksumSidecar(0, 2**31 - 1, 1, (0,) * blocks).format()
    assert len(data) == MAX_SIDECAR_BYTES
    assert len(ChecksumSidecar.parse(data, 0).checksums) == blocks


def test_that_of_another_segment_is_refused():
    data = ChecksumSidecar(7, 1, 9, (1,)).format()
    with pytest.raises(CorruptCheckpointError) as raised:
        ChecksumSidecar.parse(data, 8)
    error = raised.value
    assert (error.file, error.position) == (sidecar_name(8), 12)
    assert (error.found, error.expected) == ("base offset 7", "8, as its name says")
