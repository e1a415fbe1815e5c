"""Where not even the root can be found, making what is missing above it had no end: RecursionError.

A root like that is one of a directory that was removed, or of a file system that fails.
"""

from __future__ import annotations

import errno
from functools import partial

import pytest

from segstore._core import SimulatedDisk
from segstore.errors import LogNotFoundError
from segstore.log.files.partition_path import make_directory
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.manager import topic_directories


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
