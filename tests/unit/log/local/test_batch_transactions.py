"""What readers of committed data go through of a log, and that it is enough [TXX-1, LOC-9].

The first fetch went through all headers of its segment: 41 to 60 ms for 256 MB of small batches.
What else of the kind was looked for: fetches of later segments, fetches behind one another and
backwards, transactions that go across the range, the index that tells the list of a fetch.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

import segstore
from segstore.log.local import batch_transactions
from segstore.log.local.segment import Segment
from segstore.log.local.transaction_index import TransactionIndex
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import UnifiedLog

SETTINGS = {"segment_ms": None, "durability": "none"}
BATCHES = 3000
FIRST = 256
"""Batches that are gone through at least."""


class Passed(NamedTuple):
    segment: str
    start: int
    end: int


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[Passed]:
    """The bytes that were gone through."""
    ranges: list[Passed] = []
    real = Segment.scan_transactions

    def scan_transactions(self: Segment, **options: int) -> tuple:
        headers, ends, result = real(self, **options)
        ranges.append(Passed(self.path, options["start_position"], result.valid_bytes))
        return headers, ends, result

    monkeypatch.setattr(Segment, "scan_transactions", scan_transactions)
    return ranges


def size_of(log: UnifiedLog) -> int:
    return sum(segment.size_bytes for segment in log.segments())


def bytes_of(passed: list[Passed]) -> int:
    return sum(one.end - one.start for one in passed)


@pytest.fixture
def log(tmp_path: Path, passed: list[Passed]) -> UnifiedLog:
    """One segment of 3000 batches, the first ones of a transaction that is aborted at the end."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        outer = Producer(log, 1)
        outer.write()
        for _ in range(BATCHES - 2):
            write(log)
        outer.end(ABORT)
    passed.clear()
    log = segstore.open(path, read_only=True)
    yield log
    log.close()


def fetch(log: UnifiedLog, offset: int, size: int = 1) -> list[int]:
    return [one.offset for one in log.read(offset, size, "read_committed")]


@pytest.mark.parametrize("offset", [1, 1500, 2900])
def test_a_fetch_goes_through_what_it_reads(log: UnifiedLog, passed: list[Passed], offset: int):
    """[LOC-9] From its first batch on; and the same fetch again goes through nothing."""
    batch_bytes = size_of(log) // BATCHES

    assert fetch(log, offset) == [offset]
    assert bytes_of(passed) <= 1.1 * FIRST * batch_bytes
    passed.clear()
    assert fetch(log, offset) == [offset]
    assert passed == []


def test_fetches_behind_one_another_go_through_a_segment_once(
    log: UnifiedLog, passed: list[Passed]
):
    """[LOC-9] And once more when one begins before the first of them; never again then."""
    for offset in range(1500, BATCHES - 1, 7):
        assert fetch(log, offset) == [offset]
    assert bytes_of(passed) <= size_of(log) // 2 + size_of(log) // BATCHES
    passed.clear()
    for offset in [*range(1, BATCHES - 1, 7), *range(BATCHES - 2, 0, -7)]:
        assert fetch(log, offset) == [offset]
    assert bytes_of(passed) <= size_of(log)


def test_a_transaction_of_the_range_is_followed_to_its_end(log: UnifiedLog, passed: list[Passed]):
    """[TXX-1] Its marker is the last batch."""
    assert fetch(log, 0, 200) == [1]
    assert bytes_of(passed) == size_of(log)


def test_one_that_has_no_record_in_the_range_is_not(log: UnifiedLog, passed: list[Passed]):
    """[LOC-9] It ends behind the range, and the reader needs nothing of it."""
    assert fetch(log, 5) == [5]
    assert bytes_of(passed) < size_of(log) // 5


def test_the_list_is_looked_for_near_the_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[LOC-9, TXX-4] Not from the first entry of an index on."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = Producer(log, 1)
        for _ in range(300):
            producer.write()
            producer.end(ABORT)
        write(log)
    seen = []
    real = TransactionIndex._entries

    def entries(self: TransactionIndex, *arguments: object, **options: object):
        for entry in real(self, *arguments, **options):
            seen.append(entry)
            yield entry

    monkeypatch.setattr(TransactionIndex, "_entries", entries)
    with segstore.open(path, read_only=True) as log:
        fetched = log.read(590, 1, "read_committed")
        assert fetched.aborted_transactions == [(1, offset) for offset in range(590, 600, 2)]
    assert 1 <= len(seen) <= 10


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("index", ["whole", "lost", "zeros"])
def test_any_fetches_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, index: str
):
    """[TXX-1, LOC-9, DUR-7] One batch at a time: what is left out is what was aborted.

    Of a whole index the list is the broker's, as far as it names what has records in the range.
    """
    monkeypatch.setattr(batch_transactions, "_FIRST_BATCHES", 1)
    path, chance = tmp_path / "orders-0", random.Random(seed)
    committed = write_random_log(path, chance)
    entries = set()
    for file in path.glob("*.txnindex"):
        entries |= {one[:2] for one in entries_of(path, int(file.name[:20]))}
        if index == "lost":
            file.unlink()
        elif index == "zeros":
            file.write_bytes(bytes(file.stat().st_size))
    with segstore.open(path, read_only=True) as log:
        for _ in range(30):
            offset, size = chance.randrange(log.log_end_offset), chance.choice((1, 200, 700, 5000))
            fetched = log.read(offset, size, "read_committed")
            shown = [one.offset for one in fetched]
            everything = [one.offset for one in log.read(offset, size)]
            assert shown == [one for one in everything if one in committed], (offset, size)
            if index == "whole":
                assert set(fetched.aborted_transactions or ()) <= entries
        start = chance.randrange(log.log_end_offset)
        scanned = [one.offset for one in log.scan(start, isolation="read_committed")]
        assert scanned == sorted(one for one in committed if one >= start)


def write_random_log(path: Path, chance: random.Random) -> set[int]:
    """Return the offsets of what is committed; all transactions have ended."""
    committed: set[int] = set()
    with segstore.open(path, **SETTINGS) as log:
        producers = [Producer(log, number) for number in range(4)]
        is_open: dict[int, list[int]] = {}

        def end(number: int) -> None:
            kind = chance.choice((ABORT, COMMIT))
            producers[number].end(kind)
            written = is_open.pop(number)
            committed.update(written if kind == COMMIT else ())

        for _ in range(chance.randrange(20, 80)):
            number = chance.randrange(-1, len(producers))
            begin, count = log.log_end_offset, chance.randrange(1, 4)
            if chance.random() < 0.05:
                log.roll()
            elif number < 0:
                write(log, count)
                committed.update(range(begin, begin + count))
            elif number in is_open and chance.random() < 0.3:
                end(number)
            else:
                producers[number].write(count)
                is_open.setdefault(number, []).extend(range(begin, begin + count))
        for number in list(is_open):
            end(number)
    return committed


def entries_of(path: Path, base_offset: int) -> list[tuple[int, ...]]:
    directory = segstore._core.Directory(str(path))
    try:
        return list(TransactionIndex(directory, base_offset))
    finally:
        directory.close()
