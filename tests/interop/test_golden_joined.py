"""A broker's directory and its remote storage are one log: each record and answer of the broker."""

from __future__ import annotations

import random

import pytest

from segstore.types import SpecialTimestamp
from tests.interop.test_golden_buckets import rows_of, rows_read
from tests.interop.test_golden_tiered import partitions_of


@pytest.fixture
def local(tiered_case):
    """The broker's log directory of the same moment."""
    if not tiered_case.is_last:
        pytest.skip("the broker's answers are of a later moment")
    return tiered_case.directory / tiered_case.remote.replace("remote", "data")


@pytest.fixture
def bucket(tiered_case, local, tmp_path):
    """Both together."""
    with tiered_case.opened(tmp_path / "spool", local=local) as bucket:
        yield bucket


def test_the_log_has_what_the_broker_served(tiered_case, bucket, golden_summary):
    """[TIER-2] [TIER-5] [SEL-10] Every record once, from log start to end; committed too."""
    for partition in bucket.partitions():
        records = tiered_case.directory / "records"
        everything = rows_of(records / f"{partition}.jsonl")
        view = records / f"{partition}.read_committed.jsonl"
        said = tiered_case.said["broker"][str(partition)]
        with bucket.open(*partition) as log:
            assert rows_read(log.scan()) == everything
            assert rows_read(log.scan(isolation="read_committed")) == (
                rows_of(view) if view.exists() else everything
            )
            assert log.log_start_offset == said["log_start_offset"]
            assert log.log_end_offset == said["high_watermark"]
            assert log.report.damage is None
            assert log.report.warnings == []
    count = len(partitions_of(tiered_case))
    golden_summary.add("logs of a broker and its remote storage", count, count)


def test_ranges_across_the_border_are_those_of_the_whole(tiered_case, bucket):
    """Random ones, and one offset on each side of the first local segment."""
    choice = random.Random(34)
    for partition in bucket.partitions():
        rows = rows_of(tiered_case.directory / "records" / f"{partition}.jsonl")
        times = tiered_case.answers("offsets_for_times", str(partition))
        border = next(one["offset"] for one in times if one["target"] == "earliest_local")
        with bucket.open(*partition) as log:
            start, end = log.log_start_offset, log.log_end_offset
            pairs = [sorted(choice.choices(range(start, end + 1), k=2)) for _ in range(12)]
            pairs += [[max(start, border - 1), min(end, border + 1)]]
            for low, high in pairs:
                found = rows_read(log.scan(low, high))
                assert found == [row for row in rows if low <= row[0] < high]


def test_look_ups_give_the_broker_s_answers(tiered_case, bucket, golden_summary):
    """[TIER-71] [TIER-72] [TIER-73] All times, in both isolations; and the ends."""
    count = 0
    for partition in bucket.partitions():
        with bucket.open(*partition) as log:
            for answer in tiered_case.answers("offsets_for_times", str(partition)):
                target = answer["target"]
                if isinstance(target, int):
                    found = log.fetch_offset_by_timestamp(target, answer["isolation"])
                    ours = None if found.offset < 0 else (found.offset, found.timestamp)
                    is_none = answer["offset"] < 0
                    assert ours == (None if is_none else (answer["offset"], answer["timestamp"]))
                elif target in {"earliest", "latest"}:
                    special = SpecialTimestamp[target.upper()]
                    found = log.fetch_offset_by_timestamp(special, answer["isolation"])
                    assert found.offset == answer["offset"]
                else:
                    continue
                count += 1
    golden_summary.add("look-ups in a broker and its remote storage", count, count)


def test_the_leader_epochs_are_the_broker_s(tiered_case, bucket):
    """[SEL-3] They choose the copies; `epoch_end_offsets.json`."""
    for partition in bucket.partitions():
        with bucket.open(*partition) as log:
            for answer in tiered_case.answers("epoch_end_offsets", str(partition)):
                if answer.get("error", "NONE") == "NONE" and answer["end_offset"] >= 0:
                    found = log.end_offset_for_epoch(answer["epoch"])
                    assert found == (answer["answer_epoch"], answer["end_offset"])
