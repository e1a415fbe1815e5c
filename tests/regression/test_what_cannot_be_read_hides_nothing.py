"""One page, file or partition that could not be read ended a check: nothing else was reported.

Operator's situations 10, 13, 17, 18, 31 and 32.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore import cli
from segstore.log.check.partition_check import check_partition
from segstore.log.findings.finding import Action, FindingCode, Records
from tests.kits.damaged_logs import batches_of
from tests.kits.preloaded_library import compiled, environment_with
from tests.tidy.project_files import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SEALED = f"{311:020d}"


@pytest.fixture
def data(packed: Path, tmp_path: Path) -> Path:
    """A broker's log directory: orders-0 is good, orders-1 has a broken batch."""
    copy = tmp_path / "data"
    shutil.copytree(packed / "plain-many-segments" / "data", copy, copy_function=shutil.copyfile)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    log = copy / "orders-1" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[batches_of(log)[1].position + 80] = 0xFF
    log.write_bytes(content)
    return copy


def bind(path: Path) -> None:
    here = os.getcwd()  # noqa: PTH109 - the path of a socket is short
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
    os.chdir(here)


KINDS: dict[str, Any] = {
    "a pipe": os.mkfifo,
    "a directory": os.mkdir,
    "a symbolic link": lambda path: path.symlink_to("/dev/null"),
    "a socket": bind,
}
FILES = [
    f"{SEALED}.log",
    f"{SEALED}.index",
    f"{SEALED}.timeindex",
    "00000000000000000615.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_something_else_in_the_place_of_a_file(data, capsys, kind, name):
    """[DUR-99] It is never opened; the rest, and the other partition, are checked."""
    path = data / "orders-0" / name
    path.unlink()
    KINDS[kind](path)
    for command in (["verify"], ["scrub", "--rate", "0"], ["recover", "--dry-run"]):
        assert cli.main([*command, "-q", "--json", str(data)]) == 1
        first, other = map(json.loads, capsys.readouterr().out.splitlines())
        (found,) = [one for one in first["findings"] if one["code"] == "FILE_IS_NO_FILE"]
        assert (found["file"], found["found"], found["action"]) == (name, kind, "MOVE_AWAY")
        assert "BATCH_CORRUPT" in [one["code"] for one in other["findings"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_reads_go_without_an_index_that_is_none(data, kind, suffix):
    """[DUR-8, DUR-53] A derived file costs no record."""
    path = data / "orders-0" / f"{SEALED}.{suffix}"
    path.unlink()
    KINDS[kind](path)

    with segstore.open(data / "orders-0", read_only=True) as log:
        assert [record.offset for record in log] == list(range(700))
        assert next(iter(log.scan(500))).offset == 500
        assert log.offset_for_timestamp(0) == 0


def run(library: Path, data: Path, *command: str, **settings: str) -> tuple[int, list[Any]]:
    """Run a command on a disk with a bad sector; return its exit code, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "segstore", *command, "-q", "--json", str(data)],
        env=environment_with(library, **settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "regression" / "unreadable_pages.c"
    return compiled(source, tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize(
    "command", [("verify",), ("scrub", "--rate", "0"), ("recover", "--dry-run")]
)
def test_a_page_that_cannot_be_read(data, library, command):
    """[DUR-33] Named by file, byte and errno; what is lost is that of its batches."""
    code, (first, other) = run(
        library, data, *command, EIO_FILE=f"{SEALED}.log", EIO_FROM="20480", EIO_TO="24576"
    )

    assert code == 1
    (found,) = first["findings"]
    assert (found["code"], found["position"], found["os_error"]) == ("FILE_UNREADABLE", 20480, 5)
    assert found["lost"] == [[408, 436]]
    assert found["salvageable"] == [[437, 614]]
    assert (first["segments"][2]["batches"], len(first["segments"])) == (8, 3)
    assert "BATCH_CORRUPT" in [one["code"] for one in other["findings"]]


def test_an_index_that_cannot_be_read_costs_no_record(data, library):
    """[DUR-8, DUR-53] A finding that `recover` makes good."""
    bad = {"EIO_FILE": f"{SEALED}.index"}
    code, (first, _) = run(library, data, "verify", **bad)
    (found,) = first["findings"]
    assert (code, found["code"], found["records"]) == (1, "FILE_UNREADABLE", "NONE")
    assert (found["action"], found["repaired"]) == ("RECOVER", True)
    program = (
        "import sys, segstore\n"
        "with segstore.open(sys.argv[1], read_only=True) as log:\n"
        "    print(next(iter(log.scan(500))).offset, len(list(log)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, data / "orders-0"],
        env=environment_with(library, **bad),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["500", "700"], done.stderr


def test_a_partition_that_cannot_be_listed(data, library):
    """[DUR-33] It is named, and the other one is checked."""
    code, (first, other) = run(library, data, "verify", EIO_FILE="/orders-0", EIO_LIST="1")

    (found,) = first["findings"]
    assert (code, found["code"], found["os_error"]) == (1, "DIRECTORY_UNREADABLE", 5)
    assert "BATCH_CORRUPT" in [one["code"] for one in other["findings"]]


@pytest.mark.parametrize("damage", [bytes, lambda _: b"", lambda size: b"\0\1" + bytes(size // 2)])
def test_broken_snapshots(packed, tmp_path, damage):
    """[DUR-8, PSM-60] Dry run, recover and a second verify agree: all of them are deleted."""
    path = tmp_path / "exactly-0"
    shutil.copytree(packed / "idempotent" / "data" / "exactly-0", path)
    snapshots = sorted(path.glob("*.snapshot"))
    for file in snapshots:
        file.chmod(0o644)
        file.write_bytes(damage(file.stat().st_size))

    found = check_partition(str(path)).findings
    assert [(one.file, one.code, one.repaired) for one in found] == [
        (file.name, FindingCode.SNAPSHOT_CORRUPT, True) for file in snapshots
    ]
    assert cli.main(["recover", "-q", "--dry-run", str(path)]) == 0
    assert cli.main(["recover", "-q", str(path)]) == 0
    assert check_partition(str(path)).ok


def test_zeros_behind_a_sealed_segment_with_a_sidecar(tmp_path, capsys):
    """[DUR-60, DUR-80] The cut is reported, and the sidecar is written again."""
    path = tmp_path / "sums-0"
    with segstore.open(path, checksum_sidecar=True, internal_segment_bytes=2000) as log:
        for _ in range(60):
            log.append([(b"k", b"v" * 50)])
        log.write_checksum_sidecars()
    file = path / f"{16:020d}.log"
    size = file.stat().st_size
    os.truncate(file, size + 4096)

    (found,) = check_partition(str(path)).findings
    assert (found.code, found.position, found.size_bytes) == (FindingCode.ZEROS_AT_END, size, 4096)
    assert (found.records, found.repaired) == (Records.NONE, True)
    dry = cli.main(["recover", "-q", "--dry-run", str(path)])
    capsys.readouterr()
    assert cli.main(["recover", "-q", str(path)]) == dry == 1
    assert "[ZEROS_AT_END]" in capsys.readouterr().out
    assert file.stat().st_size == size
    assert check_partition(str(path)).ok
    assert (path / f"{16:020d}.segsum").exists()


def test_files_of_another_replica(data):
    """[DUR-54] Two files hold the same offsets: that is what is said, and nothing is lost."""
    path = data / "orders-0"
    batches = [
        (one.base_offset, file.read_bytes()[one.position : one.end])
        for file in sorted(path.glob("*.log"))
        for one in batches_of(file)
    ]
    files: dict[int, bytes] = {}
    for base, content in batches:
        border = max(start for start in (0, 150, 400, 580) if start <= base)
        name = next((known for known in files if known >= border), base)
        files[name] = files.get(name, b"") + content
    for base, content in files.items():
        (path / f"{base:020d}.log").write_bytes(content)

    report = check_partition(str(path))

    overlaps = [one for one in report.findings if one.code == FindingCode.SEGMENTS_OVERLAP]
    assert overlaps
    assert {one.records for one in overlaps} == {Records.NONE}
    assert {one.action for one in overlaps} == {Action.SALVAGE}
    assert not [one for one in report.findings if one.lost]


@pytest.mark.parametrize("content", [b"", bytes(40), b"version: 0\ntopic_id:"])
def test_nobody_advises_to_delete_the_topic_id(data, content):
    """[DUR-21] A broker takes a log without it for a stray one."""
    (data / "orders-0" / "partition.metadata").write_bytes(content)

    (found,) = check_partition(str(data / "orders-0")).findings

    assert found.code == FindingCode.TOPIC_ID_MISSING
    assert "delete" not in json.dumps(found.to_dict())
