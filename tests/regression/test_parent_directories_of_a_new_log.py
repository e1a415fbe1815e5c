"""A new log was lost with a directory above it that a killed process had made and not synced.

Only the directory right above the partition was synced. Later, all, but not where a log directory
seemed to hold logs, nor those that a link leads to, nor those above a log that was copied.
"""

from __future__ import annotations

import errno
import os

import pytest

import segstore
from segstore._core import Barrier, DataFile, Directory
from segstore.errors import FsyncFailedError, LogPermissionError
from segstore.log.files import parent_directory_sync
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.manager.log_manager import LogManager
from segstore.manager.topic_directories import make_log_directory
from tests.crash.barrier_scene import new_disk
from tests.crash.failing_scenarios_of_managers import living_on
from tests.kits.directory_kit import name_of, records

PATH = "/above/further/topic-0"
MADE = (("/", "above"), ("/above", "further"), ("/above/further", "topic-0"))


def make_directories(disk, names) -> None:
    """As a program that syncs nothing."""
    for path, name in names:
        Directory(path, disk).make_directory(name)


def open_there(disk):
    return open_partition(PATH, open_options(durability="sync"), LogEnvironment(environment=disk))


def records_behind_a_power_cut(disk) -> int:
    log = open_there(disk)
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with open_there(disk.crash_image(fate="lost")) as found:
        return found.log_end_offset


def test_a_process_was_killed_anywhere_in_its_open():
    """[DUR-1, DUR-3, DUR-11]"""
    disk = new_disk()
    open_there(disk).close_quietly()
    for effects in range(disk.effects + 1):
        killed = disk.crash_image(effects, fate="killed")

        assert records_behind_a_power_cut(killed) == 1, effects


def test_somebody_else_made_the_directories():
    """[DUR-1, DUR-11]"""
    disk = new_disk()
    make_directories(disk, MADE)

    assert records_behind_a_power_cut(disk) == 1


@pytest.mark.parametrize("made", [(), ("topic-0",), ("backup-2024",)])
def test_somebody_else_made_the_directories_of_a_manager(made):
    """[DUR-1, DUR-11] Whatever is in the log directory says nothing of who made it."""
    disk = new_disk()
    make_directories(disk, (("/", "above"), ("/above", "logs")))
    make_directories(disk, [("/above/logs", name) for name in made])
    with living_on(disk):
        manager = LogManager("/above/logs", durability="sync", segment_ms=None)
        if "topic-0" not in made:
            manager.create_topic("topic", 1)
        manager.append("topic", [(None, b"acknowledged")], partition=0)
        for log in manager._logs.by_name.values():
            log.close_quietly()

    with living_on(disk.crash_image(fate="lost")):
        found = LogManager("/above/logs", read_only=True)
        assert found.log("topic", 0).log_end_offset == 1
        found.close()


def test_a_log_directory_is_synced_up_to_the_root_whatever_is_in_it(tmp_path, monkeypatch):
    """[DUR-11] Once for all logs in it."""
    asked = []
    monkeypatch.setattr("segstore.manager.topic_directories.sync_parent_directories", asked.append)
    path = str(tmp_path / "logs")
    make_log_directory(path).close()
    (tmp_path / "logs" / "topic-0").mkdir()
    make_log_directory(path).close()

    assert asked == [path, path]


def copy_records(disk, names=MADE) -> None:
    """Put a ``.log`` of three records there, as who restores a backup: nothing is synced."""
    make_directories(disk, names)
    with DataFile(Directory(PATH, disk), name_of(0), create=True) as file:
        file.write(0, records(0, 3))


def test_a_log_that_was_copied():
    """[DUR-1, DUR-11, DUR-36] It has records, and none of the names above is on the disk."""
    disk = new_disk()
    copy_records(disk)

    assert records_behind_a_power_cut(disk) == 4


def test_a_log_that_was_copied_into_a_log_directory():
    """[DUR-1, DUR-11] Its owner has synced the names above, but not that of the copy."""
    disk = new_disk()
    make_directories(disk, MADE[:2])
    with living_on(disk):
        manager = LogManager("/above/further", durability="sync", segment_ms=None)
        copy_records(disk, MADE[2:])
        manager.append("topic", [(None, b"acknowledged")], partition=0)
        manager.log("topic", 0).close_quietly()

    with open_there(disk.crash_image(fate="lost")) as found:
        assert found.log_end_offset == 4


