"""Flushes, stops, names and truncations of many logs; what retention takes [MGR-*, RTN-*]."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import segstore
from segstore.errors import (
    ClosedError,
    InvalidTopicError,
    NotALogError,
    OffsetOutOfRangeError,
    SegstoreError,
    WriteError,
)
from segstore.log.files.checkpoints import RECOVERY_POINT_CHECKPOINT, parse_offset_checkpoint
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler
from segstore.log.files.log_directory_checkpoints import OwnedCheckpoints
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.local.local_log import LocalLog
from segstore.log.local.segment import Segment
from segstore.log.unified_log import UnifiedLog
from tests.kits.log_kit import bases, offsets, singleton, wait_for
from tests.kits.remote_kit import TIERED, RemoteRecords
from tests.kits.unified_log_kit import follow

SIZE = len(singleton())
PLAIN = [(None, b"v")]
UNIQUE = "0123456789abcdef0123456789abcdef"


def write(log, count: int) -> None:
    """Append so many batches of one record."""
    for _ in range(count):
        log.append_as_leader(singleton(), 0)


# ---- flushes -------------------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch) -> list[int]:
    """Which segments are synced, by their base offsets, in order."""
    found: list[int] = []
    flush = Segment.flush

    def noting(segment: Segment, *given: object, **named: object) -> None:
        found.append(segment.base_offset)
        flush(segment, *given, **named)

    monkeypatch.setattr(Segment, "flush", noting)
    return found


@pytest.mark.usefixtures("scheduler")
def test_a_flush_syncs_the_segments_from_the_recovery_point_on(new_log, synced):
    """[MGR-41, MGR-42] Forced, the active one again: its indexes may not be synced yet."""
    log = new_log(recovery="kafka", internal_segment_bytes=2 * SIZE)
    write(log, 5)
    assert (bases(log), log.recovery_point) == ([0, 2, 4], 0)
    synced.clear()
    log.flush()
    assert (synced, log.recovery_point) == ([0, 2, 4], 5)
    synced.clear()
    log.flush()
    assert synced == []
    log.flush(force_active_segment=True)
    assert (synced, log.recovery_point) == ([4], 5)


def test_the_flush_of_a_closed_log(new_log):
    """[MGR-41]"""
    log = new_log(recovery="kafka")
    write(log, 1)
    log.close()
    with pytest.raises(SegstoreError):
        log.flush()


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_clean_stop_flushes_an_active_segment_that_was_flushed(tmp_path, synced, recovery):
    """[MGR-42, MGR-50] Its records were on the disk, its indexes perhaps not."""
    with segstore.open_dir(tmp_path, recovery=recovery) as logs:
        logs.create_topic("orders")
        log = logs.log("orders", 0)
        log.append(PLAIN)
        log.flush()
        synced.clear()
    assert 0 in synced


# ---- a stop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (UnifiedLog, "_close_cleanly"),
        (OwnedCheckpoints, "write"),
        (CleanShutdownFileHandler, "write"),
    ],
)
def test_a_stop_that_fails_releases_its_locks(tmp_path, monkeypatch, recovery, owner, name):
    """[MGR-55] Of all directories; without the marker where it failed, the next one opens them."""
    paths = [tmp_path / "a", tmp_path / "b"]
    logs = segstore.open_dir(paths, recovery=recovery)
    logs.create_topic("orders", 2, directories={0: paths[0], 1: paths[1]})
    for number in range(2):
        logs.log("orders", number).append(PLAIN)

    def fail(*_: object) -> None:
        raise WriteError("no")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        with pytest.raises(WriteError):
            logs.close()
    assert not (paths[0] / ".kafka_cleanshutdown").exists()
    with segstore.open_dir(paths, recovery=recovery) as again:
        for number in range(2):
            assert again.log("orders", number).log_end_offset == 1


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-c-12", ("a-b-c", 12)),
        ("a.b_c-2147483647", ("a.b_c", 2147483647)),
        (f"orders-1.{UNIQUE}-delete", ("orders", 1)),
        (f"a.b-c-1.{UNIQUE}-stray", ("a.b-c", 1)),
        (f"orders-1.{UNIQUE}-future", ("orders", 1)),
        ("orders-1.any-thing-else-delete", ("orders", 1)),
        ("orders", None),
        ("orders-", None),
        ("-0", None),
        ("orders-first", None),
        ("orders-2147483648", None),
        ("orders-1-delete", None),
        ("orders-1.-delete", None),
        (f"orders.{UNIQUE}-delete", None),
        (f"orders-1.x.{UNIQUE}-delete", None),
        (f"orders-1 .{UNIQUE}-delete", None),
        (f"or ders-1.{UNIQUE}-delete", None),
        # Kafka reads these two: no broker has written one [DUR-98]
        ("orders-+1", None),
        ("orders-01", None),
    ],
)
def test_what_a_name_of_a_partition_directory_says(name, expected):
    """[MGR-62] Cut at the last dot where it has a suffix, then at the last dash."""
    if expected is not None:
        assert parse_directory_name(name) == expected
        return
    with pytest.raises((NotALogError, InvalidTopicError)):
        parse_directory_name(name)


# ---- truncations ---------------------------------------------------------------------------------


def recovery_points(path: Path) -> dict[str, int]:
    found = parse_offset_checkpoint((path / RECOVERY_POINT_CHECKPOINT).read_bytes())
    return {str(one): offset for one, offset in found.items()}


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_truncation_lowers_the_recovery_point_in_the_file(tmp_path, recovery):
    """[MGR-86, MGR-87] At once, and of that log alone: a kill would leave a point above the end."""
    with segstore.open_dir(tmp_path, recovery=recovery) as logs:
        logs.create_topic("orders", 3)
        for number in range(3):
            write(logs.log("orders", number), 5)
    with segstore.open_dir(tmp_path, recovery=recovery) as logs:
        assert recovery_points(tmp_path) == {f"orders-{number}": 5 for number in range(3)}
        logs.log("orders", 0).truncate_to(3)
        assert recovery_points(tmp_path) == {"orders-0": 3, "orders-1": 5, "orders-2": 5}
        logs.log("orders", 1).truncate_fully_and_start_at(2)
        point = 2 if recovery == "kafka" else 0  # all of an empty log is checked by an open
        assert recovery_points(tmp_path) == {"orders-0": 3, "orders-1": point, "orders-2": 5}
        before = (tmp_path / RECOVERY_POINT_CHECKPOINT).stat().st_mtime_ns
        assert not logs.log("orders", 2).truncate_to(5)
        assert (tmp_path / RECOVERY_POINT_CHECKPOINT).stat().st_mtime_ns == before


# ---- retention -----------------------------------------------------------------------------------


@pytest.fixture(params=["safe", "kafka"])
def replica(new_log, request):
    """Open a log of either profile whose high watermark is the test's; a record a segment."""

    def open_replica(**settings: object):
        return new_log(
            recovery=request.param,
            replicated=True,
            internal_segment_bytes=SIZE,
            retention_ms=None,
            **settings,
        )

    return open_replica


