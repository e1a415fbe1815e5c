"""A directory as an old broker could leave it: a segment whose offsets outgrew its base offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import segstore
from segstore._core import Directory, SegmentContext
from segstore.log.files.partition_directory import file_name
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments
from segstore.log.recovery.overflow_split import split_overflowed_segment
from segstore.records.compression import codec_table
from tests.kits.kafka_loading import Settings, close_quietly, load_as_kafka
from tests.kits.records_kit import build, rows

if TYPE_CHECKING:
    from pathlib import Path

MAX_INT = 2**31 - 1
KINDS = ("log", "index", "timeindex", "txnindex")
SETTINGS = Settings(index_interval_bytes=1)
BASES = [0, MAX_INT, 3 * MAX_INT]
OVERFLOWED = BASES[1]
"""Of three segments the second: it holds two groups of batches, the second of which is too far."""
SPLIT_BASE = 2 * MAX_INT + 1
"""The first batch that does not fit."""


def sample_batches(first: int) -> bytes:
    """Kafka's ``writeSampleBatches``: at the base, behind it, and as far from it as can be."""

    def batch(*offsets: int) -> bytes:
        return build([(offset, 0, b"%d" % offset, b"") for offset in offsets])

    return batch(first) + batch(first + 1, first + 2) + batch(first + MAX_INT - 1)


def write_overflowed_log(folder: Path) -> list[bytes]:
    """Three segments with empty indexes; returns the keys of their records."""
    groups = [[0], [MAX_INT, 2 * MAX_INT], [3 * MAX_INT]]
    folder.mkdir()
    for base, firsts in zip(BASES, groups, strict=True):
        (folder / file_name(base, "log")).write_bytes(b"".join(map(sample_batches, firsts)))
        for kind in ("index", "timeindex"):
            (folder / file_name(base, kind)).touch()
    return keys(folder)


def keys(folder: Path) -> list[bytes]:
    """The keys of all records in the order of the files."""
    files = sorted(folder.glob("*.log"))
    return [row[2] for file in files for row in rows(file.read_bytes())]


def bases(folder: Path) -> list[int]:
    return sorted(int(file.stem) for file in folder.glob("*.log"))


def split(folder: Path) -> None:
    """Split the second segment; the files of the old one become ``.deleted``."""
    directory = Directory(str(folder))
    context = SegmentContext(
        directory, codec_table(), writable=True, kafka_profile=True, index_interval_bytes=1
    )
    segments = Segments(Segment(context, base) for base in bases(folder))
    overflowed = segments.get(OVERFLOWED)
    assert overflowed is not None
    result = split_overflowed_segment(overflowed, segments, directory, context)
    for segment in (*result.segments, *result.taken_out):
        segment.close_quietly()


def rename(folder: Path, base: int, old: str, new: str) -> None:
    """Give the files of one segment another suffix."""
    for kind in KINDS:
        file = folder / f"{file_name(base, kind)}{old}"
        if file.exists():
            file.rename(folder / f"{file_name(base, kind)}{new}")


def load(folder: Path, recovery: str) -> None:
    """Load after an unclean stop, with everything to be recovered."""
    if recovery == "kafka":
        loaded = load_as_kafka(folder, clean=False, settings=SETTINGS)
        for one in loaded.awaiting_deletion:  # as after file.delete.delay.ms
            if isinstance(one, Segment):
                one.delete_files()
        close_quietly(loaded)
    else:
        segstore.open(folder, index_interval_bytes=1, segment_ms=None).close()
