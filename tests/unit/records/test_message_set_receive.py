"""Fetch results as a peer sends them: whole, in pieces, cut, or made up [DUR-92]."""

from __future__ import annotations

import io
import os
import socket
import struct
import threading
import tracemalloc

import pytest

from segstore import (
    ErrorCode,
    MemoryRecords,
    MessageSetReceive,
    MessageSetSend,
    MultiMessageSetReceive,
    MultiMessageSetSend,
)
from segstore.errors import (
    ArgumentTypeError,
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    LimitExceededError,
    OffsetOutOfRangeError,
    ReceiveError,
    TransferTimeoutError,
    UnknownServerError,
)
from tests.kits.log_kit import at, offsets

BATCHES = at(7, 3) + at(10, value=b"x" * 50_000)
SET = bytes(MessageSetSend(MemoryRecords(BATCHES)))


def received(data: bytes, **options: int) -> MessageSetReceive:
    """Take all of it from memory."""
    receive = MessageSetReceive(**options)
    assert receive.read_from(io.BytesIO(data)) == receive.received_bytes
    return receive


def test_what_was_sent():
    """The source may hold the next result: it stays there."""
    source = io.BytesIO(SET + b"next")
    receive = MessageSetReceive()
    assert receive.read_from(source) == len(SET)
    assert receive.complete
    assert receive.read_from(source) == 0
    assert source.read() == b"next"
    found = receive.message_set()
    assert (found.error_code, found.error, found.records.records) == (0, None, BATCHES)
    assert offsets(found.messages()) == [7, 8, 9, 10]
    assert offsets(receive.message_set(start_offset=9).messages()) == [9, 10]
    assert found.records.fetch_offset_metadata.message_offset == 7


def test_a_last_batch_that_is_cut():
    """[SEG-21] "It is likely that the read buffer ends with a partial message"."""
    data = BATCHES[:-1]
    found = received(struct.pack(">ih", len(data) + 2, 0) + data).message_set()
    assert offsets(found.messages()) == [7, 8, 9]


def test_an_error_of_the_peer():
    found = received(bytes(MessageSetSend(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))).message_set()
    assert found.records.size_bytes == 0
    assert isinstance(found.error, OffsetOutOfRangeError)
    with pytest.raises(OffsetOutOfRangeError):
        found.messages()
    assert isinstance(received(struct.pack(">ih", 2, 999)).message_set().error, UnknownServerError)


def test_several_sets():
    sets = [
        MessageSetSend(MemoryRecords(BATCHES)),
        MessageSetSend(error_code=3),
        MessageSetSend(),
    ]
    receive = MultiMessageSetReceive()
    receive.read_from(io.BytesIO(bytes(MultiMessageSetSend(sets))))
    found = receive.message_sets()
    assert [each.error_code for each in found] == [0, 3, 0]
    assert [each.records.size_bytes for each in found] == [len(BATCHES), 0, 0]
    assert offsets(found[0].messages()) == [7, 8, 9, 10]


def multi(content: bytes, error_code: int = 0) -> MultiMessageSetReceive:
    """A result of several sets with any content."""
    receive = MultiMessageSetReceive()
    receive.read_from(io.BytesIO(struct.pack(">ih", len(content) + 2, error_code) + content))
    return receive


@pytest.mark.parametrize(
    ("content", "position", "found"),
    [
        (b"\0\0\0", 6, "3 bytes"),
        (struct.pack(">ih", 2, 0) + b"\0", 12, "1 bytes"),
        (struct.pack(">ih", 3, 0), 6, "3"),
        (struct.pack(">ih", 2**31 - 1, 0), 6, "2147483647"),
        (struct.pack(">ih", 1, 0), 6, "1"),
        (struct.pack(">ih", -1, 0), 6, "-1"),
    ],
)
def test_sets_whose_lengths_lie(content, position, found):
    with pytest.raises(CorruptRecordError) as caught:
        multi(content).message_sets()
    assert (caught.value.position, caught.value.found) == (position, found)


