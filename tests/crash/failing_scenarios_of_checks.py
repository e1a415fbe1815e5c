"""Checks and repairs of partitions that are not open, and of what lies beside them [DUR-111].

They open the system's directories: they are given those of the disk instead. What a failed call
hides is reported; no finding about records is made up of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from segstore._core import Directory
from segstore.errors import NotALogError
from segstore.log import lone_files, lone_segment
from segstore.log.check.partition_check import check_partition
from segstore.log.files.parent_directory_sync import sync_parent_directories
from segstore.log.files.partition_metadata_file import PartitionMetadataFile
from segstore.log.files.partition_path import open_parent_directory
from segstore.log.files.tree_removal import remove_trees
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition_to_write
from segstore.log.log_salvage import salvage_and_open
from segstore.log.open_options import open_options
from segstore.manager import partition_directories, repair_session
from tests.crash.barrier_scene import open_log
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_damage import EPOCHS, MARKER, changed
from tests.crash.failing_scenarios_of_opens import (
    IN_LOG_DIRECTORY,
    SEGMENTS,
    SETTINGS,
    TRANSACTIONS,
    WITH_SIDECARS,
    closed,
    settled,
    without,
)
from tests.crash.failing_scenarios_of_paths import Refusal, asking_of_path, is_refusal
from tests.crash.failing_trial import CLOSED, GOES_ON, Trial, expecting, opening
from tests.crash.simulated_directories import directories_on
from tests.kits.directory_kit import RECOVERY_POINT, disk_with, name_of, records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore import SegstoreError
    from segstore._core import SimulatedDisk
    from segstore.log.local.segment import Segment

ABOVE: Final = os.path.dirname(PATH)  # noqa: PTH120 - not a real one
COPY: Final = f"{ABOVE}/a copy"
TOPIC_ID: Final = uuid.UUID(int=5)


# ---- checks --------------------------------------------------------------------------------------


def check(disk: SimulatedDisk) -> object:
    """Return the findings as plain values, and the notes."""
    report = check_partition(PATH, environment=disk)
    return [one.to_dict() for one in report.findings], report.notes


def check_without_reads(disk: SimulatedDisk) -> object:
    """Return what a check says when the disk gives out nothing from the batches on."""

    def scan(segment: Segment, **how: Any) -> object:
        disk.fail("read_at", 1, errno.EIO, for_ever=True)
        return segment.scan(**how)

    try:
        report = check_partition(PATH, environment=disk, scan_segment=scan)
    finally:
        disk.fail("read_at", 0, 0)
    return [one.to_dict() for one in report.findings], report.notes


def check_unreadable(disk: SimulatedDisk) -> object:
    """Return what a check says when the disk gives out no byte: an open for writing refuses."""
    disk.fail("read_at", 1, errno.EIO, for_ever=True)
    try:
        return check(disk)
    finally:
        disk.fail("read_at", 0, 0)


def salvage_without_a_log(disk: SimulatedDisk) -> object:
    """Salvage what has a quarantine file, and no ``.log``."""
    log_environment = LogEnvironment(environment=disk)
    try:
        salvage_and_open(PATH, f"{ABOVE}/other-3", open_options(), log_environment)
    except NotALogError as error:
        return Refusal(str(error), error.os_error)
    return None


def tells_of_a_failed_read(answer: object) -> bool:
    """Whether something is said to be unreadable, or not to have been compared."""
    match answer:
        case (list(findings), list(notes)):
            said = ("not compared", "cannot be", "now and then")
            texts = [*notes, *(one["found"] or "" for one in findings)]
            is_told = any(one["os_error"] is not None for one in findings)
            is_told |= any(
                one["code"] in {"FILE_IS_NO_FILE", "SIDECAR_CORRUPT"} for one in findings
            )
            return is_told or any(words in text for text in texts for words in said)
    return False


def sidecar_of_other_bytes() -> SimulatedDisk:
    disk = closed(*SEGMENTS, ("background", 0), settings=WITH_SIDECARS)
    return changed(disk, name_of(0), lambda content: content[:-1] + b"?")


def with_a_directory_for_its_epochs() -> SimulatedDisk:
    disk = without(closed(*SEGMENTS), EPOCHS)
    Directory(f"{PATH}/{EPOCHS}", disk, create=True).close()
    return settled(disk)


CHECKED: Final[Mapping[str, Callable[[], SimulatedDisk]]] = {
    "a clean log": lambda: closed(*SEGMENTS),
    "a log with damage": lambda: disk_with(
        {name_of(0): records(0, 3) + b"?" * 70 + records(4, 6), name_of(6): records(6, 8)}
    ),
    "segments that overlap": lambda: disk_with(
        {name_of(0): records(0, 5), name_of(3): records(3, 6)}
    ),
    "a directory in the place of the epochs": with_a_directory_for_its_epochs,
    "a sidecar of other bytes": sidecar_of_other_bytes,
}


# ---- one file alone ------------------------------------------------------------------------------


def read_alone(disk: SimulatedDisk) -> object:
    there = partial(Directory, environment=disk)
    with (
        mock.patch.object(lone_files, "Directory", there),
        lone_segment.open_segment(f"{PATH}/{name_of(2)}") as segment,
    ):
        return [record.offset for record in segment], segment.log_end_offset


# ---- directories of other names ------------------------------------------------------------------


def with_a_copy() -> SimulatedDisk:
    """Return a log, and a copy of it under a name that is none of a partition."""
    disk = closed(*SEGMENTS)
    source = Directory(PATH, disk)
    Directory(COPY, disk, create=True).close()
    for name in source.names():
        if name != MARKER:
            changed(disk, name, lambda _, name=name: source.read_file(name), COPY)
    return settled(disk)


def read_copy(disk: SimulatedDisk) -> object:
    with contextlib.closing(open_log(disk, COPY, read_only=True, as_="topic-0")) as log:
        return [record.offset for record in log.scan()]


def of_a_name_that_is_none(disk: SimulatedDisk) -> object:
    try:
        open_log(disk, COPY, read_only=True).close()
    except NotALogError as error:
        return Refusal(str(error), error.os_error)
    return None


# ---- what lies beside a partition ----------------------------------------------------------------


def of_a_topic() -> SimulatedDisk:
    """Return a log without its topic id, beside another partition of the topic that has one."""
    disk = closed(*SEGMENTS, settings=IN_LOG_DIRECTORY)
    with contextlib.closing(Directory(f"{ABOVE}/topic-1", disk, create=True)) as other:
        PartitionMetadataFile(other).write(TOPIC_ID)
    return settled(disk)


def restoring_a_topic_id() -> Trial:
    """The log has the id of its topic, or none yet [UNI-5]."""
    image = of_a_topic().crash_image(fate="lost")
    log = SETTINGS.open(image)

    def check_id(error: SegstoreError | None) -> str:
        assert error is not None or made == [log.topic_id == TOPIC_ID]
        log.close_quietly()
        for fate in ("killed", "lost"):
            with contextlib.closing(SETTINGS.open(image.crash_image(fate=fate))) as again:
                assert again.topic_id in {None, TOPIC_ID}
                again.restore_topic_id()
                assert again.topic_id == TOPIC_ID
        return GOES_ON if error is None else CLOSED

    made: list[bool] = []
    return Trial(image, lambda: made.append(log.restore_topic_id()), check_id)


def that_lost_its_recovery_point() -> SimulatedDisk:
    """Return a clean log of a log directory of which only other files show how far it reached."""
    disk = closed(*SEGMENTS, settings=IN_LOG_DIRECTORY)
    for path in (ABOVE, PATH):
        with contextlib.closing(Directory(path, disk)) as directory:
            directory.unlink(RECOVERY_POINT, missing_ok=True)
            directory.unlink(MARKER, missing_ok=True)
    return settled(changed(disk, MARKER, lambda _: b'{"version":0,"brokerEpoch":1}', ABOVE))


def rebuilding_where_a_directory_is() -> Trial:
    """What stands in the place of a transaction index stays, whatever fails."""
    image = closed(*TRANSACTIONS).crash_image(fate="lost")
    found, name = expecting(image, SETTINGS), name_of(0, "txnindex")
    without(image, name)
    Directory(f"{PATH}/{name}", image, create=True).close()
    log = SETTINGS.open(image)

    def check_place(error: SegstoreError | None) -> str:
        log.close_quietly()
        with contextlib.closing(Directory(PATH, image)) as directory:
            assert directory.info(name).is_directory
            remove_trees(directory, [name])
        return check_records(image, found, error)

    return Trial(image, log.rebuild_transaction_indexes, check_place)


# ---- repairs -------------------------------------------------------------------------------------


def repairing_on(disk: SimulatedDisk) -> contextlib.AbstractContextManager[None]:
    """Let repair sessions find *disk* where the system's directories are."""
    calls = {
        repair_session: (open_parent_directory, sync_parent_directories),
        partition_directories: (Directory,),
    }
    return directories_on(disk, calls, (repair_session, open_partition_to_write))


