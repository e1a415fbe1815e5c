"""What is inside batches whose own bounds and CRC are right: the records, counted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from segstore.cli.check_result import Finding
from segstore.cli.output import count_of
from segstore.log.files.partition_directory import file_name

if TYPE_CHECKING:
    from segstore._core import BatchHeaders, Directory
    from segstore.cli.check_result import PartitionCheck


def check_records(
    check: PartitionCheck, directory: Directory, base_offset: int, rows: BatchHeaders
) -> None:
    """Add the records of the segment *base_offset* to *check*, and the batches that hide theirs."""
    from segstore.records.compression import codec_table
    from segstore.records.records_count import count_records

    name = file_name(base_offset, "log")
    found = count_records(rows, partial(directory.read_range, name), codec_table())
    check.records += found.total
    damage = [error for _, error in found.damaged]
    for row, error in found.damaged:
        check.findings.append(
            Finding(
                file=name,
                position=int(rows["position"][row]),
                offset=int(rows["base_offset"][row]),
                what=error.message,
                meaning="the batch was written like this, its CRC is right: its records cannot be "
                "read, nor be counted; those of others can",
                advice=f"restore this file from a copy: `segstore recover {check.path}` leaves it",
                repaired=False,
            )
        )
    others = [error for _, error in found.uncounted if error not in damage]
    if others:
        batches = count_of(len(others), "batch", "batches")
        check.notes.append(f"{name}: the records of {batches} are not counted: {others[0]}")
