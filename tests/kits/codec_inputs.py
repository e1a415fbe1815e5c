"""Codecs by name, levels that are tried, texts to be packed."""

from __future__ import annotations

from hypothesis import strategies as st

from segstore.records import gzip_codec, lz4_codec, snappy_codec, zstd_codec

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
