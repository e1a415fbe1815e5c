"""The metadata of remote segments in a topic: what is durable counts, and nothing else does."""

from __future__ import annotations

import logging
from threading import Barrier, Thread
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segstore
from segstore.errors import (
    ClosedError,
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
    RemoteResourceNotFoundError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.remote.metadata.metadata_partition import metadata_partition
from segstore.remote.metadata.remote_log_metadata_manager import RemoteLogMetadataManager
from segstore.remote.metadata.remote_log_metadata_serde import serialize
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from segstore.remote.metadata.topic_based_remote_log_metadata_manager import (
    TopicBasedRemoteLogMetadataManager,
)
from segstore.types import TopicPartition
from tests.kits.remote_metadata_kit import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    STARTED,
    MemoryTopic,
    added,
    updated,
)

OTHER = TopicIdPartition(UUID(int=8), TopicPartition("orders", 0))
MARKED, DELETION_STARTED, DELETION_FINISHED = RemotePartitionDeleteState


def manager_of(topic):
    return TopicBasedRemoteLogMetadataManager(topic)


def copied(manager, *segments):
    for one in segments:
        manager.add_remote_log_segment_metadata(one)
        manager.update_remote_log_segment_metadata(updated(one, FINISHED))


def ids(manager, partition=PARTITION, epoch=None):
    return [one.segment_id for one in manager.list_remote_log_segments(partition, epoch)]


def deletion(state, partition=PARTITION):
    return RemotePartitionDeleteMetadata(
        topic_id_partition=partition, state=state, event_timestamp_ms=5, broker_id=1
    )


def test_it_answers_from_what_was_noted():
    """[TIER-20] [TIER-21] [TIER-22] Each question, now and after a restart."""
    topic = MemoryTopic()
    manager = manager_of(topic)
    assert isinstance(manager, RemoteLogMetadataManager)
    first = added(0, 9, {0: 0, 1: 5}, is_transaction_index_empty=True)
    second = added(10, 19, {1: 10})
    copied(manager, first, second)
    for one in (manager, manager_of(topic)):
        assert one.is_ready(PARTITION)
        assert one.remote_log_segment_metadata(PARTITION, 1, 7).segment_id == first.segment_id
        assert one.remote_log_segment_metadata(PARTITION, 0, 7) is None
        assert one.highest_offset_for_epoch(PARTITION, 0) == 4
        assert one.highest_offset_for_epoch(PARTITION, 2) is None
        assert ids(one) == [first.segment_id, second.segment_id]
        assert ids(one, epoch=0) == [first.segment_id]
        assert one.remote_log_size(PARTITION, 1) == 200
        found = one.next_segment_with_transaction_index(PARTITION, 1, 5)
        assert found.segment_id == second.segment_id
        assert ids(one, OTHER) == []


def test_what_is_no_next_state_is_refused_and_not_written():
    """[TIER-20] [TIER-23] [TIER-30] The caller is told: it might delete local data otherwise."""
    topic = MemoryTopic()
    manager = manager_of(topic)
    one = added(0, 9)
    with pytest.raises(IllegalArgumentError):
        manager.add_remote_log_segment_metadata(added(0, 9, state=FINISHED))
    with pytest.raises(RemoteResourceNotFoundError, match="nothing is known"):
        manager.update_remote_log_segment_metadata(updated(one, FINISHED))
    manager.add_remote_log_segment_metadata(one)
    with pytest.raises(IllegalArgumentError):
        manager.update_remote_log_segment_metadata(updated(one, STARTED))
    with pytest.raises(IllegalStateError, match="DELETE_SEGMENT_FINISHED after COPY_SEGMENT_STAR"):
        manager.update_remote_log_segment_metadata(updated(one, DELETED))
    manager.update_remote_log_segment_metadata(updated(one, DELETING))
    with pytest.raises(IllegalStateError, match="COPY_SEGMENT_FINISHED after DELETE_SEGMENT_STA"):
        manager.update_remote_log_segment_metadata(updated(one, FINISHED))
    with pytest.raises(IllegalStateError):
        manager.add_remote_log_segment_metadata(one)

    assert topic.records[0] == [serialize(one), serialize(updated(one, DELETING))]


@pytest.mark.parametrize("fails", ["before", "after"])
@pytest.mark.parametrize("state", RemoteLogSegmentState)
def test_an_append_that_failed_counts_by_what_the_topic_has(fails, state):
    """A crash between the append and its counting is harmless, and so is one before [TIER-20]."""
    topic = MemoryTopic()
    manager = manager_of(topic)
    one = added(0, 9)
    steps = [lambda: manager.add_remote_log_segment_metadata(one)]
    steps += [
        lambda each=each: manager.update_remote_log_segment_metadata(updated(one, each))
        for each in (FINISHED, DELETING, DELETED)[:state]
    ]
    for step in steps[:-1]:
        step()
    before = list(manager.list_remote_log_segments(PARTITION))
    topic.fails = fails
    with pytest.raises(OSError, match=fails):
        steps[-1]()
    assert list(manager.list_remote_log_segments(PARTITION)) == before

    again = manager_of(topic)
    if fails == "before":
        assert list(again.list_remote_log_segments(PARTITION)) == before
    else:
        assert [one.state for one in again.list_remote_log_segments(PARTITION)] == (
            [] if state == DELETED else [state]
        )
    if fails == "after" and state != STARTED:  # and the caller may try again
        steps[-1]()
        assert list(manager_of(topic).list_remote_log_segments(PARTITION)) == list(
            manager.list_remote_log_segments(PARTITION)
        )


