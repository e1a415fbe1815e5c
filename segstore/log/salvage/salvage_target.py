"""The new log of a salvage: segments of the batches that were chosen, and a tally of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

import segstore._core as _core
from segstore.config import MAX_INT
from segstore.errors import CorruptLogError, ReadIOError
from segstore.log.files.partition_directory import file_name
from segstore.log.local.segment import Segment
from segstore.log.recovery.quarantined_file import quarantine_hint
from segstore.log.recovery.salvage_report import LostRange
from segstore.log.salvage.epoch_warnings import EpochWarnings
from segstore.log.salvage.lost_markers import doubted_ends, unfinished_batch
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from segstore._core import DataFile, Directory
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.log.recovery.salvage_report import SalvageReport
    from segstore.log.salvage.salvage_source import SalvageSource

_PIECE_BYTES: Final = 1024 * 1024
_EPOCH_AT: Final = 12  # in a batch, big-endian, 4 bytes [format.md 2]
_ZEROS: Final = "zeros"


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
        self._gaps: list[tuple[int, int]] = []  # offsets of which nothing tells whether they were
        self._doubted: tuple[int, int] | None = None  # offsets of a batch that continues none
        self._lone: tuple[int, int] | None = None  # offsets of a batch that a gap is in front of
        self._epoch = -1  # of the batch that was kept last
        self._epoch_warnings = EpochWarnings(source.original_epochs, report.warnings)
        self._context = _core.SegmentContext(
            directory, codec_table(), writable=False, heap_indexes=True
        )

    def copy(self) -> None:
        """Write all segments, and see that they are whole; on return their bytes are synced."""
        report, source = self._report, self._source
        try:
            for rows, kept in source.batches():
                self._take(rows, kept)
            end = max(source.known_end, self._next_offset)
            self._decide_doubted(source.known_end)
            self._decide_lost(end, is_end=True)
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
        self._note_gaps()
        report.warnings += doubted_ends(
            self._context, self._segments, report.lost, source.lost_markers
        )
        report.log_end_offset = end
        report.log_start_offset = self._log_start_offset(end)

    def _log_start_offset(self, end: int) -> int:
        """Return that of the source, where it is one that the new log can have [DUR-21]."""
        first, found = min(self._segments), self._source.log_start_offset
        if found > end:
            self._report.warnings.append(
                f"the log start {found} lies above the end {end}: it is not believed, the log"
                f" starts at {first}"
            )
            return first
        return max(first, found)

    def _take(self, rows: np.ndarray, kept: np.ndarray) -> None:
        """Copy the stretches of kept rows, note the others."""
        touches = (rows["segment"][1:] == rows["segment"][:-1]) & (
            rows["position"][1:] == rows["position"][:-1] + rows["size"][:-1]
        )
        gaps = kept[1:] & (rows["base_offset"][1:] != rows["last_offset"][:-1] + 1)
        mended = rows["epoch_is_mended"]
        stands_alone = mended[1:] | mended[:-1]
        begins = np.flatnonzero(~touches | (kept[1:] != kept[:-1]) | gaps | stands_alone) + 1
        for piece in np.split(np.arange(len(rows)), begins):
            first, last = rows[piece[0]], rows[piece[-1]]
            begin, end = int(first["position"]), int(last["position"] + last["size"])
            number = int(first["segment"])
            if kept[piece[0]]:
                self._keep(rows[piece], number)
            else:
                self._lose(rows[piece], number, begin, end)

    # ---- what is kept ----------------------------------------------------------------------------

    def _keep(self, rows: np.ndarray, number: int) -> None:
        """Copy a stretch of batches; one that does not fit a segment begins another [LDR-30]."""
        self._doubt(rows, number)
        self._doubt_lone(rows, number)
        self._epoch_warnings.warn_of_others(self._source.files[number].name, rows)
        self._decide_lost(int(rows["base_offset"][0]))
        if number != self._number:
            base = self._source.files[number].offset
            fits = base >= self._next_offset and rows["last_offset"][0] - base <= MAX_INT
            self._begin_segment(base if fits else int(rows["base_offset"][0]))
            self._number = number
        while len(rows):
            fit = int(np.searchsorted(rows["last_offset"], self._base_offset + MAX_INT, "right"))
            if fit:
                last = rows[fit - 1]
                begin, end = int(rows["position"][0]), int(last["position"] + last["size"])
                self._copy(self._source.files[number].name, begin, end)
                if rows["epoch_is_mended"][0]:
                    self._mend_epoch(rows[0], number)
                self._next_offset = int(last["last_offset"]) + 1
                self._epoch = int(last["epoch"])
                self._report.batches += fit
            rows = rows[fit:]
            if len(rows):
                self._begin_segment(int(rows["base_offset"][0]))

    def _doubt(self, rows: np.ndarray, number: int) -> None:
        """Doubt the offsets of a batch that begins no file and continues none, behind damage.

        Or that lie further behind the file's name than an index could say [DUR-89].

        Source: [DUR-50]. No CRC covers them; the next batch may still show that they are right.
        """
        first, last = int(rows["base_offset"][0]), int(rows["last_offset"][0])
        self._decide_doubted(first)
        base = self._source.files[number].offset
        is_doubtful = bool(self._lost) or first - base > MAX_INT
        if is_doubtful and first not in {self._next_offset, base}:
            self._doubted = first, last
            if len(rows) > 1:
                self._decide_doubted(int(rows["base_offset"][1]))

    def _decide_doubted(self, next_offset: int) -> None:
        """Say that nothing shows a batch's offsets to be right, unless the next go on behind it."""
        if self._doubted is None:
            return
        first, last = self._doubted
        self._doubted = None
        bases = {file.offset for file in self._source.files}
        if last + 1 not in {next_offset, *bases}:
            self._report.warnings.append(
                f"a whole batch is kept with the offsets {first} to {last}, which no batch next to"
                " it shows to be right: no checksum covers them"
            )

    def _doubt_lone(self, rows: np.ndarray, number: int) -> None:
        """Doubt the offsets of a batch between two gaps, the second one the last that may be.

        Truncations within batches leave such a log, and a follower's batches. A batch that moved
        into a gap looks the same [DUR-7, DUR-50]: it is copied, as readers of the source have it.
        """
        source, first = self._source, int(rows["base_offset"][0])
        begins = rows["position"][0] == 0 and first == source.files[number].offset
        is_behind_gap = first > self._next_offset and not begins
        ends_last_gap = source.state is not None and first == source.state.contiguous_from
        is_next = number == self._number and not self._lost
        if self._lone is not None and is_behind_gap and ends_last_gap and is_next:
            why = (
                "these offsets may have had no record, or the batch in front of them, {} to {}, was"
                " written with others: a gap is on both sides of it, and no checksum covers its"
                " offsets; it is copied as it stands"
            ).format(*self._lone)
            self._report.lose(LostRange("", 0, 0, self._next_offset, first, why))
        is_lone = is_behind_gap and len(rows) == 1
        self._lone = (first, int(rows["last_offset"][0])) if is_lone else None

    def _copy(self, name: str, begin: int, end: int) -> None:
        position = self._segments[self._base_offset]
        self._report.kept_bytes += end - begin
        while begin < end:
            wanted = min(_PIECE_BYTES, end - begin)
            piece = self._source.directory.read_range(name, begin, wanted)
            if len(piece) < wanted:
                raise _changed(self._source, name, begin + len(piece))
            self._write(position, piece)
            begin, position = begin + wanted, position + wanted
        self._segments[self._base_offset] = position

    def _mend_epoch(self, row: np.ndarray, number: int) -> None:
        """Give the batch that was copied last the epoch that it should have."""
        name, position = self._source.files[number].name, int(row["position"])
        found = self._source.directory.read_range(name, position + _EPOCH_AT, 4)
        start = self._segments[self._base_offset] - int(row["size"])
        self._write(start + _EPOCH_AT, int(row["epoch"]).to_bytes(4, "big", signed=True))
        self._epoch_warnings.warn_of_mended(name, row, int.from_bytes(found, "big", signed=True))

    def _write(self, position: int, piece: bytes) -> None:
        if self._file is not None:
            self._file.write(position, piece)

    def _make_marker(self, aborted: AbortedTransaction) -> None:
        """Write a lost ABORT marker anew, where records are left that it is about."""
        offset, producer_id = aborted.last_offset, aborted.producer_id
        left = unfinished_batch(self._context, self._segments, aborted)
        if left is None:
            self._source.lost_markers.doubt(aborted)
            return
        if offset - self._base_offset > MAX_INT:
            self._begin_segment(offset)
        marker = _core.encode_end_transaction_marker(
            offset,
            max(int(left["max_timestamp"]), 0),
            self._epoch,
            producer_id,
            int(left["producer_epoch"]),
            commit=False,
            coordinator_epoch=0,
        )
        position = self._segments[self._base_offset]
        self._write(position, marker)
        self._segments[self._base_offset] = position + len(marker)
        self._next_offset = offset + 1
        self._report.warnings.append(
            f"the ABORT marker at offset {offset} of producer {producer_id} was lost, and is made"
            f" anew: {self._source.lost_markers.name_of(offset)} has it"
        )

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
                _, scan = segment.scan(
                    check_order=True, expected_offset=max(base, next_offset), table=False
                )
            finally:
                segment.close_quietly()
            if scan.stop != "complete" or scan.valid_bytes != size:
                raise _changed(self._source, file_name(base, "log"), scan.valid_bytes)
            next_offset = scan.next_offset

    # ---- what is not -----------------------------------------------------------------------------

    def _lose(self, rows: np.ndarray, number: int, begin: int, end: int) -> None:
        """Note a stretch of bytes that is not kept; how far its offsets reach shows later."""
        name = self._source.files[number].name
        reasons = [
            self._source.reasons.pop((number, int(row["position"]))) for row in rows[~rows["whole"]]
        ]
        reason = reasons[0] if reasons else self._reason_of(rows[0])
        if len(rows) == 1 and reasons and self._is_zero(name, begin, end):
            reason = _ZEROS
        before = self._lost[-1] if self._lost else None
        if before is not None and (before.file, before.position + before.size_bytes) == (
            name,
            begin,
        ):
            self._lost[-1] = before._replace(size_bytes=end - before.position)
        else:
            self._lost.append(LostRange(name, begin, end - begin, 0, None, reason))

    def _reason_of(self, row: np.ndarray) -> str:
        first, last = int(row["base_offset"]), int(row["last_offset"])
        if last < self._next_offset:
            return f"a whole batch of the offsets {first} to {last}, which are there already"
        return (
            f"a whole batch says that it has the offsets {first} to {last}, and the leader epoch"
            f" {row['epoch']}: one of the two does not fit those around it"
        )

    def _is_zero(self, name: str, begin: int, end: int) -> bool:
        while begin < end:
            try:
                size = min(_PIECE_BYTES, end - begin)
                piece = self._source.directory.read_range(name, begin, size)
            except ReadIOError:  # the disk does not give them: that is why they are lost
                return False
            if not piece or piece.strip(b"\0"):
                return False
            begin += len(piece)
        return True

    def _decide_lost(self, next_offset: int, *, is_end: bool = False) -> None:
        """Report what was lost before *next_offset*, where the log goes on."""
        first = self._next_offset
        are_missing = next_offset > first
        for aborted in self._source.lost_markers.between(first, next_offset):
            self._make_marker(aborted)
        for lost in self._lost:
            reason = lost.reason
            if reason == _ZEROS:
                if not are_missing:
                    continue  # room that was allocated ahead
                reason = "nothing but zeros: what was written never reached the disk"
            until = None if is_end and not are_missing else next_offset
            self._report.lose(lost._replace(first_offset=first, next_offset=until, reason=reason))
        if not self._lost and are_missing:
            missing = first if is_end else self._source.first_missing(first, next_offset)
            if missing is None:
                self._gaps.append((first, next_offset))
            elif missing < next_offset:
                why = "these offsets had been given out, and no file holds their records"
                self._report.lose(LostRange("", 0, 0, missing, next_offset, why))
        self._lost.clear()

    def _note_gaps(self) -> None:
        """Say what no file holds, of a log that may have had it compacted away [DUR-64]."""
        if self._gaps:
            self._report.maybe_lost = self._gaps
            first, behind = self._gaps[0]
            more = f", and of {len(self._gaps) - 1} more ranges" if self._gaps[1:] else ""
            self._report.warnings.append(
                f"no file holds the offsets {first} to {behind - 1}{more}: compaction leaves such"
                " gaps, and so does a file that was lost; nothing tells which it was"
            )


def _changed(source: SalvageSource, name: str, position: int) -> CorruptLogError:
    return CorruptLogError(
        "was changed while it was read: nothing was made; salvage it when nobody writes it",
        file=f"{source.directory.path}/{name}",
        position=position,
        found="other bytes than before",
        expected="a log that nobody writes",
    )
