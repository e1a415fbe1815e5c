"""What a user can get wrong, and what a machine can: the right exception, nothing lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore import errors
from segstore.errors import (
    CodecMissingError,
    IllegalArgumentError,
    InvalidTopicError,
    LogLockedError,
    LogNotFoundError,
    LogPermissionError,
    NotALogError,
)
from segstore.records import lz4_codec, snappy_codec, zstd_codec
from segstore.types import Codec
from tests.kits.log_kit import batch, offsets, values

ONE = [(None, b"x")]


def refused(call, error_class, builtin, *, file: str | None = None):
    """Run *call* twice: the same error both times; returns it."""
    for _ in range(2):
        with pytest.raises(error_class) as caught:
            call()
    assert isinstance(caught.value, builtin)
    assert isinstance(caught.value, errors.SegstoreError)
    if file is not None:
        assert caught.value.file == file
    return caught.value


# ---- paths ---------------------------------------------------------------------------------------


def test_a_path_that_is_not_there(tmp_path):
    path = tmp_path / "topic-0"
    refused(lambda: segstore.open(path, read_only=True), LogNotFoundError, FileNotFoundError)
    deep = tmp_path / "none" / "topic-0"
    refused(lambda: segstore.open(deep, read_only=True), LogNotFoundError, FileNotFoundError)
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_a_directory_should_be(tmp_path):
    path = tmp_path / "topic-0"
    path.write_bytes(b"precious")
    for read_only in (False, True):
        refused(
            lambda ro=read_only: segstore.open(path, read_only=ro),
            NotALogError,
            NotADirectoryError,
            file=str(path),
        )
    assert path.read_bytes() == b"precious"


def test_a_directory_where_a_file_should_be(new_log):
    log = new_log()
    log.append(ONE)
    log.roll()
    path = Path(log.path)
    log.close()
    (path / f"{0:020d}.log").rename(path / "kept")
    (path / f"{0:020d}.log").mkdir()
    for read_only in (False, True):
        refused(lambda ro=read_only: new_log(read_only=ro), errors.SegstoreError, Exception)
    (path / f"{0:020d}.log").rmdir()
    (path / "kept").rename(path / f"{0:020d}.log")
    assert offsets(new_log()) == [0]


@pytest.mark.parametrize("name", ["photos", "topic-", "-1", "topic-x", "to pic-0", "topic-01"])
def test_a_name_that_is_none(tmp_path, name):
    (tmp_path / name).mkdir()
    for read_only in (False, True):
        call = lambda ro=read_only: segstore.open(tmp_path / name, read_only=ro)  # noqa: E731
        refused(call, (NotALogError, InvalidTopicError), (NotADirectoryError, ValueError))
    assert list((tmp_path / name).iterdir()) == []


def test_a_directory_that_is_no_log(tmp_path):
    """Reading does not make it one."""
    path = tmp_path / "photos-1"
    path.mkdir()
    (path / "cat.jpg").write_bytes(b"meow")
    call = lambda: segstore.open(path, read_only=True)  # noqa: E731
    assert refused(call, NotALogError, NotADirectoryError).file == str(path)
    assert [file.name for file in path.iterdir()] == ["cat.jpg"]


@pytest.mark.parametrize("path", [None, 5, ["topic-0"], object()])
def test_a_path_of_the_wrong_type(path):
    with pytest.raises(TypeError):
        segstore.open(path)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"durability": "always"}, "'always'"),
        ({"durability": 5}, "5"),
        ({"recovery": "unsafe"}, "'unsafe'"),
        ({"segment_bytes": 5}, "5"),
        ({"segment_size": 5}, "segment_size"),
        ({"internal_segment_bytes": 0}, "0"),
        ({"compression_type": "rar"}, "'rar'"),
    ],
)
def test_a_setting_that_cannot_be(tmp_path, settings, found):
    """Told before anything is made."""
    call = lambda: segstore.open(tmp_path / "topic-0", **settings)  # noqa: E731
    error = refused(call, IllegalArgumentError, ValueError)
    assert error.found == found
    assert error.expected
    assert list(tmp_path.iterdir()) == []


# ---- who else is there ---------------------------------------------------------------------------


def test_a_second_writer(new_log):
    """[DUR-65, DUR-67] in this process and in another; readers may come."""
    log = new_log()
    log.append(ONE)
    refused(lambda: segstore.open(log.path), LogLockedError, BlockingIOError)
    script = (
        "import sys, segstore\n"
        "try:\n    segstore.open(sys.argv[1])\n"
        "except segstore.LogLockedError as error:\n    print(error.file)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, log.path], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip().startswith(log.path)
    assert offsets(new_log(read_only=True)) == [0]
    assert log.append(ONE).base_offset == 1
    log.close()
    assert new_log().report.clean


# ---- a read-only mount ---------------------------------------------------------------------------


def test_a_read_only_mount(new_log, small_disk):
    """[DUR-40, DUR-71] nothing is created; reading works, and the error says so."""
    path = small_disk.path / "topic-0"
    log = new_log(path, internal_segment_bytes=300)
    for number in range(10):
        log.append([(None, b"%d" % number)])
    log.close()
    small_disk.remount("ro")
    try:
        before = sorted(file.name for file in path.iterdir())
        error = refused(lambda: new_log(path), LogPermissionError, PermissionError)
        assert error.file.startswith(str(path))
        with pytest.raises(LogPermissionError):
            new_log(small_disk.path / "other-0")
        reader = new_log(path, read_only=True)
        assert values(reader) == [b"%d" % number for number in range(10)]
        assert reader.verify().ok
        reader.close()
        assert sorted(file.name for file in path.iterdir()) == before
    finally:
        small_disk.remount("rw")
    assert new_log(path).report.clean


def test_a_mount_that_becomes_read_only(new_log, small_disk):
    """[DUR-38, DUR-40] under an open log: appends that cannot be, reads that go on."""
    path = small_disk.path / "topic-0"
    log = new_log(path)
    log.append(ONE)
    log.close()
    reader = new_log(path, read_only=True)
    small_disk.remount("ro")
    try:
        assert offsets(reader) == [0]
        reader.close()
    finally:
        small_disk.remount("rw")
    assert offsets(new_log(path)) == [0]


# ---- codecs --------------------------------------------------------------------------------------


@pytest.fixture(
    params=[
        (snappy_codec, ["cramjam"]),
        (lz4_codec, ["lz4", "lz4.frame"]),
        (zstd_codec, ["compression.zstd", "zstandard"]),
    ],
    ids=["snappy", "lz4", "zstd"],
)
def hidden(request, monkeypatch):
    """Which codec, and a function that hides its packages, as if they were not installed."""
    module, names = request.param

    def hide() -> None:
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setattr(zstd_codec, "_contexts", zstd_codec._Contexts())
        module._library.cache_clear()

    yield Codec[module.__name__.rpartition(".")[2].removesuffix("_codec").upper()], hide
    module._library.cache_clear()


def test_a_missing_codec(new_log, hidden):
    """The error says what to install, file and position; the rest of the log is readable."""
    codec, hide = hidden
    log = new_log()
    log.append(ONE)
    position = log.segments()[0].size_bytes
    log.append_as_leader(batch([(None, b"y" * 100)] * 3, codec=codec))
    log.append(ONE)
    log.close()
    hide()
    reader = new_log(read_only=True)
    for read in (lambda: list(reader), lambda: reader.scan().tuples(), reader.to_arrow):
        with pytest.raises(CodecMissingError, match="pip install") as caught:
            read()
        assert isinstance(caught.value, ImportError)
        assert caught.value.position == position
        assert caught.value.file == reader.segments()[0].path
    assert offsets(reader.scan(0, 1)) == [0]
    assert offsets(reader.scan(4)) == [4]
    assert reader.read(1, 1).size_bytes > 0  # stored bytes need no codec
    reader.close()
    writer = new_log(compression_type="uncompressed")  # no record is touched by an open
    assert writer.append(ONE).base_offset == 5
    writer.close()
