"""Directories that a broker compacted, or was killed while it did: our cleaner goes on there."""

from __future__ import annotations

import base64
import json
import shutil
from typing import TYPE_CHECKING

import pytest

import segstore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.conftest import GoldenSummary
    from tests.interop.golden_case import GoldenPartition


def last_values(partition: GoldenPartition) -> dict[bytes, bytes]:
    """The last committed value of each key, as the broker served them; without deleted keys."""
    committed = partition.committed_records_file
    lines = (committed if committed.exists() else partition.records_file).read_text().splitlines()
    found = {row["key"]: row["value"] for row in map(json.loads, lines)}
    return {
        base64.b64decode(key): base64.b64decode(value)
        for key, value in found.items()
        if value is not None
    }


@pytest.mark.parametrize("profile", ["safe", "kafka"])
def test_our_cleaner_goes_on_where_the_broker_stopped(
    compacted_partition: GoldenPartition,
    profile: str,
    golden_summary: GoldenSummary,
    tmp_path: Path,
):
    """[CLN-84, CLN-113…CLN-117, DUR-126] Whatever the swap had done, no value is lost or back.

    Before the active segment each key has one record then, and a second pass changes nothing.
    """
    shutil.copytree(compacted_partition.data, tmp_path / "data")
    number = compacted_partition.setting
    with segstore.open_dir(
        tmp_path / "data",
        recovery=profile,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=0.0,
        internal_segment_bytes=number("internal.segment.bytes", "log.segment.bytes", 2**30),
    ) as logs:
        topic, _, partition = compacted_partition.name.rpartition("-")
        log = logs.log(topic, int(partition))
        start, end = log.log_start_offset, log.log_end_offset
        if profile == "kafka":
            log.update_high_watermark(end)
        log.roll()  # the dirty tail too
        report = logs.maintain()
        records = list(log.scan(isolation="read_committed"))
        values = {one.key: one.value for one in records}
        found = {key: value for key, value in values.items() if value is not None}

        assert report.failed == ()
        assert log.topic_partition in {one.topic_partition for one in report.cleaned}
        assert found == last_values(compacted_partition)
        assert len(values) == len(records)
        assert (log.log_start_offset, log.log_end_offset) == (start, end)
        assert log.verify().ok
        assert logs.maintain(2**42).cleaned == ()
    kinds = {one.suffix for one in (tmp_path / "data" / compacted_partition.name).iterdir()}
    assert kinds.isdisjoint({".cleaned", ".swap"})
    golden_summary.add("compacted logs with the last value of each key", 1, 1)
