"""``.segsum``: checksums of all bytes of a sealed segment's ``.log``, beside it [DUR-60].

The checksum of a batch leaves out its base offset, its length, its leader epoch and its magic. The
file is ours and optional; Kafka looks at no file with a suffix that it does not know. Big-endian::

     0  magic         6 bytes  "SEGSUM"
     6  version       int16    0
     8  block_bytes   int32    65536
    12  base_offset   int64    of the segment, as its name says
    20  size_bytes    int64    of the .log, 1 to 2^31 - 1
    28  next_offset   int64    behind its last record
    36  checksums     uint32   CRC-32C of each block of the .log; the last one may be shorter
     .  checksum      uint32   CRC-32C of all bytes before it
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from segstore._core import crc32c
from segstore.errors import CorruptCheckpointError
from segstore.log.files.partition_directory import file_name
from segstore.number_limits import MAX_INT, MAX_LONG

CHECKSUM_SIDECAR_SUFFIX: Final = "segsum"
BLOCK_BYTES: Final = 65536

_MAGIC: Final = b"SEGSUM"
_VERSION: Final = 0
_HEADER: Final = struct.Struct(">6shiqqq")
_CHECKSUM: Final = struct.Struct(">I")
MAX_SIDECAR_BYTES: Final = (
    _HEADER.size + (MAX_INT // BLOCK_BYTES + 1) * _CHECKSUM.size + _CHECKSUM.size
)
"""Of the largest segment that there can be: 128 KiB and 40 bytes."""

_NAME: Final = re.compile(rf"([0-9]{{20}})\.{CHECKSUM_SIDECAR_SUFFIX}", re.ASCII)


class ChecksumSidecar(NamedTuple):
    """What a segment's ``.log`` was like when it was sealed.

    Attributes
    ----------
    base_offset : int
        Of the segment.
    size_bytes : int
        Of the file.
    next_offset : int
        Behind its last record.
    checksums : tuple of int
        CRC-32C of each `BLOCK_BYTES` bytes of it.
    """

    base_offset: int
    size_bytes: int
    next_offset: int
    checksums: tuple[int, ...]

    def format(self) -> bytes:
        """Return the file's bytes."""
        data = _HEADER.pack(
            _MAGIC, _VERSION, BLOCK_BYTES, self.base_offset, self.size_bytes, self.next_offset
        ) + struct.pack(f">{len(self.checksums)}I", *self.checksums)
        return data + _CHECKSUM.pack(crc32c(data))

    @classmethod
    def parse(cls, data: bytes, base_offset: int) -> ChecksumSidecar:
        """Read the file of the segment at *base_offset*.

        Raises
        ------
        CorruptCheckpointError
            It is none, is damaged, or is that of another segment [DUR-97].
        """
        name = sidecar_name(base_offset)
        at_least = _HEADER.size + _CHECKSUM.size
        if len(data) < at_least:
            raise _corrupt(name, len(data), f"{len(data)} bytes", f"at least {at_least} bytes")
        magic, version, block_bytes, base, size_bytes, next_offset = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise _corrupt(name, 0, f"magic {magic.hex()}", f"{_MAGIC.hex()}")
        if version != _VERSION:
            raise _corrupt(name, 6, f"version {version}", f"version {_VERSION}")
        if block_bytes != BLOCK_BYTES:
            raise _corrupt(name, 8, f"blocks of {block_bytes} bytes", f"of {BLOCK_BYTES}")
        if base != base_offset:
            raise _corrupt(name, 12, f"base offset {base}", f"{base_offset}, as its name says")
        if not 0 < size_bytes <= MAX_INT:
            raise _corrupt(name, 20, f"a segment of {size_bytes} bytes", f"1 to {MAX_INT}")
        if not base_offset <= next_offset <= MAX_LONG:
            raise _corrupt(name, 28, f"next offset {next_offset}", f"{base_offset} or above")
        blocks = -(-size_bytes // BLOCK_BYTES)
        expected_bytes = at_least + blocks * _CHECKSUM.size
        if len(data) != expected_bytes:
            raise _corrupt(name, len(data), f"{len(data)} bytes", f"{expected_bytes} bytes")
        end = expected_bytes - _CHECKSUM.size
        (told,) = _CHECKSUM.unpack_from(data, end)
        computed = crc32c(memoryview(data)[:end])
        if told != computed:
            raise _corrupt(name, end, f"checksum {told:08x}", f"{computed:08x} of what is there")
        checksums = struct.unpack_from(f">{blocks}I", data, _HEADER.size)
        return cls(base, size_bytes, next_offset, checksums)


def sidecar_name(base_offset: int) -> str:
    """Return the name of the sidecar of the segment at *base_offset*."""
    return file_name(base_offset, CHECKSUM_SIDECAR_SUFFIX)


def sidecar_base_offset(name: str) -> int | None:
    """Return whose sidecar *name* is; None for every other name [DUR-98]."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    base_offset = int(match[1])
    return None if base_offset > MAX_LONG else base_offset


def _corrupt(name: str, position: int, found: str, expected: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        "this is no checksum sidecar of this segment, or it is damaged",
        file=name,
        position=position,
        found=found,
        expected=expected,
    )
