"""Finding the end of a log that was not closed cleanly, and making it good.

Source: [DUR-50..DUR-63, LDR-20..LDR-28].

Everything from the recovery point's segment on is read and checked. The first bad batch at or above
the recovery point ends the log: of what follows nobody knows whether it had been synced. The same
below it is damage, and damage is never repaired by dropping data.
"""

from __future__ import annotations

from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Barrier
from segstore.errors import CorruptLogError, SegstoreError
from segstore.log.files.partition_directory import INDEX_ENTRY_BYTES, file_name
from segstore.log.files.recovery_advice import missing_records
from segstore.log.local.batch_search import may_hold_batch
from segstore.log.local.segments import floor_index
from segstore.log.recovery.epoch_changes import epoch_changes
from segstore.log.recovery.overflow_split import is_overflowed
from segstore.log.recovery.recovered_tail import bring_to_disk
from segstore.log.recovery.tail_or_damage import NO_DAMAGE, TailOrDamage

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import BatchHeaders, Directory, ScanResult
    from segstore.log.files.checkpoints import LogState
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.quarantine import Quarantine
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.recovery.sidecar_cleanup import SidecarCleanup
    from segstore.types import EpochEntry


_CUT_NOWHERE: Final = -1


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
    contiguous: bool = False
    check_epochs: bool = False
    previous_epoch: int = -1


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
    sidecars : SidecarCleanup
        Those of segments that are cut go before.
    accepted : callable
        Called with the log end when all is decided, before anything is changed.
    """

    def __init__(  # noqa: PLR0913 - what it works on, and what it asks
        self,
        directory: Directory,
        report: RecoveryReport,
        quarantine: Quarantine,
        state: LogState | None,
        progress: Callable[[str, int, int], None] | None,
        sidecars: SidecarCleanup,
        accepted: Callable[[int], None],
    ) -> None:
        self._directory = directory
        self._report = report
        self._quarantine = quarantine
        self._state = state
        self._progress = progress
        self._sidecars = sidecars
        self._accepted = accepted
        self._judge = TailOrDamage(directory)

    def recover(self, segments: list[Segment], found: StoredState) -> Recovered:
        """Check, cut, rebuild, sync.

        Parameters
        ----------
        segments : list of Segment
            Ascending, at least one; bases that a scan puts in doubt are set aside.
        found : StoredState
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
        self._accepted(plan.next_offset)  # it may need the room of what goes then
        self._sidecars.remove_from(plan.scanned[-1].segment.base_offset)
        self._sidecars.remove([one.segment.base_offset for one in plan.scanned if one.is_cut])
        padded = [segment for segment, end in to_repair if end < segment.size_bytes]
        self._sidecars.remove([segment.base_offset for segment in padded])
        for segment, end in to_repair:
            self._rebuild(segment, _Scan(segment.base_offset), end)
        self._act(plan)
        kept = [one.segment for one in plan.scanned]
        point = found.recovery_point or 0
        is_rewritten = bring_to_disk(segments[:first], kept, point, self._directory, self._report)
        bases = [segment.base_offset for segment in kept]
        producers = [one.segment.base_offset for one in plan.scanned if one.has_producers]
        kept = segments[:first] + kept
        return Recovered(kept, plan.next_offset, plan.epochs, bases, producers, is_rewritten)

    def _decide(self, segments: list[Segment], found: StoredState) -> _Plan:
        """Scan up to the end of the log; changes nothing, so that damage can still be refused."""
        total = sum(segment.size_bytes for segment in segments)
        scanned: list[_Scanned] = []
        epochs: list[EpochEntry] = []
        reason: str | None = None
        next_offset, previous_epoch = segments[0].base_offset, -1
        for segment, following in zip_longest(segments, segments[1:]):
            if scanned and self._is_after_gap(segment, next_offset):
                if found.lacks_records_from(next_offset):
                    raise self._judge.missing_between(segment, next_offset)
                reason = missing_records(next_offset, segment.base_offset)
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
                self._judge.check_overlap(overlapping_epoch, following)
                reason = f"the segment before reaches beyond {following.base_offset}"
            if scan.stop != "complete" and not (
                _continues(following, next_offset)
                and self._judge.is_zero(segment, scan.valid_bytes)
            ):
                self._judge.check_is_tail(segment, scan, found)
                at = scan.valid_bytes
                reason = str(scan.why or f"{segment.name}: an incomplete batch at {at}")
            if reason is not None:
                break
        if found.lacks_records_from(next_offset):
            raise self._judge.lost_end(scanned[-1].segment, next_offset, found)
        return _Plan(scanned, segments[len(scanned) :], reason, next_offset, epochs)

    def _act(self, plan: _Plan) -> None:
        """Set aside, cut, rebuild indexes; may be repeated after a crash at any point [DUR-56]."""
        last = plan.scanned[-1]
        size, end = last.segment.size_bytes, last.result.valid_bytes
        if last.is_cut:
            holds = last.result.stop == "order" or may_hold_batch(
                self._directory, last.segment, end
            )
            self._quarantine.keep_tail(last.segment.base_offset, end, size, holds_batches=holds)
        self._set_aside(plan.later)
        for segment, how, result, is_cut, _ in plan.scanned:  # all checksums of a whole one fit
            self._rebuild(segment, how, result.valid_bytes, check_crc=is_cut)
        if plan.reason is not None:
            self._report.truncated_bytes += size - end if last.is_cut else 0
            self._report.truncated_from_offset = plan.next_offset
            self._report.reason = plan.reason

    def _rebuild(
        self, segment: Segment, how: _Scan, valid_bytes: int, *, check_crc: bool = True
    ) -> None:
        """Rebuild both indexes, and cut behind *valid_bytes*; nothing unless its batches end there.

        Raises
        ------
        CorruptLogError
            They did when it was decided.
        """
        cut_at = valid_bytes if valid_bytes < segment.size_bytes else _CUT_NOWHERE
        _, recovery = segment.recover(
            cut_at=cut_at, check_crc=check_crc, table=False, **how._asdict()
        )
        if recovery.scan.valid_bytes != valid_bytes:
            raise CorruptLogError(
                "was read twice, with two results",
                file=segment.path,
                position=min(recovery.scan.valid_bytes, valid_bytes),
                found=f"{recovery.scan.valid_bytes} good bytes",
                expected=f"{valid_bytes}, as before",
            ) from recovery.scan.why
        for kind in INDEX_ENTRY_BYTES:
            self._report.rebuilt.append(file_name(segment.base_offset, kind))

    def _how_to_scan(self, segment: Segment, next_offset: int, previous_epoch: int) -> _Scan:
        state = self._state
        base = segment.base_offset
        return _Scan(
            expected_offset=max(next_offset, base),
            contiguous=state is not None and base >= state.contiguous_from,
            check_epochs=state is not None and base >= state.epochs_ordered_from,
            previous_epoch=previous_epoch,
        )

    def _note_progress(self, total: int) -> None:
        if self._progress is not None:
            self._progress("recover", self._report.scanned_bytes, total)

    def _check_sealed(self, segments: list[Segment]) -> list[tuple[Segment, int]]:
        """Compare ends and beginnings of the segments below the recovery point.

        Returns those with a damaged index, or padding, and where the batches of each end. Source:
        [DUR-51, DUR-54].
        """
        to_repair = []
        for segment, following in pairwise(segments):
            try:
                next_offset, ends_clean = segment.read_next_offset()
            except NO_DAMAGE:
                raise
            except SegstoreError as error:
                raise self._judge.damage(segment, "cannot be read to its end", error) from error
            if not ends_clean:
                to_repair += self._to_repair(segment, following, next_offset)
            if next_offset > following.base_offset:
                raise self._judge.damage(
                    segment, f"reaches offset {next_offset - 1}, into the next segment"
                )
            if self._is_after_gap(following, next_offset):
                raise self._judge.missing_between(following, next_offset)
            segment.max_timestamp()
            if ends_clean and segment.index_damaged:
                to_repair += self._to_repair(segment, following, next_offset)
        return to_repair

    def _to_repair(
        self, segment: Segment, following: Segment, next_offset: int
    ) -> list[tuple[Segment, int]]:
        """Read all of a segment below the recovery point: behind its batches are zeros at most.

        A damaged batch in the middle is no end: nothing that was synced is cut [DUR-51]. What
        overflows is split later [LDR-30].
        """
        base = segment.base_offset
        _, scan = segment.scan(check_order=True, expected_offset=base, table=False)
        if is_overflowed(segment, scan):
            return []
        if scan.next_offset < next_offset:
            said = f"is damaged behind {scan.next_offset - 1}"
            raise self._judge.damage(segment, said, scan.why)
        if scan.stop != "complete" and not (
            _continues(following, scan.next_offset)
            and self._judge.is_zero(segment, scan.valid_bytes)
        ):
            raise self._judge.damage(
                segment, f"ends in bytes that are no batch, behind {scan.next_offset - 1}"
            )
        return [(segment, scan.valid_bytes)]

    def _is_after_gap(self, segment: Segment, next_offset: int) -> bool:
        """Whether offsets are missing before *segment* in a log that has none missing [DUR-54]."""
        state = self._state
        if state is None:
            return False
        return segment.base_offset > max(next_offset, state.contiguous_from)

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
            self._directory.sync(Barrier.RECOVERY_SET_ASIDE)


def _continues(following: Segment | None, next_offset: int) -> bool:
    """Whether the next segment begins where the records of this one end."""
    return following is not None and following.base_offset == next_offset


def _epoch_of_first(headers: BatchHeaders, offset: int) -> int | None:
    """Return the leader epoch of the first batch that reaches *offset*, None without one."""
    reaching = headers["partition_leader_epoch"][headers["last_offset"] >= offset]
    return int(reaching[0]) if len(reaching) else None
