"""A directory that was removed and made again was taken for the open one: ext4 reuses inodes.

Looked for of this kind: all that may have changed when a descriptor that the pool closed is opened
again (a directory or a file with the inode of the old one, another working directory, a user with
fewer rights, a process that has no descriptor left), and a sync that fails before such a close.
C: tests/c/test_descriptor_pool.c.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore import _core
from segstore.errors import IllegalStateError
from tests.kits.preloaded_library import compiled, environment_with

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks for errors of Linux")

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
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


@pytest.mark.parametrize("index_mode", ["heap", "mmap"])
@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_an_index_that_went_away_keeps_no_log_from_its_close(tmp_path, index_mode, what):
    """[DUR-8, DUR-25] The close is clean, as with a descriptor that was open; nothing is lost."""
    path = tmp_path / "t-0"
    log = segstore.open(path, index_mode=index_mode, index_interval_bytes=10)
    log.append([(b"k", b"v" * 100)] * 300)
    log.roll()
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
