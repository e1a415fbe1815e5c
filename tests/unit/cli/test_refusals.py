"""What a command must not pass over in silence: a wrong letter, an offset out of range, no file."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.cli.quiet_stderr import stderr_to
from tests.kits.cli_process import run_segstore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with the topic ``notes``: 5 records from offset 2 on, in one partition."""
    with segstore.open_dir(tmp_path / "data", durability="none") as manager:
        manager.create_topic("notes", 1)
        log = manager.log("notes", 0)
        log.append([(None, b"%d" % number) for number in range(7)])
        log.delete_records(2)
    return tmp_path / "data"


def test_cat_says_that_an_offset_is_behind_the_end(data: Path, capfdbinary):
    """Exit code 1; the end itself is no mistake: nothing is there yet."""
    assert cli.main(["cat", str(data / "notes-0"), "-o", "99999"]) == 1
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert b"notes-0: offset 99999 is out of range, the log ends at 7" in err

    assert cli.main(["cat", str(data / "notes-0"), "-o", "7"]) == 0
    assert capfdbinary.readouterr() == (b"", b"")
    assert cli.main(["cat", str(data / "notes-0"), "-q", "-o", "8"]) == 1
    assert capfdbinary.readouterr() == (b"", b"")


def test_cat_says_that_an_offset_was_deleted(data: Path, capfdbinary):
    """It goes on with the first record that there is."""
    assert cli.main(["cat", str(data / "notes-0"), "-o", "1"]) == 0

    out, err = capfdbinary.readouterr()
    assert out.startswith(b"2\n3\n")
    assert b"offset 1 is out of range, the log starts at 2" in err


@pytest.mark.parametrize("command", ["verify", "cat", "ls", "recover"])
def test_a_path_where_nothing_is_names_what_is_beside_it(data: Path, command: str, capfdbinary):
    """As `segstore.open` does: a newcomer types the name of an example."""
    assert cli.main([command, str(data / "orders-0")]) == 2

    out, err = capfdbinary.readouterr()
    assert out == b""
    assert err.endswith(b"orders-0: there is no such file or directory; beside it are notes-0\n")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("foo=5", b"there is no setting 'foo'"),
        ("segment.byte=5", b"did you mean segment.bytes?"),
        ("preallocate=maybe", b"preallocate is true or false, not 'maybe'"),
    ],
)
def test_append_refuses_a_setting_that_is_none(tmp_path: Path, setting: str, said: bytes):
    """``-X`` with a wrong letter would be without effect."""
    done = run_segstore("append", tmp_path / "new-0", "-X", setting, stdin=b"x\n")

    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr
    assert b"appended" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_append_takes_kafkas_settings(tmp_path: Path):
    """In Kafka's spelling."""
    arguments = ["-X", "segment.bytes=1048576", "-X", "preallocate=false"]

    assert run_segstore("append", tmp_path / "new-0", *arguments, stdin=b"x\n").returncode == 0


def test_append_makes_no_topic_of_a_wrong_letter(data: Path):
    """Only ``--partitions`` makes one."""
    done = run_segstore("append", data, "-t", "note", stdin=b"x\n")

    assert done.returncode == 2
    assert b"there is no topic 'note'" in done.stderr
    assert b"did you mean 'notes'? --partitions N makes it" in done.stderr
    assert b"appended" not in done.stderr
    assert not list(data.glob("note-*"))
    assert run_segstore("append", data, "-t", "note", "--partitions", "1").returncode == 0
    assert (data / "note-0").is_dir()
    assert run_segstore("append", data, "-t", "note", stdin=b"x\n").returncode == 0


def test_append_makes_no_log_directory_without_partitions(tmp_path: Path):
    """Nor the directory that is not there."""
    assert run_segstore("append", tmp_path / "no", "-t", "note", stdin=b"x\n").returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_what_was_appended_before_an_error_is_told(tmp_path: Path):
    """The summary counts what stays; an append that failed at once has none."""
    failing = run_segstore("append", tmp_path / "a-0", "--format", "jsonl", stdin=b"no json\n")
    assert failing.returncode == 2
    assert b"appended" not in failing.stderr

    with subprocess.Popen(
        [sys.executable, "-m", "segstore", "append", tmp_path / "a-0", "--format", "jsonl"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"value":"eA=="}\n')
        process.stdin.flush()
        while not (tmp_path / "a-0" / f"{0:020d}.log").stat().st_size:
            assert process.poll() is None
        _, err = process.communicate(b"no json\n", timeout=60)
    assert process.returncode == 2
    assert err.startswith(b"appended 1 record")


def test_dump_says_that_a_file_is_not_there(tmp_path: Path):
    """Before it says anything about names."""
    done = run_segstore("dump", "--files", "nope.log", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"segstore: nope.log: there is no such file\n"


def test_a_childs_words_are_kept_in_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Those it writes after the block was left, too; nothing of them on the terminal."""
    code = (
        "import sys, time; sys.stderr.write('Traceback'); sys.stdin.read(); sys.stderr.write('!')"
    )
    with stderr_to(tmp_path / "log"):
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
        os.write(2, b"ours\n")
    child.communicate(timeout=60)

    assert sorted((tmp_path / "log").read_text()) == sorted("ours\nTraceback!")
    assert capfd.readouterr().err == ""
    os.write(2, b"again\n")
    assert capfd.readouterr().err == "again\n"


def test_a_failure_shows_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Who asks why gets the reason."""

    def fail() -> None:
        with stderr_to(tmp_path / "log"):
            os.write(2, b"no Java\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert "no Java" in capfd.readouterr().err
