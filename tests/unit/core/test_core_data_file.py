"""A file of a directory, open for changes [DUR-10, DUR-32, DUR-99]."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from segstore._core import Barrier, DataFile, Directory
from segstore.errors import (
    ClosedError,
    ForkedHandleError,
    IllegalArgumentError,
    LogNotFoundError,
    SegstoreError,
)


@pytest.fixture
def directory(tmp_path):
    opened = Directory(str(tmp_path))
    yield opened
    opened.close()


def test_what_is_written_where(directory, tmp_path):
    with DataFile(directory, "file", create=True) as file:
        assert file.size == 0
        file.write(0, b"0123456789")
        file.write(4, memoryview(b"abc"))
        file.write(10, b"")
        assert file.size == 10
        file.truncate(8)
        file.sync(Barrier.APPENDED_RECORDS)

    assert (tmp_path / "file").read_bytes() == b"0123abc7"


def test_a_file_is_made_only_when_asked_for(directory, tmp_path):
    with pytest.raises(LogNotFoundError) as caught:
        DataFile(directory, "file")
    assert caught.value.file == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_kept(directory, tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with DataFile(directory, "file", create=True) as file:
        file.write(3, b"+new")
    assert (tmp_path / "file").read_bytes() == b"old+new"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0"])
def test_names_are_single(directory, name):
    """[DUR-101]"""
    with pytest.raises(IllegalArgumentError):
        DataFile(directory, name, create=True)


def test_links_are_not_followed(directory, tmp_path):
    """[DUR-99]"""
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(SegstoreError):
        DataFile(directory, "link")


def test_places_and_sizes_are_not_negative(directory):
    with DataFile(directory, "file", create=True) as file:
        with pytest.raises(IllegalArgumentError):
            file.write(-1, b"x")
        with pytest.raises(IllegalArgumentError):
            file.truncate(-1)


def test_a_closed_file_says_so(directory):
    file = DataFile(directory, "file", create=True)
    file.close()
    file.close()
    for call in (
        lambda: file.size,
        lambda: file.write(0, b"x"),
        lambda: file.truncate(0),
        lambda: file.sync(Barrier.APPENDED_RECORDS),
        file.__enter__,
    ):
        with pytest.raises(ClosedError):
            call()


def test_the_directory_may_be_closed_before(tmp_path):
    directory = Directory(str(tmp_path))
    with DataFile(directory, "file", create=True) as file:
        directory.close()
        file.write(0, b"x")
    with pytest.raises(ClosedError):
        DataFile(directory, "file")


def test_no_descriptor_stays_open(directory, descriptors_below):
    with DataFile(directory, "file", create=True):
        assert descriptors_below() == 1
    for _ in range(10):
        DataFile(directory, "file", create=True).close()
        DataFile(directory, "file")
    assert descriptors_below() == 0


def test_a_forked_child_stays_out(directory):
    """[DUR-68]"""
    with DataFile(directory, "file", create=True) as file:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                file.write(0, b"x")
            except ForkedHandleError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert file.size == 0


def test_a_write_that_fails_leaves_the_size(directory, tmp_path):
    """[DUR-32] Beyond the process's file size limit a write is partly done, then refused."""
    (tmp_path / "file").write_bytes(b"x" * 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        with DataFile(directory, "file") as file:
            with pytest.raises(SegstoreError):
                file.write(100, b"y" * 100)
            size = file.size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert size == 100
    assert (tmp_path / "file").read_bytes() == b"x" * 100
