"""Barriers of an open: what it has found, cut, set aside or replaced stays so [DUR-56]."""

from __future__ import annotations

import errno
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

from segstore._core import Barrier, DataFile, Directory
from segstore.errors import DiskFullError
from segstore.log.findings.finding import Records
from tests.crash.barrier_scene import (
    LAZY,
    Scene,
    files_left,
    new_disk,
    open_log,
    opening,
    operations,
    work_of_open,
)
from tests.crash.crash_check import Crash, look
from tests.crash.crash_script import PATH, run_script
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    far_record,
    name_of,
    records,
    recovery_point,
)
from tests.kits.log_kit import at

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import SimulatedDisk

FAR: Final = 2**31 + 10
TORN: Final = records(3, 4)[:-1] + b"?"  # its CRC is wrong


def finding(disk: SimulatedDisk, expected: list[int], **settings: object) -> Scene:
    """Return the scene of an open: these records are there, whatever a crash leaves of it."""
    open_log(disk, **settings).close_quietly()
    return Scene(disk, _finds(disk, expected, settings))


def _finds(disk: SimulatedDisk, expected: list[int], settings: dict) -> Callable[[Crash], int]:
    def check(crash: Crash) -> int:
        left = files_left(crash.image(disk), (".swap", ".deleted"))
        with closing(open_log(crash.image(disk), **settings)) as log:
            assert [record.offset for record in log.scan()] == expected
            found = log.verify()  # of the gap before FAR nothing tells: these have no .segstore
            assert {one.records for one in found.findings} <= {Records.MAYBE_MISSING}
        return left

    return check


def names_of_a_copy() -> Scene:
    """A copy of a log that was closed cleanly: its names are not durable, and nothing is repaired.

    A repair begins by removing the clean markers, and that syncs the names too.
    """
    source = Directory(PATH, run_script(operations(("append", 2), "close"), LAZY).disk)
    disk = disk_with({})
    copy = Directory(PATH, disk)
    for name in source.names():
        with DataFile(copy, name, create=True) as file:
            file.write(0, source.read_file(name))
            file.sync(Barrier.APPENDED_RECORDS)
    return opening(disk, LAZY)


def segments_behind_a_torn_one() -> Scene:
    """Nothing says that offsets are missing: the cut segment would have the last as its next."""
    disk = disk_with({name_of(0): records(0, 3) + TORN, name_of(4): records(4, 6)})
    return finding(disk, [0, 1, 2])


def a_tail_that_was_cut() -> Scene:
    """With Kafka's profile, which syncs nothing else: batches behind the torn one are whole."""
    size = 4096
    torn, whole = _batch(0, size), _batch(1, size)
    disk = disk_with({name_of(0): torn[:-1] + b"?" + whole})
    log = open_log(disk, recovery="kafka")
    assert log.log_end_offset == 0
    log.append_as_leader(_batch(0, size), 0)
    log.close_quietly()

    def check(crash: Crash) -> None:
        with closing(open_log(crash.image(disk), recovery="kafka")) as found:
            assert found.log_end_offset <= 1

    return Scene(disk, check)


def _batch(offset: int, size: int) -> bytes:
    empty = len(at(offset, epoch=0, value=b""))
    content = at(offset, epoch=0, value=bytes(size - empty - 4))
    content = at(offset, epoch=0, value=bytes(size - empty - 4 + size - len(content)))
    assert len(content) == size
    return content


def what_was_cut() -> Scene:
    """The bytes are in the log or beside it, at any time [DUR-59]."""
    disk = disk_with({name_of(0): records(0, 3) + TORN})
    look(disk, LAZY)

    def check(crash: Crash) -> None:
        directory = Directory(PATH, crash.image(disk))
        kept = [directory.read_file(name) for name in directory.names() if ".quarantine" in name]
        assert directory.read_file(name_of(0)).endswith(TORN) or TORN in kept

    return Scene(disk, check)


def replaced() -> Scene:
    """Two segments, of which the one that is to replace both is complete."""
    files = {
        name_of(0): records(0, 3),
        name_of(3): records(3, 6),
        name_of(0, "log.swap"): records(0, 6),
        name_of(6): records(6, 7),
        RECOVERY_POINT: recovery_point(7),
    }
    return finding(disk_with(files), list(range(7)))


def replaced_by_three() -> Scene:
    """A segment that three are to replace, all of them complete."""
    files = {
        name_of(0): records(0, 6),
        **{name_of(base, "log.swap"): records(base, base + 2) for base in (0, 2, 4)},
        name_of(6): records(6, 7),
        RECOVERY_POINT: recovery_point(7),
    }
    return finding(disk_with(files), list(range(7)))


def incomplete() -> Scene:
    files = {
        name_of(0): records(0, 6),
        name_of(0, "log.cleaned"): records(0, 3),
        name_of(3, "log.swap"): records(3, 6),
        RECOVERY_POINT: recovery_point(6),
    }
    return finding(disk_with(files), list(range(6)))


