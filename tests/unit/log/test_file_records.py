"""Fetches that stay in the file, sent as they are [RD-1, RD-6, SEG-19..SEG-21, DUR-77, DUR-79]."""

from __future__ import annotations

import io
import socket
import threading

import pytest

import segstore
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    CorruptRecordError,
    IllegalArgumentError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    SendError,
)
from tests.kits.log_kit import TIME, bases, offsets

LOG = "00000000000000000000.log"


@pytest.fixture
def log(new_log):
    """Batches of three records and about 1,000 bytes, nine a segment."""
    made = new_log(internal_segment_bytes=9000)
    for first in range(0, 60, 3):
        made.append([(TIME + n, None, b"%d" % n + bytes(300)) for n in range(first, first + 3)])
    assert bases(made) == [0, 27, 54]
    return made


class Peer:
    """The other end of a connection; reads everything, in a thread."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self._data = bytearray()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while data := self.far.recv(65536):
            self._data += data

    def received(self) -> bytes:
        """Close the near end; return all that came."""
        self.near.close()
        self._thread.join(10)
        self.far.close()
        return bytes(self._data)


@pytest.mark.parametrize("isolation", ["log_end", "high_watermark", "durable", "read_committed"])
@pytest.mark.parametrize("min_one_message", [False, True])
@pytest.mark.parametrize("max_bytes", [0, 1, 500, 1500, 4000, 2**40])
def test_a_slice_is_what_a_read_would_return(log, isolation, min_one_message, max_bytes):
    """[RD-1, RD-6, SEG-19] the same bytes, the same facts, for every offset."""
    log.flush()
    for offset in range(0, 61, 4):
        fetched = log.read(offset, max_bytes, isolation, min_one_message=min_one_message)
        found = log.slice(offset, max_bytes, isolation, min_one_message=min_one_message)
        sent = io.BytesIO()

        assert found.size_bytes == fetched.size_bytes
        assert found.fetch_offset_metadata == fetched.fetch_offset_metadata
        assert found.first_entry_incomplete == fetched.first_entry_incomplete
        assert found.write_to(sent) == fetched.size_bytes
        assert sent.getvalue() == fetched.records == found.read().records
        if not fetched.first_entry_incomplete:
            assert offsets(found) == offsets(fetched)
            assert [b.base_offset for b in found.batches()] == [
                b.base_offset for b in fetched.batches()
            ]


def test_to_a_socket(log):
    """One after the other, in order, until the slice is at its end."""
    peer = Peer()
    found = log.slice(3, 5000)
    assert found.write_to(peer.near) == 5000
    assert found.write_to(peer.near, 4990, 100) == 10  # FileRecordsTest.testBytesLengthOfWriteTo
    assert found.write_to(peer.near, 5000) == found.write_to(peer.near, 7, 0) == 0
    expected = bytes(log.read(3, 5000).records)
    assert peer.received() == expected + expected[4990:]


def test_a_fetch_in_memory_goes_the_same_way(log):
    """Kafka's MemoryRecords.writeTo."""
    for records in (log.read(3, 5000), segstore.MemoryRecords(log.read(3, 5000).records)):
        peer = Peer()
        assert records.write_to(peer.near) == records.size_bytes
        assert records.write_to(peer.near, 10, 20) == 20
        expected = bytes(log.read(3, 5000).records)[: records.size_bytes]
        assert peer.received() == expected + expected[10:30]


@pytest.mark.parametrize("end", ["log_end", "durable"])
def test_nothing_behind_the_bound_is_sent(log, end):
    """[RD-2, RD-3]"""
    start = log.log_end_offset if end == "log_end" else log.durable_offset
    found = log.slice(start, 1000, end)
    assert (found.size_bytes, found.write_to(io.BytesIO()), offsets(found)) == (0, 0, [])
    assert found.fetch_offset_metadata.message_offset == start
    for offset in (-1, 61):
        with pytest.raises(OffsetOutOfRangeError):
            log.slice(offset, 1000)


def test_slices_of_a_slice(log):
    """Kafka FileRecords.slice: clipped to what there is, never beyond."""
    found = log.slice(0, 3000)
    whole = bytes(found.read().records)
    part = found.slice(1000, 700).slice(100, 2**31)
    sent = io.BytesIO()
    assert part.size_bytes == part.write_to(sent) == 600
    assert sent.getvalue() == whole[1100:1700]
    assert found.slice(3000, 10).size_bytes == 0
    assert offsets(found.slice(0, 1500)) == [0, 1, 2]
    for position, size in [(-1, 1), (0, -1), (3001, 1)]:
        with pytest.raises(IllegalArgumentError):
            found.slice(position, size)


@pytest.mark.parametrize("position", [-1, 3001, "0", None])
def test_positions_that_are_none(log, position):
    with pytest.raises(IllegalArgumentError):
        log.slice(0, 3000).write_to(io.BytesIO(), position)
    with pytest.raises(IllegalArgumentError):
        log.slice(0, 3000).write_to(io.BytesIO(), 0, -1)


