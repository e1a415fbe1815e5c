"""What the tests of salvage share: salvaging, and what must come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import segstore
from tests.kits.damaged_logs import RECORDS_COUNT, SETTINGS, expected_values, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import SalvageReport
    from tests.kits.damaged_logs import LogDirectory

PAYLOAD = 70  # behind the header of a batch


def salvaged(
    directory: LogDirectory, target: Path, **settings: object
) -> tuple[SalvageReport, list[tuple[int, bytes]]]:
    """Salvage, and see that the source is as it was; returns the report and the records."""
    before = directory.snapshot()
    report = segstore.salvage(directory.path, target, **{**SETTINGS, **settings})
    assert directory.snapshot() == before
    with segstore.open(target, **SETTINGS) as log:
        assert log.report.clean
        assert log.verify().ok
        assert log.log_end_offset == report.log_end_offset
        return report, values_of(log)


def without(*offsets: int, end: int = RECORDS_COUNT) -> list[tuple[int, bytes]]:
    """Return what `values_of` gives when these offsets are lost."""
    return [pair for pair in expected_values(0, end) if pair[0] not in offsets]


def names_above(target: Path) -> list[str]:
    """Return what is beside the target, which is there only when it is whole."""
    return sorted(path.name for path in target.parent.iterdir()) if target.parent.exists() else []
