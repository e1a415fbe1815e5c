"""Reading what is no partition's directory, and past damage. Cases 28, 35 and 36."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.errors import IllegalArgumentError, InvalidTopicError, NotALogError
from tests.kits.damaged_logs import TIME, batches_of, build

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kits.damaged_logs import LogDirectory

Run = "Callable[..., tuple[int, bytes, bytes]]"
COUNT = 60


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command in this process; return its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, bytes, bytes]:
        code = cli.main([*map(str, arguments)])
        return code, *capfdbinary.readouterr()

    return run


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    """Sixty batches of a record each, closed."""
    return build(tmp_path / "data" / "orders-0", clean=True)


def overwrite_batch(directory: LogDirectory) -> None:
    """Zeros over a batch of the last segment that follows the first of it."""
    path = directory.file(directory.bases[-1])
    batch = batches_of(path)[1]
    with path.open("r+b") as file:
        file.seek(batch.position)
        file.write(b"\0" * (batch.end - batch.position))


def lines(first: int, behind: int = COUNT) -> bytes:
    return b"".join(b"%d\n" % offset for offset in range(first, behind))


# ---- one file alone: case 35 -------------------------------------------------------------------


def test_cat_reads_files_as_one_log(directory: LogDirectory, tmp_path: Path, run: Run):
    """Case 22: files as a shell gives them, a quoted pattern, an archive; holes are told."""
    files = sorted(directory.path.glob("*.log"))
    archive = tmp_path / "orders-0.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(directory.path, "orders-0")
    for given in (files[::-1], [directory.path / "*.log"], [archive]):
        assert run("cat", *given, "-f", "%o\\n", "-e") == (
            0,
            lines(0),
            b"% Reached end of topic orders [0] at offset 60\n",
        )
    assert run("cat", archive, "-f", "%t %p %o\\n", "-o", "-1")[1] == b"orders 0 59\n"

    first, following = directory.bases[1:3]
    files.pop(1)
    code, out, err = run("cat", *files, "-f", "%o\\n")
    assert (code, out) == (0, lines(0, first) + lines(following))
    assert f"no file has a record of offsets {first} to {following - 1}".encode() in err
    assert run("cat", *files, "-f", "%o\\n", "-o", following) == (0, lines(following), b"")
    assert run("cat", *files, "-f", "%o\\n", "-q")[2] == b""

    archive.write_bytes(archive.read_bytes()[:-30])
    code, out, err = run("cat", archive)
    assert (code, out) == (1, b"")
    assert b"the archive was cut or is damaged" in err
    assert b"unpacks what is whole" in err
    assert run("cat", directory.path, directory.path)[0] == 2
    assert run("cat", directory.path, *files, "-t", "orders")[0] == 2


def test_cat_reads_one_log_file(directory: LogDirectory, tmp_path: Path, run: Run):
    """Case 35: in its directory, or under any other name."""
    base, following = directory.bases[1:3]
    assert run("cat", directory.file(base), "-f", "%t %p %o\n", "-c", "1") == (
        0, b"orders 0 %d\n" % base, b"",
    )  # fmt: skip
    copy = tmp_path / "from the mail.bin"
    shutil.copy(directory.file(base), copy)
    assert run("cat", copy, "-f", "%o\n") == (0, lines(base, following), b"")
    assert run("cat", copy, "-f", "%o\n", "-o", "-2") == (0, lines(following - 2, following), b"")
    assert run("cat", copy, "-f", "%o\n", "-o", base + 1)[1] == lines(base + 1, following)
    assert run("cat", copy, "--as", "other-7", "-f", "%t %p\n", "-c", "1")[1] == b"other 7\n"
    os.truncate(copy, copy.stat().st_size - 1)
    code, out, err = run("cat", copy, "-f", "%o\n")
    assert (code, out) == (1, lines(base, following - 1))
    assert b"offsets %d on" % (following - 1) in err


@pytest.mark.parametrize("command", ["verify", "tail", "salvage", "inspect", "recover"])
def test_other_commands_say_what_reads_one_file(directory: LogDirectory, run: Run, command: str):
    """Case 35: a file is no log's directory."""
    target = ["saved/orders-0"] if command == "salvage" else []
    code, _, err = run(command, directory.file(0), *target)
    assert code == 2
    assert b"`segstore cat`" in err


