"""Each open that failed, or died, behind the quarantine left another full copy of the tail there.

Three failures left four files with the same bytes, and who brought them back counted them as lost.
"""

from __future__ import annotations

import errno
from contextlib import closing, suppress
from unittest import mock

import pytest

from segstore._core import DataFile, Directory, FileBarrier, SimulatedDisk
from segstore.errors import ReadIOError, ResourceError, SegstoreError
from segstore.log.recovery import quarantine
from segstore.log.recovery.quarantine import Quarantine
from segstore.log.recovery.repair import Repair
from tests.crash.barrier_scene import LAZY, open_log
from tests.crash.crash_check import Crash, look
from tests.crash.crash_script import PATH
from tests.kits.directory_kit import disk_with, name_of, records

LIMIT_BYTES = 1000
LOG = name_of(0)
TAIL = b"torn" + records(11, 45)
KEPT = f"{0:020d}.quarantine-"


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(quarantine, "MAX_QUARANTINE_BYTES", LIMIT_BYTES)
    monkeypatch.setattr(quarantine, "_PIECE_BYTES", 300)


def kept_on(disk) -> dict[str, bytes]:
    directory = Directory(PATH, disk)
    names = [name for name in directory.names() if name.startswith(KEPT)]
    return {name: directory.read_file(name) for name in names if not name.endswith(".tmp")}


def expected() -> dict[str, bytes]:
    starts = range(0, len(TAIL), LIMIT_BYTES)
    return {
        f"{KEPT}{number}": TAIL[start : start + LIMIT_BYTES]
        for number, start in enumerate(starts, 1)
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt, ResourceError, ReadIOError])
def test_failures_behind_it_leave_one_copy(monkeypatch, error):
    """[DUR-56, DUR-59] The second time changes nothing; the report names what is there."""
    disk = disk_with({LOG: records(0, 10) + TAIL})

    def fail(*_: object, **__: object) -> None:
        raise error("not now")

    with monkeypatch.context() as patched:
        patched.setattr(Repair, "_rebuild", fail)
        for _ in range(3):
            with pytest.raises(error):
                open_log(disk)
            assert kept_on(disk) == expected()
    with closing(open_log(disk)) as log:
        assert log.report.quarantined == list(expected())
    assert kept_on(disk) == expected()
    assert len(expected()) > 1


def refuse_a_second_copy(disk: SimulatedDisk) -> None:
    """There is room for what an open writes besides."""

    def watch(call: str, name: str) -> None:
        if call == "write_at" and name.startswith(KEPT):
            disk.fail("write_at", 1, errno.ENOSPC)

    disk.watch(watch)


