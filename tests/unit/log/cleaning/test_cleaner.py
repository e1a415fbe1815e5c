"""One pass of the cleaner over a log, and compaction as a user sees it [CLN-*, DUR-125]."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    IllegalArgumentError,
    InvalidRecordError,
    LogCleaningAbortedError,
    LogTruncatedError,
)
from segstore.log.cleaning import cleaner as cleaner_module
from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.log.files.partition_directory import file_name
from segstore.log.files.profile import Profile
from segstore.log.local.local_log import LocalLog
from segstore.log.local.segment_replacement import SegmentReplacement
from segstore.log.unified_log import UnifiedLog
from segstore.types import Codec
from tests.kits.cleaner_kit import SmallDestinations
from tests.kits.interrupted_at import InterruptedAt
from tests.kits.log_kit import at, bases, batch, message_of_magic_1, offsets
from tests.kits.overflow_kit import BASES, SPLIT_BASE, write_overflowed_log
from tests.kits.transactions_kit import ABORT, COMMIT, Producer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    NewLog = Callable[..., UnifiedLog]

COMPACT = {"cleanup_policy": "compact", "internal_segment_bytes": 300}
NEVER = 2**62


def fill(log: UnifiedLog, count: int = 40, keys: int = 5) -> dict[bytes, bytes]:
    """Append records one by one; return the last value of each key."""
    last = {}
    for number in range(count):
        key, value = b"k%d" % (number % keys), b"value %d" % number + bytes(number % 7)
        log.append([(key, value)])
        last[key] = value
    return last


def live(log: UnifiedLog) -> dict[bytes, bytes | None]:
    values = {record.key: record.value for record in log.scan(isolation="read_committed")}
    return {key: value for key, value in values.items() if value is not None}


def cleaned(log: UnifiedLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the records before the active segment."""
    active = log.segments()[-1].base_offset
    return [(one.offset, one.key, one.value) for one in log.scan() if one.offset < active]


def markers(log: UnifiedLog) -> list[int]:
    """Return the offsets of the transaction markers that have a record yet."""
    found = (one for one in log.scan().batches() if one.is_control)
    return [record.offset for one in found for record in one.records()]


def files(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir() if one.suffix == ".log"}


# ---- what a user sees ----------------------------------------------------------------------------


def test_compact_keeps_the_last_record_of_each_key(new_log: NewLog, tmp_path: Path):
    """[CLN-84, CLN-120, CLN-121] Offsets stay; the log is good, open or opened again."""
    log = new_log(**COMPACT)
    last = fill(log)
    end = log.log_end_offset
    (stats,) = log.compact()

    assert live(log) == last
    assert len({key for _, key, _ in cleaned(log)}) == len(cleaned(log))
    assert stats.end_offset == log.segments()[-1].base_offset
    assert stats.bytes_written < stats.bytes_read
    assert stats.messages_read == stats.map_messages_read == stats.end_offset
    assert 0 < stats.buffer_utilization < 1
    assert "records kept" in str(stats).replace("kept, in", "records kept")
    assert next(iter(log.read(0))).offset > 0
    assert log.verify().ok
    log.close()
    log = new_log(read_only=True)
    assert (live(log), log.log_end_offset) == (last, end)
    assert log.verify().ok
    assert not [one for one in tmp_path.rglob("*") if one.suffix in {".cleaned", ".swap"}]


def test_compact_again_changes_no_record(new_log: NewLog, tmp_path: Path):
    """[CLN-120] It may make one segment of several that became small; then nothing changes."""
    log = new_log(**COMPACT)
    fill(log)
    log.compact()
    before = cleaned(log)
    for _ in range(6):
        log.compact()
    files_before = files(tmp_path / "topic-0")
    log.compact()

    assert cleaned(log) == before
    assert files(tmp_path / "topic-0") == files_before


def test_compact_of_a_clean_log_reads_and_writes_nothing(
    new_log: NewLog, tmp_path: Path, clock, monkeypatch
):
    """[CLN-36, CLN-39] No dirty byte, no pass; also after an open, and with tombstones not due."""
    log = new_log(**COMPACT, delete_retention_ms=1000)
    fill(log)
    log.append([(b"k0", None), (b"k1", b"beside it")])
    log.roll()
    assert len(log.compact()) == 1
    log.close()
    log = new_log(**COMPACT, delete_retention_ms=1000)
    before = {one: one.stat().st_ino for one in (tmp_path / "topic-0").glob("*.log")}
    clock.sleep(999)
    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "clean", lambda *_: pytest.fail("a pass"))
        assert log.compact() == []
    assert {one: one.stat().st_ino for one in (tmp_path / "topic-0").glob("*.log")} == before

    clock.sleep(1)  # the tombstone is due: the pass takes it, and is the last one
    assert len(log.compact()) == 1
    assert b"k0" not in [key for _, key, _ in cleaned(log)]
    assert log.compact() == []
    last = fill(log)
    log.roll()
    [stats] = log.compact()
    assert stats.map_messages_read == 40  # of what came since then
    assert live(log) == last
    assert log.compact() == []


