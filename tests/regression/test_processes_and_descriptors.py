"""Forks, owners and descriptors: what a process shares, keeps and gives back."""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import segstore
from segstore import _core, cli
from segstore._core import Directory, FileBarrier, FileLock
from segstore.errors import IllegalStateError
from segstore.remote.spool import Spool
from segstore.remote.spool_view import SpoolView, remove_left_views
from tests.kits.log_kit import in_a_child
from tests.kits.preloaded_library import compiled, environment_with

# ---- locks after a fork --------------------------------------------------------------------------
# A forked child kept the locks of its killed parent for as long as it lived [DUR-68].
#
# A lock belongs to the open file description, which parent and child share. Looked for of this
# kind: every descriptor that carries a lock - of a partition, of a log directory, of a merge of
# checkpoints and of a Spark commit (all `FileLock`), and the spool's ``flock`` locks, where the
# child of a process that was alive kept others waiting too - numbers that the child has used again,
# and a fork between the open and the entry in the list of locks.


LOCKS_OF_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="locks of Linux")
FORK_WARNINGS_IGNORED = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
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


@LOCKS_OF_LINUX
@FORK_WARNINGS_IGNORED
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


@LOCKS_OF_LINUX
@FORK_WARNINGS_IGNORED
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


@LOCKS_OF_LINUX
@FORK_WARNINGS_IGNORED
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


@LOCKS_OF_LINUX
@FORK_WARNINGS_IGNORED
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


@LOCKS_OF_LINUX
@FORK_WARNINGS_IGNORED
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


@LOCKS_OF_LINUX
@FORK_WARNINGS_IGNORED
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


@LOCKS_OF_LINUX
@FORK_WARNINGS_IGNORED
@pytest.mark.parametrize("kind", ["a room", "a view", "views that are left"])
def test_a_fork_beside_a_spool_leaves_no_lock_to_the_child(tmp_path, kind, few_or_many):
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
        for _ in range(few_or_many(50, 200)):
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


@LOCKS_OF_LINUX
@FORK_WARNINGS_IGNORED
def test_an_open_for_a_flock_that_fails_says_why(tmp_path):
    """The errors are those of `os.open`."""
    with pytest.raises(FileNotFoundError, match="absent") as caught:
        FileLock.open_flock(tmp_path / "absent", os.O_RDWR)
    assert caught.value.filename == str(tmp_path / "absent")
    FileLock.open_flock(tmp_path / "made", os.O_RDWR | os.O_CREAT | os.O_EXCL).release()
    with pytest.raises(FileExistsError):
        FileLock.open_flock(tmp_path / "made", os.O_RDWR | os.O_CREAT | os.O_EXCL)


# ---- descriptors after a close -------------------------------------------------------------------
# What a close gave back late, and what an open that failed left behind.
#
# What was read kept the directory open after the log's close; that a directory for the state cannot
# be made was noticed when the partition's had been.


