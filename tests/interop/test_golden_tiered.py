"""Storages that brokers wrote through Kafka's own plug-in: every record and answer of the broker.

The broker served its whole log, of which the storage has the older part.
"""

from __future__ import annotations

import hashlib

import pytest

import segstore
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.remote.tiered.object_key import parse_kafka_id
from segstore.remote.tiered.segment_states import read_segment_states
from segstore.types import TopicPartition
from tests.interop.test_golden_bucket_doors import run, spark_rows
from tests.interop.test_golden_buckets import rows_of, rows_read
from tests.kits.golden_bucket import sha256

SUFFIXES = {
    "index": "offset",
    "timeindex": "timestamp",
    "txnindex": "transaction",
    "leader_epoch_checkpoint": "leaderEpoch",
    "snapshot": "producerSnapshot",
}


def partitions_of(case):
    """The partitions of a storage by the names of their folders: all but the topic id."""
    found = [(folder, folder[:-23].rpartition("-")) for folder in case.expected]
    return {TopicPartition(name[0], int(name[2])): folder for folder, name in found}


def test_each_file_and_segment_is_what_the_broker_copied(tiered_case, golden_summary):
    """[TIER-95] [TIER-35] [TIER-36] Sizes, bytes, offsets, epochs; what is not whole is named."""
    store, count = tiered_case.store, 0
    assert set(store.partitions()) == set(partitions_of(tiered_case))
    for topic_partition, folder in partitions_of(tiered_case).items():
        partition = store.partition(topic_partition)
        files = tiered_case.expected[folder]["files"]
        stems = {name.partition(".")[0] for name in files}
        for segment in partition.segments:
            metadata = segment.manifest.metadata
            copy = tiered_case.copies[topic_id_text(metadata.segment_id)]
            stem = f"{segment.start_offset:020}-{copy['segment_id']}"
            stems.remove(stem)
            data = segment.read(0, segment.size_bytes)
            assert {"size": len(data), "sha256": sha256(data)} == files[f"{stem}.log"]
            for suffix, index in SUFFIXES.items():
                data = segment.read_index(index)
                told = None if data is None else {"size": len(data), "sha256": sha256(data)}
                assert told == files.get(f"{stem}.{suffix}")
            assert (segment.start_offset, segment.end_offset) == (
                copy["start_offset"],
                copy["end_offset"],
            )
            assert metadata.max_timestamp_ms == copy["max_timestamp"]
            assert [list(one) for one in metadata.leader_epochs] == copy["leader_epochs"]
            count += 1
        assert {one.main_key for one in partition.left_out} == {
            f"{folder}/{stem}" for stem in stems
        }
        assert partition.plan().gaps == ()
    golden_summary.add("segments of LocalTieredStorage", count, count)
    assert count


def test_the_records_are_those_that_the_broker_served(tiered_case, tmp_path, golden_summary):
    """[SEL-3] [SEL-9] [SEL-11] All, and the committed view, from the broker's log start on."""
    bucket = tiered_case.opened(tmp_path / "spool")
    for topic_partition in partitions_of(tiered_case):
        records = tiered_case.directory / "records"
        everything = rows_of(records / f"{topic_partition}.jsonl")
        view = records / f"{topic_partition}.read_committed.jsonl"
        begin = tiered_case.said["broker"][str(topic_partition)]["log_start_offset"]
        with bucket.open(*topic_partition) as log:
            found = rows_read(log.scan())
            stable = rows_read(log.scan(isolation="read_committed"))
            end, stable_end = log.log_end_offset, log.last_stable_offset
            assert log.log_start_offset <= begin

        assert [row for row in found if row[0] >= begin] == [
            row for row in everything if row[0] < end
        ]
        committed = rows_of(view) if view.exists() else everything
        assert [row for row in stable if row[0] >= begin] == [
            row for row in committed if row[0] < stable_end
        ]
        assert max(row[0] for row in found) == end - 1 or view.exists()
        if tiered_case.is_last:
            tiered = {
                one["target"]: one["offset"]
                for one in tiered_case.answers("offsets_for_times", str(topic_partition))
            }
            assert end == tiered["latest_tiered"] + 1
    golden_summary.add("logs of LocalTieredStorage", *2 * [len(partitions_of(tiered_case))])


def test_look_ups_by_time_give_the_broker_s_answers(tiered_case, tmp_path, golden_summary):
    """[RDB-2] [TIER-71] Those whose answer is in the storage; records.offsets_for_times.json."""
    bucket, count = tiered_case.opened(tmp_path / "spool"), 0
    for topic_partition in partitions_of(tiered_case):
        begin = tiered_case.said["broker"][str(topic_partition)]["log_start_offset"]
        with bucket.open(*topic_partition) as log:
            for answer in tiered_case.answers("offsets_for_times", str(topic_partition)):
                target = answer["target"]
                if not isinstance(target, int):
                    continue
                found = log.fetch_offset_by_timestamp(target, answer["isolation"])
                if 0 <= found.offset < begin:
                    continue  # of a record that the broker has deleted since
                ours = None if found.offset < 0 else (found.offset, found.timestamp)
                is_here = 0 <= answer["offset"] < log.log_end_offset
                if answer["isolation"] == "read_committed":
                    is_here = is_here and answer["offset"] < log.last_stable_offset
                assert ours == ((answer["offset"], answer["timestamp"]) if is_here else None)
                count += 1
    golden_summary.add("look-ups in LocalTieredStorage", count, count)


def committed_batches(found, aborted):
    """What a consumer keeps of a fetch, by the rule of Kafka's `Fetcher` [TXX-4]."""
    waiting = sorted(aborted, key=lambda one: one[1])
    dropped, kept = set(), []
    for batch in found.batches():
        while waiting and waiting[0][1] <= batch.last_offset:
            dropped.add(waiting.pop(0)[0])
        if batch.is_control:
            dropped.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in dropped):
            kept.append(batch.base_offset)
    return kept


