"""What each codec's own format takes and refuses: members, frames, blocks [format.md 8]."""

from __future__ import annotations

import gzip
import struct
import zlib

import lz4.frame
import pytest
import zstandard

from segstore.errors import (
    CodecError,
    LimitExceededError,
    UnsupportedFormatError,
)
from segstore.records import gzip_codec, lz4_codec, zstd_codec
from tests.kits.codec_inputs import DEFAULT, unpack


def test_gzip_members_are_read_on_and_other_trailing_bytes_ignored():
    one, two = gzip_codec.compress(b"one", 6), gzip.compress(b"two")

    assert unpack("gzip", one + two) == b"onetwo"
    for tail in (b"x", bytes(40), b"\x1f\x8b\x08", b"\x1f\x8b\x08" + bytes(10)):
        assert unpack("gzip", one + tail) == b"one"


def test_gzip_trailers_are_verified():
    packed = bytearray(gzip_codec.compress(b"segstore", 6))
    for place in (-8, -1):  # CRC-32, length
        damaged = (
            bytes(packed[:place])
            + bytes((packed[place] ^ 1,))
            + bytes(packed[len(packed) + place + 1 :])
        )
        with pytest.raises(CodecError):
            unpack("gzip", damaged)


def test_members_count_together_towards_the_limit():
    packed = gzip_codec.compress(b"x" * 60, 6) * 2
    assert len(unpack("gzip", packed, 120)) == 120
    with pytest.raises(LimitExceededError):
        unpack("gzip", packed, 119)


def test_gzip_headers_with_all_their_fields_are_read():
    raw = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = raw.compress(b"segstore") + raw.flush()
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x02\x00ab" + b"name\0" + b"comment\0"
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    trailer = struct.pack("<II", zlib.crc32(b"segstore"), 8)

    assert unpack("gzip", header + body + trailer) == b"segstore"


def test_zstd_frames_are_read_on_and_anything_else_is_an_error():
    one, two = zstd_codec.compress(b"one", 3), zstandard.compress(b"two")
    skippable = struct.pack("<II", 0x184D2A5F, 5) + b"12345"

    assert unpack("zstd", one + two) == b"onetwo"
    assert unpack("zstd", skippable + one + skippable) == b"one"
    for tail in (b"x", bytes(4), two[:-1], skippable[:-1]):
        with pytest.raises(CodecError):
            unpack("zstd", one + tail)


def test_lz4_data_ends_at_its_end_mark():
    one, two = lz4_codec.compress(b"one", 9), lz4_codec.compress(b"two", 9)

    assert unpack("lz4", one + two) == b"one"
    assert unpack("lz4", one + b"rubbish") == b"one"


# ---- lz4: Kafka's frame ------------------------------------------------------------------------


def test_lz4_frames_have_kafkas_header():
    """[format.md 8.3]"""
    packed = lz4_codec.compress(b"segstore" * 20_000, 9)

    assert packed[:7] == bytes.fromhex("04224d18604082")
    assert packed[-4:] == bytes(4)


def test_the_fast_level_is_nine_and_every_other_is_hc():
    data = bytes(zlib.compress(b"a")) + b"segstore, segstore and again segstore " * 300
    fast = lz4_codec.compress(data, 9)

    assert lz4_codec.compress(data, DEFAULT) == fast
    for level in (1, 2, 3):
        assert lz4_codec.compress(data, level) == lz4_codec.compress(data, 3)
    assert lz4_codec.compress(data, 12) != fast


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_frames_of_other_encoders_are_read(checksum, content_checksum, store_size, block_size):
    data = bytes(range(256)) * 5000
    packed = lz4.frame.compress(
        data,
        block_size=block_size,
        block_linked=False,
        block_checksum=checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )

    assert unpack("lz4", packed) == data


