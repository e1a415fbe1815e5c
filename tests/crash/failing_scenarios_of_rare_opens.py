"""Opens to which two rare things come at once, while calls fail [DUR-54, DUR-57, DUR-111].

The first of them is on the disk already, or made to happen by the scenario; the other is the call
that fails.
"""

from __future__ import annotations

import errno
import functools
from contextlib import closing
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, DataFile, Directory
from segstore.errors import FsyncFailedError, LogLockedError
from segstore.log.files.checkpoints import LOCK, LOG_STATE, LogState
from tests.crash.barrier_scenes_of_opens import FAR, TORN
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_damage import (
    EPOCHS,
    LOG_START,
    changed,
    contents,
    refusing,
    state,
)
from tests.crash.failing_scenarios_of_opens import (
    IN_LOG_DIRECTORY,
    SEGMENTS,
    SETTINGS,
    WITH_SIDECARS,
    as_reader,
    closed,
    without,
)
from tests.crash.failing_trial import (
    CLOSED,
    GOES_ON,
    Trial,
    check_left,
    expecting,
    looking,
    opening,
    states_of,
)
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    far_record,
    name_of,
    records,
    recovery_point,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore import SegstoreError
    from segstore._core import SimulatedDisk
    from tests.crash.crash_model import Found


def without_lock_above() -> SimulatedDisk:
    disk = closed(*SEGMENTS, settings=IN_LOG_DIRECTORY)
    directory = Directory("/data", disk)
    if directory.exists(LOCK):
        directory.unlink(LOCK)
        directory.sync(Barrier.LEFTOVERS_GONE)
    return disk


def overflowing(first: int) -> bytes:
    """Return batches of which the last do not fit a segment that begins at 0."""
    return far_record(first) + far_record(FAR + first)


OPENED: Final[Mapping[str, Callable[[], SimulatedDisk]]] = {
    "with sidecars that may not be true": lambda: without(
        closed(*SEGMENTS, ("background", 0), settings=WITH_SIDECARS), LOG_STATE
    ),
    "with a log start above all, and an empty segment": lambda: disk_with(
        {name_of(0): records(0, 3), name_of(3): b"", LOG_START: b"0\n1\ntopic 0 9\n"}
    ),
    "with a log start in the last segment": lambda: changed(
        closed(*SEGMENTS, settings=IN_LOG_DIRECTORY),
        LOG_START,
        lambda _: b"0\n1\ntopic 0 5\n",
        "/data",
    ),
    "with a compaction that leaves gaps": lambda: disk_with(
        {
            name_of(0): records(0, 3),
            name_of(3): records(3, 6),
            name_of(0, "log.swap"): records(0, 2) + records(5, 6),
            name_of(6): records(6, 7),
            RECOVERY_POINT: recovery_point(7),
            LOG_STATE: state(),
        }
    ),
    "that lost the index of far offsets": lambda: disk_with(
        {
            name_of(0): overflowing(0),
            name_of(FAR + 1): far_record(FAR + 1),
            RECOVERY_POINT: recovery_point(FAR + 2),
            LOG_STATE: LogState(FAR + 2, FAR + 2, None).format(),
        }
    ),
    "whose segment of far offsets begins behind its name": lambda: disk_with(
        {
            name_of(0): overflowing(1),
            name_of(0, "snapshot"): b"x",
            RECOVERY_POINT: recovery_point(FAR + 2),
            LOG_STATE: LogState(FAR + 2, FAR + 2, None).format(),
        }
    ),
    "of a log directory without a lock": without_lock_above,
}


@functools.cache
def opened(name: str) -> tuple[SimulatedDisk, Found]:
    disk = OPENED[name]()
    return disk, expecting(disk, SETTINGS)


def open_it(name: str) -> Trial:
    disk, found = opened(name)
    return opening(disk, SETTINGS, found)


def look_at(name: str) -> Trial:
    return looking(opened(name)[0], as_reader)


# ---- what happens first --------------------------------------------------------------------------


def locked() -> Trial:
    """Another has the log of a log directory: once he has gone, it can be opened [DUR-65]."""
    image = closed(*SEGMENTS, settings=IN_LOG_DIRECTORY)
    found = expecting(image, SETTINGS)
    holder = Directory(PATH, image).lock(LOCK, exclusive=True)
    refusals: list[LogLockedError] = []

    def run() -> None:
        try:
            SETTINGS.open(image)
        except LogLockedError as error:
            refusals.append(error)

    def check(error: SegstoreError | None) -> str:
        assert error is not None or refusals, "two write the same log"
        holder.release()
        check_left(image, SETTINGS, lambda _: states_of(found), lambda _: states_of(found))
        with closing(SETTINGS.open(image)) as log:
            assert log.log_end_offset == found.log_end
        return CLOSED

    return Trial(image, run, check)


def copied(disk: SimulatedDisk) -> SimulatedDisk:
    """Return a disk on which the log's files were copied into another directory."""
    files = contents(disk)
    above = Directory("/data", disk)
    above.rename("topic-0", "old-0")
    directory = Directory(PATH, disk, create=True)
    for name, content in files.items():
        with DataFile(directory, name, create=True) as file:
            file.write(0, content)
    return disk


def syncing_a_copy(number: int) -> Trial:
    """A sync of a copy fails, behind three small files the marker's, and what is done then.

    It is written anew [DUR-36].
    """
    image = copied(closed(*SEGMENTS))
    found = expecting(image, SETTINGS)
    failed: list[FsyncFailedError] = []

    def run() -> None:
        image.fail("sync_file", number, errno.EIO)
        try:
            SETTINGS.open(image)
        except FsyncFailedError as error:
            failed.append(error)

    def check(error: SegstoreError | None) -> str:
        assert error is not None or failed
        with closing(SETTINGS.open(image)) as log:
            assert log.log_end_offset == found.log_end
        check_left(image, SETTINGS, lambda _: states_of(found), lambda _: states_of(found))
        return GOES_ON

    return Trial(image, run, check)


def opening_without_room(image: SimulatedDisk) -> Trial:
    """Its first write finds the disk full, and the open goes on [DUR-57]."""
    trial = opening(image, SETTINGS, expecting(image, SETTINGS))

    def run() -> None:
        trial.disk.fail("write_at", 1, errno.ENOSPC)
        trial.run()

    return trial._replace(run=run)


RARE_OPEN_SCENARIOS: dict[str, Callable[[], Trial]] = {
    **{f"open a log {name}": functools.partial(open_it, name) for name in OPENED},
    **{f"read a log {name}": functools.partial(look_at, name) for name in OPENED},
    "open a log that another has": locked,
    "open a log whose torn bytes are kept, without room": lambda: opening_without_room(
        disk_with({name_of(0): records(0, 3) + TORN, f"{0:020d}.quarantine-1": TORN})
    ),
    "open a clean log that lost its recovery point": lambda: opening(
        disk := without(closed(*SEGMENTS), RECOVERY_POINT), SETTINGS, expecting(disk, SETTINGS)
    ),
    "open a copy that cannot be synced": lambda: syncing_a_copy(4),
    "open a copy whose small files cannot be synced": lambda: syncing_a_copy(1),
    "refuse a log that lost all .log files but not its epochs": lambda: refusing(
        disk_with({EPOCHS: b"0\n1\n0 0\n", LOG_STATE: state()})
    ),
}
