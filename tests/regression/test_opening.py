"""What an open finds, refuses or leaves: full disks, failing calls, files of others."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import time
import tracemalloc
import uuid
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import segstore
from segstore import _core, cli
from segstore._core import DataFile, Directory, SimulatedDisk
from segstore.cli import main
from segstore.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    DiskFullError,
    FsyncFailedError,
    LogNotFoundError,
    NotALogError,
    SegstoreError,
)
from segstore.log.check.partition_check import check_partition
from segstore.log.files import topic_directories
from segstore.log.files.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SYNC_FAILED_MARK,
    parse_checkpoint,
)
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.partition_path import make_directory
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.types import SpecialTimestamp
from tests.crash.barrier_scene import open_log
from tests.crash.crash_check import Crash, look
from tests.crash.crash_script import PATH, Settings
from tests.crash.failing_scenarios_of_opens import SEGMENTS, SETTINGS, closed
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    append_bytes,
    batches_of,
    build,
    cut,
    expected_values,
    flip_bit,
    open_twice,
    refused,
    values_of,
)
from tests.kits.directory_kit import disk_with
from tests.kits.log_kit import TIME, in_a_child, singleton
from tests.kits.small_disk import small_disk

__all__ = ["small_disk"]


# ---- copy whose sync failed ----------------------------------------------------------------------
# A sync of a copied log failed, and the open behind it believed what that had left in memory.
#
# The mark that lets the next open write everything again could not be made on a full disk, where
# the sync fails too: the copy counted as synced then, and a power cut took its records. And with
# the mark only the records were written again: a log start went, and what had been deleted came
# back.


DELETED = ("delete_records", 3), ("background", 3600)
SYNCS = 9
"""Of as many files: the marker, ``.segstore``, two ``.log``, two snapshots, three checkpoints."""


def copied_without_a_sync(source: SimulatedDisk) -> SimulatedDisk:
    """Return a disk with the files of a log that was closed cleanly: only their names are on it."""
    disk = disk_with({})
    there, here = Directory(PATH, source), Directory(PATH, disk)
    for name in there.names():
        with DataFile(here, name, create=True) as file:
            file.write(0, there.read_file(name))
    return disk


def open_with_a_failed_sync(disk: SimulatedDisk, number: int, *, is_full: bool) -> None:
    """Let that sync fail; for want of room, which is there again for the next open."""
    syncs = []

    def watch(call: str, name: str) -> None:
        if call == "sync_file":
            syncs.append(name)
        if call == "sync_file" and len(syncs) == number:
            disk.fail("sync_file", 1, errno.ENOSPC)
            disk.fail("open_file", int(is_full), errno.ENOSPC, for_ever=True)

    disk.watch(watch)
    try:
        SETTINGS.open(disk).close_quietly()
    finally:
        disk.watch(None)
        disk.fail("open_file", 0, 0)


@pytest.mark.parametrize("is_full", [True, False])
def test_what_the_next_open_shows_survives_a_power_cut(is_full):
    """[DUR-1, DUR-5, DUR-35, DUR-36] Whichever sync it was, and without room for a mark."""
    source = closed(*SEGMENTS, *DELETED)
    expected = look(source.crash_image(fate="lost"), SETTINGS).found
    assert expected.log_start == 3
    for number in range(1, SYNCS + 1):
        disk = copied_without_a_sync(source)
        with pytest.raises(FsyncFailedError):
            open_with_a_failed_sync(disk, number, is_full=is_full)
        log = SETTINGS.open(disk)
        assert (log.log_start_offset, log.log_end_offset) == (3, 6)
        log.close_quietly()

        assert look(disk.crash_image(fate="lost"), SETTINGS).found == expected


# ---- open on a full disk -------------------------------------------------------------------------
# On a full disk a log with the mark of a failed sync, which often is why, could not be opened.
#
# Behind any mark five small files were written once more, not only where their own sync had failed:
# nothing could be deleted then to make room.


SMALL_FILES = 4
"""Those of a copy that are synced first: three checkpoints and ``.segstore``."""


def write(path, *, is_closed: bool) -> bool:
    log = segstore.open(path)
    for _ in range(2):
        log.append([(None, b"x" * 1000)] * 100)
        log.roll()
    log.append([(None, b"y" * 1000)] * 10)
    log.flush()
    if is_closed:
        log.close()
    return True


@pytest.mark.parametrize("is_closed", [True, False])
def test_records_can_be_deleted_to_make_room(small_disk, is_closed):
    """[DUR-8, DUR-30, DUR-57] Whoever stopped behind the sync that failed, in whatever way."""
    path = small_disk.path / "topic-0"
    assert in_a_child(lambda: write(path, is_closed=is_closed)) == 0
    (path / SYNC_FAILED_MARK).touch()
    small_disk.fill()

    with segstore.open(path, file_delete_delay_ms=0) as log:
        assert "a sync had failed: all that there is was written again at once" in (
            log.report.warnings
        )
        assert [record.offset for record in log] == list(range(210))
        log.delete_records(200)
    assert not (path / SYNC_FAILED_MARK).exists()
    with segstore.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (200, 210)


def test_a_copy_with_a_mark_is_believed_no_more_than_one_without():
    """[DUR-1, DUR-5, DUR-36] Where the sync of a small file of it fails the mark says so."""
    source = closed(*SEGMENTS, *DELETED)
    expected = look(source.crash_image(fate="lost"), SETTINGS).found
    for number in range(1, SMALL_FILES + 1):
        disk = copied_without_a_sync(source)
        directory = Directory(PATH, disk)
        directory.make_file(SYNC_FAILED_MARK)
        with pytest.raises(FsyncFailedError):
            open_with_a_failed_sync(disk, number, is_full=False)
        assert directory.info(SYNC_FAILED_MARK).size > 0

        SETTINGS.open(disk).close_quietly()
        assert look(disk.crash_image(fate="lost"), SETTINGS).found == expected


def test_small_files_that_were_synced_need_no_room_again():
    """[DUR-30, DUR-36, DUR-57] The mark of another sync of a copy leaves them alone."""
    disk = copied_without_a_sync(closed(*SEGMENTS, *DELETED))
    with pytest.raises(FsyncFailedError):
        open_with_a_failed_sync(disk, SMALL_FILES + 1, is_full=False)
    assert Directory(PATH, disk).info(SYNC_FAILED_MARK).size == 0
    touched = set()
    disk.watch(lambda _, name: touched.add(name))
    SETTINGS.open(disk).close_quietly()
    disk.watch(None)
    assert LOG_START_OFFSET_CHECKPOINT in touched
    assert f"{LOG_START_OFFSET_CHECKPOINT}.tmp" not in touched


REFUSED = 3


def open_and_die(path) -> bool:
    """Open the log and leave it as a kill does; whether it has all its offsets."""
    try:
        log = segstore.open(path)
    except CorruptLogError:
        os._exit(REFUSED)
    return log.log_end_offset == 210


def flip_a_byte(path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def cut_file(path, end: int) -> None:
    path.write_bytes(path.read_bytes()[:end])


@pytest.mark.parametrize(
    ("base_offset", "damage"),
    [
        (200, lambda path: cut_file(path, -1)),
        (200, lambda path: cut_file(path, 0)),
        (0, flip_a_byte),
        (100, flip_a_byte),
    ],
    ids=["a byte is lost", "all batches are", "first segment", "middle segment"],
)
def test_synced_records_are_not_cut_for_want_of_the_point(small_disk, base_offset, damage):
    """[DUR-6, DUR-63] Nothing but the point, and the marker, tells that they had been synced.

    The open went on without room for the point where the end was whole, and took the marker away:
    the one behind a kill cut good segments off at a bad byte of a sealed one.
    """
    path = small_disk.path / "topic-0"
    assert in_a_child(lambda: write(path, is_closed=True)) == 0
    (path / RECOVERY_POINT_CHECKPOINT).unlink()
    damage(path / f"{base_offset:020d}.log")
    small_disk.fill()

    for _ in range(2):  # a damaged end is refused before anything is to be written
        with pytest.raises((DiskFullError, CorruptLogError)):
            segstore.open(path)
    small_disk.free()
    ends = [in_a_child(lambda: open_and_die(path)) for _ in range(2)]
    assert ends == [ends[0]] * 2
    assert ends[0] in {0, REFUSED}
    assert not [*path.glob("*.quarantine-*")]


def test_a_clean_log_that_lost_its_point_opens_when_there_is_room(small_disk):
    """[DUR-8, DUR-30, DUR-63]"""
    path = small_disk.path / "topic-0"
    assert in_a_child(lambda: write(path, is_closed=True)) == 0
    (path / RECOVERY_POINT_CHECKPOINT).unlink()
    small_disk.fill()
    with pytest.raises(DiskFullError):
        segstore.open(path)
    small_disk.free()

    with segstore.open(path) as log:
        assert log.report.clean


# ---- environment is no damage --------------------------------------------------------------------
# An open that could not read a sealed segment, for want of a descriptor, called it damaged.
#
# [DUR-6, DUR-31, DUR-33] It sent its user to a salvage. And leader epochs that were being made anew
# ended where a read failed, and were written like that.


BATCHES_OF_EPOCHS = 6
SMALL_SEGMENTS = Settings(segment_bytes=150)


def a_record(epoch: int) -> bytes:
    return singleton(b"%d" % epoch, timestamp=0)


@pytest.fixture(params=["closed", "killed"])
def disk(request) -> SimulatedDisk:
    """A log of several segments and epochs, without the file of the epochs."""
    disk = SimulatedDisk()
    log = SMALL_SEGMENTS.open(disk)
    for epoch in range(BATCHES_OF_EPOCHS):
        log.append_as_leader(a_record(epoch), leader_epoch=epoch)
        log.append_as_leader(a_record(epoch), leader_epoch=epoch)
    assert len(log.segments()) > 3
    log.flush()
    log.close() if request.param == "closed" else log.close_quietly()
    directory = Directory(PATH, environment=disk)
    directory.unlink("leader-epoch-checkpoint")
    directory.close()
    return disk


def found_in(disk: SimulatedDisk) -> tuple[list[bytes], list[int]]:
    """Values, and where each epoch begins."""
    log = SMALL_SEGMENTS.open(disk)
    values = [value for _, _, _, value in log.scan().tuples()]
    epochs = [entry.start_offset for entry in log._epochs.entries]
    log.close_quietly()
    return values, epochs


@pytest.mark.parametrize("os_error", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_a_call_that_fails_while_a_log_opens_is_no_damage(disk, os_error, one_in):
    """[DUR-6, DUR-31, DUR-33] Each call once: it is told as what it is, and the next open is."""
    expected = (
        [b"%d" % (number // 2) for number in range(2 * BATCHES_OF_EPOCHS)],
        list(range(0, 12, 2)),
    )
    assert found_in(Crash(disk.effects, "killed").image(disk)) == expected
    refused = 0
    for nth in range(1, 1000, one_in(10)):
        image = Crash(disk.effects, "killed").image(disk)
        image.fail(None, nth, os_error)
        before = image.calls()
        try:
            SMALL_SEGMENTS.open(image).close_quietly()
        except CorruptLogError as error:
            pytest.fail(f"call {nth} failed, and that is damage: {error}")
        except SegstoreError:
            refused += 1
        if image.calls() - before < nth:
            break
        image.fail(None, 0, 0)
        assert found_in(image) == expected, f"call {nth} failed"
    assert refused > 5


# ---- directory in place of a file ----------------------------------------------------------------
# A directory where a file of the log should be: the open said "not a log directory" of the file.
#
# Which file it is, and what stands there, is all that who has to repair it needs to know.


FIRST = "00000000000000000000"
FILES = [
    f"{FIRST}.log",
    f"{FIRST}.index",
    f"{FIRST}.timeindex",
    f"{FIRST}.log.swap",
    "00000000000000000003.log",
    "00000000000000000005.snapshot",
    ".lock",
    ".segstore",
    ".segstore.sync-failed",
    ".kafka_cleanshutdown",
    "partition.metadata",
]
CHECKPOINTS = ["leader-epoch-checkpoint", "recovery-point-offset-checkpoint"]
NOT_FOR_READING = {f"{FIRST}.log", f"{FIRST}.log.swap"}


@pytest.fixture(params=["close", "close_quietly"])
def stopped_log(request, new_log):
    log = new_log()
    log.append([(None, b"value")] * 3)
    log.flush()
    getattr(log, request.param)()
    return Path(log.path)


@pytest.mark.parametrize("name", FILES)
def test_the_open_names_it_and_says_what_it_is(stopped_log, name):
    """[DUR-99] what stands there is left as it is."""
    (stopped_log / name).unlink(missing_ok=True)
    (stopped_log / name).mkdir()
    for read_only in (False, True) if name in NOT_FOR_READING else (False,):
        with pytest.raises(NotALogError) as caught:
            segstore.open(stopped_log, read_only=read_only)
        check_names(caught.value, stopped_log / name)


def check_names(error: NotALogError, path: Path) -> None:
    assert error.file == str(path)
    assert (error.found, error.expected) == ("a directory", "a regular file")
    assert "not a log directory" not in str(error)
    assert str(error).count("a directory") == 1
    assert path.is_dir()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_file_that_is_written_anew_is_named_and_not_what_would_take_its_place(stopped_log, name):
    """[DUR-21] it may be lost; but who writes it must say that he cannot."""
    (stopped_log / name).unlink(missing_ok=True)
    (stopped_log / name).mkdir()
    with pytest.raises(NotALogError) as caught:
        open_and_append(stopped_log)
    check_names(caught.value, stopped_log / name)


def open_and_append(path: Path) -> None:
    with segstore.open(path) as log:
        log.append([(None, b"value")])


def test_a_link_in_its_place(stopped_log, tmp_path):
    """[DUR-99] none is followed, and the open says so."""
    log_file = stopped_log / f"{FIRST}.log"
    log_file.rename(tmp_path / "elsewhere")
    log_file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotALogError) as caught:
        segstore.open(stopped_log)
    assert caught.value.file == str(log_file)
    assert caught.value.expected == "a regular file"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_every_command_names_what_stands_in_place_of_a_sealed_log(tmp_path, capsys, make):
    """[DUR-7, DUR-99] Reads are refused, `verify` names the records, a salvage has all others."""
    path, target = tmp_path / "topic-0", tmp_path / "out" / "topic-0"
    with segstore.open(path) as log:
        for number in range(3):
            log.append([(None, b"value")] * 10)
            if number < 2:
                log.roll()
    sealed = path / f"{10:020d}.log"
    sealed.unlink()
    make(sealed)

    for command in ("cat", "ls", "tail", "inspect", "verify"):
        assert main([command, str(path)]) in {1, 2}
        assert sealed.name in "".join(capsys.readouterr())
    (finding,) = check_partition(str(path)).findings
    assert (finding.file, finding.lost) == (sealed.name, ((10, 19),))
    report = segstore.salvage(path, target)
    assert {one.file for one in report.lost} == {sealed.name, ""}
    with segstore.open(target, read_only=True) as log:
        offsets = [record.offset for record in log.scan(on_damage="skip")]
    assert offsets == [*range(10), *range(20, 30)]


# ---- directory of somebody else ------------------------------------------------------------------
# A directory of photographs became a log, where `.lock` or `lost+found` lay beside them.
#
# Its name ended in a number, and one file in it was one that a log may have, too [DUR-98].


FOREIGN = ["img.jpg", "notes.txt"]


@pytest.fixture(params=[".lock", "lost+found", None])
def path(request, tmp_path):
    path = tmp_path / "holiday-2024"
    path.mkdir()
    for name in FOREIGN:
        (path / name).write_bytes(b"x")
    if request.param == "lost+found":
        (path / request.param).mkdir()
    elif request.param:
        (path / request.param).touch()
    return path


def test_no_open_writes_there(path):
    before = sorted(path.iterdir())
    for settings in ({}, {"read_only": True}):
        with pytest.raises(segstore.NotALogError):
            segstore.open(path, **settings)
    with pytest.raises(segstore.NotALogError):
        segstore.salvage(path, path.parent / "out" / "a-0")
    assert sorted(path.iterdir()) == before


@pytest.mark.parametrize("command", ["verify", "recover", "ls", "inspect"])
@pytest.mark.parametrize("of_parent", [False, True])
def test_no_command_takes_it_for_a_log(path, command, of_parent, capsys):
    before = sorted(path.iterdir())
    code = main([command, str(path.parent if of_parent else path)])
    said = capsys.readouterr()
    assert code != 0 or "holiday" not in said.out
    assert "clean" not in said.out
    assert sorted(path.iterdir()) == before


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", ".segstore", f"{3:020d}.index"])
def test_what_was_a_log_is_one(path, name):
    """[LDR-26] It lost its ``.log`` files, and kept another of a log."""
    (path / name).touch()
    with segstore.open(path) as log:
        assert log.append([(None, b"x")]).base_offset == 0
    assert sorted(set(FOREIGN) & {file.name for file in path.iterdir()}) == sorted(FOREIGN)


# ---- hint beside what cannot be read -------------------------------------------------------------
# An open of what is not there said of a directory that may not be read that it is not there.


WORDS = "nor the one above it"
NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR)


@pytest.mark.parametrize(
    ("os_error", "said"), [(errno.EACCES, []), *((one, [WORDS]) for one in NOTHING_THERE)]
)
def test_only_what_is_not_there_is_said_not_to_be(os_error: int, said: list[str]):
    """[DUR-7] A directory may let in who knows the name, and yet list nothing."""
    disk = disk_with({})
    disk.fail("open_directory", 2, os_error)

    with pytest.raises(LogNotFoundError, match="there is no such directory") as caught:
        open_log(disk, f"{PATH}1", read_only=True)

    assert [words for words in [WORDS] if words in str(caught.value)] == said


# ---- path that is nowhere ------------------------------------------------------------------------
# Where not even the root can be found, making what is missing above it had no end: RecursionError.
#
# A root like that is one of a directory that was removed, or of a file system that fails.


def test_an_open_says_what_is_not_there():
    """[DUR-103, DUR-111]"""
    disk = SimulatedDisk()
    disk.fail("open_directory", 1, errno.ENOENT, for_ever=True)

    with pytest.raises(LogNotFoundError):
        open_partition("/logs/topic-0", open_options(), LogEnvironment(environment=disk))


def test_a_log_directory_says_what_is_not_there(monkeypatch: pytest.MonkeyPatch):
    """[DUR-103, DUR-111]"""
    disk = SimulatedDisk()
    disk.fail("open_directory", 1, errno.ENOENT, for_ever=True)
    monkeypatch.setattr(
        topic_directories, "make_directory", partial(make_directory, environment=disk)
    )

    with pytest.raises(LogNotFoundError):
        topic_directories.make_log_directory("/logs")


# ---- oversized derived files ---------------------------------------------------------------------
# A derived file too large to be one: a clean open for writing failed on an oversized index.
#
# [DUR-8] A derived file never stops an open: it is rebuilt or bypassed, and the report says so.
# What else of the kind was looked for: each file of a partition directory but the ``.log``, in logs
# that were closed cleanly and in killed ones, opened for reading and for writing. The clean marker,
# ``.segstore`` and ``partition.metadata`` stopped each open too; the indexes of sealed segments
# stopped the truncation, the append and the roll behind them. Snapshots, checkpoints and checksum
# files were right. `verify` and `inspect` ended with an error at an index above 2^31 - 1 bytes, and
# at a snapshot, a checkpoint or a ``.segstore`` above 64 MiB; and so did the check behind
# `recover`.


RECORDS = 20
TOPIC_ID = uuid.UUID(int=7)
TOO_LARGE = 2 << 30  # sparse: above 2^31 - 1, the most bytes of a mapping
ABOVE_THE_INDEX_LIMIT = 70 << 20  # above 64 MiB, which an index that is read has at most [DUR-102]
CLEAN_MARKER = ".kafka_cleanshutdown"
SEALED, ACTIVE = "0" * 20, f"{18:020}"


@pytest.fixture(params=["close", "close_quietly"])
def stopped_segments(request, new_log):
    """Four segments, the files of each; closed cleanly or killed."""
    log = new_log(internal_segment_bytes=20000, topic_id=TOPIC_ID, checksum_sidecar=True)
    for number in range(RECORDS):
        log.append([(TIME + number, None, b"x" * 3000)])
    log.flush()
    log.segments()[0].find_max_timestamp()
    getattr(log, request.param)()
    return Path(log.path)


def derived_files(path: Path) -> list[str]:
    names = sorted(file.name for file in path.iterdir())
    return [name for name in names if not name.endswith((".log", ".lock"))]


def records(log: segstore.UnifiedLog) -> list[int]:
    return [record.timestamp - TIME for record in log.read(0)]


@pytest.mark.parametrize("size", [ABOVE_THE_INDEX_LIMIT, TOO_LARGE])
def test_every_derived_file(stopped_segments, size):
    """[DUR-8, DUR-97] each in turn: for reading, then for writing with an append and a close."""
    for name in derived_files(stopped_segments):
        if not (stopped_segments / name).exists():
            continue  # the open before has removed what it does not need
        os.truncate(stopped_segments / name, size)
        with segstore.open(stopped_segments, read_only=True) as log:
            assert records(log)[:RECORDS] == list(range(RECORDS)), name
        with segstore.open(stopped_segments, internal_segment_bytes=20000) as log:
            end = log.log_end_offset
            assert records(log) == list(range(end)), name
            assert log.append([(TIME + end, None, b"more")]).base_offset == end, name
        with segstore.open(stopped_segments) as log:
            assert log.report.clean, name
            assert records(log) == list(range(end + 1)), name


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("size", [TOO_LARGE])
def test_the_index_of_the_active_segment_is_rebuilt_and_reported(stopped_segments, kind, size):
    """[DUR-52, DUR-58] the file is what it was before."""
    name = f"{ACTIVE}.{kind}"
    segstore.open(stopped_segments).close()
    before = (stopped_segments / name).read_bytes()
    os.truncate(stopped_segments / name, size)

    with segstore.open(stopped_segments) as log:
        assert name in log.report.rebuilt
        assert log.fetch_offset_by_timestamp(SpecialTimestamp.MAX).offset == RECORDS - 1
    assert (stopped_segments / name).read_bytes() == before


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_the_index_of_a_sealed_segment_is_rebuilt_at_the_latest_by_the_close(
    stopped_segments, kind
):
    """[DUR-25] after a clean close only its first use finds it."""
    name = f"{SEALED}.{kind}"
    segstore.open(stopped_segments).close()
    before = (stopped_segments / name).read_bytes()
    assert before
    os.truncate(stopped_segments / name, TOO_LARGE)

    with segstore.open(stopped_segments) as log:
        assert [log.offset_for_timestamp(TIME + number) for number in range(6)] == list(range(6))
    assert (stopped_segments / name).read_bytes() == before


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_a_truncation_into_a_segment_with_such_an_index(stopped_segments, kind):
    """[DUR-25] appends, full indexes and the next roll ask for the index as well."""
    segstore.open(stopped_segments).close()
    os.truncate(stopped_segments / f"{SEALED}.{kind}", TOO_LARGE)

    with segstore.open(stopped_segments, internal_segment_bytes=20000) as log:
        log.truncate_to(3)
        for number in range(3, 12):
            log.append([(TIME + number, None, b"x" * 3000)])
        assert records(log) == list(range(12))
        assert len(log.segments()) > 1
    with segstore.open(stopped_segments) as log:
        assert records(log) == list(range(12))


def test_what_the_command_line_says_of_each(stopped_segments, capsys, one_in):
    """[DUR-8, DUR-53, DUR-65] a finding that names it, no error; what is left behind is right."""
    segstore.open(stopped_segments).close()  # what a killed log lacks
    log_start = stopped_segments / "log-start-offset-checkpoint"
    log_start.write_bytes(b"0\n0\n")
    for name in derived_files(stopped_segments)[:: one_in(4)]:
        if not (stopped_segments / name).exists():
            continue  # recover has removed the checksums of what is not as it was
        os.truncate(stopped_segments / name, TOO_LARGE)
        found = check_partition(str(stopped_segments)).findings
        told = [finding.file for finding in found]
        assert told == [name] * (name != CLEAN_MARKER), name  # an open reads more then
        assert cli.main(["inspect", str(stopped_segments)]) == 0, name
        if found and not found[0].repaired:
            (stopped_segments / name).unlink()  # as the advice is
        assert cli.main(["recover", str(stopped_segments)]) == 0, name
        assert check_partition(str(stopped_segments)).findings == [], name
    assert "LimitExceededError" not in capsys.readouterr().err


# ---- small files that were believed --------------------------------------------------------------
# What a checkpoint or a marker says was used before it was looked at.


@pytest.mark.parametrize("number", ["Infinity", "-1", "1.5", "true", "9223372036854775808", '"7"'])
def test_a_marker_with_a_strange_number_is_none(number):
    """[DUR-51, DUR-97] `Infinity` was an OverflowError of ``open``."""
    data = (
        f'{{"version": 0, "logEndOffset": {number}, "activeBaseOffset": 0,'
        ' "activeSizeInBytes": 1, "latestEpoch": null}'
    )
    assert CleanShutdownMarker.parse(data.encode()) is None


def test_a_checkpoint_of_line_ends_is_refused_at_once():
    """[DUR-97] 64 MiB of them were 640 MiB and many seconds; the count is looked at first."""
    data = b"0\n1\n" + b"\n" * (16 * 1024 * 1024)
    tracemalloc.start()
    begin = time.monotonic()
    with pytest.raises(CorruptCheckpointError, match="line 3"):
        parse_checkpoint(data, 3, "x")
    seconds = time.monotonic() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 2
    assert peak < 2 * len(data)


def test_more_entries_than_the_count_are_refused_at_the_first():
    """[DUR-97]"""
    with pytest.raises(CorruptCheckpointError, match="line 4"):
        parse_checkpoint(b"0\n1\n" + b"a 0 7\n" * 1000, 3, "x")


def test_the_longest_name_kafka_allows_is_read():
    """[DUR-97, DUR-98] A topic of 249 characters, the largest partition and offset."""
    line = f"{'t' * 249} {2**31 - 1} {2**63 - 1}"
    assert len(parse_checkpoint(f"0\n1\n{line}\n".encode(), 3, "x")) == 1
    with pytest.raises(CorruptCheckpointError):
        parse_checkpoint(f"0\n1\n{'t' * 270} {2**31 - 1} 0\n".encode(), 3, "x")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_log_start_above_the_end_of_a_clean_log_is_not_believed(tmp_path, read_only):
    """[DUR-18, DUR-21] It dropped every record, and the report said `clean` and no more."""
    directory = build(tmp_path / "orders-0", clean=True)
    bases = directory.bases
    checkpoint = directory.path / "log-start-offset-checkpoint"
    checkpoint.write_text(f"0\n1\norders 0 {2**63 - 1}\n")

    with directory.open(read_only=read_only) as log:
        assert any(f"log start {2**63 - 1}" in text for text in log.report.warnings)
        assert log.report.set_aside == log.report.removed == []
        assert values_of(log) == expected_values(0, RECORDS_COUNT)
        assert directory.bases == bases
        log.close_quietly()  # a crash
    with directory.open() as log:
        assert values_of(log) == expected_values(0, RECORDS_COUNT)


# ---- refused recovery changes nothing ------------------------------------------------------------
# Recovery set synced segments aside, and said that nothing had been changed.
#
# [DUR-51, DUR-54, DUR-57] Records below the recovery point were missing between the segment of the
# recovery point and the next one: the segments behind the gap were renamed before the log's end was
# compared with the recovery point.


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    return build(tmp_path_factory.mktemp("crashed") / "orders-0")


@pytest.fixture
def log_directory(crashed, tmp_path):
    """A crashed log; the preallocated index of its active segment is longer than recovery's."""
    return crashed.copy(tmp_path / "orders-0")


