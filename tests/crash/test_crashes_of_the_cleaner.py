"""A power cut after any effect of a compaction: the last value of each key is there [DUR-126]."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import pytest

from segstore.log.cleaning.cleaner import Cleaner
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_check import Crash

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk

SETTINGS = {
    "durability": "sync",
    "cleanup_policy": "compact",
    "internal_segment_bytes": 400,
    "delete_retention_ms": 1_000,
}
KEYS = [b"%d" % number for number in range(6)]
SCRIPTS = 12
FEW_CRASHES, MANY_CRASHES = 31, 1_000
FATES = ("lost", "kept", "seed", "seed", "seed")

History = list[tuple[int, bytes, bytes | None]]


class Cleaned(NamedTuple):
    """A compaction that is over.

    Attributes
    ----------
    begin, end : int
        The effects of the disk before it and behind it.
    history : list
        What was appended before it, all of it durable: offset, key and value.
    limit : int
        Records from there on were not to be cleaned.
    """

    begin: int
    end: int
    history: History
    limit: int


def live(records: History) -> dict[bytes, bytes]:
    """Return the last value of each key; a key whose last record is a tombstone has none."""
    values = {key: value for _, key, value in records}
    return {key: value for key, value in values.items() if value is not None}


def found_in(log: UnifiedLog) -> History:
    return [(one.offset, one.key, one.value) for one in log.scan(isolation="read_committed")]


class Script:
    """Appends and compactions by chance, on a disk that remembers every effect."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = new_disk()
        self.log = open_log(self.disk, **SETTINGS)
        self.history: History = []
        self.cleaned: list[Cleaned] = []
        self.now_ms = self.disk.wall_clock_ms
        self.first_dirty = 0

    def append(self) -> None:
        records = []
        for _ in range(self.chance.randint(1, 4)):
            value = None if self.chance.random() < 0.3 else bytes([self.chance.randrange(256)] * 40)
            records.append((self.chance.choice(KEYS), value))
        base = self.log.append(records).base_offset
        self.history += [(base + n, key, value) for n, (key, value) in enumerate(records)]

    def compact(self) -> None:
        self.now_ms += self.chance.choice([0, 600, 2_000])
        map_bytes = self.chance.choice([24 * 3, 24 * 100])
        cleaner = Cleaner(offset_map_bytes=map_bytes, io_buffer_bytes=self.chance.choice([1, 4096]))
        begin, limit = self.disk.effects, self.log.segments()[-1].base_offset
        first = self.chance.choice([0, self.first_dirty])
        while first < limit:
            first = self.log.clean(cleaner, first, limit, now_ms=self.now_ms).end_offset
        self.first_dirty = first
        self.cleaned.append(Cleaned(begin, self.disk.effects, list(self.history), limit))

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            for _ in range(self.chance.randint(3, 12)):
                self.append()
            if self.chance.random() < 0.5:
                self.log.roll()
            self.compact()
        self.log.close_quietly()


def check(disk: SimulatedDisk, cleaned: Cleaned, crash: Crash, *, thoroughly: bool) -> None:
    """Nothing that was durable is lost but what a later record of its key replaces."""
    with closing(open_log(crash.image(disk), **SETTINGS)) as log:
        found = found_in(log)
        report = log.report
        assert live(found) == live(cleaned.history)
        assert set(found) <= set(cleaned.history)
        assert [one for one in found if one[0] >= cleaned.limit] == [
            one for one in cleaned.history if one[0] >= cleaned.limit
        ]
        assert report.maybe_missing is None
        assert report.truncated_bytes == 0
        assert log.log_end_offset == cleaned.history[-1][0] + 1
        assert not thoroughly or log.verify().ok, log.verify().findings
        names = log._directory.names()
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        log.append([(b"new", b"1")])
        if thoroughly:  # what a crash has left is cleaned on
            log.roll()
            log.clean(Cleaner(offset_map_bytes=24 * 100), 0, now_ms=log._directory.wall_clock_ms())
            assert live(found_in(log)) == live(cleaned.history) | {b"new": b"1"}


@pytest.mark.parametrize("seed", range(SCRIPTS))
def test_the_last_value_of_each_key_survives_a_crash_at_any_point(
    seed: int, few_or_many: Callable[[int, int], int]
):
    """[CLN-110, CLN-113, CLN-114, CLN-120, DUR-1, DUR-20, DUR-126] A deleted key stays deleted."""
    script = Script(seed)
    script.run(rounds=3)
    for cleaned in script.cleaned:
        for number in range(few_or_many(FEW_CRASHES, MANY_CRASHES)):
            effects = script.chance.randint(cleaned.begin, cleaned.end)
            crash = Crash(effects, script.chance.choice(FATES), number)
            try:
                check(script.disk, cleaned, crash, thoroughly=number % 5 == 0)
            except Exception as error:
                raise AssertionError(f"script {seed}, {crash}: {error!r}") from error
