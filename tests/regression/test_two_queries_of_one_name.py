"""Two queries with one ``txnAppId`` lost every batch of one of them, without a word.

Their numbers of micro-batches were equal, so the second was taken for a repetition of the first.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from segstore.errors import IllegalStateError
from tests.kits.commit_kit import SMALL, all_values, fail_at_append, state_of
from tests.kits.sink_kit import Stream, hidden_files, make_topic, numbered, write_batch


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


def query(directory, query_id):
    return Stream(directory, query_id, topic="t", txnAppId="mine", **SMALL)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_another_query_is_an_error_that_names_both(directory, version):
    """A new checkpoint has a new id and begins at 0 again."""
    query(directory, "first-id").run(1, numbered(0, 10))

    with pytest.raises(IllegalStateError, match="another txnAppId") as caught:
        query(directory, "second-id").run(version, numbered(10, 10))
    assert "first-id" in str(caught.value)
    assert "second-id" in str(caught.value)
    assert all_values(directory) == list(range(10))
    query(directory, "first-id").run(2, numbered(10, 10))
    assert all_values(directory) == list(range(20))


def test_the_commit_of_another_query_is_left_to_it(directory, monkeypatch):
    fail_at_append(monkeypatch, 3)
    with pytest.raises(OSError, match="as asked"):
        query(directory, "first-id").run(0, numbered(0, 20))
    monkeypatch.undo()

    with pytest.raises(IllegalStateError, match="another txnAppId"):
        query(directory, "second-id").run(1, numbered(20, 10))
    query(directory, "first-id").run(0, numbered(0, 20))
    assert all_values(directory) == list(range(20))
    assert hidden_files(directory, "staged") == []
    assert state_of(directory, "mine") == (0, "done")


def test_a_batch_write_of_the_name_does_not_hide_the_query(directory):
    """As `foreachBatch` makes them: they know no id."""
    query(directory, "first-id").run(0, numbered(0, 10))
    write_batch(directory, numbered(10, 10), topic="t", txnAppId="mine", txnVersion="1")

    with pytest.raises(IllegalStateError, match="another txnAppId"):
        query(directory, "second-id").run(2, numbered(20, 10))
    assert all_values(directory) == list(range(20))


@pytest.mark.parametrize("version", ["4", "5"])
def test_a_version_with_rows_that_is_dropped_says_so(directory, version):
    name = {"topic": "t", "txnAppId": "nightly"}
    write_batch(directory, numbered(0, 10), **name, txnVersion="5")

    with pytest.warns(UserWarning, match=f"nothing was written.*version 5, this is {version}"):
        write_batch(directory, numbered(10, 10), **name, txnVersion=version)
    assert all_values(directory) == list(range(10))