def test_a_marker_that_is_due_is_taken_from_a_clean_log(new_log: NewLog, clock):
    """[CLN-81, CLN-96] Nothing is left of its transaction; it goes once its time has come."""
    log = new_log(**COMPACT, delete_retention_ms=1000)
    producer = Producer(log, 1)
    producer.write()
    producer.end(COMMIT)
    producer = Producer(log, 1, epoch=1)
    producer.write()  # a newer value of the same key
    producer.end(COMMIT)
    log.roll()
    log.compact()
    assert log.compact() == []
    log.append([(b"1", b"more")])
    log.roll()
    log.compact()  # the data has gone: the marker has a time now
    clock.sleep(999)
    assert log.compact() == []
    clock.sleep(1)
    assert markers(log) == [1, 3]
    assert len(log.compact()) == 1
    assert markers(log) == [3]
    assert log.compact() == []


def test_a_truncated_log_is_compacted_again(new_log: NewLog):
    """[DUR-126] What was clean is known no more."""
    log = new_log(**COMPACT)
    fill(log)
    log.compact()
    log.truncate_to(20)
    last = {record.key: record.value for record in log.scan()} | fill(log)
    log.roll()
    [stats] = log.compact()

    assert stats.end_offset == log.log_end_offset
    assert live(log) == last


def test_with_a_small_map_there_are_several_passes(new_log: NewLog):
    """[CLN-57, CLN-61, CLN-62] Each covers as many keys as fit."""
    log, seen = new_log(**COMPACT), []
    last = fill(log, count=60, keys=20)
    done = log.compact(memory_bytes=24 * 8, progress=lambda *call: seen.append(call))

    assert len(done) == len(seen) > 1
    assert seen[-1] == ("compact", done[-1].end_offset, log.segments()[-1].base_offset)
    assert [one.end_offset for one in done] == sorted({one.end_offset for one in done})
    assert live(log) == last
    assert len({key for _, key, _ in cleaned(log)}) == len(cleaned(log))


def test_a_small_log_gets_a_small_map(new_log: NewLog):
    """[CLN-2] ``memory_bytes`` is the most: a pass touches memory for its own keys."""
    log = new_log(**COMPACT)
    fill(log, count=60, keys=20)
    [stats] = log.compact()

    assert stats.buffer_utilization > 0.2


def test_a_log_without_the_policy_is_not_compacted(new_log: NewLog):
    """[DUR-128] Records without a key would go; a policy that was never set deletes nothing."""
    log = new_log(internal_segment_bytes=300)
    fill(log)
    before = offsets(log)
    with pytest.raises(IllegalArgumentError, match="cleanup_policy"):
        log.compact()

    assert offsets(log) == before


def test_a_tombstone_goes_after_its_time_and_its_key_stays_deleted(new_log: NewLog, clock):
    """[CLN-84, CLN-87, CLN-96, DUR-126]"""
    log = new_log(**COMPACT, delete_retention_ms=1000)
    fill(log, keys=3)
    log.append([(b"k0", None)])
    log.roll()
    log.compact()
    assert (b"k0", None) in [one[1:] for one in cleaned(log)]
    clock.sleep(999)
    log.compact()
    assert (b"k0", None) in [one[1:] for one in cleaned(log)]
    clock.sleep(1)
    log.compact()

    assert b"k0" not in [one[1] for one in cleaned(log)]
    assert set(live(log)) == {b"k1", b"k2"}


def test_what_is_younger_than_the_lag_stays(new_log: NewLog, clock):
    """[CLN-32, CLN-34]"""
    log = new_log(**COMPACT, min_compaction_lag_ms=1000)
    fill(log, count=20)
    clock.sleep(2000)
    log.roll()
    old_end = log.log_end_offset
    fill(log, count=20)
    log.roll()
    (stats,) = log.compact()

    assert stats.end_offset == old_end
    assert [one.offset for one in log.scan() if one.offset >= old_end] == list(range(20, 40))


