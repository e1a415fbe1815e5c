"""Kafka's LogCleanerParameterizedIntegrationTest and LogCleanerLagIntegrationTest: the passes;
and how the cleaner is reconfigured.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.types import Codec
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog
    from tests.kits.log_kit import Clock

    NewLog = Callable[..., UnifiedLog]
    Values = dict[bytes, tuple[int, bytes]]

COMPACT = {"cleanup_policy": "compact", "internal_segment_bytes": 2048}
HOUR_MS = 3600 * 1000


def write_duplicates(log: UnifiedLog, keys: int, codec: Codec, clock: Clock) -> Values:
    """Append each key three times, each in its batch; return the last offset and value of each."""
    last = {}
    for number in range(3 * keys):
        key, value = b"%d" % (number % keys), b"%d" % (log.log_end_offset + 1_000_000)
        info = log.append_as_leader(batch([(key, value)], codec=codec, timestamp=clock.now), 0)
        last[key] = (info.base_offset, value)
    return last


def read(log: UnifiedLog) -> Values:
    """The last offset and value of each key."""
    return {record.key: (record.offset, record.value) for record in log.scan()}


def size_of(log: UnifiedLog, end: int | None = None) -> int:
    """Bytes of the segments that begin below *end*."""
    segments = log.segments()
    return sum(one.size_bytes for one in segments if end is None or one.base_offset < end)


@pytest.mark.parametrize("codec", Codec)
def test_cleaner(codec: Codec, new_log: NewLog, clock: Clock):
    """[CLN-84, CLN-121] LogCleanerParameterizedIntegrationTest.cleanerTest."""
    log = new_log(**COMPACT)
    last = write_duplicates(log, 100, codec, clock)
    size, active = size_of(log), log.segments()[-1].base_offset
    assert log.compact()[-1].end_offset == active
    assert size_of(log) < size
    assert read(log) == last

    large = batch([(b"20", bytes(1500))], codec=codec, timestamp=clock.now)
    last[b"20"] = (log.append_as_leader(large, 0).base_offset, bytes(1500))
    last |= write_duplicates(log, 100, codec, clock)
    log.compact()
    assert read(log) == last


@pytest.mark.parametrize("codec", Codec)
def test_cleans_combined_compact_and_delete_topic(codec: Codec, new_log: NewLog, clock: Clock):
    """[CLN-118] LogCleanerParameterizedIntegrationTest.testCleansCombinedCompactAndDeleteTopic."""
    log = new_log(**COMPACT | {"cleanup_policy": "compact,delete", "retention_ms": 100_000})
    last = write_duplicates(log, 100, codec, clock)
    size = size_of(log)
    log.compact()
    assert size_of(log) < size
    assert read(log) == last
    log.roll()
    clock.sleep(200_000)
    log.delete_old_segments()
    assert log.log_start_offset == log.log_end_offset
    assert len(log.segments()) == 1

    last = write_duplicates(log, 20, codec, clock)
    log.compact()
    assert read(log) == last


@pytest.mark.parametrize("codec", Codec)
def test_cleaner_config_update(codec: Codec, tmp_path: Path, clock: Clock):
    """[CLN-8] LogCleanerParameterizedIntegrationTest.cleanerConfigUpdateTest.

    Kafka's cannot clean with a buffer of a byte. Here a batch is read as a whole; it is the
    interval between two looks that keeps the log as it is.
    """
    before = segstore.CleanerConfig(io_buffer_size=1, backoff_ms=HOUR_MS)
    with segstore.open_dir(
        tmp_path, durability="none", background=True, cleaner=before, **COMPACT
    ) as logs:
        logs.create_topic("log")
        log = logs.log("log", 0)
        last = write_duplicates(log, 100, codec, clock)
        size, active = size_of(log), log.segments()[-1].base_offset
        time.sleep(0.01)
        assert log._clean_end() is None
        logs.reconfigure_cleaner(segstore.CleanerConfig(threads=2, io_buffer_size=100_000))
        (maintenance,) = [one.maintenance for one in logs._directories]
        assert maintenance is not None
        assert [job.name for job in maintenance._jobs].count("cleaning") == 2
        deadline = time.monotonic() + 20
        while log._clean_end() != active:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert size_of(log) < size
        assert read(log) == last


def test_reconfigure_log_cleaner_io_max_bytes_per_second(tmp_path: Path):
    """[CLN-8, CLN-9] LogCleanerTest.testReconfigureLogCleanerIoMaxBytesPerSecond."""
    config = segstore.CleanerConfig(max_io_bytes_per_second=10_000_000)
    with segstore.open_dir(tmp_path, cleaner=config) as logs:
        assert logs._throttler.desired_rate_per_sec == 10_000_000
        logs.reconfigure_cleaner(segstore.CleanerConfig(max_io_bytes_per_second=20_000_000))
        assert logs._throttler.desired_rate_per_sec == 20_000_000


def test_max_clean_time_secs(tmp_path: Path):
    """[CLN-10] LogCleanerTest.testMaxCleanTimeSecs: no thread has cleaned anything."""
    with segstore.open_dir(tmp_path) as logs:
        for name in (
            "max-buffer-utilization-percent",
            "max-clean-time-secs",
            "max-compaction-delay-secs",
        ):
            metric = f"kafka.log:type=LogCleaner,name={name}"
            assert logs.stats().value(metric, logDirectory=logs.path) == 0


def test_marks_partitions_as_uncleanable(tmp_path: Path, clock: Clock):
    """[CLN-4, CLN-6, CLN-10]

    LogCleanerIntegrationTest.testMarksPartitionsAsOfflineAndPopulatesUncleanableMetrics: two of
    three logs are overwritten.
    """
    count = "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count"
    size = "kafka.log:type=LogCleanerManager,name=uncleanable-bytes"
    with segstore.open_dir(tmp_path, durability="none", **COMPACT) as logs:
        found = {}
        for name in ("a", "b", "c"):
            logs.create_topic(name)
            found[name] = logs.log(name, 0)
            write_duplicates(found[name], 20, Codec.NONE, clock)
        for name in ("a", "b"):
            with (tmp_path / f"{name}-0" / found[name].segments()[0].name).open("r+b") as file:
                file.write(b"jogeajgoea")
        report = logs.maintain()

        def value(metric: str) -> float:
            return logs.stats().value(metric, logDirectory=logs.path)

        assert {one.topic_partition.topic for one in report.failed} == {"a", "b"}
        assert [one.topic_partition.topic for one in report.cleaned] == ["c"]
        assert value(count) == 2
        sealed = {name: sum(s.size_bytes for s in found[name].segments()[:-1]) for name in "ab"}
        assert value(size) == sum(sealed.values()) > 0
        logs.delete_topic("a")
        assert (value(count), value(size)) == (1, sealed["b"])


@pytest.mark.parametrize("codec", Codec)
def test_cleaner_lag(codec: Codec, new_log: NewLog, clock: Clock):
    """[CLN-32, CLN-33] LogCleanerLagIntegrationTest.cleanerTest."""
    settings = COMPACT | {"internal_segment_bytes": 512, "min_compaction_lag_ms": HOUR_MS}
    log = new_log(**settings)
    write_duplicates(log, 100, codec, clock)
    active, end = log.segments()[-1].base_offset, log.log_end_offset
    size = size_of(log, active)
    clock.sleep(HOUR_MS // 2)
    assert log.compact() == []
    assert log.log_end_offset == end
    assert size_of(log, active) == size

    clock.sleep(HOUR_MS // 2 + 1)
    last = write_duplicates(log, 100, codec, clock)
    assert active <= log.compact()[-1].end_offset <= end
    assert size_of(log, active) < size
    assert read(log) == last
