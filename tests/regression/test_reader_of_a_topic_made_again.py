"""A reader followed a topic that was deleted and made again in the same directory.

Where no record of the old topic had been seen, nothing but ``partition.metadata`` shows it. Looked
for in what follows a log: `refresh`, `tail` before and while it waits, and a read between. In a
directory that was made again, as ``rm -r`` and `create_topic` do, readers spoke of lost records and
named no id, and a read-only manager gave the dead handle for ever.
"""

from __future__ import annotations

import shutil
import uuid

import pytest

import segstore
from segstore import InconsistentTopicIdError, LogNotFoundError, _core
from segstore.log.files.partition_metadata_file import topic_id_text

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


def remake_directory(path, topic_id, count):
    path.rename(path.parent / "old")  # else the new one may get its inode
    make(path, topic_id, count)
    shutil.rmtree(path.parent / "old")


@pytest.fixture(params=["held", "closed"])
def descriptors(request):
    """Whether the pool closes the descriptor of the directory behind each call."""
    if request.param == "closed":
        _core.limit_descriptors(1)
    yield
    _core.limit_descriptors(0)


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("count", [0, 10])
@pytest.mark.parametrize("new_count", [1, 10, 15])
def test_a_handle_names_both_topics_of_a_directory_that_was_made_again(path, count, new_count):
    """[UNI-5, DUR-78] docs/decisions/topic-ids-in-offsets.md promises it."""
    make(path, OLD, count)
    with segstore.open(path, read_only=True) as reader:
        remake_directory(path, NEW, new_count)
        for _ in range(2):
            _core.Directory("/").close()
            with pytest.raises(InconsistentTopicIdError, match="deleted and made again") as caught:
                reader.refresh()
            assert names_both(caught.value)
            with pytest.raises(InconsistentTopicIdError):
                reader.tail(0, timeout=0)
        assert reader.log_end_offset == count
        assert reader.topic_id == OLD


def test_a_tail_ends_where_the_directory_was_made_again(path):
    make(path, OLD, 3)
    with segstore.open(path, read_only=True) as reader:
        tail = reader.tail(0, timeout=5, poll_interval=0.001)
        assert [next(tail).offset for _ in range(3)] == [0, 1, 2]
        remake_directory(path, NEW, 10)

        with pytest.raises(InconsistentTopicIdError) as caught:
            next(tail)
        assert names_both(caught.value)
        assert [record.value for record in reader] == [b"0", b"1", b"2"]


@pytest.mark.usefixtures("descriptors")
def test_a_directory_of_no_known_topic_that_was_made_again(path):
    """No id was read before: the error says what there is, and speaks of no lost records."""
    make(path, None, 3)
    with segstore.open(path, read_only=True) as reader:
        remake_directory(path, NEW, 10)
        _core.Directory("/").close()
        with pytest.raises(LogNotFoundError, match="another one is at its path") as caught:
            reader.refresh()
        assert topic_id_text(NEW) in str(caught.value)
        shutil.rmtree(path)
        with pytest.raises(LogNotFoundError, match="the log was deleted"):
            reader.refresh()


@pytest.mark.parametrize("remake_it", [remake, remake_directory])
def test_a_read_only_manager_opens_the_new_log(path, remake_it):
    """The old handle stays with its user, until the manager closes it."""
    make(path, OLD, 3)
    with segstore.open_dir(path.parent, read_only=True) as manager:
        old = manager.log("t", 0)
        assert manager.log("t", 0) is old
        remake_it(path, NEW, 10)

        new = manager.log("t", 0)
        assert new is manager.log("t", 0)
        assert [record.value for record in new] == [b"%d" % number for number in range(10)]
        assert new.topic_id == NEW
        assert not old.closed
        with pytest.raises(InconsistentTopicIdError):
            old.refresh()
    assert old.closed
    assert new.closed


def test_a_read_only_manager_of_a_removed_partition(path):
    make(path, OLD, 3)
    with segstore.open_dir(path.parent, read_only=True) as manager:
        old = manager.log("t", 0)
        shutil.rmtree(path)
        with pytest.raises(segstore.UnknownTopicOrPartitionError):
            manager.log("t", 0)
    assert old.closed