def test_a_batch_that_is_larger_than_the_topic_takes_now_is_cleaned(new_log: NewLog):
    """[CLN-63] KAFKA-6834: a smaller max.message.bytes came after it; it is read as a whole."""
    log = new_log(cleanup_policy="compact", internal_segment_bytes=6000)
    log.append([(b"large", bytes(5000))])
    last = {b"large": bytes(5000)} | fill(log)
    log.update_config(log.config.with_changes(max_message_bytes=100))
    log.roll()
    stats = log.clean(Cleaner(offset_map_bytes=4800, io_buffer_bytes=64), 0)

    assert stats.end_offset == log.log_end_offset
    assert live(log) == last


def test_a_pass_over_a_part_keeps_what_is_aborted_in_the_rest(new_log: NewLog):
    """[CLN-61, CLN-71, CLN-95] KAFKA-13727: the map was full before the end of the transaction."""
    log = new_log(**COMPACT)
    fill(log, count=20, keys=20)
    producer = Producer(log, 1)
    producer.write(3)
    fill(log, count=20, keys=20)
    producer.write(3)
    producer.end(ABORT)
    log.append([(b"0", b"committed")])
    log.roll()
    before, cleaner = live(log), Cleaner(offset_map_bytes=24 * 6)
    aborted = log.collect_aborted_transactions(0, log.log_end_offset)
    first, passes = 0, 0
    while first < log.segments()[-1].base_offset:
        first = log.clean(cleaner, first).end_offset
        passes += 1
        assert live(log) == before
        assert log.collect_aborted_transactions(0, log.log_end_offset) == aborted
        assert log.verify().ok

    assert passes > 5
    assert markers(log) == [aborted[0].last_offset]


def test_the_lag_counts_from_what_is_dirty(new_log: NewLog, clock):
    """[CLN-32] The clean part may be younger: the lag was set after the pass."""
    log = new_log(**COMPACT)
    fill(log, count=20)
    log.roll()
    log.compact()
    log.append([(clock.now - 10_000, b"k0", b"late")])
    log.roll()
    log.update_config(log.config.with_changes(min_compaction_lag_ms=5000))
    (stats,) = log.compact()

    assert stats.end_offset == log.log_end_offset
    assert log.compact() == []


def test_an_open_transaction_ends_what_is_cleaned(new_log: NewLog):
    """[CLN-32, CLN-33]"""
    log = new_log(**COMPACT)
    fill(log, count=20)
    log.roll()
    producer = Producer(log, 1)
    begin = producer.write().base_offset
    fill(log, count=20)
    log.roll()
    (stats,) = log.compact()
    assert stats.end_offset <= begin
    assert log.clean(Cleaner(offset_map_bytes=4800), 0, 10**6).end_offset <= begin
    producer.end(COMMIT)
    log.roll()
    (stats,) = log.compact()

    assert stats.end_offset == log.log_end_offset


def test_aborted_records_go_and_take_no_value_away(new_log: NewLog, tmp_path: Path, clock):
    """[CLN-57, CLN-80, CLN-81, CLN-95, CLN-97, DUR-8] Whatever the transaction index says."""
    log = new_log(**COMPACT, delete_retention_ms=1000)
    log.append([(b"0", b"committed")])
    producer = Producer(log, 1)
    producer.write()  # the key is 0
    producer.end(ABORT)
    log.append([(b"x", b"last")])
    log.roll()
    log.flush()  # the sync after a roll, in the background, is of these files
    for index in (tmp_path / "topic-0").glob("*.txnindex"):
        index.unlink()
    log.compact()
    assert live(log) == {b"0": b"committed", b"x": b"last"}
    assert 1 not in offsets(log)
    assert log.verify().ok
    for _ in range(2):
        log.append([(b"x", b"last")])
        log.roll()
        log.compact()
        clock.sleep(1000)
    producer = Producer(log, 1, epoch=1)
    producer.write()  # its last record was in the empty batch, until now
    producer.end(COMMIT)
    for _ in range(2):
        log.append([(b"x", b"last")])
        log.roll()
        log.compact()

    assert log.collect_aborted_transactions(0, log.log_end_offset) == []


def test_a_transaction_that_was_aborted_segments_later_is_known(new_log: NewLog):
    """[CLN-71, CLN-73, CLN-95, CLN-97, CLN-98] Its marker is in another group."""
    for recovery in ("safe", "kafka"):
        log = new_log(recovery=recovery, **COMPACT | {"internal_segment_bytes": 150})
        producer = Producer(log, 1)
        log.append([(b"0", b"committed")])
        producer.write()
        fill(log, count=10)
        producer.end(ABORT)
        log.append([(b"x", b"last")])
        log.roll()
        log.update_high_watermark(log.log_end_offset) if recovery == "kafka" else None
        log.compact()

        assert 1 not in offsets(log)
        assert live(log)[b"0"] == b"committed"
        (aborted,) = log.collect_aborted_transactions(0, log.log_end_offset)
        assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (1, 1, 12)
        log.delete()


