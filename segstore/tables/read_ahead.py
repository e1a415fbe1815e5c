"""Reading ahead in threads: what comes next is decoded while the caller uses what came before.

The core decodes without the GIL, so threads decode on as many cores. They live as long as an
iterator is read, and are not started where the process may use one core, or for a single piece.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

_T = TypeVar("_T")

MOST_THREADS: Final = 8
_LONGEST_WAIT_SECONDS: Final = 0.1
"""Of one wait: a handler of Control-C that was installed with SA_RESTART ends no longer one."""


class _Read(NamedTuple, Generic[_T]):
    """What a thread has read, and the error at which that ended."""

    items: list[_T]
    error: Exception | None


def threads_count() -> int:
    """Return how many threads read ahead; 0 where there is one core for the process."""
    cores = len(os.sched_getaffinity(0))
    return min(cores, MOST_THREADS) if cores > 1 else 0


@contextmanager
def reading_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Start threads for a block; what they have begun ends before the block does."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(count, "segstore-read-ahead")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def in_order(pieces: Iterator[Iterator[_T]], threads: int) -> Iterator[_T]:
    """Yield what the *pieces* yield, in their order; threads read those that come next.

    Parameters
    ----------
    pieces : iterator of iterator
        Each is read in one thread, to its end. What as many as there are threads, and one more,
        yield is in memory. The very first item is read before there is a thread: it may be all that
        is wanted.
    threads : int
        How many; 0 = the pieces are read as the caller asks.

    Raises
    ------
    Exception
        That of a piece, behind what it has yielded before. The pieces behind it are given up.
    """
    first = [*islice(pieces, 2)] if threads else []
    every = chain(first, pieces)
    if len(first) <= 1:
        yield from chain.from_iterable(every)
        return
    yield from islice(first[0], 1)
    with reading_threads(threads) as pool:
        waiting: deque[Future[_Read[_T]]] = deque()
        for piece in every:
            waiting.append(pool.submit(_read, piece))
            if len(waiting) > threads:
                yield from _results(waiting.popleft())
        while waiting:
            yield from _results(waiting.popleft())


def ahead(items: Iterator[_T], pool: ThreadPoolExecutor) -> Iterator[_T]:
    """Return an iterator over *items* of which a thread of *pool* reads the next one already."""
    return _ahead(items, pool, pool.submit(_read, items, 1))


def _ahead(
    items: Iterator[_T], pool: ThreadPoolExecutor, coming: Future[_Read[_T]]
) -> Iterator[_T]:
    while True:
        read = wait_for(coming)
        if read.items:
            coming = pool.submit(_read, items, 1)
            yield from read.items
        elif read.error is not None:
            raise read.error
        else:
            return


def _read(items: Iterator[_T], most: int | None = None) -> _Read[_T]:
    """Read all of *items*, or so many of them."""
    found: list[_T] = []
    try:
        found.extend(islice(items, most))
    except Exception as error:  # noqa: BLE001 - raised where its turn comes
        return _Read(found, error)
    return _Read(found, None)


def _results(coming: Future[_Read[_T]]) -> Iterator[_T]:
    read = wait_for(coming)
    yield from read.items
    if read.error is not None:
        raise read.error


def wait_for(coming: Future[_T]) -> _T:
    """Return the result of what a thread does, or raise its error; Ctrl-C ends the wait."""
    while True:
        try:
            return coming.result(_LONGEST_WAIT_SECONDS)
        except TimeoutError:  # no thread lets its own one out
            continue
