"""How many bytes of a partition are fetched for a part of it: counted at the store."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

pytest.importorskip("Crypto")

import segstore
from segstore.remote import block_reader
from segstore.remote.bucket import open_tiered_store
from segstore.remote.local_folder import LocalFolder
from segstore.remote.remote_logs import RemoteLogs, RemoteSettings
from segstore.remote.tiered import tiered_store
from segstore.remote.tiered.tiered_segment import TieredSegment
from segstore.remote.urls import is_url
from segstore.types import Isolation, TopicPartition
from tests.kits.remote_directories import remote_rows
from tests.kits.tiered_writer import write_key, write_log

RECORDS, SEGMENT_RECORDS = 60_000, 1500
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def bucket_folder(tmp_path_factory):
    """Forty segments, 60 MB, whose bytes do not get smaller by compression."""
    folder = tmp_path_factory.mktemp("bucket")
    chance = random.Random(34)
    with segstore.open(folder / "orders-0", max_message_bytes=2**20) as log:
        for start in range(0, RECORDS, 20):
            log.append(
                [
                    segstore.Record(
                        key=b"%d" % offset,
                        value=chance.randbytes(1000),
                        timestamp=START_MS + 1000 * offset,
                    )
                    for offset in range(start, start + 20)
                ]
            )
            if (start + 20) % SEGMENT_RECORDS == 0:
                log.roll()
    write_key(folder / "keys")
    write_log(folder / "orders-0", folder / "bucket", 64 * 1024, key_id="k1")
    return folder


class Counted:
    """Bytes that were fetched, of objects."""

    def __init__(self) -> None:
        self.fetched: list[tuple[str, int]] = []

    def take(self) -> int:
        count = sum(size for _, size in self.fetched)
        self.fetched.clear()
        return count


@pytest.fixture
def counted(monkeypatch):
    """Count what a folder is asked for that is read as if it were far away."""
    monkeypatch.setattr(block_reader, "is_url", lambda _: True)
    monkeypatch.setattr(TieredSegment, "read_into", lambda *_: False)
    counts, read_range = Counted(), LocalFolder.read_range

    def read(self, file, start, end):
        counts.fetched.append((file.name, end - start))
        return read_range(self, file, start, end)

    monkeypatch.setattr(LocalFolder, "read_range", read)
    return counts


def opened(folder, tmp_path):
    bucket = segstore.open_bucket(
        folder / "bucket", keys=folder / "keys", spool_directory=str(tmp_path / "spool")
    )
    return bucket.open("orders", 0)


def total_of(folder) -> int:
    return sum(path.stat().st_size for path in (folder / "bucket").rglob("*.log"))


PERCENT = RECORDS // 100
READS: dict[str, Any] = {
    "scan": lambda log, at: [one.offset for one in log.scan(at, at + PERCENT)],
    "to_arrow": lambda log, at: log.scan(at, at + PERCENT).to_arrow()["offset"].to_pylist(),
    "columns": lambda log, at: (
        log.scan(at, at + PERCENT).to_arrow(columns=["offset"])["offset"].to_pylist()
    ),
    "committed": lambda log, at: [
        one.offset for one in log.scan(at, at + PERCENT, isolation="read_committed")
    ],
    "slice": lambda log, at: [one.offset for one in log[at : at + PERCENT]],
    "read": lambda log, at: list(range(log.read(at, 1).start_offset, at + PERCENT)),
    "count": lambda log, at: list(range(at, at + log.scan(at, at + PERCENT).count())),
    "times": lambda log, at: [
        one.offset for one in log.scan(0, at + PERCENT, start_timestamp=START_MS + 1000 * at)
    ],
    "from a time": lambda log, at: list(
        range(found := log.offset_for_timestamp(START_MS + 1000 * at), found + PERCENT)
    ),
}


@pytest.mark.parametrize("place", [0, 0.37, 0.98])
@pytest.mark.parametrize("name", READS)
def test_one_percent_of_a_partition_costs_at_most_three(
    bucket_folder, tmp_path, counted, name, place
):
    """[RDB-1] [RDB-2] [RDB-3] With the open, its manifests and indexes, from any place."""
    at = int(place * RECORDS)
    with opened(bucket_folder, tmp_path) as log:
        found = READS[name](log, at)
    counts = counted.take()

    assert found == list(range(at, at + PERCENT))
    assert counts <= 0.03 * total_of(bucket_folder)


def test_an_open_reads_manifests_and_little_more(bucket_folder, tmp_path, counted):
    """[RDB-3] No segment but the last one is touched, there its end."""
    with opened(bucket_folder, tmp_path) as log:
        assert log.log_end_offset == RECORDS
        assert log.last_stable_offset == RECORDS
    segments = {name for name, _ in counted.fetched if name.endswith(".log")}

    assert len(segments) == 1
    assert sum(size for name, size in counted.fetched if name.endswith(".log")) <= 2 * 65_564


def test_a_scan_fetches_each_byte_once(bucket_folder, tmp_path, counted):
    """What is fetched ahead goes to the spool the second time; a third scan fetches nothing."""
    fetched = []
    for _ in range(3):
        with opened(bucket_folder, tmp_path) as log:
            assert log.scan().to_arrow(columns=["offset"]).num_rows == RECORDS
        fetched.append(sum(size for name, size in counted.fetched if name.endswith(".log")))
        counted.take()
    first, second, third = fetched
    assert first == total_of(bucket_folder)
    assert 0 < second < first
    assert third == 0


def test_a_folder_of_this_machine_leaves_no_plain_copy(
    bucket_folder, tmp_path, counted, monkeypatch
):
    """[RDB-1] Its chunks are read again, each once a scan; the spool has none of them."""
    monkeypatch.setattr(block_reader, "is_url", is_url)
    for _ in range(2):
        with opened(bucket_folder, tmp_path) as log:
            counted.take()
            assert log.scan().to_arrow(columns=["offset"]).num_rows == RECORDS
        of_logs = sum(size for name, size in counted.fetched if name.endswith(".log"))
        counted.take()
        # the last blocks, which the open reads, may be in memory still
        assert 0.99 * total_of(bucket_folder) < of_logs <= total_of(bucket_folder)
    kept = sum(path.stat().st_size for path in (tmp_path / "spool").rglob("*") if path.is_file())
    assert kept < total_of(bucket_folder) / 100


@pytest.mark.parametrize("isolation", [Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED])
@pytest.mark.parametrize("place", [0, 0.37, 0.98])
def test_one_percent_costs_spark_at_most_three(bucket_folder, tmp_path, counted, place, isolation):
    """[RDB-3] As a task reads it, after the planning."""
    at = int(place * RECORDS)
    store = open_tiered_store(bucket_folder / "bucket", bucket_folder / "keys", "", None, {})
    logs = RemoteLogs(store.url, RemoteSettings(spool_directory=str(tmp_path / "spool")), store)
    orders = TopicPartition("orders", 0)
    assert logs.bounds(orders, isolation).end_offset == RECORDS
    rows, error = remote_rows(logs, orders, at, at + PERCENT, isolation)

    assert error is None
    assert [row["offset"] for row in rows] == list(range(at, at + PERCENT))
    assert counted.take() <= 0.03 * total_of(bucket_folder)


def test_a_plain_segment_is_read_by_blocks_whatever_its_chunks_are(
    bucket_folder, tmp_path, counted, monkeypatch
):
    """[CHK-2] [RDB-1] Its bytes are those of the broker's file: no chunk has to be undone."""
    monkeypatch.setattr(tiered_store, "MOST_PLAIN_BLOCK_BYTES", 2**17)
    write_log(bucket_folder / "orders-0", tmp_path / "bucket", 2**30 - 1)
    bucket = segstore.open_bucket(tmp_path / "bucket", spool_directory=str(tmp_path / "spool"))
    at = RECORDS // 2
    with bucket.open("orders", 0) as log:
        assert [one.offset for one in log.scan(at, at + 10)] == list(range(at, at + 10))
    sizes = [size for name, size in counted.fetched if name.endswith(".log")]

    assert max(sizes) <= 2**17
    assert sum(sizes) <= 3 * 2**17


