"""Kafka's UnifiedLogTest: a log with a part in remote storage."""

from __future__ import annotations

import pytest

from segstore import LogConfig, LogOffsetMetadata, SpecialTimestamp
from segstore.log.remote_tier import is_remote_log_enabled
from tests.kits.log_kit import TIME, at, bases, batch, singleton
from tests.kits.remote_kit import TIERED, RemoteRecords
from tests.kits.unified_log_kit import follow, write_plain

pytestmark = pytest.mark.usefixtures("clock", "scheduler")

SIZE = len(singleton())
"""Of a batch of one record."""


@pytest.fixture(params=["safe", "kafka"])
def tiered(new_log, request):
    """Open a tiered log whose high watermark, clock and unlinking are the test's."""

    def open_tiered(**settings: object):
        return new_log(
            **{
                "recovery": request.param,
                "replicated": True,
                "retention_ms": None,
                "remote_log_reader": RemoteRecords(),
                **TIERED,
                **settings,
            }
        )

    return open_tiered


def one_record_segments(log, count: int, timestamp: int = TIME) -> None:
    """Append *count* segments of one record, of which everybody has everything."""
    for _ in range(count):
        log.append_as_leader(singleton(timestamp=timestamp), 0)
    assert len(bases(log)) == count
    follow(log)


# ---- when a log is tiered ------------------------------------------------------------------------


def test_enable_remote_log_storage_on_compacted_topics(tiered):
    """[UNI-6, TIER-1] UnifiedLogTest.testEnableRemoteLogStorageOnCompactedTopics."""

    def is_enabled(*, system: bool = True, **settings: object) -> bool:
        return is_remote_log_enabled(LogConfig(**settings), "topic", system_enabled=system)

    assert is_enabled(**TIERED)
    assert is_enabled(**TIERED, cleanup_policy="delete")
    assert is_enabled(**TIERED, cleanup_policy="")
    assert not is_enabled(**TIERED, system=False)
    assert not is_enabled(remote_storage_enable=False)
    for policy in ("compact", "compact,delete"):
        assert not is_enabled(**TIERED, cleanup_policy=policy)
    log = tiered(cleanup_policy="compact")
    assert not log.remote_log_enabled
    log.update_config(log.config.with_changes(cleanup_policy="delete"))
    assert log.remote_log_enabled


@pytest.mark.parametrize(
    "topic",
    [
        "__remote_log_metadata",
        "__cluster_metadata",
        "__transaction_state",
        "__consumer_offsets",
        "__share_group_state",
    ],
)
def test_remote_log_storage_is_disabled_on_internal_and_remote_log_metadata_topic(
    tiered, tmp_path, topic
):
    """[UNI-6, TIER-1]
    UnifiedLogTest.testRemoteLogStorageIsDisabledOnInternalAndRemoteLogMetadataTopic.
    """
    assert not tiered(path=tmp_path / f"{topic}-0").remote_log_enabled
    assert tiered(path=tmp_path / "topic-1").remote_log_enabled


# ---- where it begins -----------------------------------------------------------------------------


def test_start_offsets_remote_log_storage_is_enabled(tiered):
    """[TRU-4, LST-1] UnifiedLogTest.testStartOffsetsRemoteLogStorageIsEnabled."""
    log = tiered()
    write_plain(log, 100)
    log.update_high_watermark(80)
    assert log.maybe_increment_log_start_offset(40)
    assert (log.log_start_offset, log.local_log_start_offset) == (40, 40)
    log.truncate_fully_and_start_at(60, 40)
    assert (log.log_start_offset, log.local_log_start_offset) == (40, 60)
    assert (log.log_end_offset, log.high_watermark) == (60, 60)


def test_the_local_log_start_follows_a_log_start_that_stays(tiered):
    """[LST-1, LST-3, LST-5] it is never below, and rises by itself too."""
    log = tiered()
    write_plain(log, 10)
    follow(log)
    log.maybe_increment_local_log_start_offset(6)
    log.maybe_increment_local_log_start_offset(4)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 6)
    assert log.maybe_increment_log_start_offset(3)
    assert (log.log_start_offset, log.local_log_start_offset) == (3, 6)
    log.truncate_fully_and_start_at(10, 8)
    log.maybe_increment_local_log_start_offset(9)
    assert log.local_log_start_offset == 10
    log.truncate_fully_and_start_at(8, 8)
    log.append_as_leader(batch([(None, b"value")]))  # the safe profile has begun another epoch
    follow(log)
    assert not log.maybe_increment_log_start_offset(8)
    assert (log.log_start_offset, log.local_log_start_offset) == (8, 8)


