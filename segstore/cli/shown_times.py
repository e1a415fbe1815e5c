"""The first and the latest record of a log, or why they cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import SegstoreError
from segstore.types import SpecialTimestamp

if TYPE_CHECKING:
    from segstore.log.unified_log import Log


class ShownTimes(NamedTuple):
    """What a list of logs shows of the records of one."""

    first_timestamp: int | None
    """Of the first record, in ms; None without one."""
    last_timestamp: int | None
    """The largest one, in ms."""
    damage: str | None
    """Why one of them cannot be read."""


def shown_times(log: Log) -> ShownTimes:
    """Read the first batch of a log, and the one with the latest record."""
    first = None
    try:
        record = next(iter(log.scan(check_crcs=False)), None)
        first = None if record is None else record.timestamp
        latest = log.fetch_offset_by_timestamp(SpecialTimestamp.MAX)
    except SegstoreError as error:
        return ShownTimes(first, None, str(error))
    return ShownTimes(first, None if latest.offset < 0 else latest.timestamp, None)
