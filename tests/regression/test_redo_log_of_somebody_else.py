"""A redo log that could not be read failed every other writer of its directory.

The error came when the files were tidied up, behind the commit: the rows were in the logs, and came
twice when the write was repeated.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from segstore.errors import DiskFullError
from segstore.spark import sink_commit
from tests.kits.commit_kit import all_values, state_of
from tests.kits.sink_kit import Stream, hidden_files, make_topic, numbered, write_batch

UNREADABLE = ".segstore-commit-00000000000000aa.json"


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    (tmp_path / "logs" / UNREADABLE).write_bytes(b"\0" * 100)
    return tmp_path / "logs"


def test_a_write_without_a_name_is_done(directory):
    """Nobody knows what the other commit needs, so the staged files stay."""
    with pytest.warns(UserWarning, match=f"staged files stay in .*{UNREADABLE}"):
        write_batch(directory, numbered(0, 10), topic="t")

    assert all_values(directory) == list(range(10))
    assert len(hidden_files(directory, "staged")) == 1


def test_a_micro_batch_is_done_and_its_files_go_later(directory):
    stream = Stream(directory, topic="t")
    with pytest.warns(UserWarning, match=UNREADABLE):
        stream.run(0, numbered(0, 10))
    assert state_of(directory) == (0, "done")
    (directory / UNREADABLE).unlink()
    stream.run(1, numbered(10, 10))

    assert all_values(directory) == list(range(20))
    assert hidden_files(directory, "staged") == []


def test_an_abort_says_what_stays(directory):
    """Spark shows the error that the write failed with, not one of its abort."""
    stream = Stream(directory, topic="t")
    messages = stream.stage(numbered(0, 10))
    with pytest.warns(UserWarning, match=UNREADABLE):
        stream.abort(messages, 0)

    assert len(hidden_files(directory, "staged")) == 1


def test_any_failure_behind_the_commit_is_a_warning(tmp_path, monkeypatch):
    make_topic(tmp_path)

    def failing(_directory):
        raise DiskFullError("as asked")

    monkeypatch.setattr(sink_commit, "staged_file_names", failing)
    with pytest.warns(UserWarning, match="as asked"):
        write_batch(tmp_path, numbered(0, 10), topic="t")
    assert all_values(tmp_path) == list(range(10))
