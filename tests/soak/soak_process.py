"""A process of the soak that is told to stop by the end of its standard input, and what it notes.

A note is one line of JSON in a pipe: a write that the kernel has whole, also when a kill follows.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST_BYTES = 3500
"""Of a note: a write of so many is not mixed with another thread's."""


def tell(*note: object) -> None:
    line = json.dumps(note)
    if len(line) > MOST_BYTES:
        line = json.dumps([note[0], "…" + str(note[1])[-MOST_BYTES // 2 :]])
    os.write(sys.stdout.fileno(), line.encode() + b"\n")


@contextmanager
def telling_faults() -> Iterator[None]:
    """What the block raises is a fault of the soak, and ends it: told here, nobody else hears."""
    try:
        yield
    except BaseException:
        tell("fault", traceback.format_exc())
        raise


class Counts:
    """What the threads of a process have done."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._counts[name] += count

    def copy(self) -> Counter[str]:
        with self._lock:
            return self._counts.copy()


class Warnings(logging.Handler):
    """Tells what segstore warns of, and counts what it cleans."""

    def __init__(self, counts: Counts) -> None:
        super().__init__(logging.INFO)
        self._counts = counts
        logger = logging.getLogger("segstore")
        logger.setLevel(logging.INFO)
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            tell("warning", self.format(record))
        elif str(record.msg).startswith("cleaned"):
            self._counts.add("passes of the cleaner")


class Threads:
    """Functions that are called again and again, each in a thread with a chooser of its own."""

    def __init__(self, seed: int) -> None:
        self.stopping = threading.Event()
        self._seed = seed
        self._threads: list[threading.Thread] = []

    def start(self, step: Callable[[random.Random], None], pause_seconds: float) -> None:
        """Call *step* every so often."""
        chooser = random.Random(f"{self._seed} {len(self._threads)}")

        def work() -> None:
            with telling_faults():
                while not self.stopping.wait(pause_seconds * 2 * chooser.random()):
                    step(chooser)

        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    def run_until_told(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Tell counts every second, until standard input ends; then wait for all threads."""
        threading.Thread(target=self._await_end, daemon=True).start()
        while not self.stopping.wait(1):
            tell("counts", counts())
        for one in self._threads:
            one.join()
        tell("counts", counts())

    def _await_end(self) -> None:
        sys.stdin.buffer.read()
        self.stopping.set()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Ask until it holds; False where it does not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
