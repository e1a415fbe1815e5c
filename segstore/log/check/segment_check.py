"""The ``.log`` of one segment: every batch, the records in it, its place among the others.

Source: [DUR-50, DUR-51, DUR-54, DUR-64].
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from segstore.errors import InvalidOffsetError, ReadIOError, SegstoreError
from segstore.log.check.damaged_ranges import damaged_ranges
from segstore.log.check.unreadable_file import UNREADABLE_ERRORS, first_unreadable
from segstore.log.check.verify_report import SegmentCheck
from segstore.log.files.partition_directory import file_name
from segstore.log.findings.finding import Action, Finding, FindingCode, Records, facts_of
from segstore.log.local.segment import Segment
from segstore.numpy_on_demand import np
from segstore.records.compression import codec_table
from segstore.records.records_count import count_records
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore._core import BatchHeaders, Directory, ScanResult, SegmentContext
    from segstore.log.check.damaged_ranges import DamagedLog, DamagedRange
    from segstore.log.files.checkpoints import LogState
    from segstore.log.recovery.forecast import OpenForecast

    SegmentScan = Callable[..., tuple[BatchHeaders, ScanResult]]
    """Takes a segment and what its ``scan`` takes; gives the headers of the good batches."""


class Neighbours(NamedTuple):
    """What is known of the place of a segment in its log."""

    expected_offset: int
    """Behind the last batch of the segment before; its own base offset where that is damaged."""
    is_contiguous: bool
    """The segment before is whole, and no record is missing in front of this one [DUR-64]."""
    last_epoch: int
    """Of the batch before, -1 where nothing tells."""
    following: int | None
    """Base offset of the next segment."""
    recovery_point: int
    """Records below it were safe on disk."""


class Gap(NamedTuple):
    """Offsets that are missing in front of a batch."""

    position: int
    first_offset: int
    next_offset: int


class CheckedSegment(NamedTuple):
    """A segment that was gone through."""

    check: SegmentCheck
    headers: BatchHeaders
    scan: ScanResult
    findings: list[Finding]
    is_whole: bool
    """Every byte of it belongs to a good batch."""
    end_offset: int | None
    """Behind the good batch that ends the file; None where bytes that are none end it."""
    last_epoch: int


def scan_all(segment: Segment, **how: Any) -> tuple[BatchHeaders, ScanResult]:
    """Read a segment through the page cache, as fast as it goes."""
    return segment.scan(**how)


class SegmentExamination:
    """Goes through the segments of one directory.

    Parameters
    ----------
    directory, context : Directory, SegmentContext
        The partition's; the context opens to read.
    state : LogState or None
        From where on the log has no gap, and its epochs ascend, where that can be relied on.
    forecast : OpenForecast
        What an open for writing would do: that decides what a finding advises.
    scan_segment : callable
        How the bytes of a segment are read.
    """

    def __init__(
        self,
        directory: Directory,
        context: SegmentContext,
        state: LogState | None,
        forecast: OpenForecast,
        scan_segment: SegmentScan,
    ) -> None:
        self._directory = directory
        self._context = context
        self._state = state
        self._forecast = forecast
        self._scan_segment = scan_segment

    def examine(self, base: int, place: Neighbours, end_position: int = -1) -> CheckedSegment:
        """Check one segment.

        Parameters
        ----------
        base : int
            Its base offset.
        end_position : int
            Byte behind which a writer may be at work; -1 = none is.
        """
        segment = Segment(self._context, base)
        try:
            size = segment.size_bytes if end_position < 0 else end_position
            headers, scan = self._scan(segment, base, place, end_position)
        finally:
            segment.close_quietly()
        name = file_name(base, "log")
        findings = [*self._place_findings(base, headers, place)]
        is_whole = scan.stop == "complete"
        gap = self._first_gap(headers, max(base, place.expected_offset))
        next_offset = scan.next_offset
        damaged = None
        if gap is not None or not is_whole:
            damage, damaged = self._damage(base, size, scan, place, gap)
            findings += damage
            # an offset is wrong: the batches after it show that, and that none is missing
            wrong = (one for one in damage if one.code is FindingCode.BATCH_OUT_OF_ORDER)
            ends = (one.first_offset for one in wrong if (one.position or 0) < scan.valid_bytes)
            next_offset = min((end for end in ends if end is not None), default=next_offset)
        counted = count_records(headers, partial(self._directory.read_range, name), codec_table())
        findings += [_undecodable(name, headers, row, error) for row, error in counted.damaged]
        check = SegmentCheck(
            base_offset=base,
            next_offset=next_offset,
            size_bytes=size,
            valid_bytes=scan.valid_bytes,
            batches=len(headers),
            records=counted.total,
            uncounted_batches=len(counted.uncounted),
        )
        epoch = _last_epoch(headers, place.last_epoch)
        end = next_offset if is_whole else _end_of(damaged, place.following)
        return CheckedSegment(check, headers, scan, findings, is_whole, end, epoch)

    def _scan(
        self, segment: Segment, base: int, place: Neighbours, end_position: int
    ) -> tuple[BatchHeaders, ScanResult]:
        """Return the good batches from the beginning on; *stop* says where the disk ended that."""
        how: dict[str, Any] = {
            "check_order": True,
            "expected_offset": max(base, place.expected_offset),
            "end_position": end_position,
        }
        if place.following is not None:
            how["next_segment_base_offset"] = place.following
        try:
            return self._scan_segment(segment, **how)
        except ReadIOError:
            readable = first_unreadable(self._directory, segment.name)
            if readable is None:  # the disk gave these bytes when it was asked again
                return self._scan_segment(segment, **how)
            headers, scan = segment.scan(**{**how, "end_position": readable})
            return headers, scan._replace(stop="unreadable") if scan.stop == "complete" else scan

    # ---- between batches -------------------------------------------------------------------------

    def _place_findings(
        self, base: int, headers: BatchHeaders, place: Neighbours
    ) -> Iterator[Finding]:
        """Yield what is wrong with offsets and epochs of good batches, which no CRC covers."""
        expected = place.expected_offset
        if place.is_contiguous and base > expected:
            missing = self._missing(base, 0, expected, base)
            yield replace(missing, action=Action.RESTORE_SEGMENTS)
        if self._state is None:
            return
        falling = _falling_epoch(headers, place.last_epoch, self._state.epochs_ordered_from)
        if falling is not None:
            row, before = falling
            batch = headers[row]
            yield self._of_log(
                FindingCode.BATCH_OUT_OF_ORDER,
                base,
                int(batch["position"]),
                first_offset=int(batch["base_offset"]),
                found=f"leader epoch {batch['partition_leader_epoch']}",
                expected=f"a leader epoch of {before} or more",
            )

    def _missing(self, base: int, position: int, first: int, end: int) -> Finding:
        return self._of_log(
            FindingCode.RECORDS_MISSING,
            base,
            position,
            first_offset=first,
            last_offset=end - 1,
            found=f"a batch from offset {end} on",
            expected=f"a batch from offset {first} on",
            records=Records.MISSING,
            lost=((first, end - 1),),
        )

    def _first_gap(self, headers: BatchHeaders, expected_offset: int) -> Gap | None:
        """Return the first batch before which offsets are missing that were written."""
        if self._state is None or not len(headers):
            return None
        if int(headers["magic"].min()) < CURRENT_MAGIC:
            return None
        ends = np.append([expected_offset], headers["last_offset"][:-1] + 1)
        is_written = ends >= self._state.contiguous_from
        rows = np.flatnonzero((headers["base_offset"] > ends) & is_written)
        if not len(rows):
            return None
        batch = headers[rows[0]]
        return Gap(int(batch["position"]), int(ends[rows[0]]), int(batch["base_offset"]))

    # ---- damaged bytes ---------------------------------------------------------------------------

    def _damage(
        self, base: int, size: int, scan: ScanResult, place: Neighbours, gap: Gap | None
    ) -> tuple[list[Finding], DamagedLog | None]:
        """Return a finding for each range of bytes that is no batch of the log [DUR-51].

        Also what the file is made of, where each byte of it was judged.
        """
        overlap = self._overlap(base, scan, place)
        if overlap is not None:
            return [overlap], None
        end = place.following
        if end is None and (gap is not None or scan.next_offset < place.recovery_point):
            end = place.recovery_point if place.recovery_point > base else None
        try:
            damaged = damaged_ranges(
                self._directory, self._context, base, self._state, base, end, place.following
            )
        except UNREADABLE_ERRORS as error:
            unreadable = self._of_log(
                FindingCode.FILE_UNREADABLE,
                base,
                scan.valid_bytes,
                first_offset=scan.next_offset,
                records=Records.UNREADABLE,
                lost=((scan.next_offset, None if end is None else end - 1),),
                **facts_of(error),
            )
            return [unreadable], None
        ranges = [found for found in damaged.ranges if found.position < size]
        for last in ranges[-1:] if place.following is None else ():
            if last.is_last and last.next_offset == last.first_offset:  # the recovery point
                ranges[-1] = last._replace(next_offset=None)
        findings = [self._damaged_range(base, found, damaged, scan) for found in ranges]
        if gap is not None and not any(
            one.first_offset <= gap.first_offset and one.position <= gap.position
            for one in damaged.ranges
        ):
            findings.append(self._missing(base, *gap))
        elif not damaged.ranges and scan.stop == "order":
            findings.append(self._out_of_order(base, scan, place.following))
        return findings, damaged

    def _out_of_order(self, base: int, scan: ScanResult, following: int | None) -> Finding:
        """Return the finding of a whole batch that does not belong where it is."""
        first = scan.next_offset
        lost: tuple[tuple[int, int], ...] = ()
        is_beyond = isinstance(scan.why, InvalidOffsetError)
        if is_beyond and following is not None and first < following:
            lost = ((first, following - 1),)  # readers go on at the next segment
        return self._of_log(
            FindingCode.BATCH_OUT_OF_ORDER,
            base,
            scan.valid_bytes,
            first_offset=first,
            records=Records.UNREADABLE if lost else Records.WRONG,
            lost=lost,
            **_facts_of_scan(scan),
        )

    def _overlap(self, base: int, scan: ScanResult, place: Neighbours) -> Finding | None:
        """Return the finding of a file that goes on beyond the next one with the same batches.

        As where files of another replica, with other borders, were copied over. No read gives the
        batches beyond the next segment that no other file has.
        """
        if scan.stop != "order" or place.following is None:
            return None
        beyond = self._headers(base)
        beyond = beyond[beyond["last_offset"] >= place.following]
        if not len(beyond) or int(beyond["position"][0]) != scan.valid_bytes:
            return None
        last = int(beyond["last_offset"].max())
        there = {
            batch
            for later in self._directory.segment_listing().base_offsets("log")
            if base < later <= last
            for batch in _identities(self._headers(later))
        }
        here = _identities(beyond)
        alone = _ranges_of(here - there)
        is_alone = all(
            base > last or end < first for base, end, _ in there for first, last in alone
        )
        if here.isdisjoint(there) or not is_alone:
            return None
        first, behind = scan.next_offset, min(place.following, int(beyond["base_offset"][0]))
        missing = ((first, behind - 1),) if first < behind else ()
        records = Records.UNREADABLE if alone else Records.NONE
        if missing:
            records = Records.MISSING
        return self._of_log(
            FindingCode.SEGMENTS_OVERLAP,
            base,
            scan.valid_bytes,
            first_offset=int(beyond["base_offset"][0]),
            last_offset=last,
            found=f"offsets up to {last}",
            expected=f"offsets below {place.following}, where {file_name(place.following, 'log')}"
            " begins",
            records=records,
            lost=missing + alone,
            salvageable=alone,
        )

    def _headers(self, base: int) -> BatchHeaders:
        segment = Segment(self._context, base)
        try:
            return segment.scan(check_order=True, expected_offset=base)[0]
        finally:
            segment.close_quietly()

    def _damaged_range(
        self,
        base: int,
        found: DamagedRange,
        damaged: DamagedLog,
        scan: ScanResult,
    ) -> Finding:
        code, position = FindingCode.BATCH_CORRUPT, found.position
        facts = _facts_of_scan(scan) if position == scan.valid_bytes else {"found": found.reason}
        if found.reason is None:
            code = FindingCode.BATCH_OUT_OF_ORDER
        if found.unreadable_at is not None:
            code, position = FindingCode.FILE_UNREADABLE, found.unreadable_at
            facts = self._facts_of_read(base, position)
        elif found.is_zero and found.is_last:
            code, facts = FindingCode.ZEROS_AT_END, {}
        elif found.is_last and scan.stop == "incomplete" and position == scan.valid_bytes:
            code, facts = FindingCode.BATCH_INCOMPLETE, {}
        first, end = found.first_offset, found.next_offset
        lost = (
            () if end is not None and end <= first else ((first, None if end is None else end - 1),)
        )
        records = Records.UNREADABLE if lost else Records.NONE
        if (
            lost
            and end is None
            and code in {FindingCode.ZEROS_AT_END, FindingCode.BATCH_INCOMPLETE}
        ):
            records = Records.MAYBE_MISSING  # an append that was not finished, or was acknowledged
        return self._of_log(
            code,
            base,
            position,
            size_bytes=found.position + found.size_bytes - position,
            first_offset=first,
            last_offset=lost[0][1] if lost else None,
            records=records,
            lost=lost,
            salvageable=damaged.whole_behind(first),
            **facts,
        )

    def _facts_of_read(self, base: int, position: int) -> dict[str, Any]:
        try:
            self._directory.read_range(file_name(base, "log"), position, 1)
        except SegstoreError as error:
            return facts_of(error)
        return {"found": "the disk gives these bytes out now and then"}

    def _of_log(self, code: FindingCode, base: int, position: int, **values: Any) -> Finding:
        """Return a finding about a ``.log``; what is done about it is what an open would do."""
        forecast, repaired, action = self._forecast, False, Action.RESTORE
        if forecast.error is None and forecast.split == base:
            code, repaired = FindingCode.SEGMENT_OVERFLOWS, True
            values = {**values, "records": Records.NONE, "lost": (), "salvageable": ()}
        elif forecast.error is None:
            cut_at = forecast.truncations.get(base)
            repaired = forecast.sets_aside(base) or (cut_at is not None and cut_at <= position)
        if repaired:
            action = Action.RECOVER
        elif code is FindingCode.FILE_UNREADABLE:
            action = Action.COPY_FROM_DISK
        elif code is FindingCode.SEGMENTS_OVERLAP:
            action = Action.SALVAGE
        return Finding(
            code=code,
            file=file_name(base, "log"),
            position=position,
            action=action,
            repaired=repaired,
            **values,
        )


def _end_of(damaged: DamagedLog | None, following: int | None) -> int | None:
    """Return the offset behind the last batch; None where that batch does not end the log there."""
    if damaged is None or not damaged.whole or any(one.is_last for one in damaged.ranges):
        return None
    end = damaged.whole[-1][1] + 1
    return end if following is None or end <= following else None


def _identities(headers: BatchHeaders) -> set[tuple[int, int, int]]:
    """Return what makes a batch the same in two files: its offsets and its CRC."""
    columns = (headers[name].tolist() for name in ("base_offset", "last_offset", "crc"))
    return {*zip(*columns, strict=True)}


def _ranges_of(batches: set[tuple[int, int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of offsets of *batches*, those without a gap between them as one."""
    ranges: list[tuple[int, int]] = []
    for first, last, _ in sorted(batches):
        continues = bool(ranges) and ranges[-1][1] == first - 1
        ranges.append((ranges.pop()[0] if continues else first, last))
    return tuple(ranges)


