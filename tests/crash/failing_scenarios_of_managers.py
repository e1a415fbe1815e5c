"""Many logs of one directory, on a simulated disk, while calls fail [DUR-111].

A manager opens the system's directories: its modules are given those of the disk instead.
"""

from __future__ import annotations

import contextlib
import errno
from functools import partial
from typing import TYPE_CHECKING, Final

from segstore._core import Directory
from segstore.errors import (
    FsyncFailedError,
    LogReadOnlyError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log import closed_log_end
from segstore.log.files import topic_directories
from segstore.log.files.parent_directory_sync import sync_parent_directories
from segstore.log.files.partition_path import make_directory
from segstore.log.log_opener import open_partition
from segstore.manager import (
    current_logs,
    log_directory,
    partition_directories,
)
from segstore.manager.log_manager import LogManager
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_script import START_MS
from tests.crash.failing_trial import CLOSED, GOES_ON, READ_ONLY, Trial
from tests.crash.simulated_directories import directories_on
from tests.kits.manager_kit import close_logs_quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore._core import SimulatedDisk
    from segstore.log.unified_log import UnifiedLog

LOGS: Final = "/data/logs"
OTHER_LOGS: Final = "/data/other"
TWO: Final = (LOGS, OTHER_LOGS)
ELSEWHERE: Final = {
    "recovery": "kafka",
    "state_dir": "/data/state",
    "segment_index_bytes": 4096,
}
KEYS: Final = (b"a", b"b", b"c", b"d")


def living_on(disk: SimulatedDisk) -> contextlib.AbstractContextManager[None]:
    """Let managers find *disk* where the system's directories are."""
    calls = {
        closed_log_end: (Directory,),
        log_directory: (Directory,),
        partition_directories: (Directory,),
        topic_directories: (make_directory, sync_parent_directories),
    }
    return directories_on(disk, calls, (current_logs, open_partition))


class Managed:
    """What is done with managers of one disk, and what was acknowledged."""

    def __init__(self, disk: SimulatedDisk, **settings: object) -> None:
        self.disk = disk
        self.settings = {"durability": "sync", "segment_ms": None, **settings}
        self.acknowledged: list[tuple[int, bytes]] = []
        self.open: list[LogManager] = []

    def manager(self, **settings: object) -> LogManager:
        made = LogManager(LOGS, **{**self.settings, **settings})
        self.open.append(made)
        return made

    def append(self, manager: LogManager) -> None:
        for number, key in enumerate(KEYS):
            (partition,) = manager.append("topic", [(START_MS + number, key, key)])
            self.acknowledged.append((partition, key))

    def begin(self) -> None:
        """Make a topic, fill it, and stop cleanly."""
        with living_on(self.disk):
            manager = self.manager()
            manager.create_topic("topic", 2)
            self.append(manager)
            manager.close()

    def go_on(self) -> None:
        """Open what is there, read it, add to it, and stop cleanly."""
        with living_on(self.disk):
            manager = self.manager()
            manager.topics()
            self.append(manager)
            manager.close()

    def read(self) -> None:
        with living_on(self.disk):
            manager = self.manager(read_only=True)
            found_in(manager)
            manager.close()

    def look_for_ends(self) -> None:
        """Ask where logs end that were closed cleanly: one that cannot be looked at is opened."""
        with living_on(self.disk):
            manager = self.manager()
            found = manager.log_end_offsets("topic")
            assert sum(found.values()) == len(self.acknowledged)
            manager.close()

    def share(self) -> None:
        """Open it shared: append, give partitions back, delete logs that are not open, maintain."""
        with living_on(self.disk):
            manager = self.manager(shared=True)
            (directory,) = manager._directories
            directory.maintenance._pool._pool._thread_count = 0  # calls come in order
            manager.topics()
            self.append(manager)
            for topic, partition in manager.partitions():
                manager.close_log(topic, partition)
            manager.create_topic("gone", 1)
            manager.delete_topic("gone")
            for failed in manager.maintain().failed:
                raise failed.error
            manager.close()

    def maintain(self) -> None:
        """Run retention and the checkpoints over logs whose sealed segments have no times."""

        def prepare(log: UnifiedLog) -> None:
            self.acknowledged.clear()  # a deletion that fails may have deleted
            log.delete_records(log.log_end_offset)
            log.append([(-1, b"k", b"v")])

        self._maintain_behind(prepare)

    def compact(self) -> None:
        """Run a pass over each log, whose records are there twice."""

        def prepare(log: UnifiedLog) -> None:
            number = log.topic_partition.partition
            log.append(
                [(START_MS, key, key) for there, key in self.acknowledged if there == number]
            )

        self._maintain_behind(prepare)

    def _maintain_behind(self, prepare: Callable[[UnifiedLog], None]) -> None:
        with living_on(self.disk):
            manager = self.manager()
            (directory,) = manager._directories
            directory.maintenance._pool._pool._thread_count = 0  # calls come in order
            for topic, partition in manager.partitions():
                log = manager.log(topic, partition)
                prepare(log)
                log.roll()
            for failed in manager.maintain().failed:
                raise failed.error
            manager.close()

    def check(self, error: SegstoreError | None) -> str:
        outcome = GOES_ON if error is None else CLOSED
        with living_on(self.disk):
            for manager in self.open:
                if not manager.closed and not manager.read_only:
                    outcome = self._use(manager)
                close_logs_quietly(manager)
                with contextlib.suppress(SegstoreError):
                    manager.close()
        for fate in ("killed", "lost", "seed"):
            image = self.disk.crash_image(fate=fate)
            with living_on(image):
                manager = self.manager()
                found = found_in(manager)
                assert all(found.count(one) >= self.acknowledged.count(one) for one in found)
                assert set(self.acknowledged) <= set(found)
                if "topic" in manager.topics():
                    manager.append("topic", [(START_MS, b"x", b"x")], partition=0)
                manager.close()
        return outcome

    @staticmethod
    def _use(manager: LogManager) -> str:
        try:
            manager.append("topic", [(START_MS, b"x", b"x")], partition=0)
        except LogReadOnlyError:
            return READ_ONLY
        except UnknownTopicOrPartitionError:
            return GOES_ON
        return GOES_ON


def close_all(managers: Iterable[LogManager]) -> str:
    """Close what a failure has left open; return what became of it."""
    outcome = GOES_ON
    for manager in managers:
        if not manager.closed:
            outcome = CLOSED
            close_logs_quietly(manager)
            with contextlib.suppress(SegstoreError):
                manager.close()
    return outcome


def found_in(manager: LogManager) -> list[tuple[int, bytes]]:
    return [
        (partition, record.value)
        for topic, partition in manager.partitions()
        for record in manager.log(topic, partition).scan()
    ]


def beginning(**settings: object) -> Trial:
    disk = new_disk()
    managed = Managed(disk, **settings)
    return Trial(disk, managed.begin, managed.check)


def beginning_in_vain() -> Trial:
    """The names above cannot be synced at first: who tries again has a whole log directory."""
    disk = new_disk()
    Directory("/data", disk, create=True).close()
    managed = Managed(disk)

    def begin() -> None:
        disk.fail("sync_directory", 2, errno.EIO)
        with contextlib.suppress(FsyncFailedError):
            managed.begin()

    return Trial(disk, begin, managed.check)


def going_on(act: Callable[[Managed], None], **settings: object) -> Trial:
    first = Managed(new_disk(), **settings)
    first.begin()
    managed = Managed(first.disk.crash_image(fate="lost"), **settings)
    managed.acknowledged = first.acknowledged
    return Trial(managed.disk, partial(act, managed), managed.check)


MANAGER_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "a new directory of logs": beginning,
    "a new directory of logs that cannot be synced": beginning_in_vain,
    "a directory of logs": lambda: going_on(Managed.go_on),
    "a directory of logs, to be read": lambda: going_on(Managed.read),
    "ends of a directory of logs": lambda: going_on(Managed.look_for_ends),
    "a directory of logs that is maintained": partial(
        going_on, Managed.maintain, retention_ms=10**15
    ),
    "a directory of logs that is compacted": partial(
        going_on, Managed.compact, cleanup_policy="compact", max_compaction_lag_ms=1
    ),
    "a new directory of logs that is shared": partial(beginning, shared=True),
    "a directory of logs that is shared": partial(going_on, Managed.share, retention_ms=10**15),
    "a new directory of logs, with state elsewhere": partial(beginning, **ELSEWHERE),
    "a directory of logs, with state elsewhere": partial(going_on, Managed.go_on, **ELSEWHERE),
}