def copy_of_a_closed_log(disk, without=()) -> None:
    """Copy all that a log has left, its clean marker too: nothing is synced."""
    with open_there(disk) as log:
        for _ in range(2):
            log.append([(None, b"v")])
            log.roll()
        log.append([(None, b"v")])
        log.delete_records(1)
    make_directories(disk, [("/", "copy"), ("/copy", "topic-0")])
    there, copy = Directory(PATH, disk), Directory("/copy/topic-0", disk)
    for name in there.names():
        if name not in {".lock", *without}:
            with DataFile(copy, name, create=True) as file:
                file.write(0, there.read_file(name))


def open_copy(disk, **log_environment):
    return open_partition(
        "/copy/topic-0",
        open_options(durability="sync"),
        LogEnvironment(environment=disk, **log_environment),
    )


def test_a_log_that_was_copied_with_its_clean_marker():
    """[DUR-1, DUR-5, DUR-24] Sealed segments too, and the log start; its open may be killed."""
    disk = new_disk()
    copy_of_a_closed_log(disk)
    copied = disk.effects
    log = open_copy(disk)
    assert log.report.clean
    opened = disk.effects
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with open_copy(disk.crash_image(fate="lost")) as found:
        assert [record.offset for record in found.scan()] == [1, 2, 3]

    for effects in range(copied, opened + 1):
        killed = disk.crash_image(effects, fate="killed")
        log = open_copy(killed)
        log.append([(None, b"acknowledged")])
        log.close_quietly()
        with open_copy(killed.crash_image(fate="lost")) as found:
            assert [record.offset for record in found.scan()] == [1, 2, 3], effects


