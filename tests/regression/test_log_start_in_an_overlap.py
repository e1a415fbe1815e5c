"""Segments below the log start were removed by their names, also one that reached above it."""

from __future__ import annotations

import contextlib

import pytest

import segstore
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    format_offset_checkpoint,
)
from segstore.log.files.partition_directory import file_name
from segstore.types import TopicPartition
from tests.kits.records_kit import build


def batches(*offsets):
    return b"".join(build([(offset, 1, b"k", b"%d" % offset)]) for offset in offsets)


@pytest.mark.parametrize("marker", [True, False])
@pytest.mark.parametrize("behind", [(), (6,)])
def test_a_segment_that_reaches_above_the_log_start_stays(tmp_path, marker, behind):
    """[DUR-18, DUR-54] A broker's directory in which a stray segment lies within another."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base, data in {
        0: batches(0, 1),
        2: batches(2, 3, 4, 5, 6, 7),
        4: batches(*behind),
        8: batches(8, 9),
    }.items():
        (folder / file_name(base, "log")).write_bytes(data)
    for name, offset in ((LOG_START_OFFSET_CHECKPOINT, 5), (RECOVERY_POINT_CHECKPOINT, 8)):
        line = format_offset_checkpoint({TopicPartition("orders", 0): offset})
        (tmp_path / name).write_bytes(line)
    if marker:
        (tmp_path / CLEAN_SHUTDOWN_MARKER).touch()

    refusal = pytest.raises(CorruptLogError, match="into the next segment")
    with contextlib.nullcontext() if marker else refusal:
        segstore.open(folder).close()

    assert (folder / file_name(2, "log")).read_bytes() == batches(2, 3, 4, 5, 6, 7)
    assert (folder / file_name(0, "log")).exists() is not marker  # nothing goes before a refusal
