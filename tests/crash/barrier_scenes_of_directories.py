"""Barriers of what is not a log's records: directories, producers, other logs' lines, salvage."""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Final
from unittest import mock

import pyarrow as pa

from segstore._core import Directory, FileBarrier
from segstore.errors import LogNotFoundError, SegstoreError
from segstore.log.files.checkpoints import parse_offset_checkpoint, read_topic_id
from segstore.log.files.checksum_sidecar import ChecksumSidecar, sidecar_name
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_salvage import salvage_and_open
from segstore.log.open_options import open_options
from segstore.manager import partition_moves
from segstore.manager.log_manager import LogManager
from segstore.spark.commit_log import COMMITTING, CommitLog, CommitRecord
from segstore.spark.sink_options import SinkOptions
from segstore.spark.staged_file import StagedFile
from segstore.types import TopicPartition
from tests.crash.barrier_scene import LAZY, Scene, files_left, new_disk, open_log, operations
from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_script import (
    PATH,
    START_MS,
    ManualScheduler,
    make_log_directory,
    run_script,
)
from tests.crash.failing_scenarios_of_managers import LOGS, OTHER_LOGS, TWO, living_on
from tests.crash.remote_copies import copied_and_deleted
from tests.kits.directory_kit import disk_with, name_of, records, recovery_point
from tests.kits.log_kit import at
from tests.kits.manager_kit import abandon
from tests.kits.raft_kit import append_singly, check_covered, commit, open_raft, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk

ABOVE: Final = os.path.dirname(PATH)  # noqa: PTH120 - not a real one
NEW_NAME: Final = f"{ABOVE}/other-3"
LOG_START: Final = "log-start-offset-checkpoint"
SHARED_RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"


SMALL_SEGMENTS: Final = {"internal_metadata_log_segment_bytes": 200}


def raft_environment(disk: SimulatedDisk) -> LogEnvironment:
    """Return what a metadata log of a simulated disk is opened with."""
    return LogEnvironment(environment=disk, background=lambda *_: ManualScheduler())


def exists(disk: SimulatedDisk, path: str) -> bool:
    try:
        Directory(path, disk).close()
    except LogNotFoundError:
        return False
    return True


# ---- producers -----------------------------------------------------------------------------------


def producers_of_deleted_records(*kinds: str | tuple[str, int]) -> Scene:
    """A snapshot that was synced keeps a producer known whose records are deleted [PSM-60]."""
    run = run_script(operations(*kinds), LAZY)
    deletion = next(step for step in run.steps if step.operation.kind == "delete_records")
    marks = Scene(run.disk, len).syncs("CLEAN_MARKER_NAME")
    closed = marks[-1] if marks else 0

    def check(crash: Crash) -> None:
        if kinds[-1] == "close" and crash.effects != closed:
            return  # an open behind an unclean stop reads the records that are left
        with closing(LAZY.open(crash.image(run.disk))) as log:
            if log.log_start_offset == deletion.operation.argument:
                assert 3 in {one.producer_id for one in log.active_producers()}

    return Scene(run.disk, check)


def rolled_snapshot() -> Scene:
    return producers_of_deleted_records(
        ("idempotent", 3), ("append", 2), "roll", ("idempotent", 5), "flush", ("delete_records", 2)
    )


def closing_snapshot() -> Scene:
    return producers_of_deleted_records(
        ("idempotent", 3), ("append", 2), "roll", ("append", 2), ("delete_records", 4), "close"
    )


def snapshots(*kinds: str | tuple[str, int]) -> Scene:
    """The check counts the snapshots that are missing, of so many as there may be."""
    run = run_script(operations(*kinds), LAZY)

    def check(crash: Crash) -> int:
        check_crash(run, crash)
        return -files_left(crash.image(run.disk), (".snapshot",))

    return Scene(run.disk, check)


def checksums() -> Scene:
    """The check counts the sidecars of sealed segments that are whole, as a negative [DUR-60]."""
    disk, scheduler = new_disk(), ManualScheduler()
    log = open_log(disk, scheduler=scheduler, checksum_sidecar=True)
    log.append_as_leader(at(0), 0)
    log.roll()
    scheduler.run(3600)
    log.close_quietly()
    name = sidecar_name(0)

    def check(crash: Crash) -> int:
        image = crash.image(disk)
        directory = Directory(PATH, image) if exists(image, PATH) else None
        if directory is None or not directory.exists(name):
            return 0
        try:
            ChecksumSidecar.parse(directory.read_file(name), 0)
        except SegstoreError:
            return 0
        return -1

    return Scene(disk, check)


