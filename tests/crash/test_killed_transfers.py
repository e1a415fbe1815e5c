"""A process is killed in an export to Parquet or an import; the same command completes it.

Looked for of this kind: a file that has its name, but not all rows, tables of batches or footer; a
log whose end is before its bytes, with a batch twice or without an epoch. What a kill leaves under
other names is not read (docs/formats.md).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.errors import IllegalStateError, LogNotFoundError
from segstore.log.files.checkpoints import IMPORT_MARKER
from tests.kits.cli_process import environment
from tests.kits.same_logs import check_same_logs
from tests.unit.tables.test_parquet_transfer import in_transactions

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 6
PATIENCE_SECONDS = 120

DRIVER = """
import os, random, signal, sys, time
import pyarrow.compute, pyarrow.parquet
import segstore
from segstore.tables import parquet_transfer, parquet_writer, partition_import
task, source, target, rounds = sys.argv[1:]
parquet_writer.ROWS_AT_ONCE = 40
parquet_writer.ROW_GROUP_ROWS = 50
partition_import.ROWS_OF_AN_APPEND = 7

def work(place):
    if task == "import":
        segstore.import_parquet(source, place)
    else:
        with segstore.open_dir(source, read_only=True) as logs:
            logs.export_parquet("orders", place, bytes_of_a_file=3000)

def child(place):
    process = os.fork()
    if process == 0:
        work(place)
        os._exit(0)
    return process

begun = time.monotonic()
assert os.waitpid(child(f"{target}/whole"), 0)[1] == 0
longest = time.monotonic() - begun
chooser = random.Random()
for number in range(int(rounds)):
    for _ in range(number % 3 + 1):  # the one that completes is killed too
        process = child(f"{target}/{number}")
        time.sleep(longest * chooser.random())
        os.kill(process, signal.SIGKILL)
        answer = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(answer)
        if answer == 0:  # it was faster than the first one
            longest *= 0.7
"""


def kill_often(task: str, source: Path, target: Path) -> list[Path]:
    """Return the folders of the work that was killed, and of one that was not."""
    target.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, task, source, target, str(ROUNDS)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = [int(line) for line in done.stdout.split()]
    assert set(answers) <= {0, -signal.SIGKILL}, done.stderr
    assert -signal.SIGKILL in answers
    return [target / "whole", *(target / str(number) for number in range(ROUNDS))]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with a topic of two partitions; in one there are transactions."""
    with segstore.open_dir(tmp_path / "data") as logs:
        logs.create_topic("orders", partitions=2)
        for number in range(20):
            logs.append("orders", [(b"k", b"%d" % number * 50)] * 10, partition=0)
    in_transactions(tmp_path / "data" / "orders-1", rounds=40)
    return tmp_path / "data"


def check_same_topics(data: Path, other: Path) -> None:
    for number in range(2):
        with (
            segstore.open(data / f"orders-{number}", read_only=True) as log,
            segstore.open(other / f"orders-{number}", read_only=True) as back,
        ):
            check_same_logs(log, back)


def opens(path: Path) -> bool:
    try:
        segstore.open(path, read_only=True).close()
    except (IllegalStateError, LogNotFoundError):
        return False
    return True


def check_whole_topic(data: Path, folder: Path) -> None:
    """A killed import lets a log be opened when all of them are whole; some may not know it yet."""
    copy = folder.with_name(f"{folder.name}-copy")
    shutil.copytree(folder, copy)
    for marker in copy.glob(f"*/{IMPORT_MARKER}"):
        marker.unlink()
    check_same_topics(data, copy)


def test_an_export_goes_on_where_files_are_missing(data: Path, tmp_path: Path):
    """A file with its name is whole: it is not written again, and the import finds all in it."""
    for folder in kill_often("export", data, tmp_path / "out"):
        before = {one: one.read_bytes() for one in folder.glob("*.parquet")}
        assert main(["export", str(data), "-t", "orders", f"{folder}/", "-q"]) == 0
        assert all(one.read_bytes() == content for one, content in before.items())
        back = tmp_path / "back" / folder.name
        assert main(["import", str(folder), str(back), "-q"]) == 0
        check_same_topics(data, back)


def test_an_import_goes_on_where_the_log_ends(data: Path, tmp_path: Path):
    out = tmp_path / "out"
    assert main(["export", str(data), "-t", "orders", f"{out}/", "-q"]) == 0
    for folder in kill_often("import", out, tmp_path / "back"):
        if any(opens(folder / f"orders-{number}") for number in range(2)):
            check_whole_topic(data, folder)
        assert main(["import", str(out), str(folder), "-q", "--verify"]) == 0
        check_same_topics(data, folder)
