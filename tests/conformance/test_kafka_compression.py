"""Kafka's tests of compression: gzip, snappy, lz4, zstd and none, at every level and magic."""

from __future__ import annotations

import random
from itertools import product

import pytest

from segstore.config.log_config import LogConfig
from segstore.errors import CodecError, IllegalArgumentError, SegstoreError
from segstore.records import gzip_codec, lz4_codec, zstd_codec
from segstore.types import Codec
from tests.kits.records_kit import build, headers, records

TEXT = b"data" * 256
LEVELS = {
    Codec.NONE: [-1],
    Codec.GZIP: [1, -1, 9],
    Codec.SNAPPY: [-1],
    Codec.LZ4: [1, 9, 17],
    Codec.ZSTD: [-131072, 3, 22],
}
CASES = [
    (magic, codec, level)
    for magic, (codec, levels) in product((0, 1, 2), LEVELS.items())
    for level in levels
    if magic == 2 or codec is not Codec.ZSTD
]
PAYLOADS = [b"", b"\x01"] + [
    make(size)
    for size in (1000, 65536, 98304)
    for make in (random.Random(7).randbytes, lambda size: b"\x01" * size)
]
LIMIT = 1 << 20
LZ4_MAGIC = bytes.fromhex("04224d18")


@pytest.mark.parametrize(("magic", "codec", "level"), CASES)
def test_what_was_compressed_comes_back(magic: int, codec: Codec, level: int):
    """[format.md 8] GzipCompressionTest.testCompressionDecompression.

    SnappyCompressionTest.testCompressionDecompression,
    Lz4CompressionTest.testCompressionDecompression,
    ZstdCompressionTest.testCompressionDecompression,
    NoCompressionTest.testCompressionDecompression.
    """
    data = build([(0, 1, b"k", TEXT)], magic, codec, level=level)

    (header,) = headers(data)
    assert header["attributes"] & 7 == codec
    (record,) = records(data)
    assert (record.key, record.value) == (b"k", TEXT)
    if level >= -1:  # zstd's fastest level leaves text as it is
        assert (TEXT in data) == (codec is Codec.NONE)


@pytest.mark.parametrize(
    ("setting", "accepted", "refused"),
    [
        pytest.param("compression_gzip_level", [-1, *range(1, 10)], [-2, 0, 10], id="gzip"),
        pytest.param("compression_lz4_level", [*range(1, 18)], [-1, 0, 18], id="lz4"),
    ],
)
def test_levels_have_bounds(setting: str, accepted: list[int], refused: list[int]):
    """[format.md 8.1, 8.3] GzipCompressionTest.testLevelValidator,
    Lz4CompressionTest.testCompressionLevels."""
    for level in accepted:
        assert getattr(LogConfig(**{setting: level}), setting) == level
    for level in refused:
        with pytest.raises(IllegalArgumentError):
            LogConfig(**{setting: level})


@pytest.mark.parametrize("level", [-131073, 23])
def test_levels_of_zstd_have_bounds(level: int):
    """[format.md 8.4] ZstdCompressionTest.testCompressionLevels."""
    with pytest.raises((IllegalArgumentError, ValueError)):
        LogConfig(compression_zstd_level=level)
    for accepted in (-131072, 22):
        assert LogConfig(compression_zstd_level=accepted).compression_zstd_level == accepted
        assert zstd_codec.decompress(memoryview(zstd_codec.compress(TEXT, accepted)), LIMIT) == TEXT


@pytest.mark.parametrize(("payload", "level"), list(product(PAYLOADS, [1, 9, 17])))
def test_lz4_frames_have_kafkas_form(payload: bytes, level: int):
    """[format.md 8.3] Lz4CompressionTest.testCompression, Lz4CompressionTest.testArrayBackedBuffer,
    Lz4CompressionTest.testArrayBackedBufferSlice, Lz4CompressionTest.testDirectBuffer:
    the frame's header and end, and the payload again, also from an odd place in a larger buffer."""
    frame = bytes(lz4_codec.compress(payload, level))

    assert frame[:4] == LZ4_MAGIC
    flags, block = frame[4], frame[5]
    assert flags >> 6 == 1
    assert flags & 0x02 == 0
    assert 4 <= block >> 4 <= 7
    assert block & 0x8F == 0
    assert frame.endswith(b"\0" * 4)
    assert lz4_codec.decompress(memoryview(frame), LIMIT) == payload
    for offset in (12, 12 + 42, 42):
        around = b"\xee" * offset + frame + b"\xee" * 5
        inside = memoryview(around)[offset : offset + len(frame)]
        assert lz4_codec.decompress(inside, LIMIT) == payload


