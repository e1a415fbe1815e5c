"""A directory held by its descriptor, files in it, and locks [DUR-10, DUR-21, DUR-65]."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest

from segstore._core import Barrier, Directory, FileBarrier, RangeBytes
from segstore.errors import (
    AlreadyExistsError,
    ClosedError,
    ForkedHandleError,
    IllegalArgumentError,
    IllegalStateError,
    LimitExceededError,
    LogLockedError,
    LogNotFoundError,
    NotALogError,
    ResourceError,
)


@pytest.fixture
def directory(tmp_path):
    opened = Directory(str(tmp_path))
    yield opened
    opened.close()


def test_a_missing_directory_is_made_only_when_asked_for(tmp_path):
    path = tmp_path / "new"
    with pytest.raises(LogNotFoundError) as caught:
        Directory(str(path))
    assert caught.value.file == str(path)

    made = Directory(str(path), create=True)

    assert made.created
    assert path.is_dir()
    assert stat.S_IMODE(path.stat().st_mode) & ~0o750 == 0  # [DUR-100]
    assert not Directory(str(path), create=True).created


def test_only_the_last_component_is_made(tmp_path):
    with pytest.raises(LogNotFoundError):
        Directory(str(tmp_path / "a" / "b"), create=True)
    assert not (tmp_path / "a").exists()


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(NotALogError):
        Directory(str(tmp_path / "file"))


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(IllegalArgumentError):
        Directory(path)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "../x", "a\0b"])
def test_names_stay_inside_the_directory(directory, name):
    """[DUR-101]"""
    for call in (
        directory.info,
        directory.exists,
        directory.read_file,
        directory.unlink,
        directory.make_directory,
    ):
        with pytest.raises(IllegalArgumentError):
            call(name)
    with pytest.raises(IllegalArgumentError):
        directory.rename("a", name)
    with pytest.raises(IllegalArgumentError):
        directory.lock(name, exclusive=True)


def test_names_are_sorted_and_odd_bytes_come_through(directory, tmp_path):
    for name in (b"b", b"a", b"\xff\xfe", "ü".encode()):
        (tmp_path / os.fsdecode(name)).touch()

    names = directory.names()

    assert names == sorted(names)
    assert {"a", "b", "ü", os.fsdecode(b"\xff\xfe")} == set(names)
    assert directory.info(os.fsdecode(b"\xff\xfe")).size == 0


def test_info_tells_size_kind_and_time(directory, tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    os.utime(tmp_path / "f", ns=(0, 1_600_000_000_123_000_000))
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to("f")

    status = (tmp_path / "f").stat()
    expected = (5, 1_600_000_000_123, status.st_ctime_ns, False, True, status.st_ino)
    assert directory.info("f") == expected
    assert directory.info("d").is_directory
    assert not directory.info("link").is_regular  # links are not followed [DUR-99]
    assert directory.exists("f")
    assert not directory.exists("g")
    with pytest.raises(LogNotFoundError):
        directory.info("g")


def test_small_files_are_read_whole_and_large_ones_refused(directory, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 100)
    (tmp_path / "empty").touch()

    assert directory.read_file("f") == b"x" * 100
    assert directory.read_file("f", 100) == b"x" * 100
    assert directory.read_file("empty") == b""
    with pytest.raises(LimitExceededError) as caught:
        directory.read_file("f", 99)
    assert caught.value.file == str(tmp_path / "f")


def test_the_fingerprint_is_another_one_after_any_change(directory, tmp_path):
    """[DUR-24] Names, kinds, times, small contents; not what is left out, and not a read."""
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    seen = [directory.fingerprint("marker")]
    (tmp_path / "marker").write_bytes(b"m")
    (tmp_path / "a").read_bytes()
    assert directory.fingerprint("marker") == seen[0]

    for change in (
        lambda: (tmp_path / "a").write_bytes(b"b"),
        lambda: (tmp_path / "a").rename(tmp_path / "b"),
        (tmp_path / "pipe").unlink,
        (tmp_path / "pipe").mkdir,
        (tmp_path / "b").unlink,
    ):
        change()
        seen.append(directory.fingerprint("marker"))

    assert len({*seen}) == len(seen)
    assert min(seen) > 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("target")])
def test_only_regular_files_are_opened(directory, tmp_path, make):
    """[DUR-99]: a pipe would hang the reader, a link would leave the directory."""
    (tmp_path / "target").write_bytes(b"x")
    make(tmp_path / "odd")
    with pytest.raises(OSError):
        directory.read_file("odd")


def test_a_file_is_replaced_as_a_whole(directory, tmp_path):
    """[DUR-21]"""
    directory.write_file_atomically("checkpoint", b"old, and longer", FileBarrier.LOG_STATE)
    directory.write_file_atomically("checkpoint", memoryview(b"new"), FileBarrier.LOG_STATE)

    assert (tmp_path / "checkpoint").read_bytes() == b"new"
    assert directory.names() == ["checkpoint"]


def test_a_failed_replacement_leaves_the_old_content(directory, tmp_path):
    directory.write_file_atomically("checkpoint", b"old", FileBarrier.LOG_STATE)
    (tmp_path / "checkpoint.tmp").mkdir()

    with pytest.raises(OSError):
        directory.write_file_atomically("checkpoint", b"new", FileBarrier.LOG_STATE)

    assert (tmp_path / "checkpoint").read_bytes() == b"old"


def test_create_file_rewrites_in_place(directory, tmp_path):
    directory.create_file("marker", b"longer content", FileBarrier.CLEAN_MARKER)
    directory.create_file("marker", b"v1", FileBarrier.CLEAN_MARKER)
    directory.create_file("empty", b"", FileBarrier.CLEAN_MARKER)

    assert (tmp_path / "marker").read_bytes() == b"v1"
    assert (tmp_path / "empty").read_bytes() == b""


def test_rename_unlink_and_directories(directory, tmp_path):
    directory.create_file("a", b"", FileBarrier.CLEAN_MARKER)
    directory.rename("a", "b")
    assert directory.names() == ["b"]
    directory.unlink("b")
    directory.unlink("b", missing_ok=True)
    with pytest.raises(LogNotFoundError):
        directory.unlink("b")
    directory.make_directory("d")
    with pytest.raises(AlreadyExistsError):
        directory.make_directory("d")
    directory.remove_directory("d")
    assert directory.names() == []
    directory.sync(Barrier.APPENDED_NAMES)
    assert directory.identity == (tmp_path.stat().st_dev, tmp_path.stat().st_ino)
    assert isinstance(directory.is_network_file_system(), bool)


def test_it_is_held_by_its_descriptor_through_a_rename(tmp_path):
    (tmp_path / "old").mkdir()
    directory = Directory(str(tmp_path / "old"))
    (tmp_path / "old").rename(tmp_path / "new")

    directory.create_file("f", b"", FileBarrier.CLEAN_MARKER)

    assert (tmp_path / "new" / "f").exists()


def test_a_closed_directory_says_so(directory):
    directory.close()
    directory.close()
    assert directory.closed
    with pytest.raises(ClosedError):
        directory.names()
    with pytest.raises(ClosedError):
        directory.lock(".lock", exclusive=True)


def test_the_second_lock_is_refused_at_once_in_the_same_process_and_in_another(directory, tmp_path):
    """[DUR-65, DUR-67]: OFD locks exclude each other within a process too."""
    lock = directory.lock(".lock", exclusive=True)
    assert lock.held
    for exclusive in (True, False):
        with pytest.raises(LogLockedError):
            directory.lock(".lock", exclusive=exclusive)
    script = (
        "import sys\n"
        "from segstore._core import Directory\n"
        "from segstore.errors import LogLockedError\n"
        "try: Directory(sys.argv[1]).lock('.lock', exclusive=True)\n"
        "except LogLockedError: sys.exit(7)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == 7

    lock.release()
    lock.release()

    assert not lock.held
    assert subprocess.run(command, check=False).returncode == 0
    assert (tmp_path / ".lock").exists()  # never removed [DUR-66]


def test_readers_share_a_lock_and_keep_writers_out(directory):
    directory.create_file(".lock", b"", FileBarrier.CLEAN_MARKER)
    first = directory.lock(".lock", exclusive=False)
    second = directory.lock(".lock", exclusive=False)
    with pytest.raises(LogLockedError):
        directory.lock(".lock", exclusive=True)
    first.release()
    second.release()
    directory.lock(".lock", exclusive=True).release()


def test_a_shared_lock_makes_no_file(directory):
    with pytest.raises(LogNotFoundError):
        directory.lock("absent", exclusive=False)


def test_a_lock_that_is_dropped_is_free(directory):
    lock = directory.lock(".lock", exclusive=True)
    del lock
    directory.lock(".lock", exclusive=True).release()


def in_child(action) -> int:
    """Run *action* in a forked child; its exit status is 0 when it returned true."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if action() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_use_neither_directory_nor_lock_and_takes_nothing_away(directory):
    """[DUR-68]"""
    lock = directory.lock(".lock", exclusive=True)

    def use() -> bool:
        nonlocal lock
        refused = 0
        for call in (directory.names, directory.close, lock.release):
            try:
                call()
            except ForkedHandleError:
                refused += 1
        held = lock.held
        lock = None  # the destructor closes, and must not unlock what the parent shares
        return refused == 3 and not held

    assert in_child(use) == 0
    assert lock.held
    with pytest.raises(LogLockedError):
        directory.lock(".lock", exclusive=True)
    assert directory.names() == [".lock"]


