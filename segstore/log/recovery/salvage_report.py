"""What a salvage kept and what it could not, with the place and the reason of each loss."""

from __future__ import annotations

import errno
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.notebook import text_as_html

if TYPE_CHECKING:
    import numpy as np

    from segstore.log.findings.finding import FindingCode

MAX_RANGES: Final = 10_000
"""Kept one by one; of more the sums are kept, so that a hostile log takes no memory [DUR-102]."""
_SHOWN_RANGES: Final = 20


class LostRange(NamedTuple):
    """What is not in the target: bytes that are no proven batch, or offsets that no file has."""

    file: str
    """Name of the ``.log``; empty when no file has these offsets."""
    position: int
    size_bytes: int
    first_offset: int
    """Every offset from here to below `next_offset` is lost that had a record."""
    next_offset: int | None
    """Where the kept records go on; None = nothing tells how far the lost bytes reached."""
    reason: str
    code: FindingCode
    """Which kind of loss it is: docs/operations.md lists the codes."""
    os_error: int | None = None
    """errno, where the disk could not read the bytes."""

    def __str__(self) -> str:
        until = "on" if self.next_offset is None else f"to {self.next_offset - 1}"
        offsets = f"offsets {self.first_offset} {until}"
        if self.next_offset is not None and self.next_offset <= self.first_offset:
            offsets = f"no offset of the log, before {self.first_offset}"
        why = self.reason
        if self.os_error is not None:
            name = errno.errorcode.get(self.os_error, str(self.os_error))
            why += f" ({name}: {os.strerror(self.os_error)})"
        if not self.file:
            return f"{offsets}: {why}"
        end = self.position + self.size_bytes
        return f"{self.file}, bytes {self.position} to {end}: {offsets}: {why}"


class UncertainTransaction(NamedTuple):
    """A transaction whose end may be lost, so that aborted records may count as committed."""

    producer_id: int
    first_offset: int
    """Where it begins."""
    lost_from: int
    """Where the first range of lost offsets after that begins."""
    marker_offset: int
    """The marker by which its records count as committed or aborted in the new log."""
    aborted_at: int | None = None
    """A transaction index of the source says that it was aborted by a marker at this offset."""

    def __str__(self) -> str:
        text = (
            f"the end marker of the transaction of producer {self.producer_id} from offset"
            f" {self.first_offset} on may be lost, from offset {self.lost_from} on; its records"
            f" count as committed or aborted by the marker at offset {self.marker_offset}, which"
            " may be wrong"
        )
        if self.aborted_at is not None:
            text += f"; by the transaction index it was aborted at offset {self.aborted_at}"
        return text


