"""A scan without an offset index walked from the segment's beginning for each megabyte.

And `count` trusted the number of records in a header that it had not checked.
"""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import CorruptRecordError, InvalidRecordError
from segstore.log.local.segment import Segment
from tests.kits.damaged_logs import batches_of, build


def test_a_scan_goes_on_where_its_last_chunk_ended(tmp_path, monkeypatch):
    """[DUR-61] One look-up for each segment."""
    with segstore.open(tmp_path / "a-0", durability="none") as log:
        for _ in range(800):
            log.append([(None, b"v" * 5000)])
        positions = []
        read = Segment.read

        def noted(self, *args, **options):
            fetched = read(self, *args, **options)
            positions.append((options.get("start_position", 0), fetched.position))
            return fetched

        monkeypatch.setattr(Segment, "read", noted)
        assert len(log.scan().tuples()) == 800
        assert log.scan(790).count() == 10
    assert len(positions) > 4
    *chunks, last = positions
    assert chunks[0] == (0, 0)
    assert all(asked == found > 0 for asked, found in chunks[1:])
    assert last[0] == 0 < last[1]


def test_a_read_from_a_position_finds_what_the_index_finds(tmp_path):
    """[SEG-19] Also a position behind the end, which is none."""
    directory = build(tmp_path / "orders-0", clean=True)
    with directory.open(read_only=True) as log:
        segment = log.segments()[0]
        size = segment.size_bytes
        for batch in batches_of(directory.file(segment.base_offset))[1:]:
            by_index = segment.read(batch.base_offset, 200, size, min_one_message=True)
            by_position = segment.read(
                batch.base_offset, 200, size, min_one_message=True, start_position=batch.position
            )
            assert bytes(by_index) == bytes(by_position)
            assert by_position.position == batch.position
        last = batch.base_offset
        for position in (size, size + 1, 2**31 - 1):
            assert (
                segment.read(last, 200, -1, min_one_message=True, start_position=position) is None
            )


@pytest.mark.parametrize("check_crcs", [True, False])
def test_count_does_not_believe_a_damaged_header(tmp_path, check_crcs):
    """[DUR-79, DUR-87]"""
    directory = build(tmp_path / "orders-0", clean=True)
    first = directory.file(0)
    data = bytearray(first.read_bytes())
    data[57:61] = (1_000_000).to_bytes(4, "big")
    first.write_bytes(data)
    with (
        directory.open(read_only=True) as log,
        pytest.raises((CorruptRecordError, InvalidRecordError)),
    ):
        log.scan(check_crcs=check_crcs).count()