def test_closing_while_others_are_inside_lets_them_finish(tmp_path):
    """The descriptor's number could otherwise be somebody else's file by then."""
    for number in range(200):
        (tmp_path / f"file-{number}").touch()
    failures: list[BaseException] = []
    counts: set[int] = set()

    def list_names(directory: Directory) -> None:
        try:
            while True:
                counts.add(len(directory.names()))
        except ClosedError:
            pass
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    for _ in range(10):
        directory = Directory(str(tmp_path))
        threads = [threading.Thread(target=list_names, args=(directory,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        directory.names()
        directory.close()
        for thread in threads:
            thread.join()

    assert failures == []
    assert counts == {200}


def test_errno_of_the_system_is_kept(directory, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").touch()
    with pytest.raises(IllegalStateError) as caught:
        directory.remove_directory("d")
    assert caught.value.file == str(tmp_path / "d")
    assert caught.value.os_error in {errno.ENOTEMPTY, errno.EEXIST}


# ---- bytes in memory that is used again ----------------------------------------------------------


def address_of(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


@pytest.mark.parametrize(
    ("position", "size"),
    [(0, 0), (0, 10), (5, 299_990), (5, 2**62), (299_999, 5), (300_000, 5), (2**40, 5)],
)
def test_a_view_has_what_the_file_has_of_a_range(directory, tmp_path, position, size):
    """Far more than the file has takes no memory."""
    content = os.urandom(300_000)
    (tmp_path / "one").write_bytes(content)
    view = directory.read_view("one", position, size)
    assert view.readonly
    assert bytes(view) == content[position : position + size]


def test_a_view_of_a_range_that_is_none_or_of_no_file_is_refused(directory):
    with pytest.raises(IllegalArgumentError):
        directory.read_view("one", -1, 5)
    with pytest.raises(IllegalArgumentError):
        directory.read_view("one", 0, -1)
    with pytest.raises(LogNotFoundError):
        directory.read_view("one", 0, 5)


def test_memory_is_used_again_when_nobody_has_a_view_of_it(directory, tmp_path):
    """Also a slice keeps it; other views have memory of their own."""
    content = os.urandom(400_000)
    (tmp_path / "one").write_bytes(content)
    first = directory.read_view("one", 0, 300_000)
    part, begin = first[10:20], address_of(first)
    del first
    others = [directory.read_view("one", at, 300_000) for at in range(8)]
    places = sorted(map(address_of, others))
    assert all(after - before > 300_000 for before, after in pairwise(places))
    assert not any(begin <= place < begin + 300_000 for place in places)
    assert bytes(part) == content[10:20]
    assert all(view == content[at : at + 300_000] for at, view in enumerate(others))

    del part
    again = directory.read_view("one", 0, 290_000)

    assert address_of(again) == begin
    assert again == content[:290_000]


def test_bytes_that_are_filled_in_are_read_only_then():
    """Who filled them has no view any more; memory of views that are gone is taken."""
    given = []

    def fill(target):
        given.append(target)
        target[:] = bytes(range(100))

    filled = RangeBytes.filled(100, 4090, fill)
    assert bytes(filled) == bytes(range(100))
    assert memoryview(filled).readonly
    assert address_of(memoryview(filled)) % 4096 == 4090
    with pytest.raises(ValueError, match="released"):
        given[0][0]
    assert bytes(RangeBytes.filled(0, 0, bytes)) == b""


def test_bytes_that_cannot_be_filled_in_are_an_error():
    def fails(_):
        raise OSError(5, "no bytes")

    with pytest.raises(OSError, match="no bytes"):
        RangeBytes.filled(100, 0, fails)
    for size, position in ((-1, 0), (0, -1)):
        with pytest.raises(IllegalArgumentError):
            RangeBytes.filled(size, position, fails)
    with pytest.raises(ResourceError):
        RangeBytes.filled(2**62, 0, fails)


def test_a_view_that_was_kept_keeps_the_memory():
    kept = []
    RangeBytes.filled(100_000, 0, lambda target: kept.append(target[5:]))
    others = [RangeBytes.filled(100_000, 0, lambda target: target[:1]) for _ in range(9)]
    kept[0][:] = bytes(99_995)
    assert len(others) == 9


def test_a_view_begins_in_its_page_where_it_does_in_the_file(directory, tmp_path):
    """A copy that is written a few bytes ahead of what it reads takes four times as long."""
    (tmp_path / "one").write_bytes(bytes(20_000))
    for position in (0, 1, 16, 4095, 4096, 9999):
        place = address_of(directory.read_view("one", position, 100))
        assert (place - position) % 4096 == 0
