"""A batch that compressed well was accepted, and refused by every reader [DUR-92].

The limit on decompressed batches was checked for prebuilt batches only.
"""

from __future__ import annotations

import pytest

import segstore
from tests.kits.log_kit import TIME


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_no_reader_would_take_are_refused(new_log, codec):
    pa = pytest.importorskip("pyarrow")
    log = new_log(compression_type=codec, max_decompressed_batch_bytes=1000)
    log.append([(TIME, b"k", bytes(800))])
    for records in ([(TIME, b"k", bytes(5000))], pa.table({"value": [bytes(5000)]})):
        with pytest.raises(segstore.LimitExceededError) as caught:
            log.append(records)
        assert "max_decompressed_batch_bytes = 1000" in caught.value.message
        assert caught.value.expected == "at most 1000 bytes"
    log.append([(TIME, b"k", b"ok")])
    assert [len(value) for *_, value in log.scan().tuples()] == [800, 2]
    assert log.verify().ok
