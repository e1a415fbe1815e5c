"""A process is killed before each call by which a topic is made or changed [DUR-11, DUR-23].

Looked for of this kind: kills while ``topics.json`` says ``creating``, between its temporary file
and its name, with some directories, ids and logs made and some not, and after ``live``; a second
kill at each step of the open that undoes what the first one left. A kill between the removal of
``partition.metadata`` and of ``.lock`` left a topic of one partition. Calls that fail instead:
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
library, task, folder, first = sys.argv[1:]
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
        if task == "open":
            left.value = step
            segstore.open_dir(place)
            os._exit(0)
        logs = segstore.open_dir(place)
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


def kill_at_each_step(library: Path, task: str, folder: Path, first: Path | None) -> list[Path]:
    """Return what each kill leaves, in the order of the steps; the last run was not killed."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, library, task, folder, first or ""],
        capture_output=True, text=True, check=False, timeout=600,
        env=environment_with(library),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *killed, last = (line.split() for line in done.stdout.splitlines())
    assert last[1] == "0", done.stderr
    assert {status for _, status in killed} == {str(-signal.SIGKILL)}
    return [folder / step for step, _ in [*killed, last]]


def is_whole(path: Path) -> bool:
    """Whether the topic is there, for a reader and after the next open: whole, or not at all."""
    with segstore.open_dir(path, read_only=True) as logs:
        before = logs.topics()
    assert before in ({}, WHOLE)
    with segstore.open_dir(path) as logs:
        assert logs.topics() == before
        if not before:
            assert list(path.glob(f"{TOPIC}-*")) == []
            logs.create_topic(TOPIC, 2)
        assert len({logs.log(TOPIC, number).topic_id for number in range(2)}) == 1
        assert logs.topics() == WHOLE
    return bool(before)


def test_a_topic_is_there_whole_or_not_at_all(library, tmp_path):
    """And the call can be repeated where it is not there."""
    left = kill_at_each_step(library, "create", tmp_path / "made", None)
    half_made = [path for path in left if list(path.glob(f"{TOPIC}-*"))]
    shutil.copytree(half_made[len(half_made) // 2], tmp_path / "half")

    answers = [is_whole(path) for path in left]
    assert 20 < len(left) < MOST_STEPS
    assert answers == sorted(answers)
    assert answers[-1]
    assert not answers[0]

    undone = kill_at_each_step(library, "open", tmp_path / "undone", tmp_path / "half")
    assert len(undone) > 5
    assert not any(is_whole(path) for path in undone)


# ---- topics that are there -----------------------------------------------------------------------


def filled(path: Path) -> Path:
    """Make a topic of two partitions with a record in each, one of them without an id."""
    with segstore.open_dir(path) as logs:
        logs.create_topic(TOPIC, 2)
        for number in range(2):
            logs.append(TOPIC, [(None, b"v")], partition=number)
    (path / f"{TOPIC}-0" / "partition.metadata").unlink()
    return path


def test_a_topic_is_deleted_whole_or_not_at_all(library, tmp_path):
    """[MGR-63, DUR-6, DUR-121] A topic that is made again has none of the records."""
    left = kill_at_each_step(library, "delete", tmp_path / "d", filled(tmp_path / "first"))
    answers = [is_there_with_all_records(path) for path in left]
    assert 10 < len(left) < MOST_STEPS
    assert answers == sorted(answers, reverse=True)
    assert answers[0]
    assert not answers[-1]


def is_there_with_all_records(path: Path) -> bool:
    with segstore.open_dir(path, read_only=True) as logs:
        before = logs.topics()
    assert before in ({}, WHOLE)
    with segstore.open_dir(path, file_delete_delay_ms=0) as logs:
        assert logs.topics() == before
        if before:
            assert [logs.log(TOPIC, number).log_end_offset for number in range(2)] == [1, 1]
        else:
            logs.create_topic(TOPIC, 2)
            assert [logs.log(TOPIC, number).log_end_offset for number in range(2)] == [0, 0]
    assert sorted(one.name for one in path.glob(f"{TOPIC}-*")) == [f"{TOPIC}-0", f"{TOPIC}-1"]
    return bool(before)


def test_a_deletion_is_finished_by_an_open_that_is_killed_too(library, tmp_path):
    """[MGR-21] At each of its steps."""
    left = kill_at_each_step(library, "delete", tmp_path / "d", filled(tmp_path / "first"))
    begun = [path for path in left if b"deleting" in (path / "topics.json").read_bytes()]
    assert len(begun) > 3
    again = kill_at_each_step(library, "open", tmp_path / "again", begun[len(begun) // 2])
    assert not any(is_there_with_all_records(path) for path in again)


def test_partitions_are_added_all_or_none(library, tmp_path):
    """[DUR-11] Together with the settings of the same call."""
    left = kill_at_each_step(library, "add", tmp_path / "d", filled(tmp_path / "first"))
    answers = [has_more_partitions(path) for path in left]
    assert 10 < len(left) < MOST_STEPS
    assert answers == sorted(answers)
    assert answers[-1]
    assert not answers[0]


def has_more_partitions(path: Path) -> bool:
    with segstore.open_dir(path, read_only=True) as logs:
        before = logs.topics()[TOPIC]
    assert before in ([0, 1], [0, 1, 2, 3])
    is_grown = len(before) == 4
    with segstore.open_dir(path) as logs:
        assert logs.topics() == {TOPIC: before}
        assert logs.log(TOPIC, 0).log_end_offset == 1
        assert logs.log(TOPIC, 1).config.retention_ms == (5 if is_grown else None)
    assert len([*path.glob(f"{TOPIC}-*")]) == len(before)
    return is_grown
