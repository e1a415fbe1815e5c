"""A folder as a store."""

from __future__ import annotations

import os

import pytest

from segstore.errors import LogNotFoundError, LogPermissionError, LogTruncatedError, ReadIOError
from segstore.remote.local_folder import LocalFolder
from segstore.remote.remote_file import Folder


@pytest.fixture
def folder(tmp_path):
    """Two files, a directory, a pipe and a link to nothing."""
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "team a" / "deep").mkdir(parents=True)
    (tmp_path / "team a" / "b").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nothing").symlink_to("absent")
    return LocalFolder(tmp_path)


def test_a_listing_has_files_and_folders(folder):
    """Neither a pipe nor a link to nothing is a file."""
    top, below = folder.list_folder(""), folder.list_folder("team a")

    assert {name: file.size_bytes for name, file in top.files.items()} == {"a": 10}
    assert top.folders == ["team a"]
    assert below.files["b"].path == "team a/b"
    assert below.folders == ["deep"]
    assert folder.list_folder("absent") == folder.list_folder("a") == Folder({}, [])


def test_a_range_and_a_whole_file_are_read(folder):
    file = folder.list_folder("").files["a"]
    parts: list[bytes] = []
    folder.read(file, parts.append)

    assert b"".join(parts) == b"0123456789"
    assert folder.read_range(file, 3, 7) == b"3456"
    assert folder.read_range(file, 4, 4) == b""


def test_what_changed_since_the_listing_is_an_error(folder, tmp_path):
    """Longer, replaced by a pipe, gone: no read waits or gives other bytes."""
    file = folder.list_folder("").files["a"]
    (tmp_path / "a").write_bytes(b"0123456789+")
    with pytest.raises(LogTruncatedError, match="a: the file was changed"):
        folder.read_range(file, 0, 5)
    (tmp_path / "a").unlink()
    with pytest.raises(LogNotFoundError, match="was gone"):
        folder.read_range(file, 0, 5)
    os.mkfifo(tmp_path / "a")
    with pytest.raises(LogTruncatedError):
        folder.read_range(file, 0, 5)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(PermissionError(13, "denied"), LogPermissionError), (OSError(5, "disk"), ReadIOError)],
)
def test_errors_of_the_system_are_ours(folder, monkeypatch, raised, kind):
    file = folder.list_folder("").files["a"]

    def fail(*_arguments):
        raise raised

    monkeypatch.setattr("os.pread", fail)
    with pytest.raises(kind, match="a: the file cannot be read"):
        folder.read_range(file, 0, 5)
    monkeypatch.setattr("os.open", fail)
    with pytest.raises(kind, match="a: the file cannot be read"):
        folder.read_range(file, 0, 5)
    monkeypatch.setattr("os.scandir", fail)
    with pytest.raises(kind, match="cannot be read"):
        folder.list_folder("")


def test_a_file_that_ends_while_it_is_read_is_an_error(folder, monkeypatch):
    file = folder.list_folder("").files["a"]
    monkeypatch.setattr("os.pread", lambda *_arguments: b"")

    with pytest.raises(ReadIOError, match="position 2: the file ended early"):
        folder.read_range(file, 2, 5)