def _facts_of_scan(scan: ScanResult) -> dict[str, Any]:
    return facts_of(scan.why) if isinstance(scan.why, SegstoreError) else {}


def _undecodable(name: str, headers: BatchHeaders, row: int, error: SegstoreError) -> Finding:
    batch = headers[row]
    first, last = int(batch["base_offset"]), int(batch["last_offset"])
    return Finding(
        code=FindingCode.RECORDS_CORRUPT,
        file=name,
        position=int(batch["position"]),
        first_offset=first,
        last_offset=last,
        records=Records.UNREADABLE,
        lost=((first, last),),
        action=Action.RESTORE,
        **facts_of(error),
    )


def _told_epochs(headers: BatchHeaders) -> np.ndarray:
    """Return epochs as they count: an old message has ended all before it [APP-10]."""
    return np.where(headers["magic"] < CURRENT_MAGIC, -1, headers["partition_leader_epoch"])


def _falling_epoch(
    headers: BatchHeaders, last_epoch: int, ordered_from: int
) -> tuple[int, int] | None:
    """Return the first row whose leader epoch is below the one before, and that one."""
    is_told = (headers["magic"] < CURRENT_MAGIC) | (headers["partition_leader_epoch"] >= 0)
    rows = np.flatnonzero(is_told & (headers["base_offset"] >= ordered_from))
    epochs = np.append([last_epoch], _told_epochs(headers)[rows])
    falling = np.flatnonzero((epochs[1:] < epochs[:-1]) & (epochs[1:] >= 0))
    return (int(rows[falling[0]]), int(epochs[falling[0]])) if len(falling) else None


def _last_epoch(headers: BatchHeaders, before: int) -> int:
    told = np.flatnonzero(
        (headers["magic"] < CURRENT_MAGIC) | (headers["partition_leader_epoch"] >= 0)
    )
    return int(_told_epochs(headers)[told[-1]]) if len(told) else before
