"""The simulated disk does what the real one does, until its power is cut [DUR-10]."""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING

import pytest

from segstore._core import DISK_CALLS, Barrier, DataFile, Directory, FileBarrier, SimulatedDisk
from segstore.errors import (
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    SegstoreError,
)
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("a", "b", "c")


def step(directory: Directory, choice: random.Random) -> object:
    """One random operation; what it returned, or the class of its error."""
    name, other = choice.choice(NAMES), choice.choice(NAMES)
    kind = choice.randrange(9)
    data = choice.randbytes(choice.randrange(2000))
    position, size = choice.randrange(3000), choice.randrange(3000)
    try:
        if kind == 0:
            directory.write_file_atomically(name, data, FileBarrier.LOG_STATE)
        elif kind == 1:
            directory.create_file(name, data, FileBarrier.CLEAN_MARKER)
        elif kind == 2:
            directory.rename(name, other)
        elif kind == 3:
            directory.unlink(name)
        elif kind == 4:
            directory.make_directory(name)
        elif kind == 5:
            directory.remove_directory(name)
        elif kind == 6:
            with DataFile(directory, name, create=choice.random() < 0.5) as file:
                file.write(position, data)
        elif kind == 7:
            with DataFile(directory, name) as file:
                return file.truncate(size)
        else:
            return directory.read_range(name, position, size)
    except SegstoreError as error:
        return type(error)
    return None


def content(directory: Directory) -> dict[str, object]:
    infos = {name: directory.info(name) for name in directory.names()}
    return {
        name: "a directory" if info.is_directory else (info.size, directory.read_file(name))
        for name, info in infos.items()
    }


@pytest.mark.parametrize("seed", range(20))
def test_it_does_what_the_system_does(tmp_path: Path, seed: int):
    """The oracle is the real file system."""
    real, simulated = Directory(str(tmp_path)), Directory("/", SimulatedDisk())
    for number in range(150):
        script = f"{seed}-{number}"
        expected = step(real, random.Random(script))

        assert step(simulated, random.Random(script)) == expected, script
        assert content(simulated) == content(real), script


def test_a_log_on_it_outlives_a_power_cut():
    """[DUR-1] What was acknowledged is there, whatever became of the rest."""
    disk = SimulatedDisk()
    log = open_partition("/data/topic-0", open_options(), LogEnvironment(environment=disk))
    log.append([(None, b"kept")])
    disk.cut_power_after(disk.effects + 1)
    with pytest.raises(SegstoreError):
        log.append([(None, b"never acknowledged")])
    assert disk.is_off
    with pytest.raises(SegstoreError):
        log.close()

    for seed in range(20):
        image = disk.crash_image(seed=seed)
        log_environment = LogEnvironment(environment=image)
        with open_partition("/data/topic-0", open_options(), log_environment) as after:
            values = [record.value for record in after.read(0, 10**6)]
            assert values[:1] == [b"kept"]
            assert len(values) <= 2


def test_a_call_fails_as_planned():
    disk = SimulatedDisk()
    directory = Directory("/", disk)
    disk.fail("sync_directory", 1, errno.EIO)
    disk.fail("write_at", 2, errno.ENOSPC)
    with pytest.raises(SegstoreError, match="errno 5"):
        directory.sync(Barrier.APPENDED_NAMES)
    with pytest.raises(FsyncFailedError, match="not tried again"):  # [DUR-35]
        directory.sync(Barrier.APPENDED_NAMES)
    directory = Directory("/", disk)
    directory.create_file("a", b"x", FileBarrier.CLEAN_MARKER)
    with pytest.raises(DiskFullError):
        directory.create_file("b", b"x", FileBarrier.CLEAN_MARKER)
    directory.create_file("b", b"x", FileBarrier.CLEAN_MARKER)

    assert disk.calls("write_at") == 3
    assert disk.calls() > disk.effects
    with pytest.raises(IllegalArgumentError, match="no call"):
        disk.fail("writev", 1, errno.EIO)


def test_who_watches_is_told_before_a_call_and_may_let_it_fail():
    disk = SimulatedDisk()
    directory = Directory("/", disk)
    told: list[tuple[str, str]] = []

    def watch(call: str, name: str) -> None:
        told.append((call, name))
        if call == "write_at" and name == "b":
            disk.fail(call, 1, errno.ENOSPC)

    disk.watch(watch)
    directory.create_file("a", b"x", FileBarrier.CLEAN_MARKER)
    with pytest.raises(DiskFullError):
        directory.create_file("b", b"x", FileBarrier.CLEAN_MARKER)
    disk.watch(None)
    directory.create_file("b", b"x", FileBarrier.CLEAN_MARKER)

    assert [call for call, name in told if name == "b"] == [
        "open_file", "truncate", "write_at", "close",
    ]  # fmt: skip
    assert told[:2] == [("open_file", "a"), ("truncate", "a")]


def test_its_effects_have_names():
    disk = SimulatedDisk()
    directory = Directory("/", disk)
    directory.create_file("a", b"xyz", FileBarrier.CLEAN_MARKER)
    directory.rename("a", "b")

    events = [disk.event(number) for number in range(1, disk.effects + 1)]
    assert [(event.call, event.name) for event in events] == [
        ("open_file", "a"),
        ("truncate", "a"),
        ("write_at", "a"),
        ("sync_file", "a"),
        ("sync_directory", "."),
        ("rename", "a"),
    ]
    assert (events[2].bytes_count, events[5].to) == (3, "b")
    assert {event.call for event in events} <= set(DISK_CALLS)
    with pytest.raises(IllegalArgumentError):
        disk.event(7)


def test_fates_of_what_was_not_synced():
    disk = SimulatedDisk()
    directory = Directory("/", disk)
    directory.create_file("a", b"synced", FileBarrier.CLEAN_MARKER)
    directory.rename("a", "b")

    def names(**options: object) -> list[str]:
        return Directory("/", disk.crash_image(**options)).names()

    assert names(fate="lost") == ["a"]
    assert names(fate="kept") == ["b"]
    assert names(effects=5, fate="kept") == ["a"]
    assert names(fate="lost", ignored=[5]) == []
    assert {tuple(names(seed=seed)) for seed in range(30)} == {("a",), ("b",)}
    killed = disk.crash_image(fate="killed")
    assert Directory("/", killed).names() == ["b"]
    assert Directory("/", killed.crash_image(fate="lost")).names() == ["a"]
    with pytest.raises(IllegalArgumentError, match="no fate"):
        disk.crash_image(fate="torn")


def test_each_disk_is_a_device_of_its_own():
    """[DUR-67] The registry of writers tells them apart."""
    disk = SimulatedDisk()

    identities = {Directory("/", each).identity for each in (disk, disk.crash_image())}
    assert len(identities) == 2