def lose_the_end_of(directory, base, batches_count):
    """Cut a segment at a batch boundary; returns the first offset that is missing."""
    batch = batches_of(directory.file(base))[-batches_count]
    cut(directory.file(base), batch.position)
    return batch.base_offset


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("batches_count", [2, 5])
def test_a_gap_that_begins_below_the_recovery_point_is_damage(log_directory, index, batches_count):
    """[DUR-54] The recovery point lies inside the gap: no later segment begins below it."""
    base, following = log_directory.bases[index : index + 2]
    log_directory.set_recovery_point(following - 1)
    missing = lose_the_end_of(log_directory, base, batches_count)

    refused(log_directory, f"records {missing} to {following - 1} are missing")


def test_a_gap_that_begins_at_the_recovery_point_ends_the_log(log_directory):
    """[DUR-2, DUR-54] Nothing that is missing had been synced."""
    base, *later = log_directory.bases[1:]
    missing = lose_the_end_of(log_directory, base, 2)
    log_directory.set_recovery_point(missing)

    report = open_twice(log_directory, missing)

    assert sorted(report.set_aside) == [f"{other:020d}.quarantine-1" for other in later]


def test_a_gap_below_the_log_start_loses_nothing_that_had_been_synced(log_directory):
    """[DUR-18] What is missing below the recovery point had been deleted."""
    base, following = log_directory.bases[1:3]
    missing = lose_the_end_of(log_directory, base, 4)
    log_directory.set_recovery_point(missing + 1)
    log_start = log_directory.path / "log-start-offset-checkpoint"
    log_start.write_text(f"0\n1\norders 0 {following - 1}\n")

    with log_directory.open() as log:
        assert log.log_start_offset == log.log_end_offset == following - 1