def test_the_remote_tier_moves_the_log_start(tiered):
    """[LST-6] and what is uploaded never becomes less."""
    log = tiered()
    write_plain(log, 10)
    follow(log)
    assert log.highest_offset_in_remote_storage == -1
    for offset, highest in ((4, 4), (2, 4), (7, 7)):
        log.update_highest_offset_in_remote_storage(offset)
        assert log.highest_offset_in_remote_storage == highest
    assert log.update_log_start_offset_from_remote_tier(3)
    assert not log.update_log_start_offset_from_remote_tier(2)
    assert (log.log_start_offset, log.local_log_start_offset) == (3, 3)


def test_only_local_segments(tiered):
    """[LST-7, DIFF-28, TIER-4] 4.4.0: one that begins with the last uploaded record is none."""
    log = tiered(internal_segment_bytes=SIZE)
    one_record_segments(log, 4)
    assert (log.only_local_log_segments_count, log.only_local_log_segments_size) == (4, 4 * SIZE)
    log.update_highest_offset_in_remote_storage(1)
    assert (log.only_local_log_segments_count, log.only_local_log_segments_size) == (2, 2 * SIZE)
    log.update_highest_offset_in_remote_storage(3)
    assert (log.only_local_log_segments_count, log.only_local_log_segments_size) == (0, 0)


# ---- retention -----------------------------------------------------------------------------------


def test_active_segment_deletion_due_to_retention_time_breach_with_remote_storage(tiered, clock):
    """[RET-3, RET-8]
    UnifiedLogTest.testActiveSegmentDeletionDueToRetentionTimeBreachWithRemoteStorage.
    """
    log = tiered(segment_index_bytes=12, retention_ms=3, local_retention_ms=1)
    log.append_as_leader(singleton(timestamp=clock.now), 0)
    follow(log)
    clock.sleep(2)
    assert len(log.delete_old_segments()) == 0
    assert bases(log) == [0, 1]
    # Kafka's test says 1, the log end: a safe log holds no such record yet [DUR-26]
    log.update_highest_offset_in_remote_storage(1 if log.profile == "kafka" else 0)
    assert len(log.delete_old_segments()) == 1
    assert bases(log) == [1]
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 1, 1)


@pytest.mark.parametrize("copies", [True, False])
def test_an_active_segment_is_rolled_and_deleted(tiered, clock, copies):
    """[RTN-9, RET-3, RET-4] Whether nothing is copied, or it is uploaded already."""
    log = tiered(retention_ms=1, remote_log_copy_disable=not copies)
    write_plain(log, 2)
    follow(log)
    log.update_highest_offset_in_remote_storage(1)
    clock.sleep(TIME)
    assert len(log.delete_old_segments()) == 1
    assert bases(log) == [2]
    assert (log.log_start_offset, log.local_log_start_offset) == (0 if copies else 2, 2)
    assert len(log.delete_old_segments()) == 0
    assert bases(log) == [2]


def test_segment_deletion_before_upload_when_log_start_offset_moved_ahead(tiered):
    """[RET-2, RET-5]
    UnifiedLogTest.testSegmentDeletionEnabledBeforeUploadToRemoteTierWhenLogStartOffsetMovedAhead.
    """
    log = tiered(retention_bytes=1)
    write_plain(log, 4)
    log.roll()
    write_plain(log, 1)
    follow(log)
    for log_start, left in ((0, [0, 4]), (3, [0, 4]), (4, [4]), (5, [4])):
        log.maybe_increment_log_start_offset(log_start)
        log.delete_old_segments()
        assert bases(log) == left
    assert log.log_start_offset == log.log_end_offset == 5


