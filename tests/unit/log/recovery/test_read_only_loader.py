"""A reader changes nothing, takes no lock, and sees what a writer would make of the log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore.errors import LogNotFoundError, NotALogError
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    append_bytes,
    build,
    cut,
    expected_values,
    values_of,
)

READ_EVERYTHING = """
import sys, segstore

def read(log, topic, number):
    try:
        print(topic, number, log.scan().count())
        log.offset_for_timestamp(0), log.verify(), log.refresh()
    except segstore.SegstoreError as error:
        print(topic, number, type(error).__name__)

for root in sys.argv[1:]:
    with segstore.open_dir(root, read_only=True) as manager:
        for topic, numbers in manager.topics().items():
            for number in numbers:
                read(manager.log(topic, number), topic, number)
"""


def state_of(root):
    """Everything that a write could change: names, kinds, sizes, times, inodes."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        info = path.lstat()
        found[str(path)] = (
            info.st_mode,
            info.st_ino,
            info.st_size,
            info.st_mtime_ns,
            info.st_ctime_ns,
        )
    return found


def damaged(root):
    """A log directory with everything that a writer would touch."""
    for name, clean in (("clean-0", True), ("crashed-0", False), ("torn-0", False)):
        build(root / name, clean=clean)
    torn = root / "torn-0"
    append_bytes(max(torn.glob("*.log")), b"\x01" * 100)
    (torn / "00000000000000000003.log.deleted").write_bytes(b"x")
    (torn / "00000000000000000003.index").write_bytes(b"x")
    (torn / "leader-epoch-checkpoint").unlink()
    for path in (root / "crashed-0").glob("*index"):
        path.unlink()
    (root / "meta.properties").write_text("version=1\n")
    (root / ".kafka_cleanshutdown").write_text("")


def read_everything(*roots, prefix=()):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [*prefix, sys.executable, "-c", READ_EVERYTHING, *roots],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_reading_leaves_no_trace(tmp_path):
    """[DUR-71] No byte, no name, no time but that of access; nothing of what recovery would do."""
    damaged(tmp_path)
    before = state_of(tmp_path)

    done = read_everything(tmp_path)

    assert done.stdout.split() == ["clean", "0", "60", "crashed", "0", "60", "torn", "0", "60"]
    assert state_of(tmp_path) == before


def test_a_brokers_directories_are_read_without_a_trace(golden, copy_of, tmp_path):
    """[DUR-71] Every partition of each case, as the broker left it."""
    cases = sorted(path for path in golden.iterdir() if (path / "data").is_dir())
    roots = [copy_of(one / "data").rename(tmp_path / one.name) for one in cases]
    before = state_of(tmp_path)

    done = read_everything(*roots)

    assert done.returncode == 0, done.stderr
    assert state_of(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_read_only_mount_can_be_read_and_is_refused_for_writing(tmp_path):
    """[DUR-40, DUR-71] A bind mount that takes no write at all."""
    damaged(tmp_path)
    script = tmp_path / "mounted.sh"
    script.write_text(
        'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift 1 && exec "$@"\n'
    )
    prefix = ["unshare", "--mount", "sh", str(script), str(tmp_path)]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")

    done = read_everything(tmp_path, prefix=prefix)
    write = "import sys, segstore; segstore.open(sys.argv[1])"
    refused = subprocess.run(
        [*prefix, sys.executable, "-c", write, str(tmp_path / "crashed-0")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )

    assert done.stdout.split() == ["clean", "0", "60", "crashed", "0", "60", "torn", "0", "60"]
    assert "LogPermissionError" in refused.stderr
    assert "read_only=True" in refused.stderr


def test_a_reader_ends_where_a_writer_would_cut(tmp_path):
    """[DUR-76] A batch that is being written is the end for now, no error."""
    directory = build(tmp_path / "orders-0")
    cut(directory.last, directory.last.stat().st_size - 9)

    with directory.open(read_only=True) as log:
        assert values_of(log) == expected_values(0, RECORDS_COUNT - 1)
        assert log.log_end_offset == RECORDS_COUNT - 1
        assert "incomplete" in log.report.reason
        assert log.report.warnings == []


def test_a_reader_is_bounded_by_what_the_writer_has_synced_where_it_asks(tmp_path):
    """[DUR-81] In another process the durable end is the recovery point."""
    directory = build(tmp_path / "orders-0")
    directory.set_recovery_point(40)

    with directory.open(read_only=True) as log:
        assert (log.recovery_point, log.durable_offset) == (40, 40)
        durable = log.scan(isolation=segstore.Isolation.DURABLE).tuples()
        assert len(durable) == 40


def test_there_must_be_something_to_read(tmp_path):
    """[DUR-71] A missing directory, an empty one, one with a file beside."""
    with pytest.raises(LogNotFoundError, match="no such directory"):
        segstore.open(tmp_path / "orders-0", read_only=True)
    (tmp_path / "orders-1").mkdir()
    with pytest.raises(NotALogError, match=r"no \.log file"):
        segstore.open(tmp_path / "orders-1", read_only=True)
    with pytest.raises(LogNotFoundError, match="beside it are orders-1"):
        segstore.open(tmp_path / "orders-0", read_only=True)
    assert sorted(path.name for path in Path(tmp_path).rglob("*")) == ["orders-1"]
