"""What every command has in common: exit codes, quiet ends, a quick start."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import COMMANDS
from tests.kits.cli_process import environment, run_segstore
from tests.kits.warm_commands import run_warm

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        log.append([(None, b"x" * 1000)] * 2000)
    return path


def test_the_version_is_the_packages():
    """``segstore --version``."""
    done = run_segstore("--version")

    assert (done.returncode, done.stdout) == (0, f"segstore {segstore.__version__}\n".encode())


def test_dump_has_kafkas_version_option():
    """[format.md 18.1] The version on stdout, exit code 0."""
    for arguments in (["--version"], ["--version", "--files", "a.log"]):
        done = run_segstore("dump", *arguments)
        said = f"segstore {segstore.__version__}\n".encode()
        assert (done.returncode, done.stdout, done.stderr) == (0, said, b"")


def test_dump_without_files_answers_as_kafkas_tool():
    """[format.md 18.1] On stderr, exit code 1: the purpose of the tool, or what is missing."""
    bare = run_segstore("dump")
    lacking = run_segstore("dump", "--print-data-log")

    assert (bare.returncode, bare.stdout) == (1, b"")
    assert bare.stderr.startswith(b"Print .log, .checkpoint, ")
    assert (lacking.returncode, lacking.stdout) == (1, b"")
    assert lacking.stderr.startswith(b'Missing required argument "[files]"\nusage: segstore dump')
    assert b"\nusage: segstore dump" in bare.stderr
    assert b"--deep-iteration" in bare.stderr


def test_help_lists_all_commands():
    """Also of each command, without importing the others."""
    listed = run_segstore("--help").stdout.decode()

    for name, summary in COMMANDS.items():
        assert name in listed.split()
        assert summary.split(",")[0] in " ".join(listed.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_a_help(command: str):
    """``-h`` exits with 0."""
    done = run_segstore(command, "--help")

    assert (done.returncode, done.stderr) == (0, b"")
    assert f"usage: segstore {command}".encode() in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["cat"],
        ["cat", "no/such/path-0"],
        ["cat", ".", "-p", "1"],
        ["cat", ".", "-t", "nothing"],
        ["cat", ".", "-f", "%z"],
        ["cat", ".", "-o", "yesterday"],
        ["cat", ".", "-c", "-1"],
        ["tail", "no/such/path-0"],
        ["ls", "no/such/path"],
        ["ls", "file"],
        ["inspect", "file"],
        ["verify", "empty"],
        ["verify"],
        ["recover", "empty"],
        ["dump", "--files", "x.log"],
        ["append", "x-0", "-K", ""],
        ["append", "x-0", "--partitions", "3"],
        ["append", "no-number"],
        ["demo", "--limit", "0"],
        ["demo", "--dir", "full"],
        ["pipeline", "--limit", "3"],
        ["pipeline", "--dir", "full"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: list[str]):
    """With words on stderr, nothing on stdout, no traceback, and nothing made."""
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    before = sorted(tmp_path.rglob("*"))

    done = run_segstore(*arguments, cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert done.stderr
    assert b"Traceback" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_log_directory_is_no_partition(partition: Path):
    """The message says which partitions there are."""
    done = run_segstore("cat", partition.parent)

    assert done.returncode == 2
    assert b"orders-0" in done.stderr


def test_findings_exit_with_1(partition: Path):
    """Damage is no usage error."""
    log = partition / f"{0:020d}.log"
    log.write_bytes(b"\xff" * 100)

    assert run_segstore("verify", partition).returncode == 1


@pytest.mark.parametrize("command", ["cat", "dump"])
def test_a_reader_that_goes_away_ends_it_quietly(partition: Path, command: str):
    """``| head``: no traceback; 141 as a shell reports SIGPIPE."""
    arguments = {
        "cat": ["cat", str(partition)],
        "dump": ["dump", "--print-data-log", "--files", str(partition / f"{0:020d}.log")],
    }[command]
    with subprocess.Popen(
        [sys.executable, "-m", "segstore", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)

    assert (process.returncode, err) == (141, b"")


def test_ctrl_c_ends_it_quietly(tmp_path: Path):
    """130; what was appended stays, and the log is closed cleanly."""
    path = tmp_path / "notes-0"
    with subprocess.Popen(
        [sys.executable, "-m", "segstore", "append", str(path)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not values(path):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    # visible a moment before its append has returned, and counted then too
    assert err.startswith(b"appended 1 record, ")
    assert b"Traceback" not in err
    with segstore.open(path, durability="none") as log:
        assert log.report.clean
        assert [record.value for record in log] == [b"first"]


def values(path: Path) -> list[bytes | None]:
    try:
        with segstore.open(path, read_only=True) as log:
            return [record.value for record in log]
    except (segstore.LogNotFoundError, segstore.NotALogError):  # not made yet
        return []


def test_help_does_not_import_the_engine():
    """Start-up is quick: no numpy, no extension, no pyarrow before they are needed."""
    code = (
        "import sys; from segstore import cli; cli.main(['cat', '--help']);"
        "heavy = {'numpy', 'pyarrow', 'segstore._core', 'rich', 'pyspark'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env=environment()
    )

    assert done.stderr == b"[]\n"


@pytest.mark.parametrize("arguments", [("ls", "no-such"), ("cat", "--no-such"), ("--version",)])
def test_commands_that_are_forked_say_the_same(arguments, tmp_path):
    """What other tests ask of them holds for the command as a user runs it."""
    (cold, warm) = (run(*arguments, cwd=tmp_path) for run in (run_segstore, run_warm))

    assert warm.returncode == cold.returncode
    assert (warm.stdout, warm.stderr) == (cold.stdout, cold.stderr)
