"""A time index has no checksum: an entry that was damaged hid records from look-ups by time.

[DUR-53] Whatever the bytes of a time index are, a look-up answers what the batches say.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

import segstore
from segstore.types import SpecialTimestamp
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog

ENTRY_BYTES = 12
# A rise with peaks between two entries; a time that many batches share, a peak, that time again.
TIMES = (10, 40, 30, 40, 70, 40, 70, 70, 70, 70, 90, 70, 120, 70, 120, 120, 160, 120, 130)
SECOND_TIMES = (120, 170, 150, 180, 160, 175)
INTERVAL_BYTES = 100  # an entry after every second batch
TARGETS = sorted({time + more for time in (*TIMES, *SECOND_TIMES) for more in (-1, 0, 1)})
KIND = "timeindex"


class Answers(NamedTuple):
    """What a log says about times."""

    offsets: list[int | None]
    scans: list[list[tuple[object, ...]]]
    largest: list[int]
    latest: object


def answers(log: UnifiedLog) -> Answers:
    return Answers(
        [log.offset_for_timestamp(TIME + target) for target in TARGETS],
        [
            log.scan(start_timestamp=TIME + low, end_timestamp=TIME + low + 25).tuples()
            for low in TARGETS[::3]
        ],
        [segment.largest_record_timestamp() for segment in log.segments()],
        log.fetch_offset_by_timestamp(SpecialTimestamp.MAX),
    )


class CleanLog:
    """A log that was closed cleanly, its files put back before every use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.open() as log:
            for times in (TIMES, SECOND_TIMES):
                if times is SECOND_TIMES:
                    log.roll()
                for time in times:
                    log.append([(TIME + time, None, b"value")])
        self._files = {file: file.read_bytes() for file in path.iterdir() if file.is_file()}
        self.time_index = path / f"{0:020d}.{KIND}"
        self.entries_bytes = self._files[self.time_index]
        with self.open(read_only=True) as log:
            self.expected = answers(log)

    def open(self, **settings: object) -> UnifiedLog:
        return segstore.open(
            self.path,
            durability="none",
            segment_ms=None,
            index_interval_bytes=INTERVAL_BYTES,
            **settings,
        )

    def answers_with(self, time_index: bytes, *, read_only: bool) -> Answers:
        for file, content in self._files.items():
            file.write_bytes(content)
        self.time_index.write_bytes(time_index)
        with self.open(read_only=read_only) as log:
            assert log.report.clean
            return answers(log)


@pytest.fixture(scope="module")
def clean_log(tmp_path_factory: pytest.TempPathFactory) -> CleanLog:
    return CleanLog(tmp_path_factory.mktemp("time") / "topic-0")


def flipped(content: bytes) -> Iterator[bytes]:
    """Every single bit."""
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def entries_lost(content: bytes) -> Iterator[bytes]:
    """At the end, as a file that was cut; somewhere, as zeros or as what was there before."""
    count = len(content) // ENTRY_BYTES
    for first in range(count):
        before = content[: first * ENTRY_BYTES]
        yield before
        yield before + content[len(before) + 5 :]
        for end in range(first + 1, count + 1):
            yield before + bytes((end - first) * ENTRY_BYTES) + content[end * ENTRY_BYTES :]


def entries_swapped(content: bytes) -> Iterator[bytes]:
    count = len(content) // ENTRY_BYTES
    for first in range(count):
        for second in range(first):
            entries = [content[i : i + ENTRY_BYTES] for i in range(0, len(content), ENTRY_BYTES)]
            entries[first], entries[second] = entries[second], entries[first]
            yield b"".join(entries)


def of_an_earlier_life(content: bytes) -> Iterator[bytes]:
    """Entries of other batches with the same offsets, from some entry on."""
    count = len(content) // ENTRY_BYTES
    for first in range(count):
        for earlier in (-35, 5, 1000):
            stale = b"".join(
                (int.from_bytes(content[i : i + 8]) + earlier).to_bytes(8) + content[i + 8 : i + 12]
                for i in range(first * ENTRY_BYTES, len(content), ENTRY_BYTES)
            )
            yield content[: first * ENTRY_BYTES] + stale


def noise(content: bytes) -> Iterator[bytes]:
    random_bytes = random.Random(20).randbytes
    for size in (0, 1, 11, 13, *range(0, 3 * len(content), ENTRY_BYTES)):
        yield random_bytes(size)
    yield b"\xff" * len(content)
    yield b"\x7f" * len(content)


DAMAGES = (flipped, entries_lost, entries_swapped, of_an_earlier_life, noise)


@pytest.mark.parametrize("read_only", [True, False], ids=["read_only", "writable"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_time_index_hides_no_record(
    damage: Callable[[bytes], Iterator[bytes]], clean_log: CleanLog, *, read_only: bool
):
    """[DUR-53, DUR-8] The answers are those of the undamaged log, whatever became of the index."""
    assert len(clean_log.entries_bytes) >= 5 * ENTRY_BYTES
    wrong = [
        damaged.hex(" ", ENTRY_BYTES)
        for damaged in damage(clean_log.entries_bytes)
        if clean_log.answers_with(damaged, read_only=read_only) != clean_log.expected
    ]
    assert wrong == []


def test_the_answers_are_those_of_the_records(clean_log: CleanLog):
    """[SEG-23, TS-3] The oracle is a search through all records."""
    records = list(enumerate((*TIMES, *SECOND_TIMES)))
    expected = [next((o for o, time in records if time >= target), None) for target in TARGETS]
    assert clean_log.expected.offsets == expected
    assert clean_log.expected.largest == [TIME + max(TIMES), TIME + max(SECOND_TIMES)]


def test_a_writer_makes_a_damaged_time_index_anew(clean_log: CleanLog):
    """[DUR-53] When it was met by a look-up: closing rebuilds it as it was."""
    damaged = bytearray(clean_log.entries_bytes)
    damaged[2 * ENTRY_BYTES + 6] ^= 4
    clean_log.answers_with(bytes(damaged), read_only=True)
    assert clean_log.time_index.read_bytes() == damaged

    clean_log.answers_with(bytes(damaged), read_only=False)
    assert clean_log.time_index.read_bytes() == clean_log.entries_bytes
