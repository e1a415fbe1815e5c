"""A fetch named another first offset of an aborted transaction than a broker does, or left it out.

The batches of the fetched segments decide what a reader leaves out. A broker's list comes from its
index, and also tells of records before those segments, and of records that were compacted away.
Looked for besides: a transaction that goes across several segments, seen from each of them; one
whose batches are in front of the range; one that ends behind others which are left out already; an
entry that would reach across an earlier marker of its producer.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
from typing import TYPE_CHECKING

import pytest

import segstore
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {"segment_ms": None, "durability": "none"}
ENTRY = struct.Struct(">hqqqq")


def entries(partition: Path) -> list[tuple[int, ...]]:
    """Producer id, first offset, marker and last stable offset, of all indexes in order."""
    return [
        entry[1:]
        for index in sorted(partition.glob("*.txnindex"))
        for entry in ENTRY.iter_unpack(index.read_bytes())
    ]


def of_a_broker(partition: Path, offset: int, upper_bound: int) -> list[tuple[int, int]]:
    """What Kafka's collectAbortedTransactions finds in these files, from a segment on [TXX-4]."""
    found = []
    for producer_id, first, last, stable in entries(partition):
        if last >= offset and first < upper_bound:
            found.append((producer_id, first))
        if last >= offset and stable >= upper_bound:
            break
    return found


def write_by_chance(path: Path, seed: int) -> None:
    """Transactions of a few producers that overlap, in many segments."""
    chance = random.Random(seed)
    with segstore.open(path, **SETTINGS) as log:
        producers = [Producer(log, number) for number in range(1, 5)]
        is_open = dict.fromkeys(range(4), False)
        for _ in range(120):
            number = chance.randrange(4)
            what = chance.random()
            if what < 0.55:
                producers[number].write(chance.randint(1, 3))
                is_open[number] = True
            elif what < 0.8 and is_open[number]:
                producers[number].end(ABORT if chance.random() < 0.7 else COMMIT)
                is_open[number] = False
            elif what < 0.9:
                write(log)
            else:
                log.roll()
        for number, producer in enumerate(producers):
            if is_open[number]:
                producer.end(ABORT)


@pytest.fixture(params=range(12))
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    write_by_chance(path, request.param)
    return path


def fetches(log: segstore.UnifiedLog) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Every offset: it, the upper bound, and the list of the fetch.

    No segment is so large that its offset index has an entry: a broker looks up to its end.
    """
    bases = [segment.base_offset for segment in log.segments()]
    for offset in range(log.last_stable_offset):
        end = next((base for base in bases if base > offset), log.log_end_offset)
        aborted = log.read(offset, 1_000_000, "read_committed").aborted_transactions
        assert aborted is not None
        yield offset, end, [(one[0], one[1]) for one in aborted]


def test_the_list_is_a_brokers(partition: Path):
    """[LOC-9, TXX-4] The list of each fetch is what Kafka's search finds in the indexes."""
    with segstore.open(partition, read_only=True) as log:
        asked = list(fetches(log))
    assert any(aborted for _, _, aborted in asked)
    for offset, end, aborted in asked:
        assert aborted == of_a_broker(partition, offset, end), (offset, end)


def test_a_transaction_of_many_segments(tmp_path: Path):
    """[LOC-9] From each of its segments its first offset is the same."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        write(log)
        producer, other = Producer(log, 1), Producer(log, 2)
        for _ in range(3):
            producer.write()
            other.write()
            other.end(ABORT)
            log.roll()
        producer.end(ABORT)
        for offset in range(1, log.log_end_offset):
            aborted = log.read(offset, 1, "read_committed").aborted_transactions
            assert aborted is not None
            assert (1, 1) in [(one[0], one[1]) for one in aborted], offset


def test_a_wrong_entry_hides_nothing(tmp_path: Path):
    """[DUR-7] An entry that reaches across the producer's earlier COMMIT is not followed."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = Producer(log, 1)
        producer.write(3)
        producer.end(COMMIT)
        log.roll()
        producer.write(2)
        producer.end(ABORT)
    (index,) = path.glob("*.txnindex")
    version, producer_id, first, last, stable = ENTRY.unpack(index.read_bytes())
    assert first == 4
    index.write_bytes(ENTRY.pack(version, producer_id, 0, last, stable))
    with segstore.open(path, read_only=True) as log:
        found = log.read(0, 1_000_000, "read_committed")
        assert [record.offset for record in log.scan(isolation="read_committed")] == [0, 1, 2]
        assert [record.offset for record in found] == [0, 1, 2]


def test_no_entry_shows_or_hides_a_record(tmp_path: Path):
    """[DUR-7] One entry with every producer, first offset and marker, right and wrong ones."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        one, two = Producer(log, 1), Producer(log, 2)
        one.write(2)
        one.end(COMMIT)
        one.write(2)
        two.write()
        one.end(ABORT)
        two.end(COMMIT)
        end = log.log_end_offset
    (index,) = path.glob("*.txnindex")
    with segstore.open(path, read_only=True) as log:
        for producer_id, first, last in itertools.product((1, 2, 3), range(end), range(end)):
            index.write_bytes(ENTRY.pack(0, producer_id, first, last, last + 1))
            found = [record.offset for record in log.read(0, 1_000_000, "read_committed")]
            assert found == [0, 1, 5], (producer_id, first, last)


def test_a_large_file_of_zeros_is_not_read_to_its_end(tmp_path: Path):
    """[DUR-8] 8 GiB of zeros are entries of offset 0, and took minutes: markers ascend."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = Producer(log, 1)
        producer.write(2)
        producer.end(ABORT)
        write(log)
    (index,) = path.glob("*.txnindex")
    index.write_bytes(b"")
    os.truncate(index, 8 << 30)
    with segstore.open(path, read_only=True) as log:
        found = log.read(0, 1_000_000, "read_committed")
        assert found.aborted_transactions is not None
        assert [tuple(one) for one in found.aborted_transactions] == [(1, 0)]
        assert [record.offset for record in found] == [3]


def test_kafkas_profile_does_not_ask_whether_markers_ascend(tmp_path: Path):
    """[TXX-4] The safe profile does; here both find the same transactions."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        for number in (1, 2):
            producer = Producer(log, number)
            producer.write(2)
            producer.end(ABORT)
        write(log)
    (index,) = path.glob("*.txnindex")
    content = index.read_bytes()
    for recovery in ("kafka", "safe"):
        with segstore.open(path, recovery=recovery, **SETTINGS) as log:
            if recovery == "kafka":
                log.update_high_watermark(log.log_end_offset)
            index.write_bytes(content[ENTRY.size :] + content[: ENTRY.size])
            aborted = log.read(0, 1_000_000, "read_committed").aborted_transactions
            assert aborted is not None
            assert sorted((one[0], one[1]) for one in aborted) == [(1, 0), (2, 3)]
            index.write_bytes(content)