def flip_in_a_later_segment(directory):
    flip_bit(directory.file(directory.bases[2]), 70)
    directory.set_recovery_point(directory.bases[2] + 1)
    return "had been synced"


def end_below_the_point(directory):
    directory.set_recovery_point(RECORDS_COUNT + 7)
    return f"the log ends at offset {RECORDS_COUNT}"


def end_in_a_torn_batch_below_the_point(directory):
    directory.set_recovery_point(RECORDS_COUNT)
    cut(directory.last, batches_of(directory.last)[-1].end - 1)
    return "had been synced"


def strange_batch_without_a_point(directory):
    strange = build(directory.path.parent / "strange-0", 3)
    append_bytes(directory.last, strange.file(0).read_bytes())
    directory.set_recovery_point(None)
    return "no recovery point"


def sealed_segment_with_a_bad_end(directory):
    directory.set_recovery_point(RECORDS_COUNT)
    append_bytes(directory.file(directory.bases[1]), b"\1" * 70)
    return "ends in bytes that are no batch"


def bad_time_index_before_a_gap(directory):
    directory.set_recovery_point(RECORDS_COUNT)
    time_index = directory.file(directory.bases[0], "timeindex")
    time_index.write_bytes(b"\x7f" * time_index.stat().st_size)
    directory.file(directory.bases[1]).unlink()
    return "are missing"


