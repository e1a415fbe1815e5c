"""Salvage dropped a good batch behind the gap that a truncation within another had left.

The first mend took the batch before the gap, its base offset flipped to just that offset, for the
one behind it, and dropped the true one. A later one dropped one of two batches of a log with two
gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from pathlib import Path

EACH = 4
CLOSES = pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])


def four(number: int) -> bytes:
    return batch([(None, b"%02d" % number)] * EACH)


def salvaged(path: Path) -> tuple[bool, list[tuple[int, bytes | None]]]:
    """Whether all was copied, and the first record of each batch."""
    target = path.parent / "s-0"
    report = segstore.salvage(path, target)
    with segstore.open(target, read_only=True) as log:
        found = {record.value: record.offset for record in reversed(list(log))}
    return report.complete, sorted((offset, value) for value, offset in found.items())


def write(path: Path, count: int, truncate: int, more: int, *, is_closed: bool) -> None:
    log = segstore.open(path, durability="sync")
    for number in range(count):
        log.append_as_leader(four(number), 0)
    log.truncate_to(truncate)
    for number in range(more):
        log.append_as_leader(four(50 + number), 0)
    (log.close if is_closed else log.close_quietly)()


def follow(path: Path, offsets: list[int], *, rolls: bool = False, **settings: int) -> None:
    """Append batches as a compacted leader gives them."""
    with segstore.open(path, durability="sync", **settings) as log:
        if rolls:
            log.roll()
        for number, offset in enumerate(offsets):
            data = four(number)
            log.append_as_follower(offset.to_bytes(8, "big") + data[8:12] + bytes(4) + data[16:], 0)


def move(path: Path, number: int, offset: int) -> None:
    """Change the base offset of a batch, which no CRC covers."""
    file, at = path / f"{0:020d}.log", number * len(four(0))
    data = file.read_bytes()
    file.write_bytes(data[:at] + offset.to_bytes(8, "big") + data[at + 8 :])


@CLOSES
@pytest.mark.parametrize("more", [1, 2])
def test_the_gap_of_a_truncation_is_one_of_the_log(tmp_path, is_closed, more):
    """[DUR-2, DUR-62] What continues it was acknowledged, and is copied."""
    path = tmp_path / "o-0"
    write(path, 2, 7, more, is_closed=is_closed)
    behind = [(7, b"50"), (11, b"51")][:more]
    assert salvaged(path) == (True, [(0, b"00"), *behind])


@CLOSES
@pytest.mark.parametrize(
    ("count", "moved", "kept"), [(2, 0, []), (3, 0, [(4, b"01")]), (3, 1, [(0, b"00")])]
)
def test_a_batch_that_jumps_behind_the_gap(tmp_path, is_closed, count, moved, kept):
    """[DUR-7, DUR-50] It is left out and told, and the true one is copied."""
    path, cut = tmp_path / "o-0", EACH * count - 1
    write(path, count, cut, 2, is_closed=is_closed)
    move(path, moved, cut)
    assert salvaged(path) == (False, [*kept, (cut, b"50"), (cut + EACH, b"51")])


@pytest.mark.parametrize("more", [1, 2])
def test_a_batch_that_jumps_to_where_a_log_was_taken_over(tmp_path, more):
    """[DUR-7, DUR-50] Below that nothing tells of gaps; one bit makes 12 of 8."""
    path = tmp_path / "o-0"
    write(path, 3, 12, 0, is_closed=True)
    (path / ".segstore").unlink()
    with segstore.open(path) as log:
        for number in range(more):
            log.append_as_leader(four(50 + number), 0)
    move(path, 2, 12)
    behind = [(12, b"50"), (16, b"51")][:more]
    assert salvaged(path) == (False, [(0, b"00"), (4, b"01"), *behind])


def read(path: Path) -> list[tuple[int, bytes | None]]:
    with segstore.open(path, read_only=True) as log:
        return [(record.offset, record.value) for record in log]


def assert_all_is_copied(path: Path) -> None:
    """Gaps are no loss of such a log."""
    target = path.parent / "s-0"
    report = segstore.salvage(path, target)
    assert read(target) == read(path)
    assert report.complete


@pytest.mark.parametrize(
    "offsets", [[0, 6, 12], [0, 6, 12, 16], [0, 5, 10, 15], [0, 4, 10, 16, 20]]
)
def test_a_followers_gaps(tmp_path, offsets):
    """[DUR-2, DUR-64] As a compacted leader gives its batches: none of them is dropped."""
    path = tmp_path / "o-0"
    follow(path, offsets)
    assert_all_is_copied(path)


@CLOSES
@pytest.mark.parametrize("more", [1, 2, 3])
@pytest.mark.parametrize("cut", [3, 7])
def test_two_truncations_each_within_a_batch(tmp_path, is_closed, more, cut):
    """[DUR-2, DUR-64] The first of them may be within the first batch of a file."""
    path = tmp_path / "o-0"
    write(path, 2, cut, 2, is_closed=True)
    log = segstore.open(path, durability="sync")
    end = log.log_end_offset
    log.truncate_to(end - 2)
    for number in range(more):
        log.append_as_leader(four(60 + number), 0)
    (log.close if is_closed else log.close_quietly)()
    assert_all_is_copied(path)


@pytest.mark.parametrize(
    ("segment_bytes", "offsets", "behind"),
    [(1000, [0], [6, 10, 16]), (1000, [0, 6], [12]), (120, [0, 6], [12])],
    ids=["goes on", "another file", "begins its file"],
)
def test_gaps_that_leave_no_doubt(tmp_path, segment_bytes, offsets, behind):
    """[DUR-2, DUR-64] What is in front has a place, by others or by its file."""
    path = tmp_path / "o-0"
    follow(path, offsets, internal_segment_bytes=segment_bytes)
    follow(path, behind, rolls=segment_bytes == 1000 and len(offsets) > 1)
    report = segstore.salvage(path, tmp_path / "s-0")
    assert read(tmp_path / "s-0") == read(path)
    assert report.complete
