"""A kept result answered for another directory, and for files whose times were set back.

It was known by the partition's name, and by names, sizes and mtime of the files: a damaged copy of
a verified directory was never read.
"""

from __future__ import annotations

import os
import pickle
import shutil

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.errors import IllegalArgumentError
from segstore.spark.job_state import JobState, directory_signature

RESULT = {"ok": True}


@pytest.fixture
def path(tmp_path):
    """The directory of a partition, in a log directory with the checkpoints of two."""
    with segstore.open_dir(tmp_path / "data", durability="none") as logs:
        logs.create_topic("t", partitions=2)
        logs.append("t", [(None, b"v" * 50)] * 100)
    return tmp_path / "data" / "t-0"


@pytest.fixture
def state(tmp_path, path):
    """A folder with the result of the partition."""
    made = JobState(tmp_path / "state", "verify")
    made.keep("t-0", str(path), directory_signature(str(path)), RESULT)
    return pickle.loads(pickle.dumps(made))  # as an executor has it


def damage(path):
    """Change a byte, and put the time of change back."""
    file = min(path.glob("*.log"))
    times = file.stat()
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_it_holds_while_nothing_changes(state, path):
    with segstore.open(path, read_only=True) as log:
        assert sum(1 for _ in log) > 0
    (path / "0.txt").write_text("no part of the log")

    assert state.read("t-0", str(path)) == RESULT
    assert state.read("t-1", str(path)) is None


def test_the_result_of_another_directory_is_refused(state, path, tmp_path):
    other = tmp_path / "copy" / "t-0"
    shutil.copytree(path.parent, other.parent)

    with pytest.raises(IllegalArgumentError, match="result of another directory") as refused:
        state.read("t-0", str(other))
    assert refused.value.found == str(path)


def test_a_copy_in_the_place_of_the_directory_is_read_anew(state, path, tmp_path):
    shutil.copytree(path, tmp_path / "copy")
    shutil.rmtree(path)
    (tmp_path / "copy").rename(path)

    assert state.read("t-0", str(path)) is None


def test_damage_with_the_old_time_is_read_anew(state, path):
    damage(path)

    assert state.read("t-0", str(path)) is None


@pytest.mark.parametrize(
    ("name", "text", "holds"),
    [
        ("recovery-point-offset-checkpoint", "0\n2\nt 0 1\nt 1 50\n", False),
        ("log-start-offset-checkpoint", "0\n1\nt 0 7\n", False),
        ("log-start-offset-checkpoint", "0\n1\nt 1 7\n", True),
        ("t-0/leader-epoch-checkpoint", "0\n1\n3 0\n", False),
        ("t-0/00000000000000000000.log.swap", "", False),
    ],
)
def test_what_an_open_reads_counts(state, path, name, text, holds):
    """A checkpoint of the log directory by the partition's own line."""
    (path.parent / name).write_text(text)

    assert (state.read("t-0", str(path)) is not None) == holds


def test_a_lost_clean_marker_counts(state, path):
    (path.parent / ".kafka_cleanshutdown").unlink()

    assert state.read("t-0", str(path)) is None


def test_another_text_is_refused(state, path, tmp_path):
    (tmp_path / "state" / "verify-t-0.json").write_text("")

    with pytest.raises(IllegalArgumentError, match="no result of a job"):
        state.read("t-0", str(path))
