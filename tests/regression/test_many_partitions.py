"""A writer held six descriptors a partition and a reader four, until the end: 200 did not work.

Looked for of this kind: whatever a log holds of the system between two calls - directories (its own
and the one above), segments, indexes, transaction indexes, the lock of a partition below a held
log directory; writers, readers, many handles in one process, a second writer beside a manager; and
what may change at a path while no descriptor is held. C: tests/c/test_descriptor_pool.c.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore import _core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")

MANY = """
import json, os, resource, sys
import segstore
resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
path, count = sys.argv[1], int(sys.argv[2])
most = 0

def look():
    global most
    most = max(most, len(os.listdir("/proc/self/fd")))

with segstore.open_dir(path, durability="none") as logs:
    logs.create_topic("big", partitions=count)
    look()
    for round in range(2):
        for number in range(count):
            logs.append("big", [(b"k", b"%d" % number)], partition=number)
            look()
answers = []
for settings in ({}, {"read_only": True}):
    with segstore.open_dir(path, **settings) as logs:
        for number in range(count):
            values = [record.value for record in logs.log("big", number).scan()]
            answers.append(values == [b"%d" % number] * 2)
            look()
        answers.append(all(logs.log("big", n).report.clean for n in range(count)))
handles = [segstore.open(f"{path}/big-{n}", read_only=True) for n in range(count)]
look()
answers.append(sum(log.scan().count() for log in handles) == 2 * count)
print(json.dumps([most, all(answers), len(answers)]))
"""


@pytest.fixture
def few():
    """Let everything be closed behind each call."""
    _core.limit_descriptors(1)
    yield
    _core.limit_descriptors(0)


def open_below(path: Path) -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found


def test_many_partitions_work_under_a_low_limit(tmp_path):
    """Create, append to each, open again, read each, close; readers; handles of their own."""
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path), "150"],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    most, is_right, answers = json.loads(done.stdout)
    assert is_right
    assert answers == 2 * 150 + 3
    assert most <= 128 // 2 + 20


@pytest.mark.usefixtures("few")
def test_an_idle_partition_below_a_manager_holds_nothing(tmp_path):
    """[DUR-65] Nor a lock: that of the log directory keeps others out."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("t", 3)
        for number in range(3):
            logs.append("t", [(b"k", b"v")], partition=number)
        _core.Directory("/").close()  # whatever comes next makes room

        assert open_below(tmp_path) == [str(tmp_path / ".lock")]
        with pytest.raises(segstore.LogLockedError):
            segstore.open(tmp_path / "t-1")


def test_a_manager_finds_the_writer_of_a_partition_that_was_there_before(tmp_path):
    """[DUR-65] It was opened when the directory above was no log directory yet."""
    path = tmp_path / "t-0"
    code = "import segstore, sys; log = segstore.open(sys.argv[1]); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as other:  # fmt: skip
        assert other.stdout.readline() == "1\n"
        with segstore.open_dir(tmp_path) as logs:
            with pytest.raises(segstore.LogLockedError):
                logs.log("t", 0)
            other.communicate("\n")
            logs.append("t", [(b"k", b"v")], partition=0)


@pytest.mark.usefixtures("few")
def test_another_directory_at_the_path_is_said(tmp_path):
    """[DUR-10] Nothing is read or written there."""
    path, moved = tmp_path / "t-0", tmp_path / "moved"
    log = segstore.open(path)
    log.append([(b"k", b"v")])
    _core.Directory("/").close()
    path.rename(moved)
    path.mkdir()

    with pytest.raises(segstore.DirectoryReplacedError, match="not the one that was opened"):
        list(log.scan())
    with pytest.raises(segstore.SegstoreError):
        log.append([(b"k", b"w")])
    assert list(path.iterdir()) == []
    log.close_quietly()
    path.rmdir()
    moved.rename(path)
    with segstore.open(path) as log:
        assert [record.value for record in log.scan()] == [b"v"]


@pytest.mark.usefixtures("few")
def test_a_log_is_followed_when_it_is_renamed_and_deleted(tmp_path):
    """[REN-1] A rename by this process is known."""
    log = segstore.open(tmp_path / "t-0")
    log.append([(b"k", b"v")])
    log.rename_dir("t-1")
    log.append([(b"k", b"w")])
    assert [record.value for record in log.scan()] == [b"v", b"w"]
    log.delete()
    assert not (tmp_path / "t-1").exists()


def test_the_limit_is_named_with_its_value(tmp_path):
    """[DUR-31] And what raises it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(segstore.ResourceError) as caught:
            _core.Directory(str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert f"{lowest} (RLIMIT_NOFILE)" in caught.value.message
    assert "ulimit -n" in caught.value.message