def test_dump_takes_files_of_any_name(directory: LogDirectory, tmp_path: Path, run: Run):
    """Case 35: an index alone has nothing to be compared with; its entries are printed."""
    base = directory.bases[1]
    alone = tmp_path / "alone"
    alone.mkdir()
    for kind in ("log", "index", "timeindex"):
        beside = run("dump", "--files", directory.file(base, kind))
        assert beside[0] == 0
        for name in (f"{base:020}.{kind}", f"{base:020}.{kind}.deleted"):
            shutil.copy(directory.file(base, kind), alone / name)
            code, out, _ = run("dump", alone / name)
            assert (code, out.splitlines()[1:]) == (0, beside[1].splitlines()[1:])
            (alone / name).unlink()
    shutil.copy(directory.file(base, "index"), alone)
    code, out, err = run("dump", "--files", alone / f"{base:020}.index")
    assert code == 0
    assert b"position: " in out
    assert b"not compared" in err
    shutil.copy(directory.file(base), alone / "a.copy")
    code, out, _ = run("dump", alone / "a.copy", "--format", "json")
    assert (code, out.count(b"\n")) == (0, len(batches_of(directory.file(base))))


# ---- a directory of another name: case 28 ------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["orders-0.bak", "copy of orders-0", "orders-0-delete", "orders-0 (1)", "my topic-0"]
)
def test_a_copy_of_another_name_is_read(
    directory: LogDirectory, tmp_path: Path, run: Run, name: str
):
    """Case 28: the refusal names the option that reads it."""
    copy = tmp_path / name
    directory.copy(copy)
    code, _, err = run("cat", copy)
    assert code == 2
    assert b"--as " in err
    assert run("cat", copy, "--as", "orders-0", "-f", "%t %o\n", "-c", "1") == (
        0, b"orders 0\n", b"",
    )  # fmt: skip
    assert run("tail", copy, "--as", "orders-0", "-n", "1")[0] == 0
    with pytest.raises((NotALogError, InvalidTopicError), match="as_="):
        segstore.open(copy, read_only=True)
    with segstore.open(copy, read_only=True, as_="orders-0") as log:
        assert log.topic_partition == ("orders", 0)
        assert log.scan().count() == COUNT
    assert run("salvage", "-q", copy, tmp_path / "saved" / "orders-0")[0] == 0
    assert run("salvage", "-q", copy, tmp_path / "saved" / "t-1", "--as", "orders-0")[0] == 0
    assert run("cat", tmp_path / "saved" / "t-1", "-f", "%o\n")[1] == lines(0)
    with pytest.raises(IllegalArgumentError):
        segstore.open(copy, as_="orders-0")


READERS = (
    ("verify", "-q", "--json"),
    ("scrub", "-q", "--json", "--rate", "0"),
    ("inspect", "-q", "--json"),
    ("ls", "--json"),
)
OF_A_LOOK = {"path", "seconds", "notes", "forecast", "findings", "repair"}
"""What each look at a directory has of its own; findings have the path in their advice.

`recover` refuses the name of a copy: it repairs nothing there.
"""


@pytest.mark.parametrize("command", READERS, ids=lambda each: each[0])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_command_says_of_a_copy_what_it_says_of_the_partition(
    directory: LogDirectory,
    run: Run,
    tmp_path: Path,
    command: tuple[str, ...],
    *,
    is_damaged: bool,
):
    """[DUR-7, DUR-64] Case 28: `--as` reads the checkpoints and the state as of that partition."""
    data, elsewhere = directory.path.parent, tmp_path / "elsewhere"
    (data / "log-start-offset-checkpoint").write_text("0\n1\norders 0 30\n")
    if is_damaged:
        (directory.path / ".segstore").unlink()
        overwrite_batch(directory)
    shutil.copytree(data, elsewhere)
    (elsewhere / "orders-0").rename(elsewhere / "orders-0.bak")
    code, original, _ = run(*command, directory.path)
    code_of_copy, copy, _ = run(*command, elsewhere / "orders-0.bak", "--as", "orders-0")
    expected, found = json.loads(original), json.loads(copy)

    assert code_of_copy == code
    assert found["log_start_offset"] == 30
    for name in expected.keys() - OF_A_LOOK:
        there = str(expected[name]).replace(str(data), str(elsewhere))
        assert str(found[name]) == there.replace("elsewhere/orders-0", "elsewhere/orders-0.bak")
    codes = [(one["code"], one["file"]) for one in expected.get("findings", ())]
    assert [(one["code"], one["file"]) for one in found.get("findings", ())] == codes


