"""``recover --dry-run`` foretold what it would cut of a log that a writer had open.

[DUR-65, DUR-71] The run itself is refused; so is its forecast, which takes no lock to find out.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import segstore
from segstore import cli
from tests.kits.damaged_logs import LogDirectory

WRITER = """
import sys, segstore
log = segstore.open_dir(sys.argv[1]) if sys.argv[2] == "all" else segstore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
log.close()
"""


@pytest.fixture
def partition(tmp_path):
    with segstore.open(tmp_path / "orders-0") as log:
        log.append([(None, b"x")])
    return tmp_path / "orders-0"


@pytest.fixture
def writer():
    """Begin a writer in another process; returns it."""
    running = []

    def begin(path, what="one"):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        running.append(process)
        assert process.stdout.readline() == b"open\n"

    yield begin
    for process in running:
        process.communicate()


def refusals(partition, capsys):
    """What the forecast and the run say, both with exit code 1; nothing is changed."""
    before = LogDirectory(partition.parent).snapshot()
    said = []
    for more in (["--dry-run"], []):
        assert cli.main(["recover", *more, str(partition)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        said.append(err)
    assert LogDirectory(partition.parent).snapshot() == before
    return said


def test_a_writer_of_the_partition(partition, writer, capsys):
    """Word for word."""
    writer(partition)

    forecast, run = refusals(partition, capsys)

    assert forecast == run
    assert "another process has the log open for writing" in forecast


def test_a_writer_of_the_log_directory(partition, writer, capsys):
    """A broker holds the same lock."""
    writer(partition.parent, "all")

    forecast, run = refusals(partition, capsys)

    assert forecast == run
    assert "a broker or a LogManager has the log open for writing" in forecast


def test_a_writer_in_this_process(partition, capsys):
    """As tests and notebooks have it; the run words it in its own way."""
    with segstore.open(partition):
        forecast, _ = refusals(partition, capsys)

    assert "has the log open for writing" in forecast


def test_without_a_writer(partition, tmp_path, capsys):
    """Lock files stay where they are; a sibling's lock is none of ours, nor a reader."""
    (tmp_path / ".lock").touch()
    with segstore.open(tmp_path / "other-0"), segstore.open(partition, read_only=True):
        assert cli.main(["recover", "--dry-run", str(partition)]) == 0
    assert capsys.readouterr().out.endswith("there is nothing to repair\n")
    (partition / ".lock").unlink()
    assert cli.main(["recover", "--dry-run", str(partition)]) == 0
    assert not (partition / ".lock").exists()