def test_a_copy_whose_sync_fails_is_written_again():
    """[DUR-35, DUR-36] The next sync proves nothing; the core's mark makes the next open do it."""
    disk = new_disk()
    copy_of_a_closed_log(disk)
    disk.fail("sync_file", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        open_copy(disk)
    disk.fail("sync_file", 0, 0)

    with open_copy(disk) as again:
        assert again.report.rewritten
        assert not again.report.clean
        assert [record.offset for record in again.scan()] == [1, 2]


def test_the_names_of_a_copy_cannot_be_synced():
    """[DUR-35, DUR-36] As of its files: a second sync of its directory proves nothing either."""
    disk = new_disk()
    copy_of_a_closed_log(disk)
    disk.fail("sync_directory", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        open_copy(disk)
    disk.fail("sync_directory", 0, 0)

    with open_copy(disk) as again:
        assert again.report.rewritten
        assert [record.offset for record in again.scan()] == [1, 2]


def test_a_copy_that_was_put_into_the_same_directory():
    """[DUR-1, DUR-24] It has the inode that the clean marker tells, as a new one may have too."""
    disk = new_disk()
    copy_of_a_closed_log(disk)
    there, copy = Directory(PATH, disk), Directory("/copy/topic-0", disk)
    for name in there.names():
        there.unlink(name)
    there.sync(Barrier.NEW_DIRECTORY)
    for name in copy.names():
        with DataFile(there, name, create=True) as file:
            file.write(0, copy.read_file(name))

    log = open_there(disk)
    assert log.report.clean
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with open_there(disk.crash_image(fate="lost")) as found:
        assert [record.offset for record in found.scan()] == [1, 2, 3]


def test_a_log_that_was_copied_with_the_clean_marker_above():
    """[DUR-1, DUR-11] The names of its files are synced too, not only that of its directory."""
    disk = new_disk()
    copy_of_a_closed_log(disk, without=[CLEAN_SHUTDOWN_MARKER])
    copy = open_copy(disk, parent_was_clean=True)
    assert copy.report.clean
    copy.append([(None, b"acknowledged")])
    copy.close_quietly()

    image = Directory("/copy/topic-0", disk.crash_image(fate="lost"))
    assert {name_of(1), name_of(2)} <= set(image.names())


def test_a_log_that_we_have_closed_cleanly_costs_nothing(monkeypatch):
    """[DUR-11, DUR-24] Whoever wrote its marker has synced the names before."""
    disk, asked = new_disk(), []
    with open_there(disk) as log:
        log.append([(None, b"v")])
    monkeypatch.setattr(
        parent_directory_sync, "sync_parent_directories", lambda *_: asked.append(1)
    )
    with open_there(disk):
        pass
    assert not asked

    changed = open_there(disk)
    changed.append([(None, b"w")])
    changed.close_quietly()
    open_there(disk).close_quietly()
    assert asked == [1]


def test_the_way_leads_through_a_link(tmp_path, monkeypatch):
    """[DUR-11] Synced is what really holds the new directory, and what holds the link."""
    (tmp_path / "real" / "new").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link").symlink_to(tmp_path / "real" / "new")
    synced = note_synced(monkeypatch)
    segstore.open(tmp_path / "other" / "link" / "topic-0", durability="sync").close()

    for holds in (tmp_path / "real" / "new", tmp_path / "real", tmp_path / "other", tmp_path):
        assert synced.count(os.path.realpath(holds)) == 1, holds


def note_synced(monkeypatch) -> list[str]:
    """Note which directories are opened to sync the names in them."""
    synced: list[str] = []
    real = parent_directory_sync._core.Directory

    class Noted:
        def __init__(self, path, environment=None):
            self._directory = real(path, environment)

        def __getattr__(self, name):
            return getattr(self._directory, name)

        def sync(self, barrier):
            synced.append(os.path.realpath(self._directory.path))
            self._directory.sync(barrier)

    class Core:
        Directory = Noted
        Barrier = parent_directory_sync._core.Barrier

    monkeypatch.setattr(parent_directory_sync, "_core", Core)
    return synced


def test_what_may_not_be_read_is_passed_over(tmp_path, monkeypatch):
    """[DUR-11, DUR-34] Who may not read a directory above did not make it."""
    (tmp_path / "topic-0").mkdir()
    real, opened = parent_directory_sync._core.Directory, []

    def refuse(path, environment=None, **options):
        opened.append(path)
        if path == os.path.dirname(tmp_path):  # noqa: PTH120 - as it is asked for
            raise LogPermissionError("not yours", file=path)
        return real(path, environment, **options)

    monkeypatch.setattr(parent_directory_sync._core, "Directory", refuse)
    parent_directory_sync.sync_parent_directories(str(tmp_path / "topic-0"))

    above = os.path.dirname(tmp_path)  # noqa: PTH120
    assert opened == [str(tmp_path / "topic-0"), str(tmp_path), above]


def mount(monkeypatch) -> None:
    """Let what is below a directory called ``mounted`` be another file system."""

    def identity(self) -> tuple[int, int]:
        is_there = "mounted" in os.path.realpath(self._directory.path)
        return int(is_there), self._directory.identity[1]

    there = parent_directory_sync._core.Directory
    monkeypatch.setattr(there, "identity", property(identity), raising=False)


def test_the_log_directory_is_another_file_system(tmp_path, monkeypatch):
    """[DUR-11] Its name is none of its own, and what holds it may refuse to be synced."""
    synced = note_synced(monkeypatch)
    (tmp_path / "mounted" / "topic-0").mkdir(parents=True)
    mount(monkeypatch)
    parent_directory_sync.sync_parent_directories(str(tmp_path / "mounted"))
    assert not synced
    parent_directory_sync.sync_parent_directories(str(tmp_path / "mounted" / "topic-0"))
    assert synced == [str(tmp_path / "mounted")]


def test_a_link_leads_to_another_file_system(tmp_path, monkeypatch):
    """[DUR-11] What holds the link is synced."""
    synced = note_synced(monkeypatch)
    (tmp_path / "mounted" / "topic-0").mkdir(parents=True)
    (tmp_path / "topic-0").symlink_to(tmp_path / "mounted" / "topic-0")
    mount(monkeypatch)
    parent_directory_sync.sync_parent_directories(str(tmp_path / "topic-0"))
    assert synced[:2] == [str(tmp_path / "mounted"), str(tmp_path)]