@pytest.mark.parametrize("is_tiered", [False, True])
def test_the_log_start_moves_before_a_segment_goes(replica, monkeypatch, is_tiered):
    """[RTN-21] To the base of the segment that follows; the local one where the rest is copied."""
    settings = dict(TIERED, remote_log_reader=RemoteRecords()) if is_tiered else {}
    log = replica(retention_bytes=2 * SIZE, **settings)
    write(log, 5)
    follow(log)
    if is_tiered:
        log.update_highest_offset_in_remote_storage(4)
    seen = []
    delete = LocalLog.delete_segments

    def noting(local_log: LocalLog, segments: list[Segment]) -> None:
        seen.append((log.log_start_offset, log.local_log_start_offset, bases(log)))
        delete(local_log, segments)

    monkeypatch.setattr(LocalLog, "delete_segments", noting)
    log.delete_old_segments()
    assert seen == [(0 if is_tiered else 3, 3, [0, 1, 2, 3, 4])]
    assert bases(log) == [3, 4]


@pytest.mark.parametrize("end", ["close", "close_quietly"])
def test_a_closed_log_deletes_nothing(replica, end):
    """[RTN-25] It says so before its start moves."""
    log = replica(retention_bytes=0)
    write(log, 3)
    follow(log)
    getattr(log, end)()
    with pytest.raises(ClosedError):
        log.delete_old_segments()
    assert sorted(one.name for one in Path(log.path).glob("*.log")) == [
        f"{base:020}.log" for base in range(3)
    ]
    again = replica()
    assert (again.log_start_offset, bases(again)) == (0, [0, 1, 2])


def test_reads_below_the_new_start(replica):
    """[RTN-26] What is left is read from it on."""
    log = replica(retention_bytes=2 * SIZE)
    write(log, 5)
    follow(log)
    assert offsets(log.read(0, 1)) == [0]
    log.delete_old_segments()
    for offset in range(3):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 1)
    assert offsets(log.read(3, 1)) == [3]


# ---- deleted partitions --------------------------------------------------------------------------


@pytest.mark.parametrize("initial_delay_ms", [0, 3_600_000])
def test_threads_remove_deleted_partitions(tmp_path, initial_delay_ms):
    """[MGR-34, MGR-36] From the initial delay on, again and again."""
    config = {
        "log.flush.offset.checkpoint.interval.ms": 20,
        "log.initial.task.delay.ms": initial_delay_ms,
        "log.segment.delete.delay.ms": 0,
    }
    with segstore.open_dir(tmp_path, background=True, config=config) as logs:
        for name in ("first", "second"):
            logs.create_topic(name)
            logs.delete_topic(name)
            if initial_delay_ms:
                time.sleep(0.1)
                assert [*tmp_path.glob(f"{name}*-delete")]
            else:
                wait_for(lambda: not [*tmp_path.glob("*-delete")])