def test_each_partition_of_the_topic_is_read_once():
    """[TIER-91] All that share one are loaded together; one that was stopped is read again."""
    topic = MemoryTopic(3)
    partitions = [
        TopicIdPartition(UUID(int=number), TopicPartition("t", number)) for number in range(20)
    ]
    segments = {one: added(0, 9, partition=one) for one in partitions}
    copied(manager_of(topic), *segments.values())
    assert all(
        serialize(one) in topic.records[metadata_partition(one.topic_id_partition, 3)]
        for one in segments.values()
    )

    topic.reads.clear()
    manager = manager_of(topic)
    assert topic.reads == []
    manager.on_partition_leadership_changes(partitions[:10], partitions[10:])
    assert sorted(topic.reads) == [0, 1, 2]
    for one in partitions:
        assert ids(manager, one) == [segments[one].segment_id]
    assert sorted(topic.reads) == [0, 1, 2]

    stopped = partitions[5]
    manager.on_stop_partitions([stopped])
    more = added(10, 19, partition=partitions[6])
    copied(manager, more)
    assert len(topic.reads) == 3
    assert ids(manager, stopped) == [segments[stopped].segment_id]
    assert topic.reads[3:] == [metadata_partition(stopped, 3)]
    assert ids(manager, partitions[6]) == [segments[partitions[6]].segment_id, more.segment_id]


def test_a_stop_before_the_first_use_reads_nothing():
    """[TIER-91] And the partition is there when it is used."""
    topic = MemoryTopic()
    one = added(0, 9)
    copied(manager_of(topic), one)
    manager = manager_of(topic)
    manager.on_stop_partitions([PARTITION, OTHER])
    topic.reads.clear()
    assert ids(manager) == [one.segment_id]
    assert ids(manager, OTHER) == []
    assert topic.reads == [0]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, CorruptLogError),
        (b"", CorruptLogError),
        (serialize(added(0, 9))[:-3], CorruptLogError),
        (b"\1\7\0", UnsupportedFormatError),
        (b"\1\3\0" + bytes(60), SegstoreError),
        (serialize(added(0, 9, state=FINISHED)), IllegalArgumentError),
    ],
)
def test_a_record_that_is_no_event_is_named_and_nothing_is_answered(value, error, caplog):
    """It may say that a segment is there, or deleted [DUR-140]; read again only when asked to."""
    topic = MemoryTopic()
    one = added(0, 9)
    copied(manager_of(topic), one)
    topic.reads.clear()
    topic.records[0].append(value)
    manager = manager_of(topic)
    for _ in range(2):
        with pytest.raises(error, match=r"__remote_log_metadata-0.*record 2 of the partition"):
            manager.remote_log_segment_metadata(PARTITION, 0, 5)
        with pytest.raises(error):
            manager.add_remote_log_segment_metadata(added(10, 19))
    with caplog.at_level(logging.WARNING):
        assert not manager.is_ready(PARTITION)
    assert "record 2 of the partition" in caplog.text
    assert topic.reads == [0]
    assert len(topic.records[0]) == 3

    with pytest.raises(error, match="record 2"):
        manager.on_partition_leadership_changes([PARTITION], [OTHER])
    assert topic.reads == [0, 0]
    del topic.records[0][-1]
    manager.on_partition_leadership_changes([PARTITION], [OTHER])
    assert ids(manager) == [one.segment_id]


def test_a_read_that_failed_is_tried_again():
    """[DUR-144] Nothing of the first attempt is left."""

    class FailingTopic(MemoryTopic):
        def values(self, partition):
            yield from super().values(partition)
            if len(self.reads) == 1:
                raise OSError("gone")

    topic = FailingTopic()
    one = added(0, 9)
    topic.records[0] += [serialize(one), serialize(updated(one, FINISHED))]
    manager = manager_of(topic)
    with pytest.raises(OSError, match="gone"):
        manager.on_partition_leadership_changes([PARTITION], [])
    assert [each.state for each in manager.list_remote_log_segments(PARTITION)] == [FINISHED]


