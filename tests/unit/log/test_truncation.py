"""Truncation, and deletion up to a new log start [TRU-*, LST-4, DUR-5, DUR-16, DUR-18, DUR-19]."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from segstore import _core
from segstore.errors import (
    FsyncFailedError,
    IllegalArgumentError,
    LogReadOnlyError,
    OffsetOutOfRangeError,
)
from tests.kits.log_kit import TIME, at, bases, offsets, singleton, values

ONE = [(None, b"x" * 20)]


def names(log, kind: str) -> list[str]:
    return sorted(path.name for path in Path(log.path).glob(f"*{kind}"))


def checkpoint(log, name: str) -> int | None:
    """The offset in one of the partition's checkpoints."""
    path = Path(log.path) / f"{name}-offset-checkpoint"
    return int(path.read_text().split()[-1]) if path.exists() else None


@pytest.fixture
def log(new_log):
    """Twelve records, three a segment."""
    made = new_log(internal_segment_bytes=3 * 89)
    for number in range(12):
        made.append([(TIME + number, None, b"%020d" % number)])
    assert bases(made) == [0, 3, 6, 9]
    return made


@pytest.fixture
def steps(monkeypatch) -> list[str]:
    """What is done to the directory, in order."""
    done: list[str] = []

    class Spy:
        def __init__(self, directory) -> None:
            self._directory = directory

        def __getattr__(self, name):
            return getattr(self._directory, name)

        def sync(self, barrier) -> None:
            done.append("sync")
            self._directory.sync(barrier)

        def write_file_atomically(self, name, data, barrier) -> None:
            done.append(name)
            self._directory.write_file_atomically(name, data, barrier)

        def write_beside(self, name, data, barrier) -> None:
            done.append(f"write beside {name}")
            self._directory.write_beside(name, data, barrier)

        def put_in_place(self, name, barrier) -> None:
            done.append(f"put in place {name}")
            self._directory.put_in_place(name, barrier)

    class Steps(list):
        def watch(self, log) -> None:
            assert log._background.wait_until_idle()
            spy = Spy(log._directory)
            monkeypatch.setattr(log._checkpoint_store, "_home", spy)
            monkeypatch.setattr(log._local_log, "directory", spy)
            monkeypatch.setattr(log, "_directory", spy)
            monkeypatch.setattr(log._flusher._recovery_point, "_directory", spy)
            monkeypatch.setattr(log._flusher._directory_sync, "_directory", spy)
            for segment_step in ("change_suffix", "truncate_to"):
                real = getattr(_core.LogSegment, segment_step)

                def note(segment, argument, step=segment_step, real=real):
                    done.append(f"{step} {segment.base_offset}")
                    return real(segment, argument)

                monkeypatch.setattr(type(log.segments()[0]), segment_step, note, raising=False)

    steps = Steps()
    steps.done = done
    return steps


# ---- truncate to ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "kept"), [(11, [0, 3, 6, 9]), (9, [0, 3, 6, 9]), (8, [0, 3, 6]), (1, [0]), (0, [0])]
)
def test_truncate_to(log, new_log, offset, kept):
    """[TRU-3, LOC-14] the segment that begins there stays, empty, also after a reopen."""
    assert log.truncate_to(offset) is True
    assert (log.log_end_offset, bases(log)) == (offset, kept)
    assert offsets(log) == list(range(offset))
    assert log.append([(None, b"new")]).base_offset == offset
    assert values(log)[-1] == b"new"
    log.close_quietly()
    again = new_log()
    assert offsets(again) == list(range(offset + 1))
    assert values(again)[-1] == b"new"


def test_nothing_to_truncate(log):
    """[TRU-2]"""
    assert log.truncate_to(12) is False
    assert log.truncate_to(99) is False
    assert (log.log_end_offset, bases(log)) == (12, [0, 3, 6, 9])


def test_a_negative_offset_is_refused(log):
    """[TRU-1]"""
    for call in (log.truncate_to, log.truncate_fully_and_start_at):
        with pytest.raises(IllegalArgumentError, match="0 or more") as caught:
            call(-1)
        assert caught.value.found == "-1"
    assert log.log_end_offset == 12


@pytest.mark.parametrize("offset", [4, 5])
def test_inside_a_batch_the_whole_batch_goes(new_log, offset):
    """[TRU-5, SEG-24] offsets up to the truncation do not exist then; the next append is there."""
    log = new_log()
    log.append(ONE * 3)
    log.append(ONE * 3)
    assert log.truncate_to(offset)
    assert (log.log_end_offset, offsets(log)) == (offset, [0, 1, 2])
    assert log.append(ONE).base_offset == offset
    assert offsets(log) == [0, 1, 2, offset]
    assert log.verify().ok