@pytest.mark.parametrize("key_id", [None, "k1"])
def test_a_largest_timestamp_that_a_manifest_has_wrong_hides_no_record(
    bucket_folder, tmp_path, key_id
):
    """[MAN-7] [RDB-2] The last entry of the time index tells it too; a check names both."""
    write_log(bucket_folder / "orders-0", tmp_path / "bucket", 64 * 1024, key_id=key_id)
    path = sorted((tmp_path / "bucket").rglob("*.rsm-manifest"))[7]
    fields = json.loads(path.read_bytes())
    fields["remoteLogSegmentMetadata"]["maxTimestampMs"] -= 10**9
    path.write_text(json.dumps(fields))
    first = 8 * SEGMENT_RECORDS - 100
    start = START_MS + 1000 * first

    bucket = segstore.open_bucket(
        tmp_path / "bucket", keys=bucket_folder / "keys", spool_directory=str(tmp_path / "spool")
    )
    with bucket.open("orders", 0) as log:
        found = [one.offset for one in log.scan(0, first + 100, start_timestamp=start)]
        assert found == list(range(first, first + 100))
        assert log.offset_for_timestamp(start) == first
    (problem,) = bucket.verify("orders", 0).problems
    assert path.name.removesuffix(".rsm-manifest") in problem
    assert str(fields["remoteLogSegmentMetadata"]["maxTimestampMs"]) in problem
