"""Checkpoints and markers of a partition, in its directory and in the one above [DUR-65]."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import segstore
from segstore import _core
from segstore.errors import LogLockedError
from segstore.log.files import log_directory_checkpoints
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import MAX_CHECKPOINT_BYTES, parse_offset_checkpoint
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.stored_state import StoredState
from segstore.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
POINT, START = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def checkpoint_store(tmp_path):
    (tmp_path / "orders-0").mkdir()
    parent, directory = _core.Directory(str(tmp_path)), _core.Directory(str(tmp_path / "orders-0"))
    yield CheckpointStore(directory, parent, ORDERS)
    directory.close()
    parent.close()


def checkpoint(offset, topic="orders"):
    return f"0\n1\n{topic} 0 {offset}\n"


@pytest.mark.parametrize("name", [POINT, START])
@pytest.mark.parametrize(
    ("own", "above", "smaller", "greater"),
    [
        (None, None, None, 0),
        (checkpoint(5), None, 5, 5),
        (None, checkpoint(7), 7, 7),
        (checkpoint(5), checkpoint(7), 5, 7),
        (checkpoint(7), checkpoint(5), 5, 7),
        (checkpoint(7), checkpoint(5, "other"), 7, 7),
        (None, "garbage", None, 0),
        (checkpoint(7), "garbage", 7, 7),
        (checkpoint(-7), None, None, 0),
    ],
)
def test_of_two_places_the_careful_answer_counts(  # noqa: PLR0913 - columns of a table
    checkpoint_store, tmp_path, name, own, above, smaller, greater
):
    """[DUR-65] The smaller recovery point, the greater log start; unreadable is told [DUR-21]."""
    if own is not None:
        (tmp_path / "orders-0" / name).write_text(own)
    if above is not None:
        (tmp_path / name).write_text(above)

    found = checkpoint_store.read()

    assert found.recovery_point == (smaller if name == POINT else None)
    assert found.log_start_offset == (greater if name == START else 0)
    unreadable = "garbage" in {own, above} or own == checkpoint(-7)
    assert len(found.warnings) == unreadable


@pytest.mark.parametrize(
    ("recovery_point", "log_start", "end", "lacks"),
    [
        (None, 0, 0, False),
        (10, 0, 10, False),
        (10, 0, 9, True),
        (10, 10, 0, False),
        (10, 9, 0, True),
    ],
)
def test_what_a_log_lacks(recovery_point, log_start, end, lacks):
    """[DUR-51] Synced, not deleted, and not there."""
    found = StoredState(log_start, recovery_point, parent_is_clean=False, own_marker=None)

    assert found.lacks_records_from(end) == lacks


def test_both_markers_go_before_the_first_write(checkpoint_store, tmp_path):
    """[DUR-24]"""
    (tmp_path / MARKER).write_text("")
    (tmp_path / "orders-0" / MARKER).write_bytes(CleanShutdownMarker(1, 0, 70, None).format())
    found = checkpoint_store.read()
    assert found.parent_is_clean
    assert found.own_marker == CleanShutdownMarker(1, 0, 70, None)

    checkpoint_store.remove_clean_markers()

    found = checkpoint_store.read()
    assert (found.parent_is_clean, found.own_marker) == (False, None)


def test_an_untouched_log_keeps_its_recovery_point_file(tmp_path):
    """[DUR-21, DUR-24] What is there and true is not written again; anything else is."""
    path, settings = tmp_path / "orders-0", {"durability": "none"}
    with segstore.open(path, **settings) as log:
        log.append([(None, b"v")] * 10)
    inode = (path / POINT).stat().st_ino
    with segstore.open(path, **settings):
        pass
    assert (path / POINT).stat().st_ino == inode

    both = "0\n2\norders 0 10\nother 0 3\n"
    for text, after in ((checkpoint(9), checkpoint(10)), (both, both), ("garbage", checkpoint(10))):
        (path / POINT).write_text(text)
        segstore.open(path, **settings).close()
        assert (path / POINT).read_text() == after
    with segstore.open(path, **settings):
        (path / POINT).write_bytes(b"0" * (MAX_CHECKPOINT_BYTES + 1))
    assert (path / POINT).read_text() == checkpoint(10)


def test_a_clean_close_merges_into_the_log_directorys_files(tmp_path):
    """[DUR-65] Those that are there, and of them one line: a broker brings nothing deleted back."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    for name in (POINT, START):
        (tmp_path / name).write_text("0\n2\nother 0 7\norders 0 3\n")

    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        log.append([(None, b"v")] * 10)
        log.delete_records(6)
        end = log.log_end_offset

    for name, offset in ((POINT, end), (START, 6)):
        found = parse_offset_checkpoint((tmp_path / name).read_bytes())
        assert found == {TopicPartition("other", 0): 7, ORDERS: offset}
    assert not (tmp_path / MARKER).exists()  # the siblings may be unclean
    assert json.loads((tmp_path / "orders-0" / MARKER).read_text())["logEndOffset"] == end


def test_a_log_directorys_file_that_cannot_be_read_is_left_as_it_is(tmp_path):
    """[DUR-6] The others' lines are not ours to lose."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / POINT).write_text("garbage")

    segstore.open(tmp_path / "orders-0").close()

    assert (tmp_path / POINT).read_text() == "garbage"
    assert not (tmp_path / START).exists()


def test_siblings_merge_one_after_the_other(checkpoint_store, tmp_path, monkeypatch):
    """[DUR-65] Under a lock of its own; who holds it for ever is told of, not waited for."""
    monkeypatch.setattr(log_directory_checkpoints, "_PAUSE_SECONDS", 0.0001)
    (tmp_path / POINT).write_text("0\n0\n")
    marker = CleanShutdownMarker(5, 0, 70, None)
    other = _core.Directory(str(tmp_path))
    theirs = other.lock(".segstore.lock", exclusive=True)

    with pytest.raises(LogLockedError):
        checkpoint_store.mark_clean(0, marker)
    assert not (tmp_path / "orders-0" / MARKER).exists()

    theirs.release()
    other.close()
    checkpoint_store.mark_clean(0, marker)
    written = CleanShutdownMarker.parse((tmp_path / "orders-0" / MARKER).read_bytes())
    assert written is not None
    assert replace(written, files_fingerprint=None) == marker
    assert parse_offset_checkpoint((tmp_path / POINT).read_bytes()) == {ORDERS: 5}
