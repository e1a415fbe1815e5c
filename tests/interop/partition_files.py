"""Segment files of a partition directory, and one segment's indexes rebuilt from its .log."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from segstore import _core
from segstore.log.local.segment import Segment
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.golden_case import GoldenPartition


@dataclass(frozen=True)
class Rebuilt:
    """What recovery made of one .log file."""

    headers: _core.BatchHeaders
    index: bytes
    timeindex: bytes
    offset_entries: list[tuple[int, int]]


def segment_bases(directory: Path) -> list[int]:
    """Base offsets of the segments, ascending."""
    return sorted(int(file.stem) for file in directory.glob("*.log"))


def broker_indexes(directory: Path, base: int) -> tuple[bytes, bytes]:
    """Bytes of the broker's .index and .timeindex."""
    return (directory / f"{base:020}.index").read_bytes(), (
        directory / f"{base:020}.timeindex"
    ).read_bytes()


def rebuild_segment(partition: GoldenPartition, base: int, scratch: Path) -> Rebuilt:
    """Recover a copy of the .log with the interval and index size of the case."""
    target = scratch / f"{base}" / "rebuilt-0"
    target.mkdir(parents=True)
    name = f"{base:020}"
    shutil.copyfile(partition.directory / f"{name}.log", target / f"{name}.log")
    directory = _core.Directory(str(target))
    context = _core.SegmentContext(
        directory,
        codec_table(),
        writable=True,
        index_interval_bytes=partition.setting(
            "index.interval.bytes", "log.index.interval.bytes", 4096
        ),
        max_index_bytes=partition.setting(
            "segment.index.bytes", "log.index.size.max.bytes", 10485760
        ),
    )
    segment = Segment(context, base)
    headers, recovery = segment.recover(expected_offset=base)
    assert recovery.truncated_bytes == 0
    segment.close()
    index, timeindex = broker_indexes(target, base)
    entries = [
        (base + relative, position) for relative, position in struct.iter_unpack(">ii", index)
    ]
    return Rebuilt(headers, index, timeindex, entries)
