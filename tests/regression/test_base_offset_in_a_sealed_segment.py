"""One flipped bit in the base offset of a segment's last batch: reads went on in a later segment.

No CRC covers a base offset, and a clean open reads no batch; the next segment's name tells.
"""

from __future__ import annotations

import shutil

import pytest

import segstore
from segstore.errors import CorruptLogError

RECORDS = 40


@pytest.fixture(params=["owned", "broker"])
def damaged(request, tmp_path):
    """Flip one bit of the base offset of offset 11, the last of its segment: bit by bit."""
    path = tmp_path / "orders-0"
    with segstore.open(path, internal_segment_bytes=1000) as log:
        for number in range(RECORDS):
            log.append([(1000 + number, b"k", b"%03d" % number * 30)])
        bases = [segment.base_offset for segment in log.segments()]
    if request.param == "broker":
        (path / ".segstore").unlink()
    end = bases[2]
    file = path / f"{bases[1]:020d}.log"
    whole = file.read_bytes()
    position = len(whole) // (end - bases[1]) * (end - bases[1] - 1)
    return path, file, whole, position, end


READS = {
    "scan": lambda log, end: [record.offset for record in log.scan(end - 3)],
    "short scan": lambda log, end: [record.offset for record in log.scan(end - 3, end)],
    "read": lambda log, end: [record.offset for record in log.read(end - 1, 100_000)],
    "slice": lambda log, end: log.slice(end - 1, 100_000).size_bytes,
    "committed": lambda log, end: list(log.read(end - 1, 100_000, "read_committed")),
    "arrow": lambda log, end: log.to_arrow(end - 3),
    "timestamp": lambda log, end: log.offset_for_timestamp(1000 + end - 1),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("way", READS)
def test_no_read_steps_over_it(damaged, way, read_only):
    """[DUR-7, DUR-54, DUR-79] Flips that raise the offset; those that lower it were noticed."""
    if way == "arrow":
        pytest.importorskip("pyarrow")
    path, file, whole, position, end = damaged
    for bit in range(0, 64, 5):
        data = bytearray(whole)
        data[position + bit // 8] ^= 1 << bit % 8
        offset = int.from_bytes(data[position : position + 8], "big", signed=True)
        if offset < end:
            continue
        copy = path.with_name(f"orders-{bit + 1}")
        shutil.copytree(path, copy)
        (copy / file.name).write_bytes(data)
        with segstore.open(copy, read_only=read_only) as log, pytest.raises(CorruptLogError):
            READS[way](log, end)


def test_what_lies_before_it_is_read(damaged):
    """A fetch ends before the batch, the next one is refused: a consumer skips nothing."""
    path, file, whole, position, end = damaged
    data = bytearray(whole)
    data[position + 7] ^= 0x10
    file.write_bytes(data)

    with segstore.open(path, read_only=True) as log:
        fetched = log.read(end - 3, 100_000)
        assert [record.offset for record in fetched] == [end - 3, end - 2]
        with pytest.raises(CorruptLogError, match="next segment"):
            log.read(end - 1, 100_000)
        assert [record.offset for record in log.scan(end)] == list(range(end, RECORDS))
