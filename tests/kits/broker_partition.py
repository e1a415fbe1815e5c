"""A partition of three segments as a broker leaves it; a ``.log`` of it that was cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import segstore
from tests.kits.damaged_logs import batches_of
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT_BASES = (0, 20, 40)


def segment_file(path: Path, base: int, kind: str) -> Path:
    return path / f"{base:020d}.{kind}"


def write_segments(path: Path) -> None:
    """Three segments of 20 records in batches of one; an index entry for every third batch."""
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in SEGMENT_BASES[1:]:
                log.roll()
            log.append([(TIME + number, b"key", b"value %d" % number)])


def leave_as_a_broker(path: Path) -> None:
    """Leave what a broker leaves behind a clean stop."""
    for name in (".segstore", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path / name).unlink()
    (path.parent / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    line = f"{path.name.replace('-', ' ')} 60"
    (path.parent / "recovery-point-offset-checkpoint").write_text(f"0\n1\n{line}\n")


def cut_segment(path: Path, base: int = 20, batches: int = 10) -> None:
    """Cut a ``.log`` between two batches."""
    log = segment_file(path, base, "log")
    os.truncate(log, batches_of(log)[batches].position)
