"""What an open found and did [DUR-58]."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from segstore.log.files.recovery_advice import listed
from segstore.notebook import text_as_html

if TYPE_CHECKING:
    from segstore.log.recovery.salvage_report import SalvageReport


@dataclass(slots=True, kw_only=True)
class RecoveryReport:
    """What an open found and did; complete when ``segstore.open`` has returned.

    Attributes
    ----------
    mode : str
        ``safe``.
    clean : bool
        The log had been closed cleanly, or is new.
    created : bool
        There was no log before.
    log_start_offset, log_end_offset, recovery_point : int
        ``recovery_point`` is the one found: everything below it was not read again.
    had_recovery_point : bool
        False: there was none that could be read, and everything from the log start on was checked.
    segments : int
        How many there are now.
    scanned_bytes : int
        Bytes of ``.log`` files that were checked.
    truncated_bytes : int
        Bytes cut after the last good batch, or quarantined in whole segments.
    truncated_from_offset : int or None
        The log end after the cut, None when nothing was cut.
    reason : str or None
        Why it was cut, or why the last close counts as unclean.
    set_aside : list of str
        Whole segments that were quarantined, under their new names. These end in
        ``.quarantine-<n>``, as those of `quarantined` do. An earlier open may have been interrupted
        while it quarantined the whole log: its segments are here too.
    removed : list of str
        Leftovers of interrupted operations that were removed.
    rebuilt : list of str
        Derived files that were written again.
    rewritten_bytes : int
        Bytes above the recovery point, which this open has synced. They are written again in place
        before the first change, a flush or the close [DUR-36].
    rewritten : bool
        Whether they were written again at the open: a sync had failed before.
    quarantined : list of str
        Files that keep the bytes that were cut [DUR-59]; whole ones are in `set_aside`.
    damage : str or None
        Of an open to read. It says which records are missing, before the first segment or between
        two. Or it says why the log ends at ``log_end_offset``, although records follow in its files
        or had been synced. A write that was not finished is no damage.
    early_end : str or None
        The part of `damage` that says why the log ends at ``log_end_offset``.
    maybe_missing : str or None
        Which records were lost together with the leader epochs or ``.segstore``, or deleted by a
        broker. No file shows which of the two, and the next open does not report it again.
    maybe_missing_ranges : list of (int, int)
        The same as ranges, ascending: the first offset, and the one after the last.
    lost_state : str or None
        ``.segstore`` is missing, or cannot be read: a gap of the log counts as no loss.
    doubtful_epochs : str or None
        What contradicts the leader-epoch checkpoint; an open for writing rebuilds that.
    warnings : list of str
        What else a person should know; the damage too.
    seconds : float
        Time taken.
    salvage : SalvageReport or None
        Of a log that ``recovery="salvage"`` made: what was kept of the damaged one.
    """

    mode: str = "safe"
    clean: bool = True
    created: bool = False
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    had_recovery_point: bool = True
    segments: int = 0
    scanned_bytes: int = 0
    truncated_bytes: int = 0
    truncated_from_offset: int | None = None
    reason: str | None = None
    set_aside: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    rewritten_bytes: int = 0
    rewritten: bool = False
    quarantined: list[str] = field(default_factory=list)
    damage: str | None = None
    early_end: str | None = None
    maybe_missing: str | None = None
    maybe_missing_ranges: list[tuple[int, int]] = field(default_factory=list)
    lost_state: str | None = None
    doubtful_epochs: str | None = None
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    salvage: SalvageReport | None = None

    def copy(self) -> RecoveryReport:
        """Return a report that says the same, with lists of its own."""
        values = ((one.name, getattr(self, one.name)) for one in fields(self))
        lists: dict[str, Any] = {name: [*each] for name, each in values if isinstance(each, list)}
        return replace(self, **lists)

    def copy_from(self, other: RecoveryReport) -> None:
        """Say what *other* says."""
        for known in fields(self):
            setattr(self, known.name, getattr(other, known.name))

    def add_notes_to(self, error: BaseException) -> None:
        """Add what no later open reports to *error*, which ends the open."""
        if self.maybe_missing is not None:
            error.add_note(self.maybe_missing)

    def damage_in(self, path: str) -> str | None:
        """Return `damage`, its files named as they are in the directory *path*."""
        return None if self.damage is None else self.damage.replace(f"{path}/", "")

    def early_end_in(self, path: str) -> str | None:
        """Return `early_end`, its files named as they are in the directory *path*."""
        return None if self.early_end is None else self.early_end.replace(f"{path}/", "")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        values = {**asdict(self), "salvage": None}
        return values if self.salvage is None else {**values, "salvage": self.salvage.to_dict()}

    _repr_html_ = text_as_html

    def __str__(self) -> str:
        how = (
            "new log" if self.created else "closed cleanly" if self.clean else "not closed cleanly"
        )
        first_line = (
            f"{how}; offsets {self.log_start_offset} to {self.log_end_offset} in {self.segments}"
            f" segment{'' if self.segments == 1 else 's'}"
        )
        if self.seconds:  # a forecast takes none
            first_line += f"; opened in {self.seconds:.3f} s"
        lines = [first_line]
        if self.scanned_bytes:
            point = f"the recovery point {self.recovery_point}"
            if not self.had_recovery_point:
                point = f"the log start {self.recovery_point}: there was no recovery point"
            lines.append(f"checked {self.scanned_bytes} bytes, from {point}")
        if self.rewritten_bytes:
            lines.append(
                f"wrote {self.rewritten_bytes} bytes again, and synced them"
                if self.rewritten
                else f"synced {self.rewritten_bytes} bytes, to be written again before a change"
            )
        if self.truncated_from_offset is not None:
            lines.append(
                f"cut {self.truncated_bytes} bytes from offset {self.truncated_from_offset} on"
            )
        if self.reason:
            lines.append(f"reason: {self.reason}")
        for title, names in (
            ("quarantined segments", self.set_aside),
            ("kept in quarantine", self.quarantined),
            ("rebuilt", self.rebuilt),
        ):
            if names:
                lines.append(f"{title}: {', '.join(names)}")
        if self.removed:  # a kill during a compaction may leave hundreds
            lines.append(f"removed: {listed(self.removed)}")
        lines += [f"warning: {text}" for text in self.warnings]
        return "\n".join(lines)
