"""A log with a part in remote storage: what it refuses, what can be read, settings that change."""

from __future__ import annotations

import logging

import pytest

import segstore
from segstore.errors import (
    ArgumentTypeError,
    IllegalArgumentError,
    IllegalStateError,
    LogReadOnlyError,
    OffsetOutOfRangeError,
)
from segstore.log.remote_tier import RemoteLogReader
from tests.kits.log_kit import TIME, bases, batch, offsets, singleton
from tests.kits.remote_kit import TIERED, RemoteRecords

SIZE = len(singleton())


@pytest.fixture(params=["safe", "kafka"])
def profile(request) -> str:
    return request.param


@pytest.fixture
def tiered(new_log, profile):
    """Open a tiered log of one-record segments."""

    def open_tiered(path=None, **settings: object):
        return new_log(
            path,
            **{
                "recovery": profile,
                "replicated": False,
                "retention_ms": None,
                "internal_segment_bytes": SIZE,
                "remote_log_reader": RemoteRecords(),
                **TIERED,
                **settings,
            },
        )

    return open_tiered


@pytest.fixture
def log(tiered):
    """Offsets 0 to 7 of which 0 to 3 are in remote storage alone."""
    log = tiered(retention_bytes=4 * SIZE)
    for number in range(8):
        log.append_as_leader(batch([(TIME + number, None, b"value")]), number // 2)
    log.update_highest_offset_in_remote_storage(5)
    assert len(log.delete_old_segments()) == 4
    assert bases(log) == [4, 5, 6, 7]
    return log


@pytest.fixture
def log_without_reader(log, tiered):
    """The same log, opened again by who cannot read what is in remote storage alone."""
    if log.profile == "kafka":
        pytest.skip("a broker without remote storage begins where its files do")
    log.close()
    return tiered(log.path, remote_log_reader=None)


# ---- what is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [1, "reader", print, RemoteRecords])
def test_a_reader_is_an_object_that_finds(new_log, reader):
    """A class has the method too, and is refused when it is called without an object."""
    if reader is RemoteRecords:
        assert isinstance(reader(), RemoteLogReader)
        return
    with pytest.raises(ArgumentTypeError, match="remote_log_reader"):
        new_log(remote_log_reader=reader)


def test_a_reading_handle_without_a_reader(log):
    """[DUR-71] it shows what is here: the log begins at the first segment."""
    with segstore.open(log.path, read_only=True) as reading:
        assert reading.log_start_offset == reading.local_log_start_offset == 4
        assert not reading.remote_log_enabled
        assert reading.highest_offset_in_remote_storage == -1
        assert reading.only_local_log_segments_count == 4
        for change in (
            reading.update_highest_offset_in_remote_storage,
            reading.update_log_start_offset_from_remote_tier,
            reading.maybe_increment_local_log_start_offset,
        ):
            with pytest.raises(LogReadOnlyError):
                change(5)


@pytest.mark.parametrize(
    "change",
    [
        "update_highest_offset_in_remote_storage",
        "update_log_start_offset_from_remote_tier",
        "maybe_increment_local_log_start_offset",
    ],
)
def test_what_is_not_remote_is_not_told(new_log, caplog, change):
    """[LST-3, LST-6, TIER-3] ignored with a warning; what is no offset is refused at any rate."""
    log = new_log()
    log.append([(None, b"v")] * 5)
    with caplog.at_level(logging.WARNING, logger="segstore"):
        assert not getattr(log, change)(3)
    assert "the log has no remote part" in caplog.text
    assert log.path in caplog.text
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 0)
    assert log.highest_offset_in_remote_storage == -1
    for value in ("1", None, 1.5, True, 2**63):
        with pytest.raises(segstore.SegstoreError):
            getattr(log, change)(value)


def test_what_is_no_record_was_not_uploaded(log):
    """[DUR-26, LST-6] the log end in place of the last offset costs no record; Kafka takes any."""
    if log.profile == "kafka":
        log.update_highest_offset_in_remote_storage(99)
        assert log.highest_offset_in_remote_storage == 99
        return
    for wrong in (8, 99, 2**63 - 1, -2):
        with pytest.raises(IllegalArgumentError, match="remote storage") as caught:
            log.update_highest_offset_in_remote_storage(wrong)
        assert (caught.value.found, caught.value.expected) == (str(wrong), "-1 to 7")
        assert caught.value.file == log.path
    log.update_highest_offset_in_remote_storage(-1)
    assert log.highest_offset_in_remote_storage == 5
    log.update_config(log.config.with_changes(retention_bytes=0))
    log.update_highest_offset_in_remote_storage(7)
    log.append_as_leader(singleton(b"other"), 4)
    log.delete_old_segments()
    assert [record.value for record in log.scan(log.local_log_start_offset)] == [b"other"]


