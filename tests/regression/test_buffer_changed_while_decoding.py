"""A buffer that its owner changes while it is decoded crashes nothing [DUR-85].

Headers of a record were parsed a second time without bounds. Each place of that kind is in
tests/c/test_changing_bytes.c, where every byte changes at every allocation, and in the corpus of
`fuzz_columns`; here another thread writes, as long as the test takes. A compressed batch of such a
buffer is copied before its library sees it; appends copy whatever is no `bytes`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from segstore import _core
from segstore.errors import SegstoreError
from segstore.records.compression import codec_table
from segstore.types import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "\u07ff\x7f" + "a" * 50
SECONDS = 0.4

READERS: list[Callable[[bytearray], object]] = [
    lambda data: _core.ColumnDecoder(codec_table(), ("headers",), check_crc=False).append(data),
    lambda data: list(_core.iterate_records(data, codec_table(), check_crc=False)),
    lambda data: list(_core.iterate_raw_records(data, codec_table())),
]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
@pytest.mark.parametrize("read", READERS)
def test_headers_that_change_meanwhile(read: Callable[[bytearray], object], codec: Codec):
    """The size of a header key becomes 127, and what it was, again and again."""
    record = _core.Record(key=b"k", value=b"v", timestamp=1, headers=[(KEY, b"x" * 4)] * 8)
    options = _core.BatchOptions(base_offset=0, codec=codec)
    batch = bytes(_core.encode_records([record] * 200, options, codec_table(), 1, 10**7))
    data = bytearray(batch)
    size = bytes([2 * len(KEY.encode())])
    begin = 61 if codec is Codec.NONE else len(data) // 2
    places = [i for i in range(begin, len(data)) if data[i : i + 1] == size] or [begin]
    has_ended = threading.Event()

    def change() -> None:
        while not has_ended.is_set():
            for place in places[::3]:
                data[place] = 0xFE
                data[place] = batch[place]

    writer = threading.Thread(target=change)
    writer.start()
    read_count = 0
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            try:
                read(data)
            except SegstoreError:
                continue
            finally:
                read_count += 1
    finally:
        has_ended.set()
        writer.join()
    assert read_count
    read(bytearray(batch))
