"""A builder whose `build` runs without the interpreter lock was changed by another thread.

The section was moved while it was compressed: the process crashed.
"""

from __future__ import annotations

import os
import threading

import pytest

from segstore._core import RecordsBuilder, iterate_records
from segstore.errors import IllegalStateError
from segstore.records.compression import codec_table


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [0, 1, 4])
def test_nothing_is_appended_during_a_build(magic, codec):
    if magic == 1 and codec == 4:
        pytest.skip("zstd needs magic 2")
    value = os.urandom(1 << 20)
    builder = RecordsBuilder(codec_table(), codec=codec, magic=magic)
    count = 12
    for offset in range(count):
        builder.append(offset, 0, None, value)
    built = []
    thread = threading.Thread(target=lambda: built.append(builder.build()))
    thread.start()
    refused = 0
    while thread.is_alive():
        try:
            builder.append(count, 0, None, value)
            count += 1
        except IllegalStateError:  # it is busy, or has been built
            refused += 1
    thread.join()

    records = list(iterate_records(built[0], codec_table()))
    assert len(records) <= count
    assert {record.value for record in records} == {value}
