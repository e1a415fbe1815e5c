"""The spool: what is in it is whole and right, bounded, and never taken from who reads it."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from segstore.errors import (
    DiskFullError,
    LimitExceededError,
    LogPermissionError,
    ReadIOError,
    WriteError,
)
from segstore.remote.remote_file import RemoteFile, changed_error
from segstore.remote.spool import Spool, default_directory
from segstore.types import Isolation, TopicPartition
from tests.kits.remote_directories import remote_logs, remote_rows

ORDERS = TopicPartition("orders", 0)


class Files:
    """A store whose files are made of their names."""

    url = key = "test://files"
    requests_at_once = 1

    def __init__(self) -> None:
        self.reads: list[str] = []

    def read(self, file, write):
        self.reads.append(file.path)
        write(file.name.encode() * (file.size_bytes // len(file.name)))


def file_of(name: str, size: int = 1000, identity: str | None = "1") -> RemoteFile:
    return RemoteFile(name, size, identity, 1_700_000_000_000_000_000)


@pytest.fixture
def store():
    return Files()


def link(spool, store, file):
    """Fetch a file into a view of its own; return the view."""
    view = spool.new_view()
    spool.link(store, file, view.path / file.name)
    return view


def held(spool: Spool) -> int:
    return sum(one.stat().st_size for one in (spool.directory / "objects").iterdir())


def test_a_file_is_fetched_once_as_long_as_it_is_the_same(tmp_path, store):
    """Another size or identity is another file; one without identity never is the same."""
    spool = Spool(str(tmp_path), 10_000)
    for file in (
        file_of("a"),
        file_of("a"),
        file_of("a", 1001),
        file_of("a", identity="2"),
        file_of("b", identity=None),
        file_of("b", identity=None),
    ):
        with link(spool, store, file) as view:
            assert (view.path / file.name).read_bytes() == file.name.encode() * file.size_bytes
            assert (view.path / file.name).stat().st_mtime_ns == file.modified_ns

    assert store.reads == ["a", "a", "a", "b", "b"]
    assert not list((tmp_path / "views").iterdir())


def test_what_was_not_used_for_longest_goes_and_nothing_in_use(tmp_path, store):
    spool = Spool(str(tmp_path), 3000)
    with link(spool, store, file_of("a")) as in_use:
        for name in "bcd":
            link(spool, store, file_of(name)).close()
        assert held(spool) == 3000
        store.reads.clear()
        for name in "adcb":  # b went for d
            link(spool, store, file_of(name)).close()

        assert store.reads == ["b"]
        assert (in_use.path / "a").read_bytes() == b"a" * 1000


def test_no_room_beside_what_is_in_use_is_an_error_that_says_so(tmp_path, store):
    spool = Spool(str(tmp_path), 2500)
    with (
        link(spool, store, file_of("a")),
        link(spool, store, file_of("b")),
        pytest.raises(LimitExceededError, match=r"test://files/c: .*spoolMaxBytes.*2000.*2500"),
    ):
        link(spool, store, file_of("c"))
    link(spool, store, file_of("c")).close()

    assert held(spool) <= 2500


@pytest.mark.parametrize("sent", [b"", b"half", b"a" * 1001])
def test_a_file_that_does_not_come_whole_is_an_error_and_leaves_nothing(tmp_path, store, sent):
    store.read = lambda _, write: write(sent)
    spool = Spool(str(tmp_path), 3000)
    view = spool.new_view()
    with pytest.raises(ReadIOError, match=rf"test://files/a: .*{len(sent)} bytes.*1000 bytes"):
        spool.link(store, file_of("a"), view.path / "a")

    assert list(view.path.iterdir()) == []
    assert held(spool) == 0


def test_an_error_of_the_store_leaves_nothing(tmp_path, store):
    def read(file, write):
        write(b"a" * 500)
        raise changed_error("test://files", file, "another file")

    store.read = read
    spool = Spool(str(tmp_path), 3000)
    with spool.new_view() as view, pytest.raises(LookupError, match="another file"):
        spool.link(store, file_of("a"), view.path / "a")

    assert held(spool) == 0


@pytest.mark.parametrize("failure", [errno.EIO, errno.ENOSPC])
def test_a_file_has_its_name_when_its_bytes_are_on_stable_storage(
    tmp_path, store, monkeypatch, failure
):
    """Else one of full length and zeros could be found after a power loss, and be believed."""
    spool = Spool(str(tmp_path), 3000)
    synced = []

    def sync(descriptor):
        synced.append(os.pread(descriptor, 2000, 0))
        assert [one.suffix for one in (tmp_path / "objects").iterdir()] == [".part"]
        if len(synced) == 1:
            raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises((WriteError, DiskFullError), match=os.strerror(failure)):
        link(spool, store, file_of("a"))
    assert held(spool) == 0
    link(spool, store, file_of("a")).close()
    assert synced == [b"a" * 1000] * 2
    assert held(spool) == 1000


def test_a_request_that_hangs_stops_no_other_file(tmp_path, store):
    """Who wants the same file waits for it, and need not fetch it again."""
    is_read, is_free = threading.Event(), threading.Event()

    class Hanging(Files):
        def read(self, file, write):
            is_read.set()
            assert is_free.wait(60)
            super().read(file, write)

    hanging = Hanging()
    spool = Spool(str(tmp_path), 1_000_000)
    with ThreadPoolExecutor(3) as pool:
        same = [pool.submit(link, spool, hanging, file_of("a")) for _ in range(2)]
        try:
            assert is_read.wait(60)
            others = [pool.submit(link, spool, store, file_of(f"b{n:03d}")) for n in range(200)]
            for other in others:
                other.result(timeout=60).close()
        finally:
            is_free.set()
        for one in same:
            one.result(timeout=60).close()

    assert hanging.reads == ["a"]
    assert [one.name for one in (tmp_path / "locks").iterdir()] == ["room"]


@pytest.mark.parametrize("is_named", [False, True])
def test_the_spool_is_its_users_alone(tmp_path, monkeypatch, is_named):
    """Others could put records of their own into a folder below /tmp."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = default_directory() if is_named else None
    spool = Spool(directory)
    assert spool.directory.stat().st_mode & 0o777 == 0o700
    (spool.directory / "views").chmod(0o770)
    with pytest.raises(LogPermissionError, match=r"views: .*770"):
        Spool(directory)
    spool.directory.chmod(0o777)
    with pytest.raises(LogPermissionError, match=r"spoolDirectory.*777"):
        Spool(directory)


