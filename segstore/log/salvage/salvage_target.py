"""The new log of a salvage: segments of the batches that were chosen, and a tally of the rest."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

import segstore._core as _core
from segstore.errors import CorruptLogError, ReadIOError
from segstore.log.files.partition_directory import file_name
from segstore.log.findings.finding import FindingCode
from segstore.log.local.segment import Segment
from segstore.log.recovery.quarantined_file import quarantine_hint
from segstore.log.recovery.salvage_report import MAX_RANGES, LostRange
from segstore.log.salvage.duplicates import other_batches
from segstore.log.salvage.uncertain_transactions import uncertain_transactions, with_aborts
from segstore.number_limits import MAX_INT
from segstore.numpy_on_demand import np
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import DataFile, Directory
    from segstore.log.local.batch_chain import ChosenBatches
    from segstore.log.recovery.salvage_report import SalvageReport
    from segstore.log.salvage.salvage_source import SalvageSource

_PIECE_BYTES: Final = 1024 * 1024
_WHOLE_BATCHES: Final = {FindingCode.SEGMENTS_OVERLAP, FindingCode.BATCH_OUT_OF_ORDER}
_ZEROS: Final = "nothing but zeros: what was written never reached the disk"


class SalvageTarget:
    """Copies what a source yields into a directory; segments keep their base offsets.

    Parameters
    ----------
    directory : Directory
        New and empty.
    source : SalvageSource
        The damaged log.
    report : SalvageReport
        Filled in.
    """

    def __init__(self, directory: Directory, source: SalvageSource, report: SalvageReport) -> None:
        self._directory = directory
        self._source = source
        self._report = report
        self._segments: dict[int, int] = {}  # base offset to size
        self._number = -1  # of the source's file that is being copied
        self._file: DataFile | None = None
        self._base_offset = 0
        self._next_offset = source.first_offset  # behind what was kept
        self._lost: list[LostRange] = []  # since then
        self._context = _core.SegmentContext(
            directory, codec_table(), writable=False, heap_indexes=True
        )

    def copy(self) -> None:
        """Write all segments, and see that they are whole; on return their bytes are synced."""
        report, source = self._report, self._source
        try:
            for chosen in source.batches():
                for piece in _stretches(chosen):
                    self._take(chosen, piece)
            end = max(source.known_end, self._next_offset)
            self._end_gap(end, is_end=True)
            self._end_segment()
        finally:
            if self._file is not None:
                self._file.close()
        if not self._segments and report.lost:
            raise CorruptLogError(
                "no batch of this log can be proven:"
                f" {report.lost[0]}{quarantine_hint(source.directory)}",
                file=source.directory.path,
                found="no good batch",
                expected="one at least",
            )
        if end > self._next_offset or not self._segments:
            self._begin_segment(end)
            self._end_segment()
        self._check()
        self._set_duplicates_apart()
        self._look_at_transactions()
        report.log_end_offset = end
        report.log_start_offset = self._log_start_offset(end)

    def _log_start_offset(self, end: int) -> int:
        """Return that of the source, where it is one that the new log can have [DUR-21]."""
        first, found = min(self._segments), self._source.log_start_offset
        if found > end:
            self._report.warnings.append(
                f"the log start {found} lies above the end {end}: it is ignored, the log starts"
                f" at {first}"
            )
            return first
        return max(first, found)

    # ---- what is kept ----------------------------------------------------------------------------

    def _take(self, chosen: ChosenBatches, piece: slice) -> None:
        """Copy a stretch of batches, or note that it is not copied."""
        rows = chosen.rows[piece]
        if not chosen.kept[piece.start]:
            self._lose(rows)
            return
        first, last = int(rows["base_offset"][0]), int(rows["last_offset"][0])
        base = self._source.files[rows["segment"][0]].offset
        is_doubtful = bool(self._lost) or first - base > MAX_INT
        if is_doubtful and not chosen.proven[piece.start] and first != self._next_offset:
            self._report.unproven.append((first, last))
        self._end_gap(first)
        if rows["segment"][0] != self._number:
            fits = base >= self._next_offset and last - base <= MAX_INT
            self._begin_segment(base if fits else first)
            self._number = int(rows["segment"][0])
        while len(rows):  # one that does not fit the segment begins another [LDR-30]
            fit = int(np.searchsorted(rows["last_offset"], self._base_offset + MAX_INT, "right"))
            if fit:
                self._copy(rows[:fit])
            rows = rows[fit:]
            if len(rows):
                self._begin_segment(int(rows["base_offset"][0]))

    def _copy(self, rows: np.ndarray) -> None:
        name, begin, end = self._place_of(rows)
        position = self._segments[self._base_offset]
        self._report.batches += len(rows)
        self._report.kept_bytes += end - begin
        self._next_offset = int(rows["last_offset"][-1]) + 1
        while begin < end:
            wanted = min(_PIECE_BYTES, end - begin)
            piece = self._source.directory.read_range(name, begin, wanted)
            if len(piece) < wanted:
                raise _changed(self._source, name, begin + len(piece))
            if self._file is not None:
                self._file.write(position, piece)
            begin, position = begin + wanted, position + wanted
        self._segments[self._base_offset] = position

    def _place_of(self, rows: np.ndarray) -> tuple[str, int, int]:
        """Return the file of a stretch of rows, and where it begins and ends."""
        name = self._source.files[rows["segment"][0]].name
        return name, int(rows["position"][0]), int(rows["position"][-1] + rows["size"][-1])

    def _begin_segment(self, base_offset: int) -> None:
        self._end_segment()
        self._file = _core.DataFile(self._directory, file_name(base_offset, "log"), create=True)
        self._base_offset = base_offset
        self._segments[base_offset] = 0

    def _end_segment(self) -> None:
        file = self._file
        if file is not None:
            file.sync(_core.Barrier.SALVAGED_RECORDS)
            self._file = None
            file.close()

    def _check(self) -> None:
        """Read again what was written: the source may have changed while it was copied."""
        next_offset = 0
        for base, size in self._segments.items():
            segment = Segment(self._context, base)
            try:
                scan = segment.scan_result(check_order=True, expected_offset=max(base, next_offset))
            finally:
                segment.close_quietly()
            if scan.stop != "complete" or scan.valid_bytes != size:
                raise _changed(self._source, file_name(base, "log"), scan.valid_bytes)
            next_offset = scan.next_offset

    # ---- what is not -----------------------------------------------------------------------------

    def _lose(self, rows: np.ndarray) -> None:
        """Note a stretch of bytes that is not kept; how far its offsets reach shows later."""
        name, begin, end = self._place_of(rows)
        first, last = int(rows["base_offset"][0]), int(rows["last_offset"][-1])
        os_error = None
        if not rows["whole"][0]:
            reason, os_error = self._source.reasons.pop((int(rows["segment"][0]), begin))
            code = FindingCode.BATCH_CORRUPT if os_error is None else FindingCode.FILE_UNREADABLE
            if os_error is None and self._is_zero(name, begin, end):
                reason = _ZEROS
        elif last < self._next_offset:
            code = FindingCode.SEGMENTS_OVERLAP
            reason = f"other batches have the offsets {first} to {last}"
        else:
            code = FindingCode.BATCH_OUT_OF_ORDER
            reason = (
                f"whole batches with the offsets {first} to {last} and the leader epoch"
                f" {rows['epoch'][0]}: these do not fit the batches before and after them"
            )
        lost = LostRange(name, begin, end - begin, 0, None, reason, code, os_error)
        if self._lost and _is_damage_up_to(self._lost[-1], lost):
            before = self._lost.pop()
            one = before if lost.os_error is None else lost
            lost = one._replace(position=before.position, size_bytes=end - before.position)
        self._lost.append(lost)

    def _is_zero(self, name: str, begin: int, end: int) -> bool:
        while begin < end:
            try:
                size = min(_PIECE_BYTES, end - begin)
                piece = self._source.directory.read_range(name, begin, size)
            except ReadIOError:  # the disk does not give them now
                return False
            if not piece or piece.strip(b"\0"):
                return False
            begin += len(piece)
        return True

    def _end_gap(self, next_offset: int, *, is_end: bool = False) -> None:
        """Report what was lost before *next_offset*, where the log goes on."""
        first, report = self._next_offset, self._report
        are_missing = next_offset > first
        for lost in self._lost:
            if are_missing or lost.reason != _ZEROS:  # else room that was allocated ahead
                until = None if is_end and not are_missing else next_offset
                report.lose(lost._replace(first_offset=first, next_offset=until))
        if are_missing and not self._lost:
            missing: int | None = first
            if is_end:  # a crash may take what had not been synced
                known = max(first, self._source.synced_end)
                if known < next_offset:
                    report.maybe_lost.append((known, next_offset))
                next_offset = known
            else:
                missing = self._source.first_missing(first, next_offset)
            if missing is None:
                report.maybe_lost.append((first, next_offset))
            elif missing < next_offset:
                why = "no file holds these records"
                report.lose(
                    LostRange("", 0, 0, missing, next_offset, why, FindingCode.RECORDS_MISSING)
                )
        self._lost.clear()

    def _set_duplicates_apart(self) -> None:
        """Count batches as duplicates that were left out, and are in the new log all the same."""
        report = self._report
        for lost in report.lost.copy():
            is_gap = lost.next_offset is not None and lost.next_offset > lost.first_offset
            if is_gap or lost.code not in {
                FindingCode.SEGMENTS_OVERLAP,
                FindingCode.BATCH_OUT_OF_ORDER,
            }:
                continue
            with self._source.open_file(lost.file) as segment:
                parts, count = other_batches(
                    lost, segment, self._directory, self._context, list(self._segments)
                )
            report.replace_lost(lost, parts)
            report.duplicate_batches += count
            report.duplicate_bytes += lost.size_bytes - sum(part.size_bytes for part in parts)

    def _look_at_transactions(self) -> None:
        """Name the transactions whose ends may be lost."""
        report, source = self._report, self._source
        lost_from = sorted(
            lost.first_offset
            for lost in report.lost
            if lost.next_offset is None or lost.next_offset > lost.first_offset
        )
        if lost_from:
            found = uncertain_transactions(self._context, self._segments, lost_from)
            bases = [file.offset for file in source.files if not file.suffix]
            report.uncertain_transactions = with_aborts(
                list(islice(found, MAX_RANGES)), source.directory, bases
            )


def _stretches(chosen: ChosenBatches) -> Iterator[slice]:
    """Yield rows that follow each other in a file and share one fate; each that is none alone."""
    rows, kept, _ = chosen
    joined = (rows["segment"][1:] == rows["segment"][:-1]) & (kept[1:] == kept[:-1])
    joined &= rows["position"][1:] == rows["position"][:-1] + rows["size"][:-1]
    joined &= rows["whole"][1:] & rows["whole"][:-1]
    joined &= ~kept[1:] | (rows["base_offset"][1:] == rows["last_offset"][:-1] + 1)
    begins = np.append(0, np.flatnonzero(~joined) + 1).tolist()
    return (slice(*pair) for pair in pairwise([*begins, len(rows)]))


def _is_damage_up_to(before: LostRange, lost: LostRange) -> bool:
    """Whether both are no batches, and the second begins where the first ends."""
    is_damage = _WHOLE_BATCHES.isdisjoint({before.code, lost.code})
    return is_damage and (before.file, before.position + before.size_bytes) == (
        lost.file,
        lost.position,
    )


def _changed(source: SalvageSource, name: str, position: int) -> CorruptLogError:
    return CorruptLogError(
        "the file was changed while it was read, and no new log was made: stop the writer, and"
        " salvage again",
        file=f"{source.directory.path}/{name}",
        position=position,
        found="other bytes than before",
        expected="a log without a writer",
    )
