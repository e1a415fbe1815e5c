"""Copies of the safe profile: what counts as one, and what is left of those that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import RemoteStorageError
from segstore.remote.log_manager.copy_read_back import is_as_here
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.remote.storage.segment_files import object_name
from tests.kits.remote_log_kit import PARTITION, Copying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


@pytest.fixture
def copying(tmp_path: Path) -> Iterator[Copying]:
    it = Copying(tmp_path)
    yield it
    it.log.close()


def damage(it: Copying, name: str, change: Callable[[bytes], bytes]) -> None:
    """Let the storage keep something else of each segment."""

    def store(call: str, action: Callable[[], Any], about: Any) -> Any:
        result = action()
        if call == "copy":
            files = it.storage.segments[about[0].segment_id.id]
            files[name] = change(files[name])
        return result

    it.storage.intercept = store


@pytest.mark.parametrize(
    "name", ["log", IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT, IndexType.LEADER_EPOCH]
)
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "flipped"])
def test_a_copy_that_is_not_what_was_copied_does_not_count(
    copying: Copying, name: str, *, cut: bool
):
    """[DUR-140] It is deleted, and nothing here goes."""
    damage(
        copying,
        name,
        lambda data: data[:-1] if cut else bytes([data[0] ^ 1]) + data[1:],
    )

    error = copying.manager.copy(copying.log)

    assert isinstance(error, RemoteStorageError)
    assert "is not what was copied" in str(error)
    assert copying.states() == []
    assert copying.storage.segments == {}
    assert copying.log.highest_offset_in_remote_storage == -1


def test_what_an_interrupted_copy_left_is_deleted_before_the_next(copying: Copying):
    """[DUR-142] Kafka leaves it until the segment expires."""

    def stop(call: str, action: Callable[[], Any], about: Any) -> Any:
        if call == "update" and about.state is FINISHED:
            raise RemoteStorageError("no metadata", found="an error", expected="none")
        return action()

    copying.metadata.intercept = stop
    copying.manager.copy(copying.log)
    assert copying.states() == [(0, 9, STARTED)]

    copying.metadata.intercept = lambda _, action, __: action()
    copying.now_ms += 60_000
    assert copying.manager.copy(copying.log) is None

    assert copying.states() == [(0, 9, FINISHED), (10, 19, FINISHED)]
    assert len(copying.storage.segments) == 2


def test_another_id_of_this_directory_does_not_keep_an_interrupted_copy(copying: Copying):
    """[DUR-142] The directory got its broker's id between the copy and the next run."""

    def stop(call: str, action: Callable[[], Any], _: Any) -> Any:
        if call == "update":
            raise RemoteStorageError("no metadata", found="an error", expected="none")
        return action()

    copying.metadata.intercept = stop
    copying.manager.copy(copying.log)
    cache = copying.metadata.cache(PARTITION)
    (left,) = cache.list_remote_log_segments()
    cache._segments[left.segment_id.id] = cache._segments[left.segment_id.id]._replace(
        metadata=replace(left, broker_id=left.broker_id + 7)
    )
    copying.metadata.intercept = lambda _, action, __: action()
    copying.now_ms += 60_000

    assert copying.manager.copy(copying.log) is None

    assert copying.states() == [(0, 9, FINISHED), (10, 19, FINISHED)]
    assert left.segment_id.id not in copying.storage.segments


def test_a_task_that_failed_waits_twice_as_long_each_time(copying: Copying):
    """[DUR-144] Up to 30 s, as ``remote.log.manager.task.retry.backoff.max.ms`` says."""

    def fail(call: str, _: Callable[[], Any], __: Any) -> Any:
        raise RemoteStorageError(call, found="an error", expected="none")

    copying.storage.intercept = fail
    begin, tries = copying.now_ms, []
    while copying.now_ms < begin + 4000:
        if copying.manager.copy(copying.log) is not None:
            tries.append(copying.now_ms - begin)
        copying.now_ms += 100

    assert tries == [0, 500, 1500, 3500]


@pytest.mark.parametrize("is_cut", [True, False])
def test_what_another_broker_copied_is_read_once(copying: Copying, *, is_cut: bool):
    """[DUR-140] Whole, it counts; else the segment is copied from here too."""
    copying.manager.copy(copying.log)
    cache = copying.metadata.cache(PARTITION)
    for one in list(cache.list_remote_log_segments()):
        cache._segments[one.segment_id.id] = cache._segments[one.segment_id.id]._replace(
            metadata=replace(one, broker_id=7)
        )
        if is_cut:
            files = copying.storage.segments[one.segment_id.id]
            files["log"] = files["log"][:-1]
    copying.manager._parts.are_whole.clear()
    reads: list[str] = []

    def note(call: str, action: Callable[[], Any], _: Any) -> Any:
        reads.append(call)
        return action()

    copying.storage.intercept = note
    assert copying.manager.copy(copying.log) is None
    count = reads.count("copy")
    reads.clear()
    assert copying.manager.copy(copying.log) is None

    assert count == (2 if is_cut else 0)
    assert reads == []