def lost_index_of_a_damaged_segment(directory):
    directory.set_recovery_point(RECORDS_COUNT - 1)
    append_bytes(directory.last, b"torn")
    directory.file(directory.bases[1], "index").unlink()
    flip_bit(directory.file(directory.bases[1]), 70)
    return "cannot be indexed"


@pytest.mark.parametrize(
    "damage",
    [
        flip_in_a_later_segment,
        end_below_the_point,
        end_in_a_torn_batch_below_the_point,
        strange_batch_without_a_point,
        sealed_segment_with_a_bad_end,
        bad_time_index_before_a_gap,
        lost_index_of_a_damaged_segment,
    ],
)
def test_a_refused_log_is_as_it_was_byte_for_byte(damage, log_directory):
    """[DUR-51, DUR-57] Index files too: everything is decided before anything is done."""
    refused(log_directory, damage(log_directory))


# ---- memory of recovery --------------------------------------------------------------------------
# Opening a log kept 80 bytes a batch in memory, twice the file when batches are small [DUR-61].


BATCHES_COUNT = 1_500_000
ROW_BYTES = 80
LIMIT_BYTES = 64 * 1024 * 1024
MARKER, EPOCH_CHECKPOINT = ".kafka_cleanshutdown", "leader-epoch-checkpoint"
OPEN = """
import sys
import segstore

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

with segstore.open(sys.argv[4]) as log:  # what an open imports is no memory of its rows
    log.append([(None, b"v")])
before = peak()
with segstore.open(sys.argv[1], durability="none", read_only=sys.argv[2] == "True") as log:
    assert log.report.clean == (sys.argv[3] == "True"), log.report
    print(peak() - before, log.log_end_offset)
"""


