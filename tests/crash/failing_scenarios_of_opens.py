"""Opens of logs in every state, while calls fail [DUR-57, DUR-111]."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, Directory, FileBarrier
from segstore.log.files.checkpoints import LOG_STATE, SYNC_FAILED_MARK, LogState
from tests.crash.barrier_scene import new_disk, open_log, operations
from tests.crash.barrier_scenes_of_opens import FAR, TORN
from tests.crash.crash_check import look
from tests.crash.crash_script import PATH, Settings, run_script
from tests.crash.failing_trial import expecting, looking, opening
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    far_record,
    name_of,
    records,
    recovery_point,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk
    from tests.crash.crash_model import Found
    from tests.crash.failing_trial import Trial

SETTINGS: Final = Settings("none")
WITH_SIDECARS: Final = SETTINGS._replace(checksum_sidecar=True)
IN_LOG_DIRECTORY: Final = SETTINGS._replace(in_log_directory=True)
TRANSACTIONS: Final = (("transactional", 1), ("abort", 1), "roll", ("append", 2), ("idempotent", 3))
SEGMENTS: Final = (("append", 2), "roll", ("append", 2), "roll", ("append", 2))


def settled(disk: SimulatedDisk) -> SimulatedDisk:
    """Return the disk with everything on stable storage."""
    return disk.crash_image(fate="kept")


def left_by(*kinds: str | tuple[str, int], settings: Settings = SETTINGS) -> SimulatedDisk:
    """Return what a process that was killed leaves."""
    return settled(run_script(operations(*kinds), settings).disk)


def closed(*kinds: str | tuple[str, int], settings: Settings = SETTINGS) -> SimulatedDisk:
    """Return what a clean stop leaves."""
    disk = left_by(*kinds, settings=settings)
    settings.open(disk).close()
    return settled(disk)


def without(disk: SimulatedDisk, *names: str) -> SimulatedDisk:
    directory = Directory(PATH, disk)
    for name in names:
        directory.unlink(name)
    directory.sync(Barrier.LEFTOVERS_GONE)
    return disk


def with_file(disk: SimulatedDisk, name: str, content: bytes) -> SimulatedDisk:
    Directory(PATH, disk).create_file(name, content, FileBarrier.CLEAN_MARKER)
    return disk


def copied() -> SimulatedDisk:
    """Return a clean log that lies in another directory than the one where it was closed."""
    source = Directory(PATH, closed(*SEGMENTS))
    disk = disk_with({})
    Directory("/data", disk).rename("topic-0", "other-0")
    Directory(PATH, disk, create=True)
    for name in source.names():
        with_file(disk, name, source.read_file(name))
    return disk


def half_split() -> SimulatedDisk:
    return disk_with(
        {
            name_of(0): records(0, 6),
            name_of(0, "log.cleaned"): records(0, 3),
            name_of(3, "log.swap"): records(3, 6),
            RECOVERY_POINT: recovery_point(6),
        }
    )


def replaced() -> SimulatedDisk:
    return disk_with(
        {
            name_of(0): records(0, 3),
            name_of(3): records(3, 6),
            name_of(0, "log.swap"): records(0, 6),
            name_of(6): records(6, 7),
            RECOVERY_POINT: recovery_point(7),
        }
    )


def overflowing() -> SimulatedDisk:
    content = far_record(0) + far_record(1) + far_record(FAR) + far_record(FAR + 1)
    state = LogState(FAR + 2, FAR + 2, None).format()
    return disk_with(
        {name_of(0): content, RECOVERY_POINT: recovery_point(FAR + 2), LOG_STATE: state}
    )


def deleted() -> SimulatedDisk:
    log_start = b"0\n1\ntopic 0 3\n"
    return disk_with(
        {
            name_of(0): records(0, 3),
            name_of(0, "log.deleted"): b"x",
            name_of(0, "index.cleaned"): b"x",
            name_of(3): records(3, 6),
            "log-start-offset-checkpoint": log_start,
            "some.tmp": b"x",
        }
    )


DISKS: dict[str, tuple[Callable[[], SimulatedDisk], Settings]] = {
    "an empty directory": (lambda: disk_with({}), SETTINGS),
    "a clean log": (lambda: closed(*SEGMENTS), SETTINGS),
    "a clean log with producers": (lambda: closed(*TRANSACTIONS), SETTINGS),
    "a clean log with sidecars": (
        lambda: closed(*SEGMENTS, ("background", 0), settings=WITH_SIDECARS),
        WITH_SIDECARS,
    ),
    "a copy of a clean log": (copied, SETTINGS),
    "a clean log of a log directory": (
        lambda: closed(*SEGMENTS, settings=IN_LOG_DIRECTORY),
        SETTINGS,
    ),
    "a killed log": (lambda: left_by(*SEGMENTS), SETTINGS),
    "a killed log with producers": (lambda: left_by(*TRANSACTIONS), SETTINGS),
    "a killed log with sidecars": (
        lambda: left_by(*SEGMENTS, ("background", 0), settings=WITH_SIDECARS),
        WITH_SIDECARS,
    ),
    "a killed log of a log directory": (
        lambda: left_by(*SEGMENTS, "flush", settings=IN_LOG_DIRECTORY),
        SETTINGS,
    ),
    "a log without its indexes": (
        lambda: without(closed(*SEGMENTS), name_of(0, "index"), name_of(2, "timeindex")),
        SETTINGS,
    ),
    "a log without its transaction index": (
        lambda: without(left_by(*TRANSACTIONS, "background", "flush"), name_of(0, "txnindex")),
        SETTINGS,
    ),
    "a torn batch": (
        lambda: disk_with({name_of(0): records(0, 3) + TORN, name_of(4): records(4, 6)}),
        SETTINGS,
    ),
    "a failed sync": (
        lambda: with_file(left_by(*SEGMENTS, "flush"), SYNC_FAILED_MARK, b""),
        SETTINGS,
    ),
    "a failed sync of a small file": (
        lambda: with_file(copied(), SYNC_FAILED_MARK, b"small files\n"),
        SETTINGS,
    ),
    "a compaction that was done": (replaced, SETTINGS),
    "a compaction that was not": (half_split, SETTINGS),
    "offsets beyond an index": (overflowing, SETTINGS),
    "files to be removed": (deleted, SETTINGS),
    "a log whose records were deleted": (
        lambda: left_by(*SEGMENTS, ("delete_records", 3), ("background", 3600)),
        SETTINGS,
    ),
    "checkpoints that cannot be read": (
        lambda: with_file(
            with_file(left_by(*SEGMENTS, "flush"), RECOVERY_POINT, b"?"),
            "leader-epoch-checkpoint",
            b"?",
        ),
        SETTINGS,
    ),
}


@functools.cache
def disk_and_found(name: str) -> tuple[SimulatedDisk, Found]:
    """Return the disk of a scenario, made once, and what an open finds."""
    make, settings = DISKS[name]
    disk = make()
    return disk, expecting(disk, settings)


def open_it(name: str) -> Trial:
    disk, found = disk_and_found(name)
    return opening(disk, DISKS[name][1], found)


def as_reader(disk: SimulatedDisk) -> UnifiedLog:
    return open_log(disk, read_only=True)


def as_kafka(disk: SimulatedDisk) -> UnifiedLog:
    """Open with Kafka's profile, whose indexes are as long as they may get."""
    return open_log(disk, recovery="kafka", segment_index_bytes=4096)


def look_at(name: str, open_it: Callable[[SimulatedDisk], UnifiedLog]) -> Trial:
    return looking(disk_and_found(name)[0], open_it)


def fresh() -> Trial:
    """Open a log where not even the directory is."""
    disk = new_disk()
    Directory("/data", disk, create=True)
    return opening(settled(disk), SETTINGS, look(settled(disk), SETTINGS).found)


OPEN_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "open nothing": fresh,
    **{f"open {name}": functools.partial(open_it, name) for name in DISKS},
    **{
        f"read {name}": functools.partial(look_at, name, as_reader)
        for name in DISKS
        if name != "an empty directory"
    },
    **{
        f"open as Kafka: {name}": functools.partial(look_at, name, as_kafka)
        for name in DISKS
        if name != "checkpoints that cannot be read"  # which it refuses
    },
}