def test_offsets_that_no_record_has_are_clean_too(new_log: NewLog):
    """[CLN-60] A pass ends where the next segment begins, not behind the last record."""
    log = new_log(**COMPACT)
    log.append_as_follower(at(0, value=b"v"), 0)
    log.append_as_follower(at(50, value=b"v"), 0)
    log.roll()
    log.append_as_follower(at(90, value=b"v"), 0)
    stats = log.clean(Cleaner(offset_map_bytes=4800), 0)

    assert stats.end_offset == log.segments()[-1].base_offset > 50


def test_a_group_of_which_nothing_is_left_becomes_an_empty_segment(new_log: NewLog):
    """[CLN-78] In Kafka's profile; the safe one keeps the last batch, empty [DUR-126]."""
    sizes = {}
    for recovery in ("safe", "kafka"):
        log = new_log(recovery=recovery, **COMPACT)
        fill(log, count=40, keys=1)
        log.update_high_watermark(log.log_end_offset) if recovery == "kafka" else None
        log.compact()
        sizes[recovery] = log.segments()[0].size_bytes
        log.delete()

    assert sizes == {"safe": 61, "kafka": 0}


def test_the_index_is_as_dense_as_that_of_appends(new_log: NewLog):
    """[CLN-79, CLN-93]"""
    log = new_log(cleanup_policy="compact", internal_segment_bytes=50_000, index_interval_bytes=500)
    for number in range(400):
        log.append([(b"%d" % (number % 200), bytes(50))])
    log.roll()
    log.compact()
    segment = log.segments()[0]
    entries = segment.offset_index_entries()

    assert len(entries) >= segment.size_bytes // 700
    assert [one.offset for one in entries] == sorted({one.offset for one in entries})
    for entry in entries:
        assert segment.translate_offset(entry.offset).position == entry.position


def test_a_swap_without_its_indexes_is_complete(new_log: NewLog, tmp_path: Path):
    """[CLN-113, CLN-115] An open makes them from the records."""
    log = new_log(**COMPACT)
    last = fill(log)
    log.compact()
    log.close()
    path = tmp_path / "topic-0"
    for kind in ("index", "timeindex"):
        (path / file_name(0, kind)).unlink(missing_ok=True)
    (path / file_name(0, "log")).rename(path / (file_name(0, "log") + ".swap"))
    log = new_log(**COMPACT)

    assert live(log) == last
    assert log.verify().ok


def test_a_producer_goes_on_after_its_records_have_gone(new_log: NewLog):
    """[CLN-72, CLN-82, CLN-83, CLN-91, CLN-92] Its last sequence is in an empty batch."""
    log = new_log(**COMPACT)
    producer = Producer(log, 7, transactional=False)
    producer.write(3)
    log.append([(b"%d" % n, b"new") for n in range(3)])
    log.append([(b"x", b"y")])
    log.roll()
    log.compact()
    assert offsets(log)[0] == 3
    log.close()
    log = new_log(**COMPACT)
    producer.log = log
    producer.write()

    assert log.active_producers()[0].last_sequence == 3


def test_the_segment_has_the_time_of_what_it_was_made_of(new_log: NewLog):
    """[CLN-76] Retention by the time of a file goes by it."""
    log = new_log(**COMPACT)
    fill(log)
    last = log.segments()[-2].modified_ms()
    log.compact()

    assert log.segments()[-2].modified_ms() == last


def test_segments_are_merged_and_snapshots_go_with_those_that_vanish(
    new_log: NewLog, tmp_path: Path
):
    """[CLN-65, CLN-70, CLN-110, CLN-111]"""
    log = new_log(**COMPACT)
    fill(log, count=60)
    log.compact()
    fill(log, count=10)
    before = bases(log)
    log.compact()
    after = bases(log)
    path = tmp_path / "topic-0"

    assert set(after) < set(before)
    left = {int(one.name[:20]) for one in path.glob("*.snapshot")}
    assert left <= set(after)
    assert (path / f"{file_name(before[1], 'log')}.deleted").exists()


def test_what_is_cleaned_has_sidecars_again(new_log: NewLog, tmp_path: Path, scheduler):
    """[DUR-60] Those of the old segments went before their names did."""
    log = new_log(**COMPACT, checksum_sidecar=True)
    fill(log)
    scheduler.wait_until_idle()
    path = tmp_path / "topic-0"
    assert len(list(path.glob("*.segsum"))) == len(bases(log)) - 1
    log.compact()
    scheduler.wait_until_idle()

    assert len(list(path.glob("*.segsum"))) == len(bases(log)) - 1
    assert log.verify().ok


