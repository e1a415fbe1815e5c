"""On a full disk a log with the mark of a failed sync, which often is why, could not be opened.

Behind any mark five small files were written once more, not only where their own sync had failed:
nothing could be deleted then to make room. And of a clean log a lost recovery point had to be
written down first.
"""

from __future__ import annotations

import pytest

import segstore
from segstore._core import Directory
from segstore.errors import CorruptLogError, DiskFullError, FsyncFailedError
from segstore.log.directory.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SYNC_FAILED_MARK,
)
from tests.crash.crash_check import look
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_opens import SEGMENTS, SETTINGS, closed
from tests.log_kit import in_a_child
from tests.regression.test_copy_whose_sync_failed import (
    DELETED,
    copied_without_a_sync,
    open_with_a_failed_sync,
)
from tests.small_disk import small_disk

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


def test_a_clean_log_needs_no_room_for_a_lost_recovery_point(small_disk):
    """[DUR-8, DUR-30, DUR-63] The next clean stop writes it."""
    path = small_disk.path / "topic-0"
    assert in_a_child(lambda: write(path, is_closed=True)) == 0
    (path / RECOVERY_POINT_CHECKPOINT).unlink()
    small_disk.fill()

    with segstore.open(path, file_delete_delay_ms=0) as log:
        assert log.report.clean
        assert any("recovery point could not be written" in w for w in log.report.warnings)
        log.delete_records(200)
    assert (path / RECOVERY_POINT_CHECKPOINT).exists()


@pytest.mark.parametrize("end", [-1, 0], ids=["a byte is lost", "all batches are"])
def test_a_damaged_end_is_not_cut_for_want_of_the_point(small_disk, end):
    """[DUR-6, DUR-63] Nothing but the point, and the marker, tells that it had been synced."""
    path = small_disk.path / "topic-0"
    assert in_a_child(lambda: write(path, is_closed=True)) == 0
    (path / RECOVERY_POINT_CHECKPOINT).unlink()
    active = path / f"{200:020d}.log"
    active.write_bytes(active.read_bytes()[:end])
    small_disk.fill()

    with pytest.raises(DiskFullError):
        segstore.open(path)
    small_disk.free()
    for _ in range(2):
        with pytest.raises(CorruptLogError):
            segstore.open(path)
