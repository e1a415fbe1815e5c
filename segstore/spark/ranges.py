"""Offset ranges, cut into Spark partitions as by the connector's ``KafkaOffsetRangeCalculator``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from segstore.errors import LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.tables.offset_ranges import OffsetRange

MAX_PARTS: Final = 1_000_000
"""Parts that one range may be cut into; its size comes from an option, so it may be absurd."""

EARLIEST: Final = -2
LATEST: Final = -1
"""The connector's words for bounds that are not resolved yet; as ListOffsets writes them."""


def cut(offsets: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut into *parts*, none empty; the i-th (from 0) takes what is left // (parts - i)."""
    if parts > MAX_PARTS:
        raise LimitExceededError(
            f"offsets [{offsets.from_offset}, {offsets.until_offset}) of "
            f"{offsets.topic}-{offsets.partition} would be cut into "
            f"{parts} Spark partitions",
            found=str(parts),
            expected=f"at most {MAX_PARTS}",
        )
    ranges = []
    start = offsets.from_offset
    for index in range(parts):
        end = start + (offsets.until_offset - start) // (parts - index)
        if end > start:  # fewer offsets than parts
            ranges.append(replace(offsets, from_offset=start, until_offset=end))
        start = end
    return ranges


def wants_splitting(
    unresolved: Sequence[OffsetRange],
    min_partitions: int | None,
    max_records_per_partition: int | None,
) -> bool:
    """Whether the connector splits at all, in a batch.

    *unresolved* still holds -2 and -1 for earliest and latest, and the connector does count with
    them: so ``maxRecordsPerPartition`` alone does nothing unless start and end are plain numbers.
    It decides the number of Spark partitions that a user sees, so it is the same here.
    """
    if min_partitions is not None and min_partitions > len(unresolved):
        return True
    return max_records_per_partition is not None and any(
        offsets.size > max_records_per_partition for offsets in unresolved
    )


def split(
    resolved: Sequence[OffsetRange],
    min_partitions: int | None,
    max_records_per_partition: int | None,
) -> list[OffsetRange]:
    """Cut *resolved* ranges; *min_partitions* is a hint, there may be more or fewer.

    Empty ranges fall away. Ranges above *max_records_per_partition* are cut first; only if there
    are still fewer than *min_partitions*, the large ones are cut further in proportion to their
    size.
    """
    ranges = [offsets for offsets in resolved if offsets.size > 0]
    if max_records_per_partition is not None:
        ranges = [
            part
            for offsets in ranges
            for part in cut(offsets, -(-offsets.size // max_records_per_partition))
        ]
    if min_partitions is None or min_partitions <= len(ranges):
        return ranges

    total = sum(offsets.size for offsets in ranges)
    whole = {offsets for offsets in ranges if _parts(offsets, total, min_partitions) == 1}
    rest_total = total - sum(offsets.size for offsets in whole)
    rest_parts = max(1, min_partitions - len(whole))
    result: list[OffsetRange] = []
    for offsets in ranges:
        result += (
            [offsets] if offsets in whole else cut(offsets, _parts(offsets, rest_total, rest_parts))
        )
    return result


def pack(
    ranges: Sequence[OffsetRange],
    per_task: int | None,
    min_partitions: int | None,
    max_records_per_partition: int | None,
) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges of each task, in the order of *ranges*: at most *per_task* neighbours.

    A task gets fewer, so that there are *min_partitions* tasks as far as there are ranges, and so
    that its offsets together are not more than *max_records_per_partition*.
    """
    most = 1 if per_task is None else per_task
    if min_partitions is not None:
        most = max(1, min(most, len(ranges) // min_partitions))
    most_offsets = math.inf if max_records_per_partition is None else max_records_per_partition
    tasks: list[list[OffsetRange]] = []
    count = offset_count = 0
    for offsets in ranges:
        if not tasks or count == most or offset_count + offsets.size > most_offsets:
            tasks.append([])
            count = offset_count = 0
        tasks[-1].append(offsets)
        count += 1
        offset_count += offsets.size
    return [tuple(task) for task in tasks]


def _parts(offsets: OffsetRange, total: int, parts: int) -> int:
    """Share of *offsets* in *parts*, at least one; half is rounded up (Java ``Math.round``)."""
    return max(1, math.floor(offsets.size / total * parts + 0.5))