def test_the_remote_tier_cannot_move_the_log_start_beyond_the_log(log):
    """[LST-1, LST-6]"""
    with pytest.raises(OffsetOutOfRangeError):
        log.update_log_start_offset_from_remote_tier(9)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)


def test_the_local_part_begins_where_everybody_has_all(log):
    """[LST-1, LST-3, LST-5] no record is given up that is not there yet; Kafka gives up any."""
    if log.profile == "kafka":
        log.maybe_increment_local_log_start_offset(10**9)
        assert log.local_log_start_offset == 10**9
        return
    with pytest.raises(OffsetOutOfRangeError) as caught:
        log.maybe_increment_local_log_start_offset(9)
    assert (caught.value.found, caught.value.expected) == ("9", "4 to 8")
    log.maybe_increment_local_log_start_offset(8)
    assert log.local_log_start_offset == 8


# ---- what is here --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        lambda log, offset: log.read(offset, 1000),
        lambda log, offset: log.read(offset, 1000, "high_watermark"),
        lambda log, offset: log.read(offset, 1000, "read_committed"),
        lambda log, offset: log.slice(offset, 1000),
        lambda log, offset: log.scan(offset),
        lambda log, offset: log.read(offset),
        lambda log, offset: next(log.tail(offset, timeout=0)),
    ],
    ids=["read", "high watermark", "committed", "slice", "scan", "lazily", "tail"],
)
def test_what_is_remote_cannot_be_read_without_a_reader(log_without_reader, read):
    """[RD-2, DUR-26] and never what lies behind it instead."""
    log = log_without_reader
    for offset in range(4):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            read(log, offset)
        assert (caught.value.found, caught.value.expected) == (str(offset), "4 to 8")
        assert "begins at 0, and its records below 4 are in remote storage" in str(caught.value)
    read(log, 4)


def test_a_slice_is_of_a_file_here(log):
    """[RD-2] what is remote has none: `read` gives its bytes."""
    with pytest.raises(OffsetOutOfRangeError, match="its records below 4 are in remote storage"):
        log.slice(3, 1000)


def test_all_of_a_log_is_what_is_here_without_a_reader(log_without_reader):
    """Iteration, Arrow, a scan of everything."""
    log = log_without_reader
    assert offsets(log) == offsets(log.scan()) == offsets(log.select()) == [4, 5, 6, 7]
    assert log.to_arrow().column("offset").to_pylist() == [4, 5, 6, 7]
    assert offsets(log.scan(isolation="read_committed")) == [4, 5, 6, 7]
    assert log.verify().ok


def test_epochs_of_remote_records_stay(log):
    """[LDR-9, EPC-6] they go with the log start, not with the local one."""
    assert [entry.epoch for entry in log._epochs.entries] == [0, 1, 2, 3]
    log.maybe_increment_log_start_offset(3)
    assert list(log._epochs.entries) == [(1, 3), (2, 4), (3, 6)]


def test_records_deleted_by_their_owner_go_everywhere(log):
    """[LST-4, RET-5] what lies below the log start goes, uploaded or not."""
    log.delete_records(7)
    log.delete_old_segments()
    assert bases(log) == [7]
    assert (log.log_start_offset, log.local_log_start_offset) == (7, 7)


def test_an_appended_log_goes_on(log, tiered):
    """[LDR-9, DUR-51] over a clean stop and another one."""
    path = log.path
    for stop in (log.close_quietly, None):
        if stop is None:
            log.close()
        else:
            stop()
        log = tiered(path)
        log.append_as_leader(singleton(), 4)
        assert log.local_log_start_offset == 4
        if log.profile == "safe":
            assert log.log_start_offset == 0
        assert offsets(log.scan(4))[0] == 4
        assert log.verify().ok
    assert log.log_end_offset == 10


