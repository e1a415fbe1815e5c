"""The codecs of record batches: which library does what, with Kafka's settings [format.md 8].

Nothing is imported until a codec is used: a log without compression needs no library, and a
missing one is an error that names the package to install, at the batch that needs it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from segstore._core import CodecTable
from segstore.errors import CodecMissingError
from segstore.records import gzip_codec, lz4_codec, snappy_codec, zstd_codec
from segstore.types import Codec

if TYPE_CHECKING:
    from segstore.config.log_config import LogConfig

__all__ = ["codec_providers", "codec_table", "compression_level"]

DEFAULT_LEVEL: Final = -(2**31)
"""What the core passes on when a batch asks for no level (``INT_MIN``)."""

MISSING: Final = "missing: "

_CODECS: Final = {
    Codec.GZIP: gzip_codec,
    Codec.SNAPPY: snappy_codec,
    Codec.LZ4: lz4_codec,
    Codec.ZSTD: zstd_codec,
}


@cache
def codec_table(
    max_decompressed_batch_bytes: int = 256 * 1024 * 1024,
    max_record_bytes: int = 64 * 1024 * 1024,
) -> CodecTable:
    """Return the table of providers that the core decodes and encodes with; shared.

    Parameters
    ----------
    max_decompressed_batch_bytes : int
        Bound in bytes on one batch after decompression, at least 1 [DUR-92].
    max_record_bytes : int
        Bound in bytes on one record of a compressed batch, at least 1.
    """
    providers = {
        int(codec): (module.LIBRARY, module.compress, module.decompress)
        for codec, module in _CODECS.items()
    }
    return CodecTable(providers, max_decompressed_batch_bytes, max_record_bytes)


def codec_providers() -> dict[str, str]:
    """Name the library and version behind each codec; ``"missing: ..."`` says what to install."""
    return {codec.name.lower(): module.library_version() for codec, module in _CODECS.items()}


def require_codec(codec: Codec) -> None:
    """Raise unless what *codec* needs is installed: better at the open than at the first append.

    Raises
    ------
    CodecMissingError
        Naming the package to install.
    """
    module = _CODECS.get(codec)
    if module is None:
        return
    version = module.library_version()
    if version.startswith(MISSING):
        raise CodecMissingError(
            version.removeprefix(MISSING),
            found=f"no library for {codec.name.lower()}",
            expected="an installed codec library",
        )


def compression_level(codec: Codec, config: LogConfig) -> int:
    """Return the level that *config* sets for *codec*, in Kafka's numbering.

    Source: [format.md 12.1]; Kafka ``compression.gzip.level`` and those of lz4 and zstd.
    """
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case _:
            return DEFAULT_LEVEL
