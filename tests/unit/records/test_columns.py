"""Pieces of columns: how large, in which order, and what happens at damage."""

from __future__ import annotations

import sys
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import ArrowStream, ColumnDecoder
from segstore.errors import CorruptRecordError
from segstore.records.columns import KAFKA_COLUMNS, decode_to_batches, to_table
from segstore.records.compression import codec_table
from segstore.records.fetch_data_info import FetchDataInfo
from segstore.types import LogOffsetMetadata
from tests.kits.core_inputs import batch, run_of_batches


def decoder(**options) -> ColumnDecoder:
    return ColumnDecoder(codec_table(), ["offset", "value"], **options)


def offsets(batches) -> list[list[int]]:
    return [pa.record_batch(piece).column("offset").to_pylist() for piece in batches]


@given(
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(1, 300),
    st.lists(st.integers(0, 12), max_size=4),
)
def test_every_row_comes_once_and_in_order_whatever_the_pieces(count, rows, max_bytes, cuts):
    data = run_of_batches(count)
    whole = [run_of_batches(count)[a:b] for a, b in cut_at_batches(data, cuts)]

    pieces = offsets(decode_to_batches(whole, decoder(), rows, max_bytes))

    assert [offset for piece in pieces for offset in piece] == list(range(3 * count))
    assert all(pieces)
    assert all(len(piece) < rows + 3 for piece in pieces)


def cut_at_batches(data: bytes, cuts: list[int]) -> list[tuple[int, int]]:
    """Ranges of whole batches."""
    from segstore._core import scan_batches

    starts = scan_batches(data)[0]["position"].tolist()
    edges = sorted({0, len(data), *(starts[cut] for cut in cuts if cut < len(starts))})
    return list(pairwise(edges))


def test_a_cut_batch_at_the_end_of_a_chunk_is_left_out_and_does_not_end_a_piece():
    data = run_of_batches(2)

    assert offsets(decode_to_batches([data + data[:70], b"", data[:3]], decoder())) == [
        [0, 1, 2, 3, 4, 5]
    ]


def test_rows_before_damage_come_before_the_error():
    data = bytearray(run_of_batches(4))
    data[-1] ^= 1
    pieces = decode_to_batches([data], decoder(), 6, 10**6)

    assert pa.record_batch(next(pieces)).num_rows == 6
    assert pa.record_batch(next(pieces)).num_rows == 3
    with pytest.raises(CorruptRecordError):
        next(pieces)


def test_no_rows_make_no_piece_but_a_table_with_a_schema():
    assert offsets(decode_to_batches([run_of_batches(2)], decoder(start_offset=100))) == []
    columns = decoder()
    table = to_table(ArrowStream(columns, decode_to_batches([], columns)))
    assert (table.num_rows, table.column_names) == (0, ["offset", "value"])


def test_a_table_raises_the_logs_own_error():
    data = bytearray(run_of_batches(2))
    data[-1] ^= 1
    columns = decoder()
    with pytest.raises(CorruptRecordError):
        to_table(ArrowStream(columns, decode_to_batches([data], columns)))


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    columns = decoder()
    with pytest.raises(ImportError, match="segstore\\[arrow\\]"):
        to_table(ArrowStream(columns, []))


def fetched(data: bytes, start: int, **options) -> FetchDataInfo:
    return FetchDataInfo(data, LogOffsetMetadata(start, 0, 0), topic="t", partition=2, **options)


def test_a_fetch_shows_records_from_its_offset_to_its_end():
    data = run_of_batches(4) + batch([(b"k", b"v")] * 3, base_offset=12)[:80]
    info = fetched(data, 4, end_offset=9)

    assert [record.offset for record in info] == [4, 5, 6, 7, 8]
    assert {(record.topic, record.partition) for record in info} == {("t", 2)}
    assert info.to_arrow(["offset"])["offset"].to_pylist() == [4, 5, 6, 7, 8]
    assert pa.table(info).column_names == list(KAFKA_COLUMNS)
    assert len(info.headers) == 4
    assert [b.base_offset for b in info.batches()] == [0, 3, 6, 9]
    assert info.size_bytes == len(data)
    assert info.records.readonly
    assert info.start_offset == 4
    assert not info.first_entry_incomplete
    assert "offset=4" in repr(info)


def test_an_empty_fetch_is_empty_in_every_form():
    info = fetched(b"", 7)

    assert list(info) == []
    assert list(info.batches()) == []
    assert info.to_arrow().num_rows == 0


def test_a_damaged_fetch_raises_in_every_form():
    data = bytearray(run_of_batches(2))
    data[-2] ^= 1  # inside the last value
    info = fetched(data, 0)

    for use in (lambda: list(info), info.to_arrow):
        with pytest.raises(CorruptRecordError):
            use()
    assert len(list(fetched(data, 0, check_crcs=False))) == 6