# ---- checkpoints ---------------------------------------------------------------------------------


def of_batches_without_epochs(
    change: Callable[[UnifiedLog], object], is_kept: Callable[[UnifiedLog], bool], durability: str
) -> Scene:
    """No batch says what the change writes down, and it writes one file alone."""
    content = b"".join(at(offset, epoch=-1) for offset in range(4))
    disk = disk_with({name_of(0): content, SHARED_RECOVERY_POINT: recovery_point(4)})
    log = open_log(disk, durability=durability)
    change(log)
    returned = disk.effects
    log.close_quietly()

    def check(crash: Crash) -> None:
        with closing(open_log(crash.image(disk))) as found:
            assert crash.effects < returned or is_kept(found)

    return Scene(disk, check)


def log_start_alone() -> Scene:
    return of_batches_without_epochs(
        lambda log: log.maybe_increment_log_start_offset(2),
        lambda found: found.log_start_offset == 2,
        "sync",
    )


def epoch_without_batch() -> Scene:
    return of_batches_without_epochs(
        lambda log: log.assign_epoch_start_offset(3, 2),
        lambda found: found.latest_epoch == 3,
        "none",
    )


def point_below_the_one_above() -> Scene:
    """A truncation came whose writer left the log directory's line: only the own one tells."""
    disk = disk_with({name_of(0): records(0, 2), SHARED_RECOVERY_POINT: recovery_point(2)})
    make_log_directory(disk)
    Directory(ABOVE, disk).write_file_atomically(
        SHARED_RECOVERY_POINT, recovery_point(4), FileBarrier.SHARED_CHECKPOINT
    )
    log = open_log(disk)
    log.append_as_leader(at(0), 0)
    log.flush()
    acked = disk.effects
    log.close_quietly()

    def check(crash: Crash) -> None:
        with closing(open_log(crash.image(disk))) as found:
            assert found.log_end_offset == 3 or crash.effects < acked

    return Scene(disk, check)


def lines_of_other_logs() -> Scene:
    """The close merges a line into the log directory's files [DUR-65]."""
    run = run_script(operations(("append", 2), "close"), LAZY._replace(in_log_directory=True))
    marks = Scene(run.disk, len).syncs("CLEAN_MARKER_NAME")
    other, own = TopicPartition("other", 0), TopicPartition("topic", 0)

    def check(crash: Crash) -> None:
        content = Directory(ABOVE, crash.image(run.disk)).read_file(SHARED_RECOVERY_POINT)
        lines = parse_offset_checkpoint(content, SHARED_RECOVERY_POINT)
        assert lines[other] == 7
        assert crash.effects < marks[-1] or lines[own] == 2

    return Scene(run.disk, check)


def new_name() -> Scene:
    """Records stay deleted under whichever name the directory has [DUR-5]."""
    run = run_script(operations(("append", 2), ("append", 2), ("delete_records", 2)), LAZY)
    disk = run.disk
    deleted = disk.effects
    log = LAZY.open(disk)
    log.rename_dir("other-3")
    renamed = disk.effects
    log.append_as_leader(at(0), 0)
    log.flush()
    log.close_quietly()

    def check(crash: Crash) -> int:
        image = crash.image(disk)
        is_there = exists(image, NEW_NAME)
        assert is_there or crash.effects < renamed
        with closing(open_log(image, NEW_NAME if is_there else PATH)) as found:
            assert crash.effects < deleted or found.log_start_offset == 2
            return len(found.report.warnings)

    return Scene(disk, check)


def topic_id() -> Scene:
    """It is on the disk before a batch that was appended with it [DUR-23]."""
    disk, given = new_disk(), uuid.UUID(int=5)
    for options in ({}, {"topic_id": given}):
        log = open_log(disk, durability="sync", **options)
        log.append_as_leader(at(0), 0)
        log.close_quietly()
    size = 2 * len(at(0))

    def check(crash: Crash) -> None:
        image = crash.image(disk)
        if not exists(image, PATH):
            return
        directory = Directory(PATH, image)
        if directory.exists(name_of(0)) and len(directory.read_file(name_of(0))) == size:
            assert read_topic_id(directory) == given

    return Scene(disk, check)


# ---- directories ---------------------------------------------------------------------------------


def deleted_log() -> Scene:
    """All of it is there under its name, or nothing; in the end nothing at all [DEL-1]."""
    run = run_script(operations(("append", 2), "roll", ("append", 2), "flush"), LAZY)
    disk = run.disk
    flushed = disk.effects
    log = LAZY.open(disk)
    log.delete()

    def check(crash: Crash) -> None:
        image = crash.image(disk)
        if exists(image, PATH):
            assert crash.effects < disk.effects
            with closing(LAZY.open(image)) as found:
                assert crash.effects < flushed or found.log_end_offset == 4
        if crash.effects == disk.effects:
            assert Directory(ABOVE, image).names() == []

    return Scene(disk, check)


