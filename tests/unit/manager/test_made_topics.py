"""Topics of many partitions are written in one round and synced in another [DUR-11, DUR-21]."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Barrier, Directory, FileBarrier
from segstore.errors import ArgumentTypeError, DiskFullError
from segstore.log.files.checkpoints import LOG_STATE, PARTITION_METADATA
from segstore.manager import topic_registry
from segstore.manager.log_manager import LogManager
from tests.conftest import IN_CI
from tests.crash.barrier_scene import new_disk
from tests.crash.failing_scenarios_of_managers import LOGS, living_on
from tests.crash.interrupts import Interrupt
from tests.kits.manager_kit import abandon

if TYPE_CHECKING:
    from pathlib import Path

SYNCS = ("sync_file", "sync_data", "sync_directory")
FOLDER = topic_registry.__file__.rpartition("/")[0]
STEP = 17 if IN_CI else 5
"""An interrupt after each so many calls."""


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.glob("t-*"))


def syncs_of(partitions: int) -> int:
    """How many syncs a creation costs."""
    disk = new_disk()
    with living_on(disk):
        manager = LogManager(LOGS)
        before = sum(map(disk.calls, SYNCS))
        manager.create_topic("t", partitions)
        count = sum(map(disk.calls, SYNCS)) - before
        abandon(manager)
    return count


def test_a_partition_costs_three_syncs():
    """[DUR-11, DUR-21] Its id, its state and its directory; the rest is one for the whole topic."""
    assert syncs_of(20) - syncs_of(10) == 30


def test_all_is_written_before_the_first_sync(monkeypatch):
    """[DUR-21] Names follow the sync of the content, and directories are synced last."""
    monkeypatch.setattr(topic_registry, "_ROUND", 3)
    disk = new_disk()
    with living_on(disk):
        manager = LogManager(LOGS)
        begun = disk.effects
        manager.create_topic("t", 3)
        events = [disk.event(number) for number in range(begun + 1, disk.effects + 1)]
        abandon(manager)
    calls = [
        (one.call, one.name.rpartition("/")[2])
        for one in events
        if one.name.rpartition("/")[2].startswith((".segstore", PARTITION_METADATA))
    ]
    for name in (PARTITION_METADATA, ".segstore"):
        of_file = [call for call, file in calls if file.startswith(name)]
        syncs = [at for at, call in enumerate(of_file) if call.startswith("sync")]
        renames = [at for at, call in enumerate(of_file) if call == "rename"]
        assert (len(syncs), len(renames)) == (3, 3)
        assert max(at for at, call in enumerate(of_file) if call == "write_at") < min(syncs)
        assert max(syncs) < min(renames)


def test_a_new_log_syncs_by_itself_from_then_on(tmp_path: Path):
    """[DUR-24] It is what a partition was that was made alone."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("t", 3)
        (topic_id,) = {logs.log("t", number).topic_id for number in range(3)}
        assert topic_id == logs.describe_topic("t").topic_id
        for number in range(3):
            assert (tmp_path / f"t-{number}" / LOG_STATE).exists()
            logs.log("t", number).append([(b"k", b"v")])
        assert not [*tmp_path.rglob("*.tmp")]
    with segstore.open_dir(tmp_path) as logs:
        assert logs.last_broker_epoch is not None
        assert all(logs.log("t", number).report.clean for number in range(3))
        assert set(logs.log_end_offsets("t").values()) == {1}


def test_progress(tmp_path: Path, monkeypatch):
    """After each round; new partitions alone are counted."""
    monkeypatch.setattr(topic_registry, "_ROUND", 2)
    seen: list[tuple[int, int]] = []
    with segstore.open_dir([tmp_path / "a", tmp_path / "b"]) as logs:
        logs.create_topic("t", 5, progress=lambda *one: seen.append(one))
        assert seen == [(2, 5), (3, 5), (5, 5)]
        seen.clear()
        logs.alter_topic("t", partitions=7, progress=lambda *one: seen.append(one))
        assert seen == [(1, 2), (2, 2)]
        with pytest.raises(ArgumentTypeError):
            logs.create_topic("u", progress=5)
        assert [*logs.topics()] == ["t"]


