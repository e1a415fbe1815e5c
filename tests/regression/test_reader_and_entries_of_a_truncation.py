"""A handle that only reads believed an index entry of a live log that a truncation had cut off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from segstore.types import SpecialTimestamp
from tests.kits.log_kit import TIME, offsets

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


@pytest.mark.parametrize("tail", [b"", b"\0" * 7 + b"\x63\0\0\0\x60torn", bytes(500)], ids=len)
@pytest.mark.parametrize("counts", [(0, 0), (0, 2), (2, 0), (5, 1), (5, 3)])
@pytest.mark.parametrize("preallocate", [False, True])
@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_the_largest_timestamp_is_one_that_is_there(
    new_log: Callable[..., UnifiedLog],
    recovery: str,
    counts: tuple[int, int],
    tail: bytes,
    *,
    preallocate: bool,
):
    """[TS-3, DUR-76, DUR-77] Behind the end stands half a batch, or room that was allocated ahead.

    The last entry of the index, one of those that were cut off, was taken for what is known of it.
    """
    kept, appended = counts
    writer = new_log(
        recovery=recovery,
        index_interval_bytes=0,
        segment_index_bytes=4096,
        internal_segment_bytes=4000,
        preallocate=preallocate,
    )
    for number in range(10):
        writer.append([(TIME + 1000 + number, None, b"before")])
    writer.truncate_to(kept)
    for number in range(appended):
        writer.append([(TIME + number, None, b"behind")])
    with Path(writer.path, writer.segments()[0].name).open("ab") as file:
        file.write(tail)

    reader = new_log(recovery=recovery, read_only=True)

    times = [record.timestamp for record in reader]
    assert len(times) == kept + appended
    largest = max(times, default=-1)
    found = reader.fetch_offset_by_timestamp(SpecialTimestamp.MAX)
    assert (found.timestamp, found.offset) == (largest, times.index(largest) if times else -1)


def test_an_index_that_a_truncation_emptied_has_no_entry(new_log: Callable[..., UnifiedLog]):
    """[DUR-53, DUR-80] Of a sealed segment it was one entry long, and became one of zeros."""
    writer = new_log(index_interval_bytes=100, internal_segment_bytes=400)
    for number in range(12):
        writer.append([(TIME + number, None, b"x" * 80)])
    sealed = writer.segments()[1]
    index = Path(writer.path, sealed.name).with_suffix(".index")
    assert index.stat().st_size == 8

    writer.truncate_to(sealed.base_offset)
    writer.append([(TIME, None, b"a batch"), (TIME, None, b"of two")])

    reader = new_log(read_only=True)
    assert reader.verify().ok, str(reader.verify())
