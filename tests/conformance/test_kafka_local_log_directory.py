"""Kafka's LocalLogTest: the directory of a log, and the log taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from segstore._core import Directory
from segstore.errors import ClosedError, IllegalStateError
from segstore.log.files.partition_directory import delete_directory_name
from tests.kits.log_kit import TIME, bases, offsets


@pytest.fixture
def log(new_log):
    """Two segments, one record in the first."""
    made = new_log()
    made.append([(TIME, b"key", b"value")])
    made.roll()
    return made


def test_log_dir_rename_to_new_dir(log):
    """Kafka: LocalLogTest.testLogDirRenameToNewDir [LOC-23]."""
    old = Path(log.path)
    assert log.rename_dir("renamed-0")
    assert not old.exists()
    assert Path(log.path) == old.with_name("renamed-0")
    assert bases(log) == [0, 1]
    assert {segment.directory_path for segment in log.segments()} == {log.path}
    assert offsets(log) == [0]
    log.append([(TIME, None, b"goes on")])
    log.roll()
    assert {path.stem for path in Path(log.path).glob("*.log")} == {f"{n:020d}" for n in range(3)}


def test_log_dir_rename_to_existing_dir(log):
    """Kafka: LocalLogTest.testLogDirRenameToExistingDir [LOC-23]: its own name is no change."""
    before = log.path
    assert not log.rename_dir(Path(before).name)
    assert log.path == before
    assert Path(before).is_dir()


def test_remove_and_delete_segments_sync(new_log):
    """Kafka: LocalLogTest.testRemoveAndDeleteSegmentsSync [LOC-19, LOC-21]: nothing is delayed."""
    log = new_log(file_delete_delay_ms=3_600_000)
    for number in range(9):
        log.append([(TIME + number, None, b"v")])
        log.roll()
    segments = log.segments()
    assert len(segments) == 10
    log.delete()
    assert not Path(log.path).exists()
    for segment in segments:
        with pytest.raises(ClosedError):
            segment.read(0, 100, 100, True)


def test_log_delete_dir_success_when_empty_and_failure_when_non_empty(log):
    """Kafka: LocalLogTest.testLogDeleteDirSuccessWhenEmptyAndFailureWhenNonEmpty [LOC-21].

    A directory with segments is not removed by itself; without them it goes, and all in it.
    """
    path = Path(log.path)
    (path / "other" / "deeper").mkdir(parents=True)
    (path / "other" / "file").touch()
    (path / "link").symlink_to(path.parent)  # what it names is not ours
    parent = Directory(str(path.parent))
    with pytest.raises(IllegalStateError):
        parent.remove_directory(path.name)
    assert bases(log) == [0, 1]
    assert path.is_dir()
    log.rename_dir(delete_directory_name(log.topic_partition), reinitialize=False)
    log.delete()
    assert parent.names() == []
    parent.close()


def test_update_config(new_log):
    """Kafka: LocalLogTest.testUpdateConfig [LOC-1]: the object is another one from then on."""
    log = new_log(internal_segment_bytes=1000)
    old = log.config
    new = old.with_changes(internal_segment_bytes=1001)
    assert log.update_config(new) is old
    assert log.config is new
    assert log._local_log.config is new
    end = log._local_log.log_end
    assert end == (log.log_end_offset, 0, log.segments()[-1].size_bytes)