@pytest.mark.parametrize("change", ["cut", "other records", "none"])
def test_a_copy_of_an_earlier_process_is_compared_once(copying: Copying, change: str):
    """[DUR-140] Of this broker too: Kafka's profile, or a broker, reads nothing back."""
    copying.manager.copy(copying.log)
    one = copying.metadata.cache(PARTITION).list_remote_log_segments()
    first = min(one, key=lambda it: it.start_offset)
    files = copying.storage.segments[first.segment_id.id]
    good = files["log"]
    files["log"] = {"cut": b"", "other records": bytes([1]) * len(good), "none": good}[change]
    copying.manager._parts.are_whole.clear()  # another process has begun
    copying.log._remote.tier.highest_offset = -1
    reads: list[str] = []

    def note(call: str, action: Callable[[], Any], _: Any) -> Any:
        reads.append(call)
        return action()

    copying.storage.intercept = note
    error = copying.manager.copy(copying.log)
    if change == "none":
        assert error is None
        assert reads == ["fetch_log", "fetch_log"]
    else:
        assert isinstance(error, RemoteStorageError)
        assert object_name(first) in str(error)
        assert first.segment_id.id not in copying.storage.segments
        assert reads.count("copy") == reads.count("delete") == 1
    assert copying.states() == [(0, 9, FINISHED), (10, 19, FINISHED)]
    assert copying.log.highest_offset_in_remote_storage == 19
    assert good in [it["log"] for it in copying.storage.segments.values()]

    reads.clear()
    copying.now_ms += 60_000
    assert copying.manager.copy(copying.log) is None
    assert reads == []


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"log": lambda data: data[:-1] + bytes([data[-1] ^ 1])}, False),
        ({"end_offset": 18}, False),
        ({"start_offset": 1}, False),
    ],
    ids=["same", "flipped", "too much", "begins earlier"],
)
def test_a_copy_of_other_segments_is_compared_too(
    copying: Copying, change: dict[str, Any], *, is_same: bool
):
    """[DUR-140] Its records lie in two segments here."""
    copying.manager.copy(copying.log)
    first, second = copying.metadata.cache(PARTITION).list_remote_log_segments()
    files = copying.storage.segments[first.segment_id.id]
    log = files["log"] + copying.storage.segments[second.segment_id.id]["log"]
    files["log"] = change.pop("log", lambda data: data)(log)
    both = replace(first, segment_size_bytes=len(log), **{"end_offset": 19, **change})

    assert is_as_here(copying.storage, both, copying.log) is is_same


def test_a_copy_that_ends_before_its_range_does_not_count(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-140] Its metadata say that it has the records of the next segment too.

    Nothing behind its end is asked for: some stores refuse that.
    """
    copying.manager.copy(copying.log)
    first = next(iter(copying.metadata.cache(PARTITION).list_remote_log_segments()))
    ends, fetch = [], copying.storage.fetch_log_segment

    def counted(metadata, start, end):
        ends.append(end)
        return fetch(metadata, start, end)

    monkeypatch.setattr(copying.storage, "fetch_log_segment", counted)

    assert is_as_here(copying.storage, first, copying.log) is True
    assert is_as_here(copying.storage, replace(first, end_offset=19), copying.log) is False
    assert max(ends) <= first.segment_size_bytes


def test_a_copy_of_a_part_of_a_segment_is_compared_too(copying: Copying):
    """[DUR-140] It begins and ends in the middle of a segment."""
    copying.manager.copy(copying.log)
    first = next(iter(copying.metadata.cache(PARTITION).list_remote_log_segments()))
    files = copying.storage.segments[first.segment_id.id]
    segment = copying.log.segments()[0]
    begin, end = (segment.translate_offset(offset).position for offset in (3, 7))
    files["log"] = files["log"][begin:end]
    part = replace(first, start_offset=3, end_offset=6, segment_size_bytes=end - begin)

    assert 0 < begin < end < segment.size_bytes
    assert is_as_here(copying.storage, part, copying.log) is True
    assert is_as_here(copying.storage, replace(part, start_offset=2), copying.log) is False


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (lambda here, before: before + here, True),
        (lambda here, before: before[:16] + b"\x07" + before[17:] + here, False),
        (lambda here, before: before[:-1] + bytes([before[-1] ^ 1]) + here, False),
        (lambda here, before: before + here[:-1] + bytes([here[-1] ^ 1]), False),
        (lambda here, before: before + before[: len(here)], False),
        (lambda here, before: before + here[: len(here) // 2], False),
    ],
    ids=["same", "no batch", "flipped before", "flipped here", "other records", "less"],
)
def test_a_copy_that_begins_before_the_log_is_compared_too(
    copying: Copying, change: Callable[[bytes, bytes], bytes], *, is_same: bool
):
    """[DUR-140] The batches before are checked, the others are compared."""
    copying.manager.copy(copying.log)
    first, second = copying.metadata.cache(PARTITION).list_remote_log_segments()
    files = copying.storage.segments[first.segment_id.id]
    files["log"] = change(copying.storage.segments[second.segment_id.id]["log"], files["log"])
    both = replace(first, end_offset=19, segment_size_bytes=len(files["log"]))
    copying.log.delete_records(10)
    copying.log.delete_old_segments()

    assert copying.log.segments()[0].base_offset == 10
    assert is_as_here(copying.storage, both, copying.log) is is_same
    assert is_as_here(copying.storage, first, copying.log) is None


def test_what_is_known_of_a_copy_goes_with_it(copying: Copying):
    """[TIER-90, DUR-140] A deleted partition left what was known of its copies in memory."""
    copying.manager.copy(copying.log)
    known = copying.manager._parts.are_whole
    assert set(known.values()) == {True}

    assert copying.manager.stop_partitions([PARTITION], delete_remote_log=True) == {}

    assert known == {}