ASKS_PROC = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def open_below(path: Path) -> list[str]:
    """Files and directories below *path* that this process has open."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of this listing itself
            targets.append(str(descriptor.readlink()))
    return [target for target in targets if target.startswith(str(path))]


@ASKS_PROC
@pytest.mark.parametrize(
    "settings", [{}, {"read_only": True}, {"recovery": "kafka"}], ids=["safe", "reader", "kafka"]
)
def test_nothing_is_open_after_a_close(tmp_path, settings):
    """Whoever keeps a fetch, a slice, a scan or the closed log itself."""
    path = tmp_path / "a-0"
    with segstore.open(path) as log:
        for _ in range(3):
            log.append([(b"k", b"v")])
            log.roll()
    log = segstore.open(path, **settings)
    kept = [log.read(0, 100), log.slice(1, 100), log.scan(), log.segments()]
    assert open_below(path)

    log.close()

    assert open_below(tmp_path) == []
    assert [record.value for record in kept[0]] == [b"v"]
    with pytest.raises(segstore.ClosedError):
        list(kept[1])


@ASKS_PROC
def test_nothing_is_open_after_the_close_of_a_manager(tmp_path):
    with segstore.open_dir(tmp_path / "all") as logs:
        logs.create_topic("t", 2)
        logs.append("t", [(b"k", b"v")])
        kept = logs.log("t", 0).slice(0, 100)
        assert open_below(tmp_path)
    assert open_below(tmp_path) == []
    assert kept.size_bytes >= 0


@ASKS_PROC
@pytest.mark.parametrize("opened", [segstore.open, segstore.open_dir])
def test_a_state_directory_that_cannot_be_made_leaves_nothing_behind(tmp_path, opened):
    (tmp_path / "file").touch()
    with pytest.raises(segstore.SegstoreError):
        opened(tmp_path / "a-0", recovery="kafka", state_dir=tmp_path / "file" / "state")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@ASKS_PROC
@pytest.mark.parametrize("opened", [segstore.open, segstore.open_dir])
def test_the_first_open_makes_both_directories(tmp_path, opened):
    """The one for the state may be beside the first partition, or be it."""
    name = "a-0" if opened is segstore.open else "all"
    path = tmp_path / "new" / name
    opened(path, recovery="kafka", state_dir=tmp_path / "new" / "state").close()
    assert {"state", name} == {file.name for file in path.parent.iterdir()}


# ---- descriptors that were closed ----------------------------------------------------------------
# A directory that was removed and made again was taken for the open one: ext4 reuses inodes.
#
# Looked for of this kind: all that may have changed when a descriptor that the pool closed is
# opened again (a directory or a file with the inode of the old one, another working directory, a
# user with fewer rights, a process that has no descriptor left), and a sync that fails before such
# a close. C: tests/c/test_descriptor_pool.c.


ERRORS_OF_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks for errors of Linux")
HERE = Path(__file__).parent


@pytest.fixture
def few():
    """Let everything be closed behind each call."""
    _core.limit_descriptors(1)
    yield
    _core.limit_descriptors(0)


def close_all() -> None:
    """Let go of every descriptor that may be."""
    _core.Directory("/").close()


def values(log) -> list[bytes]:
    return [record.value for record in log.scan()]


@pytest.mark.usefixtures("few")
@ERRORS_OF_LINUX
def test_a_directory_that_was_made_again_is_another_one(tmp_path):
    """[DUR-10] Also with the inode of the old one; a writer puts nothing there."""
    path = tmp_path / "t-0"
    for _ in range(5):
        with segstore.open(path) as made:
            made.append([(b"k", b"old")])
        reader = segstore.open(path, read_only=True)
        writer = segstore.open(path)
        close_all()
        shutil.rmtree(path)
        path.mkdir()

        for call in (lambda: values(reader), lambda: writer.append([(b"k", b"w")]), writer.flush):  # noqa: B023
            with pytest.raises(segstore.SegstoreError) as caught:
                call()
            causes = [caught.value, caught.value.__cause__]
            assert any(isinstance(one, segstore.DirectoryReplacedError) for one in causes)
        assert list(path.iterdir()) == []
        reader.close()
        writer.close_quietly()
        path.rmdir()


@pytest.mark.usefixtures("few")
@ERRORS_OF_LINUX
def test_a_deletion_does_not_touch_what_has_the_name_of_the_log(tmp_path):
    """[DEL-1] The error is the same, whether the descriptor was closed meanwhile or not."""
    path = tmp_path / "t-0"
    moved = segstore.open(path)
    close_all()
    path.rename(tmp_path / "saved-0")
    with segstore.open(path) as other:
        other.append([(b"k", b"other")])
        with pytest.raises(IllegalStateError, match="moved"):
            moved.delete()
        assert values(other) == [b"other"]
    assert (tmp_path / "saved-0").is_dir()


@pytest.mark.usefixtures("few")
@ERRORS_OF_LINUX
def test_another_working_directory_is_no_matter(tmp_path, monkeypatch):
    """[DUR-10] A relative path means the directory that it meant when it was opened."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with segstore.open("t-0") as log, segstore.open_dir("logs") as logs:
        logs.create_topic("u", 2)
        log.append([(b"k", b"1")])
        close_all()
        monkeypatch.chdir(tmp_path / "two")
        log.append([(b"k", b"2")])
        logs.append("u", [(b"k", b"3")], partition=1)
        close_all()
        assert values(log) == [b"1", b"2"]
        assert values(logs.log("u", 1)) == [b"3"]
        logs.create_topic("v", 1)
    assert not list((tmp_path / "two").iterdir())
    assert (tmp_path / "one" / "logs" / "v-0").is_dir()


@pytest.mark.usefixtures("few")
@ERRORS_OF_LINUX
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_that_may_do_less_is_told(tmp_path):
    """[DUR-31] The append is refused, nothing is lost, and the log is as good as before."""
    place = tmp_path / "closed"
    place.mkdir(mode=0o700)
    with segstore.open(place / "t-0") as log:
        log.append([(b"k", b"1")])
        close_all()
        os.seteuid(65534)
        try:
            with pytest.raises(segstore.LogPermissionError):
                log.append([(b"k", b"lost")])
            with pytest.raises(segstore.LogPermissionError):
                values(log)
        finally:
            os.seteuid(0)
        log.append([(b"k", b"2")])
        assert values(log) == [b"1", b"2"]


