"""Checksums, hashes and clocks, against other implementations."""

from __future__ import annotations

import os
import time

import crc32c as peer
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore import _core
from segstore.errors import IllegalArgumentError


@given(st.binary(max_size=9000), st.integers(0, 9000))
def test_crc32c_agrees_with_another_library_whole_and_in_pieces(data: bytes, cut: int):
    """[format.md 2.2]"""
    assert _core.crc32c(data) == peer.crc32c(data)
    assert _core.crc32c(data[cut:], _core.crc32c(data[:cut])) == peer.crc32c(data)


def test_crc32c_of_the_golden_texts():
    assert _core.crc32c(b"123456789") == 0xE3069283
    assert _core.crc32c(b"Some String") == 608512271
    assert _core.crc32c(b"") == 0
    assert _core.crc32c_implementation() in {
        "portable",
        "sse4.2",
        "pclmul",
        "vpclmul",
        "avx512",
        "armv8",
    }


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_what_the_java_client_gives(key: bytes, expected: int):
    """Kafka: UtilsTest.testMurmur2."""
    assert _core.murmur2(key) == expected


def test_clocks_and_process_are_those_of_the_system():
    assert _core.process_id() == os.getpid()
    assert abs(_core.wall_clock_ms() - time.time() * 1000) < 5000
    first = _core.monotonic_ns()
    assert _core.monotonic_ns() >= first


def test_what_has_no_bytes_is_refused():
    with pytest.raises(TypeError):
        _core.crc32c("text")
    with pytest.raises(TypeError):
        _core.murmur2(None)


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())],
    ids=str,
)
def test_a_column_of_keys_goes_where_each_key_goes(kind):
    """Kafka: ``BuiltInPartitioner.partitionForKey``; without a key there is no partition."""
    keys = [b"", b"a", None, b"kafka", b"\x00\xff" * 9, b"a"]
    column = pa.array(keys, pa.binary()).cast(kind)
    expected = [-1 if key is None else (_core.murmur2(key) & 0x7FFFFFFF) % 5 for key in keys]

    assert _core.partitions_for_keys(column, 5).tolist() == expected
    assert _core.partitions_for_keys(column.slice(1, 3), 5).tolist() == expected[1:4]
    chunked = pa.chunked_array([column, column])
    assert _core.partitions_for_keys(chunked, 5).tolist() == expected * 2
    assert _core.partitions_for_keys(column.slice(0, 0), 5).tolist() == []


@pytest.mark.parametrize(
    ("column", "count"),
    [(pa.array([1, 2]), 3), (pa.array([b"a"]), 0), (pa.array([b"a"]), -1)],
    ids=["numbers", "no partition", "fewer"],
)
def test_what_is_no_column_of_keys_is_refused(column, count):
    with pytest.raises(IllegalArgumentError):
        _core.partitions_for_keys(column, count)
