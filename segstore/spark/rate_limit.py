"""How far one micro-batch goes, by the rules of the connector's ``KafkaMicroBatchStream``."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore.spark.stream_options import TriggerLimits
    from segstore.types import TopicPartition


def share_out(
    most: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return an end for each partition so that about *most* offsets lie before them.

    Each partition gets its part of *most* by its backlog, cut to a whole number; less than one
    offset counts as one, so that no partition starves. So there may be fewer, or with very small
    limits more.

    Parameters
    ----------
    most : int
        ``maxOffsetsPerTrigger``.
    start, end : mapping of TopicPartition to int
        From where and to where there are offsets; every key of *end* is in *start*.
    """
    sizes = {partition: offset - start[partition] for partition, offset in end.items()}
    total = float(sum(size for size in sizes.values() if size > 0))
    if total < 1:
        return dict(end)
    ends = {}
    for partition, offset in end.items():
        size = sizes[partition]
        if size <= 0:
            ends[partition] = offset
            continue
        share = most * (size / total)
        whole = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(offset, start[partition] + whole)
    return ends


class TriggerDelay:
    """Holds batches back until ``minOffsetsPerTrigger`` offsets are there, but not for ever."""

    def __init__(self, limits: TriggerLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._last_batch: float | None = None  # the first batch does not wait

    def holds_back(
        self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> bool:
        """Whether the batch from *start* to *end* has to wait."""
        if self._limits.min_offsets is None:
            return False
        now = self._clock()
        if self._last_batch is not None:
            waited_ms = (now - self._last_batch) * 1000
            available = sum(offset - start.get(partition, 0) for partition, offset in end.items())
            if waited_ms < self._limits.max_trigger_delay_ms and (
                available < self._limits.min_offsets
            ):
                return True
        self._last_batch = now
        return False
