"""Finding the end of a log that was not closed cleanly, and making it good.

Source: [DUR-50..DUR-63, LDR-20..LDR-28].

Everything from the recovery point's segment on is read and checked. The first bad batch at or above
the recovery point ends the log: of what follows nobody knows whether it had been synced. The same
below it is damage, and damage is never repaired by dropping data.
"""

from __future__ import annotations

from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import CorruptLogError, CorruptRecordError, SegstoreError
from segstore.log.directory.partition_directory import INDEX_ENTRY_BYTES, file_name
from segstore.log.directory.ways_out import ways_out
from segstore.log.loader.epoch_changes import epoch_changes
from segstore.log.loader.offset_jump import end_before_jump
from segstore.log.loader.overflow_split import OverflowedSegmentError, is_overflowed
from segstore.log.loader.recovered_tail import bring_to_disk
from segstore.log.local.segments import floor_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import BatchHeaders, Directory, ScanResult
    from segstore.log.directory.checkpoints import LogState
    from segstore.log.directory.log_places import FoundState
    from segstore.log.loader.quarantine import Quarantine
    from segstore.log.loader.recovery_report import RecoveryReport
    from segstore.log.local.segment import Segment
    from segstore.types import EpochEntry


_PIECE_BYTES: Final = 1024 * 1024
_SECTOR_BYTES: Final = 512  # what a disk writes whole, at least


class Recovered(NamedTuple):
    """The log as recovery leaves it."""

    segments: list[Segment]
    next_offset: int
    epochs: list[EpochEntry]
    """Where the leader epoch changes in the segments that were read."""
    base_offsets: list[int]
    """Of the segments that were read to their end."""
    with_producers: list[int]
    """Of those that hold batches with a producer id."""
    is_rewritten: bool
    """Nothing is left to be written again before the first change [DUR-36]."""


class _Scan(NamedTuple):
    """How a segment was scanned, to be repeated exactly when it is cut."""

    expected_offset: int
    contiguous: bool
    check_epochs: bool
    previous_epoch: int


class _Scanned(NamedTuple):
    """A segment that stays, and what there is in it."""

    segment: Segment
    how: _Scan
    result: ScanResult
    is_cut: bool
    """The file has more than that, which goes."""
    has_producers: bool


class _Plan(NamedTuple):
    """What is to be done, decided before anything is done [DUR-57]."""

    scanned: list[_Scanned]
    """At least one; the last one's file may have to be cut."""
    later: list[Segment]
    """Segments behind the end, to be set aside."""
    reason: str | None
    """Why the log ends before its files do."""
    next_offset: int
    epochs: list[EpochEntry]


