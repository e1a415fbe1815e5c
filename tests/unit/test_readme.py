"""Every piece of README runs as it stands.

In a folder that holds a broker's directory as ``data``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from segstore.cli.broker_sample import extract_broker_sample

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(python|sh)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
PYTHON_BLOCKS = [block for language, block in BLOCKS if language == "python"]
COMMANDS = [
    line
    for language, block in BLOCKS
    if language == "sh"
    for line in block.splitlines()
    if "segstore " in line and not line.startswith("segstore demo")
]


@pytest.fixture
def broker_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sample = extract_broker_sample(tmp_path / "sample")
    (tmp_path / "data").symlink_to(sample)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    }
    result = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",  # cat prints keys and values as they are
        check=False,
        env=environment,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_readme_has_all_its_pieces():
    """Read, append, Spark; ten lines of the command line."""
    assert len(PYTHON_BLOCKS) == 3
    assert len(COMMANDS) >= 9


@pytest.mark.parametrize("block", PYTHON_BLOCKS[:2], ids=["read", "append"])
def test_python_pieces_run(block: str, broker_folder: Path):
    """As typed, by a fresh interpreter."""
    assert "Error" not in run([sys.executable, "-c", block], broker_folder)


def test_spark_piece_runs(broker_folder: Path):
    """As typed; the table that it prints has the broker's partition."""
    pytest.importorskip("pyspark")
    assert "|partition|count|" in run([sys.executable, "-c", PYTHON_BLOCKS[2]], broker_folder)


def test_command_lines_run(broker_folder: Path):
    """One after the other, in README's order: later lines read what earlier ones wrote."""
    for line in COMMANDS:
        output = run(["bash", "-o", "pipefail", "-c", line], broker_folder)
        assert output or " append " in line, line
