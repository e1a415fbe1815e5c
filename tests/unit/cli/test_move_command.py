"""``segstore move`` [DUR-127]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import segstore
from segstore.cli import main

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
