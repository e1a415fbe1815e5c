"""A damaged segment: more records were called lost than were, up to the next segment all of them.

Behind the damage batches are whole, wherever they begin, and a salvage keeps them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import segstore
from segstore.log.check.partition_check import check_partition
from segstore.log.findings.finding_text import ranges_text

SEALED, ACTIVE = f"{0:020d}.log", f"{12:020d}.log"


class Batch(NamedTuple):
    file: str
    begin: int
    end: int
    first: int
    last: int


@pytest.fixture(params=["close", "close_quietly"])
def stopped(request, new_log) -> tuple[Path, list[Batch]]:
    """Two segments of four batches of three records: the third of each is large."""
    log, batches = new_log(), []
    for number in range(8):
        if number == 4:
            log.roll()
        size = 6000 if number % 4 == 2 else 10
        begin = log.segments()[-1].size_bytes
        info = log.append([(None, bytes([number]) * size)] * 3)
        file = f"{log.segments()[-1].base_offset:020d}.log"
        end = log.segments()[-1].size_bytes
        batches.append(Batch(file, begin, end, info.base_offset, info.last_offset))
    log.flush()
    getattr(log, request.param)()
    return Path(log.path), batches


def damage(path: Path, batch: Batch, how: str) -> None:
    """Hurt one batch, and no other."""
    data = bytearray((path / batch.file).read_bytes())
    if how == "flip":
        data[batch.end - 3] ^= 1
    elif how == "length":
        data[batch.begin + 9] ^= 1
    elif how == "take out of its middle":
        del data[batch.begin + 40 : batch.begin + 80]
    elif how == "take out":
        del data[batch.begin : batch.end]
    (path / batch.file).write_bytes(data)


def said_lost(path: Path) -> set[int]:
    """Return the offsets that the findings of one file call lost."""
    return {
        offset
        for finding in check_partition(str(path)).findings
        for first, last in finding.lost
        for offset in range(first, last + 1)
    }


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("how", ["flip", "length", "take out of its middle", "take out"])
def test_exactly_what_is_lost_is_named(stopped, how, number):
    """[DUR-51, DUR-105] of a batch that is hurt its three records, and no other."""
    path, batches = stopped
    hurt = batches[number]
    damage(path, hurt, how)
    assert said_lost(path) == {*range(hurt.first, hurt.last + 1)}


@pytest.mark.parametrize("number", [1, 2, 5, 6])
def test_two_runs(stopped, number):
    """[DUR-51] between them lies what is whole; that is said too."""
    path, batches = stopped
    damage(path, batches[number], "flip")
    damage(path, batches[number // 4 * 4 + 3], "length")
    lost = {
        offset
        for batch in (batches[number], batches[number // 4 * 4 + 3])
        for offset in range(batch.first, batch.last + 1)
    }
    assert said_lost(path) == lost


def test_a_tail_that_is_gone_beside_damage_elsewhere(stopped):
    """[DUR-51] what the recovery point knows of is named, too."""
    path, batches = stopped
    damage(path, batches[1], "flip")
    damage(path, batches[7], "take out")
    assert said_lost(path) == {3, 4, 5, 21, 22, 23}


def test_a_reader_does_not_call_what_it_has_not_looked_at_missing(stopped):
    """[DUR-71] bytes that are no batch end what it knows of a segment, which is its headers."""
    path, batches = stopped
    damage(path, batches[1], "take out of its middle")
    with segstore.open(path, read_only=True) as log:
        told = " ".join(log.report.warnings)
        assert told == f"{SEALED} ends in bytes that are no batch, behind offset 5"
        assert log.report.damage == told


def test_room_behind_a_sealed_segment_is_no_damage(stopped):
    """[DUR-80] a crash undid the trim of the roll; the next segment goes on."""
    path, _ = stopped
    with (path / SEALED).open("ab") as file:
        file.write(bytes(5000))
    with segstore.open(path, read_only=True) as log:
        assert log.report.warnings == []
        assert log.report.damage is None


def test_the_words():
    assert ranges_text([(2, 2)]) == "record 2"
    assert ranges_text([(2, 3)]) == "records 2 to 3"
    assert ranges_text([(2, 3), (5, 5), (7, None)]) == "records 2 to 3, 5 and from 7 on"
    many = [(10 * number, 10 * number + 1) for number in range(9)]
    assert ranges_text(many) == (
        "records 0 to 1, 10 to 11, 20 to 21, 30 to 31, 40 to 41 and 4 more ranges"
    )
