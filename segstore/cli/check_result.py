"""What a check of a log has to say, in words that a person can act on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from segstore.log.recovery.forecast import OpenForecast
from segstore.log.recovery.recovery_report import RecoveryReport

if TYPE_CHECKING:
    from segstore.log.recovery.quarantined_file import QuarantinedFile

OPEN_REBUILDS = "the next open for writing builds it anew; `segstore recover` does that now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it should be."""

    file: str
    position: int | None = None
    """Byte in the file."""
    offset: int | None = None
    """Record offset concerned."""
    what: str
    meaning: str
    advice: str
    repaired: bool | None = None
    """Whether `recover` makes it good; None = nothing is done about it."""

    def __str__(self) -> str:
        where = self.file
        if self.position is not None:
            where += f", byte {self.position}"
        if self.offset is not None:
            where += f", offset {self.offset}"
        return f"{where}: {self.what}\n    means: {self.meaning}\n    to do: {self.advice}"


@dataclass(slots=True)
class PartitionCheck:
    """What the check of one partition saw."""

    path: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sidecars: int = 0
    """Segments that are, byte for byte, what their checksum sidecar says."""
    quarantined: list[QuarantinedFile] = field(default_factory=list)
    """What opens for writing took out of the log; it is no part of it any more."""
    forecast: OpenForecast = field(default_factory=lambda: OpenForecast(report=RecoveryReport()))
    """What an open for writing would do, told by the loader itself."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        values = {known.name: getattr(self, known.name) for known in fields(self)}
        values["findings"] = [asdict(finding) for finding in self.findings]
        values["quarantined"] = [file._asdict() for file in self.quarantined]
        values["forecast"] = self.forecast.to_dict()
        return values
