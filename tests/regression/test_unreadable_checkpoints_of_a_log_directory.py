"""A checkpoint of a log directory that was too large stopped `create_topic`, and each close failed.

[DUR-8, DUR-21, DUR-65] What cannot be read as a checkpoint counts as missing, with a warning, and
is left as it is: the others' lines are not ours to lose. Looked for: both files, larger than any
checkpoint, a directory in its place, and damaged text; all that reads or writes them: a manager's
open, `create_topic`, truncation, close; a partition that is opened alone. An error of the disk
(no permission, no descriptors) says nothing of the file: it is raised as it is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import ResourceError
from segstore.log.files import log_directory_checkpoints

if TYPE_CHECKING:
    from pathlib import Path

START, POINT = "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"


def make_too_large(path: Path) -> None:
    os.truncate(path, 1 << 27)  # sparse


def put_a_directory_there(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "mine").write_text("mine")


def damage(path: Path) -> None:
    path.write_bytes(b"0\nmany\n")


DAMAGES = [make_too_large, put_a_directory_there, damage]


@pytest.fixture(params=[START, POINT])
def name(request):
    return request.param


@pytest.fixture
def logs(tmp_path):
    """Two partitions; the log start of one is 2."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            manager.log("t", number).append([(b"k", b"v")] * 5)
        manager.log("t", 0).delete_records(2)
    return tmp_path


def append_three(log) -> None:
    for _ in range(3):
        log.append([(b"k", b"v")])


def look_of(path: Path) -> object:
    return sorted(path.iterdir()) if path.is_dir() else path.stat().st_size


@pytest.mark.parametrize("spoil", DAMAGES)
def test_a_manager_goes_on(logs, name, spoil, caplog):
    spoil(logs / name)
    before = look_of(logs / name)
    with segstore.open_dir(logs) as manager:
        manager.create_topic("u", 1)
        for number in range(2):
            log = manager.log("t", number)
            append_three(log)
            log.truncate_to(6)
        manager.append("u", [(b"k", b"v")])
        assert f"{name} cannot be read" in manager.log("t", 0).report.warnings[0]

    assert f"{name} is left as it is" in caplog.text
    assert look_of(logs / name) == before
    assert (logs / ".kafka_cleanshutdown").exists()
    assert (logs / "t-0" / ".kafka_cleanshutdown").exists()
    with segstore.open_dir(logs) as manager:
        assert manager.topics() == {"t": [0, 1], "u": [0]}
        found = [(log.log_start_offset, log.log_end_offset) for log in logs_of(manager)]
        assert found == [(2, 6), (0, 6), (0, 1)]


def logs_of(manager):
    return [manager.log(*one) for one in manager.partitions()]


@pytest.mark.parametrize("spoil", DAMAGES)
def test_a_partition_that_is_opened_alone_goes_on(logs, name, spoil):
    spoil(logs / name)
    before = look_of(logs / name)
    with segstore.open(logs / "t-0") as log:
        append_three(log)
        log.truncate_to(6)

    assert look_of(logs / name) == before
    assert (logs / "t-0" / ".kafka_cleanshutdown").exists()
    with segstore.open(logs / "t-0", read_only=True) as log:
        assert (log.log_start_offset, log.log_end_offset) == (2, 6)


def test_an_error_of_the_disk_is_not_taken_for_a_damaged_file(logs, monkeypatch):
    """[DUR-6, DUR-31] Nothing was made, and the next call reads the file."""
    error = ResourceError("no descriptors")

    def fail(*_):
        raise error

    with segstore.open_dir(logs) as manager:
        monkeypatch.setattr(log_directory_checkpoints, "read_offset_checkpoint", fail)
        with pytest.raises(ResourceError) as caught:
            manager.create_topic("u", 1)
        assert caught.value is error
        assert manager.topics() == {"t": [0, 1]}
        monkeypatch.undo()
        manager.create_topic("u", 1)
