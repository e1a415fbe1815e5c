"""Appending as leader and as follower [APP-*]."""

from __future__ import annotations

import pytest

import segstore
from segstore import MemoryRecords, Record
from segstore.errors import (
    IllegalArgumentError,
    InvalidEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    LogReadOnlyError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedAppendOffsetError,
)
from tests.kits.log_kit import TIME, at, bases, batch, offsets, singleton, values

DAY = 24 * 3600 * 1000


def epochs(log) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in log._epochs.entries]


def test_an_append_says_what_it_did(new_log):
    """[APP-5, APP-8, APP-18] offsets go on from the log end."""
    log = new_log()
    log.append([(None, b"a")])
    info = log.append([(TIME + 5, b"k", b"b"), (TIME + 9, None, b"c"), (TIME, b"k", None)])
    assert (info.base_offset, info.last_offset, info.records_count) == (1, 3, 3)
    assert (info.max_timestamp, info.log_append_time) == (TIME + 9, -1)
    assert info.size_bytes == log.segments()[0].size_bytes - 69
    assert info.log_start_offset == 0
    assert log.log_end_offset == 4
    assert [(r.offset, r.timestamp, r.key, r.value) for r in log.read(1)] == [
        (1, TIME + 5, b"k", b"b"),
        (2, TIME + 9, None, b"c"),
        (3, TIME, b"k", None),
    ]


@pytest.mark.parametrize("nothing", [[], (), iter([])])
def test_nothing_appended_changes_nothing(new_log, nothing):
    """[APP-6] first and last offset are -1."""
    log = new_log()
    log.append([(None, b"a")])
    size = log.segments()[0].size_bytes
    info = log.append(nothing)
    assert (info.base_offset, info.last_offset, info.records_count, info.size_bytes) == (
        -1,
        -1,
        0,
        0,
    )
    assert log.append_as_leader(b"").base_offset == -1
    assert log.append_as_follower(b"", 5).base_offset == -1
    assert (log.log_end_offset, log.segments()[0].size_bytes) == (1, size)


def test_what_counts_as_records(new_log):
    log = new_log()
    log.append(Record(key=b"k", value=b"v", headers=[("h", b"x")], timestamp=TIME))
    log.append((key, b"") for key in (b"1", None))
    log.append([Record(), (None, None)], timestamp=TIME + 1)
    found = list(log)
    assert [r.key for r in found] == [b"k", b"1", None, None, None]
    assert found[0].headers == (("h", b"x"),)
    assert [r.timestamp for r in found[3:]] == [TIME + 1, TIME + 1]
    assert values(log)[3:] == [None, None]


@pytest.mark.parametrize(
    "wrong",
    [5, None, "text", [5], ["text"], [(b"k",)], [(b"k", "text")], [(1, 2, 3, 4)], [("k", b"v")]],
)
def test_what_is_no_record_is_refused_whole(new_log, wrong):
    """A value of the wrong type: nothing is appended, and the log goes on."""
    log = new_log()
    with pytest.raises(RecordTypeError) as caught:
        log.append(wrong)
    assert isinstance(caught.value, TypeError)
    with pytest.raises(RecordTypeError):
        log.append([(None, b"good"), wrong])
    assert log.log_end_offset == 0
    assert log.append([(None, b"good")]).base_offset == 0


@pytest.mark.parametrize("wrong", [5, None, "text", [(None, b"x")]])
def test_what_holds_no_batches_is_refused(new_log, wrong):
    log = new_log()
    for call in (log.append_as_leader, lambda data: log.append_as_follower(data, 0)):
        with pytest.raises(RecordTypeError) as caught:
            call(wrong)
        assert caught.value.found == type(wrong).__name__
        assert "MemoryRecords" in caught.value.expected


def test_the_callers_bytes_stay_as_they_are(new_log):
    """[APP-8] Kafka stamps the caller's buffer; here it is a copy."""
    log = new_log()
    given = bytearray(singleton())
    before = bytes(given)
    log.append_as_leader(given)
    log.append_as_leader(given, leader_epoch=7)
    assert given == before
    stored = [(b.base_offset, b.partition_leader_epoch) for b in log.scan().batches()]
    assert stored == [(0, 0), (1, 7)]


