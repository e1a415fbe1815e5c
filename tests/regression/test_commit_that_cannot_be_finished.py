"""A commit whose staged files were damaged or gone blocked its name for ever.

The redo log was written first, and only the append behind it found the damage. An abort took no
lock, and removed the files of a commit that was about to write its redo log.
"""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("pyspark")

from segstore.errors import CorruptRecordError, IllegalStateError
from segstore.spark import named_commit
from tests.kits.commit_kit import (
    SMALL,
    all_values,
    assert_once_and_in_order,
    fail_at_append,
    state_of,
)
from tests.kits.sink_kit import Stream, hidden_files, make_topic, numbered


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def stream(directory):
    return Stream(directory, topic="t", lockTimeoutMs="200", **SMALL)


def flip_the_last_byte(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def interrupted(stream, monkeypatch, nth):
    """A commit of version 1 that ends at its *nth* append."""
    stream.run(0, numbered(0, 10))
    fail_at_append(monkeypatch, nth)
    with pytest.raises(OSError, match="as asked"):
        stream.run(1, numbered(10, 20))
    monkeypatch.undo()


def test_a_damaged_batch_is_found_before_anything_is_written(directory, stream):
    stream.run(0, numbered(0, 10))
    messages = stream.stage(numbered(10, 20), numbered(30, 20))
    flip_the_last_byte(directory / messages[1].file)

    with pytest.raises(CorruptRecordError, match="staged batch is damaged"):
        stream.commit(messages, 1)
    assert state_of(directory) == (0, "done")
    assert_once_and_in_order(directory, 10)
    stream.run(1, numbered(10, 20), numbered(30, 20))
    assert_once_and_in_order(directory, 50)


def test_an_abort_beside_a_commit_leaves_its_files(directory, stream, monkeypatch):
    """Between the check of the files and the redo log, from another process of Spark."""
    messages = stream.stage(numbered(0, 10))
    make_topics = named_commit.make_missing_topics

    def abort_first(*arguments):
        with pytest.warns(UserWarning, match="staged files stay"):
            stream.abort(messages, 0)
        make_topics(*arguments)

    monkeypatch.setattr(named_commit, "make_missing_topics", abort_first)
    stream.commit(messages, 0)

    assert_once_and_in_order(directory, 10)
    assert hidden_files(directory, "staged") == []


def test_a_commit_of_which_nothing_is_there_is_begun_anew(directory, stream, monkeypatch):
    """What was staged again takes the place of what is gone."""
    interrupted(stream, monkeypatch, 1)
    (directory / hidden_files(directory, "staged")[0]).unlink()
    stream.run(1, numbered(10, 20))

    assert state_of(directory) == (1, "done")
    assert hidden_files(directory, "staged") == []
    assert_once_and_in_order(directory, 30)


def test_a_commit_into_a_topic_that_was_removed_is_begun_anew(directory, monkeypatch):
    stream = Stream(directory, topic="t", numPartitions="3", **SMALL)
    interrupted(stream, monkeypatch, 1)
    for number in range(3):
        shutil.rmtree(directory / f"t-{number}")
    stream.run(1, numbered(10, 20))

    assert state_of(directory) == (1, "done")
    assert all_values(directory) == list(range(10, 30))


def test_the_redo_log_is_the_way_out_of_the_rest(directory, stream, monkeypatch):
    """A part is in the logs and the rest is gone: it says so, and appends nothing."""
    interrupted(stream, monkeypatch, 5)
    (directory / hidden_files(directory, "staged")[0]).unlink()
    before = all_values(directory)
    assert 10 < len(before) < 30

    with pytest.raises(IllegalStateError, match=r"version 1 .* remove the redo log") as caught:
        stream.run(1, numbered(10, 20))
    assert "found 4 of its" in str(caught.value)
    assert all_values(directory) == before
    redo_log = directory / hidden_files(directory, "commit")[0]
    assert redo_log.name in str(caught.value)
    redo_log.unlink()
    stream.run(1, numbered(10, 20))
    assert all_values(directory) == sorted([*before, *range(10, 30)])
