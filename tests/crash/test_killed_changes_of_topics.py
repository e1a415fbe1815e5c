"""A process is killed before each call by which a topic is made or changed [DUR-11, DUR-23].

Looked for of this kind: kills while ``topics.json`` says ``creating``, between its temporary file
and its name, with some directories, ids and logs made and some not, and after ``live``; a second
kill at each step of the open that undoes what the first one left. A kill between the removal of
``partition.metadata`` and of ``.lock`` left a topic of one partition. Each change is looked at in
one log directory, and over two of them. Calls that fail instead:
tests/regression/test_managers_and_topics.py.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from tests.kits.preloaded_library import compiled, environment_with

HERE = Path(__file__).parent
TOPIC = "big"
WHOLE = {TOPIC: [0, 1]}
MOST_STEPS = 500

DRIVER = """
import ctypes, os, shutil, sys
import segstore
library, task, folder, first, layout = sys.argv[1:]
left = ctypes.c_long.in_dll(ctypes.CDLL(library), "kill_at_step_left")
with segstore.open_dir(f"{folder}/imports") as logs:  # once, and not in each child
    logs.create_topic("big", 2)
    logs.append("big", [(b"k", b"v")])
    logs.alter_topic("big", {"retention.ms": 5}, partitions=4)
    logs.delete_topic("big")
for step in range(1, 500):
    place = f"{folder}/{step}"
    if first:
        shutil.copytree(first, place)
    child = os.fork()
    if child == 0:
        paths = [f"{place}/a", f"{place}/b"] if layout == "two" else place
        if task == "open":
            left.value = step
            segstore.open_dir(paths)
            os._exit(0)
        logs = segstore.open_dir(paths)
        if task == "create":
            left.value = step
            logs.create_topic("big", 2)
        log = logs.log("big", 1)
        left.value = step
        if task == "add":
            logs.alter_topic("big", {"retention.ms": 5}, partitions=4)
        if task == "delete":
            logs.delete_topic("big")
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        print(step, os.WEXITSTATUS(status))
        break
    print(step, -os.WTERMSIG(status))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``kill_at_step.c``, compiled."""
    return compiled(HERE / "kill_at_step.c", tmp_path_factory.mktemp("kill"))


@pytest.fixture(params=["one", "two"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where log directories are: its name says how many of them share the topic."""
    made = tmp_path / request.param
    made.mkdir()
    return made


def log_directories(path: Path) -> Path | list[Path]:
    return [path / "a", path / "b"] if "two" in path.parts else path


def kill_at_each_step(library: Path, task: str, folder: Path, first: Path | None) -> list[Path]:
    """Return what each kill leaves, in the order of the steps; the last run was not killed."""
    folder.mkdir()
    layout = "two" if "two" in folder.parts else "one"
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, library, task, folder, first or "", layout],
        capture_output=True, text=True, check=False, timeout=600,
        env=environment_with(library),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *killed, last = (line.split() for line in done.stdout.splitlines())
    assert last[1] == "0", done.stderr
    assert {status for _, status in killed} == {str(-signal.SIGKILL)}
    return [folder / step for step, _ in [*killed, last]]


def is_whole(path: Path) -> bool:
    """Whether the topic is there after the next open: whole, or not at all.

    A reader finds the same, but of two directories one may say so later than the other.
    """
    with segstore.open_dir(log_directories(path), read_only=True) as logs:
        before = logs.topics()
    assert before in ({}, WHOLE)
    with segstore.open_dir(log_directories(path)) as logs:
        after = logs.topics()
        assert after in ({}, WHOLE)
        assert before == after or ("two" in path.parts and not before)
        if not after:
            assert list(path.rglob(f"{TOPIC}-*")) == []
            logs.create_topic(TOPIC, 2)
        assert len({logs.log(TOPIC, number).topic_id for number in range(2)}) == 1
        assert logs.topics() == WHOLE
    return bool(after)


