"""A forked child kept the locks of its killed parent for as long as it lived [DUR-68].

A lock belongs to the open file description, which parent and child share. Looked for of this kind:
every descriptor that carries a lock - of a partition, of a log directory, of a merge of checkpoints
and of a Spark commit (all `FileLock`), and the spool's ``flock`` locks, where the child of a
process that was alive kept others waiting too - numbers that the child has used again, and a fork
between the open and the entry in the list of locks.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import segstore
from segstore._core import Directory, FileLock
from segstore.remote.spool import Spool
from segstore.remote.spool_view import SpoolView, remove_left_views

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="locks of Linux"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

OPEN = {
    "a partition": "kept = segstore.open(path + '/t-0')",
    "a log directory": "kept = segstore.open_dir(path)",
    "a merge": "kept = Directory(path).lock('.segstore.lock', exclusive=True)",
}
FORK = {
    "os.fork": "child = os.fork()",
    "C code": "child = ctypes.PyDLL(None).fork()",
}
WRITER = """
import ctypes, os, sys, time, segstore
from segstore._core import Directory
path = sys.argv[1]
{open}
{fork}
if child == 0:
    print(os.getpid(), flush=True)
time.sleep(60)
os._exit(0)
"""


@pytest.fixture
def started():
    """Start a writer that forks; end whatever is left of it."""
    processes, children = [], []

    def start(path: Path, held: str, way: str) -> tuple[subprocess.Popen[str], int]:
        code = WRITER.format(open=OPEN[held], fork=FORK[way])
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        children.append(int(process.stdout.readline()))
        return process, children[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()
    for child in children:
        os.kill(child, signal.SIGKILL)


def take(path: Path, held: str) -> None:
    """Take what the writer holds, and give it back."""
    if held == "a partition":
        segstore.open(path / "t-0").close()
    elif held == "a log directory":
        segstore.open_dir(path).close()
    else:
        Directory(path).lock(".segstore.lock", exclusive=True).release()


@pytest.mark.parametrize("way", FORK)
@pytest.mark.parametrize("held", OPEN)
def test_the_lock_is_the_parents_alone(tmp_path, started, held, way):
    """[DUR-65, DUR-68] It holds while the parent lives, and ends with the parent."""
    writer, child = started(tmp_path, held, way)

    with pytest.raises(segstore.LogLockedError):
        take(tmp_path, held)
    writer.kill()
    writer.wait()
    os.kill(child, 0)  # it lives
    take(tmp_path, held)
    os.kill(child, 0)


def test_a_process_of_multiprocessing_lives_on_and_the_log_can_be_opened(tmp_path):
    """The parent closes its log: its own unlock was and is enough, also beside a child."""
    context = multiprocessing.get_context("fork")
    log = segstore.open(tmp_path / "t-0")
    child = context.Process(target=time.sleep, args=(60,))
    child.start()
    try:
        with pytest.raises(segstore.LogLockedError):
            segstore.open(tmp_path / "t-0")
        log.close()
        segstore.open(tmp_path / "t-0").close()
    finally:
        child.kill()
        child.join()


def test_a_number_that_the_child_uses_again_stays_open(tmp_path):
    """The parent's lock objects close nothing in the child: the number is another file's there."""
    lock = FileLock.open_flock(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    number = lock.fileno()
    process = os.fork()
    if process == 0:
        other = os.open("/dev/null", os.O_RDONLY)
        if other != number:
            os.dup2(other, number)
        del lock
        try:
            os.fstat(number)
        except OSError:
            os._exit(1)
        os._exit(0)

    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert lock.held


def test_a_child_of_a_child_can_lock_for_itself(tmp_path):
    """What a child locks is its own: its own child closes that too, and nothing else."""
    directory_path = str(tmp_path)
    kept = Directory(directory_path).lock("parent", exclusive=True)
    told, end = os.pipe()
    if os.fork() == 0:
        own = Directory(directory_path).lock("child", exclusive=True)
        if os.fork() == 0:
            os.write(end, b"x" if not own.held else b"-")  # its handler has run
            time.sleep(60)
            os._exit(0)
        os.write(end, b"x" if own.held and not kept.held else b"-")
        os._exit(0)  # dies without an unlock; the grandchild lives
    assert os.read(told, 1) + os.read(told, 1) == b"xx"
    os.wait()

    Directory(directory_path).lock("child", exclusive=True).release()
    with pytest.raises(segstore.LogLockedError):
        Directory(directory_path).lock("parent", exclusive=True)
    os.close(told)
    os.close(end)


def test_a_view_of_the_spool_is_left_when_its_process_is_gone_though_a_child_lives(tmp_path):
    """The view's ``flock``: what a killed process leaves is removed by the next who makes room."""
    (tmp_path / "views").mkdir()
    told, end = os.pipe()
    process = os.fork()
    if process == 0:
        view = SpoolView(tmp_path / "views")
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        os.write(end, f"{child} {view.path}".encode())
        time.sleep(60)
        os._exit(0)
    child, path = os.read(told, 1000).decode().split()
    try:
        remove_left_views(tmp_path / "views")
        assert Path(path).is_dir()
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        remove_left_views(tmp_path / "views")
        assert not Path(path).exists()
    finally:
        os.kill(int(child), signal.SIGKILL)
        os.close(told)
        os.close(end)