def test_the_leader_epoch_is_that_of_the_log_or_newer(new_log):
    """[APP-10, DUR-64, DUR-12] its start is on disk before the append returns."""
    log = new_log()
    log.append_as_leader(singleton(), leader_epoch=3)
    log.append([(None, b"goes with the latest")])
    log.append_as_leader(singleton(), leader_epoch=5)
    assert epochs(log) == [(3, 0), (5, 2)]
    checkpoint = f"{log.path}/leader-epoch-checkpoint"
    with open(checkpoint) as file:  # noqa: PTH123
        assert file.read() == "0\n2\n3 0\n5 2\n"
    with pytest.raises(InvalidEpochError) as caught:
        log.append_as_leader(singleton(), leader_epoch=4)
    assert (caught.value.found, caught.value.expected) == ("4", "5 or newer")
    with pytest.raises(IllegalArgumentError, match="negative"):
        log.append_as_leader(singleton(), leader_epoch=-1)
    assert log.log_end_offset == 3
    assert epochs(log) == [(3, 0), (5, 2)]


def test_sizes(new_log):
    """[APP-4.6, APP-11] max.message.bytes bounds a batch, segment.bytes an append."""
    one = singleton(b"x" * 200)
    log = new_log(max_message_bytes=len(one) - 1)
    with pytest.raises(RecordTooLargeError) as caught:
        log.append_as_leader(one)
    assert f"{len(one)} bytes are more than max.message.bytes" in str(caught.value)
    assert caught.value.found == f"{len(one)} bytes"
    assert caught.value.expected == f"at most {len(one) - 1} bytes"
    with pytest.raises(RecordTooLargeError):
        log.append([(None, b"x" * 200)])
    log.append_as_follower(at(0, value=b"x" * 200), 0)  # [APP-2] not checked
    log.close()
    log = new_log(internal_segment_bytes=len(one) - 1)
    with pytest.raises(RecordBatchTooLargeError) as caught:
        log.append_as_leader(one)
    assert caught.value.found == f"{len(one)} bytes"
    assert caught.value.expected == f"at most {len(one) - 1} bytes"
    with pytest.raises(RecordBatchTooLargeError):
        log.append_as_follower(at(1, value=b"x" * 200), 0)
    assert log.log_end_offset == 1


def test_an_append_larger_than_a_segment_goes_in_steps(new_log):
    """A list of any length is appended, batch by batch in order."""
    log = new_log(internal_segment_bytes=1000, max_message_bytes=300)
    info = log.append([(None, b"%d" % n * 10) for n in range(500)])
    assert (info.base_offset, info.last_offset, info.records_count) == (0, 499, 500)
    assert len(bases(log)) > 10
    assert all(segment.size_bytes <= 1000 for segment in log.segments())
    assert offsets(log) == list(range(500))
    assert log.verify().ok


def test_a_producers_request(new_log):
    """[APP-4.2, APP-31] base offset 0, and one batch; MemoryRecords holds many."""
    log = new_log()
    with pytest.raises(InvalidRecordError, match="offset 0"):
        log.append_as_leader(singleton(base_offset=1))
    two = singleton(b"1") + singleton(b"2")
    with pytest.raises(InvalidRecordError, match="2 batches in one request") as caught:
        log.append_as_leader(two)
    assert (caught.value.found, caught.value.expected) == ("2 batches", "one batch")
    assert log.append_as_leader(MemoryRecords(two)).last_offset == 1
    cut = singleton(b"3") + singleton(b"4")[:-1]
    assert log.append_as_leader(cut).last_offset == 2  # [APP-6] the torn tail is left out
    assert values(log) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_timestamps(new_log, clock, kind):
    """[APP-33, APP-34]"""
    log = new_log(message_timestamp_type=kind, message_timestamp_before_max_ms=DAY)
    now = clock.now
    if kind == "LogAppendTime":
        info = log.append([(now - 9 * DAY, None, b"old"), (now + 9 * DAY, None, b"new")])
        assert (info.max_timestamp, info.log_append_time) == (now, now)
        assert {(r.timestamp, r.timestamp_type) for r in log} == {(now, 1)}
        return
    log.append([(now - DAY, None, b""), (now + 3600_000, None, b""), (-1, None, b"")])
    for wrong in (now - DAY - 1, now + 3600_001):
        with pytest.raises(InvalidTimestampError, match=str(wrong)):
            log.append([(now, None, b""), (wrong, None, b"")])
        with pytest.raises(InvalidTimestampError):
            log.append_as_leader(batch([(wrong, None, b"")]))
    assert [(r.timestamp, r.timestamp_type) for r in log] == [
        (now - DAY, 0),
        (now + 3600_000, 0),
        (-1, 0),
    ]


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_log_wants_keys(new_log, policy):
    """[APP-33]"""
    log = new_log(cleanup_policy=policy)
    with pytest.raises(InvalidRecordError, match="key"):
        log.append([(b"k", b"v"), (None, b"v")])
    with pytest.raises(InvalidRecordError, match="key"):
        log.append_as_leader(singleton())
    assert log.append([(b"", b"v")]).base_offset == 0


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_topics_codec_is_that_of_every_batch(new_log, name):
    """[APP-30] compression.type other than producer."""
    log = new_log(compression_type=name)
    log.append([(None, b"a" * 100)] * 3)
    log.append_as_leader(batch([(TIME, b"k", b"b" * 100)] * 3, codec=2))
    log.append_as_leader(batch([(TIME, b"k", b"c" * 100)] * 3))
    codecs = {b.codec for b in log.scan().batches()}
    assert codecs == {
        segstore.Codec.NONE if name == "uncompressed" else segstore.Codec[name.upper()]
    }
    assert values(log) == [b"a" * 100] * 3 + [b"b" * 100] * 3 + [b"c" * 100] * 3


