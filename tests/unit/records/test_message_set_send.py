"""Fetch results in the framing of Kafka's design pages, byte by byte, to every kind of peer."""

from __future__ import annotations

import io
import os
import socket
import struct

import pytest

from segstore import ErrorCode, MemoryRecords, MessageSetSend, MultiMessageSetSend
from segstore.errors import IllegalArgumentError, OffsetOutOfRangeError, SendError
from segstore.records.transferable_channel import TransferableRecords
from tests.kits.log_kit import at

BATCHES = at(7, 3) + at(10, value=b"x" * 50_000)


def sent(send: MessageSetSend | MultiMessageSetSend) -> bytes:
    """What comes out, in one piece."""
    sink = io.BytesIO()
    assert send.write_to(sink) == send.size_bytes == len(sink.getvalue())
    assert send.complete
    assert send.write_to(sink) == 0
    assert bytes(send) == sink.getvalue()
    return sink.getvalue()


def test_a_set():
    """Total length (it counts what follows), error code, messages: "MessageSetSend"."""
    expected = struct.pack(">ih", len(BATCHES) + 2, 0) + BATCHES
    assert sent(MessageSetSend(MemoryRecords(BATCHES))) == expected


@pytest.mark.parametrize(
    ("send", "code"),
    [
        (MessageSetSend(), 0),
        (MessageSetSend(error_code=ErrorCode.CORRUPT_MESSAGE), 2),
        (MessageSetSend.of_error(OffsetOutOfRangeError("gone")), 1),
        (MessageSetSend.of_error(ZeroDivisionError()), -1),
    ],
)
def test_an_error_has_no_messages(send, code):
    assert sent(send) == struct.pack(">ih", 2, code)


def test_several_sets():
    """The same header, then the sets with theirs: "MultiMessageSetSend"."""

    def sets() -> list[MessageSetSend]:
        return [
            MessageSetSend(MemoryRecords(BATCHES)),
            MessageSetSend(error_code=1),
            MessageSetSend(MemoryRecords(at(0))),
        ]

    content = b"".join(sent(each) for each in sets())
    assert sent(MultiMessageSetSend(sets())) == struct.pack(">ih", len(content) + 2, 0) + content
    assert sent(MultiMessageSetSend([])) == struct.pack(">ih", 2, 0)


class Sips(io.RawIOBase):
    """Takes a few bytes, then none for a while."""

    def __init__(self, room: int) -> None:
        self.taken = b""
        self.room = room
        self._left = room

    def write(self, data) -> int | None:
        if self._left == 0:
            self._left = self.room
            return None
        taken = bytes(data[: self._left])
        self.taken += taken
        self._left -= len(taken)
        return len(taken)


@pytest.mark.parametrize("room", [1, 5, 6, 7, 1000])
def test_what_a_destination_takes_for_now_is_remembered(room):
    """Also when the header is cut."""
    records = MemoryRecords(at(0) + at(1, 20))
    send = MultiMessageSetSend([MessageSetSend(records), MessageSetSend(records)])
    sips = Sips(room)
    done = 0
    while not send.complete:
        assert len(sips.taken) == done
        done += send.write_to(sips)
    assert sips.taken == bytes(send)
    assert str(send.size_bytes) in repr(send)


def test_a_peer_that_reads_late_and_one_that_goes():
    near, far = socket.socketpair()
    near.setblocking(False)
    big = MemoryRecords(at(0, value=b"x" * 2_000_000))
    send = MessageSetSend(big)
    assert 0 < send.write_to(near) < send.size_bytes
    arrived = b""
    while not send.complete:
        arrived += far.recv(1 << 20)
        send.write_to(near)
    near.close()
    while piece := far.recv(1 << 20):
        arrived += piece
    assert arrived == bytes(send)
    far.close()
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(SendError):
        MessageSetSend().write_to(writing)
    os.close(writing)


def test_a_length_has_32_bits():
    class Huge(TransferableRecords):
        size_bytes = 2**31 - 1

        def transfer_to(self, *_):
            raise AssertionError

    with pytest.raises(IllegalArgumentError):
        MessageSetSend(Huge())