def test_fetches_give_the_broker_s_bytes(tiered_case, tmp_path, golden_summary):
    """[TIER-67] [TIER-69] Those that the broker answered from the storage; records/fetches.json.

    A broker's list of aborted transactions also has some without a batch among the bytes.
    """
    bucket, count = tiered_case.opened(tmp_path / "spool"), 0
    for topic_partition in partitions_of(tiered_case):
        name = str(topic_partition)
        times = tiered_case.answers("offsets_for_times", name)
        local = next(one["offset"] for one in times if one["target"] == "earliest_local")
        with bucket.open(*topic_partition) as log:
            for fetch in tiered_case.answers("fetches", name):
                is_committed = fetch["isolation"] == "read_committed"
                end = log.last_stable_offset if is_committed else log.log_end_offset
                last = fetch.get("last_batch_last_offset")
                if fetch["error"] != "NONE" or fetch["fetch_offset"] >= local or last is None:
                    continue
                if last >= end:
                    continue
                found = log.read(fetch["fetch_offset"], fetch["max_bytes"], fetch["isolation"])
                assert hashlib.sha256(found.records).hexdigest() == fetch["records_sha256"]
                if is_committed:
                    kept = committed_batches(found, fetch["aborted_transactions"])
                    assert committed_batches(found, found.aborted_transactions) == kept
                count += 1
    golden_summary.add("fetches from LocalTieredStorage", count, count)


def test_leader_epochs_end_where_the_broker_said(tiered_case, tmp_path, golden_summary):
    """[EPC-5] Those whose end is in the storage; records/epoch_end_offsets.json."""
    bucket, count = tiered_case.opened(tmp_path / "spool"), 0
    for topic_partition in partitions_of(tiered_case):
        with bucket.open(*topic_partition) as log:
            for answer in tiered_case.answers("epoch_end_offsets", str(topic_partition)):
                if 0 <= answer["end_offset"] < log.log_end_offset:
                    found = log.end_offset_for_epoch(answer["epoch"])
                    assert found == (answer["answer_epoch"], answer["end_offset"])
                    count += 1
    golden_summary.add("ends of epochs in LocalTieredStorage", count, count)


def test_with_kafka_s_own_notes_only_finished_copies_are_read(tiered_case, tmp_path):
    """[SEL-13] [TIER-23] `__remote_log_metadata` lies in the broker's log directory."""
    data = tiered_case.directory / tiered_case.remote.replace("remote", "data", 1)
    noted = tiered_case.opened(tmp_path / "spool", remote_log_metadata=data)
    plain = tiered_case.opened(tmp_path / "spool")
    for topic_partition in partitions_of(tiered_case):
        with noted.open(*topic_partition) as log, plain.open(*topic_partition) as other:
            assert rows_read(log.scan()) == rows_read(other.scan())


def test_the_states_of_copies_are_those_that_kafkas_own_store_lists(tiered_case, golden_summary):
    """[RLM-4] [TIER-25] [TIER-26] Also after deletions, and over the partitions of the topic."""
    if not tiered_case.is_last:
        pytest.skip("what Kafka's store lists is of the last storage of the case")
    data = tiered_case.directory / tiered_case.remote.replace("remote", "data", 1)
    states = read_segment_states(data)
    for topic_partition, folder in partitions_of(tiered_case).items():
        listed = tiered_case.listed_by_kafka(topic_partition)
        copies = states.copies(parse_kafka_id(folder[-22:]), topic_partition.partition)
        found = {
            topic_id_text(copy.segment_id.id): (copy.state.name, copy.start_offset)
            for copy in copies
            if copy.state.name != "DELETE_SEGMENT_FINISHED"  # which it forgets
        }

        assert found == {one["segment_id"]: (one["state"], one["start_offset"]) for one in listed}
        golden_summary.add("states of copies", len(found), len(listed))


def test_the_command_and_spark_read_the_records(tiered_case, tmp_path, capfdbinary, monkeypatch):
    """[TIER-95] `segstore cat` of each partition, and Spark's batches of all of them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    every = {}
    for topic_partition in partitions_of(tiered_case):
        with tiered_case.opened(tmp_path / "spool").open(*topic_partition) as log:
            rows = [(row.offset, row.timestamp) for row in log.scan()]
        path = tiered_case.storage / str(topic_partition)
        code, out, err = run(capfdbinary, "cat", path, "-f", "%o %T\n")
        assert (code, err) == (0, "")
        assert [tuple(map(int, line.split())) for line in out.splitlines()] == rows
        every[str(topic_partition)] = rows
    pytest.importorskip("pyspark")
    assert spark_rows(tiered_case.storage, ["--key-prefix", ""]) == every


def test_restored_storages_are_the_broker_s_logs(tiered_case, tmp_path, golden_summary):
    """Records from the broker's log start on; `verify` finds nothing."""
    reports = segstore.restore_bucket(tiered_case.storage, tmp_path / "data")
    for report in reports:
        with segstore.open(report.path, read_only=True) as log:
            name, begin = str(log.topic_partition), log.log_start_offset
            everything = rows_of(tiered_case.directory / "records" / f"{name}.jsonl")
            start = tiered_case.said["broker"][name]["log_start_offset"]
            assert log.verify().ok
            assert [row for row in rows_read(log.scan()) if row[0] >= start] == [
                row for row in everything if begin <= row[0] < report.log_end_offset
            ]
    golden_summary.add("restored logs of LocalTieredStorage", len(reports), len(reports))