def test_what_is_kept_needs_no_room_again(monkeypatch):
    """[DUR-57, DUR-59] A full disk has room for one copy, and it is there and on the disk."""
    disk = disk_with({LOG: records(0, 10) + TAIL})
    with monkeypatch.context() as patched:
        patched.setattr(Repair, "_rebuild", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            open_log(disk)
    refuse_a_second_copy(disk)
    with closing(open_log(disk)) as log:
        assert log.report.quarantined == list(expected())
    assert kept_on(disk.crash_image(fate="lost")) == expected()


def test_a_copy_that_nobody_synced_is_synced_where_there_is_no_room_for_another():
    """[DUR-57, DUR-59] Neither the file nor its name need be on the disk: both are before a cut."""
    disk = disk_with({LOG: records(0, 10) + TAIL})
    for name, content in expected().items():
        with DataFile(Directory(PATH, disk), name, create=True) as file:
            file.write(0, content)
    assert not kept_on(disk.crash_image(fate="lost"))
    begun = disk.effects
    refuse_a_second_copy(disk)
    look(disk, LAZY)

    for effects in range(begun, disk.effects + 1):
        image = Crash(effects, "lost").image(disk)
        is_cut = Directory(PATH, image).info(LOG).size < len(records(0, 10) + TAIL)
        assert not is_cut or kept_on(image) == expected()
    assert is_cut


def test_processes_that_died_anywhere_leave_one_copy():
    """[DUR-56, DUR-59] No half of a file either: behind every effect of an open, twice."""
    disk = disk_with({LOG: records(0, 10) + TAIL})
    begun = disk.effects
    look(disk, LAZY)
    seen = set()
    for effects in range(begun, disk.effects + 1):
        died = Crash(effects, "kept").image(disk)
        seen.add(len(kept_on(died)))
        again = died.effects + effects - begun
        died.cut_power_after(again)
        with suppress(SegstoreError):
            look(died, LAZY)
        died.cut_power_after(None)
        died = Crash(min(again, died.effects), "kept").image(died)
        look(died, LAZY)
        assert kept_on(died) == expected()
        assert not any(name.endswith(".tmp") for name in Directory(PATH, died).names())
    assert seen == set(range(len(expected()) + 1))


def test_a_file_that_was_not_finished_goes():
    """[DUR-55] Its bytes are in the log, or were lost with its end; other names are left alone."""
    others = [f"{KEPT}1.tmp.tmp", f"{KEPT}x.tmp", f"{KEPT}0.tmp", f"x{KEPT}1.tmp"]
    names = [f"{KEPT}1.tmp", f"{KEPT}12.tmp", *others]
    disk = disk_with({LOG: records(0, 10), **dict.fromkeys(names, b"torn")})
    with closing(open_log(disk)) as log:
        assert not log.report.quarantined

    there = Directory(PATH, disk).names()
    assert [name for name in there if ".quarantine" in name] == sorted(others)


@pytest.mark.parametrize("fate", ["lost", "seed"])
def test_what_an_earlier_open_kept_is_there_at_any_time(fate):
    """[DUR-59] Also where the log has the same bytes again, of which nobody knows: not synced."""
    disk = disk_with({LOG: records(0, 10), **expected()})
    with DataFile(Directory(PATH, disk), LOG) as file:
        file.write(len(records(0, 10)), TAIL)
    begun = disk.effects
    look(disk, LAZY)

    for effects in range(begun, disk.effects + 1):
        for seed in range(10):
            assert kept_on(Crash(effects, fate, seed).image(disk)) == expected()


@pytest.fixture
def directory():
    disk = SimulatedDisk()
    Directory("/", disk).make_directory("t-0")
    return Directory("/t-0", disk)


def keep(directory, content: bytes) -> list[str]:
    directory.create_file(LOG, content, FileBarrier.CLEAN_MARKER)
    quarantine = Quarantine(directory)
    foretold = quarantine.names_of_tail(LOG, 0, len(content), holds_batches=True)
    kept = quarantine.keep_tail(LOG, 0, len(content), holds_batches=True)
    assert kept == foretold
    return [name.removeprefix(KEPT) for name in kept[0]]


def test_the_files_of_one_tail_stand_in_its_order(directory):
    """[DUR-59] Put together in the order of their names they are what was cut."""
    first, second = b"a" * LIMIT_BYTES, b"b" * LIMIT_BYTES
    assert keep(directory, second) == ["1"]
    assert keep(directory, first + second) == ["2", "3"]
    assert keep(directory, second + first + b"c") == ["1", "2", "4"]
    assert keep(directory, first + first) == ["2", "5"]
    assert keep(directory, first + first) == ["2", "5"]


def test_what_has_other_bytes_stays(directory):
    """[DUR-59] Of the same size, longer, shorter, no file, or one that cannot be read."""
    for number, content in enumerate((b"another", b"content and more", b"cont"), 1):
        directory.create_file(f"{KEPT}{number}", content, FileBarrier.QUARANTINE)
    directory.make_directory(f"{KEPT}4")

    assert keep(directory, b"content") == ["5"]
    assert keep(directory, b"content") == ["5"]
    disk = directory.environment
    is_read = []

    def fail_the_second(call: str, name: str) -> None:
        if call == "read_at" and name == f"{KEPT}5":
            is_read.append(name)
            disk.fail("read_at", 1, errno.EIO)

    disk.watch(fail_the_second)
    assert keep(directory, b"content") == ["6"]
    disk.watch(None)
    assert is_read
    assert [directory.read_file(f"{KEPT}{n}") for n in (1, 2, 3, 5, 6)] == [
        b"another",
        b"content and more",
        b"cont",
        b"content",
        b"content",
    ]
