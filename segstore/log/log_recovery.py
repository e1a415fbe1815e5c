"""Finding the end of a log that was not closed cleanly, and making it good.

Source: [DUR-50..DUR-63, LDR-20..LDR-28].

Everything from the recovery point's segment on is read and checked. The first bad batch at or above
the recovery point ends the log: what follows was never promised. The same below it is damage, and
damage is never repaired by dropping data.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from segstore.errors import CorruptLogError, SegstoreError
from segstore.log.partition_directory import file_name
from segstore.types import EpochEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import BatchHeaders, Directory, ScanResult
    from segstore.log.checkpoints import LogState
    from segstore.log.quarantine import Quarantine
    from segstore.log.recovery_report import RecoveryReport
    from segstore.log.segment import Segment


class Recovered(NamedTuple):
    """The log as recovery leaves it."""

    segments: list[Segment]
    next_offset: int
    epochs: list[EpochEntry]
    """Where the leader epoch changes in the segments that were read."""


class _Scan(NamedTuple):
    """How a segment was scanned, to be repeated exactly when it is cut."""

    expected_offset: int
    contiguous: bool
    check_epochs: bool
    previous_epoch: int


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

    def recover(
        self, segments: list[Segment], recovery_point: int | None, log_start_offset: int
    ) -> Recovered:
        """Check, cut, rebuild; on return all bytes are on stable storage.

        Parameters
        ----------
        segments : list of Segment
            Ascending, at least one; bases that a scan puts in doubt are set aside.
        recovery_point : int or None
            None = there is none: everything is checked [DUR-63].
        log_start_offset : int
            Stands in for it then.

        Raises
        ------
        CorruptLogError
            Data below the recovery point is damaged or missing; nothing was changed.
        """
        safe_below = log_start_offset if recovery_point is None else recovery_point
        first = floor_index(segments, safe_below)
        self._check_sealed(segments[: first + 1])
        kept = segments[:first]
        epochs: list[EpochEntry] = []
        total = sum(segment.size_bytes for segment in segments[first:])
        next_offset, previous_epoch = segments[first].base_offset, -1
        for index in range(first, len(segments)):
            segment = segments[index]
            if self._is_behind_gap(segment, next_offset, safe_below, is_first=index == first):
                reason = f"records {next_offset} to {segment.base_offset - 1} are missing"
                self._set_aside(segments[index:], reason, next_offset)
                break
            how = self._how_to_scan(segment, next_offset, previous_epoch)
            headers, recovery = segment.recover(cut=False, **how._asdict())
            scan = recovery.scan
            self._report.scanned_bytes += scan.valid_bytes
            self._note_progress(total)
            kept.append(segment)
            following = segments[index + 1] if index + 1 < len(segments) else None
            if following is not None and scan.next_offset > following.base_offset:
                self._end_at_overlap(headers, following, segments[index + 1 :], safe_below)
                following = None
            if scan.stop != "complete":
                self._check_is_tail(segment, headers, scan, recovery_point, safe_below)
                self._cut(segment, scan, how, segments[index + 1 :] if following else [])
            epochs += epoch_changes(headers, previous_epoch)
            self._report.rebuilt += [file_name(segment.base_offset, "index")]
            self._report.rebuilt += [file_name(segment.base_offset, "timeindex")]
            next_offset = max(scan.next_offset, segment.base_offset)
            previous_epoch = scan.last_epoch if len(headers) else previous_epoch
            if scan.stop != "complete" or (following is None and index + 1 < len(segments)):
                break
        if next_offset < safe_below and safe_below > log_start_offset:
            raise self._damage(
                kept[-1],
                f"the log ends at offset {next_offset}: records from there to {safe_below - 1} had"
                " been synced, and are missing",
            )
        self._rewrite(kept[first:], safe_below)
        self._directory.sync()
        return Recovered(kept, next_offset, epochs)

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

    def _check_sealed(self, segments: list[Segment]) -> None:
        """Compare ends and beginnings of the segments below the recovery point.

        Source: [DUR-51, DUR-54].
        """
        state = self._state
        for segment, following in pairwise(segments):
            try:
                next_offset, ends_clean = segment.read_next_offset()
            except SegstoreError as error:
                raise self._damage(segment, f"cannot be read to its end: {error}") from error
            if not ends_clean:
                raise self._damage(
                    segment, f"ends in bytes that are no batch, behind {next_offset - 1}"
                )
            if next_offset > following.base_offset:
                raise self._damage(
                    segment, f"reaches offset {next_offset - 1}, into the next segment"
                )
            is_behind_gap = following.base_offset > next_offset
            if is_behind_gap and state is not None and next_offset >= state.contiguous_from:
                raise self._missing_between(following, next_offset)
            if segment.size_bytes > 0 and not segment.can_hold(segment.max_timestamp().offset):
                segment.recover(cut=False, expected_offset=segment.base_offset)
                self._report.rebuilt.append(file_name(segment.base_offset, "timeindex"))

    def _is_behind_gap(
        self, segment: Segment, next_offset: int, safe_below: int, *, is_first: bool
    ) -> bool:
        """Whether offsets are missing before *segment* in a log that has none missing [DUR-54]."""
        base = segment.base_offset
        state = self._state
        if is_first or state is None or base <= next_offset or next_offset < state.contiguous_from:
            return False
        if base < safe_below:
            raise self._missing_between(segment, next_offset)
        return True

    def _end_at_overlap(
        self, headers: BatchHeaders, following: Segment, later: list[Segment], safe_below: int
    ) -> None:
        """A segment reaches into the next: its batches are newer, or the log is damaged.

        Source: [DUR-54].
        """
        overlapping = headers[headers["last_offset"] >= following.base_offset]
        their_headers, _ = following.scan(check_crc=False, max_batches=1)
        lower_epoch = int(overlapping["partition_leader_epoch"][0])
        higher_epoch = int(their_headers["partition_leader_epoch"][0]) if len(their_headers) else -1
        if following.base_offset < safe_below and following.size_bytes > 0:
            raise self._damage(
                following, "overlaps the segment before it, below the recovery point"
            )
        if 0 <= lower_epoch < higher_epoch:
            raise self._damage(following, "overlaps the segment before it, in a newer leader epoch")
        reason = f"the segment before reaches beyond {following.base_offset}"
        self._set_aside(later, reason, int(overlapping["last_offset"][-1]) + 1)

    def _check_is_tail(
        self,
        segment: Segment,
        headers: BatchHeaders,
        scan: ScanResult,
        recovery_point: int | None,
        safe_below: int,
    ) -> None:
        """Raise unless what ends the log is at or above the recovery point [DUR-51, DUR-63]."""
        why = scan.why or f"an incomplete batch at position {scan.valid_bytes}"
        if recovery_point is not None and scan.next_offset < safe_below:
            raise self._damage(
                segment,
                f"{why}; records from {scan.next_offset} to {safe_below - 1} had been synced",
            ) from scan.why
        if (
            recovery_point is None
            and scan.stop == "order"
            and not self._repeats_earlier_batch(segment, headers, scan.valid_bytes)
        ):
            raise self._damage(segment, f"{why}, and there is no recovery point") from scan.why

    def _repeats_earlier_batch(
        self, segment: Segment, headers: BatchHeaders, position: int
    ) -> bool:
        """Whether the batch at *position* is byte for byte one that came before [DUR-63]."""
        rows, _ = segment.scan(start_position=position, max_batches=1)
        if not len(rows):
            return False
        row = rows[0]
        size = int(row["size_bytes"])
        name = file_name(segment.base_offset, "log")
        content = self._directory.read_range(name, position, size)
        same = headers[(headers["crc"] == row["crc"]) & (headers["size_bytes"] == size)]
        return any(
            self._directory.read_range(name, int(earlier), size) == content
            for earlier in same["position"]
        )

    def _missing_between(self, segment: Segment, next_offset: int) -> CorruptLogError:
        last = segment.base_offset - 1
        return self._damage(segment, f"records {next_offset} to {last} are missing before it")

    def _damage(self, segment: Segment, what: str) -> CorruptLogError:
        return CorruptLogError(
            f"{what}. Nothing was changed; read_only=True opens the log as it is",
            file=f"{self._directory.path}/{segment.name}",
        )

    def _cut(self, segment: Segment, scan: ScanResult, how: _Scan, later: list[Segment]) -> None:
        """Take later segments out, highest first, then cut the file; may be repeated [DUR-56]."""
        reason = str(scan.why or f"{segment.name}: an incomplete batch at {scan.valid_bytes}")
        size = segment.size_bytes
        self._quarantine.keep_tail(segment.base_offset, scan.valid_bytes, size)
        self._set_aside(later, reason, scan.next_offset)
        segment.recover(cut=True, **how._asdict())
        self._report.truncated_bytes += size - scan.valid_bytes
        self._report.truncated_from_offset = scan.next_offset
        self._report.reason = reason

    def _set_aside(self, segments: list[Segment], reason: str, log_end_offset: int) -> None:
        if not segments:
            return
        for segment in reversed(segments):
            self._report.truncated_bytes += segment.size_bytes
            if segment.size_bytes > 0:
                self._quarantine.set_aside(segment.base_offset)
            else:
                segment.delete_files()
                self._report.removed.append(segment.name)
            segment.close_quietly()
        self._directory.sync()
        self._report.truncated_from_offset = log_end_offset
        self._report.reason = reason

    def _rewrite(self, segments: list[Segment], safe_below: int) -> None:
        """Bring everything above the recovery point to stable storage again [DUR-36]."""
        for segment in segments:
            found = segment.translate_offset(safe_below)
            position = segment.size_bytes if found is None else found.position
            if position < segment.size_bytes:
                segment.rewrite(position)
                self._report.rewritten_bytes += segment.size_bytes - position
            segment.flush(indexes=True)


def epoch_changes(headers: BatchHeaders, previous_epoch: int = -1) -> list[EpochEntry]:
    """Return where the leader epoch rises in a table of batches [SEG-40]; -1 is no epoch."""
    if not len(headers):
        return []
    epochs = headers["partition_leader_epoch"]
    highest = np.maximum.accumulate(np.maximum(epochs, previous_epoch))
    before = np.concatenate(([previous_epoch], highest[:-1]))
    rows = np.flatnonzero(epochs > before)
    return [EpochEntry(int(epochs[row]), int(headers["base_offset"][row])) for row in rows]


def floor_index(segments: list[Segment], offset: int) -> int:
    """Return the index of the segment that holds *offset*, 0 when it lies below all [LDR-23]."""
    index = 0
    while index + 1 < len(segments) and segments[index + 1].base_offset <= offset:
        index += 1
    return index