# ---- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 2])
def test_damage_is_named_and_its_segment_stays(new_log: NewLog, tmp_path: Path, at: int):
    """[CLN-99, DUR-125] No new CRC is given to old bytes, and nothing of the segment goes."""
    log = new_log(**COMPACT)
    fill(log)
    damaged = log.segments()[at]
    file = tmp_path / "topic-0" / damaged.name
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)
    before = files(file.parent)
    with pytest.raises((CorruptRecordError, CorruptLogError)) as raised:
        log.compact()

    assert raised.value.file == str(file)
    assert raised.value.position == 0
    assert files(file.parent) == before


def test_damage_of_the_clean_part_ends_the_pass_at_its_group(new_log: NewLog, tmp_path: Path):
    """[DUR-125] Only the map is built of the dirty part; the copy meets the damage."""
    log = new_log(**COMPACT | {"segment_index_bytes": 12})
    fill(log)
    segments = log.segments()
    file = tmp_path / "topic-0" / segments[1].name
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptRecordError) as raised:
        log.clean(Cleaner(offset_map_bytes=4800), segments[3].base_offset)

    assert raised.value.file == str(file)
    assert file.read_bytes() == data
    assert not list(file.parent.glob("*.cleaned"))
    assert not list(file.parent.glob("*.swap"))


# ---- beside others -------------------------------------------------------------------------------


def test_a_reader_goes_on_with_what_it_began(new_log: NewLog):
    """[CLN-121, DUR-78] It has each record that was there, or what took its place."""
    log = new_log(**COMPACT)
    last = fill(log, count=60)
    readers = [iter(log.scan()), iter(log.scan(isolation="read_committed")), iter(log.read(0))]
    begun = [[next(reader)] for reader in readers]
    log.compact()

    for reader, first in zip(readers, begun, strict=True):
        found = [*first, *reader]
        assert [one.offset for one in found] == sorted({one.offset for one in found})
        assert {one.key: one.value for one in found} == last


def test_reads_and_appends_go_on_beside_passes(new_log: NewLog):
    """[DUR-70, DUR-78]"""
    log, failures, stop = new_log(**COMPACT), [], threading.Event()
    fill(log)

    def read() -> None:
        try:
            while not stop.is_set():
                for isolation in ("log_end", "durable", "read_committed"):
                    found = [one.offset for one in log.scan(isolation=isolation)]
                    assert found == sorted(found)
        except BaseException as error:
            failures.append(error)
            raise

    def append() -> None:
        try:
            for number in range(300):
                log.append([(b"%d" % (number % 7), b"beside %d" % number)])
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=read), threading.Thread(target=append)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        log.compact()
    threads[1].join()
    stop.set()
    threads[0].join()

    assert failures == []
    assert {len(live(log)), len({one.key for one in log.scan()})} == {5 + 7}
    assert log.log_end_offset == 340
    assert log.verify().ok


def test_a_bound_at_the_end_of_what_was_replaced_shows_all_of_it(new_log: NewLog):
    """[CON-5, DUR-81] It names a place in a smaller file: messages of magic 1 take less room."""
    log = new_log(**COMPACT)
    for offset in range(9):
        log.append_as_follower(message_of_magic_1(offset, b"%d" % offset, key=b"k%d" % offset), 0)
    log.flush()
    size = log.segments()[-1].size_bytes
    log.roll()
    log.compact()

    assert log.segments()[-2].size_bytes > size
    assert offsets(log.scan(isolation="durable")) == list(range(9))
    assert offsets(log.read(8, 2**20, "durable")) == [8]


@pytest.mark.parametrize("isolation", ["log_end", "durable", "read_committed"])
def test_a_reader_whose_end_lies_in_what_is_replaced_goes_on(new_log: NewLog, isolation: str):
    """[CON-5, DUR-78] Its end was in the active segment when it began."""
    log = new_log(**COMPACT | {"internal_segment_bytes": 400})
    fill(log, count=42)
    log.flush()
    before = {one.key: one.value for one in log.scan()}
    reader = iter(log.scan(isolation=isolation))
    found = [next(reader)]
    fill(log, count=30, keys=3)
    log.compact()
    found += reader

    assert [one.offset for one in found] == sorted({one.offset for one in found})
    assert {one.key for one in found} <= set(before)
    assert all(one.offset < 42 for one in found)
    last = {one.key: one.value for one in found}
    assert {key: last[key] for key in (b"k3", b"k4")} == {
        key: before[key] for key in (b"k3", b"k4")
    }