def salvage() -> Scene:
    """The new log is whole or not there; when the call has returned it is there [DUR-62]."""
    files = {name_of(0): records(0, 3) + b"?" * 70, name_of(5): records(5, 6)}
    disk = disk_with(files)
    options = open_options(durability="none", segment_ms=None)
    scheduler = ManualScheduler()
    log_environment = LogEnvironment(environment=disk, background=lambda *_: scheduler)
    log, _ = salvage_and_open(PATH, NEW_NAME, options, log_environment)
    done = disk.effects
    log.close_quietly()

    def check(crash: Crash) -> None:
        image = crash.image(disk)
        if not exists(image, NEW_NAME):
            assert crash.effects < done
            return
        with closing(open_log(image, NEW_NAME)) as found:
            assert [record.offset for record in found.scan()] == [0, 1, 2, 5]

    return Scene(disk, check)


def made_topic(partitions: int = 2) -> Scene:
    """A topic is whole or not there, for readers and writers; when the call returned it is there.

    Each write, sync and rename of the making is a crash point.
    """
    whole = {"topic": [*range(partitions)]}
    disk = new_disk()
    with living_on(disk):
        manager = LogManager(LOGS, durability="sync", segment_ms=None)
        manager.create_topic("topic", partitions)
        made_id = manager.describe_topic("topic").topic_id
    made = disk.effects
    abandon(manager)

    def check(crash: Crash) -> None:
        with living_on(crash.image(disk)):
            for read_only in (True, False, True):
                try:
                    found = LogManager(LOGS, read_only=read_only, segment_ms=None)
                except LogNotFoundError:
                    assert read_only
                    assert crash.effects < made
                    continue
                topics = found.topics()
                ids = {found.log(*one).topic_id for one in found.partitions()}
                left = [one for one in found._directories[0].directory.names() if "-" in one]
                abandon(found)
                assert topics in ({}, whole)
                assert ids == ({made_id} if topics else set())
                assert read_only or topics or not [one for one in left if one.startswith("topic-")]
                assert topics or crash.effects < made

    return Scene(disk, check)


def deleted_topic() -> Scene:
    """A topic is there with its records, or not at all; when the call has returned it is not.

    The crash points begin with the call. No log is open: one that is syncs its own new name.
    """
    disk = new_disk()
    with living_on(disk):
        manager = LogManager(LOGS, durability="sync", segment_ms=None)
        manager.create_topic("topic", 2)
        for number in range(2):
            manager.append("topic", [(None, b"v")], partition=number)
        manager.close()
        begun = disk.effects
        manager = LogManager(LOGS, durability="sync", segment_ms=None)
        manager.delete_topic("topic")
        ended = disk.effects
    abandon(manager)

    def check(crash: Crash) -> None:
        if crash.effects < begun:
            return
        with living_on(crash.image(disk)):
            found = LogManager(LOGS, segment_ms=None)
            topics = found.topics()
            ends = [found.log(*one).log_end_offset for one in found.partitions()]
            abandon(found)
            assert (topics, ends) in (({}, []), ({"topic": [0, 1]}, [1, 1]))
            assert not topics or crash.effects < ended

    return Scene(disk, check)


def moved_partition() -> Scene:
    """A partition is live in one of two directories, with all records, and its log start [DUR-127].

    Most of it is copied beside appends. The crash points begin with the call.
    """
    disk = new_disk()
    with living_on(disk), mock.patch.object(partition_moves, "_ENOUGH_BYTES", 1):
        manager = LogManager(TWO, durability="sync", segment_ms=None, internal_segment_bytes=300)
        manager.create_topic("topic", directories={0: LOGS})
        log = manager.log("topic", 0)
        for number in range(6):
            log.append([(START_MS, None, b"%d" % number * 50)])
        log.delete_records(2)
        begun = disk.effects
        manager.move_partition("topic", 0, OTHER_LOGS)
        moved = disk.effects
        manager.append("topic", [(START_MS, None, b"6" * 50)])
        appended = disk.effects
    abandon(manager)

    def check(crash: Crash) -> None:
        if crash.effects < begun:
            return
        image = crash.image(disk)
        with living_on(image):
            found = LogManager(TWO, segment_ms=None)
            there = [one.path for one in found._directories if one.listed().partitions]
            log = found.log("topic", 0)
            offsets = [record.offset for record in log.scan()]
            moves = [path for path in found.unopened_directories() if path.endswith("-future")]
            abandon(found)
        assert there == [OTHER_LOGS] or (there == [LOGS] and crash.effects < moved)
        assert offsets == [2, 3, 4, 5, 6] or (offsets == [2, 3, 4, 5] and crash.effects < appended)
        assert not moves

    return Scene(disk, check)


