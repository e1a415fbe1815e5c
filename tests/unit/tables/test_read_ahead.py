"""Reading ahead in threads: the order, how far ahead, errors, and the end of the threads."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from segstore.tables import read_ahead
from segstore.tables.read_ahead import ahead, in_order, reading_threads, threads_count

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = [0, 1, 2, 5]


def names_of_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if "read-ahead" in one.name]


def piece(number: int, count: int = 3, error: Exception | None = None) -> Iterator[tuple[int, int]]:
    for item in range(count):
        time.sleep(0.001 * (number % 3))
        yield number, item
    if error is not None:
        raise error


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 20])
def test_pieces_come_in_their_order(threads, pieces):
    found = [*in_order((piece(n, n % 4) for n in range(pieces)), threads)]
    assert found == [(n, item) for n in range(pieces) for item in range(n % 4)]
    assert names_of_threads() == []


@pytest.mark.parametrize("threads", THREADS)
def test_an_error_comes_behind_what_was_read_before_it(threads):
    error = ValueError("damaged")
    started: list[int] = []

    def pieces() -> Iterator[Iterator[tuple[int, int]]]:
        for number in range(20):
            started.append(number)
            yield piece(number, error=error if number == 3 else None)

    found = []
    with pytest.raises(ValueError, match="damaged") as caught:
        found.extend(in_order(pieces(), threads))
    assert caught.value is error
    assert found == [(n, item) for n in range(4) for item in range(3)]
    assert len(started) <= 4 + threads + 1
    assert names_of_threads() == []


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_so_many_pieces_are_read_ahead(threads):
    begun: list[int] = []

    def noted(number: int) -> Iterator[int]:
        begun.append(number)
        yield number

    for number in in_order((noted(n) for n in range(30)), threads):
        assert len(begun) <= number + threads + 1
    assert sorted(begun) == [*range(30)]


def test_one_piece_is_read_as_the_caller_asks():
    taken: list[int] = []

    def noted() -> Iterator[int]:
        for number in range(5):
            taken.append(number)
            yield number

    for number in in_order(iter([noted()]), 4):
        assert taken[-1] == number
        assert names_of_threads() == []


def test_threads_end_with_the_iterator():
    items = in_order((piece(n) for n in range(100)), 2)
    next(items)
    assert names_of_threads() == []  # it may have been enough
    next(items)
    assert names_of_threads()
    items.close()
    assert names_of_threads() == []


def test_two_pieces_are_read_at_once():
    both = threading.Barrier(2, timeout=10)

    def meets(number: int) -> Iterator[int]:
        yield number
        both.wait()

    assert [*in_order((meets(n) for n in range(2)), 2)] == [0, 1]


def test_one_item_is_read_ahead():
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(5):
            taken.append(number)
            yield number
        raise ValueError("the end")

    def noted(each: Iterator[int]) -> Iterator[int]:
        for number in each:
            assert len(taken) <= number + 2
            yield number

    found: list[int] = []
    with reading_threads(1) as pool:
        with pytest.raises(ValueError, match="the end"):
            found.extend(noted(ahead(items(), pool)))
        assert found == [*range(5)]
        assert [*ahead(iter(()), pool)] == []
    assert names_of_threads() == []


def test_a_wait_ends_now_and_then(monkeypatch):
    """An interrupt comes through also where its handler does not end a wait."""
    monkeypatch.setattr(read_ahead, "_LONGEST_WAIT_SECONDS", 0.001)

    def slow() -> Iterator[int]:
        time.sleep(0.05)
        yield 1

    assert [*in_order(iter([slow(), slow()]), 2)] == [1, 1]


@pytest.mark.parametrize(("cores", "count"), [(1, 0), (2, 2), (8, 8), (64, 8)])
def test_as_many_threads_as_cores(monkeypatch, cores, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert threads_count() == count
