"""A handle that only reads took the preallocated zeros of a live log for a batch, as Kafka's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from tests.log_kit import offsets

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
