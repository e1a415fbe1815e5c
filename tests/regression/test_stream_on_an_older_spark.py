"""On Spark 4.0 and 4.1 a stream with ``maxOffsetsPerTrigger`` failed at its second batch.

Spark asks there where a new query starts behind its first end. The reader took that start for the
end of the first batch, so the second one went backwards, which looked like lost data.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.schema import connector_schema
from segstore.spark.stream_reader import UnlimitedStreamReader


@pytest.fixture
def reader_of(tmp_path):
    """A log of a hundred records, and a function that makes readers as Spark 4.0 does."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append([(None, b"v")] * 100)
    options = {"path": str(tmp_path), "subscribe": "t", "maxOffsetsPerTrigger": "30"}

    def make(starting="earliest"):
        given = {**options, "startingOffsets": starting}
        with pytest.warns(UserWarning, match=r"before Spark 4\.2 the first batch"):
            return UnlimitedStreamReader(given, connector_schema(include_headers=False))

    yield make
    OPEN_LOGS.close()


def add(path, count):
    with segstore.open(path / "t-0", durability="none") as log:
        log.append([(None, b"v")] * count)


def end(offset):
    return {"t": {"0": offset}}


def ranges(partitions):
    return [(one.offsets.from_offset, one.offsets.until_offset) for one in partitions]


def test_the_second_batch_begins_where_the_first_one_ended(reader_of, tmp_path):
    reader = reader_of()

    assert reader.latestOffset() == end(100)
    assert reader.initialOffset() == end(0)
    assert ranges(reader.partitions(end(0), end(100))) == [(0, 100)]
    assert reader.latestOffset() == end(100)
    add(tmp_path, 50)
    assert reader.latestOffset() == end(130)
    assert reader.latestOffset() == end(130)  # a batch that was not planned took nothing
    assert ranges(reader.partitions(end(100), end(130))) == [(100, 130)]
    assert reader.latestOffset() == end(150)


def test_a_batch_that_runs_again_tells_where_the_next_one_begins(reader_of, tmp_path):
    add(tmp_path, 50)
    reader = reader_of()

    assert ranges(reader.partitions(end(10), end(40))) == [(10, 40)]
    assert reader.latestOffset() == end(70)


def test_a_start_at_the_end_has_an_empty_first_batch(reader_of, tmp_path):
    reader = reader_of("latest")

    assert reader.latestOffset() == end(100)
    add(tmp_path, 5)
    assert reader.initialOffset() == end(105)
    assert ranges(reader.partitions(end(105), end(100))) == []
    assert reader.latestOffset() == end(105)
    assert ranges(reader.partitions(end(100), end(105))) == [(100, 105)]
    add(tmp_path, 70)
    assert reader.latestOffset() == end(135)