def test_a_cleaned_segment_that_takes_appends_again_has_an_end(new_log: NewLog):
    """[CON-5, DUR-75] A reader sees what was there when it began."""
    log = new_log(**COMPACT)
    fill(log)
    log.compact()
    end = bases(log)[-1]
    log.truncate_to(end)
    reader = iter(log.scan())
    found = [next(reader)]
    log.append([(b"new", b"1")])

    assert all(one.offset < end for one in [*found, *reader])
    assert offsets(log)[-1] == end


def test_a_truncation_meanwhile_ends_the_pass(new_log: NewLog, tmp_path: Path):
    """[CLN-27] What the map says is not true any more."""
    log = new_log(**COMPACT)
    fill(log)
    calls = []

    def cut() -> None:
        calls.append(1)
        if len(calls) == 8:
            log.truncate_to(10)

    with pytest.raises(LogTruncatedError):
        log.clean(Cleaner(offset_map_bytes=4800, check_done=cut), 0)

    assert offsets(log) == list(range(10))
    assert not list((tmp_path / "topic-0").glob("*.cleaned"))


def test_segments_that_retention_deletes_meanwhile_are_left_out(new_log: NewLog):
    """[CLN-112] LogCleanerTest.testCleanSegmentsWithConcurrentSegmentDeletion."""
    log = new_log(**COMPACT | {"internal_segment_bytes": 150, "cleanup_policy": "compact,delete"})
    last = fill(log)
    start, calls = bases(log)[6], []

    def delete() -> None:
        calls.append(1)
        if len(calls) == len(bases(log)) * 2 + 2:
            log.delete_records(start)
            log.delete_old_segments()

    log.clean(Cleaner(offset_map_bytes=4800, check_done=delete), 0)

    assert log.log_start_offset == start
    assert live(log) == last
    assert log.verify().ok


# ---- interruptions -------------------------------------------------------------------------------