def split() -> Scene:
    """In three: in the midst a name may come before those around it."""
    offsets = [0, 1, FAR, FAR + 1, 2 * FAR, 2 * FAR + 1]
    content = b"".join(far_record(offset) for offset in offsets)
    files = {name_of(0): content, RECOVERY_POINT: recovery_point(2 * FAR + 2)}
    return finding(disk_with(files), offsets)


def names_before_the_split() -> Scene:
    """Up to the sync that covers them in passing."""
    scene = split()
    return scene._replace(end=scene.syncs("REPLACING_HIGHER")[0])


def refused() -> Scene:
    """An append that a full disk cuts short is refused, and does not come back [DUR-32]."""
    disk, size = new_disk(), 4096
    log = open_log(disk)
    log.append_as_leader(_batch(0, size), 0)
    disk.set_room(2 * size + 10)
    with pytest.raises(DiskFullError):
        log.append_as_follower(b"".join(_batch(offset, size) for offset in (1, 2, 3)), 0)
    disk.set_room(None)
    log.append_as_leader(_batch(0, size), 0)
    log.close_quietly()

    def check(crash: Crash) -> None:
        with closing(open_log(crash.image(disk))) as found:
            assert found.log_end_offset <= 2

    return Scene(disk, check)


def undone_roll() -> Scene:
    """A roll fails behind a recovery point; what comes then goes into the segment before."""
    disk, settings = new_disk(), LAZY._replace(preallocate=True)
    log = settings.open(disk)
    log.append([(None, b"synced")])
    log.flush()
    disk.fail("allocate_space", 1, errno.ENOSPC)  # of the .log, which is there
    with pytest.raises(DiskFullError):
        log.roll()
    log.append([(None, b"behind it")])
    log.close_quietly()

    def check(crash: Crash) -> None:
        with closing(settings.open(crash.image(disk))) as found:
            assert found.log_end_offset <= 2

    return Scene(disk, check)


def deleted_segments() -> Scene:
    """The log start says that a segment was being deleted."""
    log_start = b"0\n1\ntopic 0 3\n"
    files = {name_of(0): records(0, 3), name_of(3): records(3, 6)}
    disk = disk_with({**files, "log-start-offset-checkpoint": log_start})
    open_log(disk).close_quietly()
    return Scene(disk, lambda crash: files_left(crash.image(disk), (".log",)))


def lost_transaction_index() -> Scene:
    """That of a sealed segment was lost: it is made anew from the batches [DUR-52]."""
    kinds = (("transactional", 1), ("abort", 1), "roll", "background", ("append", 2), "flush")
    disk = run_script(operations(*kinds), LAZY).disk
    directory = Directory(PATH, disk)
    directory.unlink(name_of(0, "txnindex"))
    directory.sync(Barrier.LEFTOVERS_GONE)
    log = LAZY.open(disk)
    assert log.rebuild_transaction_indexes() == [name_of(0, "txnindex")]
    log.close_quietly()
    return Scene(disk, lambda crash: work_of_open(crash.image(disk), LAZY))


def snapshot_of_a_broker() -> Scene:
    """With Kafka's profile a close writes the producers in place, and syncs no name [CLO-1]."""
    disk = new_disk()
    Directory("/state", disk, create=True)
    log = open_log(disk, recovery="kafka", state_dir="/state")
    log.append_as_leader(_batch(0, 4096), 0)
    log.close()
    return Scene(disk, lambda crash: -files_left(crash.image(disk), (".snapshot",)))


OPEN_SCENES: dict[str, Callable[[], Scene]] = {
    "REFUSED_RECORDS": refused,
    "ROLL_UNDONE": undone_roll,
    "LEFTOVERS_DELETED": deleted_segments,
    "REBUILT_TRANSACTION_INDEX_CONTENT": lost_transaction_index,
    "REBUILT_TRANSACTION_INDEX_NAME": lost_transaction_index,
    "CLOSED_NAMES": snapshot_of_a_broker,
    "RECOVERY_CUT": a_tail_that_was_cut,
    "RECOVERY_NAMES": names_of_a_copy,
    "RECOVERY_SET_ASIDE": segments_behind_a_torn_one,
    "LEFTOVERS_INCOMPLETE": incomplete,
    "LEFTOVERS_GONE": replaced_by_three,
    "LEFTOVERS_REPLACED": replaced,
    "QUARANTINE_CONTENT": what_was_cut,
    "QUARANTINE_NAME": what_was_cut,
    "REPLACING_RECORDS": split,
    "REPLACING_CLEANED": names_before_the_split,
    "REPLACING_HIGHER": split,
    "REPLACING_COMMIT": split,
    "REPLACING_DONE": split,
}