def test_no_finding_of_a_copy_is_left_to_recover(directory: LogDirectory, run: Run):
    """Case 28: it refuses the directory, and the check says which name it must have."""
    overwrite_batch(directory)
    copy = directory.path.with_name("orders-0.bak")
    directory.path.rename(copy)
    code, out, _ = run("verify", "-q", "--json", copy, "--as", "orders-0")
    report = json.loads(out)

    assert code == 1
    assert [one["repaired"] for one in report["findings"]] == [False] * len(report["findings"])
    assert "`segstore recover` needs the directory's name to be orders-0" in report["notes"]
    assert report["repair"]["rebuilt"] == report["repair"]["removed"] == []
    assert run("recover", "-q", copy)[0] != 0
    with segstore.open(copy, read_only=True, as_="orders-0") as log:
        assert [one.code for one in log.verify().findings] == [
            one["code"] for one in report["findings"]
        ]


@pytest.mark.parametrize("command", READERS, ids=lambda each: each[0])
def test_as_is_refused_for_a_directory_of_several(
    directory: LogDirectory, run: Run, command: tuple[str, ...]
):
    """Case 28: all of them would be the same partition."""
    code, out, err = run(*command, directory.path.parent, "--as", "orders-0")

    assert (code, out) == (2, b"")
    assert b"is a directory of" in err


def test_checkpoints_above_are_not_those_of_a_copy(directory: LogDirectory, run: Run):
    """Case 28: they speak of the directory of that name, which is beside it."""
    data = directory.path.parent
    for name in ("orders-0.bak", f"orders-0.{'0' * 32}-delete"):
        directory.copy(data / name)
    (data / "log-start-offset-checkpoint").write_text("0\n1\norders 0 30\n")
    assert run("cat", directory.path, "-f", "%o\n")[1] == lines(30)
    assert run("cat", data / "orders-0.bak", "--as", "orders-0", "-f", "%o\n")[1] == lines(0)
    assert run("cat", data / f"orders-0.{'0' * 32}-delete", "-f", "%o\n")[1] == lines(0)
    shutil.rmtree(directory.path)
    assert run("cat", data / "orders-0.bak", "--as", "orders-0", "-f", "%o\n")[1] == lines(30)


def test_ls_names_what_it_leaves_out(directory: LogDirectory, run: Run):
    """Case 28: one line; what is no log is not named."""
    data = directory.path.parent
    left_out = [f"orders-1.{'0' * 32}-{kind}" for kind in ("delete", "stray", "future")]
    for name in (*left_out, "orders-0.bak"):
        directory.copy(data / name)
    for name in ("lost+found", "images"):
        (data / name).mkdir()
    code, out, err = run("ls", data)
    assert (code, out.count(b"\n"), err.count(b"\n")) == (0, 2, 1)
    for name in (*left_out, "orders-0.bak"):
        assert name.encode() in err
    assert b"images" not in err


def test_salvage_names_a_path_for_the_new_log(directory: LogDirectory, tmp_path: Path, run: Run):
    """Case 35: a folder of another name is no place for it; the refusal says which one is."""
    saved = tmp_path / "saved"
    saved.mkdir()
    code, _, err = run("salvage", "-q", directory.path, saved)
    assert code == 2
    assert f"{saved}/orders-0".encode() in err
    assert run("salvage", "-q", directory.path, f"{saved}/orders-0")[0] == 0
    assert run("salvage", "-q", directory.path, f"{saved}/orders-0")[0] == 1


# ---- past damage: case 36 ----------------------------------------------------------------------


