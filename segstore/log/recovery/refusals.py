"""The errors that refuse a log to a writer: data that had been synced is damaged, or missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import (
    CorruptLogError,
    DiskFullError,
    LogPermissionError,
    ReadIOError,
    ResourceError,
    SegstoreError,
    WriteError,
)
from segstore.log.files.recovery_advice import missing_records, recovery_advice

if TYPE_CHECKING:
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.segment import Segment

NO_DAMAGE: Final = (DiskFullError, LogPermissionError, ReadIOError, ResourceError, WriteError)
"""Errors of the environment: they say nothing of what is in a file [DUR-6, DUR-31, DUR-33]."""


def damage(
    path: str, segment: Segment, what: str, why: SegstoreError | None = None
) -> CorruptLogError:
    """Make the error that refuses the log at *path*; the place of *why* is its own, named once."""
    is_here = why is None or why.file is None or why.file == segment.path
    said = "" if why is None else f"{why.message if is_here else why}; "
    place = why if why is not None and is_here else SegstoreError()
    return CorruptLogError(
        f"{said}{what}. No record was changed; {recovery_advice(path)}",
        file=segment.path,
        position=place.position,
        found=place.found,
        expected=place.expected,
    )


def missing_between(path: str, segment: Segment, next_offset: int) -> CorruptLogError:
    """Make the error of a gap before *segment* [DUR-54]."""
    base = segment.base_offset
    error = damage(path, segment, f"{missing_records(next_offset, base)} before it")
    error.found, error.expected = f"base offset {base}", f"base offset {next_offset}"
    return error.lacks(next_offset, base)


def lost_end(path: str, segment: Segment, end: int, stored: StoredState) -> CorruptLogError:
    """Make the error of a log that ends at *end*, in *segment*, and had gone on [DUR-51]."""
    error = damage(
        path,
        segment,
        f"the log ends at offset {end}: records from there to {stored.safe_below - 1} had been"
        " synced, and are missing",
    )
    error.found, error.expected = f"end offset {end}", f"{stored.safe_below} at least"
    return error.lacks(end, stored.safe_below)