def test_a_truncation_is_noticed_where_it_matters(log):
    """[DUR-77, CON-6] by place: what was cut behind the slice is none of its business."""
    kept, cut, inside = log.slice(0, 1 << 20), log.slice(54, 1 << 20), log.slice(27, 2000)
    before = bytes(kept.read().records)
    log.truncate_to(31)
    log.append([(None, b"other")] * 40)
    sent = io.BytesIO()
    kept.write_to(sent)
    assert sent.getvalue() == before
    for records in (cut, inside):
        for act in (lambda r=records: r.write_to(io.BytesIO()), records.read):
            with pytest.raises(LogTruncatedError):
                act()
    log.truncate_fully_and_start_at(100)
    with pytest.raises(LogTruncatedError):
        kept.write_to(io.BytesIO())


def test_a_truncation_in_the_middle_of_a_send_is_noticed(log):
    """[DUR-77] the check comes behind the bytes too."""

    class Truncates(io.BytesIO):
        def write(self, data):
            log.truncate_to(3)
            return super().write(data)

    with pytest.raises(LogTruncatedError):
        log.slice(0, 5000).write_to(Truncates())
    assert log.slice(0, 500).write_to(io.BytesIO()) == log.slice(0, 500).size_bytes


def test_another_process_that_cuts_is_noticed(log, tmp_path):
    """[DUR-77] the file is shorter than the reader knows; half of it may be out already."""
    log.flush()
    with segstore.open(tmp_path / "topic-0", read_only=True) as reader:
        found = reader.slice(54, 1 << 20)
        log.truncate_to(57)
        with pytest.raises(LogTruncatedError) as caught, (tmp_path / "out").open("wb") as out:
            found.write_to(out)
    assert caught.value.position == log.segments()[2].size_bytes
    assert (tmp_path / "out").stat().st_size == log.segments()[2].size_bytes


def test_deleted_segments_stay_readable_until_the_log_is_closed(log):
    """[CON-7] retention does not take the file from under a sender."""
    found = log.slice(0, 4000)
    expected = bytes(found.read().records)
    log.delete_records(30)
    assert log.log_start_offset == 30
    sent = io.BytesIO()
    assert found.write_to(sent) == len(expected)
    assert sent.getvalue() == expected
    other = log.slice(48, 100)
    log.close()
    with pytest.raises(ClosedError):
        other.write_to(io.BytesIO())


def test_checksums_are_checked_when_asked_for(log, tmp_path):
    """[DUR-79] before a byte goes out; the part of a batch at the end cannot be."""
    size = log.read(0, 1).size_bytes
    with (tmp_path / "topic-0" / LOG).open("r+b") as file:
        file.seek(2 * size - 1)
        file.write(b"x")
    assert log.slice(0, 3000).write_to(io.BytesIO()) == 3000
    assert log.slice(0, 2 * size - 1, check_crcs=True).size_bytes == 2 * size - 1
    assert log.slice(6, 3000, check_crcs=True).size_bytes == 3000
    with pytest.raises(CorruptRecordError) as caught:
        log.slice(0, 3000, check_crcs=True)
    assert (caught.value.file, caught.value.position) == (str(tmp_path / "topic-0" / LOG), size)


def test_an_error_in_a_slice_names_its_place(log, tmp_path):
    """Of the file, not of the bytes that were read."""
    size = log.read(0, 1).size_bytes
    path = tmp_path / "topic-0" / LOG
    with path.open("r+b") as file:
        file.seek(3 * size - 1)
        file.write(b"x")
    part = log.slice(0, 5000).slice(size, 3 * size)
    with pytest.raises(CorruptRecordError) as caught:
        list(part)
    assert (caught.value.file, caught.value.position) == (str(path), 2 * size)


def test_headers_on_the_way_are_checked_always(log, tmp_path):
    """[DUR-79] bounds and order, as in a fetch."""
    size = log.read(0, 1).size_bytes
    with (tmp_path / "topic-0" / LOG).open("r+b") as file:
        file.seek(size + 8)
        file.write(b"\0\0\0\5")  # no batch is as short as that
    with pytest.raises(CorruptRecordError):
        log.slice(4, 3000)


def test_argument_types(log):
    for call in (
        lambda: log.slice("0", 1),
        lambda: log.slice(0, None),
        lambda: log.slice(0, 1, min_one_message=1),
        lambda: log.slice(0, 1, check_crcs="no"),
        lambda: log.slice(0, 1000).write_to("a path"),
        lambda: log.slice(0, 1000).write_to(io.StringIO()),
    ):
        with pytest.raises(ArgumentTypeError):
            call()
    with pytest.raises(IllegalArgumentError):
        log.slice(0, -1)


def test_a_peer_that_is_gone(log, tmp_path):
    """A clean error that names the file, the place and the reason; the log goes on."""
    near, far = socket.socketpair()
    far.close()
    for records in (log.slice(3, 5000), log.read(3, 5000)):
        with near.dup() as end, pytest.raises(SendError) as caught:
            records.write_to(end)
        assert isinstance(caught.value, ConnectionError)
        assert caught.value.os_error == 32
    near.close()
    with pytest.raises(IllegalArgumentError, match="closed"):
        log.slice(3, 5000).write_to(near)
    with (tmp_path / "topic-0" / LOG).open("rb") as file, pytest.raises(SendError):
        log.slice(3, 5000).write_to(file.fileno())
    assert log.append([(None, b"goes on")]).base_offset == 60
