"""A reader followed a topic that was deleted and made again in the same directory.

Where no record of the old topic had been seen, nothing but ``partition.metadata`` shows it. Looked
for in what follows a log: `refresh`, `tail` before and while it waits, and a read between.
"""

from __future__ import annotations

import uuid

import pytest

import segstore
from segstore import InconsistentTopicIdError
from segstore.log.directory.partition_metadata_file import topic_id_text

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t-0"


def make(path, topic_id, count=0):
    with segstore.open(path, topic_id=topic_id, durability="none") as log:
        if count:
            log.append([(None, b"%d" % number) for number in range(count)])


def remake(path, topic_id, count):
    for file in path.iterdir():
        file.unlink()
    make(path, topic_id, count)


def names_both(error):
    return topic_id_text(OLD) in str(error) and topic_id_text(NEW) in str(error)


@pytest.mark.parametrize("count", [0, 10])
@pytest.mark.parametrize("new_count", [1, 10, 15])
def test_a_handle_does_not_follow_another_topic(path, count, new_count):
    """[UNI-5, DUR-77] Every look says so, and what was seen stays."""
    make(path, OLD, count)
    with segstore.open(path, read_only=True) as reader:
        reader.refresh()
        remake(path, NEW, new_count)

        for _ in range(2):
            with pytest.raises(InconsistentTopicIdError, match="deleted and made again") as caught:
                reader.refresh()
            assert names_both(caught.value)
        assert reader.log_end_offset == count
        assert reader.topic_id == OLD


def test_a_tail_ends_where_the_topic_does(path):
    make(path, OLD, 3)
    with segstore.open(path, read_only=True) as reader:
        tail = reader.tail(0, timeout=5, poll_interval=0.001)
        assert [next(tail).offset for _ in range(3)] == [0, 1, 2]
        remake(path, NEW, 10)

        with pytest.raises(InconsistentTopicIdError) as caught:
            next(tail)
        assert names_both(caught.value)
        with pytest.raises(InconsistentTopicIdError):
            reader.tail(0, timeout=0)


def test_an_id_that_comes_later_is_that_of_the_log(path):
    """A log that was made without one gets it from its writer; only a change of it is one."""
    with segstore.open(path, durability="none") as writer:
        writer.append([(None, b"a")])
        with segstore.open(path, read_only=True) as reader:
            writer.assign_topic_id(OLD)
            writer.append([(None, b"b")])

            assert reader.refresh() == 2
            remake_metadata(path, NEW)
            with pytest.raises(InconsistentTopicIdError) as caught:
                reader.refresh()
    assert names_both(caught.value)


def remake_metadata(path, topic_id):
    text = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
    (path / "new").write_text(text)
    (path / "new").rename(path / "partition.metadata")


def test_an_id_that_cannot_be_read_is_no_other_topic(path):
    """[UNI-5] As for an open: the log is what it was."""
    make(path, OLD, 3)
    with segstore.open(path, read_only=True) as reader:
        (path / "partition.metadata").write_bytes(b"\0" * 40)
        assert reader.refresh() == 3
        (path / "partition.metadata").unlink()
        assert reader.refresh() == 3
