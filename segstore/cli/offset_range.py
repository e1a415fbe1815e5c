"""kcat's ``-o``: where to begin and where to end, by offset or by time."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from segstore.arguments import timestamp
from segstore.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from segstore.log.lone_segment import LoneSegment
    from segstore.log.unified_log import Log


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Bounds as typed; ``resolve`` turns them into offsets of one log."""

    start: str | int = "beginning"
    """``beginning``, ``end``, an offset, or minus the count before the end."""
    start_timestamp: int | None = None
    end_timestamp: int | None = None

    def resolve(self, log: Log | LoneSegment, *, skips: bool = False) -> tuple[int, int]:
        """Return first offset and (exclusive) end offset in *log*, within what it holds.

        An offset outside the log moves to its nearest end, as kcat's consumer does by default.

        Parameters
        ----------
        skips : bool
            Damage is left out: times are looked up around it, and where the log ends at damage the
            offsets behind that count.
        """
        first, end = log.log_start_offset, log.log_end_offset
        start = first
        if self.start_timestamp is not None:
            found = _offset_for(log, self.start_timestamp, skips=skips)
            start = end if found is None else found
        elif self.start == "end":
            start = end
        elif isinstance(self.start, int):
            start = end + self.start if self.start < 0 else self.start
        stop = end
        if self.end_timestamp is not None:
            found = _offset_for(log, self.end_timestamp, skips=skips)
            stop = end if found is None else found
        start = max(start, first)
        if not skips or log.report.damage is None:
            start = min(start, end)
        return start, max(start, stop)


def _offset_for(log: Log | LoneSegment, timestamp: int, *, skips: bool) -> int | None:
    """Return the offset of the first record at or after *timestamp*; a marker is none."""
    start = None
    if not skips:
        start = log.offset_for_timestamp(timestamp)  # as in Kafka, a marker's too
        if start is None:
            return None
    on_damage: Literal["raise", "skip"] = "skip" if skips else "raise"
    records = iter(log.scan(start, start_timestamp=timestamp, on_damage=on_damage))
    return next((record.offset for record in records), None)


def out_of_range(span: OffsetRange, log: Log | LoneSegment) -> str | None:
    """Return what is to be said of a first offset that *log* does not hold, None when it does."""
    if span.start_timestamp is not None or not isinstance(span.start, int) or span.start < 0:
        return None
    first, end = log.log_start_offset, log.log_end_offset
    if first <= span.start <= end:
        return None
    what = f"{log.topic_partition}: offset {span.start} is out of range, the log"
    if span.start < first:
        return f"{what} starts at {first}: from there on"
    return f"{what} ends at {end}: nothing to print"


def add_offset_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``-o``; it may be given twice, for both ends of a time span."""
    parser.add_argument(
        "-o",
        dest="offsets",
        action="append",
        type=parse_offset,
        default=[],
        metavar="OFFSET",
        help="beginning | end | N | -N from the end | s@TIME from that time on | e@TIME before it; "
        "TIME is milliseconds since 1970, or 2024-05-01T12:00:00Z",
    )


def parse_offset(text: str) -> OffsetRange:
    """Read one ``-o``, for argparse."""
    kind, at, time = text.partition("@")
    try:
        if at and kind == "s":
            return OffsetRange(start_timestamp=_time(time))
        if at and kind == "e":
            return OffsetRange(end_timestamp=_time(time))
        if text in {"beginning", "end"}:
            return OffsetRange(start=text)
        offset = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of beginning, end, N, -N, s@TIME, e@TIME"
        ) from None
    # "-0": nothing before the end
    return OffsetRange(start="end" if offset == 0 and text.startswith("-") else offset)


def _time(text: str) -> int:
    """Read milliseconds since 1970, or a time with its zone."""
    try:
        return int(text)
    except ValueError:
        time = datetime.fromisoformat(text)
    try:
        return timestamp("the time", time)
    except ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"the time {text!r} has no zone: add Z for UTC, or an offset such as +02:00"
        ) from None


def combined(ranges: Iterable[OffsetRange]) -> OffsetRange:
    """Join several ``-o``: the last of each end wins."""
    result = OffsetRange()
    for given in ranges:
        if given.end_timestamp is not None:
            result = replace(result, end_timestamp=given.end_timestamp)
        elif given.start_timestamp is not None:
            result = replace(result, start_timestamp=given.start_timestamp)
        else:
            result = replace(result, start=given.start, start_timestamp=None)
    return result
