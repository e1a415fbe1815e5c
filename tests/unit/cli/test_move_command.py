"""``segstore move`` [DUR-127]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.log.files.topics_file import parse_topics

if TYPE_CHECKING:
    from pathlib import Path


def test_partitions_move(tmp_path: Path, capsys):
    """With their records and settings, to a directory that is made."""
    with segstore.open_dir(tmp_path / "a") as logs:
        logs.create_topic("orders", 2, config={"retention.ms": 5000})
        logs.append("orders", [(b"k", b"v")], partition=1)
    paths = [str(tmp_path / "a" / f"orders-{number}") for number in range(2)]
    assert main(["move", *paths, str(tmp_path / "b")]) == 0
    moved = [str(tmp_path / "b" / f"orders-{number}") for number in range(2)]
    lines = [f"{path} -> {there}" for path, there in zip(paths, moved, strict=True)]
    assert capsys.readouterr().out.splitlines() == lines
    with segstore.open_dir(tmp_path / "b", read_only=True) as logs:
        assert logs.topics() == {"orders": [0, 1]}
        assert [record.value for record in logs.log("orders", 1)] == [b"v"]
        assert logs.log("orders", 0).config.retention_ms == 5000
    with segstore.open_dir(tmp_path / "a", read_only=True) as logs:
        assert logs.topics() == {}


def test_what_is_no_partition(tmp_path: Path, capsys):
    """The exit code is that of a wrong argument."""
    assert main(["move", str(tmp_path / "orders-0"), str(tmp_path / "b")]) == 2
    assert "is no directory" in capsys.readouterr().err
    (tmp_path / "orders").mkdir()
    assert main(["move", str(tmp_path / "orders"), str(tmp_path / "b")]) == 2
    assert "<topic>-<partition>" in capsys.readouterr().err


def test_what_lies_there_already(tmp_path: Path, capsys):
    """[MGR-79] The exit code is that of a wrong argument."""
    with segstore.open_dir(tmp_path / "a") as logs:
        logs.create_topic("orders")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert main(["move", str(tmp_path / "link" / "orders-0"), str(tmp_path / "a")]) == 2
    assert "already" in capsys.readouterr().err


def test_partitions_of_several_directories(tmp_path: Path):
    """[DUR-127] All that were named are open together; links are no other directories."""
    paths = [tmp_path / name for name in "abc"]
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("orders", 4)
    (tmp_path / "link").symlink_to(paths[1])
    moved = [paths[0] / "orders-0", paths[1] / "orders-1", tmp_path / "link" / "orders-3"]
    assert main(["move", "-q", *map(str, moved), str(paths[2])]) == 0
    with segstore.open_dir(paths) as logs:
        assert logs.topics() == {"orders": [0, 1, 2, 3]}
        homes = [logs.log("orders", number).path.split("/")[-2] for number in range(4)]
    assert homes == ["c", "c", "a", "c"]


@pytest.mark.parametrize("names_it", [False, True])
def test_a_third_directory_of_the_topic(tmp_path: Path, *, names_it: bool):
    """[DUR-124] Also with a change that a kill has left in it alone, all agree in the end."""
    paths = [tmp_path / name for name in "abc"]
    segstore.open_dir(paths).close()
    with segstore.open_dir(paths) as logs:
        logs.cordon(paths[1])
        logs.create_topic("orders", 2, config={"retention.ms": 5000})
        before = (paths[0] / "topics.json").read_bytes()
        logs.alter_topic("orders", {"retention.ms": 7000})
    (paths[0] / "topics.json").write_bytes(before)
    others = ["--log-dir", str(paths[2])] if names_it else []
    assert main(["move", "-q", str(paths[0] / "orders-0"), str(paths[1]), *others]) == 0
    if not names_it:
        with segstore.open_dir(paths) as logs:
            assert logs.log("orders", 0).config.retention_ms == 7000
    entries = [parse_topics((path / "topics.json").read_bytes()).topics for path in paths[1:]]
    assert entries[0] == entries[1]
    assert entries[0]["orders"].config == {"retention.ms": "7000"}


def test_a_directory_that_cannot_be_opened(tmp_path: Path, capsys):
    """[MGR-76] Nothing is moved beside it."""
    with segstore.open_dir(tmp_path / "a") as logs:
        logs.create_topic("orders")
    other = tmp_path / "other-0"
    segstore.open(other).close()
    (tmp_path / "b").write_bytes(b"")
    for target, others in (("b", []), ("c", ["--log-dir", str(other)])):
        command = ["move", str(tmp_path / "a" / "orders-0"), str(tmp_path / target), *others]
        assert main(command) == 2
        assert capsys.readouterr().err.count("segstore:") == 1
    assert (tmp_path / "a" / "orders-0").exists()
