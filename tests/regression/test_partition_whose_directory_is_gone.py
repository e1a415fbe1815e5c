"""A new partition began at the log start of an older one of its name [DUR-120, DUR-121].

What checkpoints say of a partition goes before its directory is made again. ``create_topic`` did
that for the log directory's checkpoints alone. Looked for: those in ``state_dir``; a partition that
is opened alone, in each profile; a handle of the old directory that the manager still had. Where
the directory is there, whatever is in it, the lines count as before [DUR-19].
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing

import pytest

import segstore
from segstore._core import Directory, FileBarrier
from segstore.errors import LogLockedError
from segstore.log.files.checkpoints import parse_offset_checkpoint
from segstore.types import TopicPartition
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_script import PATH, make_log_directory
from tests.kits.log_kit import at

START, POINT = "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"
KAFKA = {"recovery": "kafka", "replicated": False}


def fill(log) -> None:
    log.append([(b"k", b"v")] * 100)
    log.delete_records(50)


def offsets_of(log) -> tuple[int, int, int]:
    """Log start, log end, and the offset of the next record."""
    return log.log_start_offset, log.log_end_offset, log.append([(b"k", b"v")]).base_offset


def lines_of(path) -> dict[TopicPartition, int]:
    return parse_offset_checkpoint(path.read_bytes())


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


@pytest.mark.parametrize("profile", ["safe", "kafka", "kafka with state"])
def test_a_topic_that_is_made_again(logs, state, profile):
    settings = {} if profile == "safe" else KAFKA
    if profile == "kafka with state":
        settings = {**KAFKA, "state_dir": state}
    with segstore.open_dir(logs, **settings) as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            fill(manager.log("t", number))
        manager.create_topic("u", 1)
        fill(manager.log("u", 0))
    for number in range(2):
        shutil.rmtree(logs / f"t-{number}")

    with segstore.open_dir(logs, **settings) as manager:
        manager.create_topic("t", 1)
        assert offsets_of(manager.log("t", 0)) == (0, 0, 0)
        if profile != "kafka":  # where it is written down
            assert manager.log("u", 0).log_start_offset == 50


@pytest.mark.parametrize("profile", ["safe", "kafka", "kafka with state"])
def test_a_partition_that_is_opened_alone(logs, state, profile):
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            fill(manager.log("t", number))
    settings = {} if profile == "safe" else KAFKA
    if profile == "kafka with state":
        settings = {**KAFKA, "state_dir": state}
        with segstore.open(logs / "t-0", **settings) as log:
            log.delete_records(60)
        assert lines_of(state / START) == {TopicPartition("t", 0): 60}
    shutil.rmtree(logs / "t-0")

    with segstore.open(logs / "t-0", **settings) as log:
        assert offsets_of(log) == (0, 0, 0)
    assert lines_of(logs / START)[TopicPartition("t", 1)] == 50
    with segstore.open(logs / "t-1", **settings) as log:
        assert offsets_of(log) == (50, 100, 100)


def test_the_lines_go_before_there_is_a_directory(logs, monkeypatch):
    """A crash between leaves a directory whose lines are gone, not one with lines of another."""
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 1)
        fill(manager.log("t", 0))
    shutil.rmtree(logs / "t-0")

    def make(*_):
        assert TopicPartition("t", 0) not in lines_of(logs / START) | lines_of(logs / POINT)
        raise KeyboardInterrupt

    monkeypatch.setattr("segstore.log.files.partition_path.make_directory", make)
    with pytest.raises(KeyboardInterrupt):
        segstore.open(logs / "t-0")


@pytest.mark.parametrize("fate", ["lost", "kept", "seed"])
def test_no_crash_brings_the_lines_back(fate):
    """[DUR-121] Whatever reached the disk, the partition begins at 0, with what was synced."""
    disk = new_disk()
    make_log_directory(disk)
    above = Directory(os.path.dirname(PATH), disk)  # noqa: PTH120 - not a real one
    for name in (START, POINT):
        above.write_file_atomically(name, b"0\n1\ntopic 0 7\n", FileBarrier.SHARED_CHECKPOINT)
    begin = disk.effects
    with closing(open_log(disk)) as log:
        log.append_as_leader(at(0), 0)
        log.flush()
        acked = disk.effects

    for effects in range(begin, disk.effects + 1):
        with closing(open_log(disk.crash_image(effects, fate=fate, seed=effects))) as found:
            assert found.log_start_offset == 0, effects
            assert found.log_end_offset == 1 or effects < acked


def test_an_owner_of_the_log_directory_keeps_its_lines(logs):
    """[DUR-65] Nothing is written, and nothing made, beside who has them in memory."""
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 1)
        fill(manager.log("t", 0))
    with segstore.open_dir(logs):
        shutil.rmtree(logs / "t-0")
        before = (logs / START).read_bytes()
        with pytest.raises(LogLockedError):
            segstore.open(logs / "t-0")
        assert (logs / START).read_bytes() == before
        assert not (logs / "t-0").exists()


def test_a_state_directory_of_an_open_log_is_left(logs, state):
    with segstore.open(logs / "t-0", state_dir=state, **KAFKA) as log:
        fill(log)
        shutil.rmtree(logs / "t-0")
        with pytest.raises(LogLockedError):
            segstore.open(logs / "t-0", state_dir=state, **KAFKA)
        assert lines_of(state / START) == {TopicPartition("t", 0): 50}
        log.close_quietly()


def test_a_directory_that_is_there_keeps_its_lines(logs):
    """[DUR-19] Its files may have been lost; no offset is given twice."""
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 1)
        fill(manager.log("t", 0))
    shutil.rmtree(logs / "t-0")
    (logs / "t-0").mkdir()
    with segstore.open(logs / "t-0") as log:
        assert log.log_start_offset == 50


def test_a_manager_does_not_go_on_with_its_handle_of_the_old_directory(logs):
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 1)
        old = manager.log("t", 0)
        fill(old)
        shutil.rmtree(logs / "t-0")

        manager.create_topic("t", 1)
        assert old.closed
        assert offsets_of(manager.log("t", 0)) == (0, 0, 0)
        assert (logs / "t-0" / f"{0:020}.log").stat().st_size > 0
    with segstore.open(logs / "t-0") as log:
        assert offsets_of(log) == (0, 1, 1)
