"""Kafka's LogLoaderTest, as far as opening goes without producers, splits and replication."""

from __future__ import annotations

import random

import pytest

import segstore
from segstore import _core
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import OpenOptions
from segstore.records.compression import codec_table
from tests.kits.damaged_logs import LogDirectory, append_bytes

TIME = 1_700_000_000_000
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path / "orders-0")


def open_uncleanly(directory, recovery_point, **settings):
    (directory.path / MARKER).unlink(missing_ok=True)
    directory.set_recovery_point(recovery_point)
    return segstore.open(directory.path, segment_ms=None, **settings)


def append_each(log, count, size, step=10):
    for _ in range(count):
        offset = log.log_end_offset
        log.append([(TIME + step * offset, None, b"%d" % offset + bytes(size))])


def test_log_recovery_is_called_upon_broker_crash(tmp_path):
    """[DUR-24] LogLoaderTest.testLogRecoveryIsCalledUponBrokerCrash."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("orders", 2)
    assert (tmp_path / MARKER).exists()

    with segstore.open_dir(tmp_path) as manager:
        assert [manager.log("orders", number).report.clean for number in (0, 1)] == [True, True]
        manager.log("orders", 0).append([(None, b"the first change")])
        assert not (tmp_path / MARKER).exists()
    for marker in (tmp_path, tmp_path / "orders-0", tmp_path / "orders-1"):
        (marker / MARKER).unlink()
    with segstore.open_dir(tmp_path) as manager:
        assert [manager.log("orders", number).report.clean for number in (0, 1)] == [False, False]


def test_log_recovers_to_correct_offset(directory):
    """[SEG-40, LDR-27] LogLoaderTest.testLogRecoversToCorrectOffset.

    Recovery syncs what it read; a flush moves the recovery point to the end [DUR-36].
    """
    settings = {"internal_segment_bytes": 700, "index_interval_bytes": 300}
    settings["segment_index_bytes"] = 4096
    with segstore.open(directory.path, segment_ms=None, **settings) as log:
        append_each(log, 100, 97)
    with segstore.open(directory.path, segment_ms=None, **settings) as log:
        active = log.segments()[-1]
        expected = (active.offset_index_entries(), active.time_index_entries())

    for recovery_point in (100, 10):
        with open_uncleanly(directory, recovery_point, **settings) as log:
            active = log.segments()[-1]
            assert log.report.recovery_point == recovery_point
            assert (log.log_end_offset, log.recovery_point) == (100, recovery_point)
            log.flush()
            assert log.recovery_point == 100
            offsets, times = active.offset_index_entries(), active.time_index_entries()
            assert offsets == expected[0]
            assert times[-1] == (TIME + 990, 99)
            assert times in (expected[1], expected[1][:-1])
            assert len(log.scan().tuples()) == 100


def test_corrupt_index_rebuild(directory):
    """[DUR-52] LogLoaderTest.testCorruptIndexRebuild."""
    settings = {"internal_segment_bytes": 200, "index_interval_bytes": 1}
    with segstore.open(directory.path, segment_ms=None, **settings) as log:
        append_each(log, 200, 7)
    for path in directory.path.glob("*index"):
        path.write_bytes(b"  ")

    with open_uncleanly(directory, 0, **settings) as log:
        assert log.log_end_offset == 200
        for offset in range(200):
            assert next(iter(log.scan(offset))).offset == offset
            assert log.offset_for_timestamp(TIME + 10 * offset) == offset


def test_bogus_index_segments_are_removed(directory):
    """[LDR-11] LogLoaderTest.testBogusIndexSegmentsAreRemoved."""
    segstore.open(directory.path).close()
    bogus = [directory.file(5, "index"), directory.file(5, "timeindex")]
    for path in bogus:
        path.write_bytes(b"")

    settings = {"internal_segment_bytes": 1000, "index_interval_bytes": 1}
    with segstore.open(directory.path, segment_ms=None, **settings) as log:
        assert not any(path.exists() for path in bogus)
        append_each(log, 10, 10)
        assert log.log_end_offset == 10
    assert directory.file(0, "index").exists()


def test_open_deletes_obsolete_files(directory):
    """[DUR-55] LogLoaderTest.testOpenDeletesObsoleteFiles; delete_records, not retention."""
    settings = {"internal_segment_bytes": 500, "file_delete_delay_ms": 3_600_000}
    log = segstore.open(directory.path, segment_ms=None, **settings)
    append_each(log, 100, 50)
    log.delete_records(100)
    assert any(name.endswith(".deleted") for name in directory.names())
    log.close_quietly()

    with open_uncleanly(directory, 0, **settings) as log:
        assert len(log.segments()) == 1
        assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert not any(name.endswith(".deleted") for name in directory.names())


@pytest.mark.parametrize("seed", range(10))
def test_corrupt_log(directory, seed):
    """[DUR-50] LogLoaderTest.testCorruptLog: random bytes behind the active index and log."""
    chooser = random.Random(seed)
    settings = {"internal_segment_bytes": 1000, "index_interval_bytes": 1}
    count = chooser.randint(50, 99)
    with segstore.open(directory.path, segment_ms=None, **settings) as log:
        append_each(log, count, 10)
        records = log.scan().tuples()
    for path in (directory.last, directory.last.with_suffix(".index")):
        append_bytes(path, chooser.randbytes(chooser.randint(1, 1024)))

    with open_uncleanly(directory, 50, **settings) as log:
        assert log.log_end_offset == count
        assert log.scan().tuples() == records


def test_clean_shutdown_file(directory):
    """[LDR-28] LogLoaderTest.testCleanShutdownFile.

    Here the recovery point of the parent, and its marker: what a manager gives its logs.
    """
    with segstore.open(directory.path, segment_ms=None) as log:
        append_each(log, 100, 10)
    (directory.path / MARKER).unlink()
    directory.set_recovery_point(0)

    log_environment = LogEnvironment(parent_was_clean=True)
    with open_partition(directory.path, OpenOptions(), log_environment) as log:
        assert log.report.clean
        assert log.report.scanned_bytes == 0
        assert log.log_end_offset == 100


def test_log_recovers_for_leader_epoch(directory):
    """[SEG-40] LogLoaderTest.testLogRecoversForLeaderEpoch."""
    with segstore.open(directory.path) as log:
        for epoch in (1, 2, 2, 3):
            encoded = _core.encode_records(
                [(None, b"v")], _core.BatchOptions(), codec_table(), TIME, 1000
            )
            log.append_as_leader(encoded, epoch)
    checkpoint = directory.path / "leader-epoch-checkpoint"
    assert checkpoint.read_text() == "0\n3\n1 0\n2 1\n3 3\n"
    checkpoint.write_text("0\n2\n1 0\n2 1\n")

    with open_uncleanly(directory, 0):
        assert checkpoint.read_text() == "0\n3\n1 0\n2 1\n3 3\n"
