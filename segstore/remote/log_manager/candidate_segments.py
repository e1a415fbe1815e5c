"""Which segments of a log are copied next [TIER-33]."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.config.log_config import LogConfig
    from segstore.log.local.segment import Segment


class CandidateSegment(NamedTuple):
    """A sealed segment, and where the next one begins (Kafka ``EnrichedLogSegment``)."""

    segment: Segment
    next_base_offset: int


def candidate_segments(
    segments: Sequence[Segment],
    from_offset: int,
    last_stable_offset: int,
    config: LogConfig,
    now_ms: int,
) -> list[CandidateSegment]:
    """Return the sealed segments from *from_offset* on that are to be copied, ascending.

    Parameters
    ----------
    segments : sequence of Segment
        All of the log; the last is the active one, which stays.
    from_offset : int
        The segment that has it is the first.
    last_stable_offset : int
        Records from there on may still be taken back: a segment that ends above it waits.
    config : LogConfig
        ``remote.copy.lag.ms`` and ``remote.copy.lag.bytes`` let segments wait too.
    now_ms : int
        Wall clock.

    Source: [TIER-33], Kafka ``RLMCopyTask.candidateLogSegments``.
    """
    before = [number for number, one in enumerate(segments) if one.base_offset <= from_offset]
    scanned = segments[before[-1] if before else 0 :]
    rest_bytes = sum(one.size_bytes for one in scanned)
    chosen: list[CandidateSegment] = []
    for segment, following in pairwise(scanned):
        if following.base_offset > last_stable_offset:
            break
        rest_bytes -= segment.size_bytes
        if not _has_waited(segment, rest_bytes, config, now_ms):
            break
        chosen.append(CandidateSegment(segment, following.base_offset))
    return chosen


def _has_waited(segment: Segment, bytes_after: int, config: LogConfig, now_ms: int) -> bool:
    """Whether the copy lag of the settings is over for a segment; two without limit never are."""
    lag_ms, lag_bytes = config.copy_lag_ms, config.copy_lag_bytes
    if lag_ms == 0 or lag_bytes == 0:
        return True
    if lag_ms is not None and lag_ms > 0:
        age_ms = now_ms - segment.largest_timestamp()
        if age_ms < 0 or age_ms >= lag_ms:
            return True
    return 0 < lag_bytes <= bytes_after
