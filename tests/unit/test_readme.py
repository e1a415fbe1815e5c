"""Every piece of README and of the guide runs as it stands.

README's pieces run in an empty folder, in order, as a newcomer copies them. The guide's run in a
folder that holds a broker's directory as ``data``; what they print is in the comments behind their
calls of ``print``.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore.cli.broker_sample import extract_broker_sample
from segstore.config.log_config import LogConfig
from segstore.log.scan import LogScan
from segstore.spark.java_home import find_java_home

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(python|sh)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
PYTHON_BLOCKS = [block for language, block in BLOCKS if language == "python"]
GUIDE = (ROOT / "docs" / "guide.md").read_text()
GUIDE_PIECES = {
    section.partition("\n")[0]: "".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))
    for section in GUIDE.split("\n## ")
    if "```python" in section
}
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
    """First lines, a query, read, append, Spark; ten lines of the command line."""
    assert len(PYTHON_BLOCKS) == 6
    assert len(COMMANDS) >= 9


@pytest.fixture
def newcomers_folder(tmp_path: Path) -> Path:
    """What README's first piece leaves in an empty folder."""
    run([sys.executable, "-c", PYTHON_BLOCKS[0]], tmp_path)
    return tmp_path


def test_the_first_screen_ends_with_a_query(tmp_path: Path):
    """A newcomer types both pieces into one program."""
    printed = run([sys.executable, "-c", "".join(PYTHON_BLOCKS[:2])], tmp_path).splitlines()

    assert printed[:3] == ["0 b'ada' b'1'", "1 b'bob' b'2'", "2 b'ada' b'3'"]
    assert printed[3] == "{'key': [b'ada', b'bob'], 'value_count': [2, 1]}"


@pytest.mark.parametrize("block", PYTHON_BLOCKS[2:4], ids=["read", "append"])
def test_python_pieces_run(block: str, newcomers_folder: Path):
    """As typed, by a fresh interpreter."""
    assert "Error" not in run([sys.executable, "-c", block], newcomers_folder)


def test_the_read_piece_has_the_records_of_the_first(newcomers_folder: Path):
    block = PYTHON_BLOCKS[2] + "print(frame.height, *pandas_frame.key)"

    assert run([sys.executable, "-c", block], newcomers_folder) == "3 b'bob' b'ada'\n"


def test_the_piece_of_last_values_has_each_key_once(newcomers_folder: Path):
    printed = run([sys.executable, "-c", PYTHON_BLOCKS[4]], newcomers_folder)

    assert "shape: (2, 2)" in printed
    assert 'b"3"' in printed  # ada's last one
    assert 'b"1"' not in printed


def test_spark_piece_runs(newcomers_folder: Path):
    """As typed; the table that it prints counts the records of the first piece."""
    pytest.importorskip("pyspark")
    printed = run([sys.executable, "-c", PYTHON_BLOCKS[5]], newcomers_folder)

    assert "|partition|count|" in printed
    assert re.search(r"\| +0\| +3\|", printed), printed


def test_command_lines_run(newcomers_folder: Path):
    """One after the other, in README's order: later lines read what earlier ones wrote."""
    for line in COMMANDS:
        output = run(["bash", "-o", "pipefail", "-c", line], newcomers_folder)
        assert output or " append " in line, line


@pytest.mark.parametrize("title", GUIDE_PIECES)
def test_guide_piece_prints_what_it_says(
    title: str, broker_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """A section is one program, in an empty folder beside the broker's directory."""
    piece = GUIDE_PIECES[title]
    if title == "Spark":
        version = pytest.importorskip("pyspark").__version__
        java = find_java_home(None, tuple(map(int, version.split(".")[:2])))
        monkeypatch.setenv("JAVA_HOME", str(java.path))  # a session of one's own has to be told
    printed = run([sys.executable, "-c", piece], broker_folder).splitlines()

    assert printed == re.findall(r"^ *print\(.*\)  # (.*)$", piece, re.MULTILINE)
    assert len(printed) == piece.count("print(")


def test_the_guide_prints_what_it_says_from_its_beginning_to_its_end(broker_folder: Path):
    """As one program: no section finds what another one has left. Spark's piece is run alone."""
    piece = "".join(piece for title, piece in GUIDE_PIECES.items() if title != "Spark")
    printed = run([sys.executable, "-c", piece], broker_folder).splitlines()

    assert printed == re.findall(r"^ *print\(.*\)  # (.*)$", piece, re.MULTILINE)


def test_guide_has_a_section_for_each_task():
    assert len(GUIDE_PIECES) >= 16
    for title in re.findall(r"^## (.*)$", GUIDE, re.MULTILINE):
        assert f"](#{title.lower().replace(' ', '-')})" in GUIDE, title


def test_guide_names_everything_public():
    """Exports, errors, settings, and what the main classes have without an underscore."""
    named = {word for code in re.findall(r"`([^`\n]+)`", GUIDE) for word in re.split(r"\W+", code)}
    classes = (
        segstore.UnifiedLog,
        segstore.LogManager,
        LogScan,
        segstore.TopicScan,
        segstore.LatestValues,
    )
    public = {
        *segstore.__all__,
        "open",
        *(field.name for field in dataclasses.fields(LogConfig)),
        *(name for kind in classes for name in dir(kind) if not name.startswith("_")),
    }

    assert sorted(public - named) == []


@pytest.mark.parametrize("name", ["README.md", "docs/guide.md"])
def test_links_lead_somewhere(name: str):
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
