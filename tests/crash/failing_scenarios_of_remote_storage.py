"""A log directory with remote storage on a simulated disk, while calls fail [DUR-111, DUR-143].

The store itself works, but for a folder of the same disk: `tiered_history` lets it fail.
"""

from __future__ import annotations

import functools
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final
from unittest import mock

from segstore._core import Directory
from segstore.errors import IllegalStateError
from segstore.manager import tiered_topics
from segstore.manager.log_manager import LogManager
from segstore.number_limits import MAX_LONG
from segstore.remote.storage.tiered_storage import TieredStorage
from segstore.remote.storage.writable_folder import WritableFolder
from segstore.types import TopicPartition
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_script import START_MS
from tests.crash.failing_scenarios_of_managers import LOGS, close_all, living_on
from tests.crash.failing_trial import Trial
from tests.kits.simulated_remote_store import SimulatedRemoteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore._core import SimulatedDisk
    from segstore.errors import SegstoreError

FOLDER: Final = "/data/remote/kafka-tiered-storage"
CACHE: Final = "/data/cache"
"""Where a reader keeps indexes."""
TIERED: Final = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "1",
    "segment.ms": "1000000000000",
}
VALUES: Final = 3
SETTINGS: Final = {"durability": "sync", "segment_index_bytes": 4096, "retention_ms": None}


