"""``with`` replaced a failed sync by "the log is read-only": who caught the sync's error never did.

The close at its end cannot do its work for the same cause. Found by a new user.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import CloseError, FsyncFailedError, LogReadOnlyError
from tests.crash.barrier_scene import new_disk, open_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import SimulatedDisk

ONE = [(None, b"v")]


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


def failing_append(disk: SimulatedDisk, log: segstore.UnifiedLog) -> None:
    disk.fail("sync_data", 1, errno.EIO)
    log.append(ONE)


def within(log: segstore.UnifiedLog, act: Callable[[], object]) -> None:
    with log:
        act()


def test_the_error_of_the_block_comes_out(disk):
    """[DUR-35] And what the close said is its note."""
    log = open_log(disk, durability="sync")
    with pytest.raises(FsyncFailedError) as caught:
        within(log, lambda: failing_append(disk, log))

    (note,) = [text for text in caught.value.__notes__ if "the close failed too" in text]
    assert "the log takes no changes since an earlier error" in note


def test_the_error_of_the_close_alone_comes_out(disk):
    """[DUR-35] The block had dealt with its own."""
    log = open_log(disk, durability="sync")

    def act() -> None:
        with pytest.raises(FsyncFailedError):
            failing_append(disk, log)

    with pytest.raises(LogReadOnlyError):
        within(log, act)


@pytest.mark.parametrize("fails", [True, False])
def test_of_a_manager_too(tmp_path, monkeypatch, fails):
    """[DUR-70] And an error that is none of this library."""
    manager = segstore.LogManager(tmp_path)
    close = manager.close

    def closing() -> None:
        close()
        if fails:
            raise CloseError("on purpose")

    monkeypatch.setattr(manager, "close", closing)
    with pytest.raises(KeyError) as caught:
        within(manager, lambda: {}["mine"])
    notes = getattr(caught.value, "__notes__", [])
    assert notes == (["the close failed too: on purpose"] if fails else [])
