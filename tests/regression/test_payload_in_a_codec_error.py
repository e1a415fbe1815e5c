"""What is no frame was told by its first four bytes, which are those of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.errors import CodecError
from segstore.records import lz4_codec, zstd_codec

if TYPE_CHECKING:
    from types import ModuleType

PAYLOAD = b"SECRET payload of a record"
TOLD_AS = ("SECR", PAYLOAD[:4].hex(), PAYLOAD[3::-1].hex())


@pytest.mark.parametrize(
    ("codec", "before"),
    [(lz4_codec, b""), (zstd_codec, b""), (zstd_codec, zstd_codec.compress(b"good", 3))],
    ids=["lz4", "zstd", "zstd, behind a good frame"],
)
def test_no_byte_of_it_is_in_the_message(codec: ModuleType, before: bytes):
    """[DUR-105] Sizes are."""
    with pytest.raises(CodecError, match=f"{len(PAYLOAD)} other bytes") as caught:
        codec.decompress(memoryview(before + PAYLOAD), 1000)

    assert not any(told in f"{caught.value} {caught.value.found}" for told in TOLD_AS)