@pytest.mark.usefixtures("few")
@ERRORS_OF_LINUX
@pytest.mark.parametrize("index_mode", ["heap", "mmap"])
@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_an_index_that_went_away_keeps_no_log_from_its_close(tmp_path, index_mode, what):
    """[DUR-8, DUR-25] The close is clean, as with a descriptor that was open; nothing is lost."""
    path = tmp_path / "t-0"
    log = segstore.open(path, index_mode=index_mode, index_interval_bytes=10)
    log.append([(b"k", b"v" * 100)] * 300)
    log.roll()
    assert log._background.wait_until_idle()  # it syncs these files
    for _ in range(300):
        log.append([(b"k", b"v" * 100)])
    close_all()
    for index in [*path.glob("*.index"), *path.glob("*.timeindex")]:
        index.unlink()
        if what == "replaced":
            index.write_bytes(b"\xff" * 800)
    log.append([(b"k", b"last")])
    log.close()
    assert (path / ".kafka_cleanshutdown").exists()
    with segstore.open(path) as log:
        assert len(values(log)) == 601


@pytest.mark.usefixtures("few")
@ERRORS_OF_LINUX
def test_a_process_without_a_descriptor_is_told(tmp_path):
    """[DUR-31] Refused, with the limit; with one descriptor more all goes on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append([(b"k", b"1")])
        close_all()
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            for call in (lambda: log.append([(b"k", b"lost")]), lambda: values(log)):
                with pytest.raises(segstore.ResourceError, match="ulimit -n"):
                    call()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        log.append([(b"k", b"2")])
        log.flush()
        assert values(log) == [b"1", b"2"]


# ---- a sync that fails ----

EVICTION = """
import json, os, sys
import segstore
from segstore import _core
path, switch = sys.argv[1:]
options = {"durability": "none", "index_interval_bytes": 1}
logs = [segstore.open(f"{path}/{name}/{name}-0", **options) for name in "ab"]
for log in logs:
    for _ in range(3):
        log.append([(b"k", b"v")])
    log.roll()
    log.append([(b"k", b"v")])
open(switch, "w").close()
_core.limit_descriptors(1)
_core.Directory("/").close()
answers = {"was told": not os.path.exists(switch)}

def answer(call):
    try:
        call()
    except segstore.SegstoreError as error:
        chain = []
        while error is not None:
            chain.append(type(error).__name__)
            error = error.__cause__
        return chain
    return []

for name, log in zip("ab", logs):
    answers[name] = {
        "append": answer(lambda: log.append([(b"k", b"w")])),
        "sync": answer(log.flush),
        "again": answer(log.flush),
        "close": answer(log.close),
        "mark": os.path.exists(f"{path}/{name}/{name}-0/.segstore.sync-failed"),
    }
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``failing_sync.c``, compiled."""
    return compiled(HERE / "failing_sync.c", tmp_path_factory.mktemp("failing"))


@pytest.mark.usefixtures("few")
@ERRORS_OF_LINUX
def test_a_sync_that_fails_before_a_close_ends_that_log(library, tmp_path):
    """[DUR-35] Its next append and sync raise, a mark is left for the next open; no other log."""
    switch = tmp_path / "switch"
    done = subprocess.run(
        [sys.executable, "-c", EVICTION, str(tmp_path / "logs"), str(switch)],
        capture_output=True, text=True, check=False, timeout=300,
        env=environment_with(
            library,
            FAILING_SYNC="a-0/00000000000000000003.log",
            FAILING_SWITCH=str(switch),
        ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["was told"]
    told = ["LogReadOnlyError", "FsyncFailedError"]
    assert answers["a"] == {
        **dict.fromkeys(("append", "sync", "again", "close"), told),
        "mark": True,
    }
    assert answers["b"] == {"append": [], "sync": [], "again": [], "close": [], "mark": False}


# ---- files of another owner ----------------------------------------------------------------------
# Root repairs the log of a broker, which runs as another user [DUR-133]. Case 33.
#
# What root makes or replaces belongs to the owner of the directory, or the broker cannot open it.


ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
OWNER, GROUP, STRANGER = 65534, 65533, 65532
MARKER = ".kafka_cleanshutdown"


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


@ONLY_ROOT
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


@ONLY_ROOT
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


@ONLY_ROOT
def test_new_files_have_the_mode_that_files_of_such_a_directory_have(data: Path):
    """[DUR-133] A directory that is closed to others gets no file that they can read."""
    give_away(data, directory_mode=0o2770, file_mode=0o660)

    with segstore.open(data / "orders-0") as log:
        log.roll()
        log.append([(None, b"value")])

    newest = max((data / "orders-0").glob("*.log"))
    assert access_of(newest) == Access(OWNER, GROUP, "0o660")


@ONLY_ROOT
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


@ONLY_ROOT
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


@ONLY_ROOT
def test_root_is_told_of_what_the_owner_cannot_open(data: Path):
    """[DUR-133] As an earlier version has left it, or a file system that refuses."""
    lock = data / "orders-0" / ".lock"
    lock.touch(mode=0o640)

    with segstore.open(data / "orders-0") as log:
        (warning,) = [text for text in log.report.warnings if "chown" in text]

    assert ".lock" in warning
    assert f"chown -R {OWNER}" in warning


@ONLY_ROOT
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