@pytest.fixture
def hole(directory: LogDirectory) -> tuple[int, int]:
    """Zeros over three batches of the second segment: the first offset and the one behind."""
    path = directory.file(directory.bases[1])
    gone = batches_of(path)[1:4]
    with path.open("r+b") as file:
        file.seek(gone[0].position)
        file.write(b"\0" * (gone[-1].end - gone[0].position))
    return gone[0].base_offset, gone[-1].base_offset + 1


def test_cat_says_how_it_goes_on_and_does(directory: LogDirectory, hole: tuple[int, int], run: Run):
    """Case 36: the command that the error names prints what follows."""
    first, behind = hole
    code, out, err = run("cat", directory.path, "-f", "%o\n")
    assert (code, out) == (1, lines(0, first))
    assert b"-o %d" % behind in err
    assert run("cat", directory.path, "-f", "%o\n", "-o", behind) == (0, lines(behind), b"")


@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_cat_leaves_out_what_is_damaged(
    directory: LogDirectory,
    hole: tuple[int, int],
    run: Run,
    isolation: str,
    has_state: bool,  # noqa: FBT001 - a parameter of the test
):
    """Case 36: exit code 1 where something was left out; also where the log ends at the damage."""
    first, behind = hole
    if not has_state:
        for path in directory.path.iterdir():
            if path.suffix != ".log":
                path.unlink()
        code, out, err = run("cat", directory.path, "-f", "%o\n", "--isolation", isolation)
        assert (code, out) == (1, lines(0, first))
        assert b"--skip-damaged" in err
    options = ["-f", "%o\n", "--skip-damaged", "--isolation", isolation]
    code, out, err = run("cat", directory.path, *options)
    assert (code, out) == (1, lines(0, first) + lines(behind))
    assert b"offsets %d to %d" % (first, behind - 1) in err
    assert run("cat", directory.path, *options, "-o", behind)[1] == lines(behind)
    assert run("cat", directory.path, *options, "-c", first)[:2] == (0, lines(0, first))
    assert run("cat", directory.path, *options, "-o", f"s@{TIME + behind}")[1] == lines(behind)
    until = run("cat", directory.path, *options, "-o", f"e@{TIME + behind + 1}")
    assert until[:2] == (1, lines(0, first) + lines(behind, behind + 1))
    code, out, _ = run("cat", directory.path, *options, "--no-check-crcs")
    assert (code, out) == (2, b"")


def test_a_count_that_ends_behind_damage_reports_what_it_passed(
    directory: LogDirectory, hole: tuple[int, int], run: Run
):
    """[DUR-79] Case 36: with `-c` too; a range behind the last record printed is not reported."""
    first, behind = hole
    second = directory.file(directory.bases[2])
    gone = batches_of(second)[2]
    with second.open("r+b") as file:
        file.seek(gone.position)
        file.write(b"\0" * (gone.end - gone.position))
    ranges = [(first, behind), (gone.base_offset, gone.base_offset + 1)]
    kept = [*range(first), *range(behind, gone.base_offset), *range(gone.base_offset + 1, COUNT)]
    for count in (first - 1, first, first + 1, gone.base_offset - (behind - first) + 1, len(kept)):
        code, out, err = run("cat", directory.path, "-f", "%o\n", "--skip-damaged", "-c", count)
        passed = [one for one in ranges if one[0] < kept[count - 1]]

        assert out == b"".join(b"%d\n" % offset for offset in kept[:count])
        assert (code, err.count(b"left out: ")) == (min(len(passed), 1), len(passed)), count
    assert run("cat", directory.path, "-f", "%o\n", "-c", first) == (0, lines(0, first), b"")


def test_cat_of_a_damaged_file(directory: LogDirectory, hole: tuple[int, int], run: Run):
    """Cases 35 and 36: the same of one file alone."""
    first, behind = hole
    base, following = directory.bases[1:3]
    file = directory.file(base)
    code, out, err = run("cat", file, "-f", "%o\n")
    assert (code, out) == (1, lines(base, first))
    assert b"-o %d" % behind in err
    code, out, err = run("cat", file, "-f", "%o\n", "--skip-damaged")
    assert (code, out) == (1, lines(base, first) + lines(behind, following))
    assert b"offsets %d to %d" % (first, behind - 1) in err
