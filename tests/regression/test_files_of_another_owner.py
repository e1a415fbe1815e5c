"""Root repairs the log of a broker, which runs as another user [DUR-133]. Case 33.

What root makes or replaces belongs to the owner of the directory, or the broker cannot open it.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING, NamedTuple

import pytest

import segstore
from segstore import cli
from segstore._core import Directory, FileBarrier
from tests.kits.log_kit import in_a_child

if TYPE_CHECKING:
    from pathlib import Path

OWNER, GROUP, STRANGER = 65534, 65533, 65532
MARKER = ".kafka_cleanshutdown"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


class Access(NamedTuple):
    """Who may do what."""

    owner: int
    group: int
    mode: str


def access_of(path: Path) -> Access:
    found = path.lstat()
    return Access(found.st_uid, found.st_gid, oct(stat.S_IMODE(found.st_mode)))


def give_away(path: Path, *, directory_mode: int = 0o755, file_mode: int = 0o644) -> None:
    for one in (path, *path.rglob("*")):
        os.chown(one, OWNER, GROUP)
        one.chmod(directory_mode if one.is_dir() else file_mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with a torn log, which a broker owns."""
    with segstore.open_dir(tmp_path / "data") as logs:
        logs.create_topic("orders", 2)
        log = logs.log("orders", 0)
        for _ in range(3):
            log.append([(b"key", b"value")] * 10)
            log.roll()
        log.append([(b"key", b"value")] * 10)
    partition = tmp_path / "data" / "orders-0"
    last = max(partition.glob("*.log"))
    last.write_bytes(last.read_bytes() + b"\1" * 100)
    for name in (MARKER, "orders-0/.lock", "orders-0/.segstore", f"orders-0/{MARKER}"):
        (tmp_path / "data" / name).unlink()
    next(partition.glob("*.timeindex")).unlink()
    give_away(tmp_path / "data")
    return tmp_path / "data"


def test_what_recover_makes_and_replaces_is_the_directorys(data: Path):
    """[DUR-133] Indexes, checkpoints, snapshots, markers, locks, quarantine and sidecars."""
    before = {path.name for path in data.rglob("*")}

    assert cli.main(["recover", "-q", "--checksum-sidecars", str(data)]) == 1

    made = {path.name for path in data.rglob("*")} - before
    assert {".segstore", ".lock", MARKER} - before <= made
    assert any("quarantine" in name for name in made)
    assert any(name.endswith(".segsum") for name in made)
    for path in data.rglob("*"):
        expected = Access(OWNER, GROUP, "0o755" if path.is_dir() else "0o644")
        assert access_of(path) == expected, path


def test_a_file_that_is_replaced_keeps_its_owner_and_mode(data: Path):
    """[DUR-133] Also where they differ from those of the directory."""
    kept = {}
    for name, owner, mode in (
        ("leader-epoch-checkpoint", STRANGER, 0o600),
        ("recovery-point-offset-checkpoint", 0, 0o664),
    ):
        path = data / "orders-0" / name
        os.chown(path, owner, GROUP)
        path.chmod(mode)
        kept[path] = (access_of(path), path.stat().st_ino)

    with segstore.open(data / "orders-0") as log:
        log.append_as_leader(_batch(), leader_epoch=7)

    for path, (access, inode) in kept.items():
        assert path.stat().st_ino != inode
        assert access_of(path) == access


def test_new_files_have_the_mode_that_files_of_such_a_directory_have(data: Path):
    """[DUR-133] A directory that is closed to others gets no file that they can read."""
    give_away(data, directory_mode=0o2770, file_mode=0o660)

    with segstore.open(data / "orders-0") as log:
        log.roll()
        log.append([(None, b"value")])

    newest = max((data / "orders-0").glob("*.log"))
    assert access_of(newest) == Access(OWNER, GROUP, "0o660")


def test_new_directories_are_those_of_the_owner_above(data: Path, tmp_path: Path):
    """[DUR-133] Of a new topic, of a log that is made alone, and of a salvage."""
    with segstore.open_dir(data) as logs:
        logs.create_topic("new", 1)
    segstore.open(data / "alone" / "orders-5").close()
    assert cli.main(["salvage", str(data / "orders-0"), str(data / "salvaged" / "orders-0")]) == 1

    for name in ("new-0", "alone", "alone/orders-5", "salvaged", "salvaged/orders-0"):
        assert access_of(data / name) == Access(OWNER, GROUP, "0o755"), name
    for path in (data / "salvaged").rglob("*.log"):
        assert access_of(path) == Access(OWNER, GROUP, "0o644")
    (tmp_path / "ours").mkdir()
    segstore.open(tmp_path / "ours" / "orders-0").close()
    assert access_of(tmp_path / "ours" / "orders-0").owner == 0


def test_who_is_not_root_gives_nothing_away(tmp_path: Path):
    """[DUR-133] And the log works."""
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, OWNER, GROUP)
    data.chmod(0o777)
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)

    def append_as_stranger() -> bool:
        os.setgroups([])
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        with segstore.open(data / "orders-0", durability="none") as log:
            log.append([(None, b"value")])
            return log.report.warnings == []

    assert in_a_child(append_as_stranger) == 0
    assert access_of(data / "orders-0").owner == STRANGER
    assert {access_of(path).owner for path in (data / "orders-0").iterdir()} == {STRANGER}


def test_root_is_told_of_what_the_owner_cannot_open(data: Path):
    """[DUR-133] As an earlier version has left it, or a file system that refuses."""
    lock = data / "orders-0" / ".lock"
    lock.touch(mode=0o640)

    with segstore.open(data / "orders-0") as log:
        (warning,) = [text for text in log.report.warnings if "chown" in text]

    assert ".lock" in warning
    assert f"chown -R {OWNER}" in warning


def test_a_link_in_the_place_of_what_is_replaced_says_nothing(tmp_path: Path):
    """[DUR-99, DUR-133] Its owner and mode are those of another file."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"x")
    secret.chmod(0o777)
    (tmp_path / "name").symlink_to(secret)

    directory = Directory(str(tmp_path))
    directory.write_file_atomically("name", b"new", FileBarrier.LOG_STATE)
    directory.close()

    assert access_of(tmp_path / "name").mode == "0o640"
    assert secret.read_bytes() == b"x"
    shutil.rmtree(tmp_path)


def _batch() -> bytes:
    from tests.kits.log_kit import singleton

    return singleton()
