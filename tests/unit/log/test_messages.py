"""What errors say to somebody who mistyped a name, set a limit or lacks a library."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

import segstore
from segstore import cli
from segstore.records import lz4_codec
from tests.kits.log_kit import TIME


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
            assert "in the header" in caught.value.found
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


def test_damage_names_its_file_and_its_byte_once(new_log, tmp_path):
    """[DUR-51] As an error of its own, and as the reason of the one that refuses the log."""
    log = new_log(durability="sync")
    for value in (b"1", b"2", b"3"):
        log.append([(None, value)])
    second = list(log.scan().batches())[1].position
    log.close()
    file = tmp_path / "topic-0" / "00000000000000000000.log"
    content = bytearray(file.read_bytes())
    content[second + 65] ^= 1
    file.write_bytes(content)

    with pytest.raises(segstore.CorruptRecordError) as read:
        list(new_log(read_only=True))
    for marker in tmp_path.rglob("*clean*"):
        marker.unlink()
    with pytest.raises(segstore.CorruptLogError) as refused:
        new_log()

    for error in (read.value, refused.value):
        said = str(error)
        assert said.startswith(f"{file}, position {second}: ")
        assert said.count(str(file)) == 1
        assert said.count("position") == 1
        assert " at byte " not in said
        assert (error.position, error.found is None, error.expected is None) == (second, 0, 0)
    assert "records from 1 to 2 had been synced" in str(refused.value)


def test_an_error_within_a_sentence_does_not_name_the_path_again():
    error = segstore.CorruptRecordError("bad", file="/logs/a-0/7.log", position=5)
    assert str(error) == "/logs/a-0/7.log, position 5: bad"
    assert error.text_within("/logs/a-0/7.log") == "position 5: bad"
    assert error.text_within("/logs/a-0") == "7.log, position 5: bad"
    assert error.text_within("/logs/a") == str(error)
    assert segstore.CorruptRecordError("bad").text_within("/logs") == "bad"


def test_a_path_that_is_not_there_is_named_once(tmp_path):
    for path in (tmp_path / "no-0", tmp_path / "file-0"):
        if path.name == "file-0":
            path.write_bytes(b"")
        with pytest.raises(segstore.SegstoreError) as caught:
            segstore.open(path, read_only=True)
        assert str(caught.value).count(str(path)) == 1, str(caught.value)


@pytest.mark.parametrize("recovery", ["foo", "SAFE", None, 3])
def test_ways_to_recover(tmp_path, recovery):
    """All three are named, and the error of `open_dir` says whose the third is."""
    for opened in (segstore.open, segstore.open_dir):
        with pytest.raises(segstore.IllegalArgumentError) as caught:
            opened(tmp_path / "a-0", recovery=recovery)
        assert caught.value.found == repr(recovery)
        assert caught.value.expected == "'safe', 'kafka' or 'salvage'"
        assert "'safe', 'kafka' or 'salvage'" in str(caught.value)
    with pytest.raises(segstore.IllegalArgumentError, match=r"by segstore\.open"):
        segstore.open_dir(tmp_path / "all", recovery="salvage")
    assert not list(tmp_path.iterdir())


def test_the_way_out_of_damage_is_a_command_that_works(tmp_path, capsys):
    """Of an open, a read and ``verify``: as it is typed, blanks in the path and all."""
    path = tmp_path / "my logs" / "a-0"
    path.parent.mkdir()
    with segstore.open(path, internal_segment_bytes=200) as log:
        for number in range(9):
            log.append([(TIME + number, b"k", b"v" * 50)])
        bases = [segment.base_offset for segment in log.segments()]
    command = f"`segstore salvage {shlex.quote(str(path))} TARGET`"
    first = path / f"{bases[1]:020d}.log"
    first.write_bytes(bytes([0, 0, 0, 0, 0, 0, 0, 9]) + first.read_bytes()[8:])

    with segstore.open(path, read_only=True) as log:
        with pytest.raises(segstore.CorruptLogError) as caught:
            list(log)
        assert command in str(caught.value)
    assert cli.main(["verify", str(path)]) == 1
    assert command in capsys.readouterr().out
    (path / ".segstore.clean").unlink(missing_ok=True)
    last = path / f"{bases[-1]:020d}.log"
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(segstore.CorruptLogError) as caught:
        segstore.open(path)
    assert command in str(caught.value)
    assert "recovery='salvage'" in str(caught.value)

    words = shlex.split(command.strip("`").replace("TARGET", str(tmp_path / "new-0")))
    assert cli.main(words[1:]) == 1  # something is lost, and said
    with segstore.open(tmp_path / "new-0") as log:
        assert log.report.clean
        assert len(list(log)) >= 5
