"""``scan(on_damage="skip")`` reports each loss of the range that it was asked for, and no other.

Records that an index proves to be missing were left out silently where no ``.segstore`` was there.
With ``read_committed`` it reported transactions outside the range.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.records.memory_records import MemoryRecords
from segstore.types import AppendOrigin
from tests.kits.damaged_logs import batches_of
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.log.log_scan import LogScan

END = 60


def skipped(scan: LogScan) -> list[tuple[int, int | None, str]]:
    """Read all of a scan, and return what it left out."""
    scan.count()
    return [(one.first_offset, one.next_offset, one.code.value) for one in scan.skipped]


@pytest.fixture(params=[True, False])
def gap(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Segments at 0, 20 and 40, of which 30 to 39 are missing; with and without ``.segstore``."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(END):
            if number in (20, 40):
                log.roll()
            log.append([(number, b"key", b"value %d" % number)])
    file = path / f"{20:020d}.log"
    os.truncate(file, batches_of(file)[10].position)
    if not request.param:
        (path / ".segstore").unlink()
    return path


@pytest.mark.parametrize(
    ("start", "end", "lost"),
    [
        (None, None, [(30, 40)]),
        (0, 30, []),
        (0, 35, [(30, 35)]),
        (35, None, [(35, 40)]),
        (33, 36, [(33, 36)]),
        (40, None, []),
    ],
)
@pytest.mark.parametrize("isolation", ["high_watermark", "read_committed"])
def test_proven_losses_are_reported(
    gap: Path, start: int | None, end: int | None, lost: list[tuple[int, int]], isolation: str
) -> None:
    """[DUR-7, DUR-79] As far as they lie in the range."""
    with segstore.open(gap, read_only=True) as log:
        scan = log.scan(start, end, on_damage="skip", isolation=isolation)
        given = [record.offset for record in scan]
        assert skipped(scan) == [(*one, "RECORDS_MISSING") for one in lost]
        there = [*range(30), *range(40, END)]
        assert given == [
            one for one in there if (start or 0) <= one < (END if end is None else end)
        ]


def test_a_gap_without_proof_is_not_reported(gap: Path) -> None:
    """[DUR-64] Compaction may have left it."""
    (gap / ".segstore").unlink(missing_ok=True)
    for kind in ("index", "timeindex"):
        (gap / f"{20:020d}.{kind}").unlink()
    with segstore.open(gap, read_only=True) as log:
        assert skipped(log.scan(on_damage="skip")) == []


@pytest.mark.parametrize(
    ("start", "end", "undecided"),
    [
        (0, None, [(20, 25)]),
        (0, 10, []),
        (0, 20, []),
        (0, 22, [(20, 22)]),
        (22, None, [(22, 25)]),
        (25, None, []),
    ],
)
def test_transactions_outside_the_range_are_not_reported(
    tmp_path: Path, start: int, end: int | None, undecided: list[tuple[int, int]]
) -> None:
    """[DUR-79] Their end may be among what is damaged, but no record of them was asked for."""
    path = tmp_path / "orders-0"
    with segstore.open(path) as log:
        for _ in range(20):
            log.append([(None, b"before")])
        for sequence in range(5):
            log.append_as_leader(
                batch(
                    [(None, b"in a transaction")],
                    producer_id=7,
                    producer_epoch=0,
                    base_sequence=sequence,
                    transactional=True,
                ),
                leader_epoch=0,
            )
        log.append([(None, b"damaged")])
        marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=True, coordinator_epoch=0)
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)
        log.append([(None, b"behind")])
    file = path / f"{0:020d}.log"
    data = file.read_bytes()
    file.write_bytes(data.replace(b"damaged", b"Damaged"))

    with segstore.open(path, read_only=True) as log:
        scan = log.scan(start, end, isolation="read_committed", on_damage="skip")
        found = [one for one in skipped(scan) if one[2] == "RECORDS_MAYBE_MISSING"]
    assert found == [(*one, "RECORDS_MAYBE_MISSING") for one in undecided]
