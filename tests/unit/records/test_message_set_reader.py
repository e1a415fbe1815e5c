"""Reading by offset and max chunk: the doubling retry and the limit of Kafka's design pages."""

from __future__ import annotations

import pytest

from segstore import MessageSetReader
from segstore.errors import (
    ArgumentTypeError,
    CorruptRecordError,
    IllegalArgumentError,
    LimitExceededError,
    OffsetOutOfRangeError,
)
from segstore.records.fetch_data_info import FetchDataInfo
from segstore.types import LogOffsetMetadata
from tests.kits.log_kit import at, new_log, offsets

__all__ = ["new_log"]

LARGE = 10_000


class Peer:
    """Answers fetches from batches of its own, and notes what it was asked."""

    def __init__(self, *batches: bytes) -> None:
        self.data = b"".join(batches)
        self.sizes: list[int] = []

    def __call__(self, offset: int, max_bytes: int) -> FetchDataInfo:
        self.sizes.append(max_bytes)
        whole = FetchDataInfo(self.data, LogOffsetMetadata(0)).headers
        first = int((whole["last_offset"] < offset).sum())
        start = int(whole["position"][first]) if first < len(whole) else len(self.data)
        data = self.data[start : start + max_bytes]
        return FetchDataInfo(data, LogOffsetMetadata(offset), start_offset=offset)


def test_a_chunk_that_holds_a_batch_is_read_once():
    peer = Peer(at(0, 3), at(3, 3))
    chunk = MessageSetReader(peer, max_chunk_bytes=len(at(0, 3)) + 10).read(1)
    assert (peer.sizes, offsets(chunk)) == ([len(at(0, 3)) + 10], [1, 2])


def test_the_buffer_doubles_until_the_batch_is_in_it():
    """ "The read can be retried multiple times, each time doubling the buffer size"."""
    large = at(3, value=b"x" * LARGE)
    peer = Peer(at(0, 3), large, at(4))
    reader = MessageSetReader(peer, max_chunk_bytes=1000)
    assert offsets(reader.read(3)) == [3, 4]
    assert peer.sizes == [1000, 2000, 4000, 8000, 16000]
    assert offsets(reader.read(0)) == [0, 1, 2]  # and begins small again
    assert peer.sizes[5:] == [1000]


def test_chunks_one_after_the_other():
    peer = Peer(*(at(3 * n, 3, value=b"x" * (LARGE if n == 4 else 10)) for n in range(10)))
    reader = MessageSetReader(peer, max_chunk_bytes=300)
    assert [offset for chunk in reader.chunks(4) for offset in offsets(chunk)] == list(range(4, 30))
    assert all(len(chunk.headers) > 0 for chunk in reader.chunks(0))
    assert list(reader.chunks(30)) == []


@pytest.mark.parametrize("chunk", [1, 7, 12, 1000, 1024])
def test_the_limit_names_size_and_limit(chunk):
    """ "A bound to the client on the maximum it needs to ever read to get a complete message"."""
    large = at(0, value=b"x" * LARGE)
    peer = Peer(large)
    with pytest.raises(LimitExceededError) as caught:
        MessageSetReader(peer, max_chunk_bytes=chunk, max_buffer_bytes=1024).read(0)
    assert caught.value.found == f"{len(large)} bytes or more"
    assert caught.value.expected == "at most 1024"
    assert "1024" in str(caught.value)
    assert max(peer.sizes) <= 1024
    exact = MessageSetReader(peer, max_chunk_bytes=chunk, max_buffer_bytes=len(large))
    assert offsets(exact.read(0)) == [0]


def test_a_limit_too_small_for_a_length():
    """The size cannot be known: it is more than what was read."""
    with pytest.raises(LimitExceededError) as caught:
        MessageSetReader(Peer(at(0)), max_chunk_bytes=3, max_buffer_bytes=11).read(0)
    assert caught.value.found == "12 bytes or more"


def test_a_peer_that_lies_is_told():
    """No answer keeps a reader for ever, or is taken for the end."""
    damaged = bytearray(at(0, 3))
    damaged[8:12] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptRecordError):
        MessageSetReader(Peer(at(0)), max_chunk_bytes=64).read(0) and MessageSetReader(
            lambda *_: FetchDataInfo(bytes(damaged), LogOffsetMetadata(0))
        ).read(0)
    again = MessageSetReader(lambda *_: FetchDataInfo(at(0, 3), LogOffsetMetadata(0)))
    with pytest.raises(CorruptRecordError, match="ends with offset 2"):
        list(again.chunks(0))
    stub = MessageSetReader(lambda *_: FetchDataInfo(at(0)[:5], LogOffsetMetadata(0)))
    with pytest.raises(LimitExceededError):
        stub.read(0)


def test_a_log(new_log):
    """[RD-1] every record once, over segments, whatever the size of a chunk."""
    log = new_log(internal_segment_bytes=2000)
    for n in range(40):
        log.append([(None, b"x" * (10 if n % 7 else 700))] * 2)
    assert len(log.segments()) > 2
    for size in (1, 100, 1000, 2**20):
        reader = log.message_set_reader(max_chunk_bytes=size)
        found = [offset for chunk in reader.chunks(3) for offset in offsets(chunk)]
        assert found == list(range(3, 80))
    assert list(log.message_set_reader().chunks(80)) == []
    assert list(log.message_set_reader(isolation="durable").chunks(log.durable_offset)) == []
    with pytest.raises(OffsetOutOfRangeError):
        log.message_set_reader().read(81)
    with pytest.raises(LimitExceededError):
        log.message_set_reader(max_chunk_bytes=10, max_buffer_bytes=100).read(0)


def test_sizes_that_are_none():
    for chunk, buffer in [(0, 10), (11, 10), (1, 0), (1, 2**31)]:
        with pytest.raises(IllegalArgumentError):
            MessageSetReader(Peer(), max_chunk_bytes=chunk, max_buffer_bytes=buffer)
    with pytest.raises(ArgumentTypeError):
        MessageSetReader(Peer(), max_chunk_bytes="1")
