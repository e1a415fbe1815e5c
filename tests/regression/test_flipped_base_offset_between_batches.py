"""A flipped bit in a batch's base offset, which no CRC covers, showed its records at other offsets.

Only a batch whose first offset lay in the next segment was refused. [DUR-7, DUR-54, DUR-79]
"""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import CorruptLogError, CorruptRecordError

BATCHES, RECORDS = 5, 5


@pytest.fixture
def path(tmp_path):
    """A log of contiguous batches in two segments."""
    path = tmp_path / "orders-0"
    with segstore.open(path, segment_ms=None, durability="none") as log:
        for number in range(BATCHES):
            log.append([(None, b"%d.%d" % (number, row)) for row in range(RECORDS)])
            if number == 2:
                log.roll()
    return path


def move(path, batch: int, base_offset: int) -> None:
    file = path / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    position = batch * len(data) // 3
    data[position : position + 8] = base_offset.to_bytes(8, "big")
    file.write_bytes(data)


def values_by_reads(log, **how) -> list[tuple[int, bytes]]:
    found, offset = [], 0
    while offset < log.log_end_offset:
        records = list(log.read(offset, 1 << 20, **how))
        found += [(record.offset, bytes(record.value)) for record in records]
        offset = records[-1].offset + 1
    return found


@pytest.mark.parametrize(
    ("batch", "base_offset"), [(2, 14), (2, 11), (1, 6), (1, 3), (1, 9), (0, 1)]
)
@pytest.mark.parametrize("how", [{}, {"isolation": "read_committed"}], ids=["plain", "committed"])
def test_no_read_shows_records_at_other_offsets(path, batch, base_offset, how):
    move(path, batch, base_offset)
    with segstore.open(path, read_only=True) as log, pytest.raises(CorruptLogError):
        values_by_reads(log, **how)


@pytest.mark.parametrize(("batch", "base_offset"), [(2, 14), (1, 6), (1, 3)])
def test_no_table_and_no_slice_does(path, batch, base_offset):
    move(path, batch, base_offset)
    with segstore.open(path, read_only=True) as log:
        with pytest.raises(CorruptLogError):
            log.read(0, 1 << 20).to_arrow()
        with pytest.raises(CorruptLogError):
            list(log.slice(0, 1 << 20).read())


def test_a_gap_that_was_written_is_none(tmp_path):
    """A follower takes gaps over; what was read outlives its log."""
    leader, path = tmp_path / "leader-0", tmp_path / "follower-0"
    with segstore.open(leader) as log:
        for row in range(4):
            log.append([(None, b"%d" % row)])
        batches = [bytes(log.read(offset, 1).records) for offset in range(4)]
    with segstore.open(path) as log:
        for row in (0, 1, 3):
            log.append_as_follower(batches[row], 0)
        fetched = log.read(0, 1 << 20)
        assert [record.offset for record in fetched] == [0, 1, 3]
        assert [record.offset for record in log.read(2, 1 << 20)] == [3]
        later = log.read(0, 1 << 20)
    assert [record.offset for record in later] == [0, 1, 3]


@pytest.mark.parametrize(("position", "value"), [(8, b"\0\0\0\3"), (16, b"\x09")])
def test_what_lies_before_a_header_that_is_none_is_shown(path, position, value):
    """The look at the order must not tell of it before the reader comes there."""
    file = path / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    position += len(data) // 3 * 2
    data[position : position + len(value)] = value
    file.write_bytes(data)
    shown = []
    with segstore.open(path, read_only=True) as log:
        records = (record.offset for record in log.read(0, 1 << 20))
        with pytest.raises(CorruptRecordError):
            shown.extend(records)
    assert shown == list(range(2 * RECORDS))


def shown_before_the_error(fetched):
    shown = []
    records = iter(fetched)
    with pytest.raises(CorruptLogError) as caught:
        shown.extend((record.offset, bytes(record.value)) for record in records)
    assert caught.value.file.endswith(f"{0:020d}.log")
    return shown


def written(start, end):
    return [
        (offset, b"%d.%d" % (offset // RECORDS, offset % RECORDS)) for offset in range(start, end)
    ]


@pytest.mark.parametrize(
    ("batch", "base_offset", "start", "end"),
    [
        (2, 14, 0, 10),  # up: there is a gap
        (2, 8, 0, 10),  # down: into the batch before, which follows another one
        (2, 14, 5, 10),  # the first batch is the one that was asked for
        (1, 6, 0, 5),
        (1, 3, 0, 0),  # one of the first two reaches into the other: nobody knows which
        (2, 14, 7, 7),
    ],
)
def test_what_lies_before_a_batch_at_another_offset_is_shown(path, batch, base_offset, start, end):
    """[DUR-79] It raised before the first record; no record is shown at another offset."""
    move(path, batch, base_offset)
    with segstore.open(path, read_only=True) as log:
        for fetched in (log.read(start, 1 << 20), log.slice(start, 1 << 20)):
            assert shown_before_the_error(fetched) == written(start, end)


def test_a_stream_of_tables_shows_it_too(path):
    """[DUR-79] Batch by batch, as they are asked for."""
    pyarrow = pytest.importorskip("pyarrow")
    move(path, 2, 14)
    with segstore.open(path, read_only=True) as log:
        reader = pyarrow.RecordBatchReader.from_stream(log.read(0, 1 << 20))
        assert reader.read_next_batch()["offset"].to_pylist() == list(range(10))
        with pytest.raises(pyarrow.ArrowInvalid, match="not what was written"):
            reader.read_next_batch()
