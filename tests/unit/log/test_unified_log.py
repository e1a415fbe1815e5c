"""A log's life: open, state, close, forks and threads [CLO-1, DUR-24, DUR-68]."""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path

import pytest

import segstore
from segstore.errors import ClosedError, ForkedHandleError, LogReadOnlyError, SegstoreError
from tests.kits.log_kit import TIME, bases, in_a_child, offsets

ONE = [(None, b"x")]


def every_call(log) -> dict[str, object]:
    """What a handle offers, as calls without an argument."""
    return {
        "append": lambda: log.append(ONE),
        "append_as_leader": lambda: log.append_as_leader(b""),
        "append_as_follower": lambda: log.append_as_follower(b"", 0),
        "read": lambda: log.read(0, 10),
        "scan": log.scan,
        "tail": lambda: next(log.tail(0, timeout=0)),
        "iterate": lambda: list(log),
        "to_arrow": log.to_arrow,
        "select": lambda: log.select("offset"),
        "offset_for_timestamp": lambda: log.offset_for_timestamp(0),
        "fetch_offset_by_timestamp": lambda: log.fetch_offset_by_timestamp(-1),
        "flush": log.flush,
        "roll": log.roll,
        "truncate_to": lambda: log.truncate_to(0),
        "truncate_fully": lambda: log.truncate_fully_and_start_at(0),
        "delete_records": lambda: log.delete_records(0),
        "refresh": log.refresh,
        "verify": log.verify,
        "stats": log.stats,
        "enter": log.__enter__,
    }


def test_a_new_log(new_log):
    """[UNI-1] the directory is made; the report says so."""
    log = new_log()
    assert log.topic_partition == ("topic", 0)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 0, 0)
    assert (log.report.created, log.report.clean, bases(log)) == (True, True, [0])
    assert repr(log) == "<UnifiedLog topic-0, offsets 0 to 0>"
    assert not log.closed


def test_stats(new_log):
    log = new_log(durability="messages=100")
    log.append(ONE * 3)
    log.roll()
    log.append(ONE)
    log.flush()
    assert log.stats() == {
        "topic": "topic",
        "partition": 0,
        "log_start_offset": 0,
        "log_end_offset": 4,
        "durable_offset": 4,
        "recovery_point": 4,
        "num_log_segments": 2,
        "size": sum(segment.size_bytes for segment in log.segments()),
        "active_segment_base_offset": 3,
        "latest_leader_epoch": 0,
        "durability": "messages=100",
        "read_only": False,
    }


def test_a_clean_close(new_log):
    """[CLO-1, SEG-51, DUR-24] trimmed, synced, marked; the next open checks nothing."""
    log = new_log()
    for number in range(5):
        log.append([(TIME + number, None, b"x")])
    log.close()
    path = Path(log.path)
    assert (path / f"{0:020d}.index").stat().st_size == 0
    assert (path / f"{0:020d}.timeindex").stat().st_size == 12
    assert (path / ".kafka_cleanshutdown").exists()
    again = new_log()
    assert again.report.clean
    assert again.report.scanned_bytes == 0
    assert (again.recovery_point, again.durable_offset) == (5, 5)
    again.append([(TIME, None, b"x")])
    assert not (path / ".kafka_cleanshutdown").exists()  # [DUR-24] before the first write


def test_closing_twice_is_harmless(new_log):
    log = new_log()
    log.close()
    log.close()
    log.close_quietly()
    assert log.closed
    assert repr(log) == "<UnifiedLog topic-0, closed>"


def test_a_with_block_closes(new_log):
    with new_log() as log:
        log.append(ONE)
    assert log.closed
    with pytest.raises(RuntimeError, match="mine"), new_log() as log:
        raise RuntimeError("mine")
    assert log.closed
    assert new_log().report.clean


def test_close_quietly_writes_nothing(new_log):
    """[CLO-3, SEG-52] as if the process had died."""
    log = new_log()
    log.append(ONE)
    log.close_quietly()
    again = new_log()
    assert not again.report.clean
    assert offsets(again) == [0]


@pytest.mark.parametrize("how", ["close", "close_quietly"])
@pytest.mark.parametrize("read_only", [False, True])
def test_after_close_every_call_says_so(new_log, read_only, how):
    """[LOC-22, DIFF-25] append after close; a closed handle; nothing on disk changes."""
    writer = new_log()
    writer.append(ONE)
    writer.close()
    log = new_log(read_only=read_only)
    getattr(log, how)()
    before = {p.name: p.stat().st_mtime_ns for p in Path(log.path).iterdir()}
    calls = every_call(log)
    del calls["enter"]  # it returns the log itself
    for name, call in calls.items():
        with pytest.raises(ClosedError, match="closed") as caught:
            call()
        assert isinstance(caught.value, ValueError), name
    assert {p.name: p.stat().st_mtime_ns for p in Path(log.path).iterdir()} == before
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)  # what is known stays known


