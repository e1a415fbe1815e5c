"""Whole batches in one damaged file, whatever its bytes are."""

from __future__ import annotations

import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore import _core
from segstore.errors import ReadIOError
from segstore.log.local.batch_search import ROW, BatchSearch
from segstore.log.local.segment import Segment
from segstore.records.compression import codec_table
from tests.kits.log_kit import at

NAME = "00000000000000000000.log"
BLOCK = 4096


class BadBlocks:
    """Directory and segment of a disk that cannot read some ranges."""

    def __init__(self, directory, segment, ranges):
        self.directory, self.segment, self.ranges = directory, segment, ranges
        self.base_offset, self.size_bytes = segment.base_offset, segment.size_bytes

    def check(self, start, end):
        for bad_start, bad_end in self.ranges:
            if start < bad_end and bad_start < end:
                raise ReadIOError("a read failed", file=NAME, position=max(start, bad_start))

    def read_range(self, name, position, size):
        self.check(position, position + size)
        return self.directory.read_range(name, position, size)

    def scan(self, *, start_position, end_position, **how):
        self.check(start_position, end_position)
        return self.segment.scan(start_position=start_position, end_position=end_position, **how)

    def scan_result(self, *, start_position, end_position, **how):
        self.check(start_position, end_position)
        piece = {"start_position": start_position, "end_position": end_position}
        return self.segment.scan_result(**piece, **how)


def rows_of(path, content, bad=()):
    """All rows of a file with that content, and the reasons."""
    path.mkdir(exist_ok=True)
    (path / NAME).write_bytes(content)
    directory = _core.Directory(path)
    context = _core.SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
    segment = Segment(context, 0)
    disk = BadBlocks(directory, segment, bad)
    reasons, moved = {}, []
    try:
        tables = list(BatchSearch(disk, disk, NAME, 0, reasons, moved.append).rows())
    finally:
        segment.close_quietly()
        directory.close()
    rows = np.concatenate([np.empty(0, ROW), *tables])
    assert sum(moved) == len(content)
    assert rows["position"].tolist() == [0, *np.cumsum(rows["size"]).tolist()][: len(rows)]
    assert rows["size"].sum() == len(content)
    assert {position for _, position in reasons} == set(rows["position"][~rows["whole"]].tolist())
    return rows, reasons


def offsets(rows):
    return rows["base_offset"][rows["whole"]].tolist()


def test_blocks_that_the_disk_cannot_read(tmp_path):
    """[DUR-33] cost the batches in them; those are told as such, and no other is touched."""
    batches = [at(offset, value=b"x" * 500) for offset in range(60)]
    content = b"".join(batches)
    ends = np.cumsum([len(one) for one in batches])
    bad = [(2 * BLOCK, 3 * BLOCK), (5 * BLOCK, 6 * BLOCK)]

    rows, reasons = rows_of(tmp_path, content, bad)

    touched = {
        offset
        for offset, end in enumerate(ends)
        if any(start < end and end - len(batches[offset]) < stop for start, stop in bad)
    }
    assert offsets(rows) == [offset for offset in range(60) if offset not in touched]
    assert [one.os_error for one in reasons.values()].count(errno.EIO) == 2


def test_every_block_is_bad(tmp_path):
    content = b"".join(at(offset) for offset in range(200))
    rows, _ = rows_of(tmp_path, content, [(0, len(content))])
    assert offsets(rows) == []
    assert len(rows) == 1


@pytest.mark.parametrize("position", range(0, 200, 7))
def test_bytes_that_were_put_in(tmp_path, position):
    """The batches move, and are found where they are now."""
    good = b"".join(at(offset) for offset in range(10))
    content = good[:position] + b"\x00\x02put in" + good[position:]
    size = len(at(0))
    rows, _ = rows_of(tmp_path, content)
    cut = set() if position % size == 0 else {position // size}
    assert offsets(rows) == [offset for offset in range(10) if offset not in cut]


WHOLE = {at(offset, value=b"v" * size) for offset in range(51) for size in range(7)}


@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=100),
            st.integers(0, 50).map(lambda offset: at(offset, value=b"v" * (offset % 7))),
            st.just(bytes(90)),
        ),
        max_size=12,
    )
)
def test_any_bytes(tmp_path_factory, pieces):
    """[DUR-85] every byte is in a row, and no whole batch between others is passed over."""
    rows, _ = rows_of(tmp_path_factory.mktemp("any"), b"".join(pieces))
    whole = [piece for piece in pieces if piece in WHOLE]
    assert offsets(rows) == [int.from_bytes(piece[:8]) for piece in whole]