def test_a_truncation_takes_what_was_uploaded_of_it(log):
    """[LST-6, DUR-1] Kafka deletes what is written there next, as if it were uploaded."""
    log.truncate_to(5)
    highest = 4 if log.profile == "safe" else 5
    assert log.highest_offset_in_remote_storage == highest
    log.append_as_leader(singleton(b"other"), 4)
    log.update_config(log.config.with_changes(retention_bytes=0))
    log.delete_old_segments()
    assert bases(log) == [5 if log.profile == "safe" else 6, 6][: 2 if log.profile == "safe" else 1]
    log.truncate_fully_and_start_at(3)
    if log.profile == "safe":
        assert log.highest_offset_in_remote_storage == 2


def test_a_truncation_takes_the_local_log_start_along(log):
    """[LST-5, TS-1] what is written there is here, and found; Kafka leaves it above the end."""
    log.maybe_increment_local_log_start_offset(7)
    log.truncate_to(5)
    assert log.local_log_start_offset == (5 if log.profile == "safe" else 7)
    log.append_as_leader(batch([(TIME + 50, None, b"value")]), 4)
    found = log.offset_for_timestamp(TIME + 50)
    assert found == (5 if log.profile == "safe" else None)


def test_a_truncation_keeps_what_is_remote_below_it(log, tiered):
    """[TRU-3, TRU-4, DUR-1, DUR-141, EPC-7] Kafka moves the log start, and forgets its epochs."""
    log.truncate_to(2)
    if log.profile == "kafka":
        assert (log.log_start_offset, log.log_end_offset) == (2, 2)
        assert not log._epochs.entries
        return
    for stop in (None, log.close, log.close_quietly):
        if stop is not None:
            log.close() if stop == log.close else log.close_quietly()
            log = tiered(log.path)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 2)
        assert list(log._epochs.entries) == [(0, 0), (4, 2)]
        assert log.log_end_offset == log.segments()[0].base_offset == 2
    log.append_as_leader(singleton(), 4)
    assert offsets(log.scan(2)) == [2]
    log.truncate_to(0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)


# ---- look-ups by time ----------------------------------------------------------------------------


def test_remote_records_are_found_first(log, tiered, tmp_path):
    """[TS-1] from the log start on; a bound holds for them too."""
    remote = log._remote._reader
    remote.records += RemoteRecords([(TIME + 1, 1, 0), (TIME + 3, 3, 1)]).records
    assert log.fetch_offset_by_timestamp(TIME) == (TIME + 1, 1, 0)
    assert log.offset_for_timestamp(TIME) == 1
    assert log.offset_for_timestamp(-9) == 1
    assert log.fetch_offset_by_timestamp(TIME + 2) == (TIME + 3, 3, 1)
    assert log.fetch_offset_by_timestamp(TIME + 6) == (TIME + 6, 6, 3)
    log.maybe_increment_log_start_offset(2)
    assert log.fetch_offset_by_timestamp(TIME) == (TIME + 3, 3, 1)
    assert [asked[2] for asked in remote.asked] == [0, 0, 0, 0, 0, 2]
    bounded = tiered(tmp_path / "topic-1", remote_log_reader=remote, replicated=True)
    bounded.append_as_leader(singleton(), 0)
    assert bounded.fetch_offset_by_timestamp(TIME, "high_watermark") == (-1, -1, None)


def test_no_record_of_the_local_part_is_found_below_it(log):
    """[TS-1, TS-2] what waits for its deletion is not here any more."""
    log.maybe_increment_local_log_start_offset(6)
    assert log.fetch_offset_by_timestamp(TIME + 6).offset == 6
    assert log.fetch_offset_by_timestamp(TIME + 4).offset == -1  # a broker asks one segment
    assert log.offset_for_timestamp(TIME + 4) == 6


def test_a_reader_that_fails(log):
    """Its own error comes out; an answer of another type is refused."""
    log._remote._reader.records = None
    with pytest.raises(TypeError):
        log.fetch_offset_by_timestamp(TIME)
    log._remote._reader.records = []
    log._remote._reader.find_offset_by_timestamp = lambda *_: 5
    for ask in (log.fetch_offset_by_timestamp, log.offset_for_timestamp):
        with pytest.raises(IllegalStateError, match="remote_log_reader") as caught:
            ask(TIME)
        assert caught.value.found == "int"
    with pytest.raises(segstore.SegstoreError):
        log.offset_for_timestamp("soon")


