"""What has a name is written once; what is in the way of a commit."""

from __future__ import annotations

import os
import shutil
import time
from itertools import chain

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.errors import (
    CorruptRecordError,
    LogLockedError,
    LogNotFoundError,
    UnknownTopicOrPartitionError,
)
from segstore.spark.commit_log import producer_id_of
from segstore.spark.staged_file import STAGED_PREFIX
from segstore.tables.whole_file import ORPHAN_AGE_SECONDS
from tests.kits.commit_kit import (
    SMALL,
    all_values,
    assert_once_and_in_order,
    fail_at_append,
    state_of,
    wrapped_batch,
)
from tests.kits.sink_kit import (
    QUERY,
    Stream,
    hidden_files,
    make_topic,
    numbered,
    values_of,
    write_batch,
)


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def stream(directory):
    return Stream(directory, topic="t", **SMALL)


def test_batches_come_in_the_order_of_the_tasks_and_of_the_rows(directory, stream):
    stream.run(0, numbered(0, 40), numbered(40, 30), numbered(70, 50))
    stream.run(1, numbered(120, 20))

    assert_once_and_in_order(directory, 140)
    assert state_of(directory) == (1, "done")
    assert hidden_files(directory, "staged") == []


def test_a_version_that_was_passed_over_says_so(directory, stream):
    """It may be a query with a new checkpoint and an old name."""
    stream.run(4, numbered(0, 10))

    with pytest.warns(UserWarning, match="nothing was written.*version 4, this is 3"):
        stream.run(3, numbered(10, 10))
    assert_once_and_in_order(directory, 10)


@pytest.mark.filterwarnings("ignore:nothing was written:UserWarning")
def test_a_repeated_version_is_dropped(directory, stream):
    for batch_id in (0, 0, 1, 0, 1, 2, 1):
        stream.run(batch_id, numbered(batch_id * 10, 10))

    assert_once_and_in_order(directory, 30)
    assert hidden_files(directory, "staged") == []


def test_writers_of_other_names_do_not_touch_each_other(directory, stream):
    other = Stream(directory, "another-query", topic="t")
    named = Stream(directory, None, topic="t", txnAppId="mine")
    for batch_id in range(2):
        for offset, one in enumerate((stream, other, named)):
            one.run(batch_id, numbered(batch_id * 30 + offset * 10, 10))

    assert_once_and_in_order(directory, 60)
    assert len(hidden_files(directory, "commit")) == 3


def test_sequence_numbers_go_on_and_batches_carry_the_producer(directory, stream):
    """The log itself tells who wrote: a broker that opens it knows the producer."""
    stream.run(0, numbered(0, 40))
    stream.run(1, numbered(40, 40))

    with segstore.open_dir(directory, read_only=True) as manager:
        for number in range(3):
            batches = list(manager.log("t", number).scan().batches())
            assert len(batches) > 3
            assert {(b.producer_id, b.producer_epoch) for b in batches} == {
                (producer_id_of(QUERY), 0)
            }
            assert [b.base_sequence for b in batches] == [b.base_offset for b in batches]


def test_sequence_numbers_wrap(directory, stream):
    """0 follows 2^31-1 [format.md 4.2], within a commit too."""
    stream.run(0, numbered(0, 7))
    producer = producer_id_of(QUERY)
    with segstore.open_dir(directory, durability="none") as manager:
        for number in range(3):
            log = manager.log("t", number)
            end = log.log_end_offset
            near_the_end = wrapped_batch(producer, 2**31 - 4, end)
            log.append_as_follower(near_the_end, 0)
    stream.run(1, numbered(10, 30))

    assert_last_values(directory, list(range(10, 40)))


def assert_last_values(path, expected):
    values = values_of(path).values()
    assert sorted(v for v in chain.from_iterable(values) if v >= 10) == expected


@pytest.mark.filterwarnings("ignore:nothing was written:UserWarning")
def test_a_batch_write_with_a_name_is_written_once(directory):
    for version in (5, 5, 6, 3):
        name = {"topic": "t", "txnAppId": "nightly", "txnVersion": str(version)}
        write_batch(directory, numbered(version * 10, 10), **name)

    assert all_values(directory) == list(range(50, 70))
    assert state_of(directory, "nightly") == (6, "done")


def test_without_a_name_every_write_counts(directory):
    for _ in range(2):
        write_batch(directory, numbered(0, 10), topic="t")

    assert all_values(directory) == sorted([*range(10)] * 2)
    assert hidden_files(directory) == []
    assert {b.producer_id for b in batches_of(directory)} == {-1}


def batches_of(path):
    with segstore.open_dir(path, read_only=True) as manager:
        return [b for p in manager.topics()["t"] for b in manager.log("t", p).scan().batches()]


