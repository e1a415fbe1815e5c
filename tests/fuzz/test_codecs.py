"""Compressed payloads of any encoder, whole, changed or made up: bytes within a limit or an error.

[DUR-85, DUR-92, DUR-93, DUR-94, DUR-103]
"""

from __future__ import annotations

import gzip
import struct

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import decode_tuples, iterate_raw_records
from segstore.errors import (
    CodecError,
    CorruptRecordError,
    InvalidRecordError,
    LimitExceededError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.records import gzip_codec, lz4_codec, snappy_codec, zstd_codec
from segstore.records.compression import codec_table
from segstore.types import Codec
from tests.fuzz.mutations import anything_like, changed, outcome
from tests.kits.core_inputs import batch, resealed

LIMIT = 20_000
HEADER_BYTES = 61
CODECS = {"gzip": gzip_codec, "snappy": snappy_codec, "lz4": lz4_codec, "zstd": zstd_codec}

contents = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda part, n: part * n, st.binary(min_size=1, max_size=9), st.integers(1, 3000)),
)
ENCODERS = {
    "gzip": [
        lambda data: gzip_codec.compress(data, 6),
        lambda data: gzip.compress(data) + gzip.compress(data),
        lambda data: b"\x1f\x8b\x08\x08" + bytes(6) + b"name\0" + gzip.compress(data)[10:],
    ],
    "snappy": [lambda data: bytes(cramjam.snappy.compress_raw(data))],
    "lz4": [
        lambda data: lz4_codec.compress(data, 9),
        lambda data: lz4.frame.compress(
            data, block_linked=False, block_checksum=True, content_checksum=True
        ),
        lambda data: lz4.frame.compress(data, block_linked=False, block_size=7),
    ],
    "zstd": [
        lambda data: zstd_codec.compress(data, 3),
        lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
        lambda data: b"\x5a\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(data) * 2,
    ],
}


def payloads(name: str) -> st.SearchStrategy[bytes]:
    encode = st.sampled_from(ENCODERS[name])
    return st.builds(lambda how, data: bytes(how(data)), encode, contents)


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_payloads_of_all_encoders(name: str, data: st.DataObject):
    payload = data.draw(anything_like(payloads(name)))

    found, error = outcome(
        lambda: bytes(CODECS[name].decompress(memoryview(payload), LIMIT)),
        CodecError,
        LimitExceededError,
        UnsupportedFormatError,
    )

    assert error is not None or len(found) <= LIMIT
    if isinstance(error, CodecError):
        assert len(error.decoded) <= LIMIT
        assert 0 < len(str(error)) < 500


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_compressed_batches_with_a_right_checksum(name: str, data: st.DataObject):
    """The readers of rows say why, where; the tools' iterator goes as far as it gets."""
    codec = Codec[name.upper()]
    values = data.draw(st.lists(contents, min_size=1, max_size=3))
    good = batch([(b"key", value) for value in values], codec=int(codec), base_offset=40)
    payload = data.draw(changed(st.just(good[HEADER_BYTES:])))
    length = struct.pack(">i", HEADER_BYTES - 12 + len(payload))
    hostile = resealed(good[:8] + length + good[12:HEADER_BYTES] + payload)

    rows, error = outcome(lambda: decode_tuples(hostile, codec_table(LIMIT)), SegstoreError)

    if error is None:
        offsets = [offset for offset, *_ in rows]  # those that go back are left out
        assert offsets == sorted(set(offsets))
        assert len(rows) <= len(values)
        assert sum(len(value or b"") for *_, value in rows) <= LIMIT
    else:
        assert isinstance(
            error,
            (
                CodecError,
                LimitExceededError,
                UnsupportedFormatError,
                InvalidRecordError,
                CorruptRecordError,
            ),
        )
        assert error.position == 0 or "offset" in str(error)
    for way in ("streaming", "whole", "skip_key_value"):
        outcome(
            lambda way=way: list(iterate_raw_records(hostile, codec_table(LIMIT), iteration=way)),
            SegstoreError,
        )
