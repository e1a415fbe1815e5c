"""The codecs: what Kafka's readers take and refuse [format.md 8]."""

from __future__ import annotations

import contextlib
import gzip
import struct
import sys
import threading
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import crc32c, decode_tuples
from segstore.config import LogConfig
from segstore.errors import (
    CodecError,
    CodecMissingError,
    LimitExceededError,
    UnsupportedFormatError,
)
from segstore.records import gzip_codec, lz4_codec, snappy_codec, zstd_codec
from segstore.records.compression import codec_providers, codec_table, compression_level
from segstore.types import Codec
from tests.unit.core_inputs import TIME, encoded

DEFAULT = -(2**31)
CODECS = {"gzip": gzip_codec, "snappy": snappy_codec, "lz4": lz4_codec, "zstd": zstd_codec}
LEVELS = {
    "gzip": [DEFAULT, -1, 1, 6, 9],
    "snappy": [DEFAULT],
    "lz4": [DEFAULT, 1, 2, 3, 9, 10, 17],
    "zstd": [DEFAULT, -131072, -5, 1, 3, 19, 22],
}
MEGABYTE = 1024 * 1024

texts = st.binary(max_size=3000) | st.builds(
    lambda a, n: a * n, st.binary(max_size=20), st.integers(0, 9000)
)


def unpack(name: str, data: bytes, limit: int = 10 * MEGABYTE) -> bytes:
    return bytes(CODECS[name].decompress(memoryview(data), limit))


@pytest.mark.parametrize(
    ("name", "level"), [(n, v) for n, values in LEVELS.items() for v in values]
)
def test_every_level_gives_the_data_back(name: str, level: int):
    for data in (b"x", b"segstore " * 5000, bytes(300_000), bytes(range(256)) * 300):
        assert unpack(name, bytes(CODECS[name].compress(data, level))) == data


@given(st.sampled_from(sorted(CODECS)), texts.filter(bool))
def test_data_comes_back_and_the_limit_is_exact(name: str, data: bytes):
    packed = bytes(CODECS[name].compress(data, DEFAULT))

    assert unpack(name, packed, len(data)) == data
    with pytest.raises(LimitExceededError):
        unpack(name, packed, len(data) - 1)


