"""What errors say to somebody who mistyped a name, set a limit or lacks a library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import segstore
from segstore.records import lz4_codec
from tests.log_kit import TIME


def test_columns(new_log):
    log = new_log()
    with pytest.raises(segstore.IllegalArgumentError, match="no column 'keys': there are key,"):
        log.select("keys")
    with pytest.raises(segstore.IllegalArgumentError, match="column 'key' is named twice"):
        log.select("key", "key")
    with pytest.raises(segstore.IllegalArgumentError, match=r"the text 'key': .* as \['key'\]"):
        log.scan(columns="key")
    assert log.scan(columns=iter(["key", "value"])).columns == ("key", "value")


@pytest.mark.parametrize(
    ("setting", "timestamp", "key"),
    [
        ({"message_timestamp_after_max_ms": 5}, TIME * 3, "message.timestamp.after.max.ms = 5 ms"),
        ({"message_timestamp_before_max_ms": 7}, TIME, "message.timestamp.before.max.ms = 7 ms"),
    ],
)
def test_timestamps_out_of_range_name_the_limit(new_log, setting, timestamp, key):
    """[format.md 12.4]"""
    log = new_log(**setting)
    with pytest.raises(segstore.InvalidTimestampError, match=key) as caught:
        log.append([(timestamp, b"k", b"v")])
    assert caught.value.found == str(timestamp)
    assert caught.value.expected.startswith("at most")


def test_a_missing_codec_is_noticed_at_the_open(tmp_path, monkeypatch):
    """Nothing is created; a reader, and a log of another codec, need no library."""
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    lz4_codec._library.cache_clear()
    path = tmp_path / "a-0"
    with pytest.raises(segstore.CodecMissingError, match="pip install lz4") as caught:
        segstore.open(path, compression_type="lz4")
    assert caught.value.expected is not None
    assert not path.exists()
    segstore.open(path, compression_type="gzip").close()
    segstore.open(path, read_only=True, compression_type="lz4").close()


def test_numbers_of_numpy_are_timestamps():
    numpy = pytest.importorskip("numpy")
    assert segstore.Record(timestamp=numpy.int64(TIME)).timestamp == TIME


def test_an_offset_that_is_not_there_names_the_log(new_log, tmp_path):
    log = new_log()
    calls = (log.delete_records, log.tail, log.scan, lambda offset: log.read(offset, 1))
    for call in calls:
        with pytest.raises(segstore.OffsetOutOfRangeError) as caught:
            call(5)
        assert caught.value.file == str(tmp_path / "topic-0")
        assert (caught.value.found, caught.value.expected) == ("5", "0 to 0")


def test_damage_names_file_and_bytes_whoever_reads(new_log):
    """[DUR-79] A fetch, an iteration, Arrow: which file and byte, what is there, what should be."""
    log = new_log()
    log.append([(TIME, b"k", b"first")])
    log.append([(TIME, b"k", b"second")])
    segment = log.segments()[0]
    position = next(iter(log.scan(1).batches())).position
    log.close()
    content = bytearray(Path(segment.path).read_bytes())
    content[-2] ^= 1
    Path(segment.path).write_bytes(content)

    with segstore.open(log.path, read_only=True) as reader:
        for read in (
            lambda: list(reader),
            reader.to_arrow,
            lambda: list(reader.read(1, 10_000)),
            lambda: reader.read(1, 10_000).to_arrow(),
            lambda: reader.scan().tuples(),
        ):
            with pytest.raises(segstore.CorruptRecordError) as caught:
                read()
            assert caught.value.file == segment.path
            assert caught.value.position == position
            assert "stored" in caught.value.found
            assert "CRC" in caught.value.expected


def test_a_batch_too_large_names_the_limit(new_log, tmp_path):
    """[APP-10] Records that are encoded here, and a producer's batch."""
    other = new_log(tmp_path / "b-0")
    other.append([(TIME, b"k", b"v" * 500)])
    batch = bytes(other.read(0, 10_000).records)
    log = new_log(max_message_bytes=100)
    for append in (
        lambda: log.append([(TIME, b"k", b"v" * 500)]),
        lambda: log.append_as_leader(batch),
    ):
        with pytest.raises(segstore.RecordTooLargeError, match=r"max\.message\.bytes") as caught:
            append()
        assert caught.value.expected == "at most 100 bytes"
        assert caught.value.found == f"{len(batch)} bytes"
