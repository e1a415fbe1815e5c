"""A new log was lost with a directory above it that a killed process had made and not synced.

Only the directory right above the partition was synced.
"""

from __future__ import annotations

import os

from segstore._core import Directory
from segstore.errors import LogPermissionError
from segstore.log.directory import partition_path
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.log.surroundings import Surroundings
from segstore.manager.topic_directories import make_log_directory
from tests.crash.barrier_scene import new_disk

PATH = "/above/further/topic-0"


def open_there(disk):
    return open_partition(PATH, open_options(durability="sync"), Surroundings(environment=disk))


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
    for path, name in (("/", "above"), ("/above", "further"), ("/above/further", "topic-0")):
        Directory(path, disk).make_directory(name)

    assert records_behind_a_power_cut(disk) == 1


def test_a_log_directory_is_synced_up_to_the_root_while_it_is_empty(tmp_path, monkeypatch):
    """[DUR-11] Not for each log in it, and not again when it has one."""
    asked = []
    monkeypatch.setattr("segstore.manager.topic_directories.sync_names_above", asked.append)
    path = str(tmp_path / "logs")
    for _ in range(2):
        make_log_directory(path).close()
    assert asked == [path, path]

    (tmp_path / "logs" / "topic-0").mkdir()
    make_log_directory(path).close()
    assert asked == [path, path]


def test_what_may_not_be_read_is_passed_over(tmp_path, monkeypatch):
    """[DUR-11, DUR-34] Who may not read a directory above did not make it."""
    real, opened = partition_path._core.Directory, []

    def refuse(path, environment=None, **options):
        opened.append(path)
        if path == os.path.dirname(tmp_path):  # noqa: PTH120 - as it is asked for
            raise LogPermissionError("not yours", file=path)
        return real(path, environment, **options)

    monkeypatch.setattr(partition_path._core, "Directory", refuse)
    partition_path.sync_names_above(str(tmp_path / "topic-0"))

    assert opened == [str(tmp_path), os.path.dirname(tmp_path)]  # noqa: PTH120
