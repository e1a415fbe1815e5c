"""Segments of two leaders that overlap within transactions: what is cut is restored as it was.

The oracle is the log itself: records, committed view, aborted transactions, producers.
"""

from __future__ import annotations

import base64
import random
import uuid
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.log.producers.producer_snapshot import parse_snapshot
from segstore.remote.storage.segment_files import STORAGE_FOLDER
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

if TYPE_CHECKING:
    from pathlib import Path

NAME = "orders-0"
SUFFIXES = ("log", "index", "timeindex", "txnindex")
EVERY_EPOCH = 2**31 - 1


def write_first(directory: Path, chosen: random.Random) -> None:
    """Transactions of three producers, and records of none; the last one is an empty segment."""
    with segstore.open(directory, durability="none", index_interval_bytes=100) as log:
        producers = {number: Producer(log, number) for number in (1, 2, 3)}
        open_ones: set[int] = set()
        for _ in range(80):
            number, what = chosen.randint(1, 3), chosen.random()
            if what < 0.1:
                log.roll()
            elif what < 0.2:
                write(log, chosen.randint(1, 5))
            elif what < 0.45 and number in open_ones:
                producers[number].end(chosen.choice([ABORT, COMMIT]))
                open_ones.discard(number)
            else:
                producers[number].write(chosen.randint(1, 4))
                open_ones.add(number)
        log.roll()


def write_second(source: Path, directory: Path, chosen: random.Random) -> None:
    """The same batches as a follower gets them, in other segments."""
    data = b"".join(path.read_bytes() for path in sorted(source.glob("*.log")))
    position = 0
    with segstore.open(directory, durability="none", index_interval_bytes=100) as log:
        while position < len(data):
            end = position + 12 + int.from_bytes(data[position + 8 : position + 12])
            log.append_as_follower(data[position:end], EVERY_EPOCH)
            position = end
            if chosen.random() < 0.1:
                log.roll()
        log.roll()


def copy_segments(source: Path, storage: Path, first: int, until: int, topic_id: str) -> None:
    """Copy the sealed segments that hold offsets of ``[first, until)`` [TIER-95]."""
    folder = storage / f"{NAME}-{topic_id}"
    folder.mkdir(parents=True, exist_ok=True)
    bases = sorted(int(path.stem) for path in source.glob("*.log"))
    for base, following in pairwise(bases):
        if following <= first or base >= until:
            continue
        stem = f"{base:020}-{kafka_id(uuid.uuid4())}"
        for suffix in SUFFIXES:
            path = source / f"{base:020}.{suffix}"
            if path.exists():
                (folder / f"{stem}.{suffix}").write_bytes(path.read_bytes())
        (folder / f"{stem}.leader_epoch_checkpoint").write_text("0\n1\n0 0\n")
        snapshot = (source / f"{following:020}.snapshot").read_bytes()
        (folder / f"{stem}.snapshot").write_bytes(snapshot)


def kafka_id(number: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=")


def aborted(directory: Path) -> bytes:
    """All entries of the transaction indexes, in order."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.txnindex")))


def check(folder: Path, seed: int) -> bool:
    """Restore, and compare with the log; return whether a segment was cut."""
    chosen = random.Random(seed)
    first, second = folder / "first" / NAME, folder / "second" / NAME
    write_first(first, chosen)
    write_second(first, second, chosen)
    end = max(int(path.stem) for path in first.glob("*.log"))
    low, high = sorted(chosen.sample(range(1, end), 2))
    storage, topic_id = folder / STORAGE_FOLDER, kafka_id(uuid.uuid4())
    copy_segments(first, storage, 0, high, topic_id)
    copy_segments(second, storage, low, end, topic_id)
    (report,) = segstore.restore_bucket(storage, folder / "data")
    restored = folder / "data" / NAME

    assert report.log_end_offset == end
    with (
        segstore.open(first, read_only=True) as log,
        segstore.open(restored, read_only=True) as found,
    ):
        assert found.verify().ok
        assert list(found.scan()) == list(log.scan())
        assert list(found.scan(isolation="read_committed")) == list(
            log.scan(isolation="read_committed")
        )
        assert found.last_stable_offset == log.last_stable_offset
    assert aborted(restored) == aborted(first)
    for path in restored.glob("*.snapshot"):
        for other in (first / path.name, second / path.name):
            if other.exists():
                ours, theirs = (
                    {one.producer_id: one for one in parse_snapshot(each.read_bytes())}
                    for each in (path, other)
                )
                assert ours == theirs
    bases = {int(path.stem) for path in restored.glob("*.log")}
    names = {f"{base:020}.index" for base in bases}
    assert names <= {path.name for path in restored.iterdir()}
    whole = {(path.name[:20], path.stat().st_size) for path in storage.rglob("*.log")}
    return any((path.stem, path.stat().st_size) not in whole for path in restored.glob("*.log"))


@pytest.mark.parametrize("part", range(4))
def test_cut_segments_are_restored_as_the_log_was(tmp_path, part):
    """[SEG-40] [SEL-6] [SEL-11] Transaction indexes entry by entry, snapshots by producer."""
    cuts = 0
    for seed in range(5 * part, 5 * part + 5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        cuts += check(folder, seed)
    assert cuts > 1


@pytest.mark.long
def test_many_cut_segments_are_restored_as_the_log_was(tmp_path):
    """The same, of many logs."""
    for seed in range(1000, 1400):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(folder, seed)
