"""A log of segments of ten records of one size: cut and filled again, its files look alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from segstore import UnifiedLog

SETTINGS = {"durability": "none", "file_delete_delay_ms": 0, "segment_ms": None}


def fill(log: UnifiedLog, letter: bytes, end: int, *, other: int = -1) -> None:
    """Append records of one size up to *end*; every segment has ten, and *other* another value."""
    for number in range(log.log_end_offset, end):
        word = b"X" if number == other else letter
        log.append([(TIME + number, None, b"%s%05d" % (word, number))])
        if (number + 1) % 10 == 0:
            log.roll()


def values(log: UnifiedLog) -> dict[int, bytes]:
    return {record.offset: record.value for record in log}
