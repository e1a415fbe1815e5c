"""What a broker's disk knows of its cluster, read while calls fail [DUR-33, DUR-111]."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING
from unittest import mock

from segstore._core import Barrier, DataFile, Directory
from segstore.errors import SegstoreError
from segstore.log.files import log_directory_checkpoints
from segstore.log.files.meta_properties import read_meta_properties
from segstore.log.files.metadata_image_reader import read_metadata_image
from segstore.log.files.topic_names import METADATA_LOG
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition_to_write
from segstore.log.open_options import open_options
from segstore.manager.log_manager import LogManager
from segstore.manager.metadata_writing import write_metadata_log
from tests.crash.barrier_scene import new_disk
from tests.crash.barrier_scenes_of_directories import SMALL_SEGMENTS, raft_environment
from tests.crash.failing_scenarios_of_managers import living_on
from tests.crash.failing_trial import CLOSED, GOES_ON, Trial
from tests.crash.manual_scheduler import ManualScheduler
from tests.kits.manager_kit import close_logs_quietly
from tests.kits.metadata_kit import TOPIC_ID, metadata_batch, snapshot_bytes, topic_records
from tests.kits.raft_kit import append_singly, check_covered, commit, open_raft, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore._core import SimulatedDisk
    from segstore.raft.metadata_log import MetadataLog

LOGS = "/data"
PARTITION = "/data/clicks-0"
WEEK = 7 * 24 * 3600 * 1000
WHOLE_FILES = {
    f"{2:020}.log": metadata_batch(2, topic_records("clicks")),
    f"{2:020}-{5:010}.checkpoint": snapshot_bytes([topic_records()]),
}
FILES = {**WHOLE_FILES, f"{2:020}.log": WHOLE_FILES[f"{2:020}.log"] + bytes(99)}
"""With room after the last batch: settings of a log that may be torn do not count."""


def broker(files: Mapping[str, bytes]) -> SimulatedDisk:
    """Return a disk with the metadata log of a broker, and who it is."""
    disk = new_disk()
    for path, content in (
        (LOGS, {"meta.properties": b"version=1\nnode.id=1\ncluster.id=a\n"}),
        (f"{LOGS}/{METADATA_LOG}", files),
    ):
        with closing(Directory(path, disk, create=True)) as directory:
            for name, data in content.items():
                with DataFile(directory, name, create=True) as file:
                    file.write(0, data)
                    file.sync(Barrier.APPENDED_RECORDS)
            directory.sync(Barrier.APPENDED_NAMES)
    return disk


def look(disk: SimulatedDisk) -> object:
    with closing(Directory(LOGS, disk)) as directory:
        identity = read_meta_properties(directory)
    return (
        identity,
        read_metadata_image(LOGS, disk),
        read_metadata_image(f"{LOGS}/{METADATA_LOG}", disk),
    )


def looking() -> Trial:
    """A read fails or is right: no part is left out."""
    expected = look(broker(FILES))
    disk = broker(FILES)
    seen: list[object] = []

    def check(error: SegstoreError | None) -> str:
        assert seen == ([] if error is not None else [expected])
        assert look(disk) == expected
        return GOES_ON

    return Trial(disk, lambda: seen.append(look(disk)), check)


def managing(named: str | None) -> Trial:
    """A manager of a broker's directory, and a log of it that has lost its topic id.

    What fails leaves the records, and a limit that the metadata log gives, or none.
    """
    disk = broker(WHOLE_FILES)
    alone = LogEnvironment(environment=disk, background=lambda *_: ManualScheduler())
    with open_partition_to_write(PARTITION, open_options(topic_id=TOPIC_ID), alone) as log:
        log.append([(None, b"v")])
    managers: list[LogManager] = []
    limits: set[int | None] = set()

    def run() -> None:
        with living_on(disk):
            managers.append(LogManager(LOGS, metadata_log=named))
            limits.add(managers[0].log("clicks", 0).config.retention_ms)
            managers[0].maintain()
            managers[0].describe_topic("clicks")
            managers[0].stray_partitions()
            managers[0].close()
        with closing(Directory(PARTITION, disk)) as directory:
            directory.unlink("partition.metadata")
        with open_partition_to_write(PARTITION, open_options(), alone) as log:
            limits.add(log.config.retention_ms)
            log.restore_topic_id()

    def check(error: SegstoreError | None) -> str:
        assert limits <= {None, WEEK}
        for manager in managers:
            close_logs_quietly(manager)
        image = disk.crash_image(fate="killed")
        there = alone._replace(environment=image)
        with open_partition_to_write(PARTITION, open_options(), there) as log:
            assert [record.value for record in log.scan()] == [b"v"]
        return GOES_ON if error is None else CLOSED

    return Trial(disk, run, check)


def writing() -> Trial:
    """The metadata log of a directory without a broker: all of its topics are in it, or none is."""
    disk = new_disk()
    with living_on(disk), LogManager(LOGS) as manager:
        manager.create_topic("clicks")
        manager.append("clicks", [(None, b"v")])

    def run() -> None:
        impatient = mock.patch.object(log_directory_checkpoints, "_PAUSE_SECONDS", 0.0)
        with living_on(disk), impatient:
            write_metadata_log(LOGS, environment=disk)

    def check(error: SegstoreError | None) -> str:
        image = disk.crash_image(fate="killed")
        with closing(Directory(LOGS, image)) as directory:
            is_there = directory.exists(METADATA_LOG)
        if is_there:
            assert [*read_metadata_image(LOGS, image).topics] == ["clicks"]
        assert is_there or error is not None
        alone = LogEnvironment(environment=image, background=lambda *_: ManualScheduler())
        with open_partition_to_write(PARTITION, open_options(), alone) as log:
            assert [record.value for record in log.scan()] == [b"v"]
        return GOES_ON if error is None else CLOSED

    return Trial(disk, run, check)


def keeping_snapshots() -> Trial:
    """A metadata log with snapshots: what fails leaves one that has what is below the log start."""
    disk, scheduler = new_disk(), ManualScheduler()
    log_environment = LogEnvironment(environment=disk, background=lambda *_: scheduler)
    logs: list[MetadataLog] = []

    def run() -> None:
        log = open_raft(LOGS, log_environment=log_environment, **SMALL_SEGMENTS)
        logs.append(log)
        append_singly(log, 6, 1)
        log.flush()
        commit(log)
        log.delete_before_snapshot(snapshot(log, 4, 1))
        log.truncate_to(6)
        replaced = log.latest_snapshot()
        snapshot(log, 9, 2, unchecked=True)
        log.truncate_to_latest_snapshot()
        assert replaced is None or replaced.read()
        scheduler.run(60)
        log.close()

    def check(error: SegstoreError | None) -> str:
        for log in logs:
            with suppress(SegstoreError):
                log.close_quietly()
        for fate in ("killed", "lost"):
            image = disk.crash_image(fate=fate)
            found = open_raft(LOGS, log_environment=raft_environment(image), **SMALL_SEGMENTS)
            check_covered(found)
            found.close_quietly()
        return GOES_ON if error is None else CLOSED

    return Trial(disk, run, check)


METADATA_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "read what a broker's disk knows": looking,
    "a manager of a broker's directory": lambda: managing(None),
    "write the metadata log of a directory": writing,
    "snapshots of a metadata log": keeping_snapshots,
    "a manager that is shown a metadata log": lambda: managing(LOGS),
}
