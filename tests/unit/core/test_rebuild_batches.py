"""`rebuild_batches`: batches from rows and the headers that they had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from segstore._core import ColumnDecoder, RecordsBuilder, rebuild_batches, scan_batches
from segstore.errors import IllegalArgumentError, InvalidRecordError
from segstore.records.columns import RECORD_COLUMNS
from segstore.records.compression import codec_table
from segstore.types import Codec, TimestampType

if TYPE_CHECKING:
    from numpy.typing import NDArray


def batch(offsets: list[int], **options: Any) -> bytes:
    builder = RecordsBuilder(codec_table(), base_offset=offsets[0], **options)
    for offset in offsets:
        headers = [("h", b"x"), ("", None)] if offset % 2 else []
        builder.append(offset, 1000 + 7 * offset, b"k" if offset % 3 else None, b"v", headers)
    return builder.build()


DATA = b"".join(
    [
        batch([3, 4, 5]),
        batch([10, 17, 300], codec=Codec.ZSTD, partition_leader_epoch=4),
        batch([301], transactional=True, producer_id=9, producer_epoch=1, base_sequence=2**31 - 1),
        batch([302, 303], delete_horizon_ms=5000),
        batch(
            [400, 2**31 + 399],
            timestamp_type=TimestampType.CREATE_TIME,
            producer_id=2,
            producer_epoch=0,
            base_sequence=0,
        ),
    ]
)


def rows_of(data: bytes) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    decoder = ColumnDecoder(codec_table(), [*RECORD_COLUMNS, "offset"])
    decoder.append(data, 1000, 1 << 30)
    rows = pa.record_batch(decoder.finish())
    return rows.select(RECORD_COLUMNS), np.array(rows.column("offset"))


def test_batches_are_what_they_were():
    """[format.md 4, 5] Gaps, codecs, producers and horizons too, byte for byte."""
    headers, _ = scan_batches(DATA)
    built = rebuild_batches(*rows_of(DATA), headers, codec_table())

    assert bytes(built) == DATA
    assert built.records_count == 11
    assert built.headers["crc"].tolist() == headers["crc"].tolist()


def test_what_compaction_took_away_stays_away():
    """A batch ends where it did, and its largest timestamp and base timestamp stay."""
    headers, _ = scan_batches(DATA)
    headers = headers[:1]
    headers["last_offset"] = 9
    headers["base_timestamp"] = 900
    headers["max_timestamp"] = 5555
    headers["records_count"] = 2
    rows, offsets = rows_of(DATA)
    built = bytes(rebuild_batches(rows.slice(1, 2), offsets[1:3], headers, codec_table()))

    found, _ = scan_batches(built)
    for field in ("base_offset", "last_offset", "base_timestamp", "max_timestamp", "records_count"):
        assert found[field].tolist() == headers[field].tolist()
    again, offsets_again = rows_of(built)
    assert offsets_again.tolist() == [4, 5]
    assert again.equals(rows.slice(1, 2))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("records_count", 2, "offset 5 is not the next one"),
        ("records_count", 99, "rows are left"),
        ("records_count", 0, "not built from rows"),
        ("magic", 1, "not built from rows"),
        ("attributes", 0x20, "not built from rows"),
        ("attributes", 0x80, "not built from rows"),
        ("last_offset", 4, "offset 5 is not the next one"),
        ("last_offset", 2, "from offset 3 to 2"),
        ("last_offset", 2**40, "from offset 3 to"),
        ("base_offset", 4, "offset 3 is not the next one"),
    ],
)
def test_headers_that_do_not_fit_the_rows(field: str, value: int, words: str):
    """Bytes of a file say what they like: nothing is built."""
    headers, _ = scan_batches(DATA)
    headers[field][0] = value
    with pytest.raises(InvalidRecordError, match=words):
        rebuild_batches(*rows_of(DATA), headers, codec_table())


def test_offsets_that_do_not_fit():
    headers, _ = scan_batches(DATA)
    rows, offsets = rows_of(DATA)
    with pytest.raises(IllegalArgumentError, match="as many"):
        rebuild_batches(rows, offsets[:-1].copy(), headers, codec_table())
    offsets[1] = 3
    with pytest.raises(InvalidRecordError, match="not the next one"):
        rebuild_batches(rows, offsets, headers, codec_table())
    with pytest.raises(IllegalArgumentError):
        rebuild_batches(rows, offsets, headers["crc"], codec_table())  # type: ignore[arg-type]
    headers["attributes"][0] = 0x40
    headers["base_timestamp"][0] = -1
    with pytest.raises(InvalidRecordError, match="a delete horizon of -1 ms"):
        rebuild_batches(*rows_of(DATA), headers, codec_table())
    headers["attributes"][0] = 0
    headers["producer_id"] = -2
    with pytest.raises(IllegalArgumentError, match="producer id"):
        rebuild_batches(*rows_of(DATA), headers, codec_table())
