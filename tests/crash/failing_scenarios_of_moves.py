"""Partitions that move to another log directory while calls fail [DUR-111, DUR-127].

Whatever fails: no record is lost, and the next open of both directories finds one live partition. A
move that fails leaves the partition usable where it was, unless the disk has failed there.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from segstore._core import Directory
from segstore.errors import (
    IllegalStateError,
    LogDirectoryOfflineError,
    LogReadOnlyError,
    SegstoreError,
)
from segstore.log.files.topics_file import read_topics_file
from segstore.log.log_dir_failure_channel import IO_ERRORS
from segstore.manager import partition_moves
from segstore.manager.log_manager import LogManager
from segstore.types import TopicPartition
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_script import START_MS
from tests.crash.failing_scenarios_of_managers import LOGS, OTHER_LOGS, TWO, living_on
from tests.crash.failing_trial import GOES_ON, READ_ONLY, Trial
from tests.kits.manager_kit import close_logs_quietly

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import SimulatedDisk

TOPIC: Final = TopicPartition("topic", 0)
DELETED: Final = 2
"""So many records were deleted before the move."""


class Moved:
    """A partition that moves, and what was acknowledged."""

    def __init__(self, disk: SimulatedDisk, acknowledged: list[bytes]) -> None:
        self.disk = disk
        self.acknowledged = acknowledged
        self.count = len(acknowledged)
        self.most_deleted = DELETED
        self.is_truncated = False
        self.open: list[LogManager] = []

    def manager(self) -> LogManager:
        made = LogManager(
            TWO,
            durability="sync",
            segment_ms=None,
            internal_segment_bytes=300,
            file_delete_delay_ms=0,
        )
        self.open.append(made)
        return made

    def append(self, manager: LogManager) -> None:
        self.count += 1
        value = b"%d" % self.count * 50
        manager.append("topic", [(START_MS, None, value)], partition=0)
        self.acknowledged.append(value)

    def begin(self) -> None:
        """Make a topic in the first directory, fill it, and stop cleanly."""
        with living_on(self.disk):
            manager = self.manager()
            manager.create_topic("topic", directories={0: LOGS})
            for _ in range(6):
                self.append(manager)
            manager.log(*TOPIC).delete_records(DELETED)
            manager.close()

    def move(self, change: Callable[[Moved, LogManager], None]) -> None:
        """Move it; *change* is called when the first bytes are copied."""
        with living_on(self.disk), mock.patch.object(partition_moves, "_ENOUGH_BYTES", 1):
            manager = self.manager()
            waiting = [change]

            def progress(_done: int, _total: int) -> None:
                if waiting:
                    waiting.pop()(self, manager)

            manager.move_partition(*TOPIC, OTHER_LOGS, progress=progress)
            self.append(manager)
            manager.close()

    def check(self, _: SegstoreError | None) -> str:
        outcome = GOES_ON
        with living_on(self.disk):
            for manager in self.open:
                if not manager.closed:
                    outcome = self._use(manager)
                    close_logs_quietly(manager)
                with suppress(SegstoreError):
                    manager.close()
        for fate in ("killed", "lost", "seed"):
            image = self.disk.crash_image(fate=fate)
            for _ in range(2):
                with living_on(image):
                    self._check_whole(self.manager())
        return outcome

    def _use(self, manager: LogManager) -> str:
        """Append to it: it is somewhere, and takes records where no disk has failed."""
        try:
            self._check_values(manager)
            self.append(manager)
        except LogReadOnlyError as error:
            cause, log = error.__cause__, manager.log(*TOPIC)
            assert isinstance(cause, SegstoreError)
            assert cause.os_error is not None
            if isinstance(cause, IO_ERRORS):
                assert log.path.rpartition("/")[0] in manager.offline_directories()
            else:  # halfway, which ends the log alone: a write that was not undone [DUR-32]
                assert self.is_truncated or log._local_log.is_poisoned
            return READ_ONLY
        except LogDirectoryOfflineError:
            assert manager.offline_directories()
            return READ_ONLY
        return GOES_ON

    def _check_whole(self, manager: LogManager) -> None:
        homes = [one for one in manager._directories if one.listed().partitions]
        assert len(homes) == 1, [one.path for one in homes]
        assert manager.unopened_directories() == []
        self._check_values(manager)
        self.append(manager)
        manager.close()
        self.acknowledged.pop()  # of that image alone
        for one in manager._directories:
            with closing(Directory(one.path, one.directory.environment)) as directory:
                assert not read_topics_file(directory).arrivals
                assert not [name for name in directory.names() if name.endswith("-delete")]

    def _check_values(self, manager: LogManager) -> None:
        values = iter([record.value for record in manager.log(*TOPIC).scan()])
        assert all(value in values for value in self.acknowledged[self.most_deleted :])


def nothing(_moved: Moved, _manager: LogManager) -> None:
    pass


def append_meanwhile(moved: Moved, manager: LogManager) -> None:
    moved.append(manager)


def delete_meanwhile(moved: Moved, manager: LogManager) -> None:
    """A segment goes that was copied."""
    moved.most_deleted = 4
    manager.log(*TOPIC).delete_records(4)


def truncate_meanwhile(moved: Moved, manager: LogManager) -> None:
    """The end of what was copied is not the log's any more."""
    del moved.acknowledged[3:]
    moved.is_truncated = True
    manager.log(*TOPIC).truncate_to(3)


