"""Compressed batches to Arrow, against their parts: the codec, then an uncompressed decode."""

from __future__ import annotations

import zlib

import cramjam
import lz4.frame
import zstandard

from segstore import _core
from segstore.records.columns import decode_to_batches
from segstore.records.compression import codec_table

from .common import PROFILE, TimedAlone, seconds_per_unit
from .datasets import batches, fetches

COLUMNS = ("offset", "timestamp", "key", "value")
HEADER_BYTES = 61


class DecodeCompressed(TimedAlone):
    """(raw codec + decode of the same records uncompressed) / decode, medians of CPU time."""

    params = (["gzip", "snappy", "lz4", "zstd"], [100, 1000])
    param_names = ("codec", "value_bytes")
    unit = "ratio"

    def setup(self, codec: str, value_bytes: int) -> None:
        self.codecs = codec_table()
        compressed = batches(value_bytes, 131_072, codec)
        self.payloads = [batch[HEADER_BYTES:] for batch in compressed]
        self.compressed = fetches(compressed)
        self.plain = fetches(batches(value_bytes, 131_072))
        self.decompress = RAW_CODECS[codec]
        self.rows = self._decode_compressed()
        assert self.rows == self._decode(self.plain)

    def time_decode(self, *_: object) -> None:
        self._decode_compressed()

    def track_speed_against_its_parts(self, codec: str, value_bytes: int) -> float:
        ours: list[float] = []
        parts: list[float] = []
        for _ in range(PROFILE.rounds + 1):
            ours.append(seconds_per_unit(self._decode_compressed))
            parts.append(
                seconds_per_unit(self._decompress)
                + seconds_per_unit(lambda: self._decode(self.plain))
            )
        return sorted(parts[1:])[PROFILE.rounds // 2] / sorted(ours[1:])[PROFILE.rounds // 2]

    def _decode_compressed(self) -> float:
        return self._decode(self.compressed)

    def _decode(self, data: list[bytes]) -> float:
        decoder = _core.ColumnDecoder(self.codecs, COLUMNS)
        return sum(table.rows_count for table in decode_to_batches(data, decoder))

    def _decompress(self) -> float:
        for payload in self.payloads:
            self.decompress(payload)
        return self.rows


def snappy_blocks(payload: bytes) -> None:
    """Xerial's stream: 16 bytes of header, then blocks with their lengths before them."""
    at = 16
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4])
        cramjam.snappy.decompress_raw(payload[at + 4 : at + 4 + size])
        at += 4 + size


RAW_CODECS = {
    "gzip": lambda payload: zlib.decompress(payload, 31),
    "snappy": snappy_blocks,
    "lz4": lz4.frame.decompress,
    "zstd": lambda payload: zstandard.ZstdDecompressor().decompressobj().decompress(payload),
}
