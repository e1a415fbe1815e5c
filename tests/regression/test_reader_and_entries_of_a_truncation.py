"""A handle that only reads believed an index entry of a live log that a truncation had cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.log_kit import TIME, offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog


@pytest.mark.parametrize("preallocate", [False, True])
@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_entries_that_a_truncation_left_behind_lead_a_reader_nowhere(
    new_log: Callable[..., UnifiedLog], recovery: str, *, preallocate: bool
):
    """[OFX-5, TMX-7, DUR-53, DUR-62] Kafka lowers a count in memory; the bytes stay in the file.

    The count is the writer's alone, and the batch behind the truncation has no entry yet.
    """
    writer = new_log(
        recovery=recovery,
        index_interval_bytes=0,
        segment_index_bytes=4096,
        internal_segment_bytes=2000,
        preallocate=preallocate,
    )
    for number in range(5):
        writer.append([(TIME + number, None, b"before")])
    writer.truncate_to(0)
    writer.append([(TIME + number, None, b"longer than that") for number in range(5)])

    reader = new_log(recovery=recovery, read_only=True)

    assert reader.log_end_offset == 5
    for offset in range(5):
        assert offsets(reader.scan(offset)) == list(range(offset, 5))
        assert offsets(reader.read(offset, 100)) == list(range(offset, 5))
        assert reader.offset_for_timestamp(TIME + offset) == offset
    assert reader.offset_for_timestamp(TIME + 5) is None
