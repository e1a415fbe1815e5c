"""What a path may turn out to be, and what is said then [DUR-98, DUR-99, DUR-101]."""

from __future__ import annotations

import os

import pytest

import segstore
from segstore.errors import (
    IllegalArgumentError,
    InvalidTopicError,
    LogLockedError,
    LogNotFoundError,
    LogPermissionError,
    NotALogError,
)
from tests.kits.damaged_logs import RECORDS_COUNT, build, expected_values, values_of


def make_fifo(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def make_directory(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def make_link(path):
    target = path.parent / "target"
    if path.exists():
        path.rename(target)
    else:
        target.write_bytes(b"")
    path.symlink_to(target)


def make_loop(path):
    path.unlink(missing_ok=True)
    path.symlink_to(path)


KINDS = [make_fifo, make_directory, make_link, make_loop]


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("kind", ["log", "index", "timeindex"])
def test_a_segment_file_must_be_a_regular_file(tmp_path, kind, make, read_only):
    """[DUR-99] No link is followed, no pipe is waited for."""
    directory = build(tmp_path / "orders-0", clean=True)
    make(directory.file(directory.bases[-1], kind))

    if kind != "log" and read_only:  # a reader does without it
        with directory.open(read_only=True) as log:
            assert values_of(log) == expected_values(0, RECORDS_COUNT)
        return
    with pytest.raises(NotALogError, match=rf"\.{kind}"):
        directory.open(read_only=read_only)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    "name",
    [".kafka_cleanshutdown", ".segstore", ".lock", "leader-epoch-checkpoint",
     "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"],
)  # fmt: skip
def test_a_small_file_that_is_none_is_an_error_or_counts_as_unreadable(tmp_path, name, make):
    """[DUR-21, DUR-99] In no case does the open hang, and in no case is a record lost."""
    directory = build(tmp_path / "orders-0", clean=True)
    make(directory.path / name)
    logs = directory.logs()
    told = []

    for read_only in (True, False):
        try:
            with directory.open(read_only=read_only) as log:
                assert values_of(log) == expected_values(0, RECORDS_COUNT)
        except NotALogError as error:
            told.append(str(error))
    assert all(name in text for text in told)
    assert directory.logs() == logs


def test_what_is_no_partition_is_refused_with_a_hint(tmp_path):
    """[DUR-98] A file; the log directory itself; a directory of something else."""
    build(tmp_path / "orders-0", 1)
    (tmp_path / "file-0").write_text("text")
    (tmp_path / "photos-1").mkdir()
    (tmp_path / "photos-1" / "cat.jpg").write_bytes(b"")

    with pytest.raises(NotALogError, match="is a file"):
        segstore.open(tmp_path / "file-0")
    with pytest.raises(NotALogError, match=r"cat\.jpg"):
        segstore.open(tmp_path / "photos-1")
    with pytest.raises(NotALogError, match="open_dir"):
        segstore.open(tmp_path, read_only=True)
    assert sorted(path.name for path in (tmp_path / "photos-1").iterdir()) == ["cat.jpg"]


def test_a_directory_that_a_broker_deletes_is_opened_for_reading_only(tmp_path):
    """[LOC-24]"""
    directory = build(tmp_path / "orders-0", clean=True)
    name = "orders-0." + "0" * 32 + "-delete"
    directory.path.rename(tmp_path / name)

    with pytest.raises(NotALogError, match="read_only=True"):
        segstore.open(tmp_path / name)
    with segstore.open(tmp_path / name, read_only=True) as log:
        assert log.topic_partition == ("orders", 0)
        assert values_of(log) == expected_values(0, RECORDS_COUNT)


@pytest.mark.parametrize("name", ["\udcff-0", "a b-0", "\u00e9-0", "..-0" * 100 + "-0"])
def test_a_name_that_is_no_topic(tmp_path, name):
    """[DUR-98, DUR-101] Not UTF-8, or not a legal topic: nothing is created."""
    with pytest.raises((InvalidTopicError, NotALogError, IllegalArgumentError)):
        segstore.open(os.path.join(tmp_path, name))  # noqa: PTH118 - a path object refuses it
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_nul_is_refused(tmp_path):
    """[DUR-101]"""
    with pytest.raises((IllegalArgumentError, InvalidTopicError)):
        segstore.open(f"{tmp_path}/a\0b-0")


def test_foreign_and_undecodable_names_are_left_alone(tmp_path):
    """[DUR-55, DUR-98] Whatever else lies in the directory."""
    directory = build(tmp_path / "orders-0", clean=True)
    foreign = [b"\xff\xfe.log", b"00000000000000000003.log\xff", b"a" * 255, b"-rf", b"*"]
    for name in foreign:
        with open(os.fsencode(directory.path) + b"/" + name, "wb") as file:  # noqa: PTH123
            file.write(b"x")

    for read_only in (True, False):
        with directory.open(read_only=read_only) as log:
            assert values_of(log) == expected_values(0, RECORDS_COUNT)
    assert set(os.listdir(os.fsencode(directory.path))) >= set(foreign)  # noqa: PTH208


def test_many_files_in_the_directory_do_no_harm(tmp_path):
    """[DUR-98, DUR-103] Twenty thousand names that are not ours."""
    directory = build(tmp_path / "orders-0", clean=True)
    for number in range(20_000):
        os.close(os.open(directory.path / f"other-{number}", os.O_CREAT | os.O_WRONLY))

    with directory.open() as log:
        assert values_of(log) == expected_values(0, RECORDS_COUNT)
        assert log.report.seconds < 5


def test_a_link_to_a_partition_is_that_partition(tmp_path):
    """[DUR-65] Its own parent's lock and checkpoints count, not those beside the link."""
    real = tmp_path / "logs"
    build(real / "orders-0", clean=True)
    (real / "log-start-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    (tmp_path / "link").symlink_to(real / "orders-0")

    with segstore.open_dir(real), pytest.raises(LogLockedError):
        segstore.open(tmp_path / "link")
    with segstore.open(tmp_path / "link") as log:
        assert log.topic_partition == ("orders", 0)
        assert log.path == str(real / "orders-0")
        assert log.log_start_offset == 20


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_file_that_may_not_be_read(tmp_path):
    """[DUR-40] Named in the error; not taken for damage."""
    directory = build(tmp_path / "orders-0", clean=True)
    directory.last.chmod(0)

    for read_only in (True, False):
        with pytest.raises(LogPermissionError, match=directory.last.name):
            directory.open(read_only=read_only)


def test_a_missing_directory_says_what_is_beside_it(tmp_path):
    with pytest.raises(LogNotFoundError, match="nor the one above it"):
        segstore.open(tmp_path / "no" / "orders-0", read_only=True)
