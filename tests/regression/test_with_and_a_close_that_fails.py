"""``with`` replaced a failed sync by "the log is read-only": who caught the sync's error never did.

The close at its end cannot do its work for the same cause. Found by a new user.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import FsyncFailedError, InternalError, InvalidEpochError, LogReadOnlyError
from segstore.log.shutdown import suppress_repeated_error
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.failing_scenarios_of_managers import Managed, living_on

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


ENDS = {
    "an error": KeyError("mine"),
    "an exit": SystemExit(0),
    "a generator that is closed": GeneratorExit(),
    "an error of this library": InvalidEpochError("of another call"),
}


@pytest.mark.parametrize("error", ENDS.values(), ids=ENDS)
def test_a_sync_that_fails_at_the_end_comes_out(error):
    """[DUR-35] However the block ends: what was appended may not be on the disk."""
    disk = new_disk()
    log = open_log(disk, durability="none")

    def act() -> None:
        log.append(ONE)
        disk.fail("sync_data", 1, errno.EIO, for_ever=True)
        raise error

    with pytest.raises(FsyncFailedError) as caught:
        within(log, act)
    assert caught.value.__context__ is error


def test_so_does_one_that_nobody_was_told_of():
    """[DUR-35, DUR-38] The error of the block has another cause than the log's."""
    disk = new_disk()
    log = open_log(disk, durability="sync")

    def act() -> None:
        with pytest.raises(FsyncFailedError):
            failing_append(disk, log)
        raise InvalidEpochError("of another call")

    with pytest.raises(LogReadOnlyError):
        within(log, act)


def test_of_a_manager_too(tmp_path, monkeypatch):
    """[DUR-38] The echo of what the block had raised is its note; all else comes out."""
    manager = segstore.LogManager(tmp_path)
    close, failure = manager.close, FsyncFailedError("on purpose")

    def closing() -> None:
        close()
        raise LogReadOnlyError("the echo") from failure

    def act() -> None:
        raise failure

    monkeypatch.setattr(manager, "close", closing)
    with pytest.raises(FsyncFailedError) as caught:
        within(manager, act)
    assert caught.value.__notes__ == ["the close failed too: the echo"]
    with pytest.raises(LogReadOnlyError):
        within(manager, lambda: {}["mine"])


@pytest.mark.parametrize(("dead", "bad"), ["ab", "ba"])
def test_a_manager_tells_of_each_of_its_logs(dead, bad):
    """[DUR-35, DUR-38] One log ends the block, and the sync of another fails at the close."""
    disk = new_disk()
    with living_on(disk):
        manager = Managed(disk, durability="none").manager()
        for topic in (dead, bad):
            manager.create_topic(topic)
            manager.log(topic, 0).append(ONE)

        def act() -> None:
            disk.fail("sync_data", 1, errno.EIO, for_ever=True)
            with manager.log(dead, 0)._failure_mark.poisoned_by():
                raise InternalError("on purpose")

        with pytest.raises((FsyncFailedError, LogReadOnlyError)) as caught:
            within(manager, act)
    assert "sync_data" in " ".join([str(caught.value), *caught.value.__notes__])


def test_causes_in_a_circle_end():
    """Python lets an error be its own cause."""
    error = KeyError("mine")
    error.__cause__ = error
    with pytest.raises(LogReadOnlyError), suppress_repeated_error(error):
        raise LogReadOnlyError("the echo") from FsyncFailedError("of another")
