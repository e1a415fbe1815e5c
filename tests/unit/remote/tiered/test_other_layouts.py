"""Buckets of other products, modes and builds: refused by name, never read as something else."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("Crypto")

import segstore
from segstore.errors import CorruptLogError, LogNotFoundError, UnsupportedFormatError
from tests.kits.golden_bucket import BucketCase

ICEBERG = (
    "metadata/00001-5f1e.metadata.json",
    "metadata/MYjVUHQzQDmijwMj1vnZNg.puffin",
    "data/kafka.timestamp_day=2026-05-04/00000-1.parquet",
)
OTHERS = {
    "S3 plug-in of 2021": "orders/0/00000000000000000000-a1b2c3.log",
    "Confluent": "0/vMkGvXmOSTWQWXnDhHzIhg/E6PPmDJRQQ2ksSmyE7wFTg/0/0_0_v0.segment",
    "Redpanda": "10000000/meta/kafka/orders/0_19/manifest.bin",
    "AutoMQ": "3b000000/_kafka_Abc/177",
    "WarpStream": "warpstream/vci_1/files/1",
}


def put(root, *keys):
    for key in keys:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"something")


@pytest.mark.parametrize("name", OTHERS)
def test_what_other_products_leave_is_no_topic(tmp_path, name):
    """[VER-4] [BKT-4] The error names what lies there."""
    put(tmp_path, OTHERS[name])
    bucket = segstore.open_bucket(tmp_path, keys={})
    first = OTHERS[name].partition("/")[0]

    for call in (bucket.topics, bucket.partitions, lambda: bucket.left_out("orders", 0)):
        with pytest.raises(LogNotFoundError, match=rf"no topic of Aiven's plug-in.*{first}/"):
            call()
    with pytest.raises(LogNotFoundError, match="no topic"), bucket.open("orders", 0):
        pass


@pytest.mark.parametrize("place", ["", "orders/"])
def test_an_iceberg_table_is_refused_by_its_name(tmp_path, place):
    """[VER-5] At the table's location, and one level above."""
    put(tmp_path, *(f"{place}{key}" for key in ICEBERG))
    with pytest.raises(UnsupportedFormatError, match=rf"{tmp_path}.*Iceberg") as raised:
        segstore.open_bucket(tmp_path, keys={}).topics()
    assert raised.value.file == f"{tmp_path}/{place}".rstrip("/")


def test_segments_of_kafka_mode_beside_a_table_are_read(packed_buckets, tmp_path):
    """[VER-5] Modes may mix in one bucket: keys are the same; a gap says where the rest may be."""
    shutil.copytree(packed_buckets / "leftovers" / "bucket", tmp_path / "bucket")
    put(tmp_path / "bucket", *ICEBERG)
    bucket = segstore.open_bucket(
        tmp_path / "bucket", keys={}, spool_directory=str(tmp_path / "spool")
    )
    with bucket.open("orders", 1) as log:
        assert log.log_end_offset == 376

    for path in (tmp_path / "bucket").rglob("1/00000000000000000073-*"):
        path.unlink()
    with pytest.raises(CorruptLogError, match="Iceberg table"), bucket.open("orders", 1):
        pass


def test_a_topic_below_the_url_is_pointed_out(packed_buckets):
    """[BKT-2] A prefix with ``/`` belongs into the URL."""
    bucket = packed_buckets / "compressed-encrypted" / "bucket"
    with pytest.raises(LogNotFoundError, match="one lies below team a/, which belongs into the"):
        segstore.open_bucket(bucket, keys={}).topics()


def test_an_empty_bucket_has_no_topic(tmp_path):
    """[BKT-5] Nothing was copied yet."""
    assert segstore.open_bucket(tmp_path, keys={}).topics() == []


def test_a_partition_of_which_no_copy_came_through_is_not_in_the_bucket(packed_buckets, tmp_path):
    """[CHK-5] [BKT-5] As with Kafka 4.3.1 and the heuristic of 2026-05: no copy, and no object."""
    shutil.copytree(packed_buckets / "leftovers" / "bucket", tmp_path / "bucket")
    case = BucketCase(packed_buckets / "leftovers")
    topic_id = case.said["partitions"]["orders-1"]["topic_id"]
    shutil.rmtree(tmp_path / "bucket" / f"orders-{topic_id}" / "1")
    bucket = segstore.open_bucket(
        tmp_path / "bucket", keys={}, spool_directory=str(tmp_path / "spool")
    )

    assert [str(one) for one in bucket.partitions()] == ["orders-0"]
    with pytest.raises(LogNotFoundError, match="orders-1"):
        bucket.left_out("orders", 1)
    with pytest.raises(LogNotFoundError, match="orders-1"), bucket.open("orders", 1):
        pass
    with bucket.open("orders", 0) as log:
        assert log.log_end_offset == 193


def test_a_segment_of_a_build_with_an_object_for_each_index_is_left_out(packed_buckets, tmp_path):
    """[VER-3] With its reason."""
    shutil.copytree(packed_buckets / "leftovers" / "bucket", tmp_path / "bucket")
    (path,) = (tmp_path / "bucket").rglob("1/00000000000000000000-*.indexes")
    path.rename(path.with_suffix(".timeindex"))
    bucket = segstore.open_bucket(tmp_path / "bucket", keys={})
    (reason,) = (one.reason for one in bucket.left_out("orders", 1) if path.stem in one.main_key)

    assert isinstance(reason, UnsupportedFormatError)
    assert "before 2023-10-10" in str(reason)
