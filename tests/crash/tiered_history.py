"""A tiered log that is driven at random on a simulated disk, beside a remote store with faults.

    python -m tests.crash.tiered_history 0 1000  # so many seeds

What must hold after a crash anywhere: each acknowledged record at or above the log start is read
once, from the remote or the local part; and a segment that counts as copied is whole [DUR-140…144].
"""

from __future__ import annotations

import argparse
import logging
import random
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from segstore._core import Directory, SimulatedDisk
from segstore.errors import SegstoreError
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition_to_write
from segstore.log.open_options import open_options
from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
from segstore.remote.log_manager.remote_log_manager import RemoteLogManager
from segstore.remote.log_manager.remote_log_manager_config import RemoteLogManagerConfig
from segstore.remote.log_manager.remote_log_reader import RemoteStorageReader
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState, TopicIdPartition
from segstore.remote.metadata.topic_based_remote_log_metadata_manager import (
    TopicBasedRemoteLogMetadataManager,
)
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.remote.storage.tiered_storage import TieredStorage
from segstore.types import TopicPartition
from tests.crash.crash_script import START_MS
from tests.crash.manual_scheduler import ManualScheduler
from tests.kits.simulated_remote_store import SimulatedRemoteStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore import UnifiedLog

LOGS, METADATA = "/data", "/data/__remote_log_metadata-0"
PATH = f"{LOGS}/orders-0"
TOPIC_ID = UUID(int=7)
PARTITION = TopicIdPartition(TOPIC_ID, TopicPartition("orders", 0))
RETENTION_MS = 40_000
LOCAL_BYTES = 300
FATES = ("lost", "kept", "killed", "seed", "seed")
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class LogTopic:
    """`MetadataTopic` over one log."""

    partitions_count = 1

    def __init__(self, log: UnifiedLog) -> None:
        self._log = log

    def append(self, partition: int, value: bytes) -> None:
        """Append an event, durably."""
        assert partition == 0
        self._log.append([(None, value)])

    def values(self, partition: int) -> Iterable[bytes | None]:
        """Return all events."""
        assert partition == 0
        return [record.value for record in self._log.scan()]


class Tiered:
    """The log and what keeps its remote part, opened on a disk and a store."""

    def __init__(
        self, disk: SimulatedDisk, store: SimulatedRemoteStore, durability: str = "sync"
    ) -> None:
        self.disk, self.store = disk, store
        self.scheduler = ManualScheduler()
        environment = LogEnvironment(environment=disk, background=lambda *_: self.scheduler)
        self.topic = open_partition_to_write(
            METADATA, open_options(durability="sync", segment_ms=None), environment
        )
        self.storage = TieredStorage(store)
        self.metadata = TopicBasedRemoteLogMetadataManager(LogTopic(self.topic))
        self.directory = Directory(LOGS, disk)
        self.cache = RemoteIndexCache(self.directory, self.storage, clock_ms=self.now_ms)
        reader = RemoteStorageReader(self.storage, self.metadata, self.cache, lambda _: TOPIC_ID)
        options = open_options(
            durability=durability,
            topic_id=TOPIC_ID,
            remote_log_reader=reader,
            remote_storage_enable=True,
            internal_segment_bytes=300,
            segment_index_bytes=4096,
            index_interval_bytes=100,
            segment_ms=None,
            retention_ms=RETENTION_MS,
            local_retention_bytes=LOCAL_BYTES,
            file_delete_delay_ms=0,
        )
        self.log = open_partition_to_write(PATH, options, environment)
        if self.log.latest_epoch is None:
            self.log.assign_epoch_start_offset(0, self.log.log_end_offset)
        self.manager = RemoteLogManager(
            self.storage,
            self.metadata,
            self.cache,
            broker_id=1,
            clock_ms=self.now_ms,
            config=RemoteLogManagerConfig(),
        )
        self.manager.on_leadership_change([self.log], [])

    def now_ms(self) -> int:
        """The disk's clock."""
        return self.disk.wall_clock_ms

    def close(self, *, quietly: bool = True) -> None:
        """Close all; quietly: as a process that ends, without a clean shutdown."""
        self.manager.close()
        for log in (self.log, self.topic):
            if quietly:
                log.close_quietly()
            else:
                log.close()
        self.directory.close()


