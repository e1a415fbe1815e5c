"""Batches that are gone from the middle of a segment: a fetch refused, a scan went on behind."""

from __future__ import annotations

import pytest

from segstore.errors import CorruptLogError
from tests.kits.log_kit import at, offsets, two_segments

SIZE = len(at(0))


@pytest.fixture
def damaged(new_log, tmp_path):
    """A log of two segments; of the first, 0 to 5, the batches 2 and 3 are gone."""
    two_segments(new_log).close()
    file = tmp_path / "topic-0" / f"{0:020d}.log"
    content = file.read_bytes()
    file.write_bytes(content[: 2 * SIZE] + content[4 * SIZE :])
    return new_log(read_only=True)


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_a_scan_hands_out_what_comes_before_and_says_what_is_missing(damaged, start):
    """[DUR-50, DUR-79] Whether the range begins before the records that are missing, or in them."""
    found = []
    with pytest.raises(CorruptLogError) as refused:
        found.extend(record.offset for record in damaged.read(start))
    assert found == list(range(start, 2))
    error = refused.value
    assert error.file.endswith(f"{0:020d}.log")
    assert (error.position, error.found) == (2 * SIZE, "base offset 4")
    assert error.expected == f"base offset {max(start, 2)}"


def test_columns_and_counts_say_so_too(damaged):
    """[DUR-79] No way around it."""
    with pytest.raises(CorruptLogError, match="records before it are missing"):
        damaged.scan().to_arrow()
    with pytest.raises(CorruptLogError, match="records before it are missing"):
        damaged.scan().count()


def test_what_is_behind_can_be_read(damaged):
    """[DUR-51]"""
    assert offsets(damaged.read(4)) == [4, 5, 6, 7]
    assert offsets(damaged.scan(0, 2)) == [0, 1]
