"""What the checksum sidecar of a sealed segment tells a person [DUR-60]."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from segstore.cli.check_result import Finding, PartitionCheck
from segstore.log.check.checksum_sidecar_check import check_sidecar
from segstore.log.check.log_verifier import MAY_BE_OF_OTHERS, all_headers
from segstore.log.files.checksum_sidecar import sidecar_name
from segstore.log.local.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import BatchHeaders, Directory, SegmentContext
    from segstore.cli.state_check import PartitionState
    from segstore.log.check.checksum_sidecar_check import SidecarCheck


def compare_with_sidecars(
    check: PartitionCheck,
    directory: Directory,
    context: SegmentContext,
    base_offsets: Iterable[int],
    state: PartitionState,
) -> list[Finding]:
    """Return what is found of sealed segments; where it may be no damage, it is a note of *check*.

    Parameters
    ----------
    check : PartitionCheck
        Has what the segments' batches say already.
    directory, context : Directory, SegmentContext
        Of the partition.
    base_offsets : iterable of int
        Of the sealed segments.
    state : PartitionState
        Tells whether a broker may have written since.
    """
    findings = []
    for base_offset in base_offsets:
        found = check_sidecar(
            directory,
            base_offset,
            partial(_headers, context, base_offset),
            is_believed=state.log_state is not None,
        )
        if found is None:
            continue
        if found.fits:
            check.sidecars += 1
        elif found.is_problem:
            findings.append(_finding(check, base_offset, found))
        else:
            check.notes.append(
                f"{found.file}: {found.what}; {MAY_BE_OF_OTHERS}, and the next open for writing"
                f" removes {sidecar_name(base_offset)}"
            )
    return findings


def _headers(context: SegmentContext, base_offset: int) -> BatchHeaders:
    segment = Segment(context, base_offset)
    try:
        return all_headers(segment)
    finally:
        segment.close_quietly()


def _finding(check: PartitionCheck, base_offset: int, found: SidecarCheck) -> Finding:
    sidecar = sidecar_name(base_offset)
    anew = f"`segstore recover {check.path} --checksum-sidecars` writes it anew"
    if found.file != sidecar:
        return _damage(check, sidecar, found, anew)
    return Finding(
        file=found.file,
        position=found.position,
        what=found.what,
        meaning="no record is touched: the file only says what the segment was like",
        advice=anew,
        repaired=False,
    )


def _damage(check: PartitionCheck, sidecar: str, found: SidecarCheck, anew: str) -> Finding:
    is_reported = any(finding.file == found.file for finding in check.findings)
    meaning = (
        "bytes of the segment were changed by the disk, or past this library, after they were safe"
    )
    if not is_reported:
        meaning += (
            "; every batch that is there passes its own checksum, which leaves out base offset, "
            "length, leader epoch and magic: one of them is wrong, or whole batches are others or "
            "missing, and readers do not notice"
        )
    return Finding(
        file=found.file,
        position=found.position,
        offset=found.offset,
        what=found.what,
        meaning=meaning,
        advice=(
            f"restore this file from a copy; if it is as it should be, remove {sidecar}, and {anew}"
        ),
        repaired=False,
    )