@pytest.mark.parametrize("payload", PAYLOADS)
def test_damaged_lz4_frames_are_refused(payload: bytes):
    """[format.md 8.3] Lz4CompressionTest.testNotSupported, Lz4CompressionTest.testBadFrameChecksum,
    Lz4CompressionTest.testArrayBackedBuffer: a stream that was only flushed ends too early."""
    frame = bytearray(lz4_codec.compress(payload, 9))
    wrong_magic = b"\0" + frame[1:]
    wrong_checksum = frame[:6] + bytes([frame[6] ^ 0xFF]) + frame[7:]
    flushed = frame[:-4]

    for damaged in (wrong_magic, wrong_checksum, flushed):
        with pytest.raises(CodecError):
            lz4_codec.decompress(memoryview(bytes(damaged)), LIMIT)


@pytest.mark.parametrize(("payload", "level"), list(product(PAYLOADS, [1, 9, 17])))
def test_skipping_in_an_lz4_batch_ends_where_its_payload_does(payload: bytes, level: int):
    """[format.md 5, 8.3] Lz4CompressionTest.testSkip.

    Values of 100 and then of 10000 bytes, and what is left, are skipped and not read: each skip is
    of so many bytes or of what there still is, over the ends of blocks, and what follows is right.
    A skip beyond the payload is an error.
    """
    values = [payload[:100], payload[100:10_100], payload[10_100:]]
    rows = [(offset, 5, b"k%d" % offset, value) for offset, value in enumerate(values)]
    data = build(rows, 2, Codec.LZ4, level=level)

    skipped = records(data, "skip_key_value")

    read = records(data)
    assert [record.value for record in read] == values
    assert [record.size for record in skipped] == [record.size for record in read]
    assert [record.offset for record in skipped] == [0, 1, 2]

    section = lz4_codec.decompress(memoryview(data)[61:], LIMIT)
    cut = lz4_codec.compress(section[: -1 - (len(values[2]) + 1) // 2], level)
    short = data[:61] + bytes(cut)
    short = data[:8] + (len(short) - 12).to_bytes(4) + short[12:]
    with pytest.raises(SegstoreError):
        records(short, "skip_key_value")


def lz4_value(magic: int) -> bytes:
    """The compressed value of a wrapper of this magic."""
    data = build([(0, 1, None, b"x" * 100)], magic, Codec.LZ4)
    return data[data.index(LZ4_MAGIC) :]


def test_lz4_of_magic_0_keeps_the_historic_checksum():
    """[format.md 8.3] Lz4CompressionTest.testLz4FramingMagicV0: readers do not look at it."""
    value = lz4_value(0)

    assert (value[4], value[5], value[6]) == (0x60, 0x40, 0x1A)
    damaged = bytearray(build([(0, 1, None, b"x" * 100)], 0, Codec.LZ4))
    damaged[damaged.index(LZ4_MAGIC) + 6] ^= 0xFF
    (record,) = records(bytes(damaged))
    assert record.value == b"x" * 100


def test_lz4_of_magic_1_has_the_right_checksum():
    """[format.md 8.3] Lz4CompressionTest.testLz4FramingMagicV1: readers look at it."""
    value = lz4_value(1)

    assert (value[4], value[5], value[6]) == (0x60, 0x40, 0x82)
    damaged = bytearray(build([(0, 1, None, b"x" * 100)], 1, Codec.LZ4))
    damaged[damaged.index(LZ4_MAGIC) + 6] ^= 0xFF
    with pytest.raises(SegstoreError):
        records(bytes(damaged))


def test_gzip_at_each_level():
    """[format.md 8.1] GzipCompressionTest.testCompressionDecompression.

    Without a batch around it.
    """
    for level in (1, -1, 9):
        data = bytes(gzip_codec.compress(TEXT, level))
        assert gzip_codec.decompress(memoryview(data), LIMIT) == TEXT
