"""What a check of a partition saw: counts, findings, and what opens had taken out of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from segstore.log.findings.finding import FindingCode
from segstore.log.findings.finding_text import finding_line, finding_text, finding_values
from segstore.log.recovery.forecast import OpenForecast
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.notebook import text_as_html

if TYPE_CHECKING:
    from segstore.log.findings.finding import Finding
    from segstore.log.recovery.quarantined_file import QuarantinedFile


@dataclass(slots=True, kw_only=True)
class SegmentCheck:
    """What was seen of one segment."""

    base_offset: int
    next_offset: int
    """Behind its last good batch."""
    size_bytes: int
    valid_bytes: int
    """Up to the first byte that is no batch of the log."""
    batches: int
    records: int
    """In the good batches, as far as these can be decoded."""
    uncounted_batches: int = 0
    """Good batches that had to be decoded to count their records, and could not be."""
    fits_sidecar: bool = False
    """It has a checksum sidecar, and is byte for byte what that says [DUR-60]."""


@dataclass(slots=True, kw_only=True)
class VerifyReport:
    """What was found in a partition."""

    path: str
    segments: list[SegmentCheck] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """What is wrong, lost records first; each with a code."""
    notes: list[str] = field(default_factory=list)
    """What is not wrong, and worth knowing."""
    quarantined: list[QuarantinedFile] = field(default_factory=list)
    """What opens for writing took out of the log; it is no part of it any more."""
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    seconds: float = 0.0
    forecast: OpenForecast = field(default_factory=lambda: OpenForecast(report=RecoveryReport()))
    """What an open for writing would do."""
    repair: RecoveryReport = field(default_factory=RecoveryReport)
    """What `segstore recover` would report: what the open does, and the rest that it repairs.

    It says nothing of a log that `recover` refuses.
    """

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def blocking_file(self) -> str | None:
        """Name of a file in whose place something else stands: `recover` does nothing then."""
        is_none = FindingCode.FILE_IS_NO_FILE
        return next((one.file for one in self.findings if one.code is is_none), None)

    @property
    def proofs(self) -> set[str]:
        """Names of the last segment's indexes that may prove a loss: `recover` keeps them."""
        corrupt = FindingCode.INDEX_CORRUPT
        return {one.file for one in self.findings if one.code is corrupt and one.lost}

    @property
    def is_refused(self) -> bool:
        """Whether `recover` changes nothing: the open is refused, or there is no log to repair."""
        forecast = self.forecast
        is_opened = forecast.error is None and not forecast.report.created
        return not is_opened or self.blocking_file is not None

    @property
    def problems(self) -> list[str]:
        """What is wrong, a sentence each."""
        return [finding_line(finding) for finding in self.findings]

    @property
    def batches(self) -> int:
        """Good batches."""
        return sum(check.batches for check in self.segments)

    @property
    def records(self) -> int:
        """Records in them; markers that end transactions are none."""
        return sum(check.records for check in self.segments)

    @property
    def uncounted_batches(self) -> int:
        """Good batches whose records are not counted: damaged inside, or a codec is missing."""
        return sum(check.uncounted_batches for check in self.segments)

    @property
    def sidecars(self) -> int:
        """Segments that are, byte for byte, what their checksum sidecar says [DUR-60]."""
        return sum(check.fits_sidecar for check in self.segments)

    @property
    def size_bytes(self) -> int:
        """Bytes of all ``.log`` files."""
        return sum(check.size_bytes for check in self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return {
            "path": self.path,
            "ok": self.ok,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "recovery_point": self.recovery_point,
            "batches": self.batches,
            "records": self.records,
            "size_bytes": self.size_bytes,
            "sidecars": self.sidecars,
            "seconds": self.seconds,
            "segments": [asdict(check) for check in self.segments],
            "findings": [finding_values(finding, self.path) for finding in self.findings],
            "problems": self.problems,
            "quarantined": [file._asdict() for file in self.quarantined],
            "notes": self.notes,
            "forecast": self.forecast.to_dict(),
            "repair": self.repair.to_dict(),
        }

    _repr_html_ = text_as_html

    def __str__(self) -> str:
        summary = (
            f"{len(self.segments)} segments, {self.batches} batches, {self.records} records,"
            f" {self.size_bytes} bytes in {self.seconds:.3f} s: "
        )
        verdict = "all good" if self.ok else f"{len(self.findings)} problems"
        findings = [finding_text(finding, self.path) for finding in self.findings]
        taken_out = [f"quarantine: {file}" for file in self.quarantined]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([f"{summary}{verdict}", *findings, *taken_out, *notes])
