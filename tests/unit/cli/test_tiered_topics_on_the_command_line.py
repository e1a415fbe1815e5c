"""``--remote``: topics with a part in remote storage, from the shell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli

if TYPE_CHECKING:
    from pathlib import Path

TIERED = ("--config", "remote.storage.enable=true", "--config", "local.retention.bytes=0")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run a command; return its exit code and its stdout."""

    def command(*arguments: object) -> tuple[int, str]:
        code = cli.main([*map(str, arguments)])
        return code, capsys.readouterr().out

    return command


@pytest.fixture
def tiered(tmp_path: Path, run) -> tuple[str, ...]:
    """A directory with four records in remote storage alone, and the option that names that."""
    directory, remote = tmp_path / "data", ("--remote", tmp_path / "tier")
    assert run("topics", "create", directory, "orders", *remote, *TIERED)[0] == 0
    with segstore.open_dir(directory) as logs:
        for value in (b"a", b"b", b"c", b"d"):
            logs.append("orders", [(None, value)])
            logs.log("orders", 0).roll()
    code, out = run("maintain", directory, *remote, "--once", "-q")
    assert (code, out.splitlines()[-2:]) == (
        0,
        [
            "orders-0: copied 276 bytes to remote storage, which has all below offset 4 now",
            "4 segments deleted, 276 B; 276 B copied to remote storage",
        ],
    )
    return (directory, *remote)


def test_both_parts_are_listed_read_and_exported(tmp_path: Path, tiered, run):
    """[TIER-2, TIER-31, TIER-65] Without the option, what is here."""
    directory, *remote = tiered
    code, out = run("ls", directory, "-t", "orders", "--json", *remote)
    found = json.loads(out)
    starts = found["log_start_offset"], found["local_log_start_offset"], found["log_end_offset"]
    assert (code, starts) == (0, (0, 4, 4))
    assert "0 (4 here)" in run("ls", directory, *remote)[1]
    assert run("cat", directory / "orders-0", "-q", *remote) == (0, "a\nb\nc\nd\n")
    assert run("cat", directory, "-t", "orders", "-o", "2", "-q", *remote) == (0, "c\nd\n")
    assert run("cat", directory / "orders-0", "-q") == (0, "")
    for source, target in (
        ((directory / "orders-0",), tmp_path / "one.parquet"),
        ((directory, "-t", "orders"), tmp_path / "folder"),
    ):
        code, out = run("export", *source[:1], target, *source[1:], "-q", *remote)
        assert (code, "4 records, offsets 0 to 4" in out) == (0, True)


def test_a_topic_is_deleted_there_too(tmp_path: Path, tiered, run):
    """[TIER-90] And without the option nothing is."""
    directory, *remote = tiered
    assert run("topics", "delete", directory, "orders")[0] == 1
    assert run("topics", "list", directory)[1].count("orders") == 1
    assert run("topics", "delete", directory, "orders", *remote) == (0, "orders: deleted\n")
    assert not [path for path in (tmp_path / "tier").rglob("*") if path.is_file()]
