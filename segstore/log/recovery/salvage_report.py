"""What a salvage kept and what it could not, with the place and the reason of each loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

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
    """Where the kept records go on; None = nobody knows how far the lost bytes reached."""
    reason: str

    def __str__(self) -> str:
        until = "on" if self.next_offset is None else f"to {self.next_offset - 1}"
        offsets = f"offsets {self.first_offset} {until}"
        if self.next_offset is not None and self.next_offset <= self.first_offset:
            offsets = f"no offset of the log, before {self.first_offset}"
        if not self.file:
            return f"{offsets}: {self.reason}"
        end = self.position + self.size_bytes
        return f"{self.file}, bytes {self.position} to {end}: {offsets}: {self.reason}"


@dataclass(slots=True, kw_only=True)
class SalvageReport:
    """What `segstore.salvage` did; complete when it has returned.

    Attributes
    ----------
    source, target : str
        The damaged log, of which no byte was changed, and the new one.
    log_start_offset, log_end_offset : int
        Of the target. It ends where the source is known to have ended: offsets that were lost are
        not given out again.
    segments, batches, kept_bytes : int
        What was copied, byte for byte.
    lost : list of LostRange
        In the order of the log; the first ten thousand.
    lost_ranges, lost_bytes : int
        How many there are, and the bytes in all of them.
    maybe_lost : list of tuple
        First offset and the next one of gaps of which nothing tells whether a file was lost or the
        records were deleted or compacted away.
    quarantined : list of str
        Quarantine files of the source without a whole batch that the log lacks; nothing of them is
        copied. Those with such batches are among what is lost.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return {**asdict(self), "lost": [lost._asdict() for lost in self.lost]}

    def __str__(self) -> str:
        segments = "1 segment" if self.segments == 1 else f"{self.segments} segments"
        kept = f"kept {self.batches} batches, {self.kept_bytes} bytes, in {segments}"
        offsets = f"offsets {self.log_start_offset} to {self.log_end_offset}"
        lines = [f"{kept}; {offsets}; {self.seconds:.3f} s"]
        if self.complete and self.maybe_lost:
            lines.append("no byte of the .log files was lost; whether a file was, nothing tells")
        elif self.complete and self.quarantined:
            lines.append("nothing of the .log files was lost")
        elif self.complete:
            lines.append("nothing was lost")
        else:
            ranges = "1 range" if self.lost_ranges == 1 else f"{self.lost_ranges} ranges"
            lines.append(f"lost {self.lost_bytes} bytes in {ranges}")
        lines += [f"lost {lost}" for lost in self.lost[:_SHOWN_RANGES]]
        if self.lost_ranges > _SHOWN_RANGES:
            lines.append(f"and {self.lost_ranges - _SHOWN_RANGES} more ranges")
        lines += [f"not copied: {text}" for text in self.quarantined]
        lines += [f"warning: {text}" for text in self.warnings]
        return "\n".join(lines)
