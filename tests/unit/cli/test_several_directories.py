"""Commands for a topic whose partitions lie in several log directories [MGR-4, MGR-78]."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli

if TYPE_CHECKING:
    from pathlib import Path

NOW = time.time_ns() // 1_000_000
CONFIG = {"cleanup.policy": "compact,delete", "retention.ms": 86_400_000}


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """A topic with a partition in each directory: an old segment, and some of equal keys."""
    paths = [tmp_path / "b", tmp_path / "a"]
    with segstore.open_dir(paths, durability="none", internal_segment_bytes=300) as logs:
        logs.create_topic("users", 2, config=CONFIG)
        for number in range(2):
            for timestamp in [1_700_000_000_000] * 3 + [NOW] * 9:
                logs.log("users", number).append([(timestamp, b"k", b"x" * 30)])
    return paths


def run(capsys: pytest.CaptureFixture[str], command: str, paths: list[Path], *more: str) -> str:
    assert cli.main([command, str(paths[0]), "--log-dir", str(paths[1]), *more]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def logs_of(paths: list[Path]) -> list[str]:
    """The directories of the partitions, by their numbers."""
    found = {one.name: str(one) for path in paths for one in path.glob("users-*")}
    assert {one.rpartition("/")[0] for one in found.values()} == {str(path) for path in paths}
    return [found[f"users-{number}"] for number in range(2)]


def test_ls_lists_the_partitions_of_all(paths, capsys):
    """[MGR-4] By topic and number, each with its path and the policy of the topic."""
    rows = [json.loads(line) for line in run(capsys, "ls", paths, "--json").splitlines()]

    assert [row["path"] for row in rows] == logs_of(paths)
    assert [(row["partition"], row["policy"]) for row in rows] == [
        (0, "compact delete 1d"),
        (1, "compact delete 1d"),
    ]


@pytest.mark.parametrize("command", ["compact", "retain"])
def test_one_pass_over_the_partitions_of_all(paths, capsys, command):
    """[MGR-4, RTN-3] The dry run and the pass name each partition where it lies."""
    for more in (["--dry-run"], []):
        rows = run(capsys, command, paths, "--json", *more).splitlines()
        assert [json.loads(row)["path"] for row in rows] == logs_of(paths)
    with segstore.open_dir(paths, read_only=True) as logs:
        for number in range(2):
            log = logs.log("users", number)
            assert log.log_start_offset == (3 if command == "retain" else 0)
            assert log.scan().count() < 12


def test_maintain_looks_after_all(paths, capsys):
    """[MGR-4, CLN-3]"""
    assert "; 2 partitions compacted, " in run(capsys, "maintain", paths, "--once")


@pytest.mark.parametrize("command", ["ls", "compact", "retain", "maintain"])
def test_what_is_no_other_log_directory_is_refused(paths, capsys, command):
    """[MGR-4] Nothing is made where nothing is, and the directory of a partition is no such."""
    missing, partition = paths[0].parent / "c", logs_of(paths)[1]
    for other, text in (
        (missing, "no such file or directory"),
        (partition, "of one partition"),
    ):
        assert cli.main([command, str(paths[0]), "--log-dir", str(other)]) == 2
        assert text in capsys.readouterr().err
    assert not missing.exists()