@dataclass(slots=True, kw_only=True)
class SalvageReport:
    """What `segstore.salvage` did; complete when it has returned.

    Attributes
    ----------
    source, target : str
        The damaged log, of which no byte was changed, and the new one.
    log_start_offset, log_end_offset : int
        Of the target. It ends where the source is known to have ended, so that no lost offset is
        given to another record.
    segments, batches, kept_bytes : int
        What was copied, byte for byte.
    lost : list of LostRange
        In the order of the log; the first ten thousand.
    lost_ranges, lost_bytes : int
        How many there are, and the bytes in all of them.
    duplicate_batches, duplicate_bytes : int
        What the source has twice, for example because files of another replica were copied over
        it. Each batch was copied once: nothing of this is lost.
    unproven : list of tuple
        First and last offset of batches that were copied after damage. No checksum covers offsets,
        and no batch next to these confirms them.
    uncertain_transactions : list of UncertainTransaction
        Transactions whose marker may be lost: their aborted records may count as committed.
    maybe_lost : list of tuple
        Gaps: the first offset, and the one after the last. A file was lost, or the records were
        deleted or compacted away. At the end they may not have been synced when a process died, or
        only an index names them. No file shows which it was.
    quarantined : list of str
        Quarantine files of the source that hold no whole batch that the log lacks. Nothing of them
        is copied. Files with such batches are in `lost`.
    warnings : list of str
        What else a person should know.
    seconds : float
        Time taken.
    """

    source: str
    target: str
    log_start_offset: int = 0
    log_end_offset: int = 0
    segments: int = 0
    batches: int = 0
    kept_bytes: int = 0
    lost: list[LostRange] = field(default_factory=list)
    lost_ranges: int = 0
    lost_bytes: int = 0
    duplicate_batches: int = 0
    duplicate_bytes: int = 0
    unproven: list[tuple[int, int]] = field(default_factory=list)
    uncertain_transactions: list[UncertainTransaction] = field(default_factory=list)
    maybe_lost: list[tuple[int, int]] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether nothing was lost."""
        return self.lost_ranges == 0

    def lose(self, lost: LostRange) -> None:
        """Take note of a loss."""
        self.lost_ranges += 1
        self.lost_bytes += lost.size_bytes
        if len(self.lost) < MAX_RANGES:
            self.lost.append(lost)

    def replace_lost(self, lost: LostRange, parts: list[LostRange]) -> None:
        """Put *parts* in the place of a range of which the rest is not lost after all."""
        at = self.lost.index(lost)
        self.lost[at : at + 1] = parts
        self.lost_ranges += len(parts) - 1
        self.lost_bytes += sum(part.size_bytes for part in parts) - lost.size_bytes

    @property
    def may_lack_end(self) -> bool:
        """Whether offsets at the end had been given out whose records may be lost."""
        return bool(self.maybe_lost) and self.maybe_lost[-1][1] == self.log_end_offset

    def doubts(self) -> list[str]:
        """Return what a person should know of what was copied."""
        texts = [
            f"a whole batch is copied with the offsets {first} to {last}, which no batch next to it"
            " confirms: no checksum covers them"
            for first, last in self.unproven[:_SHOWN_RANGES]
        ]
        texts += [str(one) for one in self.uncertain_transactions[:_SHOWN_RANGES]]
        more = len(self.uncertain_transactions) - _SHOWN_RANGES
        if more > 0:
            texts.append(f"the end markers of {more} more transactions may be lost too")
        if self.maybe_lost:
            first, end = self.maybe_lost[0]
            others = len(self.maybe_lost) - 1
            more_ranges = f", and of {others} more ranges" if others else ""
            texts.append(
                f"no file holds the offsets {first} to {end - 1}{more_ranges}: compaction leaves"
                " such gaps, and so does a lost file, or, at the log end, a crash before a sync; no"
                " file shows which"
            )
        return texts

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return {
            **asdict(self),
            "lost": [lost._asdict() for lost in self.lost],
            "uncertain_transactions": [one._asdict() for one in self.uncertain_transactions],
        }

    _repr_html_ = text_as_html

    def __str__(self) -> str:
        segments = "1 segment" if self.segments == 1 else f"{self.segments} segments"
        batches = "1 batch" if self.batches == 1 else f"{self.batches} batches"
        kept = f"kept {batches}, {self.kept_bytes} bytes, in {segments}"
        offsets = f"offsets {self.log_start_offset} to {self.log_end_offset}"
        lines = [f"{kept}; {offsets}; {self.seconds:.3f} s"]
        if self.complete and self.maybe_lost:
            lines.append("no byte of the .log files was lost; whole files may be missing")
        elif self.complete and self.quarantined:
            lines.append("nothing of the .log files was lost")
        elif self.complete:
            lines.append("nothing was lost")
        elif self.lost_bytes:
            ranges = "1 range" if self.lost_ranges == 1 else f"{self.lost_ranges} ranges"
            lines.append(f"lost {self.lost_bytes} bytes in {ranges}")
        lines += [f"lost {lost}" for lost in self.lost[:_SHOWN_RANGES]]
        if self.lost_ranges > _SHOWN_RANGES:
            lines.append(f"and {self.lost_ranges - _SHOWN_RANGES} more ranges")
        if self.duplicate_batches:
            lines.append(
                f"{self.duplicate_batches} batches, {self.duplicate_bytes} bytes, are in the source"
                " twice, and were copied once"
            )
        lines += [f"not copied: {text}" for text in self.quarantined]
        lines += [f"warning: {text}" for text in self.warnings]
        return "\n".join(lines)


def other_epochs(name: str, row: np.void, expected: int, count: int) -> str:
    """Return what is said of batches that are copied with another epoch than the files say.

    Parameters
    ----------
    name, row, expected
        File, row and right epoch of the first of *count* batches.
    """
    offsets = f"offsets {row['base_offset']} to {row['last_offset']}"
    more = f", and so have {count - 1} more batches" if count > 1 else ""
    return (
        f"{name}, position {row['position']}: the batch of {offsets} has the leader epoch"
        f" {row['epoch']}, and leader-epoch-checkpoint or .segstore say {expected}{more}: no"
        " checksum covers an epoch; batches are copied as they are"
    )
