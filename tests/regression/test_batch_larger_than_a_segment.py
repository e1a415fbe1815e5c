"""`append` took a batch larger than a segment; `append_as_leader` refused the same batch.

[APP-11] Kafka: ``RecordBatchTooLargeException`` for what is larger than ``segment.bytes``. What
else of the kind was looked for: the lane's single record, lists, iterables, Arrow tables and
compressed batches, a leader's and a follower's batches, both profiles, a log that has records
already, the hidden ``internal_segment_bytes`` and Spark's sink. A list that is larger than a
segment, in batches that are not, is still split over segments.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import segstore
from segstore.errors import RecordBatchTooLargeError, RecordTooLargeError

MIB = 1024 * 1024
WIDE = (b"k", b"x" * (2 * MIB))
SMALL = (b"k", b"v")


def arrow(*records: tuple[bytes, bytes]) -> pa.Table:
    keys, values = zip(*records, strict=True)
    return pa.table({"key": list(keys), "value": list(values)})


WAYS = {
    "one record": lambda log: log.append([WIDE]),
    "among others": lambda log: log.append([SMALL, WIDE, SMALL]),
    "a generator": lambda log: log.append(record for record in (SMALL, WIDE)),
    "a record": lambda log: log.append(segstore.Record(key=WIDE[0], value=WIDE[1])),
    "arrow": lambda log: log.append(arrow(SMALL, WIDE)),
    "a leader's": lambda log: log.append_as_leader(segstore.MemoryRecords.with_records([WIDE])),
}


@pytest.fixture(params=["safe", "kafka"])
def log(request, tmp_path):
    with segstore.open(
        tmp_path / "topic-0",
        durability="none",
        recovery=request.param,
        segment_bytes=MIB,
        max_message_bytes=10 * MIB,
    ) as log:
        yield log


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("before", [0, 3])
def test_every_way_refuses_it_and_appends_nothing(log, way, before):
    """[APP-11] the error names both sizes and the setting; the log goes on."""
    for _ in range(before):
        log.append([SMALL])
    with pytest.raises(RecordBatchTooLargeError, match="segment_bytes") as caught:
        way(log)
    assert caught.value.expected == f"at most {MIB} bytes"
    assert str(2 * MIB)[:4] in caught.value.found
    assert log.log_end_offset == before
    assert log.append([SMALL]).base_offset == before


def test_a_followers_batch(log):
    """[APP-2, APP-11]"""
    records = segstore.MemoryRecords.with_records([WIDE], partition_leader_epoch=0)
    with pytest.raises(RecordBatchTooLargeError, match="segment_bytes"):
        log.append_as_follower(records, 0)
    assert log.log_end_offset == 0


def test_a_list_that_is_larger_than_a_segment_is_split(log):
    """Its batches fit: as a producer that sends several requests."""
    log.append([(b"k", b"x" * 1000)] * 3000)
    assert log.log_end_offset == 3000
    sizes = [segment.size_bytes for segment in log.segments()]
    assert len(sizes) >= 3
    assert max(sizes) <= MIB


@pytest.mark.parametrize("compression", ["gzip", "lz4", "zstd"])
def test_what_fits_when_it_is_compressed(tmp_path, compression):
    """[APP-11] the stored size counts."""
    pytest.importorskip({"gzip": "zlib", "lz4": "lz4.frame", "zstd": "zstandard"}[compression])
    with segstore.open(
        tmp_path / "topic-0",
        durability="none",
        segment_bytes=MIB,
        max_message_bytes=10 * MIB,
        compression_type=compression,
    ) as log:
        log.append([WIDE])
        assert [record.value for record in log.read(0)] == [WIDE[1]]


def test_the_hidden_setting_is_named(tmp_path):
    """``internal_segment_bytes`` limits, where it is set."""
    with (
        segstore.open(tmp_path / "topic-0", internal_segment_bytes=500) as log,
        pytest.raises(RecordBatchTooLargeError, match="which internal_segment_bytes limits"),
    ):
        log.append([(b"k", b"x" * 500)])


def test_the_limit_of_a_batch_comes_first(tmp_path):
    """[APP-4.6] as for a broker: ``max_message_bytes``, where both are too small."""
    with (
        segstore.open(tmp_path / "topic-0", segment_bytes=MIB) as log,
        pytest.raises(RecordTooLargeError),
    ):
        log.append([WIDE])
