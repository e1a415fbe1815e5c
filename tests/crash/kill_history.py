"""What a log must hold after its writer was killed, from what that told [DUR-1..DUR-3, DUR-5].

Shares no code with the engine: batches are ``(base offset, records, tag)``, and the value of each
record is its tag and its offset.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

from tests.crash.killed_process import OPENED, Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog

APPEND, TRUNCATE, EMPTY, DELETE, RETAIN, ROLL, REFUSED = b"A", b"T", b"F", b"D", b"R", b"S", b"X"
FULL_BYTES = 60_000


class Batch(NamedTuple):
    """One append."""

    base: int
    count: int
    tag: int

    @property
    def end(self) -> int:
        """The offset behind its last record."""
        return self.base + self.count


class State(NamedTuple):
    """A log: where it begins, and its batches."""

    start: int
    batches: tuple[Batch, ...]
    any_start_above: bool = False
    """Retention was under way, which takes whole segments: how far is not known."""

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return max([self.start, *(batch.end for batch in self.batches[-1:])])

    def may_start_at(self, start: int) -> bool:
        """Whether it may begin there."""
        return start == self.start or (self.any_start_above and start > self.start)

    def begun_at(self, start: int) -> State:
        """Return the same without what is below *start*, and nothing unknown."""
        return State(start, tuple(one for one in self.batches if one.end > start))

    @property
    def rows(self) -> list[tuple[int, bytes]]:
        """Offsets and values that can be read."""
        return [
            (offset, value_of(batch.tag, offset))
            for batch in self.batches
            for offset in range(max(batch.base, self.start), batch.end)
        ]


def value_of(tag: int, offset: int) -> bytes:
    """Return what nobody else writes at any offset, of varying size."""
    return b"%d:%d:" % (tag, offset) + b"." * (offset * 7 % 50)


def tag_of(value: bytes) -> int:
    """Return who wrote it."""
    return int(value.split(b":", 1)[0])


class KillHistory:
    """One log across the deaths of its writers."""

    def __init__(self) -> None:
        self._possible = [State(0, ())]
        self._under_way: Note | None = None
        self._may_be_set_aside = self._index_may_be_longer = False

    def take(self, notes: Iterable[Note]) -> None:
        """Go through the steps of a writer that is dead now."""
        self._under_way = None
        for note in notes:
            self._under_way = None
            if note.step == OPENED:
                self._possible = _as_found(self._possible, note.first, note.second)
                continue
            self._may_be_set_aside |= note.step in {TRUNCATE, EMPTY}
            if note.is_done:
                self._possible = [_after(state, note) for state in self._possible]
            else:
                self._under_way = note
        if self._under_way is not None:
            self._possible = _interrupted(self._possible, self._under_way)
            self._index_may_be_longer |= self._under_way.step in {TRUNCATE, EMPTY}

    @property
    def may_have_no_file(self) -> bool:
        """Whether nothing was acknowledged yet, or all was being taken away [DUR-18].

        As a truncation does, too, of what lies above the log start alone [TRU-2].
        """
        return self._index_may_be_longer or State(0, ()) in self._possible

    @property
    def index_may_be_longer(self) -> bool:
        """Whether a cut may have ended between the records and the index of them [DUR-16]."""
        return self._index_may_be_longer

    @property
    def may_be_set_aside(self) -> bool:
        """Whether a cut may have left the end of the segments below the log start [DUR-49]."""
        return self._may_be_set_aside

    @property
    def rows(self) -> list[tuple[int, bytes]]:
        """Offsets and values as `adopt` found them."""
        return self._possible[0].rows

    def lose_tail(self, durable_offset: int) -> None:
        """Let a power cut take what lies above; whole appends, the last ones first [DUR-1]."""
        found = {
            State(state.start, state.batches[:count]): None
            for state in self._possible
            for count in range(len(state.batches), -1, -1)
            if max([0, *(one.end for one in state.batches[:count][-1:])])
            >= min(durable_offset, state.end)
        }
        self._possible = list(found)

    def adopt(self, log: UnifiedLog, *, after_power_loss: bool = False) -> None:
        """Check what *log* holds, and go on from there."""
        rows = [(offset, value) for offset, _, _, value in log.scan().tuples()]
        start = log.log_start_offset
        fits = [one for one in self._possible if one.may_start_at(start)]
        fits = [one for one in fits if one.begun_at(start).rows == rows]
        assert fits, self._explain(start, rows, log)
        assert log.log_end_offset >= max([start, *(row[0] + 1 for row in rows)])
        report = log.report
        # a segment is when the log start lies behind what a cut has left of it
        may_be_set_aside = after_power_loss or self._may_be_set_aside
        assert may_be_set_aside or not report.set_aside, str(report)
        assert report.maybe_missing is None, str(report)
        self._possible = [fits[0].begun_at(start)]
        self._may_be_set_aside = self._index_may_be_longer = False

    def _explain(self, start: int, rows: list[tuple[int, bytes]], log: UnifiedLog) -> str:
        known = self._possible[0]
        expected = known.rows
        different = next(
            (at for at, pair in enumerate(zip(expected, rows, strict=False)) if pair[0] != pair[1]),
            min(len(expected), len(rows)),
        )
        return (
            f"under way {self._under_way}; start {known.start} became {start};"
            f" {len(expected)} records became {len(rows)}, other ones from number {different} on:"
            f" {expected[different : different + 3]} became {rows[different : different + 3]};"
            f" {log.report}"
        )


def _as_found(states: list[State], start: int, end: int) -> list[State]:
    """Leave those that an open log with these offsets may have; it may end behind a hole."""
    states = [one.begun_at(start) for one in states if one.may_start_at(start)]
    exact = [one for one in states if one.end == end]
    return exact or [one for one in states if one.end <= end]


def _after(state: State, note: Note) -> State:
    start, batches = state.start, state.batches
    first, second, third = note[3:]
    if note.step == APPEND:
        return State(start, (*batches, Batch(first, second, third)))
    if note.step == TRUNCATE:
        return State(min(start, first), tuple(one for one in batches if one.end <= first))
    if note.step == EMPTY:
        return State(first, ())
    if note.step in {DELETE, RETAIN}:
        return state.begun_at(max(start, first))
    return state


def _interrupted(states: list[State], note: Note) -> list[State]:
    """Return what may be there: before the step under way, behind it, or on the way."""
    found: dict[State, None] = {}
    for before in states:
        after = _after(before, note)
        found[before] = None
        if note.step in {TRUNCATE, EMPTY}:  # highest segments first [DUR-16, DUR-18]
            for count in range(len(after.batches), len(before.batches)):
                for start in (before.start, after.start):
                    found[State(start, before.batches[:count])] = None
            found[State(after.start, before.batches)] = None
        if note.step == RETAIN:
            found[State(before.start, before.batches, any_start_above=True)] = None
        found[after] = None
    return list(found)


def fresh_logs(folder: Path) -> Iterator[tuple[Path, KillHistory]]:
    """One log after the other, for one that grows is slow to look at."""
    number = 0
    while True:
        path = folder / str(number) / "numbers-0"
        yield path, KillHistory()
        shutil.rmtree(path.parent)
        number += 1