class Point(NamedTuple):
    """What is promised from an effect of the disk on."""

    effects: int
    end: int
    start: int


class History:
    """Operations on a tiered log, and what was promised when."""

    def __init__(self, seed: int, fault_rate: float = 0.1) -> None:
        self.disk = SimulatedDisk()
        self.disk.wall_clock_ms = START_MS
        Directory(LOGS, self.disk, create=True).close()
        self.chance = random.Random(seed)
        self.store = SimulatedRemoteStore(
            self.disk, random.Random(-seed - 1), fault_rate=fault_rate
        )
        self.values: list[bytes] = []
        with self.store.without_faults():
            self.tiered = Tiered(self.disk, self.store)
        self.promises = [Point(self.disk.effects, 0, 0)]
        self.remote = self.interrupted = 0

    def step(self) -> None:
        """Do one thing; note what is promised from then on."""
        choices = [
            *3 * [self.append, self.copy, self.roll],
            *2 * [self.expire, self.delete_local],
            *(self.delete_records, self.wait, self.reopen),
        ]
        self.chance.choice(choices)()
        self.note()

    def note(self) -> None:
        """Promise what the log has now."""
        log = self.tiered.log
        self.promises.append(Point(self.disk.effects, log.log_end_offset, log.log_start_offset))

    def append(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            self.disk.wall_clock_ms += self.chance.randint(1, 3000)
            value = b"%d " % len(self.values) * self.chance.randint(1, 20)
            info = self.tiered.log.append([(self.disk.wall_clock_ms, None, value)])
            assert info.base_offset == len(self.values)
            self.values.append(value)

    def roll(self) -> None:
        self.tiered.log.roll()

    def copy(self) -> None:
        self.tiered.manager.copy(self.tiered.log)

    def expire(self) -> None:
        self.tiered.manager.expire(self.tiered.log)

    def delete_local(self) -> None:
        self.tiered.log.delete_old_segments()
        self.tiered.scheduler.run(60)

    def delete_records(self) -> None:
        log = self.tiered.log
        if self.chance.random() < 0.3:
            log.delete_records(self.chance.randint(log.log_start_offset, log.log_end_offset))

    def wait(self) -> None:
        self.disk.wall_clock_ms += self.chance.randint(1000, RETENTION_MS // 2)

    def reopen(self) -> None:
        self.tiered.close(quietly=self.chance.random() < 0.5)
        with self.store.without_faults():
            self.tiered = Tiered(self.disk, self.store)

    # ---- crashes ---------------------------------------------------------------------------------

    def check_crash(self, effects: int, fate: str, seed: int) -> None:
        """Crash after so many effects, look at what is left, and go on."""
        before = [one for one in self.promises if one.effects <= effects]
        after = [one for one in self.promises if one.effects >= effects]
        if not before:
            return  # nothing was opened yet
        disk = self.disk.crash_image(effects, fate=fate, seed=seed)
        disk.wall_clock_ms = self.disk.wall_clock_ms
        chance = random.Random(seed * 7919 + effects)
        store = self.store.after_crash(effects, disk, chance)
        tiered = Tiered(disk, store)
        try:
            start, end = before[-1].start, before[-1].end
            latest_start = after[0].start if after else self.promises[-1].start
            check_log(tiered, self.values, start, latest_start, end)
            check_copies(tiered, self.values)
            self.remote += tiered.log.local_log_start_offset > tiered.log.log_start_offset
            listed = list(tiered.metadata.list_remote_log_segments(PARTITION))
            self.interrupted += any(one.state != FINISHED for one in listed)
            self._go_on(tiered)
        finally:
            tiered.close()

    def _go_on(self, tiered: Tiered) -> None:
        """[DUR-142] Interrupted copies and deletions are finished or removed by the next runs."""
        log, manager = tiered.log, tiered.manager
        end, start = log.log_end_offset, log.log_start_offset
        error = manager.copy(log)
        assert error is None, error
        check_log(tiered, self.values, start, log.log_start_offset, end)
        error = manager.expire(log)
        assert error is None, error
        log.delete_old_segments()
        tiered.scheduler.run(60)
        check_log(tiered, self.values, start, log.log_start_offset, end)
        check_copies(tiered, self.values)
        states = {one.state for one in tiered.metadata.list_remote_log_segments(PARTITION)}
        # [TIER-52] A deletion that failed is done again when the expiration comes to the segment.
        assert states <= {FINISHED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED}, states


def check_log(tiered: Tiered, values: list[bytes], start: int, latest_start: int, end: int) -> None:
    """[DUR-1, DUR-140, DUR-143] All that was acknowledged is read, in order, each once."""
    log = tiered.log
    assert start <= log.log_start_offset <= latest_start, (
        log.log_start_offset,
        start,
        latest_start,
    )
    assert log.log_end_offset >= end, (log.log_end_offset, end)
    found = [(record.offset, record.value) for record in log.scan()]
    expected = range(log.log_start_offset, log.log_end_offset)
    assert found == [(offset, values[offset]) for offset in expected], (
        [offset for offset, _ in found],
        expected,
    )


def check_copies(tiered: Tiered, values: list[bytes]) -> None:
    """[DUR-140, DUR-142] What counts as copied is there, whole."""
    for segment in tiered.metadata.list_remote_log_segments(PARTITION):
        if segment.state != FINISHED:
            continue
        fetched = bytes(
            tiered.storage.fetch_log_segment(segment, 0, segment.segment_size_bytes + 1)
        )
        assert len(fetched) == segment.segment_size_bytes, segment
        for offset in range(segment.start_offset, segment.end_offset + 1):
            assert values[offset] in fetched, (segment, offset)
        for index in set(IndexType) - {IndexType.TRANSACTION}:
            tiered.storage.fetch_index(segment, index)


class Explored(NamedTuple):
    """What was come to; sums are of several histories.

    Attributes
    ----------
    crashes, faults : int
        Crashes that were looked at; calls of the store that failed before them.
    remote : int
        Crashes that left records in remote storage alone.
    interrupted : int
        Crashes that left a copy, or a deletion, that was not finished.
    """

    crashes: int
    faults: int
    remote: int
    interrupted: int


def explore(seed: int, steps: int, crashes: int) -> Explored:
    """Run one history, and look at so many crashes of it."""
    history = History(seed, fault_rate=(0.0, 0.05, 0.2)[seed % 3])
    try:
        for _ in range(steps):
            history.step()
    finally:
        history.tiered.close()
    chance = random.Random(seed)
    for number in range(crashes):
        effects = chance.randint(history.promises[0].effects, history.disk.effects)
        fate = FATES[number % len(FATES)]
        crash_seed = chance.randint(0, 10**6)
        try:
            history.check_crash(effects, fate, crash_seed)
        except (AssertionError, SegstoreError, LookupError) as error:
            error.add_note(f"seed {seed}, {steps} steps: {effects} effects, {fate}, {crash_seed}")
            raise
    return Explored(crashes, history.store.faults, history.remote, history.interrupted)


def main() -> None:
    """Explore a range of seeds, and print what failed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, help="exclusive")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--crashes", type=int, default=30)
    arguments = parser.parse_args()
    logging.disable()
    found, broken = [], 0
    for seed in range(arguments.first, arguments.last):
        try:
            found.append(explore(seed, arguments.steps, arguments.crashes))
        except (AssertionError, SegstoreError, LookupError) as error:
            broken += 1
            print(*error.__notes__, repr(error)[:1000])
    print(Explored(*map(sum, zip(*found, strict=True))) if found else "none", f"broken: {broken}")


if __name__ == "__main__":
    main()