@given(st.sampled_from(sorted(CODECS)), texts, st.data())
def test_damaged_data_is_an_error_of_ours_or_data(name: str, data: bytes, draw):
    packed = bytearray(CODECS[name].compress(data, DEFAULT))
    for _ in range(draw.draw(st.integers(1, 3))):
        packed[draw.draw(st.integers(0, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    try:
        found = unpack(name, bytes(packed[: draw.draw(st.integers(0, len(packed)))]), MEGABYTE)
    except (CodecError, LimitExceededError, UnsupportedFormatError):
        return
    assert len(found) <= MEGABYTE


@given(st.sampled_from(sorted(CODECS)), st.binary(max_size=300))
def test_rubbish_is_refused_cleanly(name: str, data: bytes):
    with contextlib.suppress(CodecError, LimitExceededError, UnsupportedFormatError):
        assert len(unpack(name, data, MEGABYTE)) <= MEGABYTE


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_a_cut_stream_is_an_error_wherever_it_is_cut(name: str):
    packed = bytes(CODECS[name].compress(b"segstore" * 30, DEFAULT))
    for size in range(1, len(packed)):
        with pytest.raises(CodecError):
            unpack(name, packed[:size])


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4"])
def test_an_empty_payload_is_an_error(name: str):
    with pytest.raises(CodecError):
        unpack(name, b"")


def test_an_empty_zstd_payload_holds_no_records():
    """The record reader refuses it then: premature end."""
    assert unpack("zstd", b"") == b""


@pytest.mark.parametrize("name", sorted(CODECS))
def test_a_bomb_takes_no_more_memory_than_the_limit(name: str):
    """[DUR-92, DUR-102]"""
    import tracemalloc

    packed = bytes(CODECS[name].compress(bytes(60 * MEGABYTE), DEFAULT))
    tracemalloc.start()
    with pytest.raises(LimitExceededError):
        unpack(name, packed, MEGABYTE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * MEGABYTE


# ---- what is behind the data -------------------------------------------------------------------


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


def test_a_snappy_block_that_claims_too_much_takes_no_memory():
    """[DUR-94]"""
    with pytest.raises(LimitExceededError):
        unpack("snappy", b"\xff\xff\xff\xff\x0f" + b"x", MEGABYTE)
    for damaged in (b"\x80", b"\xff" * 6, b"\x05\x00a"):
        with pytest.raises(CodecError):
            unpack("snappy", damaged)


def test_snappy_blocks_are_raw():
    assert (
        bytes(cramjam.snappy.decompress_raw(bytes(snappy_codec.compress(b"segstore" * 9, 0))))
        == b"segstore" * 9
    )


# ---- the table ---------------------------------------------------------------------------------


def test_one_table_a_limit_is_shared():
    assert codec_table() is codec_table()
    assert codec_table(5) is not codec_table()
    assert set(codec_table().names) == {1, 2, 3, 4}


def test_levels_come_from_the_settings():
    config = LogConfig(compression_gzip_level=4, compression_lz4_level=5, compression_zstd_level=6)

    assert [compression_level(codec, config) for codec in Codec] == [DEFAULT, 4, DEFAULT, 5, 6]


def test_providers_are_named_with_their_versions():
    providers = codec_providers()

    assert set(providers) == {"gzip", "snappy", "lz4", "zstd"}
    assert zlib.ZLIB_RUNTIME_VERSION in providers["gzip"]
    assert lz4.VERSION in providers["lz4"]


@pytest.mark.parametrize(
    ("module", "names", "package"),
    [
        (snappy_codec, ["cramjam"], "cramjam"),
        (lz4_codec, ["lz4", "lz4.frame"], "lz4"),
        (zstd_codec, ["compression.zstd", "zstandard"], "zstandard"),
    ],
)
def test_a_missing_library_is_an_error_that_names_the_package(monkeypatch, module, names, package):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
    module._library.cache_clear()
    monkeypatch.setattr(zstd_codec, "_contexts", zstd_codec._Contexts())
    try:
        for use in (
            lambda: module.compress(b"x", 1),
            lambda: module.decompress(memoryview(module_data(module)), 100),
        ):
            with pytest.raises(CodecMissingError, match=f"pip install {package}"):
                use()
        assert codec_providers()[
            module.__name__.rpartition(".")[2].removesuffix("_codec")
        ].startswith("missing")
    finally:
        module._library.cache_clear()


def module_data(module) -> bytes:
    """Something that only the library can decode."""
    if module is snappy_codec:
        return b"\x01\x00x"
    if module is lz4_codec:
        return bytes.fromhex("04224d18604082010000804100000000")
    return bytes.fromhex("28b52ffd000009000041")


def test_codecs_work_in_many_threads_at_once():
    data = bytes(range(256)) * 400
    failures: list[str] = []

    def work(name: str) -> None:
        failures.extend(
            name
            for _ in range(30)
            if unpack(name, bytes(CODECS[name].compress(data, DEFAULT))) != data
        )

    threads = [threading.Thread(target=work, args=(name,)) for name in CODECS for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


def test_lz4_batches_are_kafkas_byte_for_byte():
    """[format.md 19.4, 19.9]: at the default level."""
    two = [(283843, b"key1", b"value1"), (1234, b"key2", b"value2")]

    assert encoded(two).headers["crc"][0] == 3851219455
    assert encoded(two, codec=3).headers["crc"][0] == 2745969314
    assert encoded([(TIME, b"k", b"a" * 40)], codec=3).headers["crc"][0] == 1829402135


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (1, "1f8b08000000000000ff8b63606060ca0e4824123000002f91dc6230000000"),
        (2, "82534e415050590000000001000000010000000f301c5e000000026b50619a01000000"),
        (2, "301c5e000000026b50619a01000000"),
        (3, "04224d18604082120000008f5e000000026b506101001050616161610000000000"),
        (4, "28b52ffd00587c0000485e000000026b50610001004ac005010000"),
    ],
    ids=["gzip", "snappy", "raw snappy", "lz4", "zstd"],
)
def test_payloads_that_kafka_wrote_are_read(codec: int, payload: str):
    """[format.md 19.4, 8.2]: also one raw snappy block, as some clients write."""
    header = bytes.fromhex(
        "0000000000000000 00000000 ffffffff 02 00000000 0000 00000000"
        "0000018bcfe56800 0000018bcfe56800 ffffffffffffffff ffff ffffffff 00000001"
    )
    data = bytearray(header + bytes.fromhex(payload))
    data[8:12] = (len(data) - 12).to_bytes(4)
    data[22] = codec
    data[17:21] = crc32c(data[21:]).to_bytes(4)

    assert decode_tuples(data, codec_table()) == [(0, TIME, b"k", b"a" * 40)]
