"""Directories of killed brokers, and damaged ones, loaded by us as Kafka's own loader loaded them.

Kafka's profile leaves the same files. The safe one keeps every record that Kafka keeps; what it
reports is named, case by case, in the runner's summary.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import segstore
from segstore._core import scan_batches
from tests.kits.directory_files import check_files, files_of
from tests.kits.kafka_loading import (
    Settings,
    close_quietly,
    load_as_kafka,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.conftest import GoldenSummary
    from tests.interop.golden_case import GoldenPartition


def settings_of(partition: GoldenPartition) -> Settings:
    """The settings of the topic as the broker used them."""
    configs = partition.topic_configs
    number = partition.setting
    return Settings(
        index_interval_bytes=number("index.interval.bytes", "log.index.interval.bytes", 4096),
        segment_index_bytes=number("segment.index.bytes", "log.index.size.max.bytes", 10485760),
        segment_bytes=number("internal.segment.bytes", "log.segment.bytes", 1073741824),
        preallocate=configs.get("preallocate") == "true",
    )


def test_kafkas_profile_leaves_what_kafkas_loader_left(
    loaded_partition: GoldenPartition, golden_summary: GoldenSummary, tmp_path: Path
):
    """[LDR-1..LDR-34, T-10] Every byte of data_after_load, and the offsets that it answered."""
    copy = tmp_path / loaded_partition.name
    shutil.copytree(loaded_partition.directory, copy)
    expected = loaded_partition.loaded
    loaded = load_as_kafka(
        copy,
        clean=loaded_partition.was_clean,
        log_start_offset=expected["log_start_offset_in"],
        recovery_point=expected["recovery_point_in"],
        settings=settings_of(loaded_partition),
        now_ms=expected["loaded_at_ms"],
    )
    end = loaded.log_end.message_offset
    close_quietly(loaded)

    assert loaded.log_start_offset == expected["log_start_offset"]
    assert end == expected["log_end_offset"]
    assert loaded.recovery_point == expected["recovery_point"]
    check_files(files_of(copy), files_of(loaded_partition.loaded_directory))
    golden_summary.add("directories after a load", 1, 1)


def batches_of(directory: Path) -> dict[int, bytes]:
    """Every batch of every segment by its base offset."""
    batches = {}
    for file in sorted(directory.glob("*.log")):
        data = file.read_bytes()
        headers, _ = scan_batches(data, check_crc=False)
        for row in headers:
            position = int(row["position"])
            batch = data[position : position + int(row["size_bytes"])]
            batches[int(row["base_offset"])] = batch
    return batches


def test_a_safe_open_keeps_what_kafka_keeps(
    loaded_partition: GoldenPartition, golden_summary: GoldenSummary, tmp_path: Path
):
    """[DUR-50..DUR-55, LDR-30] No record of data_after_load is missing or changed."""
    shutil.copytree(loaded_partition.data, tmp_path / "data")
    copy = tmp_path / "data" / loaded_partition.name
    settings = settings_of(loaded_partition)
    kept = batches_of(loaded_partition.loaded_directory)

    with segstore.open(
        copy,
        index_interval_bytes=settings.index_interval_bytes,
        segment_index_bytes=settings.segment_index_bytes,
    ) as log:
        report = log.report
        end = log.log_end_offset
        start = log.log_start_offset

    ours = batches_of(copy)
    assert (start, end) == (
        loaded_partition.loaded["log_start_offset"],
        loaded_partition.loaded["log_end_offset"],
    )
    assert {base: ours.get(base) for base in kept} == kept
    beyond = [
        *([f"{len(ours) - len(kept)} batches more"] if len(ours) > len(kept) else []),
        *([report.reason.replace(f"{tmp_path}/data/", "")] if report.reason else []),
        *([f"cut {report.truncated_bytes} bytes"] if report.truncated_bytes else []),
        *(f"kept {name}" for name in (*report.quarantined, *report.set_aside)),
        *report.warnings,
    ]
    golden_summary.name(f"{loaded_partition}, safe: {'; '.join(beyond) or 'nothing to report'}")


def test_salvage_keeps_what_kafka_keeps(
    loaded_partition: GoldenPartition, golden_summary: GoldenSummary, tmp_path: Path
):
    """[DUR-62] Nothing is changed; what is behind damage comes back as well."""
    shutil.copytree(loaded_partition.data, tmp_path / "data")
    source = tmp_path / "data" / loaded_partition.name
    before = files_of(source)
    kept = {  # Kafka looks at no CRC below its recovery point
        base: batch
        for base, batch in batches_of(loaded_partition.loaded_directory).items()
        if scan_batches(batch)[1].stop == "complete"
    }

    report = segstore.salvage(source, tmp_path / "new" / loaded_partition.name)

    check_files(files_of(source), before)
    ours = batches_of(tmp_path / "new" / loaded_partition.name)
    assert {base: ours.get(base) for base in kept} == kept
    assert report.log_start_offset == loaded_partition.loaded["log_start_offset"]
    assert report.log_end_offset >= loaded_partition.loaded["log_end_offset"]
    if len(ours) > len(kept) or report.lost_ranges:
        more = f"{len(ours) - len(kept)} batches more, {report.lost_ranges} ranges lost"
        golden_summary.name(f"{loaded_partition}, salvage: {more}")