def begun() -> Moved:
    first = Moved(new_disk(), [])
    first.begin()
    return Moved(first.disk.crash_image(fate="lost"), first.acknowledged)


def moving(change: Callable[[Moved, LogManager], None] = nothing) -> Trial:
    moved = begun()
    return Trial(moved.disk, lambda: moved.move(change), moved.check)


def moving_in_two_attempts() -> Trial:
    """The old directory cannot be deleted at first: the partition has moved all the same."""
    moved = begun()
    real, waiting = partition_moves._hand_over, [IllegalStateError("not yet", file=LOGS)]

    def hand_over(*of_move: Any) -> None:
        if waiting:
            raise waiting.pop()
        real(*of_move)

    def run() -> None:
        with living_on(moved.disk), mock.patch.object(partition_moves, "_hand_over", hand_over):
            manager = moved.manager()
            with suppress(IllegalStateError):
                manager.move_partition(*TOPIC, OTHER_LOGS)
            assert manager.log(*TOPIC).path.startswith(OTHER_LOGS)
            moved.append(manager)
            manager.close()

    return Trial(moved.disk, run, moved.check)


def moving_after_one_that_was_not_undone() -> Trial:
    """What it has left is removed first."""
    moved = begun()
    not_now = IllegalStateError("not now", file=OTHER_LOGS)

    def run() -> None:
        with living_on(moved.disk):
            manager = moved.manager()
            with (
                mock.patch.object(partition_moves, "_name_copy", side_effect=not_now),
                mock.patch.object(partition_moves, "remove_trees", side_effect=not_now),
                suppress(IllegalStateError),
            ):
                manager.move_partition(*TOPIC, OTHER_LOGS)
            moved.append(manager)
            manager.move_partition(*TOPIC, OTHER_LOGS)
            moved.append(manager)
            manager.close()

    return Trial(moved.disk, run, moved.check)


def ending(find: Callable[[SimulatedDisk], int]) -> Trial:
    """A process was killed in the midst: the next open for writing does the rest."""
    killed = begun()
    acknowledged = killed.acknowledged.copy()
    killed.move(nothing)
    left = Moved(killed.disk.crash_image(find(killed.disk), fate="kept"), acknowledged)

    def run() -> None:
        with living_on(left.disk):
            manager = left.manager()
            left.append(manager)
            manager.close()

    return Trial(left.disk, run, left.check)


def after(barrier: str) -> Callable[[SimulatedDisk], int]:
    """Return what finds the first sync of that name."""
    return lambda disk: next(
        number for number in range(1, disk.effects + 1) if disk.event(number).barrier == barrier
    )


def when_named(disk: SimulatedDisk) -> int:
    """Return the effect by which the copy got the partition's name."""
    return next(
        number
        for number in range(1, disk.effects + 1)
        if disk.event(number).call == "rename" and disk.event(number).name.endswith("-future")
    )


MOVE_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "a partition that moves": moving,
    "a partition that moves while it is written": lambda: moving(append_meanwhile),
    "a partition that moves while records are deleted": lambda: moving(delete_meanwhile),
    "a partition that moves while it is truncated": lambda: moving(truncate_meanwhile),
    "a partition that moves in two attempts": moving_in_two_attempts,
    "a partition that moves after a move that was not undone": (
        moving_after_one_that_was_not_undone
    ),
    "a move that was killed while it copied": lambda: ending(after("MOVED_RECORDS")),
    "a move that was killed when all was copied": lambda: ending(lambda d: when_named(d) - 1),
    "a move that was killed when the copy had its name": lambda: ending(when_named),
    "a move that was killed after the deletion": lambda: ending(after("DOOMED_DIRECTORY")),
}