def test_retention_on_local_log_deletion(tiered):
    """[RET-2, RET-4, RET-8, CFG-31] The total limit is the local one when that is not set.

    UnifiedLogTest.testRetentionOnLocalLogDeletionWhenRemoteLogCopyEnabledAndDefaultLocalRetentionBytes.
    """
    log = tiered(internal_segment_bytes=SIZE, retention_bytes=1)
    one_record_segments(log, 6)
    log.update_highest_offset_in_remote_storage(1)
    assert len(log.delete_old_segments()) == 2
    assert bases(log) == [2, 3, 4, 5]
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 2)


@pytest.mark.parametrize(
    ("settings", "left", "log_start"),
    [
        pytest.param({"retention_bytes": 4 * SIZE}, 4, 0, id="-2: the total limit"),
        pytest.param({"local_retention_bytes": 2 * SIZE}, 2, 0, id="the local limit"),
        pytest.param({"local_retention_bytes": -1}, 6, 0, id="no limit here"),
        pytest.param({"local_retention_ms": 5}, 1, 0, id="time; the active one is rolled"),
        pytest.param({"local_retention_ms": -1}, 6, 0, id="for ever"),
        pytest.param({"cleanup_policy": "", "local_retention_bytes": 0}, 1, 0, id="no policy"),
        pytest.param(
            {"remote_log_copy_disable": True, "retention_bytes": 3 * SIZE}, 3, 3, id="not copied"
        ),
        pytest.param(
            {"remote_log_copy_disable": True, "cleanup_policy": "", "retention_bytes": 0},
            6,
            0,
            id="not copied, no policy",
        ),
    ],
)
def test_local_limits(tiered, clock, settings, left, log_start):
    """[CFG-30m, CFG-31m, CFG-32m, RET-1, RET-8, RET-11, CFG-30, CFG-31, CFG-32]"""
    log = tiered(internal_segment_bytes=SIZE, **settings)
    one_record_segments(log, 6, clock.now)
    log.update_highest_offset_in_remote_storage(5)
    clock.sleep(100)
    log.delete_old_segments()
    assert len(bases(log)) == left
    assert log.log_start_offset == log_start
    assert log.local_log_start_offset == bases(log)[0]
    if "remote_log_copy_disable" not in settings:
        assert log.retention_size_in_percent == 0


def test_convert_to_offset_metadata_does_not_throw_offset_out_of_range_error(tiered):
    """[HW-9, LOC-8] UnifiedLogTest.testConvertToOffsetMetadataDoesNotThrowOffsetOutOfRangeError."""
    log = tiered(local_retention_bytes=1)
    size = 72
    for number in range(50):
        log.append_as_follower(at(number, value=b"v" * (size - len(at(0, value=b"")))), 0)
        if number % 10 == 0 and number:
            log.roll()
    follow(log)
    log.update_highest_offset_in_remote_storage(30)
    log.delete_old_segments()
    assert bases(log) == [31, 41]
    assert log.update_log_start_offset_from_remote_tier(15)
    assert (log.log_start_offset, log.local_log_start_offset) == (15, 31)
    convert = log.maybe_convert_to_offset_metadata
    assert convert(35) == LogOffsetMetadata(35, 31, 288)
    for outside in (29, log.log_end_offset + 1, 14):
        assert convert(outside) == LogOffsetMetadata(outside)


# ---- by time -------------------------------------------------------------------------------------


def test_fetch_offset_by_timestamp_from_remote_storage(tiered):
    """[TS-1, TS-4] UnifiedLogTest.testFetchOffsetByTimestampFromRemoteStorage,
    UnifiedLogTest.testFetchOffsetByTimestampShouldReadOnlyLocalLogWhenLogIsEmpty.
    """
    remote = RemoteRecords([(TIME, 0, 0)])
    log = tiered(remote_log_reader=remote)
    ask = log.fetch_offset_by_timestamp
    assert ask(TIME) == (-1, -1, None)
    assert log.offset_for_timestamp(TIME) is None
    assert remote.asked == []  # an empty log has nothing anywhere
    for number in range(2):
        log.append_as_leader(batch([(TIME + number, None, b"v")]), number)
    follow(log)
    log.maybe_increment_local_log_start_offset(1)
    log.update_highest_offset_in_remote_storage(0)
    assert ask(TIME) == (TIME, 0, 0)
    assert ask(TIME + 1) == (TIME + 1, 1, 1)
    assert ask(TIME + 2) == (-1, -1, None)
    assert remote.asked[0] == (("topic", 0), TIME, 0, ((0, 0), (1, 1)))
    assert [log.offset_for_timestamp(TIME + number) for number in range(3)] == [0, 1, None]
    assert ask(SpecialTimestamp.EARLIEST) == (-1, 0, 0)
    assert ask(SpecialTimestamp.EARLIEST_LOCAL) == (-1, 1, 1)
    assert ask(SpecialTimestamp.LATEST) == (-1, 2, 1)
    log.assign_epoch_start_offset(2, 2)
    assert ask(SpecialTimestamp.LATEST) == (-1, 2, 2)