def test_in_a_gap_what_follows_goes(new_log):
    """[SEG-25]"""
    log = new_log()
    log.append_as_follower(at(0, 2) + at(10, 2), 0)
    log.truncate_to(5)
    assert (log.log_end_offset, offsets(log)) == (5, [0, 1])


def test_below_the_first_segment_everything_goes(log):
    """[TRU-3] TRU-4 with that offset."""
    log.delete_records(7)
    assert bases(log) == [6, 9]
    assert log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (2, 2, [2])


def test_below_the_log_start_the_log_start_falls(log, new_log):
    """[TRU-3] log start = min(offset, log start), on disk too."""
    log.delete_records(8)
    assert bases(log) == [6, 9]
    log.truncate_to(7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    log.append(ONE)
    log.close_quietly()
    again = new_log()
    assert (again.log_start_offset, offsets(again)) == (7, [7])


def test_epochs_follow(new_log):
    """[TRU-2, TRU-3] an epoch without data goes as well."""
    log = new_log()
    for epoch in (1, 3, 5):
        log.append_as_leader(singleton(), leader_epoch=epoch)
    log.truncate_to(2)
    assert [(e.epoch, e.start_offset) for e in log._epochs.entries] == [(1, 0), (3, 1)]
    log._epochs.assign(9, 2)
    assert log.truncate_to(2) is False
    assert [(e.epoch, e.start_offset) for e in log._epochs.entries] == [(1, 0), (3, 1)]


def test_timestamps_and_indexes_follow(log):
    """[SEG-24.2, SEG-24.7]"""
    log.truncate_to(4)
    assert log.offset_for_timestamp(TIME + 3) == 3
    assert log.offset_for_timestamp(TIME + 4) is None
    assert log.fetch_offset_by_timestamp(-3).offset == 3
    assert log.verify().ok


def test_the_recovery_point_falls_first(log, steps):
    """[DUR-16] then names highest first, their sync, the cut."""
    log.flush()
    steps.watch(log)
    log.truncate_to(4)
    assert steps.done[:5] == [
        "recovery-point-offset-checkpoint",
        "change_suffix 9",
        "change_suffix 6",
        "sync",
        "truncate_to 3",
    ]
    assert checkpoint(log, "recovery-point") == 4
    assert log.durable_offset == 4


def test_what_is_left_is_durable(log):
    """[DUR-13, DUR-15] Who waits for a sync of it may go on when the log was truncated."""
    assert log.durable_offset < 11
    log.truncate_to(11)
    assert log.durable_offset == 11
    assert log.flush() == 11


def test_files_are_renamed_at_once_and_unlinked_later(new_log):
    """[LOC-20, CON-7] after file.delete.delay.ms; a reader that holds the segment reads on."""
    log = new_log(internal_segment_bytes=100, file_delete_delay_ms=30)
    for number in range(3):
        log.append([(None, b"%d" % number)])
    held = log.segments()[2]
    log.truncate_to(1)
    assert names(log, ".log") == [f"{0:020d}.log", f"{1:020d}.log"]
    assert names(log, ".log.deleted") == [f"{2:020d}.log.deleted"]
    assert held.read(2, 1000, 1000, True).size_bytes > 0
    deadline = time.monotonic() + 20
    while names(log, ".deleted"):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert held.read(2, 1000, 1000, True).size_bytes > 0


def test_close_does_not_wait_for_the_delay(log):
    log.truncate_to(4)
    assert names(log, ".deleted")
    log.close()
    assert names(log, ".deleted") == []


def test_a_truncation_that_fails_half_way_ends_all_writing(log, monkeypatch):
    """[DUR-38] memory and disk are apart: reads go on, changes do not."""

    def refuse(*_):
        raise FsyncFailedError("cannot sync the directory")

    monkeypatch.setattr(log._local_log, "truncate_to", refuse)
    with pytest.raises(FsyncFailedError):
        log.truncate_to(5)
    with pytest.raises(LogReadOnlyError, match="cannot sync"):
        log.append(ONE)
    assert offsets(log) == list(range(12))


def test_an_aborted_transaction_whose_marker_goes_is_open_again(log):
    """[TRU-6, TXX-5] and snapshots above the end go [DUR-16]."""
    path = Path(log.path)
    entry = bytes(2) + b"".join(n.to_bytes(8) for n in (1, 3, 4, 3))
    (path / f"{3:020d}.txnindex").write_bytes(entry)
    assert names(log, ".snapshot") == [f"{base:020d}.snapshot" for base in (3, 6, 9)]
    log.truncate_to(4)
    assert (path / f"{3:020d}.txnindex").read_bytes() == b""
    assert names(log, ".snapshot") == [f"{offset:020d}.snapshot" for offset in (3, 4)]


# ---- truncate fully ------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 5, 12, 1000])
def test_truncate_fully(log, new_log, offset):
    """[TRU-4, LOC-15]"""
    log.truncate_fully_and_start_at(offset)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (offset, offset, [offset])
    assert offsets(log) == []
    assert log._epochs.entries == ()
    assert log.append(ONE).base_offset == offset
    log.close_quietly()
    again = new_log()
    assert (again.log_start_offset, offsets(again)) == (offset, [offset])


def test_truncate_fully_in_order(log, steps):
    """[DUR-18] recovery point, log start, names highest first, the first when they are synced."""
    log.flush()
    steps.watch(log)
    log.truncate_fully_and_start_at(5)
    log_start = "log-start-offset-checkpoint"
    assert steps.done[:10] == [
        "recovery-point-offset-checkpoint",
        f"write beside {log_start}",
        f"put in place {log_start}",
        *(f"change_suffix {base}" for base in (9, 6, 3)),
        "sync",
        "change_suffix 0",
        "sync",
        "sync",
    ]
    assert checkpoint(log, "log-start") == 5
    assert checkpoint(log, "recovery-point") == 0


# ---- delete records ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "kept"), [(1, [0, 3, 6, 9]), (3, [3, 6, 9]), (8, [6, 9]), (12, [9]), (-1, [9])]
)
def test_delete_records(log, new_log, offset, kept):
    """[LST-4, RET-5, DUR-19] the log start is durable when the call returns."""
    expected = 12 if offset == -1 else offset
    assert log.delete_records(offset) == expected
    assert (log.log_start_offset, bases(log)) == (expected, kept)
    assert checkpoint(log, "log-start") == expected
    assert offsets(log) == list(range(expected, 12))
    log.close_quietly()
    again = new_log()
    assert (again.log_start_offset, offsets(again)) == (expected, list(range(expected, 12)))