def test_a_partition_is_deleted_in_three_steps():
    """[TIER-24] A deletion that is begun again writes nothing twice, none is left out."""
    topic = MemoryTopic()
    manager = manager_of(topic)
    copied(manager, added(0, 9), added(0, 9, partition=OTHER))
    for state in (DELETION_STARTED, DELETION_FINISHED):
        with pytest.raises(IllegalStateError, match="after none"):
            manager.put_remote_partition_delete_metadata(deletion(state))
    manager.put_remote_partition_delete_metadata(deletion(MARKED))
    with pytest.raises(IllegalStateError, match="FINISHED after DELETE_PARTITION_MARKED"):
        manager.put_remote_partition_delete_metadata(deletion(DELETION_FINISHED))
    manager.put_remote_partition_delete_metadata(deletion(DELETION_STARTED))
    again = manager_of(topic)
    assert len(ids(again)) == 1
    again.put_remote_partition_delete_metadata(deletion(MARKED))
    again.put_remote_partition_delete_metadata(deletion(DELETION_STARTED))
    assert len(topic.records[0]) == 6
    again.put_remote_partition_delete_metadata(deletion(DELETION_FINISHED))
    for one in (again, manager_of(topic)):
        assert ids(one) == []
        assert one.highest_offset_for_epoch(PARTITION, 0) is None
        assert len(ids(one, OTHER)) == 1


def test_what_comes_after_the_end_of_a_deletion_is_harmless():
    """Other brokers may have written it: a late update, and a copy of that partition again."""
    topic = MemoryTopic()
    late, again = added(0, 9), added(0, 9)
    topic.records[0] += map(
        serialize,
        [late, *map(deletion, RemotePartitionDeleteState), updated(late, FINISHED), again],
    )
    assert ids(manager_of(topic)) == [again.segment_id]


def test_a_closed_one_answers_nothing():
    """And closing it again does nothing."""
    manager = manager_of(MemoryTopic())
    assert manager.is_ready(PARTITION)
    manager.close()
    manager.close()
    assert not manager.is_ready(PARTITION)
    for call in (
        lambda: manager.highest_offset_for_epoch(PARTITION, 0),
        lambda: manager.add_remote_log_segment_metadata(added(0, 9)),
        lambda: manager.on_partition_leadership_changes([PARTITION], []),
    ):
        with pytest.raises(ClosedError):
            call()


steps_of_random_histories = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 5), st.sampled_from(RemoteLogSegmentState)),
    max_size=60,
)


@given(steps=steps_of_random_histories)
def test_a_restart_changes_no_answer(steps):
    """[TIER-26] [TIER-27] [TIER-29] Random changes of three partitions in a topic of two."""
    topic = MemoryTopic(2)
    manager = manager_of(topic)
    partitions = [TopicIdPartition(UUID(int=n), TopicPartition("t", n)) for n in range(3)]
    segments = {}
    for number, place, state in steps:
        key = number, place
        if state == STARTED:
            epochs = {0: 10 * place, place + 1: 10 * place + 3}
            segments[key] = added(10 * place, 10 * place + 14, epochs, partition=partitions[number])
        if key not in segments:
            continue
        try:
            if state == STARTED:
                manager.add_remote_log_segment_metadata(segments[key])
            else:
                manager.update_remote_log_segment_metadata(updated(segments[key], state))
        except (IllegalStateError, RemoteResourceNotFoundError):
            pass
    again = manager_of(topic)
    for one in partitions:
        assert list(again.list_remote_log_segments(one)) == list(
            manager.list_remote_log_segments(one)
        )
        for epoch in range(7):
            assert ids(again, one, epoch) == ids(manager, one, epoch)
            assert again.highest_offset_for_epoch(one, epoch) == (
                manager.highest_offset_for_epoch(one, epoch)
            )


def test_threads_change_and_ask_at_the_same_time():
    """[TIER-21] Each finds what it wrote, and the topic has the order in which it counted."""
    topic = MemoryTopic(2)
    manager = manager_of(topic)
    partitions = [TopicIdPartition(uuid4(), TopicPartition("t", n)) for n in range(4)]
    begin = Barrier(len(partitions))
    failures = []

    def work(partition):
        begin.wait()
        try:
            for number in range(100):
                one = added(number * 10, number * 10 + 9, partition=partition)
                copied(manager, one)
                assert manager.highest_offset_for_epoch(partition, 0) == one.end_offset
                assert len(ids(manager, partition)) == number + 1
        except BaseException as error:  # noqa: BLE001 - told in the end
            failures.append(error)

    threads = [Thread(target=work, args=(one,)) for one in partitions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    for one in partitions:
        assert ids(manager_of(topic), one) == ids(manager, one)


def test_a_log_keeps_the_topic(tmp_path):
    """Values of an ordinary log, through a crash that has lost nothing of it."""

    class LogTopic:
        partitions_count = 1

        def __init__(self):
            self.log = segstore.open(tmp_path / "__remote_log_metadata-0", durability="sync")

        def append(self, partition, value):
            assert partition == 0
            self.log.append([(None, value)])

        def values(self, partition):
            assert partition == 0
            return (record.value for record in self.log.scan())

    topic = LogTopic()
    one, two = added(0, 9), added(10, 19)
    copied(manager_of(topic), one, two)
    topic.log.close()
    topic = LogTopic()
    assert ids(manager_of(topic)) == [one.segment_id, two.segment_id]
    topic.log.close()