def test_bytes_of_a_fetch_outlive_the_log(new_log):
    """[DUR-106] a fetch owns its bytes."""
    log = new_log()
    log.append(ONE)
    fetched = log.read(0, 100)
    log.close()
    assert offsets(fetched) == [0]


def test_close_waits_for_appends(new_log):
    """[DUR-70] calls in flight end as they would have; those behind are told."""
    log = new_log(durability="sync")
    results, begun = [], threading.Barrier(5)

    def write() -> None:
        begun.wait()
        try:
            while True:
                results.append(log.append(ONE).base_offset)
        except SegstoreError as error:
            results.append(type(error))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    while len(results) < 20:
        time.sleep(0.001)
    log.close()
    for thread in threads:
        thread.join()
    acked = sorted(result for result in results if isinstance(result, int))
    again = new_log()
    assert set(acked) <= set(offsets(again))
    assert ClosedError in results


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("read_only", [False, True])
def test_use_after_fork(new_log, read_only):
    """[DUR-68] every call in the child says so; the parent's lock, files and log stay."""
    writer = log = new_log()
    path = log.path
    log.append(ONE * 3)
    if read_only:
        log = new_log(read_only=True)

    def check() -> None:
        for name, call in every_call(log).items():
            if name == "enter":
                continue
            with pytest.raises(ForkedHandleError) as caught:
                call()
            assert str(os.getppid()) in caught.value.expected, name
            assert str(os.getpid()) in caught.value.found, name
        for close in (log.close, log.close_quietly):
            with pytest.raises(ForkedHandleError):
                close()

    assert in_a_child(check) == 0
    assert offsets(log) == [0, 1, 2]
    assert writer.append(ONE).base_offset == 3
    with pytest.raises(segstore.LogLockedError):
        segstore.open(path)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_ends_takes_nothing_with_it(new_log):
    """[DUR-68] destructors in the child close descriptors only."""
    log = new_log()
    log.append(ONE)

    def check() -> None:
        nonlocal log
        del log
        gc.collect()

    before = {p.name: p.stat().st_mtime_ns for p in Path(log.path).iterdir()}
    assert in_a_child(check) == 0
    assert {p.name: p.stat().st_mtime_ns for p in Path(log.path).iterdir()} == before
    log.append(ONE)
    log.close()
    assert new_log().report.clean


def test_a_dropped_log_warns_and_can_be_opened_again(tmp_path):
    """Without close nothing is lost, but the next open recovers."""
    log = segstore.open(tmp_path / "topic-0", durability="none")
    log.append(ONE)
    logs = [log]
    del log
    with pytest.warns(ResourceWarning, match="without close"):
        logs.clear()
    with segstore.open(tmp_path / "topic-0") as again:
        assert not again.report.clean
        assert offsets(again) == [0]


def test_a_failed_close_is_told_and_lets_go(new_log, monkeypatch):
    """[DUR-24, DUR-34] no marker, no lock held; the next open recovers."""
    log = new_log()
    log.append(ONE)

    def refuse(**_how) -> None:
        raise segstore.CloseError("cannot close the file", file="0.log")

    monkeypatch.setattr(log._local_log, "close", refuse)
    with pytest.raises(segstore.CloseError):
        log.close()
    again = new_log()
    assert not again.report.clean
    assert offsets(again) == [0]


def test_a_reader_beside_its_writer(new_log):
    """[DUR-71, DUR-75, DUR-81] it sees what was written when it looks; nobody is locked out."""
    writer = new_log(internal_segment_bytes=200)
    writer.append(ONE)
    reader = new_log(read_only=True)
    writer.append(ONE * 2)
    assert reader.log_end_offset == 1
    assert reader.refresh() == 3
    for _ in range(5):
        writer.append(ONE)
    writer.flush()
    assert reader.refresh() == 8
    assert bases(reader) == bases(writer)
    assert reader.durable_offset == 8
    writer.delete_records(5)
    reader.refresh()
    assert reader.log_start_offset == 5
    with pytest.raises(LogReadOnlyError):
        reader.flush()
    assert writer.refresh() == 8
    writer.close()
    reader.close()
