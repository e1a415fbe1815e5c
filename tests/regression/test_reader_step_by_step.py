"""Scripts of a writer and readers in one process, with a look in between; short ones, random ones.

After some of them a reader was not told of a truncation, and held records that were gone.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import LogTruncatedError

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import UnifiedLog

SETTINGS = {"durability": "none", "file_delete_delay_ms": 0, "segment_ms": None}
SEEDS = range(8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a-0"


def values(log: UnifiedLog) -> dict[int, bytes]:
    return {record.offset: record.value for record in log}


class Steps:
    """A writer and readers of one process; every record says of which generation it is.

    ``a`` appends a record, ``A`` three in one batch, ``r`` rolls, ``t2`` truncates by two, ``F2``
    empties the log to go on two before its end, ``d2`` deletes two records, ``c`` closes the
    writer and opens it again, ``L`` looks with every reader, and compares.
    """

    def __init__(self, path: Path, readers_count: int = 1) -> None:
        self.path = path
        self.writer = segstore.open(path, **SETTINGS)
        self.readers = [segstore.open(path, read_only=True) for _ in range(readers_count)]
        self.held: list[dict[int, bytes]] = [{} for _ in self.readers]
        self.number = 0

    def do(self, step: str) -> None:
        log, size = self.writer, int(step[1:] or 0)
        end = log.log_end_offset
        self.number += 1
        value = b"%05d" % self.number
        match step[0]:
            case "a":
                log.append([(None, value)])
            case "A":
                log.append([(None, value)] * 3)
            case "r":
                log.roll()
            case "t":
                log.truncate_to(max(log.log_start_offset, end - size))
            case "F":
                log.truncate_fully_and_start_at(max(0, end - size))
            case "d":
                log.delete_records(min(end, log.log_start_offset + size))
            case "c":
                log.close()
                self.writer = segstore.open(self.path, **SETTINGS)
            case "L":
                for index in range(len(self.readers)):
                    self.look(index)

    def look(self, index: int) -> None:
        """Whoever is told of no truncation holds no record that is gone, or another."""
        reader, held = self.readers[index], self.held[index]
        try:
            reader.refresh()
        except LogTruncatedError:
            held.clear()
            reader.refresh()  # it is told once
        there = values(self.writer)
        assert values(reader) == there
        for offset, value in held.items():
            assert there.get(offset, value) == value
            assert offset < self.writer.log_end_offset
        self.held[index] = there

    def close(self) -> None:
        self.writer.close()
        for reader in self.readers:
            reader.close()


@pytest.mark.parametrize(
    "script",
    ["a r L t1 a L", "A L F2 A L", "a r L F2 A L", "A r a L t2 a a L", "a L d1 a L t1 a L"],
)
def test_whoever_was_not_told_holds_what_is_there(path: Path, script: str):
    """[DUR-77] The shortest scripts after which a reader was told nothing."""
    steps = Steps(path)
    try:
        for step in script.split():
            steps.do(step)
    finally:
        steps.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_steps_of_a_writer(path: Path, seed: int):
    """[DUR-76..DUR-78]"""
    numbers = random.Random(seed)
    steps = Steps(path, readers_count=2)
    choices = ["a", "a", "a", "A", "r", "t1", "t2", "t9", "d1", "d2", "F0", "F2", "c"]
    try:
        for _ in range(120):
            steps.do(numbers.choice(choices))
            if numbers.random() < 0.3:
                steps.look(numbers.randrange(2))
        steps.do("L")
    finally:
        steps.close()
