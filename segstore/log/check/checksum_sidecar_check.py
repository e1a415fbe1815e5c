"""A sealed segment compared with its checksum sidecar: bytes that no batch's checksum covers.

A difference is damage where this library alone has written since: it takes the sidecar away before
it changes the segment [DUR-60]. Where a broker may have written, or compacted, it is only told.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

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
from segstore.log.local.checksum_sidecars import checksums_of
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import BatchHeaders, Directory
    from segstore.log.local.segment import Segment

_LOOKS: Final = 3
_RANGES_TOLD: Final = 3


class SidecarCheck(NamedTuple):
    """What a comparison has found.

    Attributes
    ----------
    fits : bool
        Every byte is as it was when the segment was sealed.
    file : str
        What is not as it should be: the ``.log``, or a sidecar that cannot be read.
    position, offset : int or None
        The first byte of it, and the offset at or below the first record concerned.
    what : str
        The rest, for a person.
    is_problem : bool
        False where the sidecar may be that of other bytes.
    """

    fits: bool
    file: str
    position: int | None = None
    offset: int | None = None
    what: str = ""
    is_problem: bool = False


def check_sidecar(
    directory: Directory,
    base_offset: int,
    headers: Callable[[], BatchHeaders],
    *,
    is_believed: bool,
    end_position: int | None = None,
) -> SidecarCheck | None:
    """Compare the ``.log`` of a sealed segment with its sidecar; None where it has none.

    Parameters
    ----------
    directory : Directory
        Of the partition.
    base_offset : int
        Of the segment.
    headers : callable
        Gives the headers of its batches, as far as they can be read; called for a difference only.
    is_believed : bool
        This library alone has written the log since the sidecar [DUR-64].
    end_position : int or None
        Where an open for writing cuts the file: what lies behind is not compared.
    """
    name = sidecar_name(base_offset)
    for _ in range(_LOOKS):
        data = _read(directory, name)
        if data is None:
            return None
        found = _compare(
            directory, base_offset, data, headers, end_position, is_believed=is_believed
        )
        # its writer, perhaps of another process, takes it away before the bytes change
        if found is not None and (found.fits or _read(directory, name) == data):
            return found
    return None


def _read(directory: Directory, name: str) -> bytes | None:
    try:
        return directory.read_file(name, MAX_SIDECAR_BYTES)
    except LogNotFoundError:
        return None
    except (LimitExceededError, NotALogError):
        return b""  # it is none: as one without a byte


def _compare(  # noqa: PLR0913 - the file, and what its sidecar is worth
    directory: Directory,
    base_offset: int,
    data: bytes,
    headers: Callable[[], BatchHeaders],
    end_position: int | None,
    *,
    is_believed: bool,
) -> SidecarCheck | None:
    log_name = file_name(base_offset, "log")
    try:
        sidecar = ChecksumSidecar.parse(data, base_offset)
    except CorruptCheckpointError as error:
        return SidecarCheck(
            fits=False,
            file=sidecar_name(base_offset),
            position=error.position,
            what=str(error),
            is_problem=True,
        )
    try:
        size = directory.info(log_name).size
        if end_position is not None:
            size = min(size, end_position)
        checksums = tuple(checksums_of(directory, log_name, size))
    except LogNotFoundError:
        return None  # deleted meanwhile
    if size == sidecar.size_bytes and checksums == sidecar.checksums:
        return SidecarCheck(fits=True, file=log_name)
    if size == sidecar.size_bytes:
        position, offset, what = _changed(sidecar, checksums, headers())
    else:
        position, offset, what = _resized(sidecar, size, headers())
    return SidecarCheck(
        fits=False,
        file=log_name,
        position=position,
        offset=offset,
        what=what,
        is_problem=is_believed,
    )


def all_headers(segment: Segment) -> BatchHeaders:
    """Return the headers of the batches of a segment, as far as they can be read."""
    tables = [headers for headers, _ in segment.scan_windows(check_crc=False)]
    return np.concatenate(tables)


def _resized(sidecar: ChecksumSidecar, size: int, headers: BatchHeaders) -> tuple[int, int, str]:
    """Say what is too little or too much."""
    end = int(headers["last_offset"][-1]) + 1 if len(headers) else sidecar.base_offset
    what = f"the .log has {size} bytes, and had {sidecar.size_bytes} when it was sealed"
    if size < sidecar.size_bytes and end < sidecar.next_offset:
        what += f": records from offset {end} to {sidecar.next_offset - 1} are missing at its end"
    return min(size, sidecar.size_bytes), min(end, sidecar.next_offset), what


def _changed(
    sidecar: ChecksumSidecar, checksums: tuple[int, ...], headers: BatchHeaders
) -> tuple[int, int, str]:
    """Say which bytes are others than those that were sealed, and between which offsets."""
    blocks = [
        block
        for block, (now, then) in enumerate(zip_longest(checksums, sidecar.checksums))
        if now != then
    ]
    ranges: list[tuple[int, int]] = []
    for block in blocks:
        begin, end = block * BLOCK_BYTES, min((block + 1) * BLOCK_BYTES, sidecar.size_bytes)
        if ranges and ranges[-1][1] == begin:
            begin = ranges.pop()[0]
        ranges.append((begin, end))
    told = [
        f"bytes {begin} to {end - 1} (offsets {first} to {last})"
        for begin, end in ranges[:_RANGES_TOLD]
        for first, last in [_offsets_within(sidecar, headers, begin, end)]
    ]
    if len(ranges) > _RANGES_TOLD:
        told.append(f"{len(ranges) - _RANGES_TOLD} ranges more")
    what = f"{', '.join(told)} of the .log changed after it was sealed"
    return ranges[0][0], _offsets_within(sidecar, headers, *ranges[0])[0], what


def _offsets_within(
    sidecar: ChecksumSidecar, headers: BatchHeaders, begin: int, end: int
) -> tuple[int, int]:
    """Return the first and last offset of a range of bytes, by the batches around it."""
    starts, ends = headers["position"], headers["position"] + headers["size_bytes"]
    before = int(np.searchsorted(ends, begin, side="right"))
    behind = int(np.searchsorted(starts, end))
    first = int(headers["last_offset"][before - 1]) + 1 if before else sidecar.base_offset
    next_offset = (
        int(headers["base_offset"][behind]) if behind < len(headers) else sidecar.next_offset
    )
    return first, max(first, next_offset - 1)
