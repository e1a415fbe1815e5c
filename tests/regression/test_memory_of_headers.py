"""Headers take two bytes each: 32 bytes of every one were kept, and for good [DUR-102]."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from segstore._core import crc32c, write_varint
from segstore.records import zstd_codec

if TYPE_CHECKING:
    from pathlib import Path

HEADERS_COUNT = 12_000_000
MIB = 1024 * 1024
PEAK_BYTES = 200 * MIB
KEPT_BYTES = 40 * MIB
APPEND = """
import sys
import segstore
from pathlib import Path

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

batch = Path(sys.argv[2]).read_bytes()
outcome = "appended"
with segstore.open(sys.argv[1], durability="none", compression_type="lz4") as log:
    log.append_as_leader(segstore.MemoryRecords(Path(sys.argv[3]).read_bytes()))
    peak, kept = memory("VmHWM"), memory("VmRSS")
    try:
        log.append_as_leader(batch)
    except segstore.errors.InvalidRecordError:
        outcome = "refused"
    print(memory("VmHWM") - peak, memory("VmRSS") - kept, outcome)
"""


def zstd_batch(headers_count: int, *, headers: bytes = b"\x00\x01", more: bytes = b"") -> bytes:
    body = b"\x00\x00\x00" + write_varint(-1) * 2 + write_varint(headers_count)
    body += headers * headers_count
    payload = zstd_codec.compress(write_varint(len(body)) + body + more, 3)
    tail = struct.pack(">hiqqqhii", 4, 0, 0, 0, -1, -1, -1, 1) + payload
    return struct.pack(">qiibI", 0, 9 + len(tail), -1, 2, crc32c(tail)) + tail


@pytest.mark.parametrize(
    ("batch", "outcome"),
    [
        ({}, "appended"),
        ({"headers": b"\x02\xff\x01", "headers_count": HEADERS_COUNT // 3}, "appended"),
        ({"more": b"\x00"}, "refused"),
    ],
    ids=["copied", "keys_replaced", "refused"],
)
def test_a_batch_of_many_headers_takes_memory_by_its_bytes(
    tmp_path: Path, batch: dict[str, object], outcome: str
):
    """[DUR-85, DUR-102] Nothing is kept of the rare large batch, taken or not."""
    given, small = tmp_path / "given", tmp_path / "small"
    given.write_bytes(zstd_batch(**({"headers_count": HEADERS_COUNT} | batch)))
    small.write_bytes(zstd_batch(2))
    assert given.stat().st_size < 64 * 1024

    command = (sys.executable, "-c", APPEND, str(tmp_path / "topic-0"), str(given), str(small))
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    peak, kept, was = done.stdout.split()
    assert was == outcome
    assert int(peak) < PEAK_BYTES
    assert int(kept) < KEPT_BYTES
