"""Whole batches that had vanished from the midst of a file took a good neighbour along.

In a log without gaps, of two batches that do not follow one another one was taken for wrong. Where
each of them has another that shows its offsets to be right, what lay between them is gone [DUR-50].
"""

from __future__ import annotations

import itertools

import pytest

import segstore

COUNT = 12


@pytest.fixture(params=["closed", "unclean"])
def path(request, tmp_path):
    """Records 0 to 11, a batch each, in segments of four."""
    path = tmp_path / "a-0"
    with segstore.open(path) as log:
        for number in range(COUNT):
            log.append([(b"k", b"%02d" % number)])
            if number % 4 == 3 and number < COUNT - 1:
                log.roll()
    if request.param == "unclean":
        (path / ".kafka_cleanshutdown").unlink()
    return path


def _take_out(path, gone) -> None:
    for base in {number - number % 4 for number in gone}:
        file = path / f"{base:020d}.log"
        content = file.read_bytes()
        size = len(content) // 4
        kept = [number for number in range(base, base + 4) if number not in gone]
        file.write_bytes(b"".join(content[(n - base) * size : (n - base + 1) * size] for n in kept))


def _ranges(offsets):
    """Return runs of consecutive numbers as (first, behind the last)."""
    found = []
    for _, run in itertools.groupby(enumerate(sorted(offsets)), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        found.append((numbers[0], numbers[-1] + 1))
    return found


CASES = [
    {1},
    {1, 2},
    {2},
    {0},
    {0, 1},
    {3},
    {5, 6},
    {4, 5, 6},
    {9},
    {9, 10},
    {8, 9},
    {11},
    {1, 5, 9},
    {2, 3, 4, 5},
    {0, 1, 2, 3},
]


@pytest.mark.parametrize("gone", CASES, ids=str)
def test_what_is_intact_is_kept_and_the_loss_named(path, tmp_path, gone):
    """[DUR-62]"""
    _take_out(path, gone)
    report = segstore.salvage(path, tmp_path / "out" / "a-0")
    assert [(lost.first_offset, lost.next_offset) for lost in report.lost] == _ranges(gone)
    assert report.batches == COUNT - len(gone)
    assert report.lost_bytes == 0
    assert not [text for text in report.warnings if "kept with the offsets" in text]
    with segstore.open(tmp_path / "out" / "a-0") as log:
        assert [record.offset for record in log] == sorted(set(range(COUNT)) - gone)
        assert log.log_end_offset == COUNT


@pytest.mark.parametrize("number", range(COUNT))
def test_one_whose_base_offset_changed_is_still_told(path, tmp_path, number):
    """[DUR-50] Its neighbours go on without it: it is the wrong one."""
    base = number - number % 4
    file = path / f"{base:020d}.log"
    content = bytearray(file.read_bytes())
    content[(number - base) * len(content) // 4 + 6] ^= 1
    file.write_bytes(content)
    report = segstore.salvage(path, tmp_path / "out" / "a-0")
    assert [(lost.first_offset, lost.next_offset) for lost in report.lost] == [(number, number + 1)]
    with segstore.open(tmp_path / "out" / "a-0") as log:
        assert [record.offset for record in log] == sorted(set(range(COUNT)) - {number})
