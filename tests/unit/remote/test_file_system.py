"""A directory of ``fsspec``: its listings, and what is said when a file is not what was listed."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import fsspec
import pytest

from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    LogNotFoundError,
    LogPermissionError,
    LogTruncatedError,
    ReadIOError,
)
from segstore.remote.file_system import FileSystem
from segstore.remote.remote_file import Folder, RemoteFile

SECRET = "a-password-of-somebody"


@pytest.fixture
def system():
    """Two files and a directory in memory."""
    root = uuid.uuid4().hex
    fsspec.filesystem("memory").pipe(
        {f"/{root}/a": b"aaaa", f"/{root}/b": b"", f"/{root}/c/d": b""}
    )
    return FileSystem(f"memory://{root}", {})


def read(system, file):
    parts: list[bytes] = []
    system.read(file, parts.append)
    return b"".join(parts)


def pipe(system, name, data):
    system._system.pipe(f"{system._root}/{name}", data)


def test_a_listing_tells_files_and_directories(system):
    found = system.list_folder("")
    assert {name: file.size_bytes for name, file in found.files.items()} == {"a": 4, "b": 0}
    assert found.folders == ["c"]
    assert system.list_folder("c").files["d"].path == "c/d"
    assert system.list_folder("absent") == Folder({}, [])
    assert read(system, found.files["a"]) == b"aaaa"
    assert read(system, found.files["b"]) == b""


@pytest.mark.parametrize("data", [b"bbbb", b"aaaabbbb", b"a", b""])
def test_a_file_that_was_changed_since_its_listing_is_an_error(system, data):
    """Replaced, longer, shorter or empty: found and expected are told."""
    listed = system.list_folder("").files["a"]
    pipe(system, "a", data)
    with pytest.raises(LogTruncatedError, match=rf"/a: .*found {len(data)} bytes.*expected 4"):
        read(system, listed)
    assert read(system, system.list_folder("").files["a"]) == data


def test_a_file_that_is_gone_since_its_listing_is_an_error(system):
    listed = system.list_folder("").files["a"]
    system._system.rm(f"{system._root}/a")
    with pytest.raises(LogNotFoundError, match=r"memory://.*/a: .*listed"):
        read(system, listed)


def test_a_body_that_ends_early_is_an_error(system, monkeypatch):
    """The file system still says that it is as long as it was."""
    listed = system.list_folder("").files["a"]
    whole = system._system.open
    monkeypatch.setattr(
        system._system,
        "open",
        lambda path, *rest, **more: (stream := whole(path, *rest, **more), stream.seek(3))[0],
    )
    with pytest.raises(ReadIOError, match=r"/a, position 1: .*early.*1 bytes.*4 bytes"):
        read(system, listed)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(PermissionError(SECRET), LogPermissionError), (TimeoutError(SECRET), ReadIOError)],
)
def test_errors_of_a_file_system_are_ours_and_show_no_secret(monkeypatch, raised, kind):
    root = uuid.uuid4().hex
    fsspec.filesystem("memory").pipe(f"/{root}/a", b"a")
    system = FileSystem(f"memory://{root}", {"password": SECRET})
    listed = system.list_folder("").files["a"]

    def fail(*_, **__):
        raise raised

    monkeypatch.setattr(system._system, "open", fail)
    monkeypatch.setattr(system._system, "ls", fail)
    for ask in (lambda: system.list_folder(""), lambda: read(system, listed)):
        with pytest.raises(kind, match=rf"memory://{root}") as caught:
            ask()
        assert SECRET not in str(caught.value)
        assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("time", "nanoseconds"),
    [
        (1_700_000_000.5, 1_700_000_000_500_000_000),
        (1_700_000_000_500, 1_700_000_000_500_000_000),  # as HDFS
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000_000_000_000),
        (datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000_000_000_000),  # noqa: DTZ001
        ("yesterday", None),
    ],
)
def test_times_as_file_systems_tell_them(system, time, nanoseconds):
    file = system._file("a", {"size": 4, "mtime": time})

    assert file.modified_ns == nanoseconds
    assert (file.identity is None) == (nanoseconds is None)


def test_a_tag_counts_more_than_a_time(system):
    """What is listed with one, and looked at with the other, is not called changed for it."""
    assert system._file("a", {"size": 4, "ETag": '"x"', "mtime": 1}).identity == 'ETag "x"'
    assert read(system, RemoteFile("a", 4, 'ETag "x"', None)) == b"aaaa"


def test_a_listing_that_contradicts_itself_is_an_error(system, monkeypatch):
    entry = {"name": "a", "size": 4, "type": "file"}
    for entries in ([entry, {**entry, "size": 5}], [{**entry, "size": -1}]):
        monkeypatch.setattr(system._system, "ls", lambda *_, found=entries, **__: found)
        with pytest.raises(CorruptLogError, match=r"/a: .*contradicts itself"):
            system.list_folder("")


def test_settings_that_a_file_system_does_not_take_are_told(monkeypatch):
    def refuse(*_, **settings):
        message = f"unexpected {settings}"
        raise TypeError(message)

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    with pytest.raises(IllegalArgumentError, match=r"memory://x: .*cannot be opened") as caught:
        FileSystem("memory://x", {"password": SECRET})
    assert SECRET not in str(caught.value)


def test_a_range_of_a_file_is_read(system):
    """Of the file that was listed, and of no other."""
    pipe(system, "n", b"0123456789")
    file = system.list_folder("").files["n"]

    assert system.read_range(file, 3, 7) == b"3456"
    assert system.read_range(file, 8, 10) == b"89"
    pipe(system, "n", b"0123456789+")
    with pytest.raises(LogTruncatedError):
        system.read_range(file, 3, 7)
