"""Kafka's FileLogInputStreamTest, RemoteLogInputStreamTest and ByteBufferLogInputStreamTest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, LogSegment, SegmentContext, scan_batches
from segstore.cli.batch_file import BatchFile
from segstore.errors import CorruptRecordError
from segstore.records.compression import codec_table
from segstore.types import Codec
from tests.kits.records_kit import COMBINATIONS, as_magic, build, records, rows, simple

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

LOG = f"{0:020}.log"
ONE_RECORD_EACH = [[(0, 3241324, b"a", b"foo")], [(1, 234280, b"b", b"bar")]]
SEVERAL_RECORDS = [
    [(0, 3241324, b"a", b"1"), (1, 234280, b"b", b"2")],
    [(1, 238423489, b"c", b"3"), (2, 897839, None, b"4"), (3, 8234020, b"e", None)],
]


def scanned(folder: Path, data: bytes, scanner: str) -> tuple[bytes, np.ndarray]:
    """The table of the batches of a file, or of the same bytes as a stream gives them."""
    (folder / LOG).write_bytes(data)
    if scanner == "stream":  # a segment is read through a window, piece by piece
        context = SegmentContext(
            Directory(str(folder)), codec_table(), writable=False, heap_indexes=True
        )
        segment = LogSegment(context, 0)
        table, result = segment.scan()
        segment.close()
    else:
        table, result = scan_batches(data, rules="file")
        with BatchFile(str(folder / LOG)) as file:
            assert [batch.position for batch in file.batches()] == table["position"].tolist()
            assert all(batch.is_valid for batch in file.batches())
    assert result.why is None
    assert result.stop == "complete"
    return data, table


@pytest.mark.parametrize("scanner", ["file", "stream"])
@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
def test_two_batches_of_one_record(tmp_path: Path, magic: int, codec: Codec, scanner: str):
    """[format.md 9.1] FileLogInputStreamTest.testSimpleBatchIteration,
    RemoteLogInputStreamTest.testSimpleBatchIteration."""
    parts = [build(part, magic, codec) for part in ONE_RECORD_EACH]

    data, table = scanned(tmp_path, b"".join(parts), scanner)

    assert table["magic"].tolist() == [magic, magic]
    assert [attributes & 7 for attributes in table["attributes"]] == [codec, codec]
    assert table["last_offset"].tolist() == [0, 1]
    assert table["max_timestamp"].tolist() == ([-1, -1] if magic == 0 else [3241324, 234280])
    assert table["producer_id"].tolist() == [-1, -1]
    assert table["base_sequence"].tolist() == [-1, -1]
    if magic == 2:
        assert table["records_count"].tolist() == [1, 1]
        assert table["base_offset"].tolist() == [0, 1]
    assert rows(data) == as_magic([*ONE_RECORD_EACH[0], *ONE_RECORD_EACH[1]], magic)


@pytest.mark.parametrize("scanner", ["file", "stream"])
@pytest.mark.parametrize(
    ("magic", "codec"), [(m, c) for m, c in COMBINATIONS if m == 2 or c is not Codec.NONE]
)
def test_two_batches_of_several_records(tmp_path: Path, magic: int, codec: Codec, scanner: str):
    """[format.md 9.1] FileLogInputStreamTest.testBatchIterationWithMultipleRecordsPerBatch,
    RemoteLogInputStreamTest.testBatchIterationWithMultipleRecordsPerBatch."""
    parts = [build(part, magic, codec) for part in SEVERAL_RECORDS]

    data, table = scanned(tmp_path, b"".join(parts), scanner)

    assert table["last_offset"].tolist() == [1, 3]
    assert table["max_timestamp"].tolist() == ([-1, -1] if magic == 0 else [3241324, 238423489])
    if magic == 2:
        assert table["base_offset"].tolist() == [0, 1]
        assert table["records_count"].tolist() == [2, 3]
    assert rows(data) == as_magic([*SEVERAL_RECORDS[0], *SEVERAL_RECORDS[1]], magic)


@pytest.mark.parametrize("scanner", ["file", "stream"])
@pytest.mark.parametrize("codec", list(Codec))
def test_idempotent_and_transactional_batches(tmp_path: Path, codec: Codec, scanner: str):
    """[format.md 4] FileLogInputStreamTest.testBatchIterationV2,
    RemoteLogInputStreamTest.testBatchIterationV2."""
    common = {"producer_id": 83843, "producer_epoch": 15, "partition_leader_epoch": 9832}
    first = [
        (15, 3241324, b"a", b"1"),
        (16, 234280, b"b", b"2", [("header-key", b"header-value")]),
    ]
    second = [(27, 238423489, b"c", b"3"), (28, 897839, None, b"4"), (29, 8234020, b"e", None)]
    parts = [
        build(first, codec=codec, base_sequence=234, **common),
        build(second, codec=codec, base_sequence=236, transactional=True, **common),
    ]

    data, table = scanned(tmp_path, b"".join(parts), scanner)

    assert table["base_offset"].tolist() == [15, 27]
    assert table["last_offset"].tolist() == [16, 29]
    assert table["producer_id"].tolist() == [83843, 83843]
    assert table["producer_epoch"].tolist() == [15, 15]
    assert table["base_sequence"].tolist() == [234, 236]
    assert table["partition_leader_epoch"].tolist() == [9832, 9832]
    assert [bool(attributes & 0x10) for attributes in table["attributes"]] == [False, True]
    with BatchFile(str(tmp_path / LOG)) as file:
        assert [batch.last_sequence for batch in file.batches()] == [235, 238]
    found = records(data)
    assert [record.sequence for record in found] == [234, 235, 236, 237, 238]
    assert found[1].headers == ((b"header-key", b"header-value"),)
    assert rows(data) == [row[:4] for row in [*first, *second]]


@pytest.mark.parametrize("position", [2**31 - 1, 0])
def test_an_empty_file_has_no_batches(tmp_path: Path, position: int):
    """[format.md 9.1] FileLogInputStreamTest.testNextBatchSelectionWithMaxedParams,
    FileLogInputStreamTest.testNextBatchSelectionWithZeroedParams: no overflow."""
    (tmp_path / LOG).write_bytes(b"")

    with BatchFile(str(tmp_path / LOG)) as file:
        assert list(file.batches(0, position)) == []
    table, result = scan_batches(b"", rules="file", max_batch_bytes=max(position, 14))
    assert (len(table), result.why) == (0, None)


def two_batches() -> tuple[bytes, int]:
    """Two batches of two records, and the size of the first."""
    first = build(simple(0, (15, 20)))
    return first + build(simple(2, (30, 40))), len(first)


def test_an_incomplete_batch_at_the_end_is_ignored():
    """[format.md 9.1] ByteBufferLogInputStreamTest.iteratorIgnoresIncompleteEntries."""
    data, _ = two_batches()

    table, result = scan_batches(data[:-5])

    assert table["last_offset"].tolist() == [1]
    assert (result.stop, result.why) == ("incomplete", None)


def test_a_batch_that_is_too_small_is_corrupt():
    """[format.md 9.1] ByteBufferLogInputStreamTest.iteratorRaisesOnTooSmallRecords."""
    data, size = two_batches()
    damaged = data[: size + 8] + (9).to_bytes(4) + data[size + 12 :]

    table, result = scan_batches(damaged)

    assert table["last_offset"].tolist() == [1]
    assert isinstance(result.why, CorruptRecordError)