def test_an_error_for_all_sets():
    with pytest.raises(OffsetOutOfRangeError):
        multi(b"", 1).message_sets()
    assert multi(b"").message_sets() == ()


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 6, 100, len(SET) - 1])
def test_a_result_that_ends_in_its_middle(cut):
    receive = MessageSetReceive()
    with pytest.raises(ReceiveError) as caught:
        receive.read_from(io.BytesIO(SET[:cut]))
    assert isinstance(caught.value, ConnectionError)
    assert caught.value.position == receive.received_bytes == cut
    with pytest.raises(IllegalStateError):
        receive.message_set()
    receive.read_from(io.BytesIO(SET[cut:]))  # the rest, from another source
    assert receive.message_set().records.records == BATCHES


@pytest.mark.parametrize("length", [1, 0, -1, -(2**31)])
def test_lengths_that_cannot_be(length):
    with pytest.raises(CorruptRecordError) as caught:
        received(struct.pack(">ih", length, 0))
    assert caught.value.found == str(length)


def test_the_limit_comes_before_the_memory():
    """[DUR-92] nothing is taken for a length that is only announced."""
    with pytest.raises(LimitExceededError) as caught:
        received(struct.pack(">ih", 102, 0) + bytes(100), max_bytes=101)
    assert (caught.value.found, caught.value.expected) == ("102", "at most 101")
    assert received(struct.pack(">ih", 101, 0) + bytes(99), max_bytes=101).complete
    tracemalloc.start()
    receive = MessageSetReceive(2**31 - 1)
    with pytest.raises(ReceiveError):
        receive.read_from(io.BytesIO(struct.pack(">ih", 2**31 - 1, 0)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


def test_a_source_that_does_not_wait():
    near, far = socket.socketpair()
    near.setblocking(False)
    receive = MessageSetReceive()
    assert receive.read_from(near) == 0
    for start in range(0, len(SET), 7000):
        piece = SET[start : start + 7000]
        far.sendall(piece)
        assert receive.read_from(near) == len(piece)
        assert receive.complete == (start + 7000 >= len(SET))
    assert receive.message_set().records.records == BATCHES
    far.close()
    with pytest.raises(ReceiveError):
        MessageSetReceive().read_from(near)
    near.close()
    with pytest.raises(ReceiveError):
        MessageSetReceive().read_from(near)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, SET[:100])
    receive = MessageSetReceive()
    assert receive.read_from(reading) == 100
    with os.fdopen(reading, "rb") as file:
        assert receive.read_from(file) == 0
        os.write(writing, SET[100:1000])
        assert receive.read_from(file) == 900
        assert receive.read_from(file.raw) == 0
        os.write(writing, SET[1000:])
        os.close(writing)
        assert receive.read_from(file.raw) == len(SET) - 1000
    assert receive.complete


def test_sources_that_wait():
    """A socket, a pipe as a file, a descriptor; a timeout is an error of its own."""
    for _ in range(2):
        near, far = socket.socketpair()
        writer = threading.Thread(target=far.sendall, args=(SET,))
        writer.start()
        receive = MessageSetReceive()
        assert receive.read_from(near) == len(SET)
        writer.join()
        near.settimeout(0.01)
        with pytest.raises(TransferTimeoutError, match="timeout"):
            MessageSetReceive().read_from(near)
        near.close()
        far.close()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file:
        writer = threading.Thread(
            target=MessageSetSend(MemoryRecords(BATCHES)).write_to, args=(writing,)
        )
        writer.start()
        receive = MessageSetReceive()
        assert receive.read_from(file) == len(SET)
        writer.join()
    os.close(writing)
    assert receive.message_set().records.records == BATCHES


@pytest.mark.parametrize("source", [None, "text", 1.5, object(), io.StringIO("x")])
def test_what_is_no_source(source):
    with pytest.raises(ArgumentTypeError):
        MessageSetReceive().read_from(source)


def test_limits_that_are_none():
    for limit in (1, -1, 2**31):
        with pytest.raises(IllegalArgumentError):
            MessageSetReceive(limit)
    with pytest.raises(ArgumentTypeError):
        MessageSetReceive("1")