class ManyBatches:
    """One segment of the smallest batches there are, closed cleanly."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open()
        one = np.frombuffer(singleton(b""), dtype=np.uint8)
        batches = np.tile(one, (BATCHES_COUNT, 1))
        base_offsets = np.arange(BATCHES_COUNT, dtype=">i8")  # the checksum leaves them out
        batches[:, :8] = base_offsets.view(np.uint8).reshape(-1, 8)
        (path / MARKER).unlink()
        (path / f"{0:020d}.log").write_bytes(batches)
        self.open()
        self.small = {f: f.read_bytes() for f in path.iterdir() if f.suffix != ".log"}

    def open(self) -> None:
        segstore.open(self.path, durability="none").close()


@pytest.fixture(scope="module")
def many_batches(tmp_path_factory: pytest.TempPathFactory) -> ManyBatches:
    return ManyBatches(tmp_path_factory.mktemp("many") / "topic-0")


@pytest.mark.parametrize("read_only", [True, False], ids=["read_only", "writable"])
@pytest.mark.parametrize("lost", [MARKER, EPOCH_CHECKPOINT])
def test_opening_keeps_no_row_of_every_batch(
    many_batches: ManyBatches, tmp_path: Path, lost: str, *, read_only: bool
):
    """[DUR-61, DUR-21] An unclean open and one that makes the leader epochs anew are bounded."""
    assert BATCHES_COUNT * ROW_BYTES > 1.5 * LIMIT_BYTES
    for file, content in many_batches.small.items():
        file.write_bytes(content)
    (many_batches.path / lost).unlink()

    arguments = (str(many_batches.path), str(read_only), str(lost == EPOCH_CHECKPOINT))
    command = (sys.executable, "-c", OPEN, *arguments, str(tmp_path / "other-0"))
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    grown, log_end_offset = map(int, done.stdout.split())
    assert log_end_offset == BATCHES_COUNT
    assert grown < LIMIT_BYTES


# ---- many partitions -----------------------------------------------------------------------------
# A writer held six descriptors a partition and a reader four, until the end: 200 did not work.
#
# Looked for of this kind: whatever a log holds of the system between two calls - directories (its
# own and the one above), segments, indexes, transaction indexes, the lock of a partition below a
# held log directory; writers, readers, many handles in one process, a second writer beside a
# manager; and what may change at a path while no descriptor is held. C:
# tests/c/test_descriptor_pool.c.


ASKS_PROC = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
MANY = """
import json, os, resource, sys
import segstore
resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
path, count = sys.argv[1], int(sys.argv[2])
most = 0