def repairing() -> Trial:
    """Whatever fails, the next open finds all records, and the log directory is not locked."""
    image = closed(*SEGMENTS, settings=IN_LOG_DIRECTORY).crash_image(fate="lost")
    found = expecting(image, SETTINGS)

    def run() -> None:
        with repairing_on(image), repair_session.repair_session(PATH) as session:
            session.open(PATH, durability="none", segment_ms=None).close()

    return Trial(image, run, lambda error: check_records(image, found, error))


def check_records(image: SimulatedDisk, found: object, error: SegstoreError | None) -> str:
    for fate in ("killed", "lost", "seed"):
        assert expecting(image.crash_image(fate=fate), SETTINGS) == found
    return GOES_ON if error is None else CLOSED


# ---- all of them ---------------------------------------------------------------------------------

CHECK_SCENARIOS: dict[str, Callable[[], Trial]] = {
    **{
        f"check {name}": lambda make=make: asking_of_path(make(), check, tells_of_a_failed_read)
        for name, make in CHECKED.items()
    },
    "read one .log file": lambda: asking_of_path(closed(*SEGMENTS), read_alone),
    "read a copy beside its log": lambda: asking_of_path(with_a_copy(), read_copy),
    "read a copy without saying of what": lambda: asking_of_path(
        with_a_copy(), of_a_name_that_is_none, is_refusal
    ),
    "check a log that the disk does not give out": lambda: asking_of_path(
        closed(*SEGMENTS), check_without_reads, tells_of_a_failed_read
    ),
    "check a log of which the disk gives out nothing": lambda: asking_of_path(
        closed(*SEGMENTS), check_unreadable, tells_of_a_failed_read
    ),
    "salvage a directory that has only quarantined bytes": lambda: asking_of_path(
        disk_with({f"{0:020d}.quarantine-1": records(0, 3)}), salvage_without_a_log, is_refusal
    ),
    "restore a topic id": restoring_a_topic_id,
    "rebuild a transaction index where a directory is": rebuilding_where_a_directory_is,
    "open a clean log whose line in the recovery points was lost": lambda: opening(
        disk := that_lost_its_recovery_point(), SETTINGS, expecting(disk, SETTINGS)
    ),
    "repair a log of a log directory": repairing,
}