class Tiered:
    """What is done with a directory and a store, and what was acknowledged.

    Without *objects* the store is a folder of the same disk.
    """

    def __init__(self, disk: SimulatedDisk, objects: dict[str, bytes] | None) -> None:
        self.disk = disk
        self.store: SimulatedRemoteStore | WritableFolder
        if objects is None:
            self.store = WritableFolder(FOLDER, disk)
        else:
            self.store = SimulatedRemoteStore(disk, objects=objects)
        self.values: list[bytes] = []
        self.open: list[LogManager] = []

    @property
    def objects(self) -> dict[str, bytes] | None:
        """What the store has; None: it is a folder."""
        return self.store.objects if isinstance(self.store, SimulatedRemoteStore) else None

    @contextmanager
    def living(self) -> Iterator[None]:
        """Let managers find the disk, and the store."""
        there = functools.partial(Directory, environment=self.disk, create=True)
        with ExitStack() as stack:
            stack.enter_context(living_on(self.disk))
            for name, made in (
                ("Directory", there),
                ("open_remote_storage", lambda *_: TieredStorage(self.store)),
                ("tempfile.mkdtemp", lambda **_: CACHE),
            ):
                stack.enter_context(mock.patch(f"{tiered_topics.__name__}.{name}", made))
            yield

    def manager(self, **settings: object) -> LogManager:
        made = LogManager(LOGS, remote="simulated", **{**SETTINGS, **settings})
        if not made.read_only:
            made._directories[0].maintenance._pool._pool._thread_count = 0  # calls come in order
        self.open.append(made)
        return made

    def image(self, fate: str) -> Tiered:
        """Return what a crash leaves; the store keeps what it has."""
        disk = self.disk.crash_image(fate=fate)
        left = Tiered(disk, self.objects)
        left.values = list(self.values)
        return left

    # ---- what is done ----------------------------------------------------------------------------

    def fill(self) -> None:
        """Make a topic of small segments, and another whose first records are deleted."""
        with self.living():
            manager = self.manager()
            manager.create_topic("topic", 1, config=TIERED)
            manager.create_topic("plain", 1)
            plain = manager.log("plain", 0)
            plain.append([(START_MS, None, b"plain")])
            plain.delete_records(1)
            self.append(manager)
            manager.close()

    def append(self, manager: LogManager) -> None:
        """A segment for each record; one transaction of them is aborted."""
        log = manager.log("topic", 0)
        for _ in range(VALUES):
            value = b"%d" % len(self.values)
            log.append([(START_MS, None, value)])
            self.values.append(value)
            log.roll()

    def keep_up(self) -> None:
        """Copy what is sealed, let it go here, and read all of it."""
        with self.living():
            manager = self.manager()
            self.append(manager)
            for _ in range(2):
                for failed in manager.maintain().failed:
                    raise failed.error
            assert manager.log("topic", 0).local_log_start_offset > 0
            assert self.read_by(manager) == self.values
            manager.close()

    def read(self) -> None:
        with self.living():
            manager = self.manager(read_only=True)
            assert manager.log("plain", 0).log_start_offset == 1
            self.read_by(manager)
            manager.close()

    def delete(self, *, partition: bool = False) -> None:
        """Delete the topic, or its partition alone, here and there."""
        with self.living():
            manager = self.manager()
            if partition:
                manager.delete_partition("topic", 0)
            else:
                manager.delete_topic("topic")
            manager._directories[0].deleted.delete_due(MAX_LONG)
            for failed in manager.maintain().failed:
                raise failed.error
            manager.close()

    @staticmethod
    def read_by(manager: LogManager) -> list[bytes]:
        log = manager.log("topic", 0)
        for _ in range(2):  # of a folder, the second one by the lane
            assert log.read(log.log_start_offset, 1000).size_bytes
        return [record.value for record in log.scan()]

    # ---- what must hold --------------------------------------------------------------------------

    def end(self) -> str:
        """Close what is open."""
        with self.living():
            return close_all(self.open)

    def check(self, _: SegstoreError | None) -> str:
        """Look at what a crash leaves: each record is there, and a pass works again."""
        outcome = self.end()
        for fate in ("lost", "seed"):
            left = self.image(fate)
            with left.living():
                manager = left.manager()
                found = left.read_by(manager)
                assert found[: len(self.values)] == self.values, (fate, found)
                report = manager.maintain()
                assert not report.failed, report.failed
                assert left.read_by(manager) == found
                manager.close()
        return outcome

    def check_deleted(self, _: SegstoreError | None) -> str:
        """All of the partition is left, or the next passes leave nothing of it there."""
        outcome = self.end()
        for fate in ("lost", "seed"):
            left = self.image(fate)
            with left.living():
                manager = left.manager()
                if TopicPartition("topic", 0) in manager.partitions():
                    assert left.read_by(manager) == self.values
                    manager.delete_partition("topic", 0)
                manager._directories[0].deleted.delete_due(MAX_LONG)
                report = manager.maintain()
                for failed in report.failed:  # whether it was deleted, cannot be seen any more
                    assert isinstance(failed.error, IllegalStateError), report.failed
                    Directory(str(failed.error.file), left.disk, create=True).close()
                    report = manager.maintain(time.time_ns() // 1_000_000 + 3_600_000)
                assert not report.failed, report.failed
                assert not left.objects
                manager.close()
        return outcome


@functools.cache
def filled() -> Tiered:
    made = Tiered(new_disk(), {})
    made.fill()
    return made


@functools.cache
def copied() -> Tiered:
    made = filled().image("kept")
    made.keep_up()
    return made


@functools.cache
def copied_to_a_folder() -> Tiered:
    made = Tiered(new_disk(), None)
    made.fill()
    made.keep_up()
    return made


def going_on(
    begin: Callable[[], Tiered], act: Callable[[Tiered], None], *, deletes: bool = False
) -> Trial:
    tiered = begin().image("kept")
    check = tiered.check_deleted if deletes else tiered.check
    return Trial(tiered.disk, functools.partial(act, tiered), check)


REMOTE_STORAGE_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "a directory with remote storage": lambda: going_on(filled, Tiered.keep_up),
    "a directory with remote storage that goes on": lambda: going_on(copied, Tiered.keep_up),
    "a directory with remote storage in a folder": lambda: going_on(
        copied_to_a_folder, Tiered.keep_up
    ),
    "a directory with remote storage, to be read": lambda: going_on(copied, Tiered.read),
    "a topic with remote storage that is deleted": lambda: going_on(
        copied, Tiered.delete, deletes=True
    ),
    "a partition with remote storage that is deleted": lambda: going_on(
        copied, functools.partial(Tiered.delete, partition=True), deletes=True
    ),
}
