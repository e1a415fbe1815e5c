"""Every kind of destination, and what it takes: all, some for now, nothing any more."""

from __future__ import annotations

import errno
import gzip
import io
import os
import select
import socket
import ssl
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest

from segstore._core import scan_batches
from segstore.errors import (
    ArgumentTypeError,
    IllegalArgumentError,
    SendError,
    TransferTimeoutError,
)
from segstore.records.transferable_channel import TransferableChannel, TransferableRecords
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from segstore._core import LogSegment

DATA = batch([(None, bytes(range(256)) * 4000)], base_offset=0)


class Records(TransferableRecords):
    """In a segment's file, or in memory."""

    size_bytes = len(DATA)

    def __init__(self, source: LogSegment | None) -> None:
        self._source = source

    def transfer_to(self, channel: TransferableChannel, position: int, count: int) -> int:
        if self._source is not None:
            return channel.transfer_from(self._source, position, count)
        return channel.write(memoryview(DATA)[position : position + count])


@pytest.fixture(params=["file", "memory"])
def records(request, segment):
    segment.append(DATA, scan_batches(DATA)[0])
    return Records(segment if request.param == "file" else None)


def test_files_of_every_kind(records, tmp_path):
    """What is buffered goes first; what compresses is not gone past."""
    path = tmp_path / "out"
    with path.open("wb") as file:  # buffered
        file.write(b"head")
        assert records.write_to(file) == len(DATA)
        file.write(b"tail")
    assert path.read_bytes() == b"head" + DATA + b"tail"
    with path.open("ab", buffering=0) as file:
        assert records.write_to(file) == len(DATA)
    assert path.read_bytes() == b"head" + DATA + b"tail" + DATA
    with path.open("w+b") as file:
        file.write(b"01234567")
        file.seek(2)
        assert file.read(2) == b"23"
        assert records.write_to(file, 5, 3) == 3
        file.seek(0)
        assert file.read() == b"0123" + DATA[5:8] + b"7"
    with gzip.open(path, "wb") as packed:
        assert records.write_to(packed) == len(DATA)
    assert gzip.decompress(path.read_bytes()) == DATA
    with tempfile.SpooledTemporaryFile() as spooled:
        assert records.write_to(spooled) == len(DATA)
        spooled.seek(0)
        assert spooled.read() == DATA
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    assert records.write_to(descriptor, 1) == len(DATA) - 1
    os.close(descriptor)
    assert path.read_bytes() == DATA[1:]


def test_a_writer_that_says_nothing_has_taken_all(records):
    """As asyncio's; a raw file that says nothing has no room."""
    taken = []

    class Silent:
        def write(self, data):
            taken.append(bytes(data))

    class Full(io.RawIOBase):
        def write(self, _data):
            return None

    class Sips(io.BytesIO):
        def write(self, data):
            return super().write(data[:1000])

    assert records.write_to(Silent()) == len(DATA)
    assert b"".join(taken) == DATA
    assert records.write_to(Full()) == 0
    sips = Sips()
    assert records.write_to(sips) == len(DATA)
    assert sips.getvalue() == DATA


def test_a_pipe_that_does_not_wait(records):
    """It takes what it has room for; the rest goes later."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    arrived = b""
    sent = 0
    while sent < len(DATA):
        taken = records.write_to(writing, sent)
        assert 0 < taken <= 65536
        assert records.write_to(writing, sent + taken) < 4096  # there is no room, but for scraps
        arrived += os.read(reading, 1 << 20)
        sent = len(arrived)
        assert arrived == DATA[:sent]
    os.close(reading)
    with pytest.raises(SendError) as caught:
        records.write_to(writing)
    assert caught.value.os_error == 32
    os.close(writing)


def test_the_timeout_of_a_socket(records):
    """It bounds the wait for room, as everywhere in Python's sockets; 0 does not wait."""
    near, far = socket.socketpair()
    near.settimeout(0)
    assert 0 < records.write_to(near) < len(DATA)
    near.settimeout(0.05)
    with pytest.raises(TransferTimeoutError, match=r"no room for 0\.05 seconds") as caught:
        records.write_to(near)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.os_error == errno.ETIMEDOUT
    poll = select.poll()  # `select` takes no number above 1,023
    poll.register(far, select.POLLIN)
    while poll.poll(0):
        far.recv(1 << 20)
    arrived = bytearray()

    def drain() -> None:
        while data := far.recv(1 << 16):
            arrived.extend(data)

    near.settimeout(30)
    reader = threading.Thread(target=drain)
    reader.start()
    assert records.write_to(near) == len(DATA)
    near.close()
    reader.join()
    far.close()
    assert arrived == DATA


def test_a_tls_socket_encrypts(records, monkeypatch):
    """What goes past its `send` would be in the clear."""
    near, far = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    secure = context.wrap_socket(near, do_handshake_on_connect=False)
    taken = []
    monkeypatch.setattr(
        ssl.SSLSocket, "send", lambda _, data: taken.append(bytes(data)) or len(data)
    )
    assert records.write_to(secure) == len(DATA)
    assert b"".join(taken) == DATA

    def wants_write(_self, _data):
        raise ssl.SSLWantWriteError

    monkeypatch.setattr(ssl.SSLSocket, "send", wants_write)
    assert records.write_to(secure) == 0
    far.setblocking(False)
    with pytest.raises(BlockingIOError):
        far.recv(1)
    secure.close()
    far.close()


def test_errors_of_an_object_are_its_own(records):
    class Breaks(io.BytesIO):
        def write(self, _data):
            raise ConnectionResetError(104, "reset")

    with pytest.raises(ConnectionResetError):
        records.write_to(Breaks())


@pytest.mark.parametrize("destination", [None, "path", 1.5, True, io.StringIO(), object()])
def test_what_is_no_destination(records, destination):
    with pytest.raises(ArgumentTypeError):
        records.write_to(destination)


def test_what_is_closed(records, tmp_path):
    file = (tmp_path / "out").open("wb")
    file.close()
    closed = socket.socket()
    closed.close()
    for destination in (file, closed, -1, 2**40):
        with pytest.raises(IllegalArgumentError, match="closed"):
            records.write_to(destination)


def test_a_channel_stands_for_itself(records):
    sink = io.BytesIO()
    channel = TransferableChannel.of(sink)
    assert TransferableChannel.of(channel) is channel
    assert records.write_to(channel, 3, 4) == 4
    assert records.transfer_to(TransferableChannel.of(1), 3, 0) == 0
    assert sink.getvalue() == DATA[3:7]
