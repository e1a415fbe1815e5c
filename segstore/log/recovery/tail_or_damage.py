"""Whether bytes that are no batch are the torn tail of a log, or damage to what had been synced.

Source: [DUR-51, DUR-54, DUR-63].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    LogPermissionError,
    ReadIOError,
    ResourceError,
    SegstoreError,
    WriteError,
)
from segstore.log.files.partition_directory import file_name
from segstore.log.files.recovery_advice import missing_records, recovery_advice
from segstore.log.recovery.offset_jump import end_before_jump
from segstore.log.recovery.overflow_split import OverflowedSegmentError, is_overflowed

if TYPE_CHECKING:
    from segstore._core import Directory, ScanResult
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.segment import Segment

NO_DAMAGE: Final = (DiskFullError, LogPermissionError, ReadIOError, ResourceError, WriteError)
"""Errors of the environment: they say nothing of what is in a file [DUR-6, DUR-31, DUR-33]."""
_PIECE_BYTES: Final = 1024 * 1024
_SECTOR_BYTES: Final = 512  # what a disk writes whole, at least


class TailOrDamage:
    """Judges the segments of one log, and makes the errors that refuse it; changes nothing."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def check_is_tail(self, segment: Segment, scan: ScanResult, found: StoredState) -> None:
        """Raise unless what ends the log is at or above the recovery point [DUR-51, DUR-63]."""
        if is_overflowed(segment, scan):
            raise OverflowedSegmentError(segment)
        why = scan.why
        if why is None:
            there = f"{segment.size_bytes - scan.valid_bytes} bytes up to the end of the file"
            why = CorruptRecordError(
                "an incomplete batch", position=scan.valid_bytes, found=there, expected="all of it"
            )
        point = found.recovery_point
        end = scan.next_offset
        if point is not None and (before := end_before_jump(segment, scan)) is not None:
            end = before
        if point is not None and end < point:
            what = f"records from {end} to {point - 1} had been synced"
            raise self.damage(segment, what, why) from scan.why
        if (
            point is None
            and scan.stop == "order"
            and not self._is_torn(segment, scan)
            and not self._repeats_earlier_batch(segment, scan.valid_bytes)
        ):
            raise self.damage(segment, "there is no recovery point", why) from scan.why

    def _is_torn(self, segment: Segment, scan: ScanResult) -> bool:
        """Whether a batch would fit, had its first bytes not been lost with the end of a sector.

        They are zero then. Its CRC does not cover the base offset, so a torn one looks whole.
        """
        position = scan.valid_bytes
        lost = -position % _SECTOR_BYTES
        expected = scan.next_offset.to_bytes(8)
        there = self._directory.read_range(file_name(segment.base_offset, "log"), position, 8)
        return lost <= len(expected) and there == bytes(lost) + expected[lost:]

    def _repeats_earlier_batch(self, segment: Segment, position: int) -> bool:
        """Whether the batch at *position* is byte for byte one that came before [DUR-63]."""
        rows, _ = segment.scan(start_position=position, max_batches=1)
        if not len(rows):
            return False
        row = rows[0]
        size = int(row["size_bytes"])
        name = file_name(segment.base_offset, "log")
        content = self._directory.read_range(name, position, size)
        for headers, _ in segment.scan_windows(end_position=position, check_crc=False):
            same = headers[(headers["crc"] == row["crc"]) & (headers["size_bytes"] == size)]
            for earlier in same["position"]:
                if self._directory.read_range(name, int(earlier), size) == content:
                    return True
        return False

    def is_zero(self, segment: Segment, position: int) -> bool:
        """Whether a sealed file has only zeros from there on.

        It was preallocated, and a crash undid the trim of the roll: where no record is missing, the
        next segment is good [DUR-1].
        """
        name = file_name(segment.base_offset, "log")
        while piece := self._directory.read_range(name, position, _PIECE_BYTES):
            if piece.strip(b"\0"):
                return False
            position += len(piece)
        return True

    def check_overlap(self, lower_epoch: int, following: Segment) -> None:
        """A segment reaches into the next: its batches are newer, or the log is damaged [DUR-54].

        The next one begins above the recovery point: below it no overlap is let through.
        """
        their_headers, _ = following.scan(check_crc=False, max_batches=1)
        higher_epoch = int(their_headers["partition_leader_epoch"][0]) if len(their_headers) else -1
        if 0 <= lower_epoch < higher_epoch:
            raise self.damage(following, "overlaps the segment before it, in a newer leader epoch")

    def missing_between(self, segment: Segment, next_offset: int) -> CorruptLogError:
        """Make the error of a gap before *segment* [DUR-54]."""
        base = segment.base_offset
        error = self.damage(segment, f"{missing_records(next_offset, base)} before it")
        error.found, error.expected = f"base offset {base}", f"base offset {next_offset}"
        return error

    def lost_end(self, segment: Segment, end: int, found: StoredState) -> CorruptLogError:
        """Make the error of a log that ends at *end*, in *segment*, and had gone on [DUR-51]."""
        error = self.damage(
            segment,
            f"the log ends at offset {end}: records from there to {found.safe_below - 1} had been"
            " synced, and are missing",
        )
        error.found, error.expected = f"end offset {end}", f"{found.safe_below} at least"
        return error

    def damage(
        self, segment: Segment, what: str, why: SegstoreError | None = None
    ) -> CorruptLogError:
        """Make the error that refuses the log; the place of *why* is its own, and named once."""
        is_here = why is None or why.file is None or why.file == segment.path
        said = "" if why is None else f"{why.message if is_here else why}; "
        place = why if why is not None and is_here else SegstoreError()
        return CorruptLogError(
            f"{said}{what}. No record was changed; {recovery_advice(self._directory.path)}",
            file=segment.path,
            position=place.position,
            found=place.found,
            expected=place.expected,
        )