def test_a_stream_without_an_id_says_that_it_may_repeat(directory):
    nameless = Stream(directory, None, topic="t")
    messages = nameless.stage(numbered(0, 10))

    with pytest.warns(UserWarning, match="no option txnAppId"):
        nameless.commit(messages, 0)
    assert_once_and_in_order(directory, 10)


def test_an_empty_micro_batch_writes_nothing(directory, stream):
    stream.run(0, numbered(0, 0))
    stream.commit([], 1)
    stream.commit([None], 2)

    assert hidden_files(directory) == []
    stream.run(3, numbered(0, 5))
    assert_once_and_in_order(directory, 5)


# ---- what is in the way ------------------------------------------------------------------------


def test_an_abort_removes_what_was_staged(directory, stream):
    messages = stream.stage(numbered(0, 10), numbered(10, 10))
    assert len(hidden_files(directory, "staged")) == 2
    stream.abort([*messages, None], 0)

    assert hidden_files(directory) == []
    assert all_values(directory) == []


def test_lost_attempts_and_old_orphans_are_swept(directory, stream):
    """Of the same query whatever their age; of others only when nobody can need them."""
    stream.stage(numbered(0, 10))
    orphan, others = directory / f"{STAGED_PREFIX}a-b", directory / f"{STAGED_PREFIX}a-c"
    for file in (orphan, others):
        file.write_bytes(b"x")
    long_ago = time.time() - ORPHAN_AGE_SECONDS - 60
    os.utime(orphan, (long_ago, long_ago))
    stream.run(0, numbered(0, 10))

    assert hidden_files(directory, "staged") == [others.name]
    assert_once_and_in_order(directory, 10)


def test_what_another_writer_still_needs_is_not_swept(directory, stream, monkeypatch):
    other = Stream(directory, "another-query", topic="t")
    fail_at_append(monkeypatch, 1)
    with pytest.raises(OSError, match="as asked"):
        other.run(0, numbered(0, 10))
    monkeypatch.undo()
    (staged,) = hidden_files(directory, "staged")
    os.utime(directory / staged, (0, 0))
    stream.run(0, numbered(10, 10))

    assert hidden_files(directory, "staged") == [staged]
    other.run(0, numbered(0, 10))
    assert all_values(directory) == list(range(20))


def test_a_commit_waits_for_the_lock_and_not_for_ever(directory):
    stream = Stream(directory, topic="t", lockTimeoutMs="300")
    messages = stream.stage(numbered(0, 10))
    with segstore.open_dir(directory, durability="none"):
        begun = time.monotonic()
        with pytest.raises(LogLockedError, match=r"not free for 300 ms.*option lockTimeoutMs"):
            stream.commit(messages, 0)
        assert time.monotonic() - begun > 0.25
    stream.commit(messages, 0)

    assert_once_and_in_order(directory, 10)


def test_a_commit_that_comes_too_late_leaves_what_is_staged_since(directory, stream):
    """Its driver was killed while it waited for the lock; the next one has done its batch."""
    late = stream.stage(numbered(0, 10))
    again = stream.stage(numbered(0, 10))
    stream.commit(again, 0)
    following = stream.stage(numbered(10, 10))
    with pytest.warns(UserWarning, match="nothing was written"):
        stream.commit(late, 0)
    stream.commit(following, 1)

    assert_once_and_in_order(directory, 20)
    assert hidden_files(directory, "staged") == []


def test_a_staged_file_that_is_missing_is_an_error_before_anything_is_written(directory, stream):
    messages = stream.stage(numbered(0, 10))
    for name in hidden_files(directory, "staged"):
        (directory / name).unlink()

    with pytest.raises(LogNotFoundError, match="one directory for all"):
        stream.commit(messages, 0)
    assert hidden_files(directory) == []


@pytest.mark.parametrize("damage", ["cut", "bit"])
def test_a_damaged_staged_file_is_refused(directory, stream, damage):
    """The CRC of a batch is checked before it changes with the producer's stamp."""
    messages = stream.stage(numbered(0, 10))
    file = directory / hidden_files(directory, "staged")[0]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data[:-1] if damage == "cut" else data)

    with pytest.raises(CorruptRecordError, match="staged"):
        stream.commit(messages, 0)
    assert len(all_values(directory)) < 10


def test_a_partition_that_was_removed_is_an_error_before_anything_is_written(directory, stream):
    messages = stream.stage(numbered(0, 10))
    shutil.rmtree(directory / "t-2")

    with pytest.raises(UnknownTopicOrPartitionError, match="t-2"):
        stream.commit(messages, 0)
    assert hidden_files(directory, "commit") == []