def test_a_topic_is_there_whole_or_not_at_all(library, folder):
    """And the call can be repeated where it is not there."""
    left = kill_at_each_step(library, "create", folder / "made", None)
    half_made = [path for path in left if list(path.rglob(f"{TOPIC}-*"))]
    shutil.copytree(half_made[len(half_made) // 2], folder / "half")

    answers = [is_whole(path) for path in left]
    assert 20 < len(left) < MOST_STEPS
    assert answers == sorted(answers)
    assert answers[-1]
    assert not answers[0]

    undone = kill_at_each_step(library, "open", folder / "undone", folder / "half")
    assert len(undone) > 5
    assert not any(is_whole(path) for path in undone)


# ---- topics that are there -----------------------------------------------------------------------


def filled(path: Path) -> Path:
    """Make a topic of two partitions with a record in each, one of them without an id."""
    with segstore.open_dir(log_directories(path)) as logs:
        logs.create_topic(TOPIC, 2)
        for number in range(2):
            logs.append(TOPIC, [(None, b"v")], partition=number)
    (without_id,) = path.rglob(f"{TOPIC}-0")
    (without_id / "partition.metadata").unlink()
    return path


def test_a_topic_is_deleted_whole_or_not_at_all(library, folder):
    """[MGR-63, DUR-6, DUR-121] A topic that is made again has none of the records."""
    left = kill_at_each_step(library, "delete", folder / "d", filled(folder / "first"))
    answers = [is_there_with_all_records(path) for path in left]
    assert 10 < len(left) < MOST_STEPS
    assert answers == sorted(answers, reverse=True)
    assert answers[0]
    assert not answers[-1]


def is_there_with_all_records(path: Path) -> bool:
    with segstore.open_dir(log_directories(path), read_only=True) as logs:
        before = logs.topics()
    assert before in ({}, WHOLE)
    with segstore.open_dir(log_directories(path), file_delete_delay_ms=0) as logs:
        assert logs.topics() == before
        if before:
            assert [logs.log(TOPIC, number).log_end_offset for number in range(2)] == [1, 1]
        else:
            logs.create_topic(TOPIC, 2)
            assert [logs.log(TOPIC, number).log_end_offset for number in range(2)] == [0, 0]
    assert sorted(one.name for one in path.rglob(f"{TOPIC}-*")) == [f"{TOPIC}-0", f"{TOPIC}-1"]
    return bool(before)


def test_a_deletion_is_finished_by_an_open_that_is_killed_too(library, folder):
    """[MGR-21] At each of its steps."""
    left = kill_at_each_step(library, "delete", folder / "d", filled(folder / "first"))
    begun = [
        path
        for path in left
        if any(b"deleting" in file.read_bytes() for file in path.rglob("topics.json"))
    ]
    assert len(begun) > 3
    again = kill_at_each_step(library, "open", folder / "again", begun[len(begun) // 2])
    assert not any(is_there_with_all_records(path) for path in again)


def test_partitions_are_added_all_or_none(library, folder):
    """[DUR-11] Together with the settings of the same call."""
    left = kill_at_each_step(library, "add", folder / "d", filled(folder / "first"))
    answers = [has_more_partitions(path) for path in left]
    assert 10 < len(left) < MOST_STEPS
    assert answers == sorted(answers)
    assert answers[-1]
    assert not answers[0]


def has_more_partitions(path: Path) -> bool:
    with segstore.open_dir(log_directories(path), read_only=True) as logs:
        before = logs.topics()[TOPIC]
    assert before in ([0, 1], [0, 1, 2, 3])
    with segstore.open_dir(log_directories(path)) as logs:
        after = logs.topics()[TOPIC]
        is_grown = len(after) == 4
        assert before == after or ("two" in path.parts and is_grown)
        assert logs.log(TOPIC, 0).log_end_offset == 1
        assert logs.log(TOPIC, 1).config.retention_ms == (5 if is_grown else None)
    assert len([*path.rglob(f"{TOPIC}-*")]) == len(after)
    return is_grown
