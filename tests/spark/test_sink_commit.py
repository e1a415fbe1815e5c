"""What has a name is written once: commits repeated, interrupted at every step, and passed over."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from datetime import UTC, datetime
from itertools import chain

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.errors import (
    CorruptCheckpointError,
    CorruptRecordError,
    IllegalStateError,
    LogLockedError,
    LogNotFoundError,
    UnknownTopicOrPartitionError,
)
from segstore.spark.commit_log import producer_id_of
from segstore.spark.sink_commit import ORPHAN_AGE_MS
from segstore.spark.staged_file import STAGED_PREFIX
from tests.spark.sink_kit import (
    QUERY,
    Stream,
    hidden_files,
    make_topic,
    numbered,
    records_of,
    values_of,
    write_batch,
)

LONG_AGO = datetime(2013, 1, 1, tzinfo=UTC)
KILLED = 77
SMALL = {"batch.size": "64"}  # a batch of a record or two


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def stream(directory):
    return Stream(directory, topic="t", **SMALL)


def all_values(path):
    return sorted(chain.from_iterable(values_of(path).values()))


def assert_once_and_in_order(path, count):
    values = values_of(path)
    assert sorted(chain.from_iterable(values.values())) == list(range(count))
    assert all(numbers == sorted(numbers) for numbers in values.values())


def state_of(path, query=QUERY):
    text = (path / f".segstore-commit-{producer_id_of(query):016x}.json").read_text()
    content = json.loads(text)
    return content["version"], content["state"]


# ---- versions ----------------------------------------------------------------------------------


def test_batches_come_in_the_order_of_the_tasks_and_of_the_rows(directory, stream):
    stream.run(0, numbered(0, 40), numbered(40, 30), numbered(70, 50))
    stream.run(1, numbered(120, 20))

    assert_once_and_in_order(directory, 140)
    assert state_of(directory) == (1, "done")
    assert hidden_files(directory, "staged") == []


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


def wrapped_batch(producer, base_sequence, offset):
    from segstore._core import BatchOptions, encode_records
    from segstore.records.compression import codec_table

    options = BatchOptions(
        base_offset=offset,
        partition_leader_epoch=0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=base_sequence,
    )
    now = int(time.time() * 1000)
    return bytes(memoryview(encode_records([(b"k", b"-1")], options, codec_table(), now, 1 << 20)))


def assert_last_values(path, expected):
    values = values_of(path).values()
    assert sorted(v for v in chain.from_iterable(values) if v >= 10) == expected


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


# ---- interruptions -----------------------------------------------------------------------------


def run_in_a_process_that_dies(action, at=None) -> int:
    """Fork, run *action* and die without a word at its *at*-th call; returns the calls made."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        calls = 0

        def count(_frame, event, _argument):
            nonlocal calls
            calls += event == "call"
            if calls == at:
                os._exit(KILLED)

        try:
            sys.setprofile(count)
            action()
            sys.setprofile(None)
            os.write(writing, str(calls).encode())
            os._exit(0)
        except BaseException:  # noqa: BLE001 - it is no business of the parent's stack
            sys.setprofile(None)
            import traceback

            traceback.print_exc()
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code == (0 if at is None or text else KILLED)
    return int(text or at)


def with_timestamps(batch, moment):
    import pyarrow as pa

    times = pa.array([moment] * batch.num_rows, pa.timestamp("us", "UTC"))
    return batch.append_column("timestamp", times)


@pytest.mark.parametrize("moment", [None, LONG_AGO], ids=["now", "long-ago"])
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_commit_that_dies_anywhere_is_finished_once(tmp_path, few_or_many, moment, deaths):
    """Killed at calls all over the commit; the next driver stages anew and commits again.

    Records of long ago: their producer is expired whenever a log is opened [PSM-45].
    """

    def task(first, count):
        batch = numbered(first, count)
        return batch if moment is None else with_timestamps(batch, moment)

    start = tmp_path / "start"
    make_topic(start)
    Stream(start, topic="t", **SMALL).run(0, task(0, 20))
    counted = tmp_path / "counted"
    shutil.copytree(start, counted)
    stream = Stream(counted, topic="t", **SMALL)
    messages = stream.stage(task(20, 30), task(50, 20))
    calls = run_in_a_process_that_dies(lambda: stream.commit(messages, 1))
    assert calls > 1000
    seen = set()
    chance = random.Random(20)

    for number in range(few_or_many(8, 40)):
        path = tmp_path / f"run{number}"
        shutil.copytree(start, path)
        stream = Stream(path, topic="t", **SMALL)
        for _ in range(deaths):
            messages = stream.stage(task(20, 30), task(50, 20))
            at = chance.randrange(1, calls)
            run_in_a_process_that_dies(lambda: stream.commit(messages, 1), at)  # noqa: B023
        seen.add(state_of(path))
        stream.run(1, task(20, 30), task(50, 20))
        stream.run(2, task(70, 10))

        assert_once_and_in_order(path, 80)
        assert state_of(path) == (2, "done")
        assert hidden_files(path, "staged") == []
        shutil.rmtree(path)
    assert {(0, "done"), (1, "committing")} <= seen