def test_the_spool_of_another_user_is_refused(tmp_path, monkeypatch):
    Spool(str(tmp_path / "theirs"))
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(LogPermissionError, match=rf"found user {user}, .*user {user + 1}"):
        Spool(str(tmp_path / "theirs"))


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_link_is_no_spool(tmp_path, monkeypatch, is_named, target):
    """Who made it chooses where files go, and changes that when he likes."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    Path(default_directory()).symlink_to(tmp_path / target)
    with pytest.raises(LogPermissionError, match="spoolDirectory"):
        Spool(default_directory() if is_named else None)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_place_that_cannot_be_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogPermissionError, match=r"file: .*spoolDirectory"):
        Spool(str(tmp_path / "file"))


def test_a_file_system_without_hard_links_is_named(tmp_path, store, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    spool = Spool(str(tmp_path), 3000)
    link(spool, store, file_of("a")).close()
    monkeypatch.setattr(os, "link", refuse)
    for name in "ab":
        with pytest.raises(WriteError, match=r"hard links.*spoolDirectory"):
            link(spool, store, file_of(name))
    assert held(spool) == 1000


def hold_and_wait(folder: str, ready) -> None:
    view = link(Spool(folder, 2500), Files(), file_of("a"))
    part = Path(folder) / "objects" / "half.part"
    part.write_bytes(b"x" * 1000)  # as a download that is not whole
    ready.set()
    signal.pause()
    view.close()


def test_what_a_killed_process_held_goes_when_room_is_needed(tmp_path, store):
    """Its links and its half-written file; while it lives they stay."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold_and_wait, args=(str(tmp_path), ready))
    process.start()
    assert ready.wait(60)
    spool = Spool(str(tmp_path), 2500)
    assert held(spool) == 2000
    with link(spool, store, file_of("b")):  # for which the half of nobody goes
        with pytest.raises(LimitExceededError):
            link(spool, store, file_of("c"))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        link(spool, store, file_of("c")).close()

    assert held(spool) == 2000
    assert not list((tmp_path / "views").iterdir())


def read_all(settings: dict[str, str], spool: str) -> tuple[int, int]:
    """Read a whole log as one of several processes; the sum of its offsets, and how many."""
    logs = remote_logs("s3://bucket/logs", Path(spool), **settings)
    rows, error = remote_rows(logs, ORDERS, 0, 2000, Isolation.READ_COMMITTED)
    assert error is None
    return sum(row["offset"] for row in rows), len(rows)


def test_four_processes_share_a_spool_and_fetch_every_file_once(s3, directory, tmp_path):
    s3.put(directory)
    context = multiprocessing.get_context("spawn")  # a store's threads do not survive a fork
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        asked = [pool.submit(read_all, s3.settings, str(tmp_path / "spool")) for _ in range(4)]
        answers = [one.result(timeout=120) for one in asked]

    assert answers == [(sum(range(2000)), 2000)] * 4
    assert len(s3.gets) == len(set(s3.gets))
    assert not list((tmp_path / "spool" / "views").iterdir())