def test_a_pass_that_is_stopped_leaves_a_valid_log(new_log: NewLog, tmp_path: Path):
    """[CLN-19, CLN-77] At each place where it looks."""
    log = new_log(**COMPACT)
    last = fill(log)
    for place in range(1, 40):
        left = [place]

        def stop(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise LogCleaningAbortedError("it is to end")

        try:
            log.clean(Cleaner(offset_map_bytes=4800, check_done=stop, io_buffer_bytes=1), 0)
        except LogCleaningAbortedError:
            assert live(log) == last
            assert not list((tmp_path / "topic-0").glob("*.cleaned"))

    assert live(log) == last
    assert log.verify().ok


@pytest.mark.parametrize(
    "function",
    [
        SegmentReplacement.commit,
        SegmentReplacement.finish,
        LocalLog._replace,
        LocalLog.replace_segments,
        cleaner_module._Pass._clean_group,
    ],
    ids=lambda function: function.__name__,
)
def test_control_c_anywhere_leaves_a_valid_log(function, new_log: NewLog, tmp_path: Path):
    """[CLN-114, DUR-20] The next change finishes a replacement that has begun."""
    came, nth = True, 0
    while came:
        nth += 13
        path = tmp_path / f"n{nth}-0"
        log = new_log(path, **COMPACT)
        last = fill(log, count=12)
        interrupt = InterruptedAt(function, nth)
        with contextlib.suppress(KeyboardInterrupt), interrupt:
            log.compact()
        came = interrupt.came
        assert live(log) == last
        log.append([(b"new", b"1")])
        assert not list(path.glob("*.swap"))
        log.close()
        log = new_log(path, **COMPACT)
        assert live(log) == last | {b"new": b"1"}
        assert log.verify().ok
        log.close()
    assert nth > 10


def test_a_full_disk_ends_the_pass_and_nothing_else(new_log: NewLog, small_disk):
    """[DUR-30] The log stays writable, and there is as much room as before."""
    log = new_log(small_disk.path / "topic-0", **COMPACT)
    last = fill(log)
    small_disk.fill()
    with pytest.raises(DiskFullError):
        log.compact()
    assert live(log) == last
    small_disk.free()
    log.append([(b"new", b"1")])
    log.compact()

    assert live(log) == last | {b"new": b"1"}


def test_a_rename_that_fails_before_the_commit_leaves_the_log_as_it_was(
    new_log: NewLog, tmp_path: Path, monkeypatch
):
    """[DUR-20, DUR-30]"""
    log = new_log(**COMPACT)
    last = fill(log)
    before = bases(log)

    def refuse(*_: object) -> None:
        raise DiskFullError("no room for a name")

    with monkeypatch.context() as patch:
        patch.setattr("segstore.log.local.segment.Segment.change_suffix", refuse)
        with pytest.raises(DiskFullError):
            log.compact()
    assert bases(log) == before
    assert not list((tmp_path / "topic-0").glob("*.cleaned"))
    log.append([(b"new", b"1")])
    log.compact()

    assert live(log) == last | {b"new": b"1"}


def test_a_state_that_cannot_be_written_leaves_no_file(
    new_log: NewLog, tmp_path: Path, monkeypatch
):
    """[DUR-20, DUR-30] A .cleaned file would undo the next replacement after a crash."""
    log = new_log(**COMPACT)
    last = fill(log)

    def refuse(*_: object, **__: object) -> None:
        raise DiskFullError("no room for a state")

    with monkeypatch.context() as patch:
        patch.setattr("segstore.log.log_metadata.LogMetadata.save_state", refuse)
        with pytest.raises(DiskFullError):
            log.compact()
    assert not list((tmp_path / "topic-0").glob("*.cleaned"))
    log.compact()

    assert live(log) == last


def test_a_pass_removes_what_another_one_has_left(new_log: NewLog, tmp_path: Path):
    """[DUR-20, LDR-3] Before a swap: an open would take that for incomplete."""
    log = new_log(**COMPACT)
    last = fill(log)
    left = tmp_path / "topic-0" / "00000000000000000001.log.cleaned"
    left.touch()
    log.compact()

    assert not left.exists()
    assert live(log) == last


def test_a_truncation_between_two_passes_ends_a_compaction(new_log: NewLog):
    """[DUR-126] What is appended then lies below the end of the pass before, and is not clean."""
    log = new_log(**COMPACT)
    fill(log)
    cuts = []

    def cut(_what: str, first: int, _limit: int) -> None:
        if cuts:
            return
        cuts.append(first)
        log.truncate_to(first - 1)
        log.append([(b"late", b"1"), (b"late", None), (b"late", b"2")])
        log.roll()

    with pytest.raises(LogTruncatedError, match=r"call compact\(\) again"):
        log.compact(memory_bytes=48, progress=cut)
    last = live(log)
    assert last[b"late"] == b"2"
    log.compact()
    assert live(log) == last


def test_a_log_has_one_pass_at_a_time(new_log: NewLog):
    """[DUR-126] Two would write and rename the same files."""
    log = new_log(**COMPACT)
    last, refused = fill(log), []

    def compact_beside() -> None:
        if refused:  # once is enough of a pass that asks thousands of times
            return
        with pytest.raises(LogCleaningAbortedError, match="another pass") as caught:
            log.compact()
        refused.append(caught)

    log.clean(Cleaner(offset_map_bytes=4800, check_done=compact_beside), 0)

    assert refused
    assert live(log) == last
    log.compact()
    assert live(log) == last


# ---- one pass ------------------------------------------------------------------------------------


def test_output_that_would_overflow_begins_another_segment(new_log: NewLog, monkeypatch):
    """[CLN-75, DUR-20] Together they have all offsets of the group; Kafka gives up such a round."""
    log = new_log(**COMPACT | {"internal_segment_bytes": 2000})
    last = fill(log, count=60, keys=30)
    log.roll()
    monkeypatch.setattr(cleaner_module, "SegmentCleaner", SmallDestinations)
    before = bases(log)
    log.compact()

    assert live(log) == last
    assert len(bases(log)) > len(before)
    assert max(segment.size_bytes for segment in log.segments()) <= 300
    assert log.verify().ok
    log.close()
    log = new_log(**COMPACT)
    assert live(log) == last


def test_a_segment_that_outgrew_its_base_offset_is_split(new_log: NewLog, tmp_path: Path):
    """[CLN-75] LogCleanerTest.testSegmentWithOffsetOverflow: the next pass cleans what it became.

    In the safe profile an open has split it.
    """
    folder = tmp_path / "topic-0"
    keys = write_overflowed_log(folder)
    (tmp_path / CLEAN_SHUTDOWN_MARKER).touch()
    log = new_log(recovery="kafka")
    assert bases(log) == BASES
    log.update_high_watermark(log.log_end_offset)
    with pytest.raises(LogCleaningAbortedError, match="was split: the next pass"):
        log.clean(Cleaner(profile=Profile.KAFKA), 0)

    assert bases(log) == [*BASES[:2], SPLIT_BASE, BASES[2]]
    assert [record.key for record in log.scan()] == keys
    log.append_as_leader(batch([(key, b"new") for key in keys[::2]]), 0)
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    log.clean(Cleaner(profile=Profile.KAFKA), 0)
    assert [record.key for record in log.scan()] == [*keys[1::2], *keys[::2]]
    assert not [*folder.glob("*.cleaned"), *folder.glob("*.swap")]
    log.close()
    with new_log(recovery="kafka") as again:
        assert [record.key for record in again.scan()] == [*keys[1::2], *keys[::2]]


@pytest.mark.parametrize("first_dirty_offset", [0, 1])
def test_a_record_that_became_too_large_ends_the_pass(new_log: NewLog, first_dirty_offset: int):
    """[CLN-105, CFG-82m] Of a compressed batch, in the dirty part or in the clean one.

    It is cleaned again when the setting is raised; a batch without a codec is not checked.
    """
    log = new_log(**COMPACT | {"internal_segment_bytes": 4000, "compression_type": "producer"})
    large = [(b"k", bytes(2000))]
    log.append_as_leader(batch(large, codec=Codec.LZ4), 0)
    log.append_as_leader(batch(large), 0)
    log.roll()
    log.append([(b"k", b"v")])
    log.roll()
    log.update_config(log.config.with_changes(max_decompressed_message_bytes=1000))
    before = bases(log)
    with pytest.raises(InvalidRecordError, match=r"max\.decompressed\.message\.bytes"):
        log.clean(Cleaner(), first_dirty_offset)

    assert bases(log) == before
    assert [record.offset for record in log.scan()] == [0, 1, 2]
    log.update_config(log.config.with_changes(max_decompressed_message_bytes=3000))
    log.clean(Cleaner(), first_dirty_offset)
    assert live(log) == {b"k": b"v"}
    assert offsets(log) == [2]


def test_a_pass_that_has_nothing_to_do_ends_where_it_begins(new_log: NewLog):
    """[CLN-55, CLN-62]"""
    log = new_log(**COMPACT)
    fill(log, count=3)
    stats = log.clean(Cleaner(offset_map_bytes=4800), 2)

    assert (stats.end_offset, stats.bytes_read) == (2, 0)
    assert log.compact() == []


def test_a_map_without_room_is_refused():
    """[CLN-2]"""
    for how in ({"offset_map_bytes": 24}, {"load_factor": 0.0}, {"load_factor": 1.5}):
        with pytest.raises(IllegalArgumentError):
            Cleaner(**{"offset_map_bytes": 4800, **how})


@pytest.mark.parametrize(("first", "limit"), [(-1, 5), (5, 4), (41, 50)])
def test_a_range_that_cannot_be_cleaned_is_refused(new_log: NewLog, first: int, limit: int):
    log = new_log(**COMPACT)
    fill(log)
    with pytest.raises(IllegalArgumentError):
        log.clean(Cleaner(offset_map_bytes=4800), first, limit)


def test_the_throttle_has_every_byte_that_is_read_and_written(new_log: NewLog):
    """[CLN-9, CLN-64]"""
    log, charged = new_log(**COMPACT), []
    fill(log)
    stats = log.clean(Cleaner(offset_map_bytes=4800, throttle=charged.append), 0)

    assert sum(charged) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert all(count > 0 for count in charged)


def test_batches_larger_than_the_buffer_are_read_as_a_whole(new_log: NewLog):
    """[CLN-63, CLN-100..CLN-104]"""
    log = new_log(cleanup_policy="compact", internal_segment_bytes=50_000)
    for number in range(30):
        log.append([(b"k%d" % (number % 2), bytes(number * 1000))])
    log.roll()
    log.clean(Cleaner(offset_map_bytes=4800, io_buffer_bytes=100), 0)

    assert {key: len(value or b"") for _, key, value in cleaned(log)} == {
        b"k0": 28_000,
        b"k1": 29_000,
    }


def test_messages_of_magic_1_become_batches_of_magic_2(new_log: NewLog):
    """[CLN-87, CLN-89, CLN-94]"""
    log = new_log(**COMPACT)
    for offset in range(12):
        log.append_as_follower(
            message_of_magic_1(offset, b"%d" % offset, key=b"k%d" % (offset % 3)), 0
        )
    log.roll()
    log.compact()

    found = [(batch.magic, batch.last_offset) for batch in log.read(0, 2**20).batches()]
    assert {magic for magic, _ in found} == {2}
    assert live(log) == {b"k0": b"9", b"k1": b"10", b"k2": b"11"}


def test_kafkas_profile_uses_its_own_hash_and_checks_nothing(new_log: NewLog):
    """[CLN-45, CLN-99, DUR-62]"""
    log = new_log(**COMPACT, recovery="kafka")
    last = fill(log)
    log.update_high_watermark(log.log_end_offset)
    log.compact()

    assert live(log) == last
    assert Cleaner(offset_map_bytes=4800, profile=Profile.KAFKA).is_safe is False
