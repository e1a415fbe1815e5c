"""One flipped bit of a batch's last offset took the batch out of every read by rows, silently.

The sign of ``lastOffsetDelta``: it said that it ends before it begins, and so before the range that
was asked for, and what lies outside is left out before its checksum is looked at. Found by a new
user; `segstore verify` told it, an iteration did not.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import MemoryRecords
from segstore.errors import SegstoreError
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog

RECORDS, EACH, END = 20, 4, 17
HEADER_BYTES = 61


def read_on(log: UnifiedLog, start: int) -> list[int]:
    """As a consumer: the batches of a fetch, and what is behind them."""
    offsets: list[int] = []
    while start < END:
        records = [record.offset for record in MemoryRecords(log.read(start, 150).records)]
        offsets += [offset for offset in records if start <= offset < END]
        if not records:
            break
        start = records[-1] + 1
    return offsets


DOORS: dict[str, Callable[[UnifiedLog, int], list[int]]] = {
    "iteration": lambda log, start: [record.offset for record in log.scan(start, END)],
    "tuples": lambda log, start: [row[0] for row in log.scan(start, END).tuples()],
    "arrow": lambda log, start: log.scan(start, END).to_arrow()["offset"].to_pylist(),
    "batches": lambda log, start: [
        record.offset
        for one in log.scan(start, END).batches()
        for record in one
        if start <= record.offset < END
    ],
    "fetches": read_on,
}


@pytest.fixture(params=["sealed", "active"])
def file(request, tmp_path: Path) -> Path:
    """Five batches of four records each; of one segment, closed cleanly."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for _ in range(RECORDS // EACH):
            log.append(MemoryRecords.with_records([(None, b"value")] * EACH))
        if request.param == "sealed":
            log.roll()
            log.append([(None, b"behind it")])
    return path / f"{0:020d}.log"


READS = list(itertools.product(DOORS, (0, 1, 4, 6, 8)))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_is_read_is_all_or_an_error(file: Path, number: int):
    """[DUR-7, DUR-50, DUR-79] Whichever bit of a header flips, no record is left out silently.

    An open that finds that records are missing at the end tells it itself. Each bit has one open,
    and begins with another read.
    """
    written = file.read_bytes()
    size = len(batch([(None, b"value")] * EACH))
    silent = []
    for flip, (byte, bit) in enumerate(itertools.product(range(HEADER_BYTES), range(8))):
        data = bytearray(written)
        data[number * size + byte] ^= 1 << bit
        file.write_bytes(data)
        first = flip % len(READS)
        with suppress(SegstoreError), segstore.open(file.parent, read_only=True) as log:
            for door, start in READS[first:] + READS[:first]:
                found = None
                with suppress(SegstoreError):
                    found = DOORS[door](log, start)
                if found not in (None, list(range(start, END))) and log.report.damage is None:
                    silent.append((door, byte, bit, start, found))

    assert silent == []