def look():
    global most
    most = max(most, len(os.listdir("/proc/self/fd")))

with segstore.open_dir(path, durability="none") as logs:
    logs.create_topic("big", partitions=count)
    look()
    for round in range(2):
        for number in range(count):
            logs.append("big", [(b"k", b"%d" % number)], partition=number)
            look()
answers = []
for settings in ({}, {"read_only": True}):
    with segstore.open_dir(path, **settings) as logs:
        for number in range(count):
            values = [record.value for record in logs.log("big", number).scan()]
            answers.append(values == [b"%d" % number] * 2)
            look()
        answers.append(all(logs.log("big", n).report.clean for n in range(count)))
handles = [segstore.open(f"{path}/big-{n}", read_only=True) for n in range(count)]
look()
answers.append(sum(log.scan().count() for log in handles) == 2 * count)
print(json.dumps([most, all(answers), len(answers)]))
"""


@pytest.fixture
def few():
    """Let everything be closed behind each call."""
    _core.limit_descriptors(1)
    yield
    _core.limit_descriptors(0)


def open_below(path: Path) -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found


@ASKS_PROC
def test_many_partitions_work_under_a_low_limit(tmp_path):
    """Create, append to each, open again, read each, close; readers; handles of their own."""
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path), "150"],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    most, is_right, answers = json.loads(done.stdout)
    assert is_right
    assert answers == 2 * 150 + 3
    assert most <= 128 // 2 + 20


@ASKS_PROC
@pytest.mark.usefixtures("few")
def test_an_idle_partition_below_a_manager_holds_nothing(tmp_path):
    """[DUR-65] Nor a lock: that of the log directory keeps others out."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("t", 3)
        for number in range(3):
            logs.append("t", [(b"k", b"v")], partition=number)
        _core.Directory("/").close()  # whatever comes next makes room

        assert open_below(tmp_path) == [str(tmp_path / ".lock")]
        with pytest.raises(segstore.LogLockedError):
            segstore.open(tmp_path / "t-1")


