"""A sealed segment compared with its checksum sidecar: bytes that no batch's checksum covers.

A difference is damage where this library alone has written since: it takes the sidecar away before
it changes the segment [DUR-60]. Where a broker may have written, or compacted, it is only told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from segstore._core import SegmentContext
from segstore.errors import (
    CorruptCheckpointError,
    LimitExceededError,
    LogNotFoundError,
    NotALogError,
)
from segstore.log.files.checksum_sidecar import (
    BLOCK_BYTES,
    MAX_SIDECAR_BYTES,
    ChecksumSidecar,
    sidecar_name,
)
from segstore.log.files.partition_directory import file_name
from segstore.log.findings.finding import Action, Finding, FindingCode, Records
from segstore.log.local.checksum_sidecars import checksums_of
from segstore.log.local.segment import Segment
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from segstore._core import Directory

_LOOKS: Final = 3


def check_sidecar(
    directory: Directory, base_offset: int, end_position: int | None = None
) -> Finding | None:
    """Compare the ``.log`` of a sealed segment with its sidecar; None where it fits.

    Parameters
    ----------
    directory : Directory
        Of the partition.
    base_offset : int
        Of the segment.
    end_position : int or None
        Where an open for writing cuts the file: what lies behind is not compared.

    Raises
    ------
    LogNotFoundError
        The segment has no sidecar, or was deleted meanwhile.
    """
    name = sidecar_name(base_offset)
    for _ in range(_LOOKS):
        data = _read(directory, name)
        found = _compare(directory, base_offset, data, end_position)
        # its writer, perhaps of another process, takes it away before the bytes change
        if found is None or _read(directory, name) == data:
            return found
    raise LogNotFoundError("the sidecar is another one at each look", file=name)


def _read(directory: Directory, name: str) -> bytes:
    try:
        return directory.read_file(name, MAX_SIDECAR_BYTES)
    except (LimitExceededError, NotALogError):
        return b""  # it is none: as one without a byte


def _compare(
    directory: Directory, base_offset: int, data: bytes, end_position: int | None
) -> Finding | None:
    try:
        sidecar = ChecksumSidecar.parse(data, base_offset)
    except CorruptCheckpointError as error:
        return Finding(
            code=FindingCode.SIDECAR_CORRUPT,
            file=sidecar_name(base_offset),
            position=error.position,
            found=str(error),
            action=Action.RECOVER,
            repaired=True,
        )
    log_name = file_name(base_offset, "log")
    size = directory.info(log_name).size
    if end_position is not None:
        size = min(size, end_position)
    checksums = tuple(checksums_of(directory, log_name, size))
    if size == sidecar.size_bytes and checksums == sidecar.checksums:
        return None
    return _difference(directory, sidecar, size, checksums)


def _difference(
    directory: Directory, sidecar: ChecksumSidecar, size: int, checksums: tuple[int, ...]
) -> Finding:
    """Return the finding of the bytes from the first to the last that are not as they were."""
    begin, end = sorted((size, sidecar.size_bytes))
    blocks = [
        block
        for block, (now, then) in enumerate(zip(checksums, sidecar.checksums, strict=False))
        if now != then and (size == sidecar.size_bytes or (block + 1) * BLOCK_BYTES <= begin)
    ]
    if blocks:
        begin = blocks[0] * BLOCK_BYTES
    if blocks and size == sidecar.size_bytes:
        end = min((blocks[-1] + 1) * BLOCK_BYTES, end)
    first, next_offset = _offsets_within(directory, sidecar, begin, end)
    return Finding(
        code=FindingCode.SIDECAR_DIFFERS,
        file=file_name(sidecar.base_offset, "log"),
        position=begin,
        size_bytes=end - begin,
        first_offset=first,
        last_offset=max(first, next_offset - 1),
        found=f"{size} bytes, which differ from byte {begin} to byte {end - 1}",
        expected=f"{sidecar.size_bytes} bytes, as they were when the segment was sealed",
        records=Records.WRONG,
        action=Action.RESTORE,
    )


def _offsets_within(
    directory: Directory, sidecar: ChecksumSidecar, begin: int, end: int
) -> tuple[int, int]:
    """Return the first offset of a range of bytes and the next one, by the batches around it."""
    context = SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
    segment = Segment(context, sidecar.base_offset)
    try:
        headers = np.concatenate([table for table, _ in segment.scan_windows(check_crc=False)])
    finally:
        segment.close_quietly()
    before = headers["last_offset"][headers["position"] + headers["size_bytes"] <= begin].tolist()
    behind = headers["base_offset"][headers["position"] >= end].tolist()
    first = before[-1] + 1 if before else sidecar.base_offset
    return first, behind[0] if behind else sidecar.next_offset
