"""What each isolation level shows in Spark, beside a writer with an open transaction."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore import MemoryRecords
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.open_logs import OPEN_LOGS


@pytest.fixture
def writer(tmp_path):
    """Committed, aborted, plain, then an open transaction; of it all nothing was synced."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        for producer_id, commit in ((1, True), (2, False)):
            log.append_as_leader(batch(producer_id, b"%d" % commit))
            marker = MemoryRecords.with_end_transaction_marker(producer_id, 0, commit=commit)
            coordinator = segstore.AppendOrigin.COORDINATOR
            log.append_as_leader(marker.data, origin=coordinator, transaction_version=1)
        log.append([(None, b"plain")])
        log.append_as_leader(batch(3, b"open"))
        yield log
    OPEN_LOGS.close()


def batch(producer_id, value):
    return MemoryRecords.with_records(
        [(None, value)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    ).data


def values(path, **options):
    source = SegstoreDataSource({"path": str(path), "subscribe": "t", **options})
    reader = source.reader(source.schema())
    return [
        value
        for partition in reader.partitions()
        for rows in reader.read(partition)
        for value in rows["value"].to_pylist()
    ]


@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_each_level_ends_where_it_says(tmp_path, writer, prefix):
    """[DUR-81] ``durable`` is ours; a writer's flush moves it."""
    name = f"{prefix}isolation.level"

    assert values(tmp_path) == [b"1", b"0", b"plain", b"open"]
    assert values(tmp_path, **{name: "read_uncommitted"}) == values(tmp_path)
    assert values(tmp_path, **{name: "read_committed"}) == [b"1", b"plain"]
    assert values(tmp_path, **{name: "durable"}) == []
    writer.flush(force_active_segment=True)
    assert values(tmp_path, **{name: "durable"}) == values(tmp_path)
