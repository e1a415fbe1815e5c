"""The redo log is somebody's word for what to append: nothing of it is believed blindly."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark")

from segstore.errors import (
    CorruptCheckpointError,
    IllegalStateError,
)
from segstore.spark.commit_log import producer_id_of
from tests.kits.commit_kit import (
    SMALL,
    all_values,
)
from tests.kits.sink_kit import (
    QUERY,
    Stream,
    hidden_files,
    make_topic,
    numbered,
)


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def stream(directory):
    return Stream(directory, topic="t", **SMALL)


def committing(partition, plan):
    partitions = f'{{"{partition}":{plan}}}'
    return f'{{"format":1,"id":"a","version":0,"state":"committing","partitions":{partitions}}}'


def plan(staged, base_sequence=0):
    return f'{{"base_sequence":{base_sequence},"log_end_offset":0,"staged":{staged}}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format":2,"id":"a","version":0,"state":"done","partitions":{}}',
        '{"format":1,"id":1,"version":0,"state":"done","partitions":{}}',
        '{"format":1,"id":"a","version":"0","state":"done","partitions":{}}',
        '{"format":1,"id":"a","version":0,"state":"lost","partitions":{}}',
        '{"format":1,"id":"a","query":1,"version":0,"state":"done","partitions":{}}',
        committing("../x", "{}"),
        committing("t-0", plan('[["../../etc/passwd",[[0,1,1]]]]')),
        committing("t-0", plan('[[".segstore-staged-/../x",[[0,1,1]]]]')),
        committing("t-0", plan("[]", base_sequence=-1)),
        committing("t-0", plan('[[".segstore-staged-a-b",[[0,1]]]]')),
    ],
)
def test_a_redo_log_that_cannot_be_is_an_error(directory, stream, text):
    """[DUR-97] It is somebody's word for what to append: nothing of it is believed blindly."""
    file = directory / f".segstore-commit-{producer_id_of(QUERY):016x}.json"
    file.write_text(text)

    with pytest.raises(CorruptCheckpointError, match="redo log"):
        stream.run(0, numbered(0, 10))
    assert file.read_text() == text
    assert all_values(directory) == []


def test_the_redo_log_of_another_name_is_an_error(directory, stream):
    stream.run(0, numbered(0, 10))
    file = directory / hidden_files(directory, "commit")[0]
    file.write_text(file.read_text().replace(QUERY, "somebody"))

    with pytest.raises(IllegalStateError, match="another writer"):
        stream.run(1, numbered(10, 10))


def test_an_older_redo_log_without_a_query_is_read(directory, stream):
    stream.run(0, numbered(0, 10))
    file = directory / hidden_files(directory, "commit")[0]
    content = json.loads(file.read_text())
    assert content.pop("query") == QUERY
    file.write_text(json.dumps(content))

    stream.run(1, numbered(10, 10))
    assert all_values(directory) == list(range(20))
    assert json.loads(file.read_text())["query"] == QUERY