def test_deleting_nothing(log):
    """[LST-1] the log start never falls."""
    log.delete_records(5)
    assert log.delete_records(3) == log.delete_records(5) == log.log_start_offset == 5


@pytest.mark.parametrize("offset", [13, -2, 2**63 - 1])
def test_deleting_what_is_not_there(log, offset):
    """[LST-4]"""
    with pytest.raises(OffsetOutOfRangeError) as caught:
        log.delete_records(offset)
    assert (caught.value.found, caught.value.expected) == (str(offset), "0 to 12")
    assert log.log_start_offset == 0


@pytest.mark.parametrize("policy", ["compact", "delete", "compact,delete", ""])
def test_the_policy(new_log, policy):
    """[LST-4] compact without delete leaves deletion to compaction."""
    log = new_log(cleanup_policy=policy)
    log.append([(b"k", b"v")] * 2)
    if policy == "compact":
        with pytest.raises(IllegalArgumentError, match="compact"):
            log.delete_records(1)
    else:
        assert log.delete_records(1) == 1


def test_delete_records_in_order(log, steps):
    """[DUR-19] log start, names oldest first, their sync."""
    steps.watch(log)
    log.delete_records(7)
    names_and_syncs = [step for step in steps.done if "epoch" not in step and "." not in step]
    assert names_and_syncs == [
        "log-start-offset-checkpoint",
        "change_suffix 0",
        "change_suffix 3",
        "sync",
    ]


def test_epochs_below_the_log_start_go(new_log):
    """[LST-1] the epoch that covers it begins there."""
    log = new_log()
    for epoch in (1, 1, 4):
        log.append_as_leader(singleton(), leader_epoch=epoch)
    log.delete_records(1)
    assert [(e.epoch, e.start_offset) for e in log._epochs.entries] == [(1, 1), (4, 2)]
    log.delete_records(3)
    assert [(e.epoch, e.start_offset) for e in log._epochs.entries] == [(4, 3)]


def test_nothing_comes_back(log, new_log):
    """[DUR-5] records that were deleted and acked, whatever happens to the names."""
    log.delete_records(9)
    log.close_quietly()
    for path in Path(log.path).glob("*.deleted"):
        os.rename(path, str(path).removesuffix(".deleted"))  # noqa: PTH104 - as if never renamed
    again = new_log()
    assert (again.log_start_offset, bases(again), offsets(again)) == (9, [9], [9, 10, 11])


def test_a_reader_truncates_nothing(new_log):
    """[DUR-71]"""
    new_log().close()
    reader = new_log(read_only=True)
    for call in (reader.truncate_to, reader.truncate_fully_and_start_at, reader.delete_records):
        with pytest.raises(LogReadOnlyError):
            call(0)
