"""A handle that only reads took the preallocated zeros of a live log for a batch, as Kafka's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.types import SpecialTimestamp
from tests.kits.log_kit import TIME, offsets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_reader_begins_inside_the_last_batch_of_a_preallocated_log(tmp_path: Path, recovery: str):
    """[SEG-18, DUR-76] Kafka looks at the batch behind the one with the offset: there is none."""
    path = tmp_path / "orders-0"
    with segstore.open(
        path, recovery=recovery, preallocate=True, internal_segment_bytes=4000
    ) as log:
        log.append([(None, b"value")] * 10)
        assert (path / log.segments()[0].name).stat().st_size == 4000

        with segstore.open(path, recovery=recovery, read_only=True) as reader:
            assert offsets(reader.scan(5)) == [5, 6, 7, 8, 9]
            assert offsets(reader.read(5)) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_reader_looks_for_times_in_an_empty_preallocated_log(tmp_path: Path, recovery: str):
    """[TS-1, TS-3, DUR-76] What is behind the end is no damage."""
    path = tmp_path / "orders-0"
    with (
        segstore.open(
            path, recovery=recovery, preallocate=True, internal_segment_bytes=4000
        ) as log,
        segstore.open(path, recovery=recovery, read_only=True) as reader,
    ):
        assert (path / log.segments()[0].name).stat().st_size == 4000
        for handle in (log, reader):
            assert handle.offset_for_timestamp(TIME) is None
            assert handle.offset_for_timestamp(-1) is None
            assert handle.fetch_offset_by_timestamp(SpecialTimestamp.MAX).offset == -1