class LogRecovery:
    """Recovers one log for writing.

    Parameters
    ----------
    directory : Directory
        The partition's.
    report : RecoveryReport
        Takes what is found and done.
    quarantine : Quarantine
        Where bytes go that are cut.
    state : LogState or None
        What this log may count on; None = base offsets ascend, nothing else [DUR-64].
    progress : callable or None
        Called with ``"recover"``, bytes checked, bytes to check.
    """

    def __init__(
        self,
        directory: Directory,
        report: RecoveryReport,
        quarantine: Quarantine,
        state: LogState | None,
        progress: Callable[[str, int, int], None] | None,
    ) -> None:
        self._directory = directory
        self._report = report
        self._quarantine = quarantine
        self._state = state
        self._progress = progress

    def recover(self, segments: list[Segment], found: FoundState) -> Recovered:
        """Check, cut, rebuild, sync.

        Parameters
        ----------
        segments : list of Segment
            Ascending, at least one; bases that a scan puts in doubt are set aside.
        found : FoundState
            Its recovery point; without one everything is checked, from the log start [DUR-63].

        Raises
        ------
        CorruptLogError
            Data below the recovery point is damaged or missing; nothing was changed.
        OverflowedSegmentError
            Nothing was changed; a segment is to be split first [LDR-30].
        """
        first = floor_index(segments, found.safe_below)
        to_repair = self._check_sealed(segments[: first + 1])
        plan = self._decide(segments[first:], found)
        for segment, is_padded in to_repair:
            segment.recover(cut=is_padded, expected_offset=segment.base_offset, table=False)
            self._note_rebuilt(segment)
        self._act(plan)
        kept = [one.segment for one in plan.scanned]
        point = found.recovery_point or 0
        is_rewritten = bring_to_disk(segments[:first], kept, point, self._directory, self._report)
        bases = [segment.base_offset for segment in kept]
        producers = [one.segment.base_offset for one in plan.scanned if one.has_producers]
        kept = segments[:first] + kept
        return Recovered(kept, plan.next_offset, plan.epochs, bases, producers, is_rewritten)

    def _decide(self, segments: list[Segment], found: FoundState) -> _Plan:
        """Scan up to the end of the log; changes nothing, so that damage can still be refused."""
        total = sum(segment.size_bytes for segment in segments)
        scanned: list[_Scanned] = []
        epochs: list[EpochEntry] = []
        reason: str | None = None
        next_offset, previous_epoch = segments[0].base_offset, -1
        for segment, following in zip_longest(segments, segments[1:]):
            if scanned and self._is_behind_gap(segment, next_offset):
                if found.lacks_records_from(next_offset):
                    raise self._missing_between(segment, next_offset)
                reason = f"records {next_offset} to {segment.base_offset - 1} are missing"
                break
            how = self._how_to_scan(segment, next_offset, previous_epoch)
            overlapping_epoch, highest_epoch, has_producers = None, previous_epoch, False
            for headers, scan in segment.scan_windows(check_order=True, **how._asdict()):
                changes = epoch_changes(headers, highest_epoch, found.log_start_offset)
                highest_epoch = changes[-1].epoch if changes else highest_epoch
                has_producers |= bool((headers["producer_id"] >= 0).any())
                epochs += changes
                if following is not None and overlapping_epoch is None:
                    overlapping_epoch = _epoch_of_first(headers, following.base_offset)
                next_offset = max(scan.next_offset, segment.base_offset)
                previous_epoch = scan.last_epoch
            self._report.scanned_bytes += scan.valid_bytes
            self._note_progress(total)
            is_cut = scan.stop != "complete"
            scanned.append(_Scanned(segment, how, scan, is_cut, has_producers))
            if following is not None and overlapping_epoch is not None:
                self._check_overlap(overlapping_epoch, following)
                reason = f"the segment before reaches beyond {following.base_offset}"
            if scan.stop != "complete" and not (
                _continues(following, next_offset) and self._is_zero(segment, scan.valid_bytes)
            ):
                self._check_is_tail(segment, scan, found)
                at = scan.valid_bytes
                reason = str(scan.why or f"{segment.name}: an incomplete batch at {at}")
            if reason is not None:
                break
        if found.lacks_records_from(next_offset):
            raise self._damage(
                scanned[-1].segment,
                f"the log ends at offset {next_offset}: records from there to"
                f" {found.safe_below - 1} had been synced, and are missing",
            )
        return _Plan(scanned, segments[len(scanned) :], reason, next_offset, epochs)

    def _act(self, plan: _Plan) -> None:
        """Set aside, cut, rebuild indexes; may be repeated after a crash at any point [DUR-56]."""
        last = plan.scanned[-1]
        size, end = last.segment.size_bytes, last.result.valid_bytes
        if last.is_cut:
            self._quarantine.keep_tail(last.segment.base_offset, end, size)
        self._set_aside(plan.later)
        for segment, how, result, is_cut, _ in plan.scanned:  # all checksums of a whole one fit
            _, recovery = segment.recover(
                cut=is_cut, check_crc=is_cut, table=False, **how._asdict()
            )
            if recovery.scan.valid_bytes != result.valid_bytes:
                raise CorruptLogError(
                    "was read twice, with two results",
                    file=segment.path,
                    position=min(recovery.scan.valid_bytes, result.valid_bytes),
                    found=f"{recovery.scan.valid_bytes} good bytes",
                    expected=f"{result.valid_bytes}, as before",
                ) from recovery.scan.why
            self._note_rebuilt(segment)
        if plan.reason is not None:
            self._report.truncated_bytes += size - end if last.is_cut else 0
            self._report.truncated_from_offset = plan.next_offset
            self._report.reason = plan.reason

    def _note_rebuilt(self, segment: Segment) -> None:
        for kind in INDEX_ENTRY_BYTES:
            self._report.rebuilt.append(file_name(segment.base_offset, kind))

    def _how_to_scan(self, segment: Segment, next_offset: int, previous_epoch: int) -> _Scan:
        state = self._state
        base = segment.base_offset
        return _Scan(
            expected_offset=max(next_offset, base),
            contiguous=state is not None and base >= state.contiguous_from and base == next_offset,
            check_epochs=state is not None and base >= state.epochs_ordered_from,
            previous_epoch=previous_epoch,
        )

    def _note_progress(self, total: int) -> None:
        if self._progress is not None:
            self._progress("recover", self._report.scanned_bytes, total)

    def _check_sealed(self, segments: list[Segment]) -> list[tuple[Segment, bool]]:
        """Compare ends and beginnings of the segments below the recovery point.

        Returns those with a damaged index, or padding, and whether they have padding. Source:
        [DUR-51, DUR-54].
        """
        to_repair = []
        for segment, following in pairwise(segments):
            try:
                next_offset, ends_clean = segment.read_next_offset()
            except SegstoreError as error:
                raise self._damage(segment, "cannot be read to its end", error) from error
            is_padded = False
            if not ends_clean and _continues(following, next_offset):
                _, scan = segment.scan(check_crc=False, table=False)
                is_padded = self._is_zero(segment, scan.valid_bytes)
            if not ends_clean and not is_padded:
                raise self._damage(
                    segment, f"ends in bytes that are no batch, behind {next_offset - 1}"
                )
            if next_offset > following.base_offset:
                raise self._damage(
                    segment, f"reaches offset {next_offset - 1}, into the next segment"
                )
            if self._is_behind_gap(following, next_offset):
                raise self._missing_between(following, next_offset)
            segment.max_timestamp()
            if segment.index_damaged or is_padded:
                to_repair.append((segment, is_padded))
        return to_repair

    def _is_zero(self, segment: Segment, position: int) -> bool:
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

    def _is_behind_gap(self, segment: Segment, next_offset: int) -> bool:
        """Whether offsets are missing before *segment* in a log that has none missing [DUR-54]."""
        state = self._state
        if state is None:
            return False
        return segment.base_offset > max(next_offset, state.contiguous_from)

    def _check_overlap(self, lower_epoch: int, following: Segment) -> None:
        """A segment reaches into the next: its batches are newer, or the log is damaged [DUR-54].

        The next one begins above the recovery point: below it no overlap is let through.
        """
        their_headers, _ = following.scan(check_crc=False, max_batches=1)
        higher_epoch = int(their_headers["partition_leader_epoch"][0]) if len(their_headers) else -1
        if 0 <= lower_epoch < higher_epoch:
            raise self._damage(following, "overlaps the segment before it, in a newer leader epoch")

    def _check_is_tail(self, segment: Segment, scan: ScanResult, found: FoundState) -> None:
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
            raise self._damage(segment, what, why) from scan.why
        if (
            point is None
            and scan.stop == "order"
            and not self._is_torn(segment, scan)
            and not self._repeats_earlier_batch(segment, scan.valid_bytes)
        ):
            raise self._damage(segment, "there is no recovery point", why) from scan.why

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

    def _missing_between(self, segment: Segment, next_offset: int) -> CorruptLogError:
        base = segment.base_offset
        error = self._damage(segment, f"records {next_offset} to {base - 1} are missing before it")
        error.found, error.expected = f"base offset {base}", f"base offset {next_offset}"
        return error

    def _damage(
        self, segment: Segment, what: str, why: SegstoreError | None = None
    ) -> CorruptLogError:
        """Make the error that refuses the log; the place of *why* is its own, and named once."""
        is_here = why is None or why.file is None or why.file == segment.path
        said = "" if why is None else f"{why.message if is_here else why}; "
        place = why if why is not None and is_here else SegstoreError()
        return CorruptLogError(
            f"{said}{what}. No record was changed; {ways_out(self._directory.path)}",
            file=segment.path,
            position=place.position,
            found=place.found,
            expected=place.expected,
        )

    def _set_aside(self, segments: list[Segment]) -> None:
        """Take segments out, highest first, so that what is left is a prefix at any time."""
        for segment in reversed(segments):
            self._report.truncated_bytes += segment.size_bytes
            if segment.size_bytes > 0:
                self._quarantine.set_aside(segment.base_offset)
            else:
                segment.delete_files()
                self._report.removed.append(segment.name)
            segment.close_quietly()
        if segments:
            self._directory.sync()


def _continues(following: Segment | None, next_offset: int) -> bool:
    """Whether the next segment begins where the records of this one end."""
    return following is not None and following.base_offset == next_offset


def _epoch_of_first(headers: BatchHeaders, offset: int) -> int | None:
    """Return the leader epoch of the first batch that reaches *offset*, None without one."""
    reaching = headers["partition_leader_epoch"][headers["last_offset"] >= offset]
    return int(reaching[0]) if len(reaching) else None
