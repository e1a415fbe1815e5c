"""A broker's records through a frame of each library and back: nothing of them is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest

import segstore
from segstore.errors import SegstoreError
from tests.kits.core_inputs import pandas_of
from tests.kits.golden import golden_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interop.conftest import GoldenSummary
    from tests.interop.golden_case import GoldenPartition

PARTS = ("key", "value", "timestamp", "headers")
FRAMES: dict[str, Callable[[Any], Any]] = {
    "pyarrow": pa.table,
    "polars": pl.DataFrame,
    "pandas": pandas_of,
}
NAMES = {"key": "user_id", "value": "payload", "timestamp": "created_at", "headers": "tags"}
"""Columns of a frame by the parts of a record."""


def renamed(frame: Any) -> Any:
    """The same columns, by names that only a caller knows."""
    if isinstance(frame, pa.Table):
        return frame.rename_columns([NAMES.get(name, name) for name in frame.column_names])
    if isinstance(frame, pl.DataFrame):
        return frame.rename(NAMES)
    return frame.rename(columns=NAMES)


def readable_scan(log: segstore.Log) -> segstore.LogScan:
    """All that can be read; of a damaged log, what is before the damage."""
    end = log.log_start_offset
    try:
        for record in log:
            end = record.offset + 1
    except SegstoreError:
        return log.scan(log.log_start_offset, end)
    return log.scan()


@pytest.mark.parametrize("library", FRAMES)
def test_records_go_through_a_frame_and_back(
    dumped_partition: GoldenPartition,
    library: str,
    tmp_path: Path,
    golden_summary: GoldenSummary,
):
    """Key, value, timestamp and headers of each, under the names of a log and under others."""
    with segstore.open(dumped_partition.directory, read_only=True) as source:
        scan = readable_scan(source)
        expected = scan.to_arrow(columns=PARTS)
        frame = FRAMES[library](scan)
    for number, (given, names) in enumerate([(frame, {}), (renamed(frame), NAMES)]):
        with segstore.open(
            tmp_path / f"copy-{number}", durability="none", max_message_bytes=2**30
        ) as copy:
            copy.append(given, **names)
            found = copy.to_arrow(columns=PARTS)

        assert found.equals(expected)
    golden_summary.add(f"records through {library}", expected.num_rows, expected.num_rows)


def copyable_topics(root: Path) -> list[tuple[Path, str]]:
    """Topics whose partitions all can be read to their ends, with records."""
    found = []
    for directory in sorted(root.glob("*/data*")):
        with segstore.open_dir(directory, read_only=True) as logs:
            for topic in logs.topics():
                try:
                    if logs.count(topic):
                        found.append((directory, topic))
                except SegstoreError:  # damaged, or a partition is missing
                    continue
    return found


def test_topics_are_copied_with_their_partitions(
    pytestconfig: pytest.Config, tmp_path: Path, golden_summary: GoldenSummary
):
    """As the guide copies a topic: by its scan, and by a frame of it."""
    for number, (directory, topic) in enumerate(copyable_topics(golden_root(pytestconfig))):
        with (
            segstore.open_dir(directory, read_only=True) as logs,
            segstore.open_dir(
                tmp_path / str(number), durability="none", max_message_bytes=2**30
            ) as copies,
        ):
            scan = logs.scan(topic, isolation="read_committed")
            for name, given in (("scan", scan), ("frame", pl.DataFrame(scan))):
                copies.create_topic(name, max(scan.partitions) + 1)
                copies.append(name, given, partition="partition")
                found = copies.to_arrow(name, columns=("partition", *PARTS))

                assert found.equals(scan.to_arrow(("partition", *PARTS)))
        golden_summary.add("topics through frames", 1, 1)
