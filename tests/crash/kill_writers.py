"""What a writer does until it is killed: one log, steps by chance, each told before and behind."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import segstore
from segstore.errors import WriteError
from tests.crash.kill_history import (
    APPEND,
    DELETE,
    EMPTY,
    REFUSED,
    RETAIN,
    ROLL,
    TRUNCATE,
    value_of,
)
from tests.crash.killed_process import OPENED, Teller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SETTINGS = {
    "internal_segment_bytes": 4000,
    "index_interval_bytes": 300,
    "segment_ms": None,
    "file_delete_delay_ms": 5,
    "retention_ms": None,
    "retention_bytes": 12_000,
}
SYNC_PAUSE_SECONDS = 0.002
APPENDER = {APPEND: 97, ROLL: 3}
ROLLER = {APPEND: 50, ROLL: 50}
TRUNCATER = {APPEND: 60, ROLL: 10, TRUNCATE: 25, EMPTY: 5}
DELETER = {APPEND: 60, ROLL: 10, DELETE: 15, RETAIN: 15}
ALL = {APPEND: 50, ROLL: 10, TRUNCATE: 12, EMPTY: 3, DELETE: 12, RETAIN: 12}


class Writer:
    """Takes one log through steps by chance; tells of the open, and before and behind each step."""

    def __init__(self, log: segstore.UnifiedLog, tell: Teller, seed: int) -> None:
        self._log = log
        self._tell = tell
        self._chooser = random.Random(seed)
        self._tag = seed
        self._steps: dict[bytes, Callable[[], None]] = {
            APPEND: self.append,
            ROLL: self.roll,
            TRUNCATE: self.truncate,
            EMPTY: self.empty,
            DELETE: self.delete,
            RETAIN: self.retain,
        }

        tell.done(OPENED, log.log_start_offset, log.log_end_offset)

    def take_steps(self, weights: Mapping[bytes, int], count: int = 20) -> None:
        """Take some steps by chance."""
        for name in self._chooser.choices(list(weights), list(weights.values()), k=count):
            self._steps[name]()

    def append(self) -> None:
        """One batch, whose values name the writer and their offsets."""
        first, tag = self._log.log_end_offset, self._tag
        count = self._chooser.choice([1, 1, 1, 2, 20, 60])
        self._tell.begin(APPEND, first, count, tag)
        try:
            self._log.append([(None, value_of(tag, first + i)) for i in range(count)])
        except WriteError:  # a busy disk: the sync is later than was promised [DUR-14]
            self._tell.done(REFUSED)
            time.sleep(SYNC_PAUSE_SECONDS)
            return
        self._tell.done(APPEND, first, count, tag)

    def roll(self) -> None:
        """Begin a segment."""
        self._log.roll()
        self._tell.done(ROLL)

    def truncate(self) -> None:
        """At any offset, also within a batch or, sometimes, below the log start."""
        start, end = self._log.log_start_offset, self._log.log_end_offset
        if self._chooser.random() < 0.1:
            start = max(start - 5, 0)
        offset = self._chooser.randint(max(start, end - 150), end)
        if offset < end:
            self._tell.begin(TRUNCATE, offset)
            self._log.truncate_to(offset)
            self._tell.done(TRUNCATE, offset)

    def empty(self) -> None:
        """Truncate fully, and go on a little above or below."""
        start, end = self._log.log_start_offset, self._log.log_end_offset
        offset = self._chooser.randint(start, end + 10)
        self._tell.begin(EMPTY, offset)
        self._log.truncate_fully_and_start_at(offset)
        self._tell.done(EMPTY, offset)

    def delete(self) -> None:
        """Up to any offset."""
        offset = self._chooser.randint(self._log.log_start_offset, self._log.log_end_offset)
        self._tell.begin(DELETE, offset)
        self._log.delete_records(offset)
        self._tell.done(DELETE, offset)

    def retain(self) -> None:
        """What retention would delete now and then."""
        self._tell.begin(RETAIN)
        self._log.delete_old_segments()
        self._tell.done(RETAIN, self._log.log_start_offset)


def write_on(
    path: Path, durability: str, seed: int, weights: Mapping[bytes, int]
) -> Callable[[Teller], None]:
    """Open the log, tell so, take steps until killed."""

    def work(tell: Teller) -> None:
        with segstore.open(path, durability=durability, **SETTINGS) as log:
            writer = Writer(log, tell, seed)
            while True:
                writer.take_steps(weights)

    return work
