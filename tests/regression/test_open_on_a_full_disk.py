"""On a full disk a log with the mark of a failed sync, which often is why, could not be opened.

Behind any mark five small files were written once more, not only where their own sync had failed:
nothing could be deleted then to make room.
"""

from __future__ import annotations

import os

import pytest

import segstore
from segstore._core import Directory
from segstore.errors import CorruptLogError, DiskFullError, FsyncFailedError
from segstore.log.files.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SYNC_FAILED_MARK,
)
from tests.crash.crash_check import look
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_opens import SEGMENTS, SETTINGS, closed
from tests.kits.log_kit import in_a_child
from tests.kits.small_disk import small_disk
from tests.regression.test_copy_whose_sync_failed import (
    DELETED,
    copied_without_a_sync,
    open_with_a_failed_sync,
)

__all__ = ["small_disk"]

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


def cut(path, end: int) -> None:
    path.write_bytes(path.read_bytes()[:end])


@pytest.mark.parametrize(
    ("base_offset", "damage"),
    [
        (200, lambda path: cut(path, -1)),
        (200, lambda path: cut(path, 0)),
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