def test_the_producers_codec_stays(new_log):
    """[APP-30] compression.type producer."""
    log = new_log()
    for codec in range(5):
        log.append_as_leader(batch([(None, b"a" * 100)] * 3, codec=codec))
    assert [int(b.codec) for b in log.scan().batches()] == [0, 1, 2, 3, 4]


def test_a_follower_keeps_offsets_and_accepts_gaps(new_log):
    """[APP-2, APP-9, APP-10]"""
    log = new_log()
    info = log.append_as_follower(at(5, 2, epoch=1) + at(10, epoch=1) + at(11, epoch=3), 3)
    assert (info.base_offset, info.last_offset, info.records_count) == (5, 11, 4)
    assert offsets(log) == [5, 6, 10, 11]
    assert epochs(log) == [(1, 5), (3, 11)]
    with pytest.raises(UnexpectedAppendOffsetError) as caught:
        log.append_as_follower(at(11, epoch=3), 3)
    assert (caught.value.found, caught.value.expected) == ("11", "12 or more")
    with pytest.raises(InvalidRecordError, match="ascend"):  # [APP-4.5]
        log.append_as_follower(at(20, epoch=3) + at(20, epoch=3), 3)
    with pytest.raises(InvalidEpochError):  # [DUR-64]
        log.append_as_follower(at(20, epoch=2), 3)
    with pytest.raises(IllegalArgumentError, match="epoch"):
        log.append_as_follower(at(20, epoch=-1), 3)
    assert log.log_end_offset == 12
    assert epochs(log) == [(1, 5), (3, 11)]


def test_a_follower_leaves_out_what_is_newer_than_its_epoch(new_log):
    """[APP-4.3] table T-22, without its older epochs, which are refused here [DUR-64]."""
    log = new_log()
    info = log.append_as_follower(at(0, epoch=4) + at(1, epoch=8) + at(2, epoch=4), 4)
    assert (info.base_offset, info.last_offset, log.log_end_offset) == (0, 0, 1)
    assert log.append_as_follower(at(1, epoch=8), 4).base_offset == -1
    assert epochs(log) == [(4, 0)]


def test_a_rejected_append_leaves_everything_as_it_was(new_log):
    """[APP-10, APP-12] Kafka may have rolled, and noted an epoch; here nothing changes."""
    log = new_log(internal_segment_bytes=200)
    log.append_as_leader(singleton(b"x" * 80), leader_epoch=1)
    good = bytearray(singleton(b"x" * 80))
    good[-1] ^= 1  # its CRC is wrong now
    with pytest.raises(segstore.CorruptRecordError) as caught:
        log.append_as_leader(good, leader_epoch=2)
    assert caught.value.position == 0
    assert (log.log_end_offset, bases(log), epochs(log)) == (1, [0], [(1, 0)])


def test_a_reader_appends_nothing(new_log):
    """[DUR-71]"""
    new_log().close()
    reader = new_log(read_only=True)
    for call in (
        lambda: reader.append([(None, b"")]),
        lambda: reader.append_as_leader(singleton()),
        lambda: reader.append_as_follower(at(0), 0),
    ):
        with pytest.raises(LogReadOnlyError, match="read_only") as caught:
            call()
        assert caught.value.file == reader.path