@pytest.mark.parametrize("wrong", [-5, 3, "4", 4.0, True, None, 2**63])
def test_what_the_reader_finds_is_in_the_log(log, wrong):
    """[TS-1] no answer that is no offset, or that of a deleted record, reaches who asked."""
    log.maybe_increment_log_start_offset(4)
    log._remote._reader.records = [segstore.FileTimestampAndOffset(TIME, wrong, 0)]
    log._remote._reader.find_offset_by_timestamp = lambda *_: log._remote._reader.records[0]
    for ask in (log.fetch_offset_by_timestamp, log.offset_for_timestamp):
        with pytest.raises(IllegalStateError, match="remote_log_reader") as caught:
            ask(TIME)
        assert caught.value.found == repr(wrong)
        assert caught.value.expected == "an offset from the log start 4 on"


# ---- settings that change ------------------------------------------------------------------------


def test_what_ends_the_remote_part_moves_the_log_start(log, tiered):
    """[CFG-33, CFG-46] and nothing is known of it afterwards."""
    changed = {"remote_storage_enable": False, "remote_log_delete_on_disable": True}
    log.update_config(log.config.with_changes(**changed))
    assert (log.log_start_offset, log.local_log_start_offset) == (4, 4)
    assert log.highest_offset_in_remote_storage == -1
    log.update_config(log.config.with_changes(**TIERED))
    assert log.remote_log_enabled
    assert (log.local_log_start_offset, log.highest_offset_in_remote_storage) == (4, -1)
    assert len(log.delete_old_segments()) == 0  # nothing is uploaded, as far as it knows
    path = log.path
    log.close()
    if log.profile == "safe":
        assert tiered(path).log_start_offset == 4


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize("deletes", [False, True])
def test_a_remote_part_is_not_compacted(log, policy, deletes):
    """[CFG-43, CFG-46, UNI-6] it would go with the policy, and nobody was asked."""
    compacted = log.config.with_changes(cleanup_policy=policy, remote_log_delete_on_disable=deletes)
    with pytest.raises(IllegalArgumentError, match="compacted") as caught:
        log.update_config(compacted)
    assert (caught.value.file, caught.value.found) == (log.path, f"cleanup_policy {policy!r}")
    assert log.remote_log_enabled
    assert log.config.cleanup_policy == "delete"
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)
    off = compacted.with_changes(remote_storage_enable=False)
    if not deletes:
        with pytest.raises(IllegalArgumentError, match="remote_log_delete_on_disable"):
            log.update_config(off)
        return
    log.update_config(off)
    assert (log.log_start_offset, log.remote_log_enabled) == (4, False)


def test_copying_goes_off_and_on(log):
    """[CFG-32, RET-8] the log start moves while it is off, the rest stays known."""
    changed = {"remote_log_copy_disable": True, "retention_bytes": 2 * SIZE}
    log.update_config(log.config.with_changes(**changed))
    assert log.highest_offset_in_remote_storage == 5
    assert len(log.delete_old_segments()) == 2
    assert (log.log_start_offset, log.local_log_start_offset) == (6, 6)
    log.update_config(log.config.with_changes(remote_log_copy_disable=False, retention_bytes=0))
    assert len(log.delete_old_segments()) == 0
    log.update_highest_offset_in_remote_storage(6)
    assert len(log.delete_old_segments()) == 1
    assert (log.log_start_offset, log.local_log_start_offset) == (6, 7)


def test_logs_of_one_directory_share_a_reader(tmp_path):
    """Each says which one it is."""
    remote = RemoteRecords()
    with segstore.open_dir(tmp_path / "logs", remote_log_reader=remote, **TIERED) as logs:
        logs.create_topic("orders", 2)
        logs.create_topic("__consumer_offsets", 1)
        for partition in range(2):
            log = logs.log("orders", partition)
            log.append([(TIME, None, b"v")])
            assert log.fetch_offset_by_timestamp(TIME).offset == 0
        assert not logs.log("__consumer_offsets", 0).remote_log_enabled
    assert [str(asked[0]) for asked in remote.asked] == ["orders-0", "orders-1"]