# ---- Spark's sink --------------------------------------------------------------------------------


def committed_write() -> Scene:
    """When the redo log says that a commit began, the records that it names are there [DUR-2]."""
    disk = disk_with({})
    directory = Directory(PATH, disk)
    table = pa.table({"value": [b"a" * 600, b"b" * 600]})
    with StagedFile(
        directory, "owner", SinkOptions(PATH, "topic", batch_bytes=500), sync=True
    ) as staged:
        staged.add(TopicPartition("topic", 0), table.to_batches()[0])
        staged.finish()
    content = directory.read_file(staged.name)
    record = CommitRecord("application", 1, COMMITTING)
    CommitLog(directory, "application").write(record)
    committed = disk.effects

    def check(crash: Crash) -> None:
        there = Directory(PATH, crash.image(disk))
        found = CommitLog(there, "application").read()
        assert found == record or (found is None and crash.effects < committed)
        if found is not None:
            assert there.read_file(staged.name) == content

    return Scene(disk, check)


# ---- the metadata log ----------------------------------------------------------------------------


def metadata_snapshot() -> Scene:
    """A snapshot that is finished is whole, and what is below the log start is in one [DUR-145]."""
    disk = new_disk()
    log = open_raft("/data", log_environment=raft_environment(disk), **SMALL_SEGMENTS)
    append_singly(log, 6, 1)
    log.flush()
    commit(log)
    first = snapshot(log, 4, 1)
    frozen = disk.effects
    log.delete_before_snapshot(first)
    deleted = disk.effects
    log.close_quietly()

    def check(crash: Crash) -> None:
        found = open_raft("/data", log_environment=raft_environment(crash.image(disk)))
        try:
            check_covered(found)
            assert found.start_offset == 4 or crash.effects < deleted
            assert first in found.snapshot_ids or crash.effects < frozen
        finally:
            found.close_quietly()

    return Scene(disk, check)


DIRECTORY_SCENES: dict[str, Callable[[], Scene]] = {
    "ROLLED_SNAPSHOT": rolled_snapshot,
    "ROLLED_SNAPSHOT_NAME": lambda: snapshots(
        ("idempotent", 3), "roll", ("append", 2), ("delete_records", 1)
    ),
    "SNAPSHOT_CONTENT": closing_snapshot,
    "SNAPSHOT_NAME": lambda: snapshots(("idempotent", 3), "close"),
    "CHECKSUM_SIDECAR_CONTENT": checksums,
    "CHECKSUM_SIDECAR_NAME": checksums,
    "RECOVERY_POINT_CONTENT": point_below_the_one_above,
    "LOG_START_NAME": log_start_alone,
    "LEADER_EPOCHS_CONTENT": epoch_without_batch,
    "LEADER_EPOCHS_NAME": epoch_without_batch,
    "SHARED_CHECKPOINT_CONTENT": lines_of_other_logs,
    "SHARED_CHECKPOINT_NAME": lines_of_other_logs,
    "NEW_NAME_CHECKPOINT_CONTENT": new_name,
    "NEW_NAME_CHECKPOINT_NAME": new_name,
    "TOPICS_CONTENT": made_topic,
    "TOPICS_NAME": made_topic,
    "PARTITION_METADATA_CONTENT": topic_id,
    "PARTITION_METADATA_NAME": topic_id,
    "RENAMED_DIRECTORY": new_name,
    "DOOMED_DIRECTORY": deleted_log,
    "REMOVED_DIRECTORY": deleted_log,
    "MOVED_RECORDS": moved_partition,
    "MOVED_NAMES": moved_partition,
    "METADATA_SNAPSHOT": metadata_snapshot,
    "METADATA_SNAPSHOT_NAME": metadata_snapshot,
    "REMOTE_COPY": copied_and_deleted,
    "REMOTE_COPY_NAMES": copied_and_deleted,
    "REMOTE_DELETION": copied_and_deleted,
    "SALVAGED_RECORDS": salvage,
    "STAGED_RECORDS": committed_write,
    "STAGED_NAMES": committed_write,
    "SINK_COMMIT_CONTENT": committed_write,
    "SINK_COMMIT_NAME": committed_write,
}