def test_what_progress_raises_undoes_the_creation(tmp_path: Path, monkeypatch):
    """[DUR-11]"""
    monkeypatch.setattr(topic_registry, "_ROUND", 2)

    def stop(done: int, _total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with segstore.open_dir(tmp_path) as logs:
        with pytest.raises(KeyboardInterrupt):
            logs.create_topic("t", 9, progress=stop)
        assert (logs.topics(), names(tmp_path)) == ({}, [])
        logs.create_topic("t", 5)
        with pytest.raises(KeyboardInterrupt):
            logs.alter_topic("t", partitions=12, progress=stop)
        assert names(tmp_path) == [f"t-{number}" for number in range(5)]
        assert logs.append("t", [(b"k", b"v")])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # dropped logs
def test_an_interrupt_anywhere_leaves_the_topic_whole_or_not_there(tmp_path: Path, monkeypatch):
    """[DUR-11, DUR-70] Ctrl-C after each call that the manager makes."""
    monkeypatch.setattr(topic_registry, "_ROUND", 2)
    for number in range(1, 10_000, STEP):
        path = tmp_path / str(number)
        with segstore.open_dir(path) as logs:
            interrupt = Interrupt(number, FOLDER)
            interrupt.run(partial(logs.create_topic, "t", 3))
            made = logs.topics()
            assert (interrupt.place, made) in [
                (interrupt.place, {}),
                (interrupt.place, {"t": [0, 1, 2]}),
            ]
        with segstore.open_dir(path) as logs:
            assert (interrupt.place, logs.topics()) in [
                (interrupt.place, {}),
                (interrupt.place, {"t": [0, 1, 2]}),
            ]
            if not logs.topics():
                assert (interrupt.place, names(path)) == (interrupt.place, [])
                logs.create_topic("t", 3)
            logs.append("t", [(b"k", b"v")])
        if interrupt.place is None:
            break
    assert number > 50


def test_a_log_whose_syncs_were_left_out_does_not_go_on(tmp_path: Path, monkeypatch):
    """[DUR-11, DUR-35] Also where nothing can be undone: the next open does that."""
    with segstore.open_dir(tmp_path) as logs:
        opened = []
        real = logs._directories[0].logs.open_new

        def open_new(one, postponed):
            real(one, postponed)
            opened.append(logs._directories[0].logs.find(str(one)))
            if one.partition == 2:
                raise DiskFullError("broken")

        def fail(*_):
            raise OSError("broken too")

        registry = logs._directories[0].registry
        monkeypatch.setattr(logs._directories[0].logs, "open_new", open_new)
        monkeypatch.setattr(registry, "undo", fail)
        with pytest.raises(DiskFullError):
            logs.create_topic("t", 4)
        assert [log.closed for log in opened] == [True] * 3
    with segstore.open_dir(tmp_path) as logs:
        assert (logs.topics(), names(tmp_path)) == ({}, [])


# ---- the core ------------------------------------------------------------------------------------


def test_postponed_files_have_no_name_before_they_are_synced():
    """[DUR-21] Neither is anything synced before."""
    disk = new_disk()
    with closing(Directory("/", disk)) as directory:
        directory.postpone_syncs()
        before = sum(map(disk.calls, SYNCS))
        for content in (b"first, and longer", b"second"):
            directory.write_file_atomically("a", content, FileBarrier.LOG_STATE)
        directory.sync(Barrier.NEW_DIRECTORY)
        assert sum(map(disk.calls, SYNCS)) == before
        assert not directory.exists("a")
        directory.sync_postponed()
        assert sum(map(disk.calls, SYNCS)) == before + 1
        directory.put_postponed_in_place()
        assert (directory.read_file("a"), directory.exists("a.tmp")) == (b"second", False)
        directory.sync(Barrier.NEW_DIRECTORY)
        directory.write_file_atomically("b", b"at once", FileBarrier.LOG_STATE)
        assert sum(map(disk.calls, SYNCS)) == before + 4
    with closing(Directory("/", disk.crash_image(fate="lost"))) as directory:
        assert directory.names() == ["a", "b"]


def test_a_directory_that_is_closed_lets_go_of_what_was_postponed(tmp_path: Path):
    """No descriptor stays."""
    directory = Directory(tmp_path)
    directory.postpone_syncs()
    directory.write_file_atomically("a", b"1", FileBarrier.LOG_STATE)
    directory.close()
    assert [one.name for one in tmp_path.iterdir()] == ["a.tmp"]
    with closing(Directory(tmp_path)) as again:
        again.write_file_atomically("a", b"2", FileBarrier.LOG_STATE)
        assert again.read_file("a") == b"2"
