"""An ``rm -r`` under an open log: appends were acknowledged as durable, into files without a name.

[DUR-4, DUR-66] A flush, a close and an append told of a ``.tmp`` that cannot be opened, or nothing;
who followed the log waited for ever.
"""

from __future__ import annotations

import contextlib
import shutil
import time

import pytest

import segstore
from segstore.errors import LogNotFoundError, LogReadOnlyError, WriteError

ONE = [(None, b"x" * 40)]
REMOVED = "removed while the log was open"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gone-0"


def opened(path, **settings):
    log = segstore.open(path, **settings)
    for _ in range(3):
        log.append(ONE)
    shutil.rmtree(path)
    return log


def append_often(log):
    for _ in range(1000):
        with contextlib.suppress(WriteError):  # a sync that is late
            log.append(ONE)
        time.sleep(0.001)


def check_close(log):
    """It tells, and the handle is closed all the same; nothing is made where the log was."""
    with pytest.raises((LogNotFoundError, LogReadOnlyError), match=REMOVED):
        log.close()
    assert log.closed
    log.close()


def test_an_append_that_is_to_be_durable(path):
    """[DUR-4, DUR-38] It fails, and nothing is written from then on; records can be read."""
    log = opened(path)

    with pytest.raises(LogNotFoundError, match=REMOVED) as caught:
        log.append(ONE)
    assert caught.value.file == str(path)
    for change in (lambda: log.append(ONE), log.roll, log.flush):
        with pytest.raises(LogReadOnlyError, match=REMOVED):
            change()
    assert log.durable_offset == 3
    assert [record.offset for record in log.scan(0, 3)] == [0, 1, 2]
    check_close(log)
    assert not path.exists()


@pytest.mark.parametrize("durability", ["none", "messages=100", "seconds=1000"])
def test_an_append_that_is_not_to_be_durable(path, durability):
    """Nothing was promised; a flush, a roll and the close tell."""
    log = opened(path, durability=durability)

    log.append(ONE)
    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.roll()
    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.flush()
    check_close(log)


def test_a_roll_by_size(path):
    """[ROL-1] The append that begins a segment fails as a whole."""
    log = opened(path, durability="none", internal_segment_bytes=400)

    with pytest.raises(LogNotFoundError, match=REMOVED):
        append_often(log)
    check_close(log)


def test_a_flush_with_nothing_to_flush(path):
    """All of it is on stable storage, where nobody finds it."""
    log = opened(path)

    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.flush()
    check_close(log)


def test_a_close_alone(path):
    check_close(opened(path))


def test_a_timed_sync(path):
    """[DUR-14, DUR-39] Nobody waits for it: the next append is refused."""
    log = opened(path, durability="seconds=0.2")

    with pytest.raises(LogReadOnlyError, match=REMOVED):
        append_often(log)
    check_close(log)


def test_kafkas_profile(path):
    """[DUR-62] A broker notices at its next roll; its close writes nothing that could tell."""
    log = opened(path, recovery="kafka")

    log.append(ONE)
    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.roll()
    log.close_quietly()


def test_a_directory_that_is_not_empty_yet(path):
    """Somebody removed the files; ours are gone, whatever else is there."""
    log = segstore.open(path)
    for file in path.iterdir():
        file.unlink()
    (path / "notes.txt").touch()

    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.append(ONE)
    check_close(log)
    left = {file.name for file in path.iterdir()}
    assert "notes.txt" in left
    assert not {".kafka_cleanshutdown", f"{0:020d}.log"} & left


def test_a_reader_that_follows(path):
    """[DUR-78] It waited for ever; what it has open can be read yet."""
    with segstore.open(path) as log:
        log.append(ONE)
    reader = segstore.open(path, read_only=True)
    records = reader.tail(0)
    assert next(records).offset == 0
    shutil.rmtree(path)

    with pytest.raises(LogNotFoundError, match=REMOVED):
        next(records)
    with pytest.raises(LogNotFoundError, match=REMOVED):
        reader.refresh()
    assert [record.offset for record in reader] == [0]
    reader.close()


def test_a_log_directory(tmp_path):
    """Each log tells; the manager is closed."""
    logs = segstore.open_dir(tmp_path / "logs")
    logs.create_topic("gone")
    logs.append("gone", ONE)
    shutil.rmtree(tmp_path / "logs")

    with pytest.raises(LogNotFoundError, match=REMOVED):
        logs.append("gone", ONE, partition=0)
    with pytest.raises(LogReadOnlyError, match=REMOVED):
        logs.close()
    assert logs.closed


def test_a_lock_file_that_was_removed_alone(path):
    """[DUR-66] Nobody would be kept out: writing ends, and nothing is lost or said to be."""
    log = segstore.open(path)
    log.append(ONE)
    (path / ".lock").unlink()

    with pytest.raises(LogNotFoundError, match="lock file of the log was removed") as caught:
        log.append(ONE)
    assert caught.value.file == str(path / ".lock")
    with pytest.raises((LogNotFoundError, LogReadOnlyError), match="lock file"):
        log.close()
    with segstore.open(path) as again:
        assert [record.offset for record in again] == [0, 1]