@ASKS_PROC
def test_a_manager_finds_the_writer_of_a_partition_that_was_there_before(tmp_path):
    """[DUR-65] It was opened when the directory above was no log directory yet."""
    path = tmp_path / "t-0"
    code = "import segstore, sys; log = segstore.open(sys.argv[1]); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as other:  # fmt: skip
        assert other.stdout.readline() == "1\n"
        with segstore.open_dir(tmp_path) as logs:
            with pytest.raises(segstore.LogLockedError):
                logs.log("t", 0)
            other.communicate("\n")
            logs.append("t", [(b"k", b"v")], partition=0)


@ASKS_PROC
@pytest.mark.usefixtures("few")
def test_another_directory_at_the_path_is_said(tmp_path):
    """[DUR-10] Nothing is read or written there."""
    path, moved = tmp_path / "t-0", tmp_path / "moved"
    log = segstore.open(path)
    log.append([(b"k", b"v")])
    _core.Directory("/").close()
    path.rename(moved)
    path.mkdir()

    with pytest.raises(segstore.DirectoryReplacedError, match="not the one that was opened"):
        list(log.scan())
    with pytest.raises(segstore.SegstoreError):
        log.append([(b"k", b"w")])
    assert list(path.iterdir()) == []
    log.close_quietly()
    path.rmdir()
    moved.rename(path)
    with segstore.open(path) as log:
        assert [record.value for record in log.scan()] == [b"v"]


@ASKS_PROC
@pytest.mark.usefixtures("few")
def test_a_log_is_followed_when_it_is_renamed_and_deleted(tmp_path):
    """[REN-1] A rename by this process is known."""
    log = segstore.open(tmp_path / "t-0")
    log.append([(b"k", b"v")])
    log.rename_dir("t-1")
    log.append([(b"k", b"w")])
    assert [record.value for record in log.scan()] == [b"v", b"w"]
    log.delete()
    assert not (tmp_path / "t-1").exists()


@ASKS_PROC
def test_the_limit_is_named_with_its_value(tmp_path):
    """[DUR-31] And what raises it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(segstore.ResourceError) as caught:
            _core.Directory(str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert f"{lowest} (RLIMIT_NOFILE)" in caught.value.message
    assert "ulimit -n" in caught.value.message