def test_fetch_latest_tiered_timestamp_with_remote_storage(tiered):
    """[TS-1] UnifiedLogTest.testFetchLatestTieredTimestampWithRemoteStorage."""
    log = tiered()
    ask = log.fetch_offset_by_timestamp
    assert ask(TIME) == (-1, -1, None)
    assert ask(SpecialTimestamp.EARLIEST_LOCAL) == (-1, 0, None)
    assert ask(SpecialTimestamp.LATEST_TIERED) == (-1, -1, -1)
    for number in range(2):
        log.append_as_leader(batch([(TIME + number, None, b"v")]), number)
    follow(log)
    log.maybe_increment_local_log_start_offset(1)
    log.update_highest_offset_in_remote_storage(0)
    assert ask(SpecialTimestamp.LATEST_TIERED) == (-1, 0, 0)
    assert ask(SpecialTimestamp.EARLIEST_LOCAL) == (-1, 1, 1)
    assert ask(SpecialTimestamp.EARLIEST) == (-1, 0, 0)
    assert ask(SpecialTimestamp.LATEST) == (-1, 2, 1)
    log.assign_epoch_start_offset(2, 2)
    assert ask(SpecialTimestamp.LATEST) == (-1, 2, 2)


def test_what_waits_to_be_uploaded(tiered):
    """[TS-1, DIFF-13] EARLIEST_PENDING_UPLOAD."""
    log = tiered()
    ask = log.fetch_offset_by_timestamp
    assert ask(SpecialTimestamp.EARLIEST_PENDING_UPLOAD) == (-1, 0, None)
    for number in range(4):
        log.append_as_leader(singleton(), number)
    follow(log)
    assert ask(SpecialTimestamp.EARLIEST_PENDING_UPLOAD) == (-1, 0, 0)
    log.maybe_increment_local_log_start_offset(1)
    assert ask(SpecialTimestamp.EARLIEST_PENDING_UPLOAD) == (-1, -1, -1)  # nobody knows yet
    log.update_highest_offset_in_remote_storage(1)
    assert ask(SpecialTimestamp.EARLIEST_PENDING_UPLOAD) == (-1, 2, 2)
    log.maybe_increment_log_start_offset(3)
    assert ask(SpecialTimestamp.EARLIEST_PENDING_UPLOAD) == (-1, 3, 3)


# ---- opened again --------------------------------------------------------------------------------


def test_a_log_start_below_the_first_segment_is_loaded(tiered, tmp_path):
    """[LDR-9, UNI-2, UNI-3, LST-5, TIER-5] the high watermark rises to what is here."""
    settings = {"internal_segment_bytes": SIZE, "retention_bytes": 1}
    state_dir = {"state_dir": tmp_path / "state"} if tiered().profile == "kafka" else {}
    log = tiered(path=tmp_path / "topic-1", **settings, **state_dir)
    one_record_segments(log, 6)
    log.maybe_increment_log_start_offset(1)
    log.update_highest_offset_in_remote_storage(3)
    log.delete_old_segments()
    log.close()
    log = tiered(path=tmp_path / "topic-1", **settings, **state_dir)
    assert bases(log) == [4, 5]
    assert (log.log_start_offset, log.local_log_start_offset) == (1, 4)
    assert (log.high_watermark, log.highest_offset_in_remote_storage) == (4, -1)
    assert log.recovery_point >= 4
    log.close()
    settings["remote_log_delete_on_disable"] = True
    log = tiered(path=tmp_path / "topic-1", remote_log_reader=None, **settings, **state_dir)
    assert (log.log_start_offset, log.local_log_start_offset, log.high_watermark) == (4, 4, 4)
