"""Signals and slow readers while a log is sent: every byte once, and in order [DUR-37].

A send that retried EINTR by itself would keep Ctrl-C waiting for as long as its peer does not read.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time

import pytest

SECONDS = 1.0


class InterruptedCallError(BaseException):
    """What the signal handler raises."""


@pytest.fixture
def log(new_log):
    made = new_log()
    for first in range(0, 3000, 30):
        made.append([(None, b"%d" % n * 100) for n in range(first, first + 30)])
    return made


@pytest.fixture
def timer():
    """Arm a timer for a handler, again and again; taken back at the end."""
    before = signal.getsignal(signal.SIGALRM)

    def arm(handler, first: float, interval: float = 0) -> None:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, first, interval)

    yield arm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def sip(descriptor: int, arrived: bytearray, seed: int) -> None:
    """Read little, at odd moments, until the end."""
    chance = random.Random(seed)
    while data := os.read(descriptor, chance.choice([1, 100, 5000, 70_000])):
        arrived += data
        if chance.random() < 0.02:
            time.sleep(0.002)


@pytest.mark.parametrize("in_memory", [False, True], ids=["file", "memory"])
@pytest.mark.parametrize("kind", ["socket", "pipe"])
def test_signals_that_are_handled(log, timer, kind, in_memory):
    """The handler runs while the peer does not read, and the send goes on behind it."""
    records = log.slice(0, 2**31) if not in_memory else log.read(0, 2**31)
    expected = bytes(log.read(0, 2**31).records)
    handled = []
    timer(lambda *_: handled.append(None), 0.001, 0.001)
    deadline = time.monotonic() + SECONDS
    seed = 0
    while time.monotonic() < deadline:
        seed += 1
        reading, writing = os.pipe() if kind == "pipe" else connected()
        arrived = bytearray()
        reader = threading.Thread(target=sip, args=(reading, arrived, seed))
        reader.start()
        assert records.write_to(writing) == len(expected)
        os.close(writing)
        reader.join()
        os.close(reading)
        assert arrived == expected
    assert len(handled) > 50


def connected() -> tuple[int, int]:
    """Descriptors of two connected sockets."""
    near, far = socket.socketpair()
    return near.detach(), far.detach()


def test_a_signal_that_raises_ends_a_send_to_a_peer_that_never_reads(log, timer):
    """Ctrl-C does not wait for the peer."""

    def raise_it(*_: object) -> None:
        raise InterruptedCallError

    near, far = socket.socketpair()
    timer(raise_it, 0.1)
    start = time.monotonic()
    with pytest.raises(InterruptedCallError):
        log.slice(0, 2**31).write_to(near)
    assert time.monotonic() - start < 5
    near.close()
    far.close()
    assert log.append([(None, b"goes on")]).base_offset == 3000


def test_a_log_that_is_closed_while_it_is_sent(log):
    """Whoever is inside keeps the descriptor: nobody else's file is sent in its place."""
    expected = bytes(log.read(0, 2**31).records)
    near, far = socket.socketpair()
    arrived = bytearray()
    done: list[object] = []

    def send() -> None:
        try:
            done.append(log.slice(0, 2**31).write_to(near))
        except ValueError as error:  # ClosedError, between two steps
            done.append(error)
        near.close()

    sender = threading.Thread(target=send)
    sender.start()
    while not far.recv(1, socket.MSG_PEEK):
        time.sleep(0.001)
    log.close()
    other = os.open(os.devnull, os.O_RDONLY)  # would get the number of a descriptor that was closed
    while data := far.recv(1 << 16):
        arrived += data
    sender.join()
    os.close(other)
    far.close()
    assert arrived == expected[: len(arrived)]
    assert len(done) == 1
    assert done[0] == len(expected) or len(arrived) < len(expected)
