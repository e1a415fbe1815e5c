"""The codecs: what Kafka's readers take and refuse [format.md 8]."""

from __future__ import annotations

import contextlib
import sys
import threading
import zlib

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import crc32c, decode_tuples
from segstore.config.log_config import LogConfig
from segstore.errors import (
    CodecError,
    CodecMissingError,
    LimitExceededError,
    UnsupportedFormatError,
)
from segstore.records import lz4_codec, snappy_codec, zstd_codec
from segstore.records.compression import codec_providers, codec_table, compression_level
from segstore.types import Codec
from tests.kits.codec_inputs import CODECS, DEFAULT, LEVELS, MEGABYTE, texts, unpack
from tests.kits.core_inputs import TIME, encoded


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
