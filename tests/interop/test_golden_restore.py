"""Buckets that brokers wrote, restored: the broker's own files, byte for byte, and its records."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

import segstore
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.remote.local_folder import LocalFolder
from segstore.remote.tiered.aiven_layout import AivenLayout
from segstore.remote.tiered.segment_run import segment_runs
from segstore.remote.tiered.tiered_store import TieredStore
from segstore.types import TopicPartition
from tests.interop.test_golden_buckets import rows_of, rows_read
from tests.kits.golden_bucket import sha256

pytest.importorskip("Crypto")

SUFFIXES = {"index": "offset", "timeindex": "timestamp", "txnindex": "transaction"}


def restored(case, target, **options):
    """Restore all partitions of a case."""
    folder, _, prefix = case.said["key_prefix"].rpartition("/")
    keys = case.directory / "keys"
    return segstore.restore_bucket(
        case.directory / "bucket" / folder,
        target,
        keys=keys if keys.is_dir() else {},
        key_prefix=prefix,
        **options,
    )


def test_restored_files_are_those_of_the_broker(bucket_case, tmp_path, golden_summary):
    """[CHK-2] [IXO-3] Each file of a whole segment; of one that is cut, a part of its bytes."""
    restored(bucket_case, tmp_path / "data")
    said = {one["segment_id"]: one for one in bucket_case.complete_segments}
    folder, _, prefix = bucket_case.said["key_prefix"].rpartition("/")
    bucket = LocalFolder(bucket_case.directory / "bucket" / folder)
    store = TieredStore(bucket, AivenLayout(bucket, bucket_case.keys, prefix, None))
    whole = 0
    for name in bucket_case.said["partitions"]:
        topic, _, number = name.rpartition("-")
        partition = store.partition(TopicPartition(topic, int(number)))
        for run in segment_runs(partition.plan(), name, ""):
            told = said[topic_id_text(run.segment.manifest.metadata.segment_id)]
            files = tmp_path / "data" / name
            data = (files / f"{run.base_offset:020}.log").read_bytes()
            assert data == run.segment.read(run.low, run.high)
            snapshot = files / f"{run.to_offset + 1:020}.snapshot"
            assert snapshot.exists()
            if not run.is_whole:
                assert (files / f"{run.base_offset:020}.timeindex").stat().st_size > 0
                continue
            assert sha256(data) == told["plain_sha256"]
            assert sha256(snapshot.read_bytes()) == told["indexes"]["producerSnapshot"]["sha256"]
            for suffix, index in SUFFIXES.items():
                path = files / f"{run.base_offset:020}.{suffix}"
                found = sha256(path.read_bytes()) if path.exists() else None
                assert found == (told["indexes"][index] or {"sha256": None})["sha256"]
            whole += 1
    golden_summary.add("whole restored segments", whole, whole)
    assert whole


def test_restored_logs_have_the_records_of_the_broker(bucket_case, tmp_path, golden_summary):
    """[SEL-4] [SEL-9] [SEL-11] Opened as a log directory; `verify` finds nothing."""
    reports = restored(bucket_case, tmp_path / "data")
    assert {Path(one.path).name for one in reports} == set(bucket_case.said["partitions"])
    with segstore.open_dir(tmp_path / "data", read_only=True) as logs:
        for report in reports:
            name = Path(report.path).name
            topic, _, number = name.rpartition("-")
            log = logs.log(topic, int(number))
            told = bucket_case.said["partitions"][name]
            records = bucket_case.directory / "records"
            before = rows_of(records / f"{name}.before_log_start.jsonl")
            after = rows_of(records / f"{name}.jsonl")
            committed = records / f"{name}.read_committed.jsonl"
            stable = rows_read(log.scan(isolation="read_committed"))
            from_start = [row for row in stable if row[0] >= told["log_start_offset"]]

            assert log.verify().ok
            assert rows_read(log.scan()) == [
                row for row in before + after if row[0] >= report.log_start_offset
            ]
            assert from_start == (rows_of(committed) if committed.exists() else after)
            assert report.stable_end_offset == told["bucket_stable_offset"]
    golden_summary.add("restored logs", len(reports), len(reports))


@pytest.mark.parametrize("options", [{}, {"topic_ids": 1}])
def test_deleted_records_are_restored_on_request(bucket_case, tmp_path, options):
    """[SEL-9] As far as complete segments still hold them; also for another cluster."""
    topics = {name.rpartition("-")[0] for name in bucket_case.said["partitions"]}
    if options:
        options = {"topic_ids": dict.fromkeys(topics, UUID(int=1))}
    reports = restored(bucket_case, tmp_path / "data", below_log_start=True, **options)
    for report in reports:
        with segstore.open(report.path, read_only=True) as log:
            name = str(log.topic_partition)
            records = bucket_case.directory / "records"
            before = rows_of(records / f"{name}.before_log_start.jsonl")
            after = rows_of(records / f"{name}.jsonl")

            start = bucket_case.said["partitions"][name]["bucket_start_offset"]
            assert log.log_start_offset == report.log_start_offset == start
            assert rows_read(log.scan()) == before + after
            assert log.verify().ok
    again = restored(bucket_case, tmp_path / "data", below_log_start=True, **options)
    assert {one.written_bytes for one in again} == {0}


def test_a_second_restore_finds_all_of_it(bucket_case, tmp_path):
    """Nothing is written again."""
    restored(bucket_case, tmp_path / "data")
    assert {one.written_bytes for one in restored(bucket_case, tmp_path / "data")} == {0}