def test_a_commit_that_fails_is_finished_by_the_next_one(directory, stream, monkeypatch):
    """No process dies: Spark aborts what failed, and the staged files have to outlive that."""
    stream.run(0, numbered(0, 10))
    messages = stream.stage(numbered(10, 20))
    fail_at_append(monkeypatch, 5)
    with pytest.raises(OSError, match="as asked"):
        stream.commit(messages, 1)
    monkeypatch.undo()
    stream.abort(messages, 1)

    assert state_of(directory) == (1, "committing")
    assert len(hidden_files(directory, "staged")) == 1
    stream.run(2, numbered(30, 10))
    assert_once_and_in_order(directory, 40)
    assert hidden_files(directory, "staged") == []


def test_an_empty_micro_batch_finishes_what_was_interrupted(directory, stream, monkeypatch):
    fail_at_append(monkeypatch, 3)
    with pytest.raises(OSError, match="as asked"):
        stream.run(0, numbered(0, 20))
    monkeypatch.undo()
    nameless = Stream(directory, None, topic="t", txnAppId=QUERY)
    nameless.commit([], 0)

    assert_once_and_in_order(directory, 20)
    assert state_of(directory) == (0, "done")


def fail_at_append(monkeypatch, nth):
    from segstore.log.unified_log import UnifiedLog

    appends, append = [], UnifiedLog.append_as_leader

    def failing(self, *arguments, **named):
        appends.append(self)
        if len(appends) == nth:
            raise OSError("as asked")
        return append(self, *arguments, **named)

    monkeypatch.setattr(UnifiedLog, "append_as_leader", failing)


def test_others_may_write_between_a_death_and_the_next_commit(directory, stream, monkeypatch):
    """Batches of the producer count, wherever they are behind the noted end."""
    messages = stream.stage(numbered(0, 60))
    fail_at_append(monkeypatch, 20)
    with pytest.raises(OSError, match="as asked"):
        stream.commit(messages, 0)
    monkeypatch.undo()
    there = all_values(directory)
    assert 0 < len(there) < 60
    write_batch(directory, numbered(1000, 30), topic="t")
    stream.run(0, numbered(0, 60))

    assert all_values(directory) == [*range(60), *range(1000, 1030)]


def test_other_batches_of_the_producer_are_an_error(directory, stream, monkeypatch):
    """Somebody used the producer id: nothing is guessed."""
    fail_at_append(monkeypatch, 3)
    with pytest.raises(OSError, match="as asked"):
        stream.run(0, numbered(0, 20))
    monkeypatch.undo()
    with segstore.open_dir(directory, durability="none") as manager:
        for number in range(3):
            log = manager.log("t", number)
            strange = wrapped_batch(producer_id_of(QUERY), 5000, log.log_end_offset)
            log.append_as_follower(strange, 0)

    with pytest.raises(IllegalStateError, match="other batches of producer"):
        stream.run(0, numbered(0, 20))


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
    long_ago = time.time() - ORPHAN_AGE_MS / 1000 - 60
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
        with pytest.raises(LogLockedError):
            stream.commit(messages, 0)
        assert time.monotonic() - begun > 0.25
    stream.commit(messages, 0)

    assert_once_and_in_order(directory, 10)


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


# ---- topics that are made ----------------------------------------------------------------------


def test_a_missing_topic_is_made_with_the_partitions_asked_for(tmp_path):
    path = tmp_path / "deep" / "logs"
    stream = Stream(path, topic="t", numPartitions="4")
    stream.run(0, numbered(0, 40))
    stream.run(1, numbered(40, 40))

    assert_once_and_in_order(path, 80)
    assert sorted(records_of(path)) == [0, 1, 2, 3]


def test_a_topic_that_is_there_keeps_its_partitions(directory):
    Stream(directory, topic="t", numPartitions="9").run(0, numbered(0, 40))

    assert sorted(records_of(directory)) == [0, 1, 2]


def test_a_topic_whose_making_was_interrupted_is_finished(tmp_path, few_or_many):
    """Partition 0 comes last: without it a topic is not finished, and keys belong elsewhere."""
    counted = Stream(tmp_path / "counted", topic="t", numPartitions="4")
    messages = counted.stage(numbered(0, 30))
    calls = run_in_a_process_that_dies(lambda: counted.commit(messages, 0))
    found = set()
    for number in range(few_or_many(6, 30)):
        path = tmp_path / f"run{number}"
        stream = Stream(path, topic="t", numPartitions="4")
        messages = stream.stage(numbered(0, 30))
        at = calls * (number + 1) // (few_or_many(6, 30) * 3)  # it is made at the beginning
        run_in_a_process_that_dies(lambda: stream.commit(messages, 0), at)  # noqa: B023
        found.add(len(list(path.glob("t-*"))))
        stream.run(0, numbered(0, 30))

        assert_once_and_in_order(path, 30)
        assert values_of(path) == values_of(tmp_path / "counted")
        ids = {(path / f"t-{n}" / "partition.metadata").read_text() for n in range(4)}
        assert len(ids) == 1
    assert len(found) > 1


def test_a_topic_that_somebody_else_made_meanwhile_is_an_error(directory):
    stream = Stream(directory, topic="new", numPartitions="4")
    messages = stream.stage(numbered(0, 10))
    make_topic(directory, "new", 2)

    with pytest.raises(IllegalStateError, match="made by somebody else"):
        stream.commit(messages, 0)
    stream.run(0, numbered(0, 10))
    assert sorted(records_of(directory, "new")) == [0, 1]