def test_a_descriptor_of_a_flock_is_closed_once(tmp_path):
    """The lock object owns it: in the parent it stays locked until `release`."""
    path = tmp_path / "a"
    lock = FileLock.open_flock(path, os.O_RDWR | os.O_CREAT)
    descriptor = lock.fileno()
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    process = os.fork()
    if process == 0:
        try:
            os.fstat(descriptor)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    other = os.open(path, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.release()
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
    assert not lock.held
    assert lock.fileno() == -1


def locks_of(pid: int, place: Path) -> list[str]:
    """Return what the process has open of the spool's locks below *place*."""
    found = []
    for number in Path(f"/proc/{pid}/fd").iterdir():
        try:
            path = str(number.readlink())
        except FileNotFoundError:  # of the listing
            continue
        if path.startswith(f"{place}/") and path.endswith(("/room", ".lock", ".lock (deleted)")):
            found.append(path)
    return found


@pytest.mark.parametrize("kind", ["a room", "a view", "views that are left"])
def test_a_fork_beside_a_spool_leaves_no_lock_to_the_child(tmp_path, kind):
    """[DUR-68] A descriptor is opened and listed in one step: no fork comes in between."""
    spool = Spool(tmp_path, 1000)
    (tmp_path / "left").touch()
    stop = threading.Event()

    def take_locks() -> None:
        while not stop.is_set():
            if kind == "a room":
                with spool._locked("room"):
                    pass
            elif kind == "a view":
                SpoolView(tmp_path / "views").close()
            else:
                with suppress(FileExistsError):
                    (tmp_path / "views" / "left.lock").hardlink_to(tmp_path / "left")
                remove_left_views(tmp_path / "views")

    before = sys.getswitchinterval()
    threads = [threading.Thread(target=take_locks) for _ in range(2)]
    kept = []
    try:
        sys.setswitchinterval(1e-5)
        for thread in threads:
            thread.start()
        for _ in range(200):
            process = os.fork()
            if process == 0:
                os._exit(len(locks_of(os.getpid(), tmp_path)))
            kept.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    finally:
        stop.set()
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    assert sum(kept) == 0


def test_an_open_for_a_flock_that_fails_says_why(tmp_path):
    """The errors are those of `os.open`."""
    with pytest.raises(FileNotFoundError, match="absent") as caught:
        FileLock.open_flock(tmp_path / "absent", os.O_RDWR)
    assert caught.value.filename == str(tmp_path / "absent")
    FileLock.open_flock(tmp_path / "made", os.O_RDWR | os.O_CREAT | os.O_EXCL).release()
    with pytest.raises(FileExistsError):
        FileLock.open_flock(tmp_path / "made", os.O_RDWR | os.O_CREAT | os.O_EXCL)
