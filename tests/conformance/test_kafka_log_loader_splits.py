"""Kafka's LogLoaderTest on segments that are split: by a recovery, and after a crash in a split.

With both profiles: what a split makes is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, SegmentContext
from segstore.errors import IllegalArgumentError
from segstore.log.files.partition_directory import file_name
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments
from segstore.log.recovery.overflow_split import has_overflow, split_overflowed_segment
from segstore.number_limits import MAX_LONG
from segstore.records.compression import codec_table
from tests.kits.kafka_loading import close_quietly, load_as_kafka
from tests.kits.overflow_kit import (
    BASES,
    OVERFLOWED,
    SETTINGS,
    SPLIT_BASE,
    bases,
    keys,
    load,
    rename,
    split,
    write_overflowed_log,
)

if TYPE_CHECKING:
    from pathlib import Path

BOTH = pytest.mark.parametrize("recovery", ["kafka", "safe"])
SPLIT_BASES = sorted([*BASES, SPLIT_BASE])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


def check_split(folder: Path, written: list[bytes]) -> None:
    """All keys, in order, in one segment more, and nothing left over."""
    assert keys(folder) == written
    assert bases(folder) == SPLIT_BASES
    assert [path.name for path in folder.iterdir() if path.suffix in LEFTOVERS] == []


LEFTOVERS = {".deleted", ".cleaned", ".swap"}


@BOTH
def test_recovery_of_segment_with_offset_overflow(folder: Path, recovery: str):
    """[LDR-30, LDR-31, LOC-25] LogLoaderTest.testRecoveryOfSegmentWithOffsetOverflow."""
    written = write_overflowed_log(folder)
    close_quietly(
        load_as_kafka(folder, clean=False, recovery_point=MAX_LONG, settings=SETTINGS)
    )  # nothing is recovered, and nothing noticed
    assert bases(folder) == BASES

    load(folder, recovery)

    check_split(folder, written)
    directory = Directory(str(folder))
    context = SegmentContext(directory, codec_table(), writable=True, kafka_profile=True)
    segments = Segments(Segment(context, base) for base in bases(folder))
    for segment in segments:
        assert not has_overflow(segment)
        with pytest.raises(IllegalArgumentError):
            split_overflowed_segment(segment, segments, directory, context)
        segment.close_quietly()


@BOTH
def test_recovery_after_crash_during_split_phase_1(folder: Path, recovery: str):
    """[LDR-3, LOC-26] LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase1.

    A crash before any rename: half-written ``.cleaned`` files, and all of the old segment.
    """
    written = write_overflowed_log(folder)
    split(folder)
    for base in (OVERFLOWED, SPLIT_BASE):
        rename(folder, base, "", ".cleaned")
        (folder / f"{file_name(base, 'log')}.cleaned").write_bytes(b"")
    rename(folder, OVERFLOWED, ".deleted", "")

    load(folder, recovery)

    check_split(folder, written)


@BOTH
def test_recovery_after_crash_during_split_phase_2(folder: Path, recovery: str):
    """[LDR-3, LOC-26, T-10] LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase2.

    A crash between the renames to ``.swap``: the last segment has it, the first has not.
    """
    written = write_overflowed_log(folder)
    split(folder)
    for base, suffix in ((OVERFLOWED, ".cleaned"), (SPLIT_BASE, ".swap")):
        rename(folder, base, "", suffix)
        (folder / f"{file_name(base, 'log')}{suffix}").write_bytes(b"")
    rename(folder, OVERFLOWED, ".deleted", "")

    load(folder, recovery)

    check_split(folder, written)


@BOTH
def test_recovery_after_crash_during_split_phase_3(folder: Path, recovery: str):
    """[LDR-5, LDR-6, T-10] LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase3.

    All new segments are complete, the old one is there yet: here emptied, so as to show.
    """
    written = write_overflowed_log(folder)
    split(folder)
    for base in (OVERFLOWED, SPLIT_BASE):
        rename(folder, base, "", ".swap")
    rename(folder, OVERFLOWED, ".deleted", "")
    (folder / file_name(OVERFLOWED, "log")).write_bytes(b"")

    load(folder, recovery)

    check_split(folder, written)


@BOTH
def test_recovery_after_crash_during_split_phase_4(folder: Path, recovery: str):
    """[LDR-6, T-10] LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase4.

    All new segments are complete, the old one is gone.
    """
    written = write_overflowed_log(folder)
    split(folder)
    for base in (OVERFLOWED, SPLIT_BASE):
        rename(folder, base, "", ".swap")
    for path in folder.glob("*.deleted"):
        path.unlink()

    load(folder, recovery)

    check_split(folder, written)