def test_content_size_and_checksum_are_not_verified():
    """[format.md 8]: Kafka skips them."""
    packed = bytearray(lz4.frame.compress(b"segstore", block_linked=False, content_checksum=True))
    packed[-1] ^= 1
    assert unpack("lz4", bytes(packed)) == b"segstore"
    packed[6:14] = (2**60).to_bytes(8, "little")  # and no memory is taken for a claim
    packed[14] = lz4_codec._header_checksum(bytes(packed[4:14]))
    assert unpack("lz4", bytes(packed)) == b"segstore"


def test_block_checksums_are_verified_when_flagged():
    packed = bytearray(
        lz4.frame.compress(
            b"segstore" * 9, block_linked=False, block_checksum=True, store_size=False
        )
    )
    packed[-5] ^= 1
    with pytest.raises(CodecError):
        unpack("lz4", bytes(packed))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 5),  # magic
        (4, 0x40),  # linked blocks
        (4, 0xA0),  # version
        (4, 0x61),  # a dictionary
        (4, 0x62),  # a reserved bit
        (5, 0x30),  # a block size that is none
        (5, 0x41),
        (6, 0x83),  # header checksum
    ],
)
def test_headers_that_kafka_refuses_are_refused(place: int, value: int):
    packed = bytearray(lz4_codec.compress(b"segstore", 9))
    packed[place] = value
    if place in {4, 5}:
        packed[6] = lz4_codec._header_checksum(bytes(packed[4:6]))
    with pytest.raises(CodecError):
        unpack("lz4", bytes(packed))


def test_blocks_above_the_frames_maximum_are_refused():
    packed = bytearray(lz4_codec.compress(b"segstore", 9))
    packed[7:11] = (65537).to_bytes(4, "little")
    with pytest.raises(CodecError, match="exceeded max"):
        unpack("lz4", bytes(packed) + bytes(70_000))


# ---- zstd --------------------------------------------------------------------------------------


def test_zstd_frames_carry_neither_size_nor_checksum():
    """[format.md 8.4]"""
    parameters = zstandard.get_frame_parameters(zstd_codec.compress(b"segstore" * 100, 3))

    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert not parameters.has_checksum
    assert parameters.dict_id == 0


def test_zstd_frames_of_other_encoders_are_read_and_their_checksums_verified():
    data = b"segstore" * 50_000
    for options in ({"write_content_size": True}, {"write_checksum": True}, {"level": 19}):
        packed = zstandard.ZstdCompressor(**options).compress(data)
        assert unpack("zstd", packed) == data
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(data))
    packed[-1] ^= 1
    with pytest.raises(CodecError):
        unpack("zstd", bytes(packed))


def test_zstd_windows_above_128_mib_and_dictionaries_are_refused():
    """[DUR-93]"""
    packed = bytearray(zstd_codec.compress(b"segstore", 3))
    packed[5] = (28 - 10) << 3
    with pytest.raises(UnsupportedFormatError):
        unpack("zstd", bytes(packed))
    dictionary = zstandard.ZstdCompressionDict(b"segstore" * 100)
    parameters = zstandard.ZstdCompressor(dict_data=dictionary)
    named = bytes.fromhex("28b52ffd") + bytes((0x21, 5, 8)) + b"\x41\x00\x00segstore"
    assert parameters.compress(b"x")
    with pytest.raises(UnsupportedFormatError):
        unpack("zstd", named)


def test_a_zstd_size_that_no_block_can_make_is_refused():
    claims = (
        bytes.fromhex("28b52ffd")
        + b"\xe0"
        + (2**60).to_bytes(8, "little")
        + b"\x41\x00\x00segstore"
    )
    with pytest.raises(CodecError):
        unpack("zstd", claims)


def test_pythons_own_zstd_agrees_with_zstandard():
    zstd = pytest.importorskip("compression.zstd", reason="there from Python 3.14 on")
    library = zstd_codec.StandardLibrary(zstd)
    packed = library.compressor(3)(b"segstore" * 100)
    assert zstandard.ZstdDecompressor().stream_reader(packed).read() == b"segstore" * 100
    assert library.decompressor()(packed, 10_000) == b"segstore" * 100


# ---- snappy ------------------------------------------------------------------------------------
