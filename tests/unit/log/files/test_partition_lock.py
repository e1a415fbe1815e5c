"""One writer: of this process, of another, or a broker [DUR-65..DUR-68]."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys

import pytest

import segstore
from segstore import _core
from segstore.errors import ForkedHandleError, LogLockedError
from segstore.log.files.partition_lock import PartitionLock, is_log_directory

F_OFD_SETLK = 37
OPEN_AND_WAIT = """
import sys, segstore
log = segstore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directories(tmp_path):
    """A log directory and a partition in it."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "orders-0").mkdir()
    parent, partition = _core.Directory(str(tmp_path)), _core.Directory(str(tmp_path / "orders-0"))
    yield partition, parent
    partition.close()
    parent.close()


def try_brokers_lock(path):
    """Lock as Java's FileChannel.tryLock does, from another process; True when it is granted."""
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'a+b');"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, check=False)
    return done.returncode == 0


def test_a_second_writer_of_this_process_is_refused(directories):
    """[DUR-67] By device and inode, whatever path it comes by; a third may follow the first."""
    partition, parent = directories
    lock = PartitionLock.acquire(partition, parent)
    again = _core.Directory(partition.path + "/../orders-0")

    with pytest.raises(LogLockedError, match="in this process"):
        PartitionLock.acquire(again, parent)
    lock.release()
    lock.release()
    PartitionLock.acquire(again, parent).release()
    again.close()


def test_a_writer_in_another_process_is_refused(tmp_path):
    """[DUR-65] Until it ends, however it ends; a reader is not."""
    path = tmp_path / "orders-0"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", OPEN_AND_WAIT, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as other:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(LogLockedError, match=r"another process.*read_only=True"):
            segstore.open(path)
        segstore.open(path, read_only=True).close()
        other.kill()
        other.wait()

    segstore.open(path).close()


def test_a_broker_and_a_partition_opened_alone_keep_each_other_out(tmp_path):
    """[DUR-65] The broker's lock is an exclusive fcntl lock on the whole of ``.lock``."""
    lock_file = tmp_path / ".lock"
    lock_file.write_bytes(b"")

    with segstore.open(tmp_path / "orders-0"), segstore.open(tmp_path / "orders-1"):
        assert not try_brokers_lock(lock_file)
    assert try_brokers_lock(lock_file)

    with lock_file.open("r+b") as file:  # OFD, for a broker is another process than this one
        whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(file, F_OFD_SETLK, whole_file)
        with pytest.raises(LogLockedError, match="a broker"):
            segstore.open(tmp_path / "orders-0")
        with pytest.raises(LogLockedError, match="a broker"):
            segstore.open_dir(tmp_path)


def test_nothing_is_created_in_a_directory_that_is_no_log_directory(tmp_path):
    """[DUR-65]"""
    segstore.open(tmp_path / "orders-0").close()

    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"]
    directory = _core.Directory(str(tmp_path))
    assert not is_log_directory(directory)
    (tmp_path / ".lock").write_bytes(b"")
    assert is_log_directory(directory)
    directory.close()


@pytest.mark.usefixtures("directories")
def test_lock_files_stay_and_keep_their_content(tmp_path):
    """[DUR-66] Removing one would let two writers lock two files of one name."""
    (tmp_path / ".lock").write_bytes(b"theirs")
    segstore.open(tmp_path / "orders-0").close()
    inode = (tmp_path / "orders-0" / ".lock").stat().st_ino

    segstore.open(tmp_path / "orders-0").close()

    assert (tmp_path / ".lock").read_bytes() == b"theirs"
    assert (tmp_path / "orders-0" / ".lock").stat().st_ino == inode


def test_what_was_locked_is_let_go_when_the_rest_cannot_be(directories, tmp_path):
    """[DUR-65] The parent's lock comes first, the partition's fails."""
    partition, parent = directories
    theirs = partition.lock(".lock", exclusive=True)

    with pytest.raises(LogLockedError):
        PartitionLock.acquire(partition, parent, home=partition)

    assert try_brokers_lock(tmp_path / ".lock")
    theirs.release()
    PartitionLock.acquire(partition, parent, home=partition).release()


def test_a_forked_child_can_do_nothing_with_the_handle(tmp_path):
    """[DUR-68] It neither writes nor unlocks, and must open the log itself, once it is free."""
    log = segstore.open(tmp_path / "orders-0")
    told, child_end = os.pipe()
    process = os.fork()
    if process == 0:
        answers = []
        for act in (lambda: log.append([(None, b"v")]), log.close, lambda: segstore.open(log.path)):
            try:
                act()
                answers.append("done")
            except (ForkedHandleError, LogLockedError) as error:
                answers.append(type(error).__name__)
        os.write(child_end, " ".join(answers).encode())
        os._exit(0)
    os.close(child_end)
    answers = os.read(told, 1000).decode()
    os.close(told)
    os.waitpid(process, 0)

    assert answers == "ForkedHandleError ForkedHandleError LogLockedError"
    log.append([(None, b"v")])
    with pytest.raises(LogLockedError):
        segstore.open(tmp_path / "orders-0")
    log.close()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_directory_that_is_deleted_before_its_lock_is_taken(directories, is_made_again):
    """[DUR-65] The writer before has renamed it: nothing is written to what will be removed."""
    partition, parent = directories
    parent.rename("orders-0", f"orders-0.{'0' * 32}-delete")
    if is_made_again:
        parent.make_directory("orders-0")
    with pytest.raises(LogLockedError, match="deleted or moved the log at this moment"):
        PartitionLock.acquire(partition, parent, home=partition)
    parent.lock(".lock", exclusive=True).release()
    if is_made_again:
        again = _core.Directory(f"{parent.path}/orders-0")
        PartitionLock.acquire(again, parent, home=again).release()
        again.close()
