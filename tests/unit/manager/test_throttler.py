"""The limit of bytes a second [CLN-9]; Kafka: ThrottlerTest."""

from __future__ import annotations

import itertools
import math

import pytest

from segstore.errors import LogCleaningAbortedError
from segstore.manager.throttler import Throttler

NS_PER_MS = 1_000_000


class Time:
    """A clock that sleeps move."""

    def __init__(self) -> None:
        self.ns = 0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ns += round(seconds * 1e9)


@pytest.fixture
def time() -> Time:
    return Time()


def test_the_smallest_rate_is_a_rate(time: Time):
    """[CLN-9] A setting that no pass can keep is no error of a log."""

    def stop() -> None:
        raise LogCleaningAbortedError("stopped")

    for rate in (5e-324, 1e-300, 1e-9):
        throttler = Throttler(rate, lambda: time.ns, time.sleep)
        time.ns += 301 * NS_PER_MS
        with pytest.raises(LogCleaningAbortedError):
            throttler.maybe_throttle(2**62, stop)


def test_too_many_bytes_in_a_window_wait(time: Time):
    """[CLN-9] Kafka: testThrottleDesiredRate."""
    throttler = Throttler(1000, lambda: time.ns, time.sleep)
    throttler.maybe_throttle(500)
    assert time.slept == []
    time.ns += 301 * NS_PER_MS
    throttler.maybe_throttle(500)

    assert sum(time.slept) == pytest.approx((1000 - 301) / 1000)
    slices = len(time.slept)
    throttler.maybe_throttle(500)  # a new window
    assert len(time.slept) == slices


def test_a_slow_reader_does_not_wait(time: Time):
    """[CLN-9]"""
    throttler = Throttler(1000, lambda: time.ns, time.sleep)
    for _ in range(10):
        time.ns += 400 * NS_PER_MS
        throttler.maybe_throttle(399)

    assert time.slept == []


def test_without_a_limit_nobody_waits(time: Time):
    """[CLN-9]"""
    throttler = Throttler(math.inf, lambda: time.ns, time.sleep)
    for _ in range(3):
        time.ns += 301 * NS_PER_MS
        throttler.maybe_throttle(10**12)

    assert time.slept == []


def test_a_stop_ends_the_sleep():
    """[CLN-11] Nobody waits for an hour when the directory is closed."""
    moments = itertools.chain([0], itertools.repeat(400 * NS_PER_MS))
    throttler = Throttler(1, lambda: next(moments))
    throttler.stop()
    throttler.maybe_throttle(10**9)


def test_an_abort_ends_the_sleep(time: Time):
    """[CLN-9, CLN-16] Who deletes a topic does not wait for an hour: the sleep is in pieces."""
    throttler = Throttler(1, lambda: time.ns, time.sleep)
    time.ns += 301 * NS_PER_MS

    def check_done() -> None:
        if sum(time.slept) > 1:
            raise LogCleaningAbortedError("aborted")

    with pytest.raises(LogCleaningAbortedError):
        throttler.maybe_throttle(10**6, check_done)
    assert 1 < sum(time.slept) < 1.1


def test_another_limit_ends_the_sleep(time: Time):
    """[CLN-8] Who raises a limit of a byte a second waits for nothing that it has asked for."""
    throttler = Throttler(1, lambda: time.ns, time.sleep)
    time.ns += 301 * NS_PER_MS

    def raise_the_limit() -> None:
        throttler.update_desired_rate(10**6)

    throttler.maybe_throttle(10**6, raise_the_limit)
    assert sum(time.slept) < 0.1
    time.slept.clear()
    time.ns += 301 * NS_PER_MS
    throttler.maybe_throttle(10**6)
    assert sum(time.slept) == pytest.approx(1 - 0.301)
